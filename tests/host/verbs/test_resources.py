"""Protection domains, regions, hints, and who may be destroyed when."""

from __future__ import annotations

import errno

import pytest

from host.memory import FIRST_VIRTUAL_ADDRESS
from host.verbs import (
    Access,
    BusyError,
    ClosedError,
    IbvQpAttr,
    InvalidArgumentError,
    MrcQpAttr,
    NoMemoryError,
    QpAttrMask,
    QpHintAttr,
    QpHintAttrMask,
    QpInitAttr,
    QpState,
)
from tests.host.verbs.world import World


class TestRegions:
    def test_what_it_says_of_itself(self) -> None:
        near = World().near
        memory, mr = near.region(100)
        assert (mr.length, mr.lkey, mr.access) == (
            100,
            mr.rkey,
            Access.LOCAL_WRITE | Access.REMOTE_WRITE,
        )
        assert mr.addr >= FIRST_VIRTUAL_ADDRESS
        assert (mr.info.addr, mr.info.length, mr.info.rkey) == (mr.addr, 100, mr.rkey)
        assert f"{mr.rkey:#010x}" in repr(mr)
        mr.view(1, 2)[:] = b"ab"
        assert memory[:4] == b"\0ab\0"

    def test_iova(self) -> None:
        mr = World().near.pd.reg_mr(bytearray(8), iova=0x1000)
        assert mr.addr == 0x1000

    def test_a_memoryview_and_a_read_only_one(self) -> None:
        pd = World().near.pd
        assert pd.reg_mr(memoryview(bytearray(8))[2:6]).length == 4
        assert pd.reg_mr(memoryview(b"abc"), Access.NONE).length == 3

    @pytest.mark.parametrize(
        ("buffer", "access", "words"),
        [
            (bytearray(), Access.LOCAL_WRITE, "empty"),
            (memoryview(b"abc"), Access.LOCAL_WRITE, "read-only"),
            (memoryview(bytearray(8))[::2], Access.LOCAL_WRITE, "contiguous"),
            (bytearray(8), Access.REMOTE_WRITE, "REMOTE_WRITE needs LOCAL_WRITE"),
            (bytearray(8), Access(4), "access"),
        ],
    )
    def test_what_cannot_be_registered(
        self, buffer: bytearray | memoryview, access: Access, words: str
    ) -> None:
        near = World().near
        with pytest.raises(InvalidArgumentError, match=words):
            near.pd.reg_mr(buffer, access)
        assert len(near.device.nic.memory) == 0
        near.qp.close()
        near.pd.close()

    @pytest.mark.parametrize("iova", [-1, 1 << 64, (1 << 64) - 7])
    def test_addresses_without_room(self, iova: int) -> None:
        with pytest.raises(InvalidArgumentError):
            World().near.pd.reg_mr(bytearray(8), iova=iova)

    @pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 101), (100, 1), (101, 0), (0, -1)])
    def test_views_stay_inside(self, offset: int, length: int) -> None:
        _, mr = World().near.region(100)
        with pytest.raises(InvalidArgumentError):
            mr.view(offset, length)

    def test_after_deregistration_the_buffer_is_its_owners_alone(self) -> None:
        near = World().near
        memory, mr = near.region(8)
        with pytest.raises(BufferError):
            memory.append(1)
        mr.close()
        memory.append(1)
        assert near.device.nic.memory.remote_write(mr.rkey, mr.addr, 1, near.pd.handle) is None
        with pytest.raises(ClosedError, match="memory region"):
            mr.view()
        mr.close()

    def test_no_region_in_a_closed_domain(self) -> None:
        near = World().near
        pd = near.context.alloc_pd()
        pd.close()
        with pytest.raises(ClosedError, match="protection domain"):
            pd.reg_mr(bytearray(8))


