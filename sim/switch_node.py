"""A switch in virtual time: `softswitch.Switch` between its wires."""

from __future__ import annotations

from collections import Counter
from heapq import heappush
from typing import Final

from sim.loop import EventLoop
from sim.pfc import PauseReceiver, PauseSender
from sim.tables import planned_pipeline
from sim.wire import Wire
from softswitch.ingress_buffer import IngressBuffer, Thresholds
from softswitch.switch import INGRESS_DROP, PORT_DOWN, Switch
from topologies.model import Fabric
from topologies.model import Switch as SwitchPlace
from topologies.seeds import seed_of

#: Classes of fabric.p4: data 0, control 1
PRIORITY_QUEUES: Final = 2
DATA_QUEUE: Final = 0
SWITCH_DEAD: Final = "switch dead"
SWITCH_REBOOT: Final = "switch reboot"

#: Counters of fabric.p4 → the cause that reports give
_DROP_COUNTERS: Final = {
    "FabricIngress.dropped_parser_error": "parser error",
    "FabricIngress.dropped_not_ipv6": "not IPv6",
    "FabricIngress.dropped_hop_limit": "hop limit",
    "FabricIngress.srv6.dropped_no_next_sid": "no next SID",
    "FabricIngress.srv6.dropped_not_my_sid": "not my SID",
    "FabricIngress.srv6.dropped_malformed_srh": "malformed SRH",
    "FabricIngress.routing.dropped_no_route": "no route",
    "FabricIngress.admission.dropped_data_full": "data queue full",
    "FabricIngress.admission.dropped_control_full": "control queue full",
    "FabricIngress.admission.dropped_no_queue": "no queue",
}
TRIMMED: Final = "FabricIngress.admission.trimmed"
MARKED_CE: Final = "FabricIngress.admission.marked_ce"


