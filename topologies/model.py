"""The fabric: planes of T0 and T1 switches, hosts, links and their settings.

A `Fabric` holds numbers, not objects: switches, hosts, links and ports are made when asked for,
so that a fabric of 131,072 hosts costs no more memory than one of four.

Ports are numbered from 0. On a T0, host downlink h is port h and the uplink to T1 u is port
hosts_per_t0 + u. On a T1, the port number is the index of the T0 at its far end. A host has one
port per plane, numbered as the planes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from topologies import addressing
from topologies.addressing import AddressPlan, HostId, Path, Role, SwitchId
from topologies.settings import (
    DEFAULT_QUEUE,
    DEFAULT_UDP_PORT,
    interface_mtu_bytes,
    pfc_headroom_bytes,
)
from topologies.settings import EcnSettings as EcnSettings
from topologies.settings import GrpcSettings as GrpcSettings
from topologies.settings import LinkOverride as LinkOverride
from topologies.settings import LinkSettings as LinkSettings
from topologies.settings import LoadBalancing as LoadBalancing
from topologies.settings import PfcSettings as PfcSettings
from topologies.settings import QueueSettings as QueueSettings
from topologies.settings import TrimSettings as TrimSettings
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES, TrafficClasses

#: The v1model target: 9-bit ports, the last of which is its drop port
TARGET_DROP_PORT = 511
TARGET_PORTS = TARGET_DROP_PORT
MAX_TCP_PORT = 65535
ETHERNET_BYTES = 14


class TopologyError(ValueError):
    """A fabric that cannot be, or a name that is not in it."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch by its place in the fabric. `ordinal` counts from 0: by plane, T0 before T1."""

    id: SwitchId
    ordinal: int

    @property
    def name(self) -> str:
        """For example p0-t0-1."""
        return self.id.name

    @property
    def device_id(self) -> int:
        """P4Runtime device id."""
        return self.id.device_id


@dataclass(frozen=True, slots=True)
class Host:
    """A host with one NIC of one port per plane. `number` counts hosts of the whole fabric."""

    id: HostId
    number: int

    @property
    def name(self) -> str:
        """For example h3."""
        return f"h{self.number}"


class Tier(Enum):
    """HOST: between a NIC and its T0s. FABRIC: between T0 and T1."""

    HOST = "host"
    FABRIC = "fabric"


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """A port of a node (a switch or a host, by name)."""

    node: str
    port: int

    @property
    def is_host(self) -> bool:
        """Whether it is a NIC port, whose number is that of its plane."""
        return addressing.is_host_name(self.node)


