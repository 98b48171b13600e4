"""Completion queues, channels, asynchronous events of QPs and CQs."""

from __future__ import annotations

import pytest

from host.nic import Nic
from host.verbs import (
    AhAttr,
    AsyncEventType,
    BusyError,
    ClosedError,
    IbvQpAttr,
    InvalidArgumentError,
    MrcQpAttr,
    NotSupportedError,
    QpInitAttr,
    QpState,
    SendFlags,
    WcStatus,
)
from host.wire import Write, decode
from tests.host.verbs.world import World, connected


def flushed(world: World, count: int) -> None:
    """Let the near CQ get completions."""
    qp = world.near.context.create_qp(QpInitAttr(world.near.pd, world.near.cq))
    qp.modify_qp(IbvQpAttr(QpState.ERROR))
    for wr_id in range(count):
        qp.post_recv(wr_id)


class TestPoll:
    def test_some_at_a_time(self) -> None:
        world = World()
        flushed(world, 5)
        cq = world.near.cq
        assert len(cq) == 5 and "5 of 64" in repr(cq)
        assert [wc.wr_id for wc in cq.poll_cq(2)] == [0, 1]
        assert cq.poll_cq(0) == []
        assert [wc.wr_id for wc in cq.poll_cq(10)] == [2, 3, 4]
        assert cq.poll_cq() == []

    def test_misuse(self) -> None:
        world = World()
        with pytest.raises(InvalidArgumentError, match="num_entries"):
            world.near.cq.poll_cq(-1)
        world.near.qp.close()
        world.near.cq.close()
        with pytest.raises(ClosedError, match="CQ"):
            world.near.cq.poll_cq()

    @pytest.mark.parametrize("cqe", [0, -1, (1 << 20) + 1])
    def test_sizes(self, cqe: int) -> None:
        with pytest.raises(InvalidArgumentError, match="cqe"):
            World().near.context.create_cq(cqe)

    def test_what_it_says_of_itself(self) -> None:
        cq = World().near.context.create_cq(7, "mine")
        assert (cq.cqe, cq.cq_context, cq.channel) == (7, "mine", None)


class TestChannel:
    def make(self) -> World:
        world = World()
        near = world.near
        near.qp.close()
        near.cq.close()
        channel = near.context.create_comp_channel()
        near.cq = near.context.create_cq(64, channel=channel)
        return world

    def test_one_event_for_one_request(self) -> None:
        world = self.make()
        cq = world.near.cq
        channel = cq.channel
        assert channel is not None
        calls: list[int] = []
        channel.notify = lambda: calls.append(1)
        flushed(world, 1)
        assert channel.get_cq_event() is None
        # There is one already: as in C, it makes no event
        cq.req_notify_cq()
        assert channel.get_cq_event() is None
        flushed(world, 2)
        assert calls == [1]
        assert channel.get_cq_event() is cq
        assert channel.get_cq_event() is None
        cq.ack_cq_events(1)
        assert len(cq.poll_cq()) == 3

    def test_events_must_be_acknowledged(self) -> None:
        world = self.make()
        cq = world.near.cq
        assert cq.channel is not None
        cq.req_notify_cq()
        flushed(world, 1)
        assert cq.channel.get_cq_event() is cq
        for qp in [*world.near.device._qps.values()]:
            qp.close()
        with pytest.raises(BusyError, match="1 unacknowledged event"):
            cq.close()
        with pytest.raises(InvalidArgumentError, match="nevents"):
            cq.ack_cq_events(2)
        cq.ack_cq_events()
        cq.close()

    def test_events_of_a_destroyed_cq_are_gone(self) -> None:
        world = self.make()
        cq = world.near.cq
        channel = cq.channel
        assert channel is not None
        cq.req_notify_cq()
        flushed(world, 1)
        cq.force_close()
        assert channel.get_cq_event() is None

    def test_misuse(self) -> None:
        world = self.make()
        with pytest.raises(NotSupportedError, match="solicited_only"):
            world.near.cq.req_notify_cq(solicited_only=True)
        with pytest.raises(InvalidArgumentError, match="no completion channel"):
            world.near.context.create_cq(1).req_notify_cq()
        channel = world.near.cq.channel
        assert channel is not None
        world.near.cq.close()
        channel.close()
        with pytest.raises(ClosedError):
            channel.get_cq_event()


