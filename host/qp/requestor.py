"""The requestor: what becomes of messages and packets by the answers of the peer, and by time.

mrc-protocol.md, section 3. Two layers: reliability (PSNs, SACK, NACK, timers) moves packets, the
transport ACK completes messages. PSNs and MSNs are numbers without an end here (`serial`).

======================  ============================================================================
`send_queue`            messages: the transport layer's memory
`flight`                packets that are not acknowledged, and their timers: the reliability layer's
`reliability_probes`    probes
`sender`                what leaves next
======================  ============================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from host.config import EXPONENTIAL_RETRIES_FOR_EVER, MAX_TIMEOUT, TIMEOUT_UNIT_NS
from host.paths.base import EvSelector
from host.qp.flight import Flight, Packet
from host.qp.peer import Routes, SharedWindow
from host.qp.reliability_probes import ReliabilityProbes
from host.qp.send_queue import Message, SendQueue
from host.qp.sender import Sender
from host.qp.serial import expand_msn, expand_psn
from host.qp.states import SendState
from host.qp.stats import RequestorStats
from host.qp.syndrome import STATUS_OF_NAK, is_ack
from host.qp.work import WcStatus, WriteRequest
from host.wire.assumptions import (
    TIMESTAMP_MODULUS,
    TIMESTAMP_UNIT_NS,
    TIMESTAMP_WRAP_NS,
    elapsed_ns,
    received_of_sack_bitmap,
)
from host.wire.constants import MPR_UNIT_PSNS, NackReason, SackM
from host.wire.headers import AETH, NETH, SETH, CCState

if TYPE_CHECKING:
    from host.qp.queue_pair import QueuePair

_TRIMS = (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP)
#: The responder could not keep the packet; it says nothing about the path
_RESOURCES = (
    NackReason.NO_BITMAP,
    NackReason.NO_PKT_BUFFER,
    NackReason.NO_RESOURCE,
    NackReason.PSN_OOR_WINDOW,
)
_M_SKIP_ONCE = int(SackM.SKIP_ONCE)
_TIMESTAMP_MASK = TIMESTAMP_MODULUS - 1


class Requestor:
    """The sending half of a queue pair. The NIC's scheduler calls `next_packet`."""

    __slots__ = (
        "_budget",
        "_dynamic_mpr",
        "_for_ever",
        "_last_feedback_ns",
        "_linear_retries",
        "_max_exponent",
        "_penalty",
        "_timeout_ns",
        "armed_ns",
        "closed",
        "controller",
        "credit_bytes",
        "dest_context",
        "evs",
        "flight",
        "has_work",
        "in_ring",
        "messages",
        "next_packet",
        "probes",
        "qp",
        "send_state",
        "sender",
        "source_context",
        "stats",
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
        self.source_context = qp.number & 0xFFFF
        self.dest_context = attributes.dest_qp & 0xFFFF
        self._dynamic_mpr = attributes.dynamic_mpr
        timeout_ns = self._timeout_ns = TIMEOUT_UNIT_NS << attributes.timeout
        self._linear_retries = attributes.linear_retries
        self._for_ever = attributes.exponential_retries == EXPONENTIAL_RETRIES_FOR_EVER
        #: Timeouts of one packet that are still answered with another transmission
        self._budget = attributes.linear_retries + attributes.exponential_retries
        #: No timeout is longer than the longest that an attribute can ask for (our choice)
        self._max_exponent = MAX_TIMEOUT - attributes.timeout
        self._last_feedback_ns = -1
        self._penalty = (0, False)

        psn = attributes.sq_psn
        self.stats = RequestorStats()
        self.messages = SendQueue(
            psn, mtu_bytes=attributes.path_mtu_bytes, max_wimm=attributes.max_wimm
        )
        self.flight = Flight(
            psn,
            mpr_psns=attributes.mpr_psns,
            timeout_ns=timeout_ns,
            controller=window.controller,
        )
        self.probes = ReliabilityProbes(timeout_ns)
        #: No more: the queue pair left RTS
        self.closed = False
        self.armed_ns: int | None = None
        self.send_state = SendState.IDLE
        self.in_ring = False
        self.waits_for_window = False
        self.credit_bytes = 0
        self.sender = Sender(self, routes, timeout_ns)
        #: The sender's own, as they are called for every packet
        self.has_work = self.sender.has_work
        self.next_packet = self.sender.next_packet

    # --- work requests ---

    @property
    def posted(self) -> int:
        """Work requests that have not completed."""
        return len(self.messages)

    def post(self, request: WriteRequest, view: memoryview) -> None:
        """Queue a message; `view` is its data as bytes."""
        self.messages.post(request, view)

    def close(self) -> list[Message]:
        """Stop: give up all that is in flight. Returns the messages not completed, in order."""
        self.closed = True
        self.flight.close()
        self.probes.close()
        return self.messages.close()

    def has_unacknowledged(self) -> bool:
        """Whether something sent waits for an answer."""
        return bool(self.messages.uncompleted or self.probes.out())

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
        if source_context != self.dest_context or dest_context != self.source_context:
            return False
        flight = self.flight
        una = flight.una
        next_psn = flight.next_psn
        cack = expand_psn(cack_psn, una)
        received = received_of_sack_bitmap(bitmap)
        base = cack + sack_offset
        if cack >= next_psn or (received and base + received.bit_length() > next_psn):
            return False
        self._last_feedback_ns = now_ns

        # Exact where the packet that is answered is known still, and was not held back there
        packet = None if pr else flight.packets.get(cack + ack_psn_offset)
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
                rounds = (now_ns - packet.sent_ns - rtt_ns) // TIMESTAMP_WRAP_NS
                if rounds > 0:
                    rtt_ns += rounds * TIMESTAMP_WRAP_NS

        acked_bytes = 0
        if cack >= una:
            acked_bytes = flight.advance(cack)
            if self.messages.ack_due_ns is None:
                self._expect_ack(now_ns)
        if received:
            shift = base - flight.una
            if shift >= 0:
                received <<= shift
            else:
                received >>= -shift
            received &= ~flight.sacked
            if received:
                acked_bytes += flight.acknowledge(received)
        controller = self.controller
        if acked_bytes:
            controller.inflight_bytes -= acked_bytes
            flight.forget_dead()
        told_mpr = self._dynamic_mpr and cack >= una - 1 and mpr
        flight.move_edge(mpr * MPR_UNIT_PSNS if told_mpr else None)

        if pr:
            self._probe_answered(ack_psn_offset & 0xFFFF, now_ns)
        else:
            self.evs.on_sack(ev, m, now_ns)
        penalty = (cc_state.rcv_cwnd_pen, cc_state.restore_cwnd)
        if penalty != self._penalty:
            self._penalty = penalty
            controller.on_peer_penalty(*penalty, now_ns)
        controller.on_ack(acked_bytes, m == _M_SKIP_ONCE, rtt_ns, now_ns)
        return True

    def _probe_answered(self, probe_id: int, now_ns: int) -> None:
        ev = self.probes.answered(probe_id)
        if ev is not None:
            self.evs.on_probe_answer(ev, now_ns)

    def _expect_ack(self, now_ns: int) -> None:
        """If the oldest message has landed, its transport ACK must come within a timeout."""
        messages = self.messages
        if messages.uncompleted and messages.uncompleted[0].last_psn < self.flight.una:
            messages.ack_due_ns = now_ns + self._timeout_ns
            self.qp.arm(self, messages.ack_due_ns)

    def on_nack(self, neth: NETH, now_ns: int) -> bool:
        """A NACK from the peer; UNEXP_EVENT is the queue pair's. False as `on_sack`."""
        if neth.spdcid != self.dest_context or neth.dpdcid != self.source_context:
            return False
        flight = self.flight
        psn = expand_psn(neth.nack_psn, flight.una)
        if psn >= flight.next_psn:
            return False
        self._last_feedback_ns = now_ns
        reason = neth.reason
        packet = flight.packets.get(psn)
        # Only the transmission that met its fate; a later one is on its way
        current = packet is not None and packet.in_flight and packet.ev == neth.entropy
        if reason in _TRIMS:
            self.stats.trims += 1
            self.evs.on_nack(neth.entropy, NackReason(reason), now_ns)
            if packet is not None and current:
                flight.take_out(packet)
                last_hop = reason == NackReason.TRIMMED_LASTHOP
                self.controller.on_trim(packet.size_bytes, last_hop, now_ns)
                flight.retransmit(packet)
        elif reason in _RESOURCES:
            self.stats.refusals += 1
            self.evs.on_nack(neth.entropy, NackReason(reason), now_ns)
            if packet is not None and current:
                flight.take_out(packet)
                self.qp.arm(self, flight.hold_back(packet, now_ns))
        else:
            return False
        return True

    def message_of_nack(self, neth: NETH) -> tuple[bool, Message | None]:
        """Whether a NACK is of a packet that was sent, and its message unless that completed."""
        psn = expand_psn(neth.nack_psn, self.flight.una)
        if (
            neth.spdcid != self.dest_context
            or neth.dpdcid != self.source_context
            or psn >= self.flight.next_psn
            or psn < self.qp.attributes.sq_psn
        ):
            return False, None
        return True, self.messages.of_psn(psn)

    def on_ack(self, aeth: AETH, now_ns: int) -> bool:
        """A transport ACK or NAK. False: of a message that was never sent, or of no known kind."""
        messages = self.messages
        uncompleted = messages.uncompleted
        # Not yet completed: the oldest's MSN; there may be none
        oldest = uncompleted[0].msn if uncompleted else messages.sent_msn
        msn = expand_msn(aeth.msn, oldest)
        if is_ack(aeth.syndrome):
            if msn >= messages.sent_msn:
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
        last_psn = self.messages.complete(msn, self.qp.completed)
        flight = self.flight
        if flight.solicit is not None and flight.solicit.message.msn <= msn:
            flight.take_out(flight.solicit)
            flight.solicit = None
        # It landed, so it arrived: a transport ACK may overtake the SACK
        if last_psn >= flight.una:
            self.controller.inflight_bytes -= flight.advance(last_psn)
            flight.move_edge()
            flight.forget_dead()
        self._expect_ack(now_ns)

    # --- time ---

    def next_deadline(self) -> int | None:
        """The earliest timer."""
        if self.closed:
            return None
        deadlines = (
            self.messages.ack_due_ns,
            self.flight.next_deadline(),
            self.probes.next_deadline(),
            self.evs.next_timer() if self.probes.room() else None,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Timers have run out. May end the queue pair (retries used up)."""
        if self.closed:
            return
        while (packet := self.flight.pop_due(now_ns)) is not None:
            if not self._timed_out(packet, now_ns):
                return
        ack_due_ns = self.messages.ack_due_ns
        if ack_due_ns is not None and ack_due_ns <= now_ns:
            self.messages.ack_due_ns = None
            if self.flight.solicit is None and self.messages.uncompleted:
                # The oldest message has landed and its transport ACK did not come
                self.flight.solicit_ack(self.messages.uncompleted[0])
        while (ev := self.probes.pop_due(now_ns)) is not None:
            self.evs.on_probe_timeout(ev, now_ns)
        while self.probes.room():
            wanted = self.evs.next_probe(now_ns)
            if wanted is None:
                break
            self.probes.ask_ev(wanted)

    def _timed_out(self, packet: Packet, now_ns: int) -> bool:
        """A packet's time is over. False: so is the queue pair's."""
        flight = self.flight
        if packet.refused:
            packet.live = False
            flight.retransmit(packet)
            return True
        lost_on_wire = packet.in_flight
        flight.take_out(packet)
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
                self.probes.ask_for_sack()
        exponent = min(max(packet.timeouts - self._linear_retries, 0), self._max_exponent)
        flight.retransmit(packet, exponent)
        return True
