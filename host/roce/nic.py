"""The RoCE NIC: what a `ChannelAdapter` sends and takes, and when.

On each port, frames go in this order: CNPs, ACKs and NAKs, data. A port that is paused (PFC) sends
CNPs only: all else is of the paused class.
"""

from __future__ import annotations

from collections import deque

from host.adapter import FIRST_QP, MAX_QP, ChannelAdapter
from host.config import NicConfig
from host.congestion.dcqcn import Dcqcn
from host.congestion.network import REFERENCE_RATE_BPS
from host.qp.base import QpMake
from host.qp.states import QP_OPERATIONS, Allowed, Operation, SendEvent
from host.roce.config import RoceConfig
from host.roce.packet import Ack, Cnp, RoceDecoder, Write
from host.roce.path import RocePath
from host.roce.queue_pair import RoceQueuePair
from host.roce.requestor import RoceRequestor
from host.roce.responder import RoceResponder
from host.wire.errors import DecodeError


class _Lines:
    """What waits for a port: queue pairs with CNPs, with answers, with data; in turn."""

    __slots__ = ("answers", "cnps", "data")

    def __init__(self) -> None:
        self.cnps: deque[RoceResponder] = deque()
        self.answers: deque[RoceResponder] = deque()
        self.data: deque[RoceRequestor] = deque()


