"""The responder of RC: packets in order, or not at all.

IBTA volume 1, sections 9.7.4 (requests), 9.7.5 (answers) and 9.9.3 (errors); annex A17.9 (CNPs).
PSNs are numbers without an end here (`host.qp.serial`).

| PSN of a request | payload | answer |
|---|---|---|
| the one expected | placed | ACK if it asks for one |
| the one expected, with an immediate and no receive | not placed | RNR NAK |
| the one expected, not allowed | not placed | NAK, and the queue pair goes to ERROR |
| beyond it | not placed | NAK PSN sequence error, once until the one expected comes |
| before it (duplicate) | not placed | ACK of all there is |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from host.qp.serial import AETH_MSN_MASK, PSN_MASK, expand_psn
from host.qp.stats import ResponderStats
from host.qp.syndrome import Syndrome
from host.roce.config import RoceConfig
from host.roce.packet import WRITE_HEADERS, Opcode, Write, ack_frame, cnp_frame
from host.roce.path import RocePath
from host.roce.syndrome import NAK_PSN_SEQUENCE_ERROR, rnr_nak
from host.wire.constants import ECN_CE
from host.wire.headers import AETH

if TYPE_CHECKING:
    from host.roce.queue_pair import RoceQueuePair

_FIRST, _MIDDLE = Opcode.RDMA_WRITE_FIRST, Opcode.RDMA_WRITE_MIDDLE


@dataclass(slots=True)
class RoceResponderStats(ResponderStats):
    """What a responder of RC does besides. Out of order is what came early, and so is lost."""

    cnps: int = 0


class RoceResponder:
    """The receiving half of a queue pair. The NIC calls `next_answer` when its port has room."""

    __slots__ = (
        "_ack_due",
        "_config",
        "_dest_qp",
        "_epsn",
        "_last_cnp_ns",
        "_left",
        "_mtu",
        "_nak",
        "_nak_sent",
        "_rkey",
        "_va",
        "_whole",
        "cnp_due",
        "cnp_in_ring",
        "in_ring",
        "msn",
        "path",
        "qp",
        "stats",
    )

    def __init__(self, qp: RoceQueuePair, path: RocePath, config: RoceConfig) -> None:
        attributes = qp.attributes
        self.qp = qp
        self.path = path
        self._config = config
        self._mtu = attributes.path_mtu_bytes
        self._dest_qp = attributes.dest_qp
        #: The PSN expected
        self._epsn = attributes.rq_psn
        #: Messages completed
        self.msn = 0
        #: Of the message that has begun: where the next payload goes, how much is to come of what
        self._va = 0
        self._rkey = 0
        self._left = 0
        self._whole = 0
        self._ack_due = False
        self._nak: int | None = None
        #: Since the PSN expected last came, a NAK was made
        self._nak_sent = False
        self.cnp_due = False
        self.cnp_in_ring = False
        self._last_cnp_ns: int | None = None
        self.in_ring = False
        self.stats = RoceResponderStats()

    # --- requests ---

    def on_write(self, packet: Write, now_ns: int) -> None:
        """A data packet came whole."""
        if packet.envelope.ecn == ECN_CE:
            self._marked(now_ns)
        psn = expand_psn(packet.bth.psn, self._epsn)
        if psn < self._epsn:
            self.stats.duplicates += 1
            self._ack_due = True
            self.qp.want_control()
            return
        if psn > self._epsn:
            self.stats.out_of_order += 1
            if not self._nak_sent:
                self._refuse(NAK_PSN_SEQUENCE_ERROR)
            return
        imm = packet.immdt
        if imm is not None and not self.qp.receives:
            self._refuse(rnr_nak(self._config.rnr_timer))
            return

        _, bth, reth, _, payload = packet
        length = len(payload)
        opcode = bth.opcode
        begins = WRITE_HEADERS[opcode][0]
        ends = opcode not in (_FIRST, _MIDDLE)
        # Section 9.7.4: a message begins where none has begun, and goes on where one has
        if begins == bool(self._left):
            self._fail(Syndrome.NAK_INVALID_REQUEST, now_ns)
            return
        if reth is not None:
            va, rkey, left = reth
            whole = left
        else:
            va, rkey, left, whole = self._va, self._rkey, self._left, self._whole
        # Every packet but the last carries the path MTU, and the last what is left
        if not 0 < length == (left if ends else self._mtu) <= self._mtu or length > left:
            self._fail(Syndrome.NAK_INVALID_REQUEST, now_ns)
            return
        if not ends and length == left:
            self._fail(Syndrome.NAK_INVALID_REQUEST, now_ns)
            return
        # The whole range when it begins, then what is written: the region may go away meanwhile
        target = self.qp.remote_write(rkey, va, left if begins else length)
        if target is None:
            self._fail(Syndrome.NAK_REMOTE_ACCESS_ERROR, now_ns)
            return
        target[:length] = payload
        stats = self.stats
        stats.packets += 1
        stats.payload_bytes += length
        self._epsn = psn + 1
        self._nak_sent = False
        # A NAK that has not left yet says what is not true any more
        self._nak = None
        self._va, self._rkey, self._left, self._whole = va + length, rkey, left - length, whole
        if ends:
            self.msn += 1
            if imm is not None:
                self.qp.received_immediate(imm.value, whole)
        if bth.ack_request:
            self._ack_due = True
            self.qp.want_control()

    def _marked(self, now_ns: int) -> None:
        """Congestion was met: a CNP, unless there was one a short while ago."""
        self.stats.ecn_marked += 1
        last_ns = self._last_cnp_ns
        if last_ns is None or now_ns - last_ns >= self._config.cnp_interval_ns:
            self._last_cnp_ns = now_ns
            self.cnp_due = True
            self.qp.want_control()

    def _refuse(self, syndrome: int) -> None:
        self._nak = syndrome
        self._nak_sent = True
        self.qp.want_control()

    def _fail(self, syndrome: Syndrome, now_ns: int) -> None:
        """Class C error (section 9.9.3): the queue pair ends; the NAK says why."""
        self._refuse(syndrome)
        self.qp.refused(syndrome, now_ns)

    # --- answers ---

    def has_answer(self) -> bool:
        """Whether `next_answer` has something."""
        return self._ack_due or self._nak is not None

    def next_answer(self) -> bytes:
        """The frame of the ACK or NAK that is due. A NAK acknowledges all before its PSN."""
        self._ack_due = False
        if self._nak is not None:
            syndrome, psn = self._nak, self._epsn
            self._nak = None
            self.stats.nacks += 1
        else:
            syndrome, psn = int(Syndrome.ACK), self._epsn - 1
            self.stats.acks += 1
        aeth = AETH(syndrome, self.msn & AETH_MSN_MASK)
        return ack_frame(self.path.answers, self._dest_qp, psn & PSN_MASK, aeth)

    def next_cnp(self) -> bytes:
        """The frame of the CNP that is due."""
        self.cnp_due = False
        self.stats.cnps += 1
        return cnp_frame(self.path.cnps, self._dest_qp)

    def close(self) -> None:
        """The queue pair went to ERROR: nothing more will be accepted, answers still go out."""
        self._left = 0

    def abandon(self) -> None:
        """The queue pair goes to RESET: nothing more will be sent."""
        self._ack_due = False
        self._nak = None
        self.cnp_due = False
