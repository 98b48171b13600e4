"""What a requestor sends next: probes, packets to be sent again, then new ones; and their frames.

mrc-protocol.md, section 3: never above the edge that MPR sets, only while the congestion window has
room, on an EV that is drawn when the packet leaves.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop
from typing import TYPE_CHECKING

from host.qp.flight import Packet
from host.qp.peer import Routes
from host.qp.reliability_probes import ANY_EV
from host.qp.serial import PSN_MASK
from host.wire.assumptions import TIMESTAMP_MODULUS, TIMESTAMP_UNIT_NS, timestamp_of_ns
from host.wire.constants import Opcode
from host.wire.headers import BTH, PETH

if TYPE_CHECKING:
    from host.qp.requestor import Requestor

_FIRST, _MIDDLE = int(Opcode.RDMA_WRITE_FIRST), int(Opcode.RDMA_WRITE_MIDDLE)
#: Of a last packet: by whether it has an immediate, then whether it is the only one
_LAST_OR_ONLY = (
    (int(Opcode.RDMA_WRITE_LAST), int(Opcode.RDMA_WRITE_ONLY)),
    (
        int(Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE),
        int(Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE),
    ),
)
_TIMESTAMP_MASK = TIMESTAMP_MODULUS - 1


class Verdict(IntEnum):
    """Why `Sender.next_packet` sent nothing."""

    #: There is nothing to send
    NOTHING = 0
    #: No EV on a port that has room now
    NO_ROOM = 1
    #: The congestion window that is shared with other queue pairs is full
    WINDOW_FULL = 2
    #: MPR window full, limit of messages or of WriteIMM reached, or no plane usable
    HELD = 3


class Sender:
    """The part of a requestor that the NIC's scheduler calls."""

    __slots__ = (
        "_controller",
        "_dest_qp",
        "_evs",
        "_flight",
        "_messages",
        "_mtu",
        "_probe_queue",
        "_probes",
        "_qp",
        "_requestor",
        "_retransmissions",
        "_routes",
        "_stats",
        "_timeout_ns",
        "_waiting",
        "verdict",
    )

    def __init__(self, requestor: Requestor, routes: Routes, timeout_ns: int) -> None:
        attributes = requestor.qp.attributes
        self._requestor = requestor
        self._qp = requestor.qp
        self._evs = requestor.evs
        self._controller = requestor.controller
        self._stats = requestor.stats
        self._messages = requestor.messages
        self._waiting = requestor.messages.waiting
        self._flight = requestor.flight
        self._retransmissions = requestor.flight.retransmissions
        self._probes = requestor.probes
        self._probe_queue = requestor.probes.queue
        self._routes = routes
        self._mtu = attributes.path_mtu_bytes
        self._dest_qp = attributes.dest_qp
        self._timeout_ns = timeout_ns
        #: Why `next_packet` sent nothing
        self.verdict = Verdict.NOTHING

    def has_work(self) -> bool:
        """Whether there is something to send, allowed or not."""
        retransmissions = self._retransmissions
        while retransmissions and not retransmissions[0].live:
            heappop(retransmissions)
        return bool(
            self._messages.current is not None
            or self._waiting
            or retransmissions
            or self._probe_queue
        )

    def next_packet(self, room: int, now_ns: int) -> tuple[int, bytes] | None:
        """(port, frame) of what to send now on one of the ports of `room`; None: see `verdict`."""
        if self._probe_queue and (sent := self._send_probe(room, now_ns)) is not None:
            return sent
        retransmissions = self._retransmissions
        while retransmissions and not retransmissions[0].live:
            heappop(retransmissions)

        controller = self._controller
        if retransmissions:
            if controller.inflight_bytes >= controller.cwnd_bytes:
                self.verdict = Verdict.WINDOW_FULL
                return None
            ev = self._evs.select(room)
            if ev is None and not self._lost_without_path():
                return None
            packet = heappop(retransmissions)
            if ev is None:
                self._lose(packet, now_ns)
                return None
            return self._send(packet, ev, now_ns, rtx=True)

        messages = self._messages
        message = messages.current
        is_first = message is None
        if message is None:
            if not self._waiting:
                self.verdict = Verdict.NO_ROOM if self._probe_queue else Verdict.NOTHING
                return None
            message = self._waiting[0]
            if not messages.may_begin(message):
                self.verdict = Verdict.HELD
                return None
        if controller.inflight_bytes >= controller.cwnd_bytes:
            self.verdict = Verdict.WINDOW_FULL
            return None
        flight = self._flight
        psn = flight.next_psn
        if psn > flight.edge:
            self.verdict = Verdict.HELD
            return None
        ev = self._evs.select(room)
        if ev is None and not self._lost_without_path():
            return None

        if is_first:
            messages.begin(message)
        packet = Packet(psn, message)
        flight.packets[psn] = packet
        flight.next_psn = psn + 1
        if psn == message.last_psn:
            messages.current = None
            messages.sent_msn = message.msn + 1
        if ev is None:
            self._lose(packet, now_ns)
            return None
        return self._send(packet, ev, now_ns, rtx=False)

    def _send(self, packet: Packet, ev: int, now_ns: int, rtx: bool) -> tuple[int, bytes]:
        routes = self._routes
        route = routes.by_ev.get(ev) or routes.add(ev, self._evs.plane_of(ev))
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
            ack_request = not self._waiting
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
        deadline_ns = self._flight.start_timer(packet, now_ns)
        requestor = self._requestor
        if requestor.armed_ns is None or deadline_ns < requestor.armed_ns:
            self._qp.arm(requestor, deadline_ns)
        controller = self._controller
        controller.inflight_bytes += size_bytes
        controller.on_send(size_bytes, now_ns)
        stats = self._stats
        stats.packets += 1
        stats.payload_bytes += len(payload)
        if rtx:
            stats.retransmissions += 1
        return route.port, frame

    def _lost_without_path(self) -> bool:
        """There is no EV for the next packet. Sets the verdict, and says whether it counts as sent.

        It does where no plane is usable at all and no timer runs: the packet is lost here as it
        would be on a dead wire, so that without a path the retries run out as they should.
        """
        if self._evs.usable_planes() & self._qp.planes_up():
            self.verdict = Verdict.NO_ROOM
            return False
        self.verdict = Verdict.HELD
        return self._flight.next_deadline() is None

    def _lose(self, packet: Packet, now_ns: int) -> None:
        """A packet counts as sent, and is lost."""
        self._qp.arm(self._requestor, self._flight.start_timer(packet, now_ns))

    def _send_probe(self, room: int, now_ns: int) -> tuple[int, bytes] | None:
        ev, asked = self._probe_queue[0]
        if ev == ANY_EV:
            selected = self._evs.select(room)
            if selected is None:
                return None
            ev = selected
        plane = self._evs.plane_of(ev)
        if not room >> plane & 1:
            # On a port that is down it is lost at once; behind a busy one it waits
            if self._qp.planes_up() >> plane & 1:
                return None
            self._probe_queue.popleft()
            if asked:
                self._evs.on_probe_timeout(ev, now_ns)
            return None
        self._probe_queue.popleft()
        requestor = self._requestor
        probe_id = self._probes.sent(ev, now_ns, asked)
        route = self._routes.by_ev.get(ev) or self._routes.add(ev, plane)
        bth = BTH(Opcode.RELIABILITY_PROBE_REQUEST, self._dest_qp, 0)
        contexts = requestor.source_context, requestor.dest_context
        peth = PETH(probe_id, *contexts, timestamp_of_ns(now_ns))
        self._qp.arm(requestor, now_ns + self._timeout_ns)
        self._stats.probes += 1
        return plane, route.first.frame(bth.pack() + peth.pack())
