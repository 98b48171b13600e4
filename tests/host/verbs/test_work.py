"""Posting and completing."""

from __future__ import annotations

import errno

import pytest

from host.verbs import (
    Access,
    ClosedError,
    IbvQpAttr,
    InvalidArgumentError,
    MrcError,
    MrcQpAttr,
    NoMemoryError,
    NotSupportedError,
    QpCapacity,
    QpInfo,
    QpInitAttr,
    QpState,
    QueuePair,
    RecvWr,
    SendFlags,
    SendOpsFlags,
    SendWr,
    Sge,
    WcOpcode,
    WcStatus,
    WrOpcode,
)
from tests.host.network import Faults
from tests.host.verbs.world import World, connected


def test_a_write() -> None:
    world = connected(faults=Faults(loss=0.05, trim=0.05))
    memory, mr = world.far.region(100_000)
    data = bytes(range(256)) * 300
    kicks = world.near.driver.kicks
    world.near.qp.post_write(7, data, mr.addr + 1000, mr.rkey)
    assert world.near.driver.kicks == kicks + 1
    world.run(lambda: len(world.near.cq) > 0)
    (wc,) = world.near.cq.poll_cq()
    assert (wc.wr_id, wc.status, wc.opcode) == (7, WcStatus.SUCCESS, WcOpcode.RDMA_WRITE)
    assert wc.qp_num == world.near.qp.qp_num
    assert memory[1000 : 1000 + len(data)] == data
    assert not any(memory[:1000]) and not any(memory[1000 + len(data) :])
    assert world.far.cq.poll_cq() == []


def test_a_write_with_immediate() -> None:
    world = connected()
    memory, mr = world.far.region(10)
    world.far.qp.post_recv(42)
    world.near.qp.post_write_imm(1, b"0123456789", mr.addr, mr.rkey, 0xFFFF_FFFF)
    world.run(lambda: bool(len(world.near.cq) and len(world.far.cq)))
    (wc,) = world.far.cq.poll_cq()
    assert (wc.wr_id, wc.status, wc.opcode) == (
        42,
        WcStatus.SUCCESS,
        WcOpcode.RECV_RDMA_WITH_IMM,
    )
    assert (wc.byte_len, wc.imm, wc.qp_num) == (10, 0xFFFF_FFFF, world.far.qp.qp_num)
    assert memory == b"0123456789"


def test_from_a_region_without_a_copy() -> None:
    world = connected()
    memory, target = world.far.region(8)
    source, mr = world.near.region(8)
    world.near.qp.post_write(1, Sge(mr, 2, 4), target.addr, target.rkey)
    # Nothing has been sent yet, and what is sent is what the buffer holds then
    source[:] = b"abcdefgh"
    world.run(lambda: len(world.near.cq) > 0)
    assert memory == b"cdef\0\0\0\0"


def test_both_ways_at_once() -> None:
    world = connected()
    there, here = world.far.region(5000), world.near.region(5000)
    world.near.qp.post_write(1, b"n" * 5000, there[1].addr, there[1].rkey)
    world.far.qp.post_write(2, b"f" * 5000, here[1].addr, here[1].rkey)
    world.run(lambda: bool(len(world.near.cq) and len(world.far.cq)))
    assert there[0] == b"n" * 5000
    assert here[0] == b"f" * 5000


class TestSignals:
    def make(self, *, sq_sig_all: bool) -> tuple[World, QueuePair]:
        world = World()
        near = world.near
        near.qp.close()
        near.qp = near.context.create_qp(QpInitAttr(near.pd, near.cq, sq_sig_all=sq_sig_all))
        world.connect()
        return world, near.qp

    @pytest.mark.parametrize(("sq_sig_all", "wr_ids"), [(False, [2]), (True, [1, 2])])
    def test_who_gets_a_completion(self, sq_sig_all: bool, wr_ids: list[int]) -> None:
        world, qp = self.make(sq_sig_all=sq_sig_all)
        _, mr = world.far.region(8)
        qp.post_write(1, b"a", mr.addr, mr.rkey, send_flags=SendFlags.NONE)
        qp.post_write(2, b"b", mr.addr, mr.rkey, send_flags=SendFlags.SIGNALED | SendFlags.FENCE)
        world.run(for_ns=10**7)
        assert [wc.wr_id for wc in world.near.cq.poll_cq()] == wr_ids

    def test_flags_that_there_are_not(self) -> None:
        world = connected()
        _, mr = world.far.region(8)
        for flags, error in (
            (SendFlags.SOLICITED, NotSupportedError),
            (SendFlags.INLINE | SendFlags.SIGNALED, InvalidArgumentError),
            (SendFlags(16), InvalidArgumentError),
        ):
            with pytest.raises(error, match="send_flags"):
                world.near.qp.post_write(1, b"a", mr.addr, mr.rkey, send_flags=flags)


