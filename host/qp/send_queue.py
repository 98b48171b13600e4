"""The messages of a requestor: posted, being sent, and sent until their transport ACK has come.

mrc-protocol.md, section 4: reliability and transport are two layers. This is the transport's at the
sending end, with MSN, RQMSN and the limit of WriteIMMs in flight; packets are `flight`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from host.qp.work import WcStatus, WriteRequest

#: Messages sent but not completed by a transport ACK; far below half the MSN space
MAX_UNCOMPLETED_MESSAGES = 1 << 14


class Message:
    """A posted WRITE, and the PSNs of its packets."""

    __slots__ = (
        "dma_length",
        "first_psn",
        "imm",
        "last_psn",
        "msn",
        "request",
        "rqmsn",
        "view",
    )

    def __init__(
        self, request: WriteRequest, view: memoryview, msn: int, rqmsn: int, psn: int, packets: int
    ) -> None:
        self.request = request
        self.view = view
        self.dma_length = view.nbytes
        self.imm = request.imm
        self.msn = msn
        self.rqmsn = rqmsn
        self.first_psn = psn
        self.last_psn = psn + packets - 1


class SendQueue:
    """Messages in the order of posting. PSNs and MSNs are numbers without an end here.

    Attributes:
        waiting: first packet not sent.
        current: in the middle of being sent; one of the uncompleted.
        uncompleted: sent, perhaps in part.
        sent_msn: messages before this one are sent to their last packet.
        ack_due_ns: when the transport ACK of the oldest, which has landed, will be missed.
    """

    __slots__ = (
        "_max_wimm",
        "_mtu",
        "_next_msn",
        "_next_psn",
        "_next_rqmsn",
        "_wimm_in_flight",
        "ack_due_ns",
        "current",
        "sent_msn",
        "uncompleted",
        "waiting",
    )

    def __init__(self, psn: int, *, mtu_bytes: int, max_wimm: int) -> None:
        self._mtu = mtu_bytes
        self._max_wimm = max_wimm
        self._next_psn = psn  # of the next message posted
        self._next_msn = 0
        self._next_rqmsn = 0
        self._wimm_in_flight = 0
        self.waiting: deque[Message] = deque()
        self.current: Message | None = None
        self.uncompleted: deque[Message] = deque()
        self.sent_msn = 0
        self.ack_due_ns: int | None = None

    def __len__(self) -> int:
        return len(self.waiting) + len(self.uncompleted)

    def post(self, request: WriteRequest, view: memoryview) -> None:
        """Queue a message; `view` is its data as bytes."""
        packets = -(-view.nbytes // self._mtu)
        message = Message(request, view, self._next_msn, self._next_rqmsn, self._next_psn, packets)
        self._next_msn += 1
        self._next_psn += packets
        if request.imm is not None:
            self._next_rqmsn += 1
        self.waiting.append(message)

    def may_begin(self, message: Message) -> bool:
        """Whether limits let the first packet of the next message out."""
        return len(self.uncompleted) < MAX_UNCOMPLETED_MESSAGES and (
            message.imm is None or self._wimm_in_flight < self._max_wimm
        )

    def begin(self, message: Message) -> None:
        """The first packet of the next message is sent."""
        self.waiting.popleft()
        self.uncompleted.append(message)
        self.current = message
        if message.imm is not None:
            self._wimm_in_flight += 1

    def complete(self, msn: int, completed: Callable[[Message, WcStatus], None]) -> int:
        """All up to `msn` are done: `completed` is told. Returns the last one's last PSN, or -1."""
        uncompleted = self.uncompleted
        last_psn = -1
        while uncompleted and uncompleted[0].msn <= msn:
            message = uncompleted.popleft()
            last_psn = message.last_psn
            if message.imm is not None:
                self._wimm_in_flight -= 1
            completed(message, WcStatus.SUCCESS)
        self.ack_due_ns = None
        return last_psn

    def of_psn(self, psn: int) -> Message | None:
        """The uncompleted message that a PSN belongs to."""
        for message in self.uncompleted:
            if message.first_psn <= psn <= message.last_psn:
                return message
        return None

    def close(self) -> list[Message]:
        """Give all up. Returns those not completed, in order."""
        left = [*self.uncompleted, *self.waiting]
        self.uncompleted.clear()
        self.waiting.clear()
        self.current = None
        self.ack_due_ns = None
        return left
