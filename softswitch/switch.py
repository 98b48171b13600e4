"""The switch: a pipeline, a traffic manager and a replication engine joined, sans-IO.

Frames and the time go in (`receive`), frames come out (`transmit`); `next_timer` tells when there
is something to come out next. Time is in integer nanoseconds and never runs backwards; no method
reads a clock, so the same object runs in real and in virtual time.

What happens to a packet between ingress and its queue, and between its queue and the wire, follows
simple_switch: after ingress clone, digest, resubmit, multicast, drop, unicast; after egress clone,
drop, recirculate, send. Packets that pass through once more and copies wait in a work list, so
nothing here recurses, and both are limited per received packet.

No packet is lost without a name. At any moment

    received + copies = sent + queued + sum of dropped

where `copies` are the packets that cloning and multicast made, and `dropped` is by reason:

====================== ====================================================================
no_pipeline            no program was loaded
ingress_drop           the program dropped it in ingress (egress_spec = drop port, failed assert)
egress_drop            the program dropped it in egress
program_error          the compiled program raised an exception
queue_full_packets     its queue held as many packets as it may
queue_full_bytes       its queue had not enough bytes left
priority_out_of_range  `standard_metadata.priority` names no queue
ingress_buffer_full    the lossless buffer of its ingress port had no headroom left
port_down              it came from or went to a port that is down
no_such_port           it came from or went to a port that does not exist
multicast_no_replica   its multicast group does not exist or is empty
loop_limit             it was resubmitted, recirculated or copied too often
pipeline_replaced      it was to be recirculated into a program that is gone
no_controller          it went to the CPU port and nobody takes packet-ins
controller_error       it went to the CPU port and whoever takes packet-ins raised an exception
====================== ====================================================================

Ports report losses of their own by `count_lost`; their reasons are named where they are found
(`rawsocket.af_packet`).

A packet for a port that is down or does not exist still passes through egress, as on BMv2, and is
dropped after it: programs keep books between ingress and egress (bytes in queues, say) and
recirculate from ports that are no interfaces.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from softswitch.ingress_buffer import IngressBuffer, StopFn, Thresholds
from softswitch.pipeline import (
    DEFAULT_DROP_PORT,
    Again,
    Clone,
    EgressFunction,
    EgressRequests,
    EgressResult,
    IngressRequests,
    Pipeline,
    State,
)
from softswitch.ports.base import Loss
from softswitch.program import Program
from softswitch.replication import ReplicationEngine
from softswitch.traffic_manager import (
    DEFAULT_DEPTH_BYTES,
    DEFAULT_DEPTH_PACKETS,
    PRIORITY_OUT_OF_RANGE,
    EgressPort,
    QueueStats,
    TrafficManager,
    TrafficManagerError,
)

log = logging.getLogger(__name__)

NO_PIPELINE: Final = "no_pipeline"
INGRESS_DROP: Final = "ingress_drop"
EGRESS_DROP: Final = "egress_drop"
PROGRAM_ERROR: Final = "program_error"
PORT_DOWN: Final = "port_down"
NO_SUCH_PORT: Final = "no_such_port"
MULTICAST_NO_REPLICA: Final = "multicast_no_replica"
LOOP_LIMIT: Final = "loop_limit"
PIPELINE_REPLACED: Final = "pipeline_replaced"
NO_CONTROLLER: Final = "no_controller"
CONTROLLER_ERROR: Final = "controller_error"

MAX_PASSES: Final = 64
"""How often one packet may be resubmitted, recirculated or be a copy of a copy."""

MAX_COPIES: Final = 4096
"""How many copies may descend from one received packet."""


class SwitchError(ValueError):
    """A port that exists already, does not exist, or cannot be; the message names it."""


@dataclass(frozen=True, slots=True)
class PortStats:
    """One port at one moment; packets and bytes of whole frames (without FCS) since it was added.

    `dropped` counts, by reason, packets received here that never reached a queue and packets that
    were to leave here.
    """

    up: bool
    rate_bps: int | None
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queued: int
    dropped: Mapping[str, int]
    queues: tuple[QueueStats, ...]


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """The switch at one moment, in packets. Ports that were removed stay in the totals.

    `errors` counts exceptions of the program and of whoever takes packet-ins and digests, by kind.
    """

    received: int
    copies: int
    sent: int
    queued: int
    dropped: Mapping[str, int]
    ports: Mapping[int, PortStats]
    errors: Mapping[str, int] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Packets lost without a name: 0, or there is a bug."""
        return self.received + self.copies - self.sent - self.queued - sum(self.dropped.values())


