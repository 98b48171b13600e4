"""The responder: payloads to memory the moment they come, and word to the requestor.

mrc-protocol.md, section 4. PSNs and MSNs are numbers without an end here (`serial`). What is
received beyond the cumulative PSN is one integer: bit i of `_bitmap` is PSN cack + 1 + i.

Answers are not built here and now but when a port is free to take them (`next_control`), from the
state of that moment.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from host.config import check_mpr
from host.qp.peer import Route
from host.qp.serial import AETH_MSN_MASK, PSN_MASK, expand_msn, expand_psn
from host.qp.stats import ResponderStats
from host.qp.syndrome import Syndrome
from host.wire.assumptions import TIMESTAMP_UNIT_NS, sack_bitmap_of_received
from host.wire.constants import (
    MPR_UNIT_PSNS,
    RCVD_BYTES_UNIT_BYTES,
    SACK_BITMAP_BITS,
    NackReason,
    Opcode,
    SackM,
)
from host.wire.headers import AETH, BTH, NETH, PETH, SETH, CCState
from host.wire.packet import Trimmed, Write

if TYPE_CHECKING:
    from host.qp.queue_pair import QueuePair

#: Answers that may wait for a port; beyond, the oldest are dropped (the requestor's timers see
#: to what they would have said)
MAX_WAITING_ANSWERS = 1 << 13

_SACK_MASK = (1 << SACK_BITMAP_BITS) - 1
_OFFSET_MIN, _OFFSET_MAX = -(1 << 15), (1 << 15) - 1
_MAX_OOO_COUNT = (1 << 15) - 1
_MAX_PENALTY = 127
_RCVD_BYTES_MASK = (1 << 24) - 1
_ECN_CE = 3
_M_NONE = int(SackM.NONE)
_M_SKIP_ONCE = int(SackM.SKIP_ONCE)
_M_ALWAYS_SKIP = int(SackM.ALWAYS_SKIP)

_FIRST, _MIDDLE = int(Opcode.RDMA_WRITE_FIRST), int(Opcode.RDMA_WRITE_MIDDLE)
_LAST = (int(Opcode.RDMA_WRITE_LAST), int(Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE))


class _Sack(NamedTuple):
    """A SACK to be sent: what drew it, and the PSNs that its bitmap has to cover."""

    ev: int
    m: int
    psn: int
    tx_timestamp: int
    arrival_ns: int
    low_psn: int
    high_psn: int
    probe_id: int | None = None


class _Nack(NamedTuple):
    """A NACK to be sent."""

    reason: int
    ev: int
    psn: int
    tx_timestamp: int
    arrival_ns: int


class _End(NamedTuple):
    """The last packet of a message that came before all in front of it did."""

    msn: int
    rqmsn: int
    imm: int | None
    dma_length: int


class Responder:
    """The receiving half of a queue pair. The NIC calls `next_control` when a port has room."""

    __slots__ = (
        "_acked_msn",
        "_answers",
        "_bitmap",
        "_cack",
        "_dest_context",
        "_dest_qp",
        "_edge",
        "_ends",
        "_ends_bitmap",
        "_held",
        "_held_count",
        "_held_since_ns",
        "_highest",
        "_imms_waiting",
        "_max_wimm",
        "_mpr",
        "_mtu",
        "_nak",
        "_nak_due",
        "_penalty",
        "_rcvd_bytes",
        "_restore_from",
        "_sack_delay_ns",
        "_sack_packets",
        "_source_context",
        "_trim_nack",
        "ack_due",
        "armed_ns",
        "bad_evs",
        "in_ring",
        "msn",
        "qp",
        "rqmsn",
        "stats",
    )

    def __init__(self, qp: QueuePair) -> None:
        attributes = qp.attributes
        self.qp = qp
        self._mtu = attributes.path_mtu_bytes
        self._dest_qp = attributes.dest_qp
        self._source_context = qp.number & 0xFFFF
        self._dest_context = attributes.dest_qp & 0xFFFF
        self._max_wimm = attributes.max_wimm_dest
        self._trim_nack = attributes.trim_nack
        self._sack_packets = attributes.sack_packets
        self._sack_delay_ns = attributes.sack_delay_ns

        self._cack = attributes.rq_psn - 1
        self._bitmap = 0
        self._highest = self._cack
        self._mpr = attributes.mpr_dest_psns
        #: The last PSN that was ever inside the window; never moves back
        self._edge = self._cack + self._mpr

        #: Messages completed, and WriteIMMs among them: the next one's numbers
        self.msn = 0
        self.rqmsn = 0
        #: Ends of messages beyond cack: bits as in `_bitmap`, and by PSN
        self._ends_bitmap = 0
        self._ends: dict[int, _End] = {}
        self._imms_waiting = 0

        self._answers: deque[_Sack | _Nack] = deque(maxlen=MAX_WAITING_ANSWERS)
        #: The coalesced SACK that is not due yet, and the packets that it stands for
        self._held: _Sack | None = None
        self._held_count = 0
        self._held_since_ns = 0
        self.ack_due = False
        self._acked_msn = 0
        self._nak: tuple[Syndrome, int] | None = None
        self._nak_due = False

        self._rcvd_bytes = 0
        self._penalty = 0
        self._restore_from: int | None = None
        #: EVs of the peer that are held bad here: their SACKs say ALWAYS_SKIP
        self.bad_evs: set[int] = set()
        self.in_ring = False
        self.armed_ns: int | None = None
        self.stats = ResponderStats()

    # --- what the NIC may set ---

    @property
    def mpr_psns(self) -> int:
        """PSNs that are tracked beyond cack now."""
        return self._mpr

    def set_mpr(self, mpr_psns: int) -> None:
        """Dynamic MPR: track more or fewer PSNs from now on; SACKs tell the peer.

        PSNs that were inside the window before are answered NO_BITMAP while they are outside.
        Raises ValueError for what is no MPR.
        """
        check_mpr("mpr_psns", mpr_psns)
        self._mpr = mpr_psns
        self._edge = max(self._edge, self._cack + mpr_psns)

    def set_cwnd_penalty(self, penalty: int) -> None:
        """Flow control: scale the requestor's window down, 0 (not) .. 127 (a packet per RTT).

        When it returns to 0, SACKs say `restore_cwnd` until the window has moved on by one MPR.
        """
        if not 0 <= penalty <= _MAX_PENALTY:
            raise ValueError(f"penalty: {penalty} does not fit: it must be 0..{_MAX_PENALTY}")
        if penalty == 0 and self._penalty:
            self._restore_from = self._cack
        self._penalty = penalty

    # --- requests ---

    def on_write(self, packet: Write, trim_m: int, now_ns: int) -> None:
        """A data packet came whole. `trim_m` is the M that its DSCP asks for (see `Nic`)."""
        envelope, bth, meth, tseth, reth, immdt, payload = packet
        cack = self._cack
        psn = expand_psn(bth.psn, cack)
        ahead = psn - cack - 1
        tx_timestamp = 0 if tseth is None else tseth.tx_timestamp
        ev = envelope.ev
        m = trim_m
        if envelope.ecn == _ECN_CE:
            self.stats.ecn_marked += 1
            m = _M_SKIP_ONCE
        if self.bad_evs and ev in self.bad_evs:
            m = _M_ALWAYS_SKIP

        if ahead < 0 or self._bitmap >> ahead & 1:
            self.stats.duplicates += 1
            if ahead < 0 and self.msn:
                self.ack_due = True
            self._answer(_Sack(ev, m, psn, tx_timestamp, now_ns, psn, psn))
            return
        if ahead >= self._mpr:
            reason = NackReason.NO_BITMAP if psn <= self._edge else NackReason.PSN_OOR_WINDOW
            self._answer(_Nack(reason, ev, psn, tx_timestamp, now_ns))
            return
        if immdt is not None and len(self.qp.receives) <= self._imms_waiting:
            # No receive for it: not accepted, and so sent again
            self._answer(_Nack(NackReason.NO_RESOURCE, ev, psn, tx_timestamp, now_ns))
            return

        # The reliability layer has the packet now, whatever the transport layer says of it
        length = len(payload)
        stats = self.stats
        stats.packets += 1
        self._rcvd_bytes += length
        if ahead:
            stats.out_of_order += 1

        opcode = bth.opcode
        _, r_key, dma_length = reth
        # Lengths: every packet but the last carries the path MTU
        mtu = self._mtu
        if opcode in (_FIRST, _MIDDLE):
            right = length == mtu < dma_length
            whole = dma_length if opcode == _FIRST else length
        elif opcode in _LAST:
            right = dma_length > mtu and length == (dma_length - 1) % mtu + 1
            whole = length
        else:
            right = 0 < length == dma_length <= mtu
            whole = length
        if not right:
            self._refuse(Syndrome.NAK_INVALID_REQUEST, packet, psn, now_ns)
            return
        target = self.qp.remote_write(r_key, reth.va, whole)
        if target is None:
            self._refuse(Syndrome.NAK_REMOTE_ACCESS_ERROR, packet, psn, now_ns)
            return
        end: _End | None = None
        if opcode != _FIRST and opcode != _MIDDLE:
            imm: int | None = None
            if immdt is not None:
                imm = immdt.value
                rqmsn = expand_msn(meth.rqmsn, self.rqmsn)
                if rqmsn - self.rqmsn >= self._max_wimm:
                    self._refuse(Syndrome.NAK_WRITE_IMM_LIMIT_EXCEEDED, packet, psn, now_ns)
                    return
            end = _End(meth.msn, meth.rqmsn, imm, dma_length)

        if whole == length:
            target[:] = payload
        else:
            target[:length] = payload
        stats.payload_bytes += length

        # Mark it received
        opens_gap = psn > self._highest + 1
        if psn > self._highest:
            self._highest = psn
        if ahead:
            self._bitmap |= 1 << ahead
            if end is not None:
                self._ends[psn] = end
                self._ends_bitmap |= 1 << ahead
                if end.imm is not None:
                    self._imms_waiting += 1
        elif not self._bitmap:
            self._cack = psn
            if end is not None and not self._end_reached(end, packet, psn, now_ns):
                return
        else:
            bitmap = self._bitmap | 1
            run = (bitmap ^ bitmap + 1).bit_length() - 1
            self._bitmap = bitmap >> run
            self._cack = cack + run
            if end is not None and not self._end_reached(end, packet, psn, now_ns):
                return
            if self._ends_bitmap and not self._ends_reached(cack, run, packet, now_ns):
                return
        if self._cack + self._mpr > self._edge:
            self._edge = self._cack + self._mpr

        # Coalesce, or not
        held = self._held
        low, high = psn, psn
        if held is not None:
            low = min(psn, held.low_psn)
            high = max(psn, held.high_psn)
            if high - low >= SACK_BITMAP_BITS:
                self._release()
                low, high = psn, psn
        sack = _Sack(ev, m, psn, tx_timestamp, now_ns, low, high)
        self._held_count += 1
        if m or opens_gap or bth.ack_request or bth.rtx or self._held_count >= self._sack_packets:
            self._held = None
            self._held_count = 0
            self._answer(sack)
            if self.msn != self._acked_msn:
                self.ack_due = True
        else:
            if self._held is None:
                self._held_since_ns = now_ns
                self.qp.arm(self, now_ns + self._sack_delay_ns)
            self._held = sack

    def _end_reached(self, end: _End, packet: Write, psn: int, now_ns: int) -> bool:
        """All up to the end of a message has landed: complete it. False: it made no sense."""
        msn = self.msn
        imm = end.imm
        if end.msn != msn & 0xFFFF or (imm is not None and end.rqmsn != self.rqmsn & 0xFFFF):
            self._refuse(Syndrome.NAK_INVALID_REQUEST, packet, psn, now_ns)
            return False
        self.msn = msn + 1
        if imm is not None:
            self.rqmsn += 1
            self.qp.received_immediate(imm, end.dma_length)
        return True

    def _ends_reached(self, old_cack: int, run: int, packet: Write, now_ns: int) -> bool:
        """The window moved on by `run` PSNs: complete what ended there."""
        ends = self._ends_bitmap & (1 << run) - 1
        self._ends_bitmap >>= run
        while ends:
            lowest = ends & -ends
            ends ^= lowest
            psn = old_cack + lowest.bit_length()
            end = self._ends.pop(psn)
            if end.imm is not None:
                self._imms_waiting -= 1
            if not self._end_reached(end, packet, psn, now_ns):
                return False
        return True

    def _refuse(self, syndrome: Syndrome, packet: Write, psn: int, now_ns: int) -> None:
        """Transport NAK: the packet is SACKed, its message refused, the queue pair ends."""
        tseth = packet.tseth
        tx_timestamp = 0 if tseth is None else tseth.tx_timestamp
        ahead = psn - self._cack - 1
        if ahead >= 0:
            self._bitmap |= 1 << ahead
        self._release()
        self._answer(_Sack(packet.envelope.ev, _M_NONE, psn, tx_timestamp, now_ns, psn, psn))
        self.ack_due = self.msn != self._acked_msn
        self._nak = syndrome, packet.meth.msn
        self._nak_due = True
        self.qp.refused(syndrome, now_ns)

    def on_trimmed(self, packet: Trimmed, last_hop: bool, now_ns: int) -> None:
        """A switch took the payload of a packet (section 4)."""
        if not self._trim_nack:
            return
        self.stats.trimmed += 1
        psn = expand_psn(packet.bth.psn, self._cack)
        ahead = psn - self._cack - 1
        tx_timestamp = 0 if packet.tseth is None else packet.tseth.tx_timestamp
        ev = packet.envelope.ev
        if ahead < 0 or self._bitmap >> ahead & 1:
            self._answer(_Sack(ev, _M_NONE, psn, tx_timestamp, now_ns, psn, psn))
            return
        reason = NackReason.TRIMMED_LASTHOP if last_hop else NackReason.TRIMMED
        if ahead >= self._mpr:
            reason = NackReason.NO_BITMAP if psn <= self._edge else NackReason.PSN_OOR_WINDOW
        self._answer(_Nack(reason, ev, psn, tx_timestamp, now_ns))

    def on_probe(self, ev: int, peth: PETH, now_ns: int) -> bool:
        """A reliability probe: a SACK says what has arrived. False: it is not for us."""
        if peth.spdcid != self._dest_context or peth.dpdcid != self._source_context:
            return False
        psn = self._cack
        m = _M_ALWAYS_SKIP if ev in self.bad_evs else _M_NONE
        self._answer(_Sack(ev, m, psn, peth.tx_timestamp, now_ns, psn, psn, peth.probe_id))
        return True

    def on_request_in_error(self, ev: int, psn: int, tx_timestamp: int, now_ns: int) -> None:
        """A request reached a queue pair in ERROR: say (again) why."""
        if self._nak is not None:
            self._nak_due = True
            self.qp.want_control()
        else:
            psn = expand_psn(psn, self._cack)
            self._answer(_Nack(NackReason.UNEXP_EVENT, ev, psn, tx_timestamp, now_ns))

    def _answer(self, answer: _Sack | _Nack) -> None:
        self._answers.append(answer)
        if not self.in_ring:
            self.qp.want_control()

    def _release(self) -> None:
        """The coalesced SACK is due."""
        if self._held is not None:
            held = self._held
            self._held = None
            self._held_count = 0
            self._answer(held)
            if self.msn != self._acked_msn:
                self.ack_due = True

    # --- answers ---

    def has_control(self) -> bool:
        """Whether `next_control` has something."""
        return bool(self._answers or self.ack_due or self._nak_due)

    def next_control(self, route: Route, now_ns: int) -> bytes:
        """The frame of the next answer, on a route to the peer."""
        frames = route.control
        if self._answers:
            answer = self._answers.popleft()
            if isinstance(answer, _Sack):
                self.stats.sacks += 1
                return frames.sack(
                    self._dest_qp, self._seth(answer), self._cc_state(answer, now_ns)
                )
            self.stats.nacks += 1
            psn = answer.psn & PSN_MASK
            neth = NETH(
                answer.reason,
                answer.ev,
                self._source_context,
                self._dest_context,
                psn,
                _held_timestamp(answer.tx_timestamp, answer.arrival_ns, now_ns),
            )
            bth = BTH(Opcode.RELIABILITY_NACK, self._dest_qp, psn)
            return frames.frame(bth.pack() + neth.pack())
        if self.ack_due:
            self.ack_due = False
            self._acked_msn = self.msn
            return self._transport(route, Syndrome.ACK, self.msn - 1)
        # Last of all: what was completed before is not part of what failed
        assert self._nak is not None
        self._nak_due = False
        return self._transport(route, *self._nak)

    def _transport(self, route: Route, syndrome: Syndrome, msn: int) -> bytes:
        self.stats.acks += 1
        bth = BTH(Opcode.ACKNOWLEDGE, self._dest_qp, self._cack & PSN_MASK)
        aeth = AETH(syndrome, msn & AETH_MSN_MASK)
        return route.control.frame(bth.pack() + aeth.pack())

    def _seth(self, sack: _Sack) -> SETH:
        cack = self._cack
        # The highest PSN that this SACK is about ends the bitmap, or the bitmap starts at the
        # first PSN missing: so it repeats as much as it can of what other SACKs said
        base = cack + 1
        received = 0
        if self._bitmap:
            lowest_base = sack.high_psn - SACK_BITMAP_BITS + 1
            if lowest_base > base:
                base = lowest_base
            received = self._bitmap >> base - cack - 1 & _SACK_MASK
        offset = sack.psn - cack if sack.probe_id is None else _signed(sack.probe_id)
        return SETH(
            sack.m,
            sack.probe_id is not None,
            min(max(offset, _OFFSET_MIN), _OFFSET_MAX),
            sack.ev,
            self._source_context,
            self._dest_context,
            cack & PSN_MASK,
            min(self._mpr // MPR_UNIT_PSNS, 255),
            base - cack,
            sack_bitmap_of_received(received),
        )

    def _cc_state(self, sack: _Sack, now_ns: int) -> CCState:
        restore = False
        if self._restore_from is not None:
            restore = self._cack - self._restore_from <= self._mpr
            if not restore:
                self._restore_from = None
        return CCState(
            _held_timestamp(sack.tx_timestamp, sack.arrival_ns, now_ns),
            min(self._bitmap.bit_count(), _MAX_OOO_COUNT) if self._bitmap else 0,
            restore,
            self._penalty,
            self._rcvd_bytes // RCVD_BYTES_UNIT_BYTES & _RCVD_BYTES_MASK,
        )

    # --- time ---

    def next_deadline(self) -> int | None:
        """When the coalesced SACK is due."""
        return None if self._held is None else self._held_since_ns + self._sack_delay_ns

    def handle_timer(self, now_ns: int) -> None:
        """Time has come."""
        if self._held is not None and self._held_since_ns + self._sack_delay_ns <= now_ns:
            self._release()

    def close(self) -> None:
        """The queue pair went to ERROR: nothing more will be accepted, answers still go out."""
        self._release()
        self._ends.clear()
        self._ends_bitmap = 0
        self._imms_waiting = 0

    def abandon(self) -> None:
        """The queue pair goes to RESET: nothing more will be sent."""
        self.close()
        self._answers.clear()
        self.ack_due = False
        self._nak_due = False


def _held_timestamp(tx_timestamp: int, arrival_ns: int, now_ns: int) -> int:
    """The timestamp to reflect: moved on by as long as the answer was held back here.

    So the requestor's RTT is that of the network (the specification's "service time").
    """
    held_units = (now_ns - arrival_ns + TIMESTAMP_UNIT_NS // 2) // TIMESTAMP_UNIT_NS
    return tx_timestamp + held_units & 0xFFFF


def _signed(probe_id: int) -> int:
    return probe_id - (1 << 16) if probe_id >= 1 << 15 else probe_id
