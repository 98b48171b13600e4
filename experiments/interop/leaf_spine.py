"""htsim's topology files (`.topo`), where they describe a leaf-spine fabric.

    Nodes 32
    Tiers 2
    Podsize 32

    Tier 0
    Downlink_speed_Gbps 100
    Radix_Down 8
    Radix_Up 8
    Downlink_Latency_ns 1000

    Tier 1
    Downlink_speed_Gbps 100
    Radix_Down 4
    Downlink_Latency_ns 1000

Tier 0 are the leaves (T0), tier 1 the spines (T1), links those below a tier. One plane; queues are
`QueueSpec`'s to say, as htsim's command line does. Three tiers, pods, bundles of links, switches
that take time and queues in the file are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.interop.lines import FormatError, Numbers, integer, problem, read, words_of
from topologies.model import Fabric
from topologies.settings import EcnSettings, LinkSettings, QueueSettings
from topologies.timing import full_frame_bytes

_GBPS: Final = 10**9
_HEADER: Final = ("nodes", "tiers", "podsize")
_ATTRIBUTES: Final = (
    "downlink_speed_gbps",
    "radix_down",
    "radix_up",
    "downlink_latency_ns",
    "oversubscribed",
    "switch_latency_ns",
    "bundle",
)
#: What a tier may say, but nothing else of it
_PLAIN: Final = {"bundle": 1, "switch_latency_ns": 0}
_CONTROL_LIMIT_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Queues of switch ports in full packets; marking from `ecn_min` to `ecn_max`."""

    packets: int = 100
    ecn_min: int | None = 25
    ecn_max: int | None = 75


