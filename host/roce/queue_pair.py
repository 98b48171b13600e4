"""The RC queue pair of RoCE: what it adds to `BaseQueuePair`, and what it asks of its NIC."""

from __future__ import annotations

from typing import Protocol

from host.qp.base import BaseQueuePair, QpAttributes
from host.qp.states import SendEvent
from host.qp.syndrome import Syndrome
from host.qp.timers import Timed
from host.qp.work import CompletionQueue, WcStatus
from host.roce.requestor import RoceRequestor
from host.roce.responder import RoceResponder


class RoceOwner(Protocol):
    """What a queue pair needs of its NIC."""

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Call its `handle_timer` at that time or before."""
        ...

    def want_control(self, qp: RoceQueuePair) -> None:
        """The responder has an answer to send."""
        ...

    def send_event(self, qp: RoceQueuePair, event: SendEvent) -> None:
        """The requestor has work, or stops."""
        ...

    def halves(self, qp: RoceQueuePair) -> tuple[RoceRequestor, RoceResponder]:
        """The queue pair goes to RTR."""
        ...

    def disconnect(self, qp: RoceQueuePair) -> None:
        """The queue pair has no peer any more."""
        ...

    def qp_error(
        self, qp: RoceQueuePair, status: WcStatus, syndrome: Syndrome | None = None
    ) -> None:
        """The queue pair went to ERROR by itself; `syndrome` is the NAK that it sent, if any."""
        ...

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """As `MemoryTable.remote_write`."""
        ...

    def own_address(self) -> int:
        """The NIC's address."""
        ...


class RoceQueuePair(BaseQueuePair[RoceRequestor, RoceResponder]):
    """A queue pair of a `RoceNic`, made by `RoceNic.create_qp`.

    Of its attributes, those that only MRC has (MPR, WriteIMM, trim NACKs, profiles) say nothing.
    """

    __slots__ = ("owner",)

    def __init__(
        self,
        owner: RoceOwner,
        number: int,
        attributes: QpAttributes,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        *,
        max_send_wr: int,
        max_recv_wr: int,
        pd: int,
    ) -> None:
        super().__init__(
            number,
            attributes,
            send_cq,
            recv_cq,
            max_send_wr=max_send_wr,
            max_recv_wr=max_recv_wr,
            pd=pd,
        )
        self.owner = owner

    # --- states ---

    def _make_halves(self) -> None:
        self.requestor, self.responder = self.owner.halves(self)

    def _set_up_requestor(self) -> None:
        self.requestor, _ = self.owner.halves(self)

    def _forget_peer(self) -> None:
        if self.requestor is not None:
            self.owner.disconnect(self)

    def _own_address(self) -> int:
        return self.owner.own_address()

    def _send_event(self, event: SendEvent) -> None:
        self.owner.send_event(self, event)

    def _went_to_error(self, status: WcStatus, syndrome: Syndrome | None) -> None:
        self.owner.qp_error(self, status, syndrome)

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