class TestLifetimes:
    def test_a_domain_with_regions(self) -> None:
        pd = World().near.context.alloc_pd()
        mr = pd.reg_mr(bytearray(8))
        with pytest.raises(BusyError, match="1 memory region") as caught:
            pd.close()
        assert caught.value.errno == errno.EBUSY
        assert not pd.closed
        mr.close()
        pd.close()
        assert pd.closed

    def test_a_domain_and_a_cq_with_queue_pairs(self) -> None:
        near = World().near
        for used in (near.pd, near.cq):
            with pytest.raises(BusyError, match=r"QP"):
                used.close()
        near.qp.close()
        near.pd.close()
        near.cq.close()

    def test_both_cqs_are_in_use(self) -> None:
        near = World().near
        send, recv = near.context.create_cq(1), near.context.create_cq(1)
        qp = near.context.create_qp(QpInitAttr(near.pd, send, recv))
        for cq in (send, recv):
            with pytest.raises(BusyError):
                cq.close()
        qp.close()
        send.close()
        recv.close()

    def test_blocks_from_the_inside_out(self) -> None:
        near = World().near
        context = near.context
        with (
            context.alloc_pd() as pd,
            context.create_comp_channel() as channel,
            context.create_cq(4, channel=channel) as cq,
            context.create_qp(QpInitAttr(pd, cq)) as qp,
            pd.reg_mr(bytearray(4)) as mr,
        ):
            assert qp.state is QpState.RESET
        for resource in (pd, channel, cq, qp, mr):
            assert resource.closed

    def test_a_channel_with_cqs(self) -> None:
        context = World().near.context
        channel = context.create_comp_channel()
        cq = context.create_cq(1, channel=channel)
        with pytest.raises(BusyError, match="1 CQ"):
            channel.close()
        cq.close()
        channel.close()

    def test_of_another_context(self) -> None:
        world = World()
        with pytest.raises(InvalidArgumentError, match="another context"):
            world.near.context.create_qp(QpInitAttr(world.far.pd, world.near.cq))
        channel = world.far.context.create_comp_channel()
        with pytest.raises(InvalidArgumentError, match="another context"):
            world.near.context.create_cq(1, channel=channel)

    def test_as_many_queue_pairs_as_there_may_be(self) -> None:
        near = World(max_qps=1).near
        with pytest.raises(InvalidArgumentError, match="1 QPs, the most"):
            near.context.create_qp(QpInitAttr(near.pd, near.cq))
        near.qp.close()
        near.context.create_qp(QpInitAttr(near.pd, near.cq))


class TestHints:
    def test_query_and_modify(self) -> None:
        hint = World().near.context.create_qp_hint(QpHintAttr(num_qps_per_peer=2))
        hint.modify_qp_hint(QpHintAttr(num_send_peers=3, vendor_cfg=b"x"))
        assert hint.query_qp_hint() == QpHintAttr(2, 3, None, b"x")
        hint.modify_qp_hint(QpHintAttr(5, 6), QpHintAttrMask.NUM_SEND_PEERS)
        assert hint.query_qp_hint(QpHintAttrMask.NUM_SEND_PEERS) == QpHintAttr(num_send_peers=6)
        assert hint.query_qp_hint().num_qps_per_peer == 2

    @pytest.mark.parametrize(
        "attr",
        [
            QpHintAttr(num_qps_per_peer=-1),
            QpHintAttr(num_remote_recv_peers=1 << 31),
            QpHintAttr(vendor_cfg=bytes(129)),
        ],
    )
    def test_out_of_range(self, attr: QpHintAttr) -> None:
        context = World().near.context
        with pytest.raises(InvalidArgumentError):
            context.create_qp_hint(attr)
        hint = context.create_qp_hint()
        with pytest.raises(InvalidArgumentError):
            hint.modify_qp_hint(attr)
        assert hint.query_qp_hint() == QpHintAttr()

    def test_in_the_mask_but_not_given(self) -> None:
        hint = World().near.context.create_qp_hint()
        with pytest.raises(InvalidArgumentError, match="num_send_peers"):
            hint.modify_qp_hint(QpHintAttr(), QpHintAttrMask.NUM_SEND_PEERS)

    def test_in_use(self) -> None:
        near = World().near
        hint = near.context.create_qp_hint()
        near.qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(qp_hint=hint))
        with pytest.raises(BusyError, match="1 QP"):
            hint.close()
        assert near.qp.query_qp()[1].qp_hint is hint
        near.qp.modify_qp(
            IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(), mrc_attr_mask=QpAttrMask.HINT
        )
        assert near.qp.query_qp()[1].qp_hint is None
        hint.close()
        with pytest.raises(ClosedError):
            hint.query_qp_hint()

    def test_a_reset_lets_go_of_it(self) -> None:
        near = World().near
        hint = near.context.create_qp_hint()
        near.qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(qp_hint=hint))
        near.qp.modify_qp(IbvQpAttr(QpState.RESET))
        hint.close()

    def test_of_another_context(self) -> None:
        world = World()
        hint = world.far.context.create_qp_hint()
        with pytest.raises(InvalidArgumentError, match="another context"):
            world.near.qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(qp_hint=hint))

    def test_as_many_as_there_may_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("host.verbs.device.MAX_QP_HINTS", 1)
        context = World().near.context
        hint = context.create_qp_hint()
        with pytest.raises(NoMemoryError):
            context.create_qp_hint()
        hint.close()
        context.create_qp_hint()
