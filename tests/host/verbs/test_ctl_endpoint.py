"""Ports, EV probes, self-probes, port status updates."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import pytest

from host.config import ForwardingMode
from host.nic import Nic
from host.verbs import (
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PortState,
    TimedOutError,
    TryAgainError,
)
from host.verbs.ctl import (
    Control,
    EpBatch,
    EpOpType,
    EpReq,
    Ev,
    PortAdminState,
    PortAttrMask,
    PortCtlAttr,
)
from host.wire import EndpointRequest, EndpointResponse, decode
from host.wire.constants import EndpointOp
from tests.host.verbs.world import World, connected
from topologies.addressing import AddressPlan, encode_ev

PROBE, UPDATE = EpOpType
MS = 10**6
EV = Ev(encode_ev(2, 1), 3)
DISABLED = PortCtlAttr(PortAdminState.DISABLED)
ENABLED = PortCtlAttr(PortAdminState.ENABLED)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def ctl(world: World) -> Control:
    return world.near.context.ctl


def seen(world: World) -> list[tuple[int, EndpointRequest | EndpointResponse]]:
    """Endpoint packets sent from now on, with their ports."""
    packets: list[tuple[int, EndpointRequest | EndpointResponse]] = []

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        packet = decode(frame)
        if isinstance(packet, EndpointRequest | EndpointResponse):
            packets.append((port, packet))

    world.network.watch = watch
    return packets


def probe(world: World, *reqs: EpReq, tc: int | None = None, timeout: int = 2 * MS) -> EpBatch:
    return world.near.context.ctl.ep_batch_send(tc, PROBE, reqs, timeout)


class TestProbes:
    def test_of_a_nic_that_is_no_peer(self, world: World) -> None:
        packets = seen(world)
        gid = world.far.device.gid
        kicks = world.near.driver.kicks
        batch = probe(world, EpReq(7, gid, EV), EpReq(1, gid, Ev(0, 1)), tc=4)
        assert world.near.driver.kicks > kicks
        assert not batch.done
        with pytest.raises(TryAgainError, match="2 response"):
            batch.result()
        calls: list[int] = []
        batch.on_done = lambda: calls.append(1)
        world.run(lambda: batch.done)
        assert calls == [1]
        answers = {rsp.req_id: rsp for rsp in batch.result()}
        assert set(answers) == {7, 1}
        # One way takes 1,000 ns on this network
        assert answers[7].rtt == 2000 and not answers[7].adj_svc_time
        requests = [
            (port, packet) for port, packet in packets if isinstance(packet, EndpointRequest)
        ]
        assert [(port, packet.envelope.ev, packet.envelope.dscp) for port, packet in requests] == [
            (0, 0, 4),
            (2, EV.val, 4),
        ]

    def test_of_a_peer(self) -> None:
        world = connected()
        batch = probe(world, EpReq(1, world.far.device.gid, EV))
        world.run(lambda: batch.done)
        assert [rsp.req_id for rsp in batch.result()] == [1]

    def test_without_an_answer(self, world: World) -> None:
        gid = world.far.device.gid
        world.network.passes = lambda nic, port, frame: port != 2
        batch = probe(world, EpReq(1, gid, EV), EpReq(2, gid, Ev(0, 1)), timeout=5 * MS)
        world.run(lambda: batch.done)
        assert world.network.now_ns == 5 * MS
        with pytest.raises(TimedOutError, match=r"request\(s\) 1"):
            batch.result()
        assert batch.timed_out == [1]
        assert [rsp.req_id for rsp in batch.responses] == [2]

    def test_an_answer_that_comes_too_late(self, world: World) -> None:
        batch = probe(world, EpReq(1, world.far.device.gid, EV), timeout=1500)
        world.run(for_ns=MS)
        assert batch.done and batch.timed_out == [1] and batch.responses == []

    def test_a_port_that_is_down(self, world: World, ctl: Control) -> None:
        ctl.modify_port(3, DISABLED)
        packets = seen(world)
        batch = probe(world, EpReq(1, world.far.device.gid, EV))
        world.run(lambda: batch.done)
        assert batch.timed_out == [1]
        assert packets == []

    def test_batches_keep_apart(self, world: World) -> None:
        gid = world.far.device.gid
        first, second = probe(world, EpReq(1, gid, EV)), probe(world, EpReq(1, gid, Ev(0, 1)))
        world.run(lambda: first.done and second.done)
        assert len(first.responses) == len(second.responses) == 1

    @pytest.mark.parametrize(
        ("req", "words"),
        [
            ({"req_id": 1 << 16}, "req_id"),
            ({"req_ev": Ev(1 << 32, 1)}, "val"),
            ({"req_ev": Ev(EV.val, 5)}, "port"),
            ({"req_ev": Ev(EV.val, 0)}, "port"),
            ({"req_ev": Ev(EV.val, 1)}, "leaves on port 3, not 1"),
            ({"req_ev": Ev(1 << 20, 1)}, "names no path"),
            ({"dgid": IPv6Address("2001:db8::1")}, "none of the hosts"),
            ({"port_status": 2}, "port_status"),
        ],
    )
    def test_what_is_refused(self, world: World, req: dict[str, Any], words: str) -> None:
        packets = seen(world)
        good = EpReq(5, world.far.device.gid, EV)
        values: dict[str, Any] = {"req_id": 6, "dgid": good.dgid, "req_ev": EV, **req}
        with pytest.raises(InvalidArgumentError, match=words):
            probe(world, good, EpReq(**values))
        world.run(for_ns=MS)
        assert packets == []

    def test_batches_that_are_refused(self, world: World) -> None:
        req = EpReq(5, world.far.device.gid, EV)
        with pytest.raises(InvalidArgumentError, match="no requests"):
            probe(world)
        with pytest.raises(InvalidArgumentError, match="twice"):
            probe(world, req, req)
        for timeout in (0, 1 << 32):
            with pytest.raises(InvalidArgumentError, match="rsp_timeout"):
                probe(world, req, timeout=timeout)
        with pytest.raises(InvalidArgumentError, match="req_tc"):
            probe(world, req, tc=64)

    def test_too_many(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("host.qp.endpoint.MAX_REQUESTS", 1)
        gid = world.far.device.gid
        with pytest.raises(TryAgainError, match="too many"):
            probe(world, EpReq(1, gid, EV), EpReq(2, gid, EV))
        world.run(for_ns=10 * MS)
        probe(world, EpReq(3, gid, EV))


class TestSelfProbes:
    @pytest.mark.parametrize("uplink", [None, 0, 1])
    def test_there_and_back(self, world: World, ctl: Control, uplink: int | None) -> None:
        packets = seen(world)
        req = ctl.self_probe(9, 2, uplink)
        batch = probe(world, req)
        world.run(lambda: batch.done)
        (rsp,) = batch.result()
        # The request itself comes back: one way on this network
        assert (rsp.req_id, rsp.port, rsp.rtt) == (9, 2, 1000)
        ((port, sent),) = packets
        config = world.near.device.nic.config
        plan = AddressPlan(locator_block=config.locator_block)
        expected = (
            plan.t0_probe(1, config.id) if uplink is None else plan.t1_probe(1, config.id, uplink)
        )
        assert port == 1 and isinstance(sent, EndpointRequest)
        outer = sent.envelope.outer
        assert outer is not None and outer.dst == expected
        assert sent.envelope.inner.dst == sent.envelope.inner.src == config.address

    def test_that_does_not_come_back(self, world: World, ctl: Control) -> None:
        world.network.passes = lambda nic, port, frame: False
        batch = probe(world, ctl.self_probe(1, 1, 0))
        world.run(lambda: batch.done)
        assert batch.timed_out == [1]

    def test_what_is_refused(self, world: World, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="port_num"):
            ctl.self_probe(1, 5)
        with pytest.raises(InvalidArgumentError, match="uplink"):
            ctl.self_probe(1, 1, 2)
        stev = World(forwarding=ForwardingMode.STEV)
        with pytest.raises(NotSupportedError, match="SRv6"):
            stev.near.context.ctl.self_probe(1, 1)
        with pytest.raises(InvalidArgumentError, match="carrier"):
            probe(stev, EpReq(1, stev.far.device.gid, EV, IPv6Address("5f00::1")))

    def test_nobody_elses_packet_is_taken_for_it(self, world: World) -> None:
        packets = seen(world)
        nic = world.near.device.nic
        batch = probe(world, EpReq(1, world.far.device.gid, EV))
        # Our own request, should it come back though it was for another
        world.network.flush()
        assert isinstance(packets[0][1], EndpointRequest)
        assert nic.drops["endpoint request without answer"] == 0
        world.run(lambda: batch.done)
        assert len(batch.result()) == 1


class TestUpdates:
    def test_a_mask_of_ones_own(self) -> None:
        world = connected()
        world.run(for_ns=MS)
        far = world.far.context.ctl
        near_gid = world.near.device.gid
        assert far.query_peer_ports(near_gid) == 0b11110
        packets = seen(world)
        batch = world.near.context.ctl.ep_batch_send(
            None,
            UPDATE,
            [EpReq(1, world.far.device.gid, Ev(0, 1), port_status=0b01110)],
            MS,
        )
        world.run(lambda: batch.done)
        assert [rsp.req_id for rsp in batch.result()] == [1]
        assert far.query_peer_ports(near_gid) == 0b01110
        first = packets[0][1]
        assert isinstance(first, EndpointRequest)
        assert first.erth.op == EndpointOp.PORT_STATUS_UPDATE
        assert first.erth.port_status_mask == 0b01110

    def test_what_is_refused(self, world: World, ctl: Control) -> None:
        gid = world.far.device.gid
        for req, words in (
            (EpReq(1, gid, EV), "needs it"),
            (EpReq(1, gid, EV, port_status=1), "bits 1..4"),
            (EpReq(1, gid, EV, port_status=1 << 5), "bits 1..4"),
            (EpReq(1, world.near.device.gid, EV, port_status=2), "dgid"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                ctl.ep_batch_send(None, UPDATE, [req], MS)

    def test_ports_of_nobody(self, ctl: Control) -> None:
        with pytest.raises(NotFoundError, match="no QP"):
            ctl.query_peer_ports(IPv6Address("::1"))


class TestPorts:
    def test_disabled_and_enabled(self) -> None:
        world = connected()
        world.run(for_ns=MS)
        near, ctl = world.near, world.near.context.ctl
        assert ctl.query_port(1) == ENABLED
        ctl.modify_port(1, DISABLED)
        assert ctl.query_port(1) == DISABLED
        assert ctl.query_port(2) == ENABLED
        assert near.device.query_port(1).state is PortState.DOWN
        world.run(for_ns=MS)
        far = world.far.context.ctl
        assert far.query_peer_ports(near.device.gid) == 0b11100
        memory, mr = world.far.region(100_000)
        near.qp.post_write(1, b"x" * 100_000, mr.addr, mr.rkey)
        world.run(lambda: len(near.cq) > 0)
        assert memory == b"x" * 100_000
        ctl.modify_port(1, ENABLED)
        world.run(for_ns=MS)
        assert near.device.query_port(1).state is PortState.ACTIVE
        assert far.query_peer_ports(near.device.gid) == 0b11110

    def test_link_and_administrator_must_both_want_it_up(self, world: World, ctl: Control) -> None:
        nic = world.near.device.nic
        ctl.modify_port(1, DISABLED)
        nic.set_port_up(0, False, 0)
        nic.set_port_up(0, True, 0)
        assert not nic.ports_up() & 1
        nic.set_port_up(0, False, 0)
        ctl.modify_port(1, ENABLED)
        assert not nic.ports_up() & 1
        nic.set_port_up(0, True, 0)
        assert nic.ports_up() & 1

    def test_what_is_refused(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="port_num"):
            ctl.query_port(0)
        with pytest.raises(InvalidArgumentError, match="port_num"):
            ctl.modify_port(5, DISABLED)
        for mask in (PortAttrMask(0), PortAttrMask(3)):
            with pytest.raises(InvalidArgumentError, match="attr_mask"):
                ctl.query_port(1, mask)