@dataclass(frozen=True, slots=True)
class Link:
    """A cable. `lower` is the end nearer the hosts: a host's under a T0, a T0's under a T1."""

    tier: Tier
    plane: int
    lower: LinkEnd
    upper: LinkEnd
    rate_bps: int | None
    delay_ns: int

    @property
    def name(self) -> str:
        """Both nodes, lower first: h0--p0-t0-0. One link joins two nodes at most."""
        return link_name(self.lower.node, self.upper.node)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a switch, and what hangs on it.

    `next_usid` is the uSID behind which a packet leaves by this port: the peer switch's, or the
    host downlink's.
    """

    number: int
    tier: Tier
    peer: LinkEnd
    next_usid: int
    mac: int
    peer_mac: int
    rate_bps: int | None
    delay_ns: int
    queue: QueueSettings


def link_name(lower: str, upper: str) -> str:
    """The name of the link between two nodes, the one nearer the hosts first."""
    return f"{lower}--{upper}"


@dataclass(frozen=True, slots=True)
class Fabric:
    """A whole fabric, checked.

    Raises TopologyError where numbers do not fit the addressing plan or each other.
    """

    name: str
    planes: int
    t0_per_plane: int
    t1_per_plane: int
    hosts_per_t0: int
    addresses: AddressPlan = field(default_factory=AddressPlan)
    host_link: LinkSettings = field(default_factory=LinkSettings)
    fabric_link: LinkSettings = field(default_factory=LinkSettings)
    #: Queues of T0 ports that face hosts. ECN marking is off there, unless a baseline needs it
    host_queue: QueueSettings = DEFAULT_QUEUE
    #: Queues of every other switch port
    fabric_queue: QueueSettings = DEFAULT_QUEUE
    #: Of plain IPv6; SRv6 has its path from its sender
    load_balancing: LoadBalancing = LoadBalancing.FLOW
    #: Flow control of data; None: none
    pfc: PfcSettings | None = None
    trim: TrimSettings = field(default_factory=TrimSettings)
    traffic: TrafficClasses = DEFAULT_TRAFFIC_CLASSES
    path_mtu_bytes: int = 4096
    udp_port: int = DEFAULT_UDP_PORT
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    #: By the name of the link; not to be changed once the fabric is made
    link_overrides: Mapping[str, LinkOverride] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for what, count, limit in (
            ("planes", self.planes, addressing.MAX_PLANES),
            ("t0_per_plane", self.t0_per_plane, addressing.MAX_INDEX),
            ("t1_per_plane", self.t1_per_plane, addressing.MAX_INDEX),
            ("hosts_per_t0", self.hosts_per_t0, addressing.MAX_INDEX),
        ):
            if not 1 <= count <= limit:
                raise TopologyError(f"{what}: {count} does not fit: it must be 1..{limit}")
        for name in self.link_overrides:
            lower, _, upper = name.partition("--")
            if self.link(lower, upper).name != name:
                raise TopologyError(f"link_overrides: {name}: the end nearer the hosts goes first")
        if self.pfc is not None:
            self._check_pfc(self.pfc)

    # --- flow control ---

    def _check_pfc(self, pfc: PfcSettings) -> None:
        """Pauses need link rates, and must come before a queue is full."""
        buffers: dict[Tier, int] = {}
        for tier, settings in ((Tier.HOST, self.host_link), (Tier.FABRIC, self.fabric_link)):
            of_tier = [settings] + [
                override.apply(settings)
                for name, override in self.link_overrides.items()
                if addressing.is_host_name(name) == (tier is Tier.HOST)
            ]
            if any(link.rate_bps is None for link in of_tier):
                raise TopologyError(
                    f"queues.pfc: a link of links.{tier.value} has no rate, in whose bits pauses "
                    "are counted; give it one, as 100Gbps"
                )
            buffers[tier] = pfc.xoff_bytes + max(
                self.pfc_headroom_bytes(link.rate_bps, link.delay_ns) for link in of_tier
            )
        t0 = self.hosts_per_t0 * buffers[Tier.HOST] + self.t1_per_plane * buffers[Tier.FABRIC]
        t1 = self.t0_per_plane * buffers[Tier.FABRIC]
        for name, queue, needed in (
            ("host", self.host_queue, t0),
            ("fabric", self.fabric_queue, max(t0, t1)),
        ):
            if queue.data_limit_bytes < needed:
                raise TopologyError(
                    f"queues.{name}.data_limit: {queue.data_limit_bytes} bytes are full before "
                    f"queues.pfc pauses anybody: all ports may hold {needed} bytes together; "
                    "give at least that"
                )

    def pfc_headroom_bytes(self, rate_bps: int | None, delay_ns: int) -> int:
        """Headroom of a port whose link has this rate and delay. Raises TopologyError."""
        if self.pfc is None or rate_bps is None:
            raise TopologyError("queues.pfc: headroom is for links with a rate, under flow control")
        if self.pfc.headroom_bytes is not None:
            return self.pfc.headroom_bytes
        return pfc_headroom_bytes(rate_bps, delay_ns, ETHERNET_BYTES + self.interface_mtu_bytes)

    # --- counts ---

    @property
    def switch_count(self) -> int:
        """Switches of all planes."""
        return self.planes * (self.t0_per_plane + self.t1_per_plane)

    @property
    def host_count(self) -> int:
        """Hosts under all T0s."""
        return self.t0_per_plane * self.hosts_per_t0

    @property
    def link_count(self) -> int:
        """Cables, of hosts and between switches."""
        return self.planes * (self.host_count + self.t0_per_plane * self.t1_per_plane)

    def port_count(self, switch: SwitchId) -> int:
        """Ports of a switch, numbered from 0."""
        if switch.role is Role.T0:
            return self.hosts_per_t0 + self.t1_per_plane
        return self.t0_per_plane

    @property
    def interface_mtu_bytes(self) -> int:
        """What an interface must carry behind the Ethernet header: a full packet, with an SRH."""
        return interface_mtu_bytes(self.path_mtu_bytes)

    # --- nodes ---

    def switches(self) -> Iterator[Switch]:
        """Every switch: by plane, T0 before T1, by index."""
        for plane in range(self.planes):
            for index in range(self.t0_per_plane):
                yield self._switch(SwitchId(plane, Role.T0, index))
            for index in range(self.t1_per_plane):
                yield self._switch(SwitchId(plane, Role.T1, index))

    def _switch(self, id: SwitchId) -> Switch:
        within = id.index if id.role is Role.T0 else self.t0_per_plane + id.index
        return Switch(id, id.plane * (self.t0_per_plane + self.t1_per_plane) + within)

    def switch(self, name: str) -> Switch:
        """A switch by its name. Raises TopologyError for one that the fabric has not."""
        try:
            id = addressing.parse_switch_name(name)
        except addressing.AddressingError as error:
            raise TopologyError(str(error)) from None
        tier_size = self.t0_per_plane if id.role is Role.T0 else self.t1_per_plane
        if id.plane >= self.planes or id.index >= tier_size:
            raise TopologyError(
                f"{name} is not in {self.name}, which has planes 0..{self.planes - 1}, "
                f"T0 0..{self.t0_per_plane - 1} and T1 0..{self.t1_per_plane - 1}"
            )
        return self._switch(id)

    def hosts(self) -> Iterator[Host]:
        """Every host, by T0, then by downlink."""
        for number in range(self.host_count):
            yield self.host_of_number(number)

    def host_of_number(self, number: int) -> Host:
        """A host by its number, which counts from 0. Raises TopologyError past the last."""
        if not 0 <= number < self.host_count:
            raise TopologyError(
                f"h{number} is not in {self.name}, which has hosts h0..h{self.host_count - 1}"
            )
        return Host(HostId(*divmod(number, self.hosts_per_t0)), number)

    def host(self, name: str) -> Host:
        """A host by its name. Raises TopologyError for one that the fabric has not."""
        try:
            return self.host_of_number(addressing.parse_host_name(name))
        except addressing.AddressingError as error:
            raise TopologyError(str(error)) from None

    def host_at(self, id: HostId) -> Host:
        """A host by its place. Raises TopologyError for a place that the fabric has not."""
        if not (0 <= id.t0 < self.t0_per_plane and 0 <= id.downlink < self.hosts_per_t0):
            raise TopologyError(f"{self.name} has no downlink {id.downlink} of T0 {id.t0}")
        return Host(id, id.t0 * self.hosts_per_t0 + id.downlink)

    # --- ports and links ---

    def uplink_port(self, uplink: int) -> int:
        """The T0 port that leads to T1 number `uplink`."""
        return self.hosts_per_t0 + uplink

    def ports(self, switch: SwitchId) -> Iterator[Port]:
        """Every port of a switch, by number."""
        if switch.role is Role.T1:
            for t0 in range(self.t0_per_plane):
                below = SwitchId(switch.plane, Role.T0, t0)
                yield self._fabric_port(switch, t0, below, self.uplink_port(switch.index))
            return
        for downlink in range(self.hosts_per_t0):
            host = self.host_at(HostId(switch.index, downlink))
            settings = self._link_settings(Tier.HOST, host.name, switch.name)
            yield Port(
                number=downlink,
                tier=Tier.HOST,
                peer=LinkEnd(host.name, switch.plane),
                next_usid=addressing.encode_usid(switch.plane, Role.DOWNLINK, downlink),
                mac=addressing.switch_mac(switch, downlink),
                peer_mac=addressing.nic_mac(switch.plane, host.id),
                rate_bps=settings.rate_bps,
                delay_ns=settings.delay_ns,
                queue=self.host_queue,
            )
        for uplink in range(self.t1_per_plane):
            above = SwitchId(switch.plane, Role.T1, uplink)
            yield self._fabric_port(switch, self.uplink_port(uplink), above, switch.index)

    def _fabric_port(self, switch: SwitchId, number: int, peer: SwitchId, peer_port: int) -> Port:
        lower, upper = (switch, peer) if switch.role is Role.T0 else (peer, switch)
        settings = self._link_settings(Tier.FABRIC, lower.name, upper.name)
        return Port(
            number=number,
            tier=Tier.FABRIC,
            peer=LinkEnd(peer.name, peer_port),
            next_usid=peer.usid,
            mac=addressing.switch_mac(switch, number),
            peer_mac=addressing.switch_mac(peer, peer_port),
            rate_bps=settings.rate_bps,
            delay_ns=settings.delay_ns,
            queue=self.fabric_queue,
        )

    def _link_settings(self, tier: Tier, lower: str, upper: str) -> LinkSettings:
        settings = self.host_link if tier is Tier.HOST else self.fabric_link
        if self.link_overrides:
            override = self.link_overrides.get(link_name(lower, upper))
            if override is not None:
                return override.apply(settings)
        return settings

    def _host_link(self, host: Host, t0: SwitchId) -> Link:
        settings = self._link_settings(Tier.HOST, host.name, t0.name)
        return Link(
            Tier.HOST,
            t0.plane,
            LinkEnd(host.name, t0.plane),
            LinkEnd(t0.name, host.id.downlink),
            settings.rate_bps,
            settings.delay_ns,
        )

    def _fabric_link(self, t0: SwitchId, t1: SwitchId) -> Link:
        settings = self._link_settings(Tier.FABRIC, t0.name, t1.name)
        return Link(
            Tier.FABRIC,
            t0.plane,
            LinkEnd(t0.name, self.uplink_port(t1.index)),
            LinkEnd(t1.name, t0.index),
            settings.rate_bps,
            settings.delay_ns,
        )

    def links(self) -> Iterator[Link]:
        """Every link: by plane and T0, links to hosts first, then uplinks."""
        for plane in range(self.planes):
            for index in range(self.t0_per_plane):
                t0 = SwitchId(plane, Role.T0, index)
                for downlink in range(self.hosts_per_t0):
                    yield self._host_link(self.host_at(HostId(index, downlink)), t0)
                for uplink in range(self.t1_per_plane):
                    yield self._fabric_link(t0, SwitchId(plane, Role.T1, uplink))

    def link(self, node: str, other: str) -> Link:
        """The link between two nodes, in either order.

        Raises TopologyError where a node is unknown or none joins the two.
        """
        hosts = [name for name in (node, other) if addressing.is_host_name(name)]
        switches = [self.switch(name).id for name in (node, other) if name not in hosts]
        tiers = sorted(switch.role for switch in switches)
        if len(hosts) == 1 and tiers == [Role.T0]:
            host = self.host(hosts[0])
            if host.id.t0 == switches[0].index:
                return self._host_link(host, switches[0])
        elif tiers == [Role.T0, Role.T1] and switches[0].plane == switches[1].plane:
            t0, t1 = sorted(switches, key=lambda switch: switch.role)
            return self._fabric_link(t0, t1)
        for name in hosts:
            self.host(name)
        raise TopologyError(f"no link joins {node} and {other}")

    # --- paths ---

    def paths(self, source: Host, destination: Host) -> Iterator[Path]:
        """Every path of data between two hosts: by plane, then by uplink."""
        for plane in range(self.planes):
            if source.id.t0 == destination.id.t0:
                yield Path(plane, source.id, destination.id, None)
            else:
                for uplink in range(self.t1_per_plane):
                    yield Path(plane, source.id, destination.id, uplink)

    def links_of_path(self, path: Path) -> tuple[Link, ...]:
        """The links on a path, in order, the NICs' own first and last."""
        nodes = [
            self.host_at(path.source).name,
            *(switch.name for switch in path.switches),
            self.host_at(path.destination).name,
        ]
        return tuple(self.link(*pair) for pair in itertools.pairwise(nodes))

    def path_of_links(self, links: tuple[Link, ...], source: Host, destination: Host) -> Path:
        """The inverse of `links_of_path`; raises TopologyError for what is no such path."""
        switches: list[SwitchId] = []
        at = source.name
        for link in links:
            if at not in (link.lower.node, link.upper.node):
                break
            at = link.upper.node if at == link.lower.node else link.lower.node
            if not addressing.is_host_name(at):
                switches.append(self.switch(at).id)
        try:
            path = addressing.path_of_switches(switches, source.id, destination.id)
        except addressing.AddressingError as error:
            raise TopologyError(str(error)) from None
        if self.links_of_path(path) != tuple(links):
            names = ", ".join(link.name for link in links)
            raise TopologyError(f"{names}: not a path from {source.name} to {destination.name}")
        return path

    # --- control plane ---

    def grpc_address(self, switch: Switch) -> str:
        """Where a switch listens unless told otherwise: the base port plus its ordinal.

        Raises TopologyError where that is no port: the fabric has too many switches behind it.
        """
        port = self.grpc.base_port + switch.ordinal
        if port > MAX_TCP_PORT:
            raise TopologyError(
                f"grpc.base_port: {self.grpc.base_port} leaves no TCP port for {switch.name}, "
                f"which would have {port}; choose a lower one, or name the addresses"
            )
        host = f"[{self.grpc.host}]" if ":" in self.grpc.host else self.grpc.host
        return f"{host}:{port}"

    def check_target(self) -> None:
        """Raises TopologyError where a switch needs a port that the v1model target cannot have."""
        for role, tier in ((Role.T0, "T0"), (Role.T1, "T1")):
            ports = self.port_count(SwitchId(0, role, 0))
            if ports > TARGET_PORTS:
                raise TopologyError(
                    f"{self.name}: a {tier} needs {ports} ports, the target has {TARGET_PORTS} "
                    f"(0..{TARGET_PORTS - 1}; {TARGET_DROP_PORT} is its drop port): "
                    "this fabric can be planned, not installed"
                )