class _Trace(NamedTuple):
    """The past of a packet that is a copy or passes through again."""

    passes: int
    copies: list[int]  # one element, shared by all that descend from one received packet


_Item = tuple[EgressFunction, State, int, _Trace | None, int]
"""What waits in a queue: the egress of the program the packet belongs to, the packet's state, its
replication id, its past, and how many bytes to leave of the frame (0 = all)."""


class _ToQueue(NamedTuple):
    """Work: put a packet into a queue."""

    port: int
    priority: int
    length: int
    item: _Item


class _ToIngress(NamedTuple):
    """Work: run a packet through ingress once more."""

    again: Again
    trace: _Trace


class _Port:
    """One port: its sending side in the traffic manager and its counters."""

    __slots__ = (
        "dropped",
        "egress",
        "number",
        "plain",
        "rx_bytes",
        "rx_packets",
        "tx_bytes",
        "tx_packets",
    )

    def __init__(self, number: int, egress: EgressPort[_Item]) -> None:
        self.number = number
        self.egress = egress
        self.plain = True  # up and not the CPU port: frames just go out
        self.rx_packets = 0
        self.rx_bytes = 0
        self.tx_packets = 0
        self.tx_bytes = 0
        self.dropped: dict[str, int] = {}

    def drop(self, reason: str, packets: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + packets


class Switch:
    """A v1model switch.

    Args:
        seed: of everything random in the pipeline; the same seed and packets give the same run.
        drop_port: the egress_spec that means "drop" (v1model: 511).
        cpu_port: number of the port whose frames go to and come from the controller, None = none.
        priority_queues: strict-priority queues per port.
        depth_packets, depth_bytes: depth of every queue unless set for its port.
        max_multicast_groups: size of the multicast group table.
        max_passes, max_copies: see MAX_PASSES, MAX_COPIES.

    Attributes:
        pipeline: the loaded program's state, or None.
        replication: multicast groups and clone sessions.
        on_packet_in: called with every frame for the CPU port, or None; returns False where no
            controller takes it.
        on_digest: called with the name and the values of every digest message, or None.
        mac_sent: MAC control frames sent; they are no packets and in no other count.
        ends: heap of what is being serialised, the time that `next_timer` returns in front; always
            the same list, for callers to whom a method call a packet is too much. Read-only.

    Not thread-safe: the caller serialises packets and control.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        drop_port: int = DEFAULT_DROP_PORT,
        cpu_port: int | None = None,
        priority_queues: int = 1,
        depth_packets: int = DEFAULT_DEPTH_PACKETS,
        depth_bytes: int = DEFAULT_DEPTH_BYTES,
        max_multicast_groups: int = 4096,
        max_passes: int = MAX_PASSES,
        max_copies: int = MAX_COPIES,
    ) -> None:
        if cpu_port is not None and cpu_port == drop_port:
            raise SwitchError(f"port {cpu_port} cannot be both CPU port and drop port")
        self.seed = seed
        self.drop_port = drop_port
        self.cpu_port = cpu_port
        self.priority_queues = priority_queues
        self.pipeline: Pipeline | None = None
        self.replication = ReplicationEngine(max_groups=max_multicast_groups)
        self.on_packet_in: Callable[[bytes], bool] | None = None
        self.on_digest: Callable[[str, tuple[int, ...]], None] | None = None
        self.mac_sent = 0
        self._max_passes = max_passes
        self._max_copies = max_copies
        self._manager: TrafficManager[_Item] = TrafficManager(
            priority_queues,
            self._serve,
            self._deliver_from_queue,
            self._deliver_mac,
            depth_packets=depth_packets,
            depth_bytes=depth_bytes,
        )
        self.ends = self._manager.ends
        self._ports: dict[int, _Port] = {}
        self._out: list[tuple[int, bytes]] = []
        self._work: deque[_ToQueue | _ToIngress] = deque()
        self._draining = False
        self._copies = 0
        # Counts packets of no port, and what removed ports had counted.
        self._elsewhere = _Port(-1, EgressPort(-1, None, []))
        self._errors: dict[str, int] = {}
        if cpu_port is not None:
            self.add_port(cpu_port)
            self._ports[cpu_port].plain = False

    # -- program and ports -----------------------------------------------------------------

    def load(self, program: Program) -> Pipeline:
        """Load a program: tables, registers, groups and clone sessions fresh, queues kept.

        What is queued already leaves through the egress it was queued for.

        Raises:
            UnsupportedProgram: as `Pipeline`; the old program keeps running.
        """
        return self.install(Pipeline(program, seed=self.seed, drop_port=self.drop_port))

    def install(self, pipeline: Pipeline) -> Pipeline:
        """Let a pipeline that was built elsewhere (outside a lock, say) take over; as `load`."""
        for number, port in self._ports.items():
            if not port.egress.up:
                pipeline.set_port_up(number, False)
        self.pipeline = pipeline
        self.replication.clear()
        return pipeline

    @property
    def ports(self) -> tuple[int, ...]:
        """Numbers of all ports, in order of addition; the CPU port is one of them."""
        return tuple(self._ports)

    def add_port(
        self,
        port: int,
        *,
        rate_bps: int | None = None,
        depth_packets: int | None = None,
        depth_bytes: int | None = None,
    ) -> None:
        """Add a port, up. `rate_bps` None = unlimited, depths None = the switch's.

        Raises:
            SwitchError: the port exists or is the drop port.
            TrafficManagerError: a rate or depth that cannot be.
        """
        if port in self._ports:
            what = "is the CPU port" if port == self.cpu_port else "exists already"
            raise SwitchError(f"port {port} {what}")
        if port == self.drop_port:
            raise SwitchError(f"port {port} is the drop port")
        if port < 0:
            raise SwitchError(f"port {port} is negative")
        egress = self._manager.add_port(
            port, rate_bps=rate_bps, depth_packets=depth_packets, depth_bytes=depth_bytes
        )
        self._ports[port] = _Port(port, egress)
        if self.pipeline is not None:
            self.pipeline.set_port_up(port, True)

    def remove_port(self, port: int, now_ns: int) -> None:
        """Take a port down and forget it; its counters stay in the totals."""
        record = self._port(port)
        if port == self.cpu_port:
            raise SwitchError(f"port {port} is the CPU port and stays")
        self.set_port_up(port, False, now_ns)
        self._manager.remove_port(port, now_ns)
        del self._ports[port]
        rest = self._elsewhere
        rest.rx_packets += record.rx_packets
        rest.rx_bytes += record.rx_bytes
        rest.tx_packets += record.tx_packets
        rest.tx_bytes += record.tx_bytes
        for reason, packets in record.dropped.items():
            rest.drop(reason, packets)

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        """Take a port up or down; what is queued for a port going down is dropped (`port_down`)."""
        record = self._port(port)
        if port == self.cpu_port:
            raise SwitchError(f"port {port} is the CPU port and always up")
        if record.egress.up == up:
            return
        self._manager.advance(now_ns)
        record.plain = up
        if self.pipeline is not None:
            self.pipeline.set_port_up(port, up)
        self._manager.set_up(port, up, now_ns)

    def port_is_up(self, port: int) -> bool:
        """Whether a port is up. Raises SwitchError if it does not exist."""
        return self._port(port).egress.up

    def set_port_rate(self, port: int, rate_bps: int | None, now_ns: int) -> None:
        """Set a link rate, None = unlimited; see `TrafficManager.set_rate`."""
        self._port(port)
        self._manager.set_rate(port, rate_bps, now_ns)

    def set_queue_depth(
        self,
        port: int | None = None,
        queue: int | None = None,
        *,
        depth_packets: int | None = None,
        depth_bytes: int | None = None,
    ) -> None:
        """Set depths of a queue, a port's queues or all queues; see `TrafficManager.set_depth`."""
        if port is not None:
            self._port(port)
        self._manager.set_depth(port, queue, depth_packets=depth_packets, depth_bytes=depth_bytes)

    # -- flow control ----------------------------------------------------------------------

    def make_lossless(
        self, port: int, queue: int, thresholds: Thresholds, on_stop: StopFn
    ) -> IngressBuffer:
        """Stop whoever sends to a port before a queue loses it; `TrafficManager.make_lossless`.

        Copies (clones, multicast) and packets that pass through again are charged to nobody.
        """
        self._port(port)
        return self._manager.make_lossless(port, queue, thresholds, on_stop)

    def set_paused(self, port: int, queue: int, paused: bool, now_ns: int) -> None:
        """Begin nothing of a queue, or go on; see `TrafficManager.set_paused`."""
        self._port(port)
        self._manager.set_paused(port, queue, paused, now_ns)

    def send_mac(self, port: int, frame: bytes, now_ns: int) -> None:
        """Let `transmit` return a MAC control frame as soon as the port can; see `mac_sent`."""
        self._port(port)
        self._manager.send_mac(port, frame, now_ns)

    # -- packets ---------------------------------------------------------------------------

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """Take in one frame (without FCS) that arrived at a port at `now_ns`."""
        ends = self.ends
        if ends and ends[0][0] <= now_ns:
            self._manager.advance(now_ns)
        source = self._ports.get(port)
        if source is None:
            self._elsewhere.rx_packets += 1
            self._elsewhere.rx_bytes += len(frame)
            self._elsewhere.drop(NO_SUCH_PORT)
            return
        source.rx_packets += 1
        source.rx_bytes += len(frame)
        pipeline = self.pipeline
        if pipeline is None:
            source.drop(NO_PIPELINE)
            return
        if not source.egress.up:
            source.drop(PORT_DOWN)
            return
        try:
            result = pipeline.ingress(frame, port, now_ns)
        except Exception as error:
            self._program_error("ingress", error, source)
            return
        if result is None:
            source.drop(INGRESS_DROP)
            return
        egress_port, priority, group, length, state, requests = result
        if requests is not None or group:
            self._after_ingress(source, result, None)
            self._drain(now_ns)
            return
        target = self._ports.get(egress_port)
        # What nearly every packet does, without detours: one copy, to a port with no queue.
        if target is not None and target.egress.direct and 0 <= priority < self.priority_queues:
            try:
                out = pipeline.egress(state, egress_port, now_ns, 0, now_ns, 0, 0, priority)
            except Exception as error:
                self._program_error("egress", error, target)
                return
            if out.__class__ is bytes and target.plain:
                target.tx_packets += 1
                target.tx_bytes += len(out)
                self._out.append((egress_port, out))
                return
            item = (pipeline.egress, state, 0, None, 0)
            sent = self._after_egress(target, item, out)
            if sent is not None:
                self._deliver(target, sent)
        elif egress_port == self.drop_port:
            source.drop(INGRESS_DROP)
        elif target is None or target.egress.direct:
            item = (pipeline.egress, state, 0, None, 0)
            self._enqueue(egress_port, priority, length, item, now_ns)
        else:
            item = (pipeline.egress, state, 0, None, 0)
            refused = self._manager.enqueue(target.egress, priority, item, length, now_ns, port)
            if refused is not None:
                target.drop(refused)
        if self._work:
            self._drain(now_ns)

    def packet_out(self, frame: bytes, now_ns: int) -> None:
        """Take in a frame from the controller, its controller header in front.

        Raises:
            SwitchError: there is no CPU port.
        """
        if self.cpu_port is None:
            raise SwitchError("this switch has no CPU port")
        self.receive(self.cpu_port, frame, now_ns)

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """Return what left by `now_ns` since the last call, last bit included: (port, frame)s.

        In order of departure.
        """
        ends = self.ends
        if ends and ends[0][0] <= now_ns:
            self._manager.advance(now_ns)
        out = self._out
        if out:
            self._out = []
        return out

    def next_timer(self) -> int | None:
        """Return the time at which `transmit` has something to return next, or None.

        Frames that `transmit` would return already do not count; call it after `receive`.
        """
        ends = self.ends
        return ends[0][0] if ends else None

    # -- what ports report -----------------------------------------------------------------

    def count_lost(self, port: int, loss: Loss) -> None:
        """Count frames that a port could not take in, or could not send after `transmit`."""
        record = self._ports.get(port, self._elsewhere)
        if loss.before:
            record.rx_packets += loss.packets
        else:
            record.tx_packets -= loss.packets
            record.tx_bytes -= loss.size_bytes
        record.drop(loss.reason, loss.packets)

    def stats(self) -> SwitchStats:
        """Return a snapshot of all counters."""
        everywhere = [*self._ports.values(), self._elsewhere]
        dropped: dict[str, int] = {}
        for record in everywhere:
            for reason, packets in record.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + packets
        return SwitchStats(
            received=sum(record.rx_packets for record in everywhere),
            copies=self._copies,
            sent=sum(record.tx_packets for record in everywhere),
            queued=self._manager.held_packets(),
            dropped=dropped,
            ports={number: _port_stats(record) for number, record in self._ports.items()},
            errors=dict(self._errors),
        )

    def dropped_and_queued(self) -> tuple[int, int]:
        """Packets dropped so far and packets held now, as `stats` has them, for much less work."""
        dropped = sum(
            sum(record.dropped.values()) for record in self._ports.values() if record.dropped
        )
        return dropped + sum(self._elsewhere.dropped.values()), self._manager.held_packets()

    # -- after ingress ---------------------------------------------------------------------

    def _after_ingress(
        self,
        source: _Port,
        result: tuple[int, int, int, int, State, IngressRequests | None],
        trace: _Trace | None,
    ) -> None:
        """Turn one ingress result into work, in simple_switch's order."""
        pipeline = self.pipeline
        assert pipeline is not None
        egress_port, priority, group, length, state, requests = result
        if requests is not None:
            if requests.clone is not None:
                trace = trace or _Trace(0, [0])
                self._clone(requests.clone, pipeline.egress, trace)
            if requests.digest is not None and self.on_digest is not None:
                try:
                    self.on_digest(requests.digest.name, requests.digest.values)
                except Exception as error:
                    self._report("digest", error)
            if requests.resubmit is not None:
                self._again(source, requests.resubmit, trace)
                return
        if group:
            copies = self.replication.group_copies(group)
            if not copies:
                source.drop(MULTICAST_NO_REPLICA)
                return
            self._copies -= 1  # the original ends here, or: is one of them
            trace = trace or _Trace(0, [0])
            for rid, port in copies:
                self._copy(port, priority, length, (pipeline.egress, state, rid, trace, 0))
        elif egress_port == self.drop_port:
            source.drop(INGRESS_DROP)
        else:
            item = (pipeline.egress, state, 0, trace, 0)
            self._work.append(_ToQueue(egress_port, priority, length, item))

    def _clone(self, clone: Clone, egress: EgressFunction, trace: _Trace) -> None:
        """Make the copies of a clone session; none if it does not exist (as simple_switch)."""
        copies = self.replication.session_copies(clone.session_id)
        if not copies:
            return
        session = self.replication.read_session(clone.session_id)
        priority = session.class_of_service or clone.priority
        cut = session.packet_length_bytes
        length = min(clone.length, cut) if cut else clone.length
        descendant = _Trace(trace.passes + 1, trace.copies)
        for rid, port in copies:
            item = (egress, clone.state, rid, descendant, cut)
            self._copy(port, priority, length, item)

    def _copy(self, port: int, priority: int, length: int, item: _Item) -> None:
        """Queue one copy, or drop it when the received packet has made too many."""
        self._copies += 1
        trace = item[3]
        assert trace is not None
        trace.copies[0] += 1
        if trace.copies[0] > self._max_copies or trace.passes > self._max_passes:
            self._ports.get(port, self._elsewhere).drop(LOOP_LIMIT)
        else:
            self._work.append(_ToQueue(port, priority, length, item))

    def _again(self, at: _Port, again: Again, trace: _Trace | None) -> None:
        """Send a packet through ingress once more, unless it went through too often."""
        passes = trace.passes + 1 if trace is not None else 1
        if passes > self._max_passes:
            at.drop(LOOP_LIMIT)
        else:
            copies = trace.copies if trace is not None else [0]
            self._work.append(_ToIngress(again, _Trace(passes, copies)))

    def _drain(self, now_ns: int) -> None:
        """Do all work there is, and what comes of it."""
        if self._draining:
            return
        self._draining = True
        work = self._work
        try:
            while work:
                task = work.popleft()
                if isinstance(task, _ToQueue):
                    self._enqueue(task.port, task.priority, task.length, task.item, now_ns)
                else:
                    self._ingress_again(task, now_ns)
        finally:
            self._draining = False

    def _ingress_again(self, task: _ToIngress, now_ns: int) -> None:
        again, trace = task
        # The packet's own ingress port may be gone or, after recirculation, mean nothing.
        source = self._ports.get(again.port, self._elsewhere)
        pipeline = self.pipeline
        if pipeline is None:
            source.drop(NO_PIPELINE)
            return
        try:
            result = pipeline.ingress(again.frame, again.port, now_ns, again)
        except Exception as error:
            self._program_error("ingress", error, source)
            return
        if result is None:
            source.drop(INGRESS_DROP)
        else:
            self._after_ingress(source, result, trace)

    # -- queues and egress -----------------------------------------------------------------

    def _enqueue(self, port: int, priority: int, length: int, item: _Item, now_ns: int) -> None:
        target = self._ports.get(port)
        if target is None or target.egress.direct:
            record = target or self._elsewhere
            if not 0 <= priority < self.priority_queues:
                record.drop(PRIORITY_OUT_OF_RANGE)
                return
            run, state, rid, _, _ = item
            try:
                out = run(state, port, now_ns, rid, now_ns, 0, 0, priority)
            except Exception as error:
                self._program_error("egress", error, record)
                return
            frame = self._after_egress(record, item, out)
            if frame is None:
                return
            if target is None:
                record.drop(NO_SUCH_PORT)
            else:
                self._deliver(target, frame)
            return
        refused = self._manager.enqueue(target.egress, priority, item, length, now_ns)
        if refused is not None:
            target.drop(refused)

    def _serve(
        self,
        egress: EgressPort[_Item],
        queue: int,
        item: _Item,
        enqueued_ns: int,
        found: int,
        left: int,
        now_ns: int,
    ) -> bytes | None:
        """Traffic manager's `egress`: a packet leaves its queue."""
        number = egress.number
        run, state, rid, _, cut = item
        try:
            out = run(state, number, now_ns, rid, enqueued_ns, found, left, queue)
        except Exception as error:
            self._program_error("egress", error, self._ports[number])
            return None
        if out.__class__ is bytes and not cut:
            return out
        frame = self._after_egress(self._ports[number], item, out)
        if self._work:
            self._drain(now_ns)
        return frame

    def _after_egress(self, at: _Port, item: _Item, out: EgressResult) -> bytes | None:
        """Turn one egress result into work; return the frame to send, or None."""
        run, _, _, trace, cut = item
        if isinstance(out, EgressRequests):
            if out.clone is not None:
                trace = trace or _Trace(0, [0])
                self._clone(out.clone, run, trace)
            if out.recirculate is not None:
                pipeline = self.pipeline
                if pipeline is None or pipeline.egress != run:
                    # What it preserves is meant for a program that is no longer there.
                    at.drop(PIPELINE_REPLACED)
                else:
                    self._again(at, out.recirculate, trace)
                return None
            out = out.frame
        if out is None:
            at.drop(EGRESS_DROP)
            return None
        return out[:cut] if cut else out

    def _deliver_from_queue(self, egress: EgressPort[_Item], frame: bytes, _now_ns: int) -> None:
        """Traffic manager's `deliver`: a frame's last bit left."""
        port = self._ports[egress.number]
        if port.plain:
            port.tx_packets += 1
            port.tx_bytes += len(frame)
            self._out.append((egress.number, frame))
        else:
            self._deliver(port, frame)

    def _deliver_mac(self, egress: EgressPort[_Item], frame: bytes, _now_ns: int) -> None:
        """Traffic manager's `deliver_mac`."""
        self.mac_sent += 1
        self._out.append((egress.number, frame))

    def _deliver(self, port: _Port, frame: bytes) -> None:
        if port.plain:
            self._out.append((port.number, frame))
        elif not port.egress.up:
            port.drop(PORT_DOWN)
            return
        elif self.on_packet_in is None:
            port.drop(NO_CONTROLLER)
            return
        else:
            try:
                taken = self.on_packet_in(frame)
            except Exception as error:
                port.drop(CONTROLLER_ERROR)
                self._report("packet-in", error)
                return
            if not taken:
                port.drop(NO_CONTROLLER)
                return
        port.tx_packets += 1
        port.tx_bytes += len(frame)

    # -- small things ----------------------------------------------------------------------

    def _port(self, port: int) -> _Port:
        try:
            return self._ports[port]
        except KeyError:
            raise SwitchError(f"port {port} does not exist") from None

    def _program_error(self, stage: str, error: Exception, at: _Port) -> None:
        """Drop a packet because of an exception of compiled code."""
        at.drop(PROGRAM_ERROR)
        self._report(stage, error)

    def _report(self, stage: str, error: Exception) -> None:
        """Count an exception and log the first of its kind."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        line = place.tb_lineno if place is not None else 0
        kind = f"{stage} line {line}: {type(error).__name__}: {error}"
        if len(self._errors) >= _MAX_ERROR_KINDS and kind not in self._errors:
            kind = "other"
        if kind not in self._errors:
            log.error(
                "error in %s (further ones of this kind are counted only)",
                kind,
                exc_info=error,
            )
        self._errors[kind] = self._errors.get(kind, 0) + 1


_MAX_ERROR_KINDS: Final = 64
"""An error text may hold packet values; this bounds what many different ones cost."""


def _port_stats(record: _Port) -> PortStats:
    egress = record.egress
    return PortStats(
        up=egress.up,
        rate_bps=egress.rate_bps,
        rx_packets=record.rx_packets,
        rx_bytes=record.rx_bytes,
        tx_packets=record.tx_packets,
        tx_bytes=record.tx_bytes,
        queued=egress.held_packets,
        dropped=dict(record.dropped),
        queues=egress.queue_stats(),
    )


__all__ = [
    "MAX_COPIES",
    "MAX_PASSES",
    "PortStats",
    "Switch",
    "SwitchError",
    "SwitchStats",
    "TrafficManagerError",
]
