"""Queues and link rates around the reference interpreter: oracle of the traffic manager."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

from tests.softswitch.reference_interpreter import Interpreter, Packet, Resubmit

WIRE_OVERHEAD_BYTES = 24  # preamble 8, frame check sequence 4, gap 12; IEEE 802.3


@dataclass(slots=True)
class _Waiting:
    packet: Packet
    since_ns: int
    depth_found: int


@dataclass(slots=True)
class _Port:
    rate_bps: int | None = None
    queues: dict[int, deque[_Waiting]] = field(default_factory=dict)
    # The frame on the wire and the exact moment when its last bit is out
    on_wire: bytes | None = None
    free_at: Fraction = Fraction(0)


class ReferenceSwitch:
    """Strict-priority queues of unlimited depth and a link rate per port, around an `Interpreter`.

    Same time rules as `softswitch`: a packet leaves its queue when the wire is free, and is out
    when its last bit is: (bytes + 24) * 8 / rate later, rounded up to a nanosecond.
    """

    def __init__(self, interpreter: Interpreter, ports: dict[int, int | None]) -> None:
        self.interpreter = interpreter
        self._ports = {number: _Port(rate_bps) for number, rate_bps in ports.items()}
        self._out: list[tuple[int, bytes]] = []

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """Take a frame in. Time must not go back."""
        self._advance(now_ns)
        result = self.interpreter.ingress(frame, port, now_ns)
        while isinstance(result, Resubmit):
            result = self.interpreter.ingress(result.frame, result.port, now_ns, result)
        if result is None:
            return
        standard = result.headers["standard_metadata"].values
        egress = self._ports.get(standard["egress_spec"])
        if egress is None:  # passes through egress all the same, where programs keep their books
            self.interpreter.egress(result, standard["egress_spec"], now_ns, enq_ns=now_ns)
            return
        queue = egress.queues.setdefault(standard["priority"], deque())
        queue.append(_Waiting(result, now_ns, len(queue)))
        self._serve(standard["egress_spec"], egress, Fraction(now_ns))

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """Frames whose last bit is out by `now_ns`, as (port, frame), in order."""
        self._advance(now_ns)
        out, self._out = self._out, []
        return out

    def next_timer(self) -> int | None:
        """When the next frame is out, in ns, or None."""
        ends = [ceil(port.free_at) for port in self._ports.values() if port.on_wire is not None]
        return min(ends, default=None)

    def _serve(self, number: int, port: _Port, moment: Fraction) -> None:
        """Put frames on the wire while it is free and something waits."""
        while port.on_wire is None:
            waiting = [priority for priority, queue in port.queues.items() if queue]
            if not waiting:
                return
            queue = port.queues[max(waiting)]
            item = queue.popleft()
            frame = self.interpreter.egress(
                item.packet,
                number,
                ceil(moment),
                enq_ns=item.since_ns,
                enq_qdepth=item.depth_found,
                deq_qdepth=len(queue),
            )
            if frame is None:
                continue
            if port.rate_bps is None:
                self._out.append((number, frame))
                continue
            port.on_wire = frame
            bits = (len(frame) + WIRE_OVERHEAD_BYTES) * 8
            port.free_at = moment + Fraction(bits * 1_000_000_000, port.rate_bps)

    def _advance(self, now_ns: int) -> None:
        while True:
            busy = [
                (ceil(port.free_at), number)
                for number, port in self._ports.items()
                if port.on_wire is not None and ceil(port.free_at) <= now_ns
            ]
            if not busy:
                return
            _, number = min(busy)
            port = self._ports[number]
            assert port.on_wire is not None
            self._out.append((number, port.on_wire))
            port.on_wire = None
            self._serve(number, port, port.free_at)


def ceil(moment: Fraction) -> int:
    """Nanoseconds, rounded up."""
    return -(-moment.numerator // moment.denominator)
