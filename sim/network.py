"""The fabric in virtual time: a node for every switch and host, two wires for every link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from host.profiles import Profiles
from host.roce import RoceConfig
from reports.progress import Progress, counted
from reports.result import PausedPort, PauseTotals
from sim.capture import Capture
from sim.host_node import HostNode
from sim.loop import EventLoop
from sim.switch_node import MARKED_CE, TRIMMED, SwitchNode
from sim.wire import Wire
from topologies.host_config import rack_config
from topologies.model import Fabric, Link, LinkEnd

Node = SwitchNode | HostNode


class Network:
    """A running fabric.

    Args:
        fabric: what to build.
        loop: its clock.
        seed: of everything random in it.
        profiles: policies of all NICs, None: the NIC's own default.
        roce: NICs are RoCE's, and so set; None: they are MRC's.
        nic_changes: fields of `host.config.NicConfig` that differ from the host's configuration.
        capture: where every port writes what it sees.
        progress: is told how much of it is made.

    Attributes:
        hosts, switches: by name.
        wires: by link name, from the lower end and from the upper end.
    """

    def __init__(
        self,
        fabric: Fabric,
        loop: EventLoop,
        *,
        seed: int = 0,
        profiles: Profiles | None = None,
        roce: RoceConfig | None = None,
        nic_changes: Mapping[str, Any] | None = None,
        capture: Capture | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.fabric = fabric
        self.loop = loop
        self.seed = seed
        rack_of = cache(partial(rack_config, fabric))
        self.hosts = {
            host.name: HostNode(
                fabric,
                host,
                loop,
                seed,
                rack=rack_of(host.id.t0),
                profiles=profiles,
                roce=roce,
                changes=dict(nic_changes or {}),
            )
            for host in counted(fabric.hosts(), "hosts", fabric.host_count, progress)
        }
        places = counted(
            fabric.switches(), "switches with their tables", fabric.switch_count, progress
        )
        self.switches = {place.name: SwitchNode(fabric, place, loop, seed) for place in places}
        self.links: dict[str, Link] = {}
        self.wires: dict[str, tuple[Wire, Wire]] = {}
        for host in self.hosts.values():
            host.wires = [None] * len(host.config.ports)  # type: ignore[list-item]
        for link in counted(fabric.links(), "links", fabric.link_count, progress):
            self.links[link.name] = link
            up = self._wire(link, link.lower, link.upper, capture)
            down = self._wire(link, link.upper, link.lower, capture)
            self.wires[link.name] = (up, down)
        #: Called when links or switches went down or came up
        self.on_change: list[Callable[[], None]] = []

    def changed(self) -> None:
        """Links or switches went down or came up."""
        for tell in self.on_change:
            tell()

    def node(self, name: str) -> Node:
        """A switch or a host."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def _wire(
        self, link: Link, sender: LinkEnd, receiver: LinkEnd, capture: Capture | None
    ) -> Wire:
        name = f"{link.name} from {sender.node}"
        node = self.node(receiver.node)
        # Flow control stands between wire and node
        arrive = node.arrive if node.pause_receiver is None else node.pause_receiver.arrive
        wire = Wire(name, self.loop, link.delay_ns, arrive, receiver.port)
        if capture is not None:
            wire.capture(capture, port_name(sender), port_name(receiver))
        self.node(sender.node).wires[sender.port] = wire
        return wire

    # --- books ---

    def pauses(self) -> PauseTotals | None:
        """Flow control so far; None without it."""
        if self.fabric.pfc is None:
            return None
        now_ns = self.loop.now_ns
        nodes: list[Node] = [*self.hosts.values(), *self.switches.values()]
        ports = [
            PausedPort(node.name, port, paused_ns)
            for node in nodes
            if node.pause_receiver is not None
            for port, paused_ns in node.pause_receiver.paused_by_port_ns(now_ns).items()
            if paused_ns
        ]
        switches = list(self.switches.values())
        of_hosts_ns = sum(each.paused_ns for each in ports if each.node in self.hosts)
        return PauseTotals(
            pauses=sum(each.pause_sender.pauses for each in switches if each.pause_sender),
            frames=sum(each.switch.mac_sent for each in switches),
            frames_received=sum(
                each.pause_receiver.frames for each in nodes if each.pause_receiver
            ),
            hosts_paused_ns=of_hosts_ns,
            switches_paused_ns=sum(each.paused_ns for each in ports) - of_hosts_ns,
            peak_buffer_bytes=max(
                (buffer.peak_bytes for each in switches for buffer in each.buffers), default=0
            ),
            ports=sorted(ports, key=lambda each: (-each.paused_ns, each.node, each.port)),
        )

    def account(self) -> Account:
        """Where every frame is that a NIC ever sent, and every pause frame."""
        lost: Counter[str] = Counter()
        duplicated = 0
        corrupted = 0
        queued = 0
        for pair in self.wires.values():
            for wire in pair:
                lost.update(wire.lost)
                duplicated += wire.duplicated
                corrupted += wire.corrupted
        for switch in self.switches.values():
            lost.update(switch.losses())
            queued += switch.switch.stats().queued
        nodes: list[Node] = [*self.hosts.values(), *self.switches.values()]
        obeyed = sum(each.pause_receiver.frames for each in nodes if each.pause_receiver)
        pauses_sent = sum(switch.switch.mac_sent for switch in self.switches.values())
        arrivals = {wire.receive for pair in self.wires.values() for wire in pair}
        return Account(
            sent=sum(host.sent_frames for host in self.hosts.values()) + pauses_sent,
            duplicated=duplicated,
            received=sum(host.received_frames for host in self.hosts.values()) + obeyed,
            lost=dict(sorted((+lost).items())),
            in_flight=queued + sum(event[2] in arrivals for event in self.loop.heap),
            trimmed=sum(switch.count(TRIMMED) for switch in self.switches.values()),
            marked=sum(switch.count(MARKED_CE) for switch in self.switches.values()),
            corrupted=corrupted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Frames of a whole run: sent + duplicated = received + lost + in flight.

    Pause frames are among those sent and received. `lost` by cause. `trimmed` and `marked` are
    packets that switches trimmed or set CE in.
    """

    sent: int
    duplicated: int
    received: int
    lost: dict[str, int]
    in_flight: int
    trimmed: int
    marked: int
    corrupted: int

    @property
    def unaccounted(self) -> int:
        """Frames lost without a name: 0, or there is a bug."""
        lost = sum(self.lost.values())
        return self.sent + self.duplicated - self.received - lost - self.in_flight


def port_name(end: LinkEnd) -> str:
    """A port as reports and captures name it: h0-plane3, p0-t0-1-port5."""
    kind = "plane" if end.is_host else "port"
    return f"{end.node}-{kind}{end.port}"
