"""The requestor of RC: messages to packets in order, and back to the first one that is missing.

IBTA volume 1, sections 9.7.3 (requests), 9.7.6 (answers) and 9.9.2 (errors and retries). PSNs
are numbers without an end here (`host.qp.serial`). There is one place in the stream of PSNs, from
which packets are sent, and one timer; a NAK or a timeout moves that place back (go-back-N).

| what comes | acknowledged | goes on at | retries |
|---|---|---|---|
| ACK p | up to p | | afresh if it brought something |
| NAK PSN sequence error p | up to p - 1 | p, at once | one less |
| RNR NAK p | up to p - 1 | p, after the time it says | one RNR retry less |
| other NAK p | up to p - 1 | | queue pair to ERROR |
| nothing within the timeout | | first unacknowledged | one less |
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from host.config import TIMEOUT_UNIT_NS
from host.congestion.dcqcn import Dcqcn
from host.qp.serial import PSN_MASK, expand_psn
from host.qp.stats import RequestorStats
from host.qp.syndrome import STATUS_OF_NAK
from host.qp.work import WcStatus, WriteRequest
from host.roce.config import RNR_RETRIES_FOR_EVER, RoceConfig, rnr_timer_ns
from host.roce.packet import Bth, Opcode, write_frame
from host.roce.path import RocePath
from host.roce.syndrome import NAK_PSN_SEQUENCE_ERROR, AethKind, kind_of, value_of
from host.wire.headers import AETH, RETH
from topologies.timing import WIRE_OVERHEAD_BYTES

if TYPE_CHECKING:
    from host.roce.queue_pair import RoceQueuePair

_FIRST, _MIDDLE = int(Opcode.RDMA_WRITE_FIRST), int(Opcode.RDMA_WRITE_MIDDLE)
#: Of a last packet: by whether it has an immediate, then whether it is the only one
_LAST_OR_ONLY = (
    (int(Opcode.RDMA_WRITE_LAST), int(Opcode.RDMA_WRITE_ONLY)),
    (
        int(Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE),
        int(Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE),
    ),
)


@dataclass(slots=True)
class RoceRequestorStats(RequestorStats):
    """What a requestor of RC does besides."""

    #: NAKs of PSN sequence errors that came, CNPs that came
    sequence_errors: int = 0
    cnps: int = 0


class Message:
    """A posted WRITE, and the PSNs of its packets."""

    __slots__ = ("first_psn", "last_psn", "request", "view")

    def __init__(self, request: WriteRequest, view: memoryview, psn: int, packets: int) -> None:
        self.request = request
        self.view = view
        self.first_psn = psn
        self.last_psn = psn + packets - 1


class RoceRequestor:
    """The sending half of a queue pair. The NIC calls `next_packet` when `can_send` says so."""

    __slots__ = (
        "_ack_packets",
        "_asked_psn",
        "_config",
        "_cursor",
        "_deadline_ns",
        "_dest_qp",
        "_end_psn",
        "_highest_psn",
        "_messages",
        "_mtu",
        "_next_psn",
        "_retries",
        "_retries_left",
        "_rnr_retries_left",
        "_rnr_until_ns",
        "_timeout_ns",
        "_una",
        "armed_ns",
        "closed",
        "in_ring",
        "limiter",
        "path",
        "qp",
        "stats",
    )

    def __init__(
        self, qp: RoceQueuePair, path: RocePath, config: RoceConfig, limiter: Dcqcn | None
    ) -> None:
        attributes = qp.attributes
        self.qp = qp
        self.path = path
        self.limiter = limiter
        self._config = config
        self._mtu = attributes.path_mtu_bytes
        self._dest_qp = attributes.dest_qp
        self._timeout_ns = TIMEOUT_UNIT_NS << attributes.timeout
        self._retries = attributes.linear_retries
        #: A packet in so many asks for an ACK, beside the last of each message
        self._ack_packets = attributes.sack_packets

        #: Posted and not all acknowledged, in order; the one to be sent from is number `_cursor`
        self._messages: deque[Message] = deque()
        self._cursor = 0
        psn = attributes.sq_psn
        self._una = psn  # all before are acknowledged
        self._next_psn = psn  # to be sent next
        self._highest_psn = psn  # never sent yet
        self._end_psn = psn  # of the next message posted
        self._asked_psn = psn - 1  # of the last packet sent that asks for an ACK

        self._retries_left = self._retries
        self._rnr_retries_left = config.rnr_retries
        self._rnr_until_ns: int | None = None
        self._deadline_ns: int | None = None
        self.armed_ns: int | None = None
        self.in_ring = False
        self.closed = False
        self.stats = RoceRequestorStats()

    # --- work requests ---

    @property
    def posted(self) -> int:
        """Work requests that have not completed."""
        return len(self._messages)

    def post(self, request: WriteRequest, view: memoryview) -> None:
        """Queue a message; `view` is its data as bytes."""
        packets = -(-view.nbytes // self._mtu)
        self._messages.append(Message(request, view, self._end_psn, packets))
        self._end_psn += packets

    def close(self) -> list[Message]:
        """Stop. Returns the messages not completed, in order."""
        self.closed = True
        self._deadline_ns = None
        self._rnr_until_ns = None
        left = [*self._messages]
        self._messages.clear()
        return left

    # --- sending ---

    def has_packet(self) -> bool:
        """Whether window and RNR NAKs let a packet out."""
        return (
            not self.closed
            and self._rnr_until_ns is None
            and self._next_psn < self._end_psn
            and self._next_psn - self._una < self._config.window_psns
        )

    def ready_ns(self, now_ns: int) -> int:
        """When the rate lets the next packet out: now or later."""
        return now_ns if self.limiter is None else self.limiter.ready_ns(now_ns)

    def next_packet(self, now_ns: int) -> bytes:
        """The frame of the next packet; `has_packet` must have said that there is one."""
        psn = self._next_psn
        message = self._messages[self._cursor]
        index = psn - message.first_psn
        offset = index * self._mtu
        payload = message.view[offset : offset + self._mtu]
        request = message.request
        reth = None
        if not index:
            reth = RETH(request.remote_va, request.rkey, message.view.nbytes)
        immdt = None
        asks = (psn + 1) % self._ack_packets == 0 or psn + 1 == self._una + self._config.window_psns
        if psn != message.last_psn:
            opcode = _MIDDLE if index else _FIRST
        else:
            immdt = request.imm
            opcode = _LAST_OR_ONLY[immdt is not None][not index]
            asks = True
            self._cursor += 1
        bth = Bth(opcode, self._dest_qp, psn & PSN_MASK, asks)
        frame = write_frame(self.path.data, bth, reth, immdt, payload)
        stats = self.stats
        stats.packets += 1
        stats.payload_bytes += len(payload)
        self._next_psn = psn + 1
        if psn < self._highest_psn:
            stats.retransmissions += 1
        else:
            self._highest_psn = psn + 1
        if asks:
            self._asked_psn = psn
            if self._deadline_ns is None:
                self._start_timer(now_ns)
        if self.limiter is not None:
            self.limiter.on_send(len(frame) + WIRE_OVERHEAD_BYTES, now_ns)
        return frame

    def port_is_down(self, now_ns: int) -> None:
        """Nothing can leave: retries run out all the same."""
        if self._deadline_ns is None and not self.closed and self._messages:
            self._start_timer(now_ns)

    def _start_timer(self, now_ns: int) -> None:
        self._deadline_ns = now_ns + self._timeout_ns
        self.qp.arm(self, self._deadline_ns)

    # --- answers ---

    def on_ack(self, aeth: AETH, psn: int, now_ns: int) -> bool:
        """ACK, NAK or RNR NAK. False: of what was never sent, or of no known kind."""
        psn = expand_psn(psn, self._una)
        # A ghost acknowledge: of what is still to be sent
        if psn >= self._highest_psn:
            return False
        kind = kind_of(aeth.syndrome)
        if kind == AethKind.ACK:
            self._advance(psn + 1, now_ns)
            return True
        if kind == AethKind.RNR_NAK:
            self._advance(psn, now_ns)
            if psn == self._una:
                self.stats.refusals += 1
                self._wait(rnr_timer_ns(value_of(aeth.syndrome)), now_ns)
            return True
        if aeth.syndrome == NAK_PSN_SEQUENCE_ERROR:
            self._advance(psn, now_ns)
            if psn == self._una:
                self.stats.sequence_errors += 1
                if self._retry(now_ns):
                    self._deadline_ns = None
            return True
        status = STATUS_OF_NAK.get(aeth.syndrome)
        if status is None:
            return False
        self._advance(psn, now_ns)
        if psn == self._una and self._messages:
            self.qp.fail(self._messages[0], status, now_ns)
        return True

    def on_cnp(self, now_ns: int) -> None:
        """The network is congested."""
        self.stats.cnps += 1
        if self.limiter is not None:
            self.limiter.on_cnp(now_ns)

    def _advance(self, una: int, now_ns: int) -> None:
        """All before `una` is acknowledged."""
        if una <= self._una:
            return
        self._una = una
        self._retries_left = self._retries
        self._rnr_retries_left = self._config.rnr_retries
        if self._next_psn < una:
            # Answers to what was sent before it was gone back
            self._next_psn = una
        messages = self._messages
        completed = self.qp.completed
        while messages and messages[0].last_psn < una:
            message = messages.popleft()
            self._cursor = max(self._cursor - 1, 0)
            completed(message, WcStatus.SUCCESS)
        if self._asked_psn >= una:
            self._start_timer(now_ns)
        else:
            self._deadline_ns = None

    def _wait(self, duration_ns: int, now_ns: int) -> None:
        """The peer has no receive: send nothing for a while, then go on from where it was."""
        if self._config.rnr_retries < RNR_RETRIES_FOR_EVER:
            if not self._rnr_retries_left:
                self.qp.fail(self._messages[0], WcStatus.RNR_RETRY_EXCEEDED_ERROR, now_ns)
                return
            self._rnr_retries_left -= 1
        self._go_back()
        self._deadline_ns = None
        self._rnr_until_ns = now_ns + duration_ns
        self.qp.arm(self, self._rnr_until_ns)

    def _retry(self, now_ns: int) -> bool:
        """Go back, if there is a retry left. False: the queue pair ended."""
        if not self._retries_left:
            self.qp.fail(self._messages[0], WcStatus.RETRY_EXCEEDED_ERROR, now_ns)
            return False
        self._retries_left -= 1
        self._go_back()
        return True

    def _go_back(self) -> None:
        self._next_psn = self._una
        self._asked_psn = self._una - 1
        self._cursor = 0

    # --- time ---

    def next_deadline(self) -> int | None:
        """The earliest of: the timeout, the end of an RNR wait, the rate's timer."""
        if self.closed:
            return None
        times = [self._deadline_ns, self._rnr_until_ns]
        limiter = self.limiter
        if limiter is not None:
            times.append(limiter.next_timer())
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Time has come. May end the queue pair (retries used up)."""
        if self.closed:
            return
        if self.limiter is not None:
            self.limiter.handle_timer(now_ns)
        if self._rnr_until_ns is not None and self._rnr_until_ns <= now_ns:
            self._rnr_until_ns = None
        if self._deadline_ns is not None and self._deadline_ns <= now_ns:
            self.stats.timeouts += 1
            self._deadline_ns = None
            self._retry(now_ns)
