"""The requestor: messages to packets, and each packet to the other side until it is acknowledged.

mrc-protocol.md, section 3. Two layers: reliability (PSNs, SACK, NACK, timers) moves packets, the
transport ACK completes messages. PSNs and MSNs are numbers without an end here (`serial`).

A packet in flight has one `_Packet`. Sending it again makes a new one, and the old is dead: timers
hold packets in order of their deadlines and pass over the dead, so that no timer is ever searched
for or cancelled. There is one such queue for each length of timeout.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from host.config import EXPONENTIAL_RETRIES_FOR_EVER, MAX_TIMEOUT, TIMEOUT_UNIT_NS
from host.paths.base import EvSelector
from host.qp.peer import Routes, SharedWindow
from host.qp.serial import PSN_MASK, expand_msn, expand_psn
from host.qp.states import SendState
from host.qp.syndrome import STATUS_OF_NAK, is_ack
from host.qp.work import WcStatus, WriteRequest
from host.wire.assumptions import (
    TIMESTAMP_UNIT_NS,
    elapsed_ns,
    received_of_sack_bitmap,
    timestamp_of_ns,
)
from host.wire.constants import MPR_UNIT_PSNS, NackReason, Opcode, SackM
from host.wire.headers import AETH, BTH, NETH, PETH, SETH, CCState

if TYPE_CHECKING:
    from host.qp.queue_pair import QueuePair

#: Messages sent but not completed by a transport ACK; far below half the MSN space
MAX_UNCOMPLETED_MESSAGES = 1 << 14
#: Reliability probes that may be out at a time, of all purposes
MAX_PROBES = 256

_FIRST, _MIDDLE = int(Opcode.RDMA_WRITE_FIRST), int(Opcode.RDMA_WRITE_MIDDLE)
#: Of a last packet: by whether it has an immediate, then whether it is the only one
_LAST_OR_ONLY = (
    (int(Opcode.RDMA_WRITE_LAST), int(Opcode.RDMA_WRITE_ONLY)),
    (
        int(Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE),
        int(Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE),
    ),
)

_TRIMS = (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP)
#: The responder could not keep the packet; it says nothing about the path
_RESOURCES = (
    NackReason.NO_BITMAP,
    NackReason.NO_PKT_BUFFER,
    NackReason.NO_RESOURCE,
    NackReason.PSN_OOR_WINDOW,
)
_M_SKIP_ONCE = int(SackM.SKIP_ONCE)
_TIMESTAMP_MASK = 0xFFFF
_TIMESTAMP_ROUND_NS = (_TIMESTAMP_MASK + 1) * TIMESTAMP_UNIT_NS


class Verdict(IntEnum):
    """Why `Requestor.next_packet` sent nothing."""

    #: There is nothing to send
    NOTHING = 0
    #: No EV on a port that has room now
    NO_ROOM = 1
    #: The congestion window that is shared with other queue pairs is full
    WINDOW_FULL = 2
    #: MPR window full, limit of messages or of WriteIMM reached, or no plane usable
    HELD = 3


@dataclass(slots=True)
class RequestorStats:
    """What a requestor did, since it was made."""

    packets: int = 0
    payload_bytes: int = 0
    retransmissions: int = 0
    probes: int = 0
    #: Local ACK timeouts
    timeouts: int = 0
    #: NACKs: of trimmed packets, and for want of a resource
    trims: int = 0
    refusals: int = 0


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


class _Packet:
    """One transmission of a packet, or one that waits for its turn to be sent again."""

    __slots__ = (
        "deadline_ns",
        "ev",
        "exponent",
        "in_flight",
        "live",
        "message",
        "psn",
        "refused",
        "sent_ns",
        "size_bytes",
        "solicits",
        "timeouts",
    )

    def __init__(self, psn: int, message: Message) -> None:
        self.psn = psn
        self.message = message
        #: False once it is acknowledged, or replaced by its next transmission
        self.live = True
        self.in_flight = False
        self.ev = -1
        self.sent_ns = 0
        self.deadline_ns = 0
        self.size_bytes = 0
        #: Local ACK timeouts that it has met
        self.timeouts = 0
        #: The timeout is 2^exponent times the default
        self.exponent = 0
        #: It waits for a resource of the responder: its timer neither blames nor counts
        self.refused = False
        #: It was acknowledged, and is sent again for its transport ACK, which was lost
        self.solicits = False

    def __lt__(self, other: _Packet) -> bool:
        return self.psn < other.psn


class Requestor:
    """The sending half of a queue pair. The NIC's scheduler calls `next_packet`."""

    __slots__ = (
        "_ack_due_ns",
        "_budget",
        "_current",
        "_dest_context",
        "_dest_qp",
        "_dynamic_mpr",
        "_edge",
        "_for_ever",
        "_last_feedback_ns",
        "_linear_retries",
        "_max_exponent",
        "_max_wimm",
        "_mpr",
        "_mtu",
        "_next_psn",
        "_next_rqmsn",
        "_next_send_psn",
        "_packets",
        "_penalty",
        "_probe_id",
        "_probe_queue",
        "_probes",
        "_retransmissions",
        "_routes",
        "_sacked",
        "_send_queue",
        "_sent_msn",
        "_solicit",
        "_source_context",
        "_timeout_ns",
        "_timers",
        "_una",
        "_uncompleted",
        "_wimm_in_flight",
        "armed_ns",
        "closed",
        "controller",
        "credit_bytes",
        "evs",
        "in_ring",
        "next_msn",
        "qp",
        "send_state",
        "stats",
        "verdict",
        "waits_for_window",
        "window",
    )

    def __init__(
        self,
        qp: QueuePair,
        evs: EvSelector,
        routes: Routes,
        window: SharedWindow,
    ) -> None:
        attributes = qp.attributes
        self.qp = qp
        self.evs = evs
        self.window = window
        self.controller = window.controller
        self._routes = routes
        self._mtu = attributes.path_mtu_bytes
        self._dest_qp = attributes.dest_qp
        self._source_context = qp.number & 0xFFFF
        self._dest_context = attributes.dest_qp & 0xFFFF
        self._dynamic_mpr = attributes.dynamic_mpr
        self._mpr = attributes.mpr_psns
        self._max_wimm = attributes.max_wimm
        self._timeout_ns = TIMEOUT_UNIT_NS << attributes.timeout
        self._linear_retries = attributes.linear_retries
        self._for_ever = attributes.exponential_retries == EXPONENTIAL_RETRIES_FOR_EVER
        #: Timeouts of one packet that are still answered with another transmission
        self._budget = attributes.linear_retries + attributes.exponential_retries
        #: No timeout is longer than the longest that an attribute can ask for (our choice)
        self._max_exponent = MAX_TIMEOUT - attributes.timeout

        #: Posted, in order, first packet not sent; the one in the middle of being sent; sent
        #: (perhaps in part) and not completed, in order, the current one included
        self._send_queue: deque[Message] = deque()
        self._current: Message | None = None
        self._uncompleted: deque[Message] = deque()

        psn = attributes.sq_psn
        self._next_psn = psn  # of the next message posted
        self._next_send_psn = psn  # never sent yet
        self._una = psn  # all before are acknowledged: cack + 1
        self._sacked = 0  # bit i: una + i is acknowledged
        self._edge = psn - 1 + self._mpr  # the last PSN that MPR lets out
        self.next_msn = 0
        self._sent_msn = 0  # messages before this are sent to their last packet
        self._next_rqmsn = 0
        self._wimm_in_flight = 0

        self._packets: dict[int, _Packet] = {}
        #: A heap, oldest first: with a window of one packet, the peer's window moves on, and a peer
        #: that is gone is found by one packet's retries and not by all of them in turn
        self._retransmissions: list[_Packet] = []
        self._timers: list[deque[_Packet]] = [deque()]
        #: Retransmission that asks for a lost transport ACK, and when one will be needed
        self._solicit: _Packet | None = None
        self._ack_due_ns: int | None = None

        #: Probes to be sent: EV or -1 for any; sent: id → (EV, sent, whether `evs` asked)
        self._probe_queue: deque[tuple[int, bool]] = deque()
        self._probes: dict[int, tuple[int, int, bool]] = {}
        self._probe_id = 0
        self._last_feedback_ns = -1
        self._penalty = (0, False)

        #: No more: the queue pair left RTS
        self.closed = False
        self.armed_ns: int | None = None
        self.send_state = SendState.IDLE
        self.verdict = Verdict.NOTHING
        self.in_ring = False
        self.waits_for_window = False
        self.credit_bytes = 0
        self.stats = RequestorStats()

    # --- work requests ---

    @property
    def posted(self) -> int:
        """Work requests that have not completed."""
        return len(self._send_queue) + len(self._uncompleted)

    def post(self, request: WriteRequest, view: memoryview) -> None:
        """Queue a message; `view` is its data as bytes."""
        packets = -(-view.nbytes // self._mtu)
        message = Message(request, view, self.next_msn, self._next_rqmsn, self._next_psn, packets)
        self.next_msn += 1
        self._next_psn += packets
        if request.imm is not None:
            self._next_rqmsn += 1
        self._send_queue.append(message)

    def close(self) -> list[Message]:
        """Stop: give up all that is in flight. Returns the messages not completed, in order."""
        self.closed = True
        for packet in self._packets.values():
            self._out_of_flight(packet)
        if self._solicit is not None:
            self._out_of_flight(self._solicit)
        self._solicit = None
        self._packets.clear()
        self._retransmissions.clear()
        self._timers = [deque()]
        self._probes.clear()
        self._probe_queue.clear()
        self._ack_due_ns = None
        self._sacked = 0
        left = [*self._uncompleted, *self._send_queue]
        self._uncompleted.clear()
        self._send_queue.clear()
        self._current = None
        return left

    def _out_of_flight(self, packet: _Packet) -> None:
        packet.live = False
        if packet.in_flight:
            packet.in_flight = False
            self.controller.inflight_bytes -= packet.size_bytes

    # --- sending ---

    def has_work(self) -> bool:
        """Whether there is something to send, allowed or not."""
        retransmissions = self._retransmissions
        while retransmissions and not retransmissions[0].live:
            heappop(retransmissions)
        return bool(
            self._current is not None or self._send_queue or retransmissions or self._probe_queue
        )

    def has_unacknowledged(self) -> bool:
        """Whether something sent waits for an answer."""
        return bool(self._uncompleted or self._probes)

    def next_packet(self, room: int, now_ns: int) -> tuple[int, bytes] | None:
        """(port, frame) of what to send now on one of the ports of `room`; None: see `verdict`."""
        if self._probe_queue and (sent := self._send_probe(room, now_ns)) is not None:
            return sent
        retransmissions = self._retransmissions
        while retransmissions and not retransmissions[0].live:
            heappop(retransmissions)

        controller = self.controller
        if retransmissions:
            if controller.inflight_bytes >= controller.cwnd_bytes:
                self.verdict = Verdict.WINDOW_FULL
                return None
            ev = self.evs.select(room)
            if ev is None and not self._lost_without_path():
                return None
            packet = heappop(retransmissions)
            if ev is None:
                self._start_timer(packet, now_ns)
                return None
            return self._send(packet, ev, now_ns, rtx=True)

        message = self._current
        if message is None:
            if not self._send_queue:
                self.verdict = Verdict.NO_ROOM if self._probe_queue else Verdict.NOTHING
                return None
            message = self._send_queue[0]
            if len(self._uncompleted) >= MAX_UNCOMPLETED_MESSAGES or (
                message.imm is not None and self._wimm_in_flight >= self._max_wimm
            ):
                self.verdict = Verdict.HELD
                return None
        if controller.inflight_bytes >= controller.cwnd_bytes:
            self.verdict = Verdict.WINDOW_FULL
            return None
        psn = self._next_send_psn
        if psn > self._edge:
            self.verdict = Verdict.HELD
            return None
        ev = self.evs.select(room)
        if ev is None and not self._lost_without_path():
            return None

        if self._current is None:
            self._send_queue.popleft()
            self._uncompleted.append(message)
            self._current = message
            if message.imm is not None:
                self._wimm_in_flight += 1
        packet = _Packet(psn, message)
        self._packets[psn] = packet
        self._next_send_psn = psn + 1
        if psn == message.last_psn:
            self._current = None
            self._sent_msn = message.msn + 1
        if ev is None:
            self._start_timer(packet, now_ns)
            return None
        return self._send(packet, ev, now_ns, rtx=False)

    def _send(self, packet: _Packet, ev: int, now_ns: int, rtx: bool) -> tuple[int, bytes]:
        routes = self._routes
        route = routes.by_ev.get(ev) or routes.add(ev, self.evs.plane_of(ev))
        message = packet.message
        psn = packet.psn
        offset = (psn - message.first_psn) * self._mtu
        payload = message.view[offset : offset + self._mtu]
        request = message.request
        immdt: int | None = None
        if psn != message.last_psn:
            opcode = _MIDDLE if offset else _FIRST
            ack_request = False
        else:
            immdt = message.imm
            opcode = _LAST_OR_ONLY[immdt is not None][offset == 0]
            # The responder need not hold back an answer that nothing follows
            ack_request = not self._send_queue
        frame = (route.retx if rtx else route.first).write(
            opcode,
            self._dest_qp,
            psn & PSN_MASK,
            message.rqmsn & 0xFFFF,
            message.msn & 0xFFFF,
            request.remote_va + offset,
            request.rkey,
            message.dma_length,
            payload,
            tx_timestamp=now_ns // TIMESTAMP_UNIT_NS & _TIMESTAMP_MASK,
            immdt=immdt,
            rtx=rtx,
            ack_request=ack_request or rtx,
        )
        size_bytes = len(frame)
        packet.in_flight = True
        packet.ev = ev
        packet.sent_ns = now_ns
        packet.size_bytes = size_bytes
        self._start_timer(packet, now_ns)
        controller = self.controller
        controller.inflight_bytes += size_bytes
        controller.on_send(size_bytes, now_ns)
        stats = self.stats
        stats.packets += 1
        stats.payload_bytes += len(payload)
        if rtx:
            stats.retransmissions += 1
        return route.port, frame

    def _start_timer(self, packet: _Packet, now_ns: int) -> None:
        exponent = packet.exponent
        timers = self._timers
        while len(timers) <= exponent:
            timers.append(deque())
        deadline_ns = now_ns + (self._timeout_ns << exponent)
        packet.deadline_ns = deadline_ns
        timers[exponent].append(packet)
        if self.armed_ns is None or deadline_ns < self.armed_ns:
            self.qp.arm(self, deadline_ns)

    def _lost_without_path(self) -> bool:
        """There is no EV for the next packet. Sets the verdict, and says whether it counts as sent.

        It does where no plane is usable at all and no timer runs: the packet is lost here as it
        would be on a dead wire, so that without a path the retries run out as they should.
        """
        if self.evs.usable_planes() & self.qp.planes_up():
            self.verdict = Verdict.NO_ROOM
            return False
        self.verdict = Verdict.HELD
        for timers in self._timers:
            self._forget_dead(timers)
            if timers:
                return False
        return True

    def _send_probe(self, room: int, now_ns: int) -> tuple[int, bytes] | None:
        ev, asked = self._probe_queue[0]
        if ev < 0:
            selected = self.evs.select(room)
            if selected is None:
                return None
            ev = selected
        plane = self.evs.plane_of(ev)
        if not room >> plane & 1:
            # On a port that is down it is lost at once; behind a busy one it waits
            if self.qp.planes_up() >> plane & 1:
                return None
            self._probe_queue.popleft()
            if asked:
                self.evs.on_probe_timeout(ev, now_ns)
            return None
        self._probe_queue.popleft()
        self._probe_id = self._probe_id + 1 & 0xFFFF
        self._probes[self._probe_id] = ev, now_ns, asked
        route = self._routes.by_ev.get(ev) or self._routes.add(ev, plane)
        bth = BTH(Opcode.RELIABILITY_PROBE_REQUEST, self._dest_qp, 0)
        peth = PETH(
            self._probe_id, self._source_context, self._dest_context, timestamp_of_ns(now_ns)
        )
        self.qp.arm(self, now_ns + self._timeout_ns)
        self.stats.probes += 1
        return plane, route.first.frame(bth.pack() + peth.pack())

    # --- answers ---

    def on_sack(self, seth: SETH, cc_state: CCState, now_ns: int) -> bool:
        """A SACK from the peer. False: it acknowledges what was never sent, or is not for us."""
        (
            m,
            pr,
            ack_psn_offset,
            ev,
            source_context,
            dest_context,
            cack_psn,
            mpr,
            sack_offset,
            bitmap,
            _,
            _,
        ) = seth
        if source_context != self._dest_context or dest_context != self._source_context:
            return False
        una = self._una
        next_send_psn = self._next_send_psn
        cack = expand_psn(cack_psn, una)
        received = received_of_sack_bitmap(bitmap)
        base = cack + sack_offset
        if cack >= next_send_psn or (received and base + received.bit_length() > next_send_psn):
            return False
        self._last_feedback_ns = now_ns

        # Exact where the packet that is answered is known still, and was not held back there
        packet = None if pr else self._packets.get(cack + ack_psn_offset)
        if (
            packet is not None
            and packet.in_flight
            and packet.sent_ns // TIMESTAMP_UNIT_NS & _TIMESTAMP_MASK == cc_state.tx_timestamp
        ):
            rtt_ns = now_ns - packet.sent_ns
        else:
            rtt_ns = elapsed_ns(cc_state.tx_timestamp, now_ns)
            if packet is not None and packet.in_flight:
                # Timestamps come round, in 8 ms: how often they have, the packet's age tells
                rounds = (now_ns - packet.sent_ns - rtt_ns) // _TIMESTAMP_ROUND_NS
                if rounds > 0:
                    rtt_ns += rounds * _TIMESTAMP_ROUND_NS

        acked_bytes = 0
        if cack >= una:
            acked_bytes = self._advance(cack)
            if self._ack_due_ns is None:
                self._expect_ack(now_ns)
        if received:
            shift = base - self._una
            if shift >= 0:
                received <<= shift
            else:
                received >>= -shift
            received &= ~self._sacked
            if received:
                self._sacked |= received
                acked_bytes += self._acknowledge(received)
        if acked_bytes:
            self.controller.inflight_bytes -= acked_bytes
            self._forget_dead(self._timers[0])

        if self._dynamic_mpr and cack >= una - 1 and mpr:
            self._mpr = mpr * MPR_UNIT_PSNS
        self._move_edge()

        evs = self.evs
        if pr:
            self._probe_answered(ack_psn_offset & 0xFFFF, now_ns)
        else:
            evs.on_sack(ev, m, now_ns)
        controller = self.controller
        penalty = (cc_state.rcv_cwnd_pen, cc_state.restore_cwnd)
        if penalty != self._penalty:
            self._penalty = penalty
            controller.on_peer_penalty(*penalty, now_ns)
        controller.on_ack(acked_bytes, m == _M_SKIP_ONCE, rtt_ns, now_ns)
        return True

    def _advance(self, cack: int) -> int:
        """All up to `cack` is acknowledged. Returns the bytes that this takes out of flight."""
        una = self._una
        pop = self._packets.pop
        acked_bytes = 0
        for psn in range(una, cack + 1):
            packet = pop(psn, None)
            if packet is not None:
                packet.live = False
                if packet.in_flight:
                    packet.in_flight = False
                    acked_bytes += packet.size_bytes
        self._una = cack + 1
        if self._sacked:
            self._sacked >>= cack + 1 - una
        return acked_bytes

    def _acknowledge(self, received: int) -> int:
        """Acknowledge una + i for every bit i. Returns as `_advance`."""
        una = self._una
        pop = self._packets.pop
        acked_bytes = 0
        while received:
            lowest = received & -received
            received ^= lowest
            packet = pop(una + lowest.bit_length() - 1, None)
            if packet is not None:
                packet.live = False
                if packet.in_flight:
                    packet.in_flight = False
                    acked_bytes += packet.size_bytes
        return acked_bytes

    def _expect_ack(self, now_ns: int) -> None:
        """If the oldest message has landed, its transport ACK must come within a timeout."""
        if self._uncompleted and self._uncompleted[0].last_psn < self._una:
            self._ack_due_ns = now_ns + self._timeout_ns
            self.qp.arm(self, self._ack_due_ns)

    def on_nack(self, neth: NETH, now_ns: int) -> bool:
        """A NACK from the peer; UNEXP_EVENT is the queue pair's. False as `on_sack`."""
        if neth.spdcid != self._dest_context or neth.dpdcid != self._source_context:
            return False
        psn = expand_psn(neth.nack_psn, self._una)
        if psn >= self._next_send_psn:
            return False
        self._last_feedback_ns = now_ns
        reason = neth.reason
        packet = self._packets.get(psn)
        # Only the transmission that met its fate; a later one is on its way
        current = packet is not None and packet.in_flight and packet.ev == neth.entropy
        if reason in _TRIMS:
            self.stats.trims += 1
            self.evs.on_nack(neth.entropy, NackReason(reason), now_ns)
            if packet is not None and current:
                self._out_of_flight(packet)
                last_hop = reason == NackReason.TRIMMED_LASTHOP
                self.controller.on_trim(packet.size_bytes, last_hop, now_ns)
                self._retransmit(packet)
        elif reason in _RESOURCES:
            self.stats.refusals += 1
            self.evs.on_nack(neth.entropy, NackReason(reason), now_ns)
            if packet is not None and current:
                self._out_of_flight(packet)
                again = _Packet(psn, packet.message)
                again.timeouts = packet.timeouts
                again.refused = True
                self._packets[psn] = again
                self._start_timer(again, now_ns)
        else:
            return False
        return True

    def message_of_nack(self, neth: NETH) -> tuple[bool, Message | None]:
        """Whether a NACK is of a packet that was sent, and its message unless that completed."""
        psn = expand_psn(neth.nack_psn, self._una)
        if (
            neth.spdcid != self._dest_context
            or neth.dpdcid != self._source_context
            or psn >= self._next_send_psn
            or psn < self.qp.attributes.sq_psn
        ):
            return False, None
        for message in self._uncompleted:
            if message.first_psn <= psn <= message.last_psn:
                return True, message
        return True, None

    def _retransmit(self, packet: _Packet, exponent: int = 0) -> None:
        """Queue the packet's next transmission; `packet` is dead."""
        again = _Packet(packet.psn, packet.message)
        again.timeouts = packet.timeouts
        again.exponent = exponent
        if packet.solicits:
            again.solicits = True
            self._solicit = again
        else:
            self._packets[packet.psn] = again
        heappush(self._retransmissions, again)

    def on_ack(self, aeth: AETH, now_ns: int) -> bool:
        """A transport ACK or NAK. False: of a message that was never sent, or of no known kind."""
        uncompleted = self._uncompleted
        # Not yet completed: the oldest's MSN; there may be none
        oldest = uncompleted[0].msn if uncompleted else self._sent_msn
        msn = expand_msn(aeth.msn, oldest)
        if is_ack(aeth.syndrome):
            if msn >= self._sent_msn:
                return False
            self._last_feedback_ns = now_ns
            if msn >= oldest:
                self._complete(msn, now_ns)
            return True
        status = STATUS_OF_NAK.get(aeth.syndrome)
        if status is None:
            return False
        # Their MSNs follow one another: no search, which a flood of wrong NAKs would make costly
        index = msn - oldest
        if not 0 <= index < len(uncompleted):
            return False
        self._last_feedback_ns = now_ns
        self.qp.fail(uncompleted[index], status, now_ns)
        return True

    def _complete(self, msn: int, now_ns: int) -> None:
        """All messages up to `msn` are done."""
        uncompleted = self._uncompleted
        last_psn = -1
        completed = self.qp.completed
        while uncompleted and uncompleted[0].msn <= msn:
            message = uncompleted.popleft()
            last_psn = message.last_psn
            if message.imm is not None:
                self._wimm_in_flight -= 1
            completed(message, WcStatus.SUCCESS)
        self._ack_due_ns = None
        if self._solicit is not None and self._solicit.message.msn <= msn:
            self._out_of_flight(self._solicit)
            self._solicit = None
        # It landed, so it arrived: a transport ACK may overtake the SACK
        if last_psn >= self._una:
            self.controller.inflight_bytes -= self._advance(last_psn)
            self._move_edge()
            self._forget_dead(self._timers[0])
        self._expect_ack(now_ns)

    def _move_edge(self) -> None:
        self._edge = self._una - 1 + self._mpr

    @staticmethod
    def _forget_dead(timers: deque[_Packet]) -> None:
        while timers and not timers[0].live:
            timers.popleft()

    # --- time ---

    def next_deadline(self) -> int | None:
        """The earliest timer."""
        if self.closed:
            return None
        earliest = self._ack_due_ns
        for timers in self._timers:
            self._forget_dead(timers)
            if timers and (earliest is None or timers[0].deadline_ns < earliest):
                earliest = timers[0].deadline_ns
        if self._probes:
            # Sent in order, and each given the same time
            _, sent_ns, _ = next(iter(self._probes.values()))
            if earliest is None or sent_ns + self._timeout_ns < earliest:
                earliest = sent_ns + self._timeout_ns
        evs_ns = None
        if len(self._probes) + len(self._probe_queue) < MAX_PROBES:
            evs_ns = self.evs.next_timer()
        if evs_ns is not None and (earliest is None or evs_ns < earliest):
            earliest = evs_ns
        return earliest

    def handle_timer(self, now_ns: int) -> None:
        """Timers have run out. May end the queue pair (retries used up)."""
        if self.closed:
            return
        for timers in self._timers:
            while timers:
                packet = timers[0]
                if packet.live:
                    if packet.deadline_ns > now_ns:
                        break
                    timers.popleft()
                    if not self._timed_out(packet, now_ns):
                        return
                else:
                    timers.popleft()
        if self._ack_due_ns is not None and self._ack_due_ns <= now_ns:
            self._ack_due_ns = None
            self._solicit_ack()
        timeout_ns = self._timeout_ns
        while self._probes:
            probe_id, (ev, sent_ns, asked) = next(iter(self._probes.items()))
            if sent_ns + timeout_ns > now_ns:
                break
            del self._probes[probe_id]
            if asked:
                self.evs.on_probe_timeout(ev, now_ns)
        while len(self._probes) + len(self._probe_queue) < MAX_PROBES:
            wanted = self.evs.next_probe(now_ns)
            if wanted is None:
                break
            self._probe_queue.append((wanted, True))

    def _timed_out(self, packet: _Packet, now_ns: int) -> bool:
        """A packet's time is over. False: so is the queue pair's."""
        if packet.refused:
            packet.live = False
            self._retransmit(packet)
            return True
        lost_on_wire = packet.in_flight
        self._out_of_flight(packet)
        self.stats.timeouts += 1
        packet.timeouts += 1
        if packet.timeouts > self._budget and not self._for_ever:
            self.qp.fail(packet.message, WcStatus.RETRY_EXCEEDED_ERROR, now_ns)
            return False
        if lost_on_wire and not packet.solicits:
            self.evs.on_timeout(packet.ev, packet.sent_ns, now_ns)
            self.controller.on_loss(packet.size_bytes, now_ns)
            if self._last_feedback_ns < packet.sent_ns:
                # Nothing at all came back since: are the SACKs lost?
                self._probe_for_sack()
        exponent = min(max(packet.timeouts - self._linear_retries, 0), self._max_exponent)
        self._retransmit(packet, exponent)
        return True

    def _solicit_ack(self) -> None:
        """The oldest message has landed and its transport ACK did not come: draw another one."""
        if self._solicit is not None or not self._uncompleted:
            return
        message = self._uncompleted[0]
        packet = _Packet(message.last_psn, message)
        packet.solicits = True
        self._solicit = packet
        heappush(self._retransmissions, packet)

    def _probe_for_sack(self) -> None:
        """One probe at a time on any EV: its SACK says what arrived."""
        if any(not asked for _, asked in self._probe_queue):
            return
        if any(not asked for _, _, asked in self._probes.values()):
            return
        if len(self._probes) + len(self._probe_queue) < MAX_PROBES:
            self._probe_queue.append((-1, False))

    def _probe_answered(self, probe_id: int, now_ns: int) -> None:
        probe = self._probes.pop(probe_id, None)
        if probe is not None and probe[2]:
            self.evs.on_probe_answer(probe[0], now_ns)
