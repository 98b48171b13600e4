"""Devices, contexts and ports."""

from __future__ import annotations

import errno
from ipaddress import IPv6Address

import pytest

from host.config import QpDefaults
from host.verbs import (
    AsyncEventType,
    BusyError,
    ClosedError,
    ContextAttr,
    DeviceCap,
    InvalidArgumentError,
    MrcError,
    NotFoundError,
    NotPermittedError,
    NotSupportedError,
    PortState,
    ProtocolVersion,
    QpInitAttr,
    TimedOutError,
    api_version,
    query_version,
)
from tests.host.network import FABRIC
from tests.host.verbs.world import World


def test_query_device() -> None:
    world = World()
    device = world.near.device
    attr = device.query_device()
    assert attr.mrc_protocol_version is ProtocolVersion.VERSION_1
    assert (attr.max_mpr, attr.mpr_resolution, attr.max_wimm) == (255, 1, 32767)
    assert attr.cap == DeviceCap.TRIM_NACK | DeviceCap.DYNAMIC_MPR
    assert device.name == "h0"
    assert device.gid == IPv6Address(device.nic.config.address)
    assert repr(device) == "Device(h0)"


def test_a_nic_without_trim_nacks_says_so() -> None:
    world = World(qp=QpDefaults(trim_nack=False))
    assert DeviceCap.TRIM_NACK not in world.near.device.query_device().cap


def test_query_version() -> None:
    versions = query_version()
    assert versions.current == api_version(1, 0, 1) == 0x0100_0001
    assert versions.last_supported <= versions.current


@pytest.mark.parametrize("used", [api_version(0, 9, 0), api_version(2, 0, 0)])
def test_other_versions_are_refused(used: int) -> None:
    device = World().near.device
    with pytest.raises(NotSupportedError, match="mrc_api_version_used"):
        device.open_context(ContextAttr(mrc_api_version_used=used))


def test_a_version_in_between_is_fine() -> None:
    device = World().near.device
    with device.open_context(ContextAttr(mrc_api_version_used=api_version(1, 0, 0))) as context:
        assert not context.closed


def test_query_port() -> None:
    world = World(rate_bps=10**11)
    device = world.near.device
    port = device.query_port(FABRIC.planes)
    assert (port.state, port.rate_bps, port.max_mtu_bytes) == (PortState.ACTIVE, 10**11, 4096)
    device.nic.set_port_up(3, False, 0)
    device.nic.set_port_rate(3, 10**9, 0)
    assert device.query_port(4).state is PortState.DOWN
    assert device.query_port(4).rate_bps == 10**9
    assert device.query_port(1).state is PortState.ACTIVE


@pytest.mark.parametrize("port_num", [0, -1, FABRIC.planes + 1])
def test_ports_count_from_1(port_num: int) -> None:
    with pytest.raises(InvalidArgumentError, match="port_num"):
        World().near.device.query_port(port_num)


class TestErrors:
    def test_they_are_os_errors(self) -> None:
        with pytest.raises(OSError) as caught:
            World().near.device.query_port(9)
        assert caught.value.errno == errno.EINVAL
        assert "port_num" in str(caught.value.strerror)

    @pytest.mark.parametrize(
        ("error", "builtin"),
        [
            (InvalidArgumentError, ValueError),
            (NotPermittedError, PermissionError),
            (TimedOutError, TimeoutError),
            (NotFoundError, LookupError),
        ],
    )
    def test_they_are_pythons_too(
        self, error: type[MrcError], builtin: type[BaseException]
    ) -> None:
        raised = error("words")
        assert isinstance(raised, builtin)
        assert (raised.errno, raised.strerror) == (error.code, "words")


class TestContext:
    def test_closing_destroys_what_is_left(self) -> None:
        world = World()
        near = world.near
        mr = near.pd.reg_mr(bytearray(8))
        channel = near.context.create_comp_channel()
        cq = near.context.create_cq(1, channel=channel)
        hint = near.context.create_qp_hint()
        near.context.close()
        for resource in (near.pd, near.cq, near.qp, mr, channel, cq, hint):
            assert resource.closed
        assert not near.device.nic.qps
        assert len(near.device.nic.memory) == 0
        near.context.close()

    def test_nothing_works_in_a_closed_context(self) -> None:
        context = World().near.context
        context.close()
        assert context.closed
        for call in (
            context.alloc_pd,
            context.create_comp_channel,
            lambda: context.create_cq(1),
            context.create_qp_hint,
            context.get_async_event,
            lambda: context.ctl,
            context.__enter__,
        ):
            with pytest.raises(ClosedError, match="context"):
                call()

    def test_several_contexts_keep_apart(self) -> None:
        world = World()
        near = world.near
        with near.device.open_context() as other:
            cq = other.create_cq(1)
            with pytest.raises(InvalidArgumentError, match="CQ belongs to another context"):
                near.context.create_qp(QpInitAttr(near.pd, cq))
            pd = other.alloc_pd()
            assert pd.handle != near.pd.handle
        assert cq.closed and pd.closed
        assert not near.cq.closed

    def test_at_an_error_the_context_cleans_up_and_the_error_is_seen(self) -> None:
        context = World().near.device.open_context()
        pd = context.alloc_pd()
        with pytest.raises(ZeroDivisionError), context, pd:
            pd.reg_mr(bytearray(8))
            raise ZeroDivisionError
        assert context.closed and pd.closed

    def test_without_an_error_a_block_does_not_hide_what_is_left(self) -> None:
        context = World().near.context
        with pytest.raises(BusyError, match=r"1 memory region"), context.alloc_pd() as pd:
            pd.reg_mr(bytearray(8))

    def test_ctl_is_for_the_privileged(self) -> None:
        world = World(net_admin=False)
        with pytest.raises(NotPermittedError, match="net_admin"):
            _ = world.near.context.ctl


class TestPortEvents:
    def test_ports_of_ones_own(self) -> None:
        world = World()
        context = world.near.context
        world.near.device.nic.set_port_up(2, False, 0)
        world.near.device.nic.set_port_up(2, True, 0)
        down, up = context.get_async_event(), context.get_async_event()
        assert down is not None and up is not None
        assert (down.event_type, down.element) == (AsyncEventType.PORT_ERR, 3)
        assert (up.event_type, up.element) == (AsyncEventType.PORT_ACTIVE, 3)
        assert context.get_async_event() is None

    def test_ports_of_a_peer(self) -> None:
        world = World().connect()
        world.run(for_ns=10**6)
        far = world.far.device
        far.nic.set_port_up(0, False, world.network.now_ns)
        world.run(for_ns=10**6)
        event = world.near.context.get_async_event()
        assert event is not None
        assert event.event_type is AsyncEventType.PEER_PORTS
        assert event.element == (int(far.gid), 0b1110)

    def test_all_contexts_hear_of_ports(self) -> None:
        world = World()
        device = world.near.device
        notified = []
        with device.open_context() as other:
            other.on_async_event = lambda: notified.append(1)
            device.nic.set_port_up(0, False, 0)
            assert device.dispatch() == 1
            assert notified == [1]
            assert other.get_async_event() is not None
        assert world.near.context.get_async_event() is not None
        device.nic.set_port_up(0, True, 0)
        device.dispatch()
        assert notified == [1]