@dataclass(frozen=True, slots=True)
class LeafSpine:
    """A leaf-spine fabric as a file has it."""

    nodes: int
    hosts_per_leaf: int
    spines: int
    host_rate_bps: int
    fabric_rate_bps: int
    host_delay_ns: int
    fabric_delay_ns: int

    @property
    def leaves(self) -> int:
        """Leaf switches."""
        return self.nodes // self.hosts_per_leaf

    @property
    def oversubscription(self) -> int:
        """Hosts to an uplink of a leaf, as htsim counts; 1 where there are more uplinks."""
        return max(self.hosts_per_leaf // self.spines, 1)

    def text(self) -> str:
        """As htsim reads it."""
        return (
            f"Nodes {self.nodes}\nTiers 2\nPodsize {self.nodes}\n\n"
            f"Tier 0\nDownlink_speed_Gbps {self.host_rate_bps // _GBPS}\n"
            f"Radix_Down {self.hosts_per_leaf}\nRadix_Up {self.spines}\n"
            f"Oversubscribed {self.oversubscription}\n"
            f"Downlink_Latency_ns {self.host_delay_ns}\nSwitch_Latency_ns 0\n\n"
            f"Tier 1\nDownlink_speed_Gbps {self.fabric_rate_bps // _GBPS}\n"
            f"Radix_Down {self.leaves}\nDownlink_Latency_ns {self.fabric_delay_ns}\n"
            "Switch_Latency_ns 0\n"
        )

    def fabric(self, name: str, queues: QueueSpec | None = None) -> Fabric:
        """The topology, one plane. Raises TopologyError where it does not fit our addresses."""
        queues = queues or QueueSpec()
        bare = Fabric(name, 1, self.leaves, self.spines, self.hosts_per_leaf)
        packet = full_frame_bytes(bare)
        ecn = None
        if queues.ecn_min is not None and queues.ecn_max is not None:
            ecn = EcnSettings(queues.ecn_min * packet, queues.ecn_max * packet)
        limit = queues.packets * packet
        return Fabric(
            name,
            planes=1,
            t0_per_plane=self.leaves,
            t1_per_plane=self.spines,
            hosts_per_t0=self.hosts_per_leaf,
            host_link=LinkSettings(self.host_rate_bps, self.host_delay_ns),
            fabric_link=LinkSettings(self.fabric_rate_bps, self.fabric_delay_ns),
            host_queue=QueueSettings(limit, _CONTROL_LIMIT_BYTES),
            fabric_queue=QueueSettings(limit, _CONTROL_LIMIT_BYTES, ecn),
        )


def load(path: str | Path) -> LeafSpine:
    """The fabric of a file. Raises FormatError."""
    return parse(read(path), str(path))


def parse(text: str, source: str) -> LeafSpine:
    """The fabric of a file's text; `source` names it in errors. Raises FormatError."""
    header = part = Numbers(source)
    tiers: dict[int, Numbers] = {}
    line = 1
    for line, words in words_of(text):
        name = words[0].lower()
        if name == "tier":
            number = integer(source, line, words[0], words[1:])
            if number in tiers:
                first = tiers[number].line
                raise problem(source, line, f"Tier {number}: is there twice, first in line {first}")
            part = tiers[number] = Numbers(source, line)
            continue
        known = _HEADER if part is header else _ATTRIBUTES
        if name in ("queue_up", "queue_down"):
            raise problem(source, line, f"{words[0]}: queues are not read; leave it out")
        if name not in known:
            raise problem(source, line, f"{words[0]}: is none of {', '.join(known)}")
        part.read(line, words[0], words[1:], 0 if name.endswith("_ns") else 1)
    for name in _HEADER[:2]:
        if name not in header:
            raise problem(source, line, f"{name.capitalize()} is missing")
    if header["tiers"] != 2:
        raise header.problem(
            "tiers",
            f"Tiers: {header['tiers']}: only two make a leaf-spine fabric",
        )
    for number, names in ((0, ("radix_down", "radix_up")), (1, ("radix_down",))):
        if number not in tiers:
            raise problem(source, line, f"Tier {number} is missing")
        _check_tier(number, tiers[number], (*names, "downlink_speed_gbps", "downlink_latency_ns"))
    for number in sorted(tiers.keys() - {0, 1}):
        raise problem(source, tiers[number].line, f"Tier {number}: of two there are tiers 0 and 1")
    return _shape(header, tiers[0], tiers[1])


def _check_tier(number: int, tier: Numbers, needed: tuple[str, ...]) -> None:
    for name in needed:
        if name not in tier:
            raise tier.problem(name, f"Tier {number}: {name} is missing")
    plain = _PLAIN if number == 0 else {**_PLAIN, "oversubscribed": 1}
    for name, value in plain.items():
        if tier.get(name, value) != value:
            raise tier.problem(
                name,
                f"Tier {number}: {name} {tier[name]}: only {value} can be",
            )
    if "radix_up" in tier and "radix_up" not in needed:
        raise tier.problem("radix_up", f"Tier {number}: radix_up: it has no uplinks")


def _shape(header: Numbers, leaf: Numbers, spine: Numbers) -> LeafSpine:
    nodes, hosts = header["nodes"], leaf["radix_down"]
    if hosts * spine["radix_down"] != nodes:
        raise header.problem(
            "nodes",
            f"Nodes: {nodes} are not {spine['radix_down']} leaves (Radix_Down of tier 1) of "
            f"{hosts} hosts",
        )
    if header.get("podsize", nodes) != nodes:
        raise header.problem(
            "podsize",
            f"Podsize: {header['podsize']}: of two tiers all {nodes} nodes are one pod",
        )
    shape = LeafSpine(
        nodes=nodes,
        hosts_per_leaf=hosts,
        spines=leaf["radix_up"],
        host_rate_bps=leaf["downlink_speed_gbps"] * _GBPS,
        fabric_rate_bps=spine["downlink_speed_gbps"] * _GBPS,
        host_delay_ns=leaf["downlink_latency_ns"],
        fabric_delay_ns=spine["downlink_latency_ns"],
    )
    told = leaf.get("oversubscribed", shape.oversubscription)
    if told != shape.oversubscription:
        raise leaf.problem(
            "oversubscribed",
            f"Tier 0: Oversubscribed {told}: {hosts} hosts and {shape.spines} uplinks are "
            f"{shape.oversubscription} to one",
        )
    return shape


__all__ = ["FormatError", "LeafSpine", "QueueSpec", "load", "parse"]
