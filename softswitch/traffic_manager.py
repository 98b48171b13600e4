"""Traffic manager: strict-priority queues, link rates and queue depths of every egress port.

Sans-IO: every method takes `now_ns`; nothing here reads a clock. The manager knows nothing of
P4. Its owner gives it two callables: `egress` turns a queued item into the frame to put on the
wire (the egress pipeline runs when a packet leaves its queue, not when it enters it), `deliver`
takes a frame whose last bit has left.

A packet waits in its queue until its serialisation begins. It leaves when its last bit is out,
`(frame bytes + WIRE_OVERHEAD_BYTES) * 8 / rate_bps` later. The frame on the wire is no longer in
the queue, so an idle port takes a packet whatever its depths are. Serialisation times are exact:
the part of a nanosecond by which a departure was rounded up is credited to the next frame of the
same busy period, so a saturated port runs at its rate and not at a rounded one.

A port without a rate never queues: items pass at once, without touching queue or heap. So do
items for a port that is down: they run through `egress` (the program's own book-keeping must see
every packet it admitted leave) and their owner drops what comes out.

Priority-based flow control (IEEE 802.1Q-2022, clause 36) is an option. Queues of a port can be
paused: what is on the wire ends, nothing of them begins. Queues can be lossless for an ingress port
(`make_lossless`): items are charged to that port's buffer from their arrival until their last bit
is out, and the owner hears when the sender is to stop and when to go on. MAC control frames, which
pauses are, go before all queues, through no `egress`, and are no packets in any count here.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from softswitch.ingress_buffer import IngressBuffer, StopFn, Thresholds
from softswitch.units import MAX_RATE_BPS, format_rate

WIRE_OVERHEAD_BYTES: Final = 24
"""Preamble and start delimiter (8), frame check sequence (4), inter-frame gap (12); IEEE 802.3."""

DEFAULT_DEPTH_PACKETS: Final = 100_000
DEFAULT_DEPTH_BYTES: Final = 1 << 30
"""Deep on purpose: programs that police their own queues must never lose a packet here."""

MAX_DEPTH: Final = 1 << 62
"""Packets or bytes, beyond any memory; see `MAX_RATE_BPS` for the reason."""

QUEUE_FULL_PACKETS: Final = "queue_full_packets"
QUEUE_FULL_BYTES: Final = "queue_full_bytes"
PRIORITY_OUT_OF_RANGE: Final = "priority_out_of_range"
INGRESS_BUFFER_FULL: Final = "ingress_buffer_full"

_NS_BITS_PER_BYTE: Final = 8 * 1_000_000_000

Item = TypeVar("Item")


class TrafficManagerError(ValueError):
    """A rate, depth, port or queue that cannot be; the message names it and its value."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue at one moment. Sizes in packets and bytes; `dropped_*` since the port was added."""

    packets: int
    size_bytes: int
    depth_packets: int
    depth_bytes: int
    peak_packets: int
    peak_bytes: int
    dropped_full_packets: int
    dropped_full_bytes: int


class _Queue(Generic[Item]):
    """One FIFO: its waiting items, its limits and what it refused."""

    __slots__ = (
        "depth_bytes",
        "depth_packets",
        "dropped_full_bytes",
        "dropped_full_packets",
        "items",
        "peak_bytes",
        "peak_packets",
        "size_bytes",
    )

    def __init__(self, depth_packets: int, depth_bytes: int) -> None:
        # (item, length in bytes, time of arrival, queue length found on arrival, charged buffer)
        self.items: deque[tuple[Item, int, int, int, IngressBuffer | None]] = deque()
        self.size_bytes = 0
        self.depth_packets = depth_packets
        self.depth_bytes = depth_bytes
        self.peak_packets = 0
        self.peak_bytes = 0
        self.dropped_full_packets = 0
        self.dropped_full_bytes = 0


