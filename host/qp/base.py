"""What queue pairs of all transports are: attributes, state, work queues, completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from host.config import (
    EXPONENTIAL_RETRIES_FOR_EVER,
    MAX_LINEAR_RETRIES,
    MAX_PATH_MTU_BYTES,
    MAX_TIMEOUT,
    MIN_PATH_MTU_BYTES,
    check_mpr,
    check_range,
)
from host.qp.states import (
    QP_OPERATIONS,
    Allowed,
    Operation,
    QpState,
    QpStateError,
    SendEvent,
    check_transition,
)
from host.qp.syndrome import Syndrome
from host.qp.timers import Timed
from host.qp.work import (
    MAX_MESSAGE_BYTES,
    CompletionQueue,
    WcOpcode,
    WcStatus,
    WorkCompletion,
    WriteRequest,
)

_VA_LIMIT = 1 << 64


class QueueFullError(RuntimeError):
    """A work queue of the queue pair is full (ibv_post_*: ENOMEM)."""


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """Attributes of a queue pair, `mrc_qp_attr` and what MRC uses of `ibv_qp_attr`.

    `*_dest` of MPR and WriteIMM are those of this end's responder, as in mrc.h. `trim_nack` is
    this responder's ability, `trim_nack_dest` the peer's. Raises ValueError for values out of
    range.
    """

    path_mtu_bytes: int
    mpr_psns: int
    mpr_dest_psns: int
    max_wimm: int
    max_wimm_dest: int
    timeout: int
    linear_retries: int
    exponential_retries: int
    sack_packets: int
    sack_delay_ns: int
    trim_nack: bool = True
    trim_nack_dest: bool = True
    dynamic_mpr: bool = False
    ev_profile: int | None = None
    cc_profile: int | None = None
    #: Of the peer, from RTR on
    peer_address: int | None = None
    dest_qp: int = 0
    #: First PSN of the peer's requests
    rq_psn: int = 0
    #: First PSN of this end's requests
    sq_psn: int = 0

    def __post_init__(self) -> None:
        check_mpr("mpr_psns", self.mpr_psns)
        check_mpr("mpr_dest_psns", self.mpr_dest_psns)
        for name, low, high in (
            ("path_mtu_bytes", MIN_PATH_MTU_BYTES, MAX_PATH_MTU_BYTES),
            ("max_wimm", 1, (1 << 15) - 1),
            ("max_wimm_dest", 1, (1 << 15) - 1),
            ("timeout", 0, MAX_TIMEOUT),
            ("linear_retries", 0, MAX_LINEAR_RETRIES),
            ("exponential_retries", 0, EXPONENTIAL_RETRIES_FOR_EVER),
            ("sack_packets", 1, 64),
            ("sack_delay_ns", 0, 1_000_000),
            ("dest_qp", 0, (1 << 24) - 1),
            ("rq_psn", 0, (1 << 24) - 1),
            ("sq_psn", 0, (1 << 24) - 1),
        ):
            check_range(name, getattr(self, name), low, high)


ATTRIBUTE_NAMES = frozenset(field.name for field in fields(QpAttributes))

#: What cannot go without; everything else has its default from the NIC's configuration
_NEEDED: dict[QpState, tuple[str, ...]] = {QpState.RTR: ("peer_address",)}

#: mrc.h, "mrc_qp_attr_mask": what the requestor needs may still be set on the way to RTS
_OF_REQUESTOR = frozenset(
    {
        "sq_psn",
        "mpr_psns",
        "max_wimm",
        "timeout",
        "linear_retries",
        "exponential_retries",
        "trim_nack_dest",
    }
)
#: By the state left and the state entered; transitions that are not here take no attributes
_SETTABLE: dict[tuple[QpState, QpState], frozenset[str]] = {
    (QpState.RESET, QpState.INIT): ATTRIBUTE_NAMES,
    (QpState.INIT, QpState.INIT): ATTRIBUTE_NAMES,
    (QpState.INIT, QpState.RTR): ATTRIBUTE_NAMES,
    (QpState.RTR, QpState.RTS): _OF_REQUESTOR,
}


@dataclass(frozen=True, slots=True)
class QpEndpoint:
    """What one end tells the other out of band before they connect (section 3)."""

    address: int
    number: int
    start_psn: int
    mpr_psns: int
    max_wimm: int
    trim_nack: bool
    dynamic_mpr: bool
    path_mtu_bytes: int


class Posted(Protocol):
    """A message on its way."""

    @property
    def request(self) -> WriteRequest:
        """What was posted."""
        ...


class SendingHalf(Protocol):
    """What a queue pair needs of its requestor."""

    @property
    def posted(self) -> int:
        """Work requests that have not completed."""
        ...

    def post(self, request: WriteRequest, view: memoryview) -> None:
        """Queue a message; `view` is its data as bytes."""
        ...

    def close(self) -> Sequence[Posted]:
        """Stop. Returns the messages not completed, in order."""
        ...


class ReceivingHalf(Protocol):
    """What a queue pair needs of its responder."""

    def close(self) -> None:
        """The queue pair went to ERROR: nothing more will be accepted, answers still go out."""
        ...

    def abandon(self) -> None:
        """The queue pair goes to RESET: nothing more will be sent."""
        ...


Asking = TypeVar("Asking", contravariant=True)


class BaseOwner(Protocol[Asking]):
    """What queue pairs of all transports need of their NIC."""

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Call its `handle_timer` at that time or before."""
        ...

    def want_control(self, qp: Asking) -> None:
        """The responder has an answer to send."""
        ...

    def send_event(self, qp: Asking, event: SendEvent) -> None:
        """The requestor has work, or stops."""
        ...

    def disconnect(self, qp: Asking) -> None:
        """The queue pair has no peer any more."""
        ...

    def qp_error(self, qp: Asking, status: WcStatus, syndrome: Syndrome | None = None) -> None:
        """The queue pair went to ERROR by itself; `syndrome` is the NAK that it sent, if any."""
        ...

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """As `MemoryTable.remote_write`."""
        ...

    def own_address(self) -> int:
        """The NIC's address."""
        ...


