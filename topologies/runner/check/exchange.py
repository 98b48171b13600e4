"""Sends flows of packets and takes in what arrives, with a bounded number in flight.

One loop over all hosts' ports. A packet is sent when another has arrived, so the check never
outruns the fabric, however slow the machine; there is no rate and no sleep. A time limit exists
for failures only: when nothing has arrived for so long, what is in flight counts as missing.
"""

from __future__ import annotations

import select
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from topologies.runner.check import frames
from topologies.runner.check.frames import PacketKey, Write

#: So many are sent without waiting for an arrival. BMv2's receive side loses jumbo frames where
#: more than about 60 come at once, and so do a kernel's default socket buffers
BACK_TO_BACK_PACKETS: Final = 32
#: Nothing has arrived for so long: what is in flight is lost
STALL_S: Final = 5.0
#: So many stalls, and the rest is not sent
MAX_STALLS: Final = 3
#: Faults kept word by word; more are only counted
_KEPT_FAULTS: Final = 20


class PacketPort(Protocol):
    """A NIC port as the exchange uses it (see `HostPort`)."""

    host: str
    plane: int

    def fileno(self) -> int:
        """Readable when a frame is there."""

    def send(self, frame: bytes) -> None:
        """Send one frame. Raises OSError."""

    def receive(self) -> bytes | None:
        """The next frame, None when there is none."""


@dataclass(slots=True)
class Flow:
    """A write on its way, and what became of it. All numbers count packets."""

    write: Write
    source: PacketPort
    destination: PacketPort
    sent: int = 0
    whole: int = 0
    #: By the DSCP that the switch gave them
    trimmed_dscp: Counter[int] = field(default_factory=Counter)
    marked_ce: int = 0
    #: Arrived, but not as they should have: changed bytes, wrong place, a second time
    wrong: int = 0
    cut_off: bool = False
    #: Frames that have been built ahead
    ready: list[bytes] = field(default_factory=list, repr=False)

    def prepare(self) -> None:
        """Build all frames now, so that building them does not slow a burst."""
        self.ready = [self.write.frame(number) for number in range(self.write.packets)]

    @property
    def trimmed(self) -> int:
        """Arrived as headers only."""
        return self.trimmed_dscp.total()

    @property
    def missing(self) -> int:
        """Neither arrived whole nor trimmed, sent or not."""
        return self.write.packets - self.whole - self.trimmed


@dataclass(slots=True)
class _InFlight:
    flow: Flow
    arrival: bytes
    counted: bool = True