class EgressPort(Generic[Item]):
    """State of one port's sending side. Read-only outside the traffic manager.

    Attributes:
        number: port number.
        direct: items pass at once (no rate limit, or the port is down, and nothing is queued).
        up: frames may leave.
        rate_bps: link rate in bits per second, None = unlimited.
        frame: the frame being serialised, or None.
        end_ns: when its last bit is out.
    """

    __slots__ = (
        "_buffer",
        "_charged_bytes",
        "_credit",
        "_mac_frames",
        "_occupied",
        "_paused",
        "_queues",
        "_sends_mac",
        "_serving",
        "direct",
        "end_ns",
        "frame",
        "number",
        "rate_bps",
        "up",
    )

    def __init__(
        self,
        number: int,
        rate_bps: int | None,
        queues: list[_Queue[Item]],
    ) -> None:
        self.number = number
        self.rate_bps = rate_bps
        self.up = True
        self.direct = rate_bps is None
        self.frame: bytes | None = None
        self.end_ns = 0
        self._queues = queues
        # Bit i set: queue i holds something; the bit above all queues: MAC control frames wait
        self._occupied = 0
        self._paused = 0  # bit i set: queue i is paused
        self._mac_frames: deque[bytes] = deque()
        self._sends_mac = False  # the frame on the wire is a MAC control frame
        self._buffer: IngressBuffer | None = None  # that the frame on the wire is charged to
        self._charged_bytes = 0
        self._serving = False  # an item is in `egress` or a frame on the wire
        self._credit = 0  # in 1/rate_bps ns: how much later than exact `end_ns` was rounded

    @property
    def queued_packets(self) -> int:
        """Packets waiting in the queues, the one being serialised not counted."""
        return sum(len(queue.items) for queue in self._queues)

    @property
    def held_packets(self) -> int:
        """Packets waiting in the queues or being serialised."""
        return self.queued_packets + (self.frame is not None and not self._sends_mac)

    def is_paused(self, queue: int) -> bool:
        """Whether a queue may not begin anything."""
        return bool(self._paused >> queue & 1)

    def queue_stats(self) -> tuple[QueueStats, ...]:
        """Return one snapshot per queue, priority 0 first."""
        return tuple(
            QueueStats(
                packets=len(queue.items),
                size_bytes=queue.size_bytes,
                depth_packets=queue.depth_packets,
                depth_bytes=queue.depth_bytes,
                peak_packets=queue.peak_packets,
                peak_bytes=queue.peak_bytes,
                dropped_full_packets=queue.dropped_full_packets,
                dropped_full_bytes=queue.dropped_full_bytes,
            )
            for queue in self._queues
        )


EgressFn = Callable[[EgressPort[Item], int, Item, int, int, int, int], bytes | None]
"""(port, queue, item, enqueued_ns, queue length found on arrival, queue length left, now_ns)
→ the frame to serialise, or None when the item came to nothing."""

DeliverFn = Callable[[EgressPort[Item], bytes, int], None]
"""(port, frame, time its last bit left)."""


