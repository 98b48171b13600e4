"""States of a queue pair, and of a queue pair in the NIC's scheduler, as tables.

Everything that says which state may follow which stands here and nowhere else.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class QpState(Enum):
    """State of a queue pair (IBTA volume 1, section 10.3.1; MRC has no send-queue drain)."""

    RESET = "RESET"
    INIT = "INIT"
    RTR = "RTR"
    RTS = "RTS"
    ERROR = "ERROR"


class QpStateError(ValueError):
    """A transition that the table does not have, or an operation that the state does not allow."""


#: mrc.h: RESET → INIT → RTR → RTS; from everywhere to RESET and to ERROR (IBTA 10.3.1)
QP_TRANSITIONS: dict[QpState, frozenset[QpState]] = {
    QpState.RESET: frozenset({QpState.RESET, QpState.INIT, QpState.ERROR}),
    QpState.INIT: frozenset({QpState.INIT, QpState.RTR, QpState.RESET, QpState.ERROR}),
    QpState.RTR: frozenset({QpState.RTS, QpState.RESET, QpState.ERROR}),
    QpState.RTS: frozenset({QpState.RTS, QpState.RESET, QpState.ERROR}),
    QpState.ERROR: frozenset({QpState.RESET, QpState.ERROR}),
}


class Allowed(Enum):
    """What becomes of something that reaches a queue pair in some state."""

    YES = "done"
    #: A work request completes at once with WR_FLUSH_ERROR
    FLUSH = "flushed"
    #: A call raises, a packet is dropped and counted
    NO = "refused"
    #: A packet is answered with the transport NAK that ended the queue pair, else NACK UNEXP_EVENT
    ANSWER = "answered"


class Operation(Enum):
    """What may reach a queue pair."""

    POST_SEND = "post_send"
    POST_RECV = "post_recv"
    #: Requests of the peer: writes and probes
    RECEIVE_REQUEST = "receive request"
    #: Answers of the peer: SACK, NACK, transport ACK
    RECEIVE_ANSWER = "receive answer"


#: IBTA volume 1, section 10.3.1; posting a receive in INIT is allowed, posting a send before RTS
#: is not, and in ERROR both complete as flushed
QP_OPERATIONS: dict[QpState, dict[Operation, Allowed]] = {
    QpState.RESET: {
        Operation.POST_SEND: Allowed.NO,
        Operation.POST_RECV: Allowed.NO,
        Operation.RECEIVE_REQUEST: Allowed.NO,
        Operation.RECEIVE_ANSWER: Allowed.NO,
    },
    QpState.INIT: {
        Operation.POST_SEND: Allowed.NO,
        Operation.POST_RECV: Allowed.YES,
        Operation.RECEIVE_REQUEST: Allowed.NO,
        Operation.RECEIVE_ANSWER: Allowed.NO,
    },
    QpState.RTR: {
        Operation.POST_SEND: Allowed.NO,
        Operation.POST_RECV: Allowed.YES,
        Operation.RECEIVE_REQUEST: Allowed.YES,
        Operation.RECEIVE_ANSWER: Allowed.NO,
    },
    QpState.RTS: {
        Operation.POST_SEND: Allowed.YES,
        Operation.POST_RECV: Allowed.YES,
        Operation.RECEIVE_REQUEST: Allowed.YES,
        Operation.RECEIVE_ANSWER: Allowed.YES,
    },
    QpState.ERROR: {
        Operation.POST_SEND: Allowed.FLUSH,
        Operation.POST_RECV: Allowed.FLUSH,
        Operation.RECEIVE_REQUEST: Allowed.ANSWER,
        Operation.RECEIVE_ANSWER: Allowed.NO,
    },
}


def check_transition(old: QpState, new: QpState) -> None:
    """Raises QpStateError where `new` may not follow `old`."""
    if new not in QP_TRANSITIONS[old]:
        allowed = ", ".join(state.value for state in QpState if state in QP_TRANSITIONS[old])
        raise QpStateError(f"a QP in {old.value} cannot go to {new.value}; it can go to: {allowed}")


class SendState(IntEnum):
    """A queue pair's requestor as the NIC's scheduler sees it."""

    #: Nothing to send, nothing unacknowledged
    IDLE = 0
    #: All sent, not all acknowledged
    ACTIVE = 1
    #: Has a packet to send and may: waits for its turn and a port
    READY = 2
    #: Has a packet to send and may not: MPR or congestion window full, a limit reached, no path
    PENDING = 3


class SendEvent(IntEnum):
    """What moves a requestor from one scheduling state to another."""

    #: Something became due to be sent: posted, to be retransmitted, or a probe
    WORK = 0
    #: Its turn came, but a window, a limit or the lack of a path forbids the packet
    BLOCKED = 1
    #: What forbade it may be gone
    UNBLOCKED = 2
    #: Nothing more to send, something still unacknowledged
    SENT_ALL = 3
    #: Nothing more to send, nothing unacknowledged
    ACKED_ALL = 4
    #: The queue pair left RTS
    STOP = 5


_I, _A, _R, _P = SendState.IDLE, SendState.ACTIVE, SendState.READY, SendState.PENDING

#: Rows: state; columns: event. An event that means nothing in a state leaves it as it is.
SEND_TRANSITIONS: dict[SendState, tuple[SendState, ...]] = {
    #   WORK BLOCKED UNBLOCKED SENT_ALL ACKED_ALL STOP
    _I: (_R, _I, _I, _A, _I, _I),
    _A: (_R, _A, _A, _A, _I, _I),
    _R: (_R, _P, _R, _A, _I, _I),
    _P: (_P, _P, _R, _A, _I, _I),
}