class SwitchNode:
    """A switch with its tables.

    Attributes:
        switch: the switch itself.
        wires: the wire out of each port.
        lost: frames lost for being dead or rebooted, by cause (those lost at ports that are down
            and those that the program dropped are in the switch's own counters).
        alive: False while the switch swallows what it gets.
        boots: how often tables were installed afresh.
        pause_sender, pause_receiver, buffers: flow control; None and empty without it.
    """

    def __init__(self, fabric: Fabric, place: SwitchPlace, loop: EventLoop, run_seed: int) -> None:
        self.name = place.name
        self.place = place
        self.fabric = fabric
        self._loop = loop
        self._heap = loop.heap
        self._number = loop.number
        self._seed = seed_of(run_seed, f"switch {place.name}")
        self.boots = 0
        self.switch = Switch(seed=self._seed, priority_queues=PRIORITY_QUEUES)
        self._ends = self.switch.ends
        self._install()
        self.wires: dict[int, Wire] = {}
        unlimited = False
        for port in fabric.ports(place.id):
            self.switch.add_port(port.number, rate_bps=port.rate_bps)
            unlimited = unlimited or port.rate_bps is None
        self._may_be_unlimited = unlimited
        self._scheduled: set[int] = set()
        self._touched = False
        self.alive = True
        self.lost: Counter[str] = Counter()
        #: Port → how many faults hold it down
        self._down: Counter[int] = Counter()
        self._past: Counter[str] = Counter()
        self.pause_sender: PauseSender | None = None
        self.pause_receiver: PauseReceiver | None = None
        self.buffers: list[IngressBuffer] = []
        if fabric.pfc is not None:
            self._control_flow()

    def _control_flow(self) -> None:
        """Lossless data, by pauses of whoever sends here and by obedience to theirs."""
        pfc = self.fabric.pfc
        assert pfc is not None
        ports = list(self.fabric.ports(self.place.id))
        rates_bps = {port.number: port.rate_bps for port in ports if port.rate_bps is not None}
        macs = {port.number: port.mac for port in ports}
        self.pause_sender = PauseSender(self._send_mac, self._loop, macs, rates_bps)
        self.pause_receiver = PauseReceiver(self, self._loop, rates_bps)
        for port in ports:
            headroom = self.fabric.pfc_headroom_bytes(port.rate_bps, port.delay_ns)
            self.buffers.append(
                self.switch.make_lossless(
                    port.number,
                    DATA_QUEUE,
                    Thresholds(pfc.xoff_bytes, pfc.xon_bytes, headroom),
                    self.pause_sender.on_stop,
                )
            )

    def _install(self) -> None:
        """Boot: fabric.p4 and its tables, fresh."""
        seed = seed_of(self._seed, f"boot {self.boots}")
        self.boots += 1
        self.switch.install(planned_pipeline(self.fabric, self.name, seed=seed))

    # --- frames ---

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        """A frame is here whole."""
        if not self.alive:
            self.lost[SWITCH_DEAD] += 1
            return
        self.switch.receive(port, frame, now_ns)
        ends = self._ends
        if ends:
            due_ns = ends[0][0]
            if due_ns not in self._scheduled:
                self._scheduled.add(due_ns)
                heappush(self._heap, (due_ns, self._number(), self._wake, None, None))
        if self._may_be_unlimited and not self._touched:
            self._touched = True
            self._loop.touched.append(self)

    def _wake(self, now_ns: int, _a: object, _b: object) -> None:
        """The last bit of a frame leaves now, perhaps."""
        self._scheduled.discard(now_ns)
        wires = self.wires
        for port, frame in self.switch.transmit(now_ns):
            wires[port].send(now_ns, frame)
        ends = self._ends
        if ends:
            due_ns = ends[0][0]
            if due_ns not in self._scheduled:
                self._scheduled.add(due_ns)
                heappush(self._heap, (due_ns, self._number(), self._wake, None, None))

    def settle(self, now_ns: int) -> None:
        """Ports without a rate send at once."""
        self._touched = False
        self._wake(now_ns, None, None)

    # --- flow control ---

    def _send_mac(self, port: int, frame: bytes, now_ns: int) -> None:
        """A pause frame leaves before everything else, unless nobody is there to send it."""
        if not self.alive:
            return
        self.switch.send_mac(port, frame, now_ns)
        # The traffic manager may be at work; look at its timers when everything has happened
        if not self._touched:
            self._touched = True
            self._loop.touched.append(self)

    def set_port_paused(self, port: int, paused: bool, now_ns: int) -> None:
        """The peer at a port asks for no data, or for data again."""
        self.switch.set_paused(port, DATA_QUEUE, paused, now_ns)
        self._wake(now_ns, None, None)

    # --- faults ---

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        """The link at a port came up or went down; it is up when no fault holds it down."""
        self._down[port] += -1 if up else 1
        is_up = not self._down[port]
        if not is_up and self.pause_receiver is not None:
            self.pause_receiver.release(port, now_ns)
        self.switch.set_port_up(port, is_up, now_ns)
        if is_up and self.pause_sender is not None:
            self.pause_sender.link_up(port, now_ns)
        self.settle(now_ns)

    def set_port_rate(self, port: int, rate_bps: int | None, now_ns: int) -> None:
        """The link at a port has another rate from now on."""
        self.switch.set_port_rate(port, rate_bps, now_ns)
        self._may_be_unlimited = self._may_be_unlimited or rate_bps is None
        if self.pause_sender is not None and self.pause_receiver is not None:
            self.pause_sender.set_rate(port, rate_bps)
            self.pause_receiver.set_rate(port, rate_bps)
        self.settle(now_ns)

    def set_alive(self, alive: bool, now_ns: int) -> int:
        """Swallow everything, links up; or forward again. Returns how many frames that lost."""
        self.alive = alive
        if alive:
            return 0
        return self._flush(SWITCH_DEAD, now_ns)

    def power_off(self, now_ns: int) -> int:
        """Lose what is inside; the caller takes the links down. Returns how many frames."""
        return self._flush(SWITCH_REBOOT, now_ns)

    def boot(self, now_ns: int) -> None:
        """Start again, tables installed as at every boot."""
        self._remember()
        self._install()

    def _flush(self, cause: str, now_ns: int) -> int:
        """Empty all queues onto nothing."""
        self.settle(now_ns)
        held = self.switch.stats().queued
        if self.pause_receiver is not None:
            for port in self.wires:
                self.pause_receiver.release(port, now_ns)
        for port in self.wires:
            if not self._down[port]:
                self.switch.set_port_up(port, False, now_ns)
                self.switch.set_port_up(port, True, now_ns)
        self.lost[cause] += held
        # The switch counted them as lost at a port that is down
        self.lost[PORT_DOWN] -= held
        return held

    # --- counters ---

    def _remember(self) -> None:
        for name in (*_DROP_COUNTERS, TRIMMED, MARKED_CE):
            self._past[name] += self._since_boot(name)

    def _since_boot(self, name: str) -> int:
        pipeline = self.switch.pipeline
        assert pipeline is not None
        return sum(pipeline.counters[name].packets)

    def count(self, name: str) -> int:
        """A counter of the program over all ports and boots, in packets."""
        return self._past[name] + self._since_boot(name)

    def port_down_drops(self, port: int) -> int:
        """Frames lost so far because a port was down."""
        return self.switch.stats().ports[port].dropped.get(PORT_DOWN, 0)

    def losses(self) -> Counter[str]:
        """Frames lost here, by cause."""
        losses = Counter(self.lost)
        for reason, packets in self.switch.stats().dropped.items():
            losses["link down" if reason == PORT_DOWN else reason.replace("_", " ")] += packets
        losses["link down"] += losses.pop(PORT_DOWN, 0)
        # What the program dropped in ingress, it counted itself by reason
        dropped_by_program = losses.pop(INGRESS_DROP.replace("_", " "), 0)
        for counter, cause in _DROP_COUNTERS.items():
            packets = self.count(counter)
            losses[cause] += packets
            dropped_by_program -= packets
        losses["dropped by the program"] += dropped_by_program
        return +losses
