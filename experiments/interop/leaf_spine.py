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
not in the file, but on htsim's command line. Three tiers, bundles of links and switches that take
time cannot be told in a topology of ours, and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiments.interop.lines import FormatError, integer, problem, read, words_of
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
    "queue_up",
    "queue_down",
)
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

    def text(self) -> str:
        """As htsim reads it."""
        return (
            f"Nodes {self.nodes}\nTiers 2\nPodsize {self.nodes}\n\n"
            f"Tier 0\nDownlink_speed_Gbps {self.host_rate_bps // _GBPS}\n"
            f"Radix_Down {self.hosts_per_leaf}\nRadix_Up {self.spines}\n"
            f"Oversubscribed {max(self.hosts_per_leaf // self.spines, 1)}\n"
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


@dataclass(slots=True)
class _Tier:
    line: int
    values: dict[str, int] = field(default_factory=dict)


def load(path: str | Path) -> LeafSpine:
    """The fabric of a file. Raises FormatError."""
    return parse(read(path), str(path))


def parse(text: str, source: str) -> LeafSpine:
    """The fabric of a file's text; `source` names it in errors. Raises FormatError."""
    header: dict[str, int] = {}
    tiers: dict[int, _Tier] = {}
    tier: _Tier | None = None
    line = 1
    for line, words in words_of(text):
        name = words[0].lower()
        if name == "tier":
            number = integer(source, line, words[0], words[1:])
            tier = tiers[number] = _Tier(line)
            continue
        if name not in (_HEADER if tier is None else _ATTRIBUTES):
            known = ", ".join(_HEADER if tier is None else _ATTRIBUTES)
            raise problem(source, line, f"{words[0]}: is none of {known}")
        into = header if tier is None else tier.values
        if name in into:
            raise problem(source, line, f"{words[0]}: is there twice")
        least = 0 if name.endswith("_ns") else 1
        into[name] = integer(source, line, words[0], words[1:], least)
    for name in ("nodes", "tiers"):
        if name not in header:
            raise problem(source, line, f"{name.capitalize()} is missing")
    if header["tiers"] != 2 or set(tiers) - {0, 1}:
        raise problem(source, line, f"Tiers: {header['tiers']}: only two make a leaf-spine fabric")
    return _checked(source, header, tiers, line)


def _checked(source: str, header: dict[str, int], tiers: dict[int, _Tier], line: int) -> LeafSpine:
    for number, names in ((0, ("radix_down", "radix_up")), (1, ("radix_down",))):
        if number not in tiers:
            raise problem(source, line, f"Tier {number} is missing")
        for name in (*names, "downlink_speed_gbps", "downlink_latency_ns"):
            if name not in tiers[number].values:
                raise problem(source, tiers[number].line, f"Tier {number}: {name} is missing")
        for name, plain in (("bundle", 1), ("switch_latency_ns", 0)):
            value = tiers[number].values.get(name, plain)
            if value != plain:
                raise problem(
                    source,
                    tiers[number].line,
                    f"Tier {number}: {name} {value}: only {plain} can be",
                )
    leaf, spine = tiers[0].values, tiers[1].values
    nodes, hosts = header["nodes"], leaf["radix_down"]
    if hosts * spine["radix_down"] != nodes:
        raise problem(
            source,
            tiers[1].line,
            f"Nodes: {nodes} are not {spine['radix_down']} leaves (Radix_Down of tier 1) of "
            f"{hosts} hosts",
        )
    ratio = leaf.get("oversubscribed")
    if ratio is not None and hosts // leaf["radix_up"] != ratio:
        raise problem(
            source,
            tiers[0].line,
            f"Tier 0: Oversubscribed {ratio}: {hosts} hosts and {leaf['radix_up']} uplinks "
            f"are {hosts // leaf['radix_up']} to one",
        )
    return LeafSpine(
        nodes=nodes,
        hosts_per_leaf=hosts,
        spines=leaf["radix_up"],
        host_rate_bps=leaf["downlink_speed_gbps"] * _GBPS,
        fabric_rate_bps=spine["downlink_speed_gbps"] * _GBPS,
        host_delay_ns=leaf["downlink_latency_ns"],
        fabric_delay_ns=spine["downlink_latency_ns"],
    )


__all__ = ["FormatError", "LeafSpine", "QueueSpec", "load", "parse"]
