"""Where a fault is: which links and switches cannot be relied on, and which paths cross them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from topologies import scenario as model
from topologies.addressing import Path
from topologies.model import Fabric

_SwitchFault = model.SwitchDead | model.SwitchReboot
#: A fault and its number in order of time
_InTime = tuple[int, _SwitchFault]


@dataclass(frozen=True, slots=True)
class FaultScope:
    """What a fault concerns.

    Attributes:
        links, switches: by name.
        carrier: where it is about data of one path only, its outer destination address as it
            leaves the NIC.
    """

    links: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    carrier: bytes | None = None

    @property
    def is_a_place(self) -> bool:
        """Whether data can go into it: a denial is nowhere."""
        return bool(self.links or self.switches or self.carrier is not None)

    def crosses(self, fabric: Fabric, path: Path) -> bool:
        """Whether a path goes through what is at fault."""
        if self.carrier is not None:
            return fabric.addresses.carrier_of_path(path).to_bytes(16, "big") == self.carrier
        if self.switches and any(switch.name in self.switches for switch in path.switches):
            return True
        if not self.links:
            return False
        return any(link.name in self.links for link in fabric.links_of_path(path))


def scope_of(fault: model.Fault, fabric: Fabric) -> FaultScope:
    """The scope of a fault. What an operator denies is no place: its scope is empty."""
    match fault:
        case model.LinkDown() | model.SlowLink():
            return FaultScope(links=frozenset(fault.links))
        case model.SwitchReboot():
            names = frozenset(fault.switches)
            return FaultScope(
                links=frozenset(
                    link.name
                    for link in fabric.links()
                    if link.lower.node in names or link.upper.node in names
                ),
                switches=names,
            )
        case model.SwitchDead():
            return FaultScope(switches=frozenset(fault.switches))
        case model.Impairment(path=model.PathRef() as path):
            return FaultScope(carrier=carrier_of(fabric, path))
        case model.Impairment():
            return FaultScope(links=frozenset(fault.links))
    return FaultScope()


def carrier_of(fabric: Fabric, ref: model.PathRef) -> bytes:
    """The outer destination address of data on a path when it leaves the NIC."""
    return fabric.addresses.carrier_of_path(path_of(fabric, ref)).to_bytes(16, "big")


def path_of(fabric: Fabric, ref: model.PathRef) -> Path:
    """The path that a reference names."""
    source, destination = fabric.host(ref.source), fabric.host(ref.destination)
    return next(
        each
        for each in fabric.paths(source, destination)
        if each.plane == ref.plane and (each.uplink or 0) == ref.uplink
    )


def paths_of(fault: model.Fault) -> Iterator[model.PathRef]:
    """The paths that a fault names, where it is about some paths only."""
    match fault:
        case model.Deny():
            yield from fault.paths
        case model.Impairment(path=model.PathRef() as path):
            yield path


def collisions(
    faults: Iterable[model.Fault], *, touching: bool = False
) -> Iterator[tuple[model.Fault, model.Fault, str]]:
    """(earlier, later, switch) where two faults would have one switch dead or off at one time.

    The end of the first would revive it in the middle of the second. Two of one kind collide also
    where one ends as the other begins, whichever is done first; with `touching` any two do.
    """
    holding = [each for each in faults if isinstance(each, _SwitchFault)]
    # A fault that happens thousands of times has the same switches each time: what holds the same
    # switches is looked at once, not once for each of them
    alike: dict[tuple[str, ...], list[_InTime]] = {each.switches: [] for each in holding}
    for number, each in enumerate(sorted(holding, key=lambda each: each.at_ns)):
        alike[each.switches].append((number, each))
    held: dict[str, tuple[tuple[str, ...], ...]] = {}
    for switches in alike:
        for name in switches:
            held[name] = (*held.get(name, ()), switches)
    found: dict[tuple[tuple[str, ...], ...], list[tuple[model.Fault, model.Fault]]] = {}
    for name, holders in held.items():
        if holders not in found:
            in_order = heapq.merge(*(alike[switches] for switches in holders))
            found[holders] = list(_meetings((each for _, each in in_order), touching))
        yield from ((first, second, name) for first, second in found[holders])


def _meetings(
    in_order: Iterator[_SwitchFault], touching: bool
) -> Iterator[tuple[model.Fault, model.Fault]]:
    """(earlier, later) of the faults of one switch, in the order of their beginnings."""
    holder = next(in_order)
    for each in in_order:
        meets = touching or type(holder) is type(each)
        if holder.end_ns is None or each.at_ns < holder.end_ns + meets:
            yield holder, each
        if holder.end_ns is not None and (each.end_ns is None or each.end_ns > holder.end_ns):
            holder = each
