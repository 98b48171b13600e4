"""The tables of states are whole, and the queue pair obeys them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from host.qp.base import QueueFullError
from host.qp.queue_pair import QueuePair
from host.qp.states import (
    QP_OPERATIONS,
    QP_TRANSITIONS,
    SEND_TRANSITIONS,
    Allowed,
    Operation,
    QpState,
    QpStateError,
    SendEvent,
    SendState,
)
from host.qp.work import CompletionQueue, WriteRequest
from tests.host.peer import Peer


def test_the_tables_are_whole() -> None:
    assert set(QP_TRANSITIONS) == set(QP_OPERATIONS) == set(QpState)
    assert all(set(row) == set(Operation) for row in QP_OPERATIONS.values())
    assert set(SEND_TRANSITIONS) == set(SendState)
    assert all(len(row) == len(SendEvent) for row in SEND_TRANSITIONS.values())


def test_every_state_can_be_left_for_reset_and_error() -> None:
    for state, following in QP_TRANSITIONS.items():
        assert {QpState.RESET, QpState.ERROR} <= following, state


def test_a_stopped_requestor_is_idle_from_everywhere() -> None:
    assert {row[SendEvent.STOP] for row in SEND_TRANSITIONS.values()} == {SendState.IDLE}
    assert {row[SendEvent.ACKED_ALL] for row in SEND_TRANSITIONS.values()} == {SendState.IDLE}


WAY = {
    QpState.RESET: [],
    QpState.INIT: [QpState.INIT],
    QpState.RTR: [QpState.INIT, QpState.RTR],
    QpState.RTS: [QpState.INIT, QpState.RTR, QpState.RTS],
    QpState.ERROR: [QpState.ERROR],
}


def in_state(peer: Peer, state: QpState) -> QueuePair:
    qp = peer.nic.create_qp(peer.send_cq, peer.recv_cq)
    for step in WAY[state]:
        go(peer, qp, step)
    return qp


def go(peer: Peer, qp: QueuePair, state: QpState) -> None:
    if state is QpState.RTR:
        qp.modify(state, peer_address=peer.peer_config.address, dest_qp=5)
    else:
        qp.modify(state)


@pytest.mark.parametrize("old", QpState)
@pytest.mark.parametrize("new", QpState)
def test_transitions(old: QpState, new: QpState) -> None:
    peer = Peer()
    qp = in_state(peer, old)
    if new in QP_TRANSITIONS[old]:
        go(peer, qp, new)
        assert qp.state is new
    else:
        with pytest.raises(QpStateError, match=f"{old.value} cannot go to {new.value}"):
            go(peer, qp, new)
        assert qp.state is old


@pytest.mark.parametrize("state", QpState)
def test_posting(state: QpState) -> None:
    peer = Peer()
    qp = in_state(peer, state)
    request = WriteRequest(1, b"x", 0, 0)
    posts: list[tuple[Operation, Callable[[], None], CompletionQueue]] = [
        (Operation.POST_SEND, lambda: qp.post_write(request), peer.send_cq),
        (Operation.POST_RECV, lambda: qp.post_recv(1), peer.recv_cq),
    ]
    for operation, post, cq in posts:
        allowed = QP_OPERATIONS[state][operation]
        if allowed is Allowed.NO:
            with pytest.raises(QpStateError, match=state.value):
                post()
        else:
            post()
        flushed = [completion.status.name for completion in cq.poll()]
        assert flushed == (["WR_FLUSH_ERROR"] if allowed is Allowed.FLUSH else [])


def test_reset_forgets_outstanding_work_without_completions() -> None:
    peer = Peer()
    peer.qp.post_recv(1)
    peer.post(2, bytes(1000))
    peer.sent()
    requestor = peer.requestor
    peer.qp.modify(QpState.RESET)
    assert len(peer.send_cq) == len(peer.recv_cq) == 0
    assert requestor.controller.inflight_bytes == 0
    assert peer.nic.peer(peer.peer_config.address) is None
    assert peer.wait(10**10) == []


def test_a_queue_pair_can_be_used_again_after_reset() -> None:
    peer = Peer()
    peer.write(0, b"old")
    peer.post(1, b"old")
    peer.qp.modify(QpState.ERROR)
    peer.statuses()
    peer.qp.modify(QpState.RESET)
    peer.qp.connect(peer.qp_endpoint())
    peer.post(2, b"new")
    peer.write(0, b"new")
    assert peer.memory[:3] == b"new"
    peer.ack(0)
    assert peer.statuses() == []  # nothing was sent yet
    peer.sent()
    peer.ack(0)
    assert peer.statuses() == [(2, "SUCCESS")]


def test_attributes() -> None:
    peer = Peer()
    qp = peer.nic.create_qp(peer.send_cq)
    with pytest.raises(ValueError, match="colour: a QP has no such attribute"):
        qp.modify(QpState.INIT, colour=3)
    with pytest.raises(ValueError, match="timeout: 25 does not fit"):
        qp.modify(QpState.INIT, timeout=25)
    assert qp.state.name == "RESET"
    qp.modify(QpState.INIT, timeout=24)
    with pytest.raises(QpStateError, match="needs peer_address"):
        qp.modify(QpState.RTR)
    with pytest.raises(ValueError, match="none of the hosts"):
        qp.modify(QpState.RTR, peer_address=1)
    assert qp.state.name == "INIT" and qp.attributes.peer_address is None
    with pytest.raises(QpStateError, match="timeout cannot be set on the way from INIT to ERROR"):
        qp.modify(QpState.ERROR, timeout=3)
    go(peer, qp, QpState.RTR)
    with pytest.raises(QpStateError, match="rq_psn cannot be set on the way from RTR to RTS"):
        qp.modify(QpState.RTS, rq_psn=3)
    qp.modify(QpState.RTS, sq_psn=77, timeout=9)
    with pytest.raises(QpStateError, match="timeout cannot be set on the way from RTS to RTS"):
        qp.modify(QpState.RTS, timeout=3)
    qp.post_write(WriteRequest(1, b"x", 0, 0))
    (packet,) = peer.sent()
    assert packet.bth.psn == 77


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (WriteRequest(1, b"", 0, 0), "length of data: 0"),
        (WriteRequest(1, b"x", -1, 0), "remote_va"),
        (WriteRequest(1, b"xy", 2**64 - 1, 0), "remote_va"),
        (WriteRequest(1, b"x", 0, 2**32), "rkey"),
        (WriteRequest(1, b"x", 0, 0, 2**32), "imm"),
        (WriteRequest(1, memoryview(b"abcd")[::2], 0, 0), "not contiguous"),
    ],
)
def test_requests_that_cannot_be(request_: WriteRequest, match: str) -> None:
    peer = Peer()
    with pytest.raises(ValueError, match=match):
        peer.qp.post_write(request_)
    assert peer.requestor.posted == 0


def test_queues_have_an_end() -> None:
    peer = Peer(max_send_wr=2, max_recv_wr=1)
    peer.post(1, b"x")
    peer.post(2, b"x")
    with pytest.raises(QueueFullError, match="holds 2"):
        peer.post(3, b"x")
    peer.qp.post_recv(1)
    with pytest.raises(QueueFullError, match="holds 1"):
        peer.qp.post_recv(2)
    peer.sent()
    peer.ack(0)
    peer.post(3, b"x")


def test_completion_queue() -> None:
    peer = Peer()
    small = peer.nic.create_cq(1)
    qp = peer.nic.create_qp(small)
    qp.connect(peer.qp_endpoint(9))
    called: list[CompletionQueue] = []
    small.request_notify(called.append)
    for wr_id in range(3):
        qp.post_write(WriteRequest(wr_id, b"x", 0, 0))
    qp.modify(QpState.ERROR)
    assert called == [small]
    assert small.overrun and [completion.wr_id for completion in small.poll()] == [0]
    peer.nic.handle_timer(0)
    assert type(peer.nic.next_event()).__name__ == "CqOverrun"
    with pytest.raises(ValueError, match="capacity"):
        CompletionQueue(0)


def test_an_overrun_ends_every_queue_pair_of_the_queue() -> None:
    peer = Peer()
    small = peer.nic.create_cq(1)
    used = [peer.nic.create_qp(small) for _ in range(2)]
    for number, qp in enumerate(used):
        qp.connect(peer.qp_endpoint(9 + number))
    used[0].modify(QpState.ERROR)
    used[0].post_recv(1)
    used[0].post_recv(2)
    peer.nic.handle_timer(0)
    assert used[1].state is QpState.ERROR and peer.qp.state is QpState.RTS