class RoceNic(ChannelAdapter[RoceQueuePair]):
    """A RoCEv2 NIC of `NicConfig.ports` ports. `seed` makes its keys and numbers.

    Each queue pair keeps to one port. With several ports they are a bond that spreads queue pairs
    over its members and does not move them when one is down.
    """

    def __init__(self, config: NicConfig, *, seed: int, roce: RoceConfig | None = None) -> None:
        super().__init__(config, seed=seed)
        self.roce = RoceConfig() if roce is None else roce
        # Numbers make the hash that chooses paths: with another seed, others
        self._next_qp = self._rng.randrange(FIRST_QP, MAX_QP)
        self._decoder = RoceDecoder(config.address, udp_port=config.udp_port)
        self._lines = [_Lines() for _ in config.ports]

    def _new_qp(self, make: QpMake) -> RoceQueuePair:
        return RoceQueuePair(self, make)

    # --- the wire: in ---

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """A frame came in on a port. Whatever is in it, this does not raise."""
        self._now_ns = now_ns
        counters = self._ports[port]
        counters.rx_frames += 1
        counters.rx_bytes += len(frame)
        if not counters.up:
            self.drops["port down"] += 1
            return
        try:
            packet = self._decoder.decode(frame)
        except DecodeError as error:
            self.drops[type(error).__name__] += 1
            return
        if isinstance(packet, Write):
            qp = self._qp_of(packet, Operation.RECEIVE_REQUEST, "request")
            if qp is not None and qp.responder is not None:
                qp.responder.on_write(packet, now_ns)
        else:
            qp = self._qp_of(packet, Operation.RECEIVE_ANSWER, "answer")
            if qp is not None and qp.requestor is not None:
                if isinstance(packet, Cnp):
                    qp.requestor.on_cnp(now_ns)
                elif not qp.requestor.on_ack(packet.aeth, packet.bth.psn, now_ns):
                    self.drops["invalid ACK"] += 1
                self._look_at(qp.requestor)
        if self._overruns:
            self._fail_overrun()

    def _qp_of(
        self, packet: Write | Ack | Cnp, operation: Operation, name: str
    ) -> RoceQueuePair | None:
        """The queue pair that a packet is for, if it may have it."""
        qp = self.qps.get(packet.bth.dest_qp)
        if qp is None:
            self.drops["unknown QP"] += 1
            return None
        if QP_OPERATIONS[qp.state][operation] is not Allowed.YES:
            self.drops[f"{name} in {qp.state.value}"] += 1
            return None
        if packet.envelope.inner.src != qp.attributes.peer_address:
            self.drops["not the QP's peer"] += 1
            return None
        return qp

    # --- the wire: out ---

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """(port, frame) of all that may start on the wire now, at most one a port with a rate.

        A port takes the next frame when the one before has been serialised, with preamble, FCS
        and inter-frame gap. A port without a rate takes `unlimited_batch` a call.
        """
        self._now_ns = now_ns
        self._kicked = False
        out: list[tuple[int, bytes]] = []
        for number, port in enumerate(self._ports):
            if not port.up or port.busy_until_ns > now_ns:
                continue
            room = 1 << number
            port.budget = self.config.unlimited_batch
            while room and (frame := self._next_frame(number, now_ns)) is not None:
                room = self._start(number, frame, room, out)
        return out

    def _next_frame(self, number: int, now_ns: int) -> bytes | None:
        lines = self._lines[number]
        while lines.cnps:
            responder = lines.cnps.popleft()
            responder.cnp_in_ring = False
            if responder.cnp_due:
                return responder.next_cnp()
        if self._paused >> number & 1:
            return None
        while lines.answers:
            responder = lines.answers.popleft()
            responder.in_ring = False
            if responder.has_answer():
                return responder.next_answer()
        data = lines.data
        while data:
            requestor = data.popleft()
            requestor.in_ring = False
            if not requestor.has_packet():
                continue
            if requestor.ready_ns(now_ns) <= now_ns:
                frame = requestor.next_packet(now_ns)
                self._line_up(requestor)
                return frame
            self._line_up(requestor)
        return None

    def _look_at(self, requestor: RoceRequestor) -> None:
        """Something happened to a requestor."""
        self._line_up(requestor)
        self._kicked = True

    def _line_up(self, requestor: RoceRequestor) -> None:
        """Let a requestor wait for its port if it may send, or wake it when it may."""
        now_ns = self._now_ns
        number = requestor.path.port
        if not self._ports[number].up:
            requestor.port_is_down(now_ns)
        if requestor.has_packet() and not requestor.in_ring:
            ready_ns = requestor.ready_ns(now_ns)
            if ready_ns <= now_ns:
                requestor.in_ring = True
                self._lines[number].data.append(requestor)
            else:
                self._timers.arm(requestor, ready_ns)
        due_ns = requestor.next_deadline()
        if due_ns is not None:
            self._timers.arm(requestor, due_ns)

    def _waits(self) -> int:
        waits = 0
        for number, lines in enumerate(self._lines):
            if lines.cnps or ((lines.data or lines.answers) and not self._paused >> number & 1):
                waits |= 1 << number
        return waits

    # --- time ---

    def handle_timer(self, now_ns: int) -> None:
        """Time has come."""
        self._now_ns = now_ns
        timers = self._timers
        while (timed := timers.pop_due(now_ns)) is not None:
            timed.handle_timer(now_ns)
            assert isinstance(timed, RoceRequestor)
            self._look_at(timed)
        if self._overruns:
            self._fail_overrun()

    # --- ports ---

    def _port_changed(self, port: int, now_ns: int) -> None:
        for qp in self.qps.values():
            if qp.requestor is not None and qp.requestor.path.port == port:
                self._look_at(qp.requestor)

    # --- what queue pairs ask of their owner (RoceOwner) ---

    def want_control(self, qp: RoceQueuePair) -> None:
        """A responder has an answer to send."""
        responder = qp.responder
        if responder is None:
            return
        lines = self._lines[responder.path.port]
        if responder.cnp_due and not responder.cnp_in_ring:
            responder.cnp_in_ring = True
            lines.cnps.append(responder)
        if responder.has_answer() and not responder.in_ring:
            responder.in_ring = True
            lines.answers.append(responder)
        self._kicked = True

    def send_event(self, qp: RoceQueuePair, event: SendEvent) -> None:
        """A requestor has work, or stops."""
        if qp.requestor is not None:
            self._look_at(qp.requestor)

    def halves(self, qp: RoceQueuePair) -> tuple[RoceRequestor, RoceResponder]:
        """A queue pair goes to RTR."""
        attributes = qp.attributes
        assert attributes.peer_address is not None
        path = RocePath(self.config, attributes.peer_address, qp.number, attributes.dest_qp)
        limiter = None
        if self.roce.dcqcn is not None:
            rate_bps = self._ports[path.port].rate_bps or REFERENCE_RATE_BPS
            limiter = Dcqcn(self.roce.dcqcn, rate_bps)
        return (
            RoceRequestor(qp, path, self.roce, limiter),
            RoceResponder(qp, path, self.roce),
        )

    def disconnect(self, qp: RoceQueuePair) -> None:
        """A queue pair has no peer any more."""
        if qp.requestor is not None:
            self._timers.disarm(qp.requestor)