class TestMisuse:
    @pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT])
    def test_sending_too_early(self, state: QpState) -> None:
        qp = World().near.qp
        if state is QpState.INIT:
            qp.modify_qp(IbvQpAttr(state))
        with pytest.raises(InvalidArgumentError, match=state.value):
            qp.post_write(1, b"x", 0, 0)

    def test_receiving_too_early(self) -> None:
        with pytest.raises(InvalidArgumentError, match="RESET"):
            World().near.qp.post_recv(1)

    def test_in_error_work_is_flushed(self) -> None:
        near = World().near
        near.qp.modify_qp(IbvQpAttr(QpState.ERROR))
        near.qp.post_write(1, b"x", 0, 0, send_flags=SendFlags.NONE)
        near.qp.post_recv(2)
        assert [(wc.wr_id, wc.status) for wc in near.cq.poll_cq()] == [
            (1, WcStatus.WR_FLUSH_ERROR),
            (2, WcStatus.WR_FLUSH_ERROR),
        ]

    @pytest.mark.parametrize(
        ("local", "remote_addr", "rkey", "words"),
        [
            (b"", 0, 0, "length of data"),
            (memoryview(b"abcd")[::2], 0, 0, "contiguous"),
            (b"x", -1, 0, "remote_va"),
            (b"xx", (1 << 64) - 1, 0, "remote_va"),
            (b"x", 0, 1 << 32, "rkey"),
            ("text", 0, 0, "local"),
        ],
    )
    def test_what_cannot_be_sent(
        self, local: bytes, remote_addr: int, rkey: int, words: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=words):
            connected().near.qp.post_write(1, local, remote_addr, rkey)

    @pytest.mark.parametrize("imm", [-1, 1 << 32, None])
    def test_immediates(self, imm: int) -> None:
        with pytest.raises(InvalidArgumentError, match="imm"):
            connected().near.qp.post_write_imm(1, b"x", 0, 0, imm)

    def test_regions_of_others(self) -> None:
        world = connected()
        near = world.near
        other_pd = near.context.alloc_pd()
        _, foreign = world.far.region(8)
        closed = near.region(8)[1]
        closed.close()
        for mr, words in (
            (other_pd.reg_mr(bytearray(8)), "another protection domain"),
            (foreign, "another context"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                near.qp.post_write(1, Sge(mr), 0, 0)
        with pytest.raises(ClosedError):
            near.qp.post_write(1, Sge(closed), 0, 0)
        with pytest.raises(InvalidArgumentError, match="length"):
            near.qp.post_write(1, Sge(near.region(8)[1], 4, 5), 0, 0)

    def test_operations_that_the_qp_was_not_made_for(self) -> None:
        near = World().near
        writes = near.context.create_qp(
            QpInitAttr(near.pd, near.cq, send_ops_flags=SendOpsFlags.RDMA_WRITE)
        )
        imms = near.context.create_qp(
            QpInitAttr(near.pd, near.cq, send_ops_flags=SendOpsFlags.RDMA_WRITE_WITH_IMM)
        )
        with pytest.raises(InvalidArgumentError, match="without RDMA_WRITE_WITH_IMM"):
            writes.post_write_imm(1, b"x", 0, 0, 0)
        with pytest.raises(InvalidArgumentError, match="without RDMA_WRITE"):
            imms.post_write(1, b"x", 0, 0)

    def test_full_queues(self) -> None:
        world = World()
        near = world.near
        near.qp.close()
        near.qp = near.context.create_qp(
            QpInitAttr(near.pd, near.cq, cap=QpCapacity(max_send_wr=1, max_recv_wr=1))
        )
        world.connect()
        near.qp.post_write(1, b"x", 0, 0)
        near.qp.post_recv(1)
        with pytest.raises(NoMemoryError, match="full") as caught:
            near.qp.post_write(2, b"x", 0, 0)
        assert caught.value.errno == errno.ENOMEM
        with pytest.raises(NoMemoryError, match="full"):
            near.qp.post_recv(2)


class TestLists:
    def test_post_send(self) -> None:
        world = connected()
        memory, mr = world.far.region(8)
        world.far.qp.post_recv([RecvWr(5), RecvWr(6)])
        world.near.qp.post_send(
            [
                SendWr(1, b"ab", mr.addr, mr.rkey, send_flags=SendFlags.SIGNALED),
                SendWr(2, b"cd", mr.addr + 2, mr.rkey, WrOpcode.RDMA_WRITE_WITH_IMM, 9),
            ]
        )
        world.near.qp.post_send(
            SendWr(3, b"ef", mr.addr + 4, mr.rkey, WrOpcode.RDMA_WRITE_WITH_IMM, 10)
        )
        world.run(lambda: len(world.far.cq) == 2)
        assert [(wc.wr_id, wc.imm) for wc in world.far.cq.poll_cq()] == [(5, 9), (6, 10)]
        assert memory == b"abcdef\0\0"

    def test_the_first_that_fails_ends_it(self) -> None:
        world = connected()
        memory, mr = world.far.region(8)
        bad = SendWr(2, b"", mr.addr, mr.rkey)
        with pytest.raises(InvalidArgumentError, match="length") as caught:
            world.near.qp.post_send(
                [SendWr(1, b"a", mr.addr, mr.rkey), bad, SendWr(3, b"c", mr.addr + 2, mr.rkey)]
            )
        assert caught.value.bad_wr is bad
        world.run(for_ns=10**7)
        assert memory == b"a" + bytes(7)

    def test_an_immediate_that_is_missing(self) -> None:
        wr = SendWr(1, b"a", 0, 0, WrOpcode.RDMA_WRITE_WITH_IMM)
        with pytest.raises(InvalidArgumentError, match="imm_data"):
            connected().near.qp.post_send(wr)

    def test_receives_until_the_queue_is_full(self) -> None:
        near = World().near
        qp = near.context.create_qp(QpInitAttr(near.pd, near.cq, cap=QpCapacity(max_recv_wr=2)))
        qp.modify_qp(IbvQpAttr(QpState.INIT))
        with pytest.raises(MrcError) as caught:
            qp.post_recv([RecvWr(number) for number in range(4)])
        assert caught.value.bad_wr == RecvWr(2)


class TestStatuses:
    """Errors at the far end, and who hears of them (asynchronous events: test_events)."""

    def failed(self, world: World) -> WcStatus:
        world.run(lambda: len(world.near.cq) > 0)
        (wc,) = world.near.cq.poll_cq()
        assert world.near.qp.state is QpState.ERROR
        return wc.status

    def test_a_wrong_key(self) -> None:
        world = connected()
        world.near.qp.post_write(1, b"x", 0, 1)
        assert self.failed(world) is WcStatus.REMOTE_ACCESS_ERROR

    def test_a_region_of_another_domain(self) -> None:
        world = connected()
        mr = world.far.context.alloc_pd().reg_mr(bytearray(8))
        world.near.qp.post_write(1, b"x", mr.addr, mr.rkey)
        assert self.failed(world) is WcStatus.REMOTE_ACCESS_ERROR

    def test_a_region_without_the_right(self) -> None:
        world = connected()
        memory = bytearray(8)
        mr = world.far.pd.reg_mr(memory, Access.LOCAL_WRITE)
        world.near.qp.post_write(1, b"x", mr.addr, mr.rkey)
        assert self.failed(world) is WcStatus.REMOTE_ACCESS_ERROR
        assert memory == bytes(8)

    def test_nobody_answers(self) -> None:
        world = World()
        told = world.far.qp.info()
        world.near.qp.connect(told, MrcQpAttr(timeout=1, linear_cnt=1, exp_cnt=1))
        world.network.passes = lambda nic, port, frame: False
        world.near.qp.post_write(1, b"x", 0, 0, send_flags=SendFlags.NONE)
        assert self.failed(world) is WcStatus.RETRY_EXCEEDED_ERROR

    def test_a_destroyed_queue_pair_leaves_no_completions(self) -> None:
        world = connected()
        world.near.qp.post_write(1, b"x", 0, 0)
        world.near.qp.close()
        world.run(for_ns=10**6)
        assert world.near.cq.poll_cq() == []


def test_info_travels_as_json_and_back() -> None:
    world = World()
    _, mr = world.far.region(64)
    told = QpInfo.from_json(world.far.qp.info([mr.info]).to_json())
    assert told.regions == (mr.info,)
    assert told.gid == world.far.device.gid