class Exchange:
    """Carries flows over the fabric.

    `watched` maps descriptors that become readable when a switch process ends to the switch's
    name; flows across it, and across those that are dead already, are given up at once.
    """

    def __init__(
        self,
        ports: Sequence[PacketPort],
        watched: Mapping[int, str],
        dead_switches: Iterable[str] = (),
        stall_s: float = STALL_S,
    ) -> None:
        self.dead_switches = list(dead_switches)
        #: What arrived and should not have, in words
        self.faults: list[str] = []
        self.fault_count = 0
        self.stalls = 0
        self._stall_ms = int(stall_s * 1000)
        self._ports = {port.fileno(): port for port in ports}
        self._watched = dict(watched)
        self._poller = select.poll()
        for descriptor in (*self._ports, *self._watched):
            self._poller.register(descriptor, select.POLLIN)
        self._in_flight: dict[PacketKey, _InFlight] = {}
        self._done: set[PacketKey] = set()
        self._used = 0

    def run(
        self,
        flows: Iterable[Flow],
        window_packets: int,
        on_progress: Callable[[int], None] = lambda packets: None,
        *,
        back_to_back: int = BACK_TO_BACK_PACKETS,
    ) -> None:
        """Send every packet of the flows, in turn, and wait for all of them.

        At most `window_packets` are in flight. The first `back_to_back` of them are sent at once;
        a larger window than that opens by one with every arrival. `on_progress` gets the number
        of packets that have been settled since it was called last.
        """
        window = min(window_packets, back_to_back)
        waiting = deque(flows)
        stalls_left = MAX_STALLS
        while waiting or self._used:
            while waiting and self._used < window:
                flow = waiting.popleft()
                if not flow.cut_off and self._crosses_dead(flow):
                    flow.cut_off = True
                if flow.cut_off:
                    on_progress(flow.write.packets - flow.sent)
                    continue
                self._send(flow)
                if flow.sent < flow.write.packets:
                    waiting.append(flow)
            settled = self._wait()
            on_progress(settled)
            window = min(window_packets, window + settled)
            if settled == 0 and self._used:
                self.stalls += 1
                stalls_left -= 1
                on_progress(self._give_up(lambda _: True))
                if stalls_left == 0:
                    for flow in waiting:
                        flow.cut_off = True
        self._take_in()  # a copy of a packet must not go unseen

    def _crosses_dead(self, flow: Flow) -> bool:
        return any(switch.name in self.dead_switches for switch in flow.write.path.switches)

    def _send(self, flow: Flow) -> None:
        number = flow.sent
        frame = flow.ready[number] if flow.ready else flow.write.frame(number)
        key = PacketKey(flow.write.qp, number)
        self._in_flight[key] = _InFlight(flow, flow.write.arrival(frame))
        self._used += 1
        flow.sent += 1
        try:
            flow.source.send(frame)
        except OSError as error:
            self._fault(f"{flow.source.host} cannot send on plane {flow.source.plane}: {error}")

    def _wait(self) -> int:
        """Wait for arrivals; returns how many packets were settled, 0 when none came in time."""
        if not self._used:
            return 0
        while True:
            ready = self._poller.poll(self._stall_ms)
            if not ready:
                return 0
            settled = 0
            for descriptor, _ in ready:
                name = self._watched.pop(descriptor, None)
                if name is not None:
                    self._poller.unregister(descriptor)
                    self.dead_switches.append(name)
                    settled += self._give_up(lambda packet: self._crosses_dead(packet.flow))
            settled += self._take_in()
            if settled:
                return settled

    def _give_up(self, lost: Callable[[_InFlight], bool]) -> int:
        """Stop waiting for packets in flight; they still count should they arrive."""
        given_up = 0
        for packet in self._in_flight.values():
            if packet.counted and lost(packet):
                packet.counted = False
                given_up += 1
        self._used -= given_up
        return given_up

    def _take_in(self) -> int:
        """Take in all that has arrived; returns how many packets that were waited for."""
        settled = 0
        for port in self._ports.values():
            while (frame := port.receive()) is not None:
                settled += self._arrived(port, frame)
        return settled

    def _arrived(self, port: PacketPort, frame: bytes) -> int:
        key = frames.key_of(frame)
        packet = self._in_flight.get(key) if key is not None else None
        where = f"{port.host}, plane {port.plane}"
        if key is None or packet is None:
            again = key in self._done
            self._fault(f"{where}: a packet came twice" if again else f"{where}: a stray frame")
            return 0
        flow = packet.flow
        name = f"packet {key.psn} of QP {key.qp}"
        if port is not flow.destination:
            flow.wrong += 1
            self._fault(f"{where}: {name} was for {flow.destination.host}")
            return 0
        if not self._judge(flow, packet.arrival, frame, f"{where}: {name}"):
            flow.wrong += 1
        del self._in_flight[key]
        self._done.add(key)
        if packet.counted:
            self._used -= 1
            return 1
        return 0

    def _judge(self, flow: Flow, arrival: bytes, frame: bytes, name: str) -> bool:
        """Count a packet that came to its place; False when its bytes are not what they must be."""
        if frames.ecn_of(frame) == frames.CE:
            flow.marked_ce += 1
        traffic = flow.write.fabric.traffic
        dscp = frames.dscp_of(frame)
        was_trimmed = dscp in (traffic.trimmed, traffic.trimmed_lasthop)
        if was_trimmed:
            arrival = frames.trimmed(arrival, flow.write.trimmed_bytes, dscp)
        if frames.without_ecn(frame) != frames.without_ecn(arrival):
            self._fault(f"{name}: {frames.first_difference(arrival, frame)}")
            return False
        if was_trimmed:
            flow.trimmed_dscp[dscp] += 1
        else:
            flow.whole += 1
        return True

    def _fault(self, text: str) -> None:
        self.fault_count += 1
        if len(self.faults) < _KEPT_FAULTS:
            self.faults.append(text)