class TrafficManager(Generic[Item]):
    """All egress ports of one switch.

    Args:
        queues_per_port: number of strict-priority queues; the highest number is served first,
            as `standard_metadata.priority` counts on BMv2 since 2024.
        egress: see `EgressFn`. May call `enqueue` for any port, this one included.
        deliver: see `DeliverFn`. Called for ports that are down as well.
        deliver_mac: the same for MAC control frames, of ports that are up only.
    """

    def __init__(
        self,
        queues_per_port: int,
        egress: EgressFn[Item],
        deliver: DeliverFn[Item],
        deliver_mac: DeliverFn[Item] | None = None,
        *,
        depth_packets: int = DEFAULT_DEPTH_PACKETS,
        depth_bytes: int = DEFAULT_DEPTH_BYTES,
    ) -> None:
        if queues_per_port < 1:
            raise TrafficManagerError(
                f"queues per port: {queues_per_port} is not a positive number"
            )
        self.queues_per_port = queues_per_port
        self.ports: dict[int, EgressPort[Item]] = {}
        self._egress = egress
        self._deliver = deliver
        self._deliver_mac = deliver if deliver_mac is None else deliver_mac
        # By ingress port and queue; empty without flow control
        self._buffers: dict[tuple[int, int], IngressBuffer] = {}
        self._depth_packets = _check_depth("packets", depth_packets)
        self._depth_bytes = _check_depth("bytes", depth_bytes)
        # Heap of (time the last bit is out, port number, port), at most one entry per port. The
        # list object never changes, so that a caller may look at its head without a method call.
        self.ends: list[tuple[int, int, EgressPort[Item]]] = []

    def add_port(
        self,
        number: int,
        *,
        rate_bps: int | None = None,
        depth_packets: int | None = None,
        depth_bytes: int | None = None,
    ) -> EgressPort[Item]:
        """Add a port, up, with empty queues; depths None = the manager's own.

        Raises:
            TrafficManagerError: the port exists, or a rate or depth is out of range.
        """
        if number in self.ports:
            raise TrafficManagerError(f"port {number} exists already")
        _check_rate(rate_bps)
        packets = self._depth_packets if depth_packets is None else depth_packets
        size = self._depth_bytes if depth_bytes is None else depth_bytes
        _check_depth("packets", packets)
        _check_depth("bytes", size)
        queues: list[_Queue[Item]] = [_Queue(packets, size) for _ in range(self.queues_per_port)]
        port = EgressPort(number, rate_bps, queues)
        self.ports[number] = port
        return port

    def remove_port(self, number: int, now_ns: int) -> None:
        """Take a port down (see `set_up`) and forget it."""
        self.set_up(number, False, now_ns)
        del self.ports[number]
        for queue in range(self.queues_per_port):
            self._buffers.pop((number, queue), None)

    def set_rate(self, number: int, rate_bps: int | None, now_ns: int) -> None:
        """Set a link rate in bits per second, None = unlimited.

        The frame being serialised ends when it would have; what has not begun takes the new rate.
        """
        _check_rate(rate_bps)
        port = self._port(number)
        self.advance(now_ns)
        port.rate_bps = rate_bps
        port._credit = 0  # counted in the old rate's unit; worth less than a nanosecond
        port.direct = rate_bps is None and not port._serving and not port._paused

    def set_depth(
        self,
        number: int | None = None,
        queue: int | None = None,
        *,
        depth_packets: int | None = None,
        depth_bytes: int | None = None,
    ) -> None:
        """Set depths of one queue, of all queues of a port (queue None) or of all ports.

        Setting all ports also sets the default for ports added later. A depth of None stays as it
        is. What is queued already stays queued, whatever the new depth.
        """
        if depth_packets is not None:
            _check_depth("packets", depth_packets)
        if depth_bytes is not None:
            _check_depth("bytes", depth_bytes)
        if queue is not None:
            self._check_queue(queue)
        ports: Iterable[EgressPort[Item]]
        if number is None:
            ports = self.ports.values()
            if queue is None:
                self._depth_packets = (
                    self._depth_packets if depth_packets is None else depth_packets
                )
                self._depth_bytes = self._depth_bytes if depth_bytes is None else depth_bytes
        else:
            ports = (self._port(number),)
        for port in ports:
            for target in port._queues if queue is None else (port._queues[queue],):
                if depth_packets is not None:
                    target.depth_packets = depth_packets
                if depth_bytes is not None:
                    target.depth_bytes = depth_bytes

    def set_up(self, number: int, up: bool, now_ns: int) -> None:
        """Take a port up or down.

        Going down delivers the frame on the wire and everything queued at once, through `egress`;
        the owner sees `port.up` False in `deliver` and drops it. No queue of it is paused then.
        """
        port = self._port(number)
        self.advance(now_ns)
        if port.up == up:
            return
        port.up = up
        if up:
            port.direct = port.rate_bps is None and not port._serving
            return
        port._paused = 0
        frame = port.frame
        if frame is not None:
            self.ends[:] = [entry for entry in self.ends if entry[2] is not port]
            heapq.heapify(self.ends)
            self._end(port, frame, now_ns)
        self._serve_next(port, now_ns)

    def make_lossless(
        self, number: int, queue: int, thresholds: Thresholds, on_stop: StopFn
    ) -> IngressBuffer:
        """Charge what comes in at a port for a queue to a buffer, for which its sender is stopped.

        `on_stop` may call `send_mac`. Items that are queued already are not charged.
        """
        self._check_queue(queue)
        self._port(number)
        buffer = self._buffers[number, queue] = IngressBuffer(number, queue, thresholds, on_stop)
        return buffer

    def set_paused(self, number: int, queue: int, paused: bool, now_ns: int) -> None:
        """Pause a queue of a port, or let it go on. A port that is down has no paused queues."""
        self._check_queue(queue)
        port = self._port(number)
        self.advance(now_ns)
        if paused:
            if port.up:
                port._paused |= 1 << queue
                port.direct = False
            return
        port._paused &= ~(1 << queue)
        if not port._serving:
            port._credit = 0
            self._serve_next(port, now_ns)

    def send_mac(self, number: int, frame: bytes, now_ns: int) -> None:
        """Send a MAC control frame before everything that waits; lost at a port that is down."""
        port = self._port(number)
        if not port.up:
            return
        port._mac_frames.append(frame)
        port._occupied |= 1 << self.queues_per_port
        if not port._serving:
            port._credit = 0
            self._serve_next(port, now_ns)

    def enqueue(
        self,
        port: EgressPort[Item],
        priority: int,
        item: Item,
        length: int,
        now_ns: int,
        source: int = -1,
    ) -> str | None:
        """Queue an item for a port; it begins its serialisation at once when the port is idle.

        Args:
            port: one of `ports`; not one that is `direct` (its owner serves that itself).
            priority: queue number.
            item: anything; handed to `egress` later.
            length: bytes to count against the queue's depth, and the ingress port's buffer.
            now_ns: not before any earlier `now_ns`.
            source: ingress port, to whose buffer the item is charged where that is lossless.

        Returns:
            None, or the reason for which the item was refused.
        """
        if not 0 <= priority < self.queues_per_port:
            return PRIORITY_OUT_OF_RANGE
        buffer = None
        if self._buffers:
            buffer = self._buffers.get((source, priority))
            if buffer is not None and not buffer.charge(length, now_ns):
                # The program admitted it, and must see it leave
                waiting = len(port._queues[priority].items)
                out = self._egress(port, priority, item, now_ns, waiting, waiting, now_ns)
                return None if out is None else INGRESS_BUFFER_FULL
        if port._serving or port._paused >> priority & 1:
            queue = port._queues[priority]
            items = queue.items
            waiting = len(items)
            size_bytes = queue.size_bytes + length
            if waiting >= queue.depth_packets or size_bytes > queue.depth_bytes:
                if buffer is not None:
                    buffer.discharge(length, now_ns)
                if waiting >= queue.depth_packets:
                    queue.dropped_full_packets += 1
                    return QUEUE_FULL_PACKETS
                queue.dropped_full_bytes += 1
                return QUEUE_FULL_BYTES
            items.append((item, length, now_ns, waiting, buffer))
            queue.size_bytes = size_bytes
            port._occupied |= 1 << priority
            if waiting >= queue.peak_packets:
                queue.peak_packets = waiting + 1
            if size_bytes > queue.peak_bytes:
                queue.peak_bytes = size_bytes
            return None
        port._serving = True
        port._credit = 0
        frame = self._egress(port, priority, item, now_ns, 0, 0, now_ns)
        if frame is not None and port.rate_bps is not None:
            port._buffer = buffer
            port._charged_bytes = length
            self._begin(port, frame, now_ns)
            return None
        if frame is not None:
            # Not direct only because another queue is paused
            self._deliver(port, frame, now_ns)
        if buffer is not None:
            buffer.discharge(length, now_ns)
        self._serve_next(port, now_ns)
        return None

    def advance(self, now_ns: int) -> None:
        """Let everything happen that happens up to and including `now_ns`, in order of time."""
        ends = self.ends
        while ends and ends[0][0] <= now_ns:
            end_ns, _, port = heapq.heappop(ends)
            frame = port.frame
            assert frame is not None
            if port._buffer is None and not port._sends_mac:
                port.frame = None
                self._deliver(port, frame, end_ns)
            else:
                self._end(port, frame, end_ns)
            if port._occupied & ~port._paused:
                self._serve_next(port, end_ns)
            else:
                port._serving = False
                port.direct = port.rate_bps is None and not port._paused

    def next_timer(self) -> int | None:
        """Return the time at which the next frame's last bit leaves, or None."""
        ends = self.ends
        return ends[0][0] if ends else None

    def held_packets(self) -> int:
        """Packets inside: waiting in queues or being serialised."""
        return sum(port.held_packets for port in self.ports.values())

    def _serve_next(self, port: EgressPort[Item], now_ns: int) -> None:
        """Take items from the highest queue that has some and is not paused, until one gives a
        frame to serialise."""
        port._serving = True
        port.direct = False
        while ready := port._occupied & ~port._paused:
            priority = ready.bit_length() - 1
            if priority == self.queues_per_port:
                if self._serve_mac(port, now_ns):
                    return
                continue
            queue = port._queues[priority]
            item, length, enqueued_ns, found, buffer = queue.items.popleft()
            queue.size_bytes -= length
            left = len(queue.items)
            if not left:
                port._occupied ^= 1 << priority
            frame = self._egress(port, priority, item, enqueued_ns, found, left, now_ns)
            if frame is not None and port.rate_bps is not None and port.up:
                port._buffer = buffer
                port._charged_bytes = length
                self._begin(port, frame, now_ns)
                return
            if frame is not None:
                self._deliver(port, frame, now_ns)
            if buffer is not None:
                buffer.discharge(length, now_ns)
        port._serving = False
        port.direct = (port.rate_bps is None or not port.up) and not port._paused

    def _serve_mac(self, port: EgressPort[Item], now_ns: int) -> bool:
        """Take a MAC control frame. True: it is being serialised."""
        frame = port._mac_frames.popleft()
        if not port._mac_frames:
            port._occupied ^= 1 << self.queues_per_port
        if port.up and port.rate_bps is not None:
            port._sends_mac = True
            self._begin(port, frame, now_ns)
            return True
        if port.up:
            self._deliver_mac(port, frame, now_ns)
        return False

    def _end(self, port: EgressPort[Item], frame: bytes, now_ns: int) -> None:
        """The frame on the wire is no longer there."""
        port.frame = None
        if port._sends_mac:
            port._sends_mac = False
            if port.up:
                self._deliver_mac(port, frame, now_ns)
            return
        self._deliver(port, frame, now_ns)
        buffer = port._buffer
        if buffer is not None:
            port._buffer = None
            buffer.discharge(port._charged_bytes, now_ns)

    def _begin(self, port: EgressPort[Item], frame: bytes, now_ns: int) -> None:
        """Put a frame's first bit on the wire."""
        rate_bps = port.rate_bps
        assert rate_bps is not None
        work = (len(frame) + WIRE_OVERHEAD_BYTES) * _NS_BITS_PER_BYTE - port._credit
        duration_ns = -(-work // rate_bps)
        port._credit = duration_ns * rate_bps - work
        port.frame = frame
        end_ns = now_ns + duration_ns
        port.end_ns = end_ns
        heapq.heappush(self.ends, (end_ns, port.number, port))

    def _check_queue(self, queue: int) -> None:
        if not 0 <= queue < self.queues_per_port:
            raise TrafficManagerError(
                f"queue {queue}: this switch has queues 0 to {self.queues_per_port - 1}"
            )

    def _port(self, number: int) -> EgressPort[Item]:
        try:
            return self.ports[number]
        except KeyError:
            raise TrafficManagerError(f"port {number} does not exist") from None


def _check_rate(rate_bps: int | None) -> None:
    if rate_bps is not None and rate_bps <= 0:
        raise TrafficManagerError(
            f"link rate: {rate_bps} bit/s is not a positive number (None = unlimited)"
        )
    if rate_bps is not None and rate_bps > MAX_RATE_BPS:
        raise TrafficManagerError(
            f"link rate: more than {format_rate(MAX_RATE_BPS)} (None = unlimited)"
        )


def _check_depth(unit: str, depth: int) -> int:
    if depth < 0:
        raise TrafficManagerError(f"queue depth: {depth} {unit} is negative")
    if depth > MAX_DEPTH:
        raise TrafficManagerError(f"queue depth: more than {MAX_DEPTH} {unit}")
    return depth