class TestAsyncEvents:
    def test_a_refused_request(self) -> None:
        world = connected()
        world.near.qp.post_write(1, b"x", 0, 1)
        world.run(for_ns=10**7)
        far = world.far.context.get_async_event()
        assert far is not None
        assert (far.event_type, far.element) == (AsyncEventType.QP_ACCESS_ERR, world.far.qp)
        near = world.near.context.get_async_event()
        assert near is not None
        assert (near.event_type, near.status) == (
            AsyncEventType.QP_FATAL,
            WcStatus.REMOTE_ACCESS_ERROR,
        )
        assert "QP_FATAL" in repr(near)

    def test_more_immediates_than_agreed(self) -> None:
        world = World()
        near, far = world.near, world.far
        told = near.qp.info()
        near.qp.connect(far.qp.info())
        far.qp.modify_qp(IbvQpAttr(QpState.INIT))
        far.qp.modify_qp(
            IbvQpAttr(
                QpState.RTR,
                ah_attr=AhAttr(told.gid),
                dest_qp_num=told.qp_num,
                rq_psn=told.psn,
            ),
            mrc_attr=MrcQpAttr(max_wimm_dest=1),
        )
        lost: list[bytes] = []

        def lose_the_first(nic: Nic, port: int, frame: bytes) -> bool:
            if not lost and isinstance(decode(frame), Write):
                lost.append(frame)
                return False
            return True

        world.network.passes = lose_the_first
        _, mr = far.region(8)
        for number in range(3):
            far.qp.post_recv(number)
            near.qp.post_write_imm(number, b"x", mr.addr, mr.rkey, 0)
        world.run(lambda: far.qp.state is QpState.ERROR)
        event = far.context.get_async_event()
        assert event is not None
        assert event.event_type is AsyncEventType.QP_REQ_ERR

    def test_retries_used_up(self) -> None:
        world = World()
        world.near.qp.connect(world.far.qp.info(), MrcQpAttr(timeout=0, linear_cnt=0, exp_cnt=1))
        world.near.qp.post_write(1, b"x", 0, 0)
        world.run(for_ns=10**8)
        event = world.near.context.get_async_event()
        assert event is not None
        assert event.status is WcStatus.RETRY_EXCEEDED_ERROR

    def test_an_overrun(self) -> None:
        world = World()
        near = world.near
        near.qp.close()
        cq = near.context.create_cq(1)
        near.qp = near.context.create_qp(QpInitAttr(near.pd, cq))
        world.connect()
        _, mr = world.far.region(8)
        for number in range(2):
            near.qp.post_write(number, b"x", mr.addr, mr.rkey)
        world.run(for_ns=10**7)
        event = near.context.get_async_event()
        assert event is not None
        assert (event.event_type, event.element) == (AsyncEventType.CQ_ERR, cq)
        assert near.qp.state is QpState.ERROR

    def test_taken_but_not_acknowledged(self) -> None:
        world = connected()
        world.near.qp.post_write(1, b"x", 0, 1, send_flags=SendFlags.NONE)
        world.run(for_ns=10**7)
        event = world.near.context.get_async_event()
        assert event is not None
        with pytest.raises(BusyError, match="1 unacknowledged event"):
            world.near.qp.close()
        with event:
            pass
        event.ack()
        world.near.qp.close()

    def test_events_of_a_destroyed_queue_pair_are_gone(self) -> None:
        world = connected()
        world.near.qp.post_write(1, b"x", 0, 1)
        world.run(for_ns=10**7)
        world.near.device.dispatch()
        world.near.qp.close()
        assert world.near.context.get_async_event() is None

    def test_other_contexts_hear_nothing(self) -> None:
        world = connected()
        other = world.near.device.open_context()
        world.near.qp.post_write(1, b"x", 0, 1)
        world.run(for_ns=10**7)
        assert other.get_async_event() is None
        assert world.near.context.get_async_event() is not None