@dataclass(frozen=True, slots=True)
class QpMake:
    """What a queue pair is made of; work queues hold so many requests."""

    number: int
    attributes: QpAttributes
    send_cq: CompletionQueue
    recv_cq: CompletionQueue
    max_send_wr: int
    max_recv_wr: int
    pd: int


Owner = TypeVar("Owner", bound=BaseOwner[Any])
Requesting = TypeVar("Requesting", bound=SendingHalf)
Responding = TypeVar("Responding", bound=ReceivingHalf)


class BaseQueuePair(ABC, Generic[Owner, Requesting, Responding]):
    """A queue pair; a transport gives it its two halves."""

    __slots__ = (
        "_pd",
        "attributes",
        "max_recv_wr",
        "max_send_wr",
        "number",
        "owner",
        "receives",
        "recv_cq",
        "requestor",
        "responder",
        "send_cq",
        "state",
    )

    def __init__(self, owner: Owner, make: QpMake) -> None:
        self.owner = owner
        self.number = make.number
        self.attributes = make.attributes
        self.send_cq = make.send_cq
        self.recv_cq = make.recv_cq
        self.max_send_wr = make.max_send_wr
        self.max_recv_wr = make.max_recv_wr
        self._pd = make.pd
        self.state = QpState.RESET
        self.requestor: Requesting | None = None
        self.responder: Responding | None = None
        #: wr_id of the receives posted and not consumed
        self.receives: deque[int] = deque()

    def __repr__(self) -> str:
        return f"QueuePair({self.number:#08x}, {self.state.value})"

    # --- what the transport does ---

    @abstractmethod
    def _make_halves(self) -> None:
        """The queue pair goes to RTR. Raises ValueError where there is no way to its peer."""

    @abstractmethod
    def _set_up_requestor(self) -> None:
        """The queue pair goes from RTR to RTS: attributes of the requestor may have come."""

    @abstractmethod
    def _forget_peer(self) -> None:
        """The queue pair went to RESET; it still has its halves, which are closed."""

    # --- what the two halves need ---

    def arm(self, half: Timed, deadline_ns: int) -> None:
        """See to it that a half's `handle_timer` is called at that time or before."""
        self.owner.arm(half, deadline_ns)

    def want_control(self) -> None:
        """The responder has an answer to send."""
        self.owner.want_control(self)

    def remote_write(self, rkey: int, va: int, length: int) -> memoryview | None:
        """Memory for a peer's write, or None."""
        return self.owner.remote_write(rkey, va, length, self._pd)

    # --- states ---

    def modify(self, state: QpState, **attributes: object) -> None:
        """Go to a state, with new attributes (names of `QpAttributes`) on the way.

        Raises QpStateError for a transition that is not in the table or lacks an attribute,
        ValueError for an attribute that is unknown or out of range; nothing has changed then.
        """
        check_transition(self.state, state)
        unknown = attributes.keys() - ATTRIBUTE_NAMES
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]}: a QP has no such attribute")
        late = attributes.keys() - _SETTABLE.get((self.state, state), frozenset())
        if late:
            raise QpStateError(
                f"{sorted(late)[0]} cannot be set on the way from {self.state.value} "
                f"to {state.value}"
            )
        changed = replace(self.attributes, **attributes)  # type: ignore[arg-type]
        for name in _NEEDED.get(state, ()):
            if getattr(changed, name) is None:
                raise QpStateError(f"going to {state.value} needs {name}")
        old, self.attributes = self.attributes, changed
        try:
            self._enter(state)
        except ValueError:
            self.attributes = old
            raise

    def _enter(self, state: QpState) -> None:
        old = self.state
        if state is QpState.RTR:
            self._make_halves()
        elif state is QpState.RTS and old is QpState.RTR:
            self._set_up_requestor()
        elif state is QpState.ERROR and old is not QpState.ERROR:
            self.state = QpState.ERROR
            self._flush(None, WcStatus.WR_FLUSH_ERROR)
            return
        elif state is QpState.RESET:
            self._reset()
        self.state = state

    def endpoint(self) -> QpEndpoint:
        """This end, for the other's `connect`."""
        attributes = self.attributes
        return QpEndpoint(
            address=self.owner.own_address(),
            number=self.number,
            start_psn=attributes.sq_psn,
            mpr_psns=attributes.mpr_dest_psns,
            max_wimm=attributes.max_wimm_dest,
            trim_nack=attributes.trim_nack,
            dynamic_mpr=attributes.dynamic_mpr,
            path_mtu_bytes=attributes.path_mtu_bytes,
        )

    def connect(self, remote: QpEndpoint) -> None:
        """INIT, RTR and RTS in one, with what the other end told. Raises as `modify`."""
        attributes = self.attributes
        if self.state is QpState.RESET:
            self.modify(QpState.INIT)
        self.modify(
            QpState.RTR,
            peer_address=remote.address,
            dest_qp=remote.number,
            rq_psn=remote.start_psn,
            path_mtu_bytes=min(attributes.path_mtu_bytes, remote.path_mtu_bytes),
            mpr_psns=remote.mpr_psns,
            max_wimm=min(attributes.max_wimm, remote.max_wimm),
            trim_nack_dest=remote.trim_nack,
            dynamic_mpr=attributes.dynamic_mpr and remote.dynamic_mpr,
        )
        self.modify(QpState.RTS)

    def _reset(self) -> None:
        """Forget everything; outstanding work leaves no completions (IBTA 10.3.1)."""
        if self.requestor is not None:
            self.requestor.close()
            self.owner.send_event(self, SendEvent.STOP)
        if self.responder is not None:
            self.responder.abandon()
        self.receives.clear()
        self.state = QpState.RESET
        # While it still has its halves: they are disarmed
        self._forget_peer()
        self.requestor = None
        self.responder = None

    # --- work requests ---

    def post_write(self, request: WriteRequest) -> None:
        """Post a WRITE, or a WRITE with immediate.

        Raises QpStateError where the state does not allow it, QueueFullError, and ValueError for
        a request that cannot be; in ERROR it completes as flushed.
        """
        allowed = QP_OPERATIONS[self.state][Operation.POST_SEND]
        if allowed is Allowed.NO:
            raise QpStateError(f"a write cannot be posted in {self.state.value}")
        view = memoryview(request.data)
        if not view.c_contiguous:
            raise ValueError("data: the buffer is not contiguous")
        view = view.cast("B")
        check_range("length of data", view.nbytes, 1, MAX_MESSAGE_BYTES)
        check_range("remote_va", request.remote_va, 0, _VA_LIMIT - view.nbytes)
        check_range("rkey", request.rkey, 0, (1 << 32) - 1)
        if request.imm is not None:
            check_range("imm", request.imm, 0, (1 << 32) - 1)
        if allowed is Allowed.FLUSH:
            self._send_completion(request, WcStatus.WR_FLUSH_ERROR)
            return
        requestor = self.requestor
        assert requestor is not None
        if requestor.posted >= self.max_send_wr:
            raise QueueFullError(f"the send queue is full: it holds {self.max_send_wr} requests")
        requestor.post(request, view)
        self.owner.send_event(self, SendEvent.WORK)

    def post_recv(self, wr_id: int) -> None:
        """Post a receive for the completion of one WRITE with immediate. Raises as `post_write`."""
        allowed = QP_OPERATIONS[self.state][Operation.POST_RECV]
        if allowed is Allowed.NO:
            raise QpStateError(f"a receive cannot be posted in {self.state.value}")
        if allowed is Allowed.FLUSH:
            self._receive_completion(wr_id, WcStatus.WR_FLUSH_ERROR)
            return
        if len(self.receives) >= self.max_recv_wr:
            raise QueueFullError(f"the receive queue is full: it holds {self.max_recv_wr} requests")
        self.receives.append(wr_id)

    # --- what the two halves report ---

    def completed(self, message: Posted, status: WcStatus) -> None:
        """A message is done."""
        request = message.request
        if request.signaled or status is not WcStatus.SUCCESS:
            self._send_completion(request, status)

    def received_immediate(self, imm: int, length: int) -> None:
        """A WriteIMM's turn has come; there is a receive for it."""
        wr_id = self.receives.popleft()
        self._receive_completion(wr_id, WcStatus.SUCCESS, length, imm)

    def fail(self, message: Posted | None, status: WcStatus, now_ns: int) -> None:
        """The requestor cannot go on: `message` completes with `status`, the rest is flushed."""
        if self.state is not QpState.RTS:
            return
        self.state = QpState.ERROR
        self._flush(message, status)
        self.owner.qp_error(self, status, None)

    def refused(self, syndrome: Syndrome, now_ns: int) -> None:
        """The responder refused a request of the peer."""
        if self.state is QpState.ERROR:
            return
        self.state = QpState.ERROR
        self._flush(None, WcStatus.WR_FLUSH_ERROR)
        self.owner.qp_error(self, WcStatus.WR_FLUSH_ERROR, syndrome)

    def _flush(self, failed: Posted | None, status: WcStatus) -> None:
        """Complete all outstanding work, sends in order, then receives in order."""
        if self.requestor is not None:
            for message in self.requestor.close():
                self.completed(message, status if message is failed else WcStatus.WR_FLUSH_ERROR)
            self.owner.send_event(self, SendEvent.STOP)
        if self.responder is not None:
            self.responder.close()
        while self.receives:
            self._receive_completion(self.receives.popleft(), WcStatus.WR_FLUSH_ERROR)

    def _send_completion(self, request: WriteRequest, status: WcStatus) -> None:
        self.send_cq.push(WorkCompletion(request.wr_id, status, WcOpcode.RDMA_WRITE, self.number))

    def _receive_completion(
        self, wr_id: int, status: WcStatus, length: int = 0, imm: int | None = None
    ) -> None:
        self.recv_cq.push(
            WorkCompletion(wr_id, status, WcOpcode.RECV_RDMA_WITH_IMM, self.number, length, imm)
        )


#: Of any transport
AnyQueuePair: TypeAlias = BaseQueuePair[Any, Any, Any]
