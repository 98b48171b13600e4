"""EV ↔ path naming: what an EV crosses, which EVs cross something, and what bad EVs have in common.

Switches, hosts and links have the names of docs/addressing.md: `p0-t1-3`, `h5`, and a link is its
two ends joined by `--`, the one nearer the hosts first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

from host.paths.ev_set import EvSet
from host.paths.states import EvState
from host.paths.universe import EvUniverse
from topologies.addressing import (
    AddressingError,
    HostId,
    Path,
    Role,
    parse_host_name,
    parse_switch_name,
    path_of_ev,
)

LINK = "--"


def host_name(host: HostId, hosts_per_t0: int) -> str:
    """For example h5: hosts are numbered T0 by T0."""
    return f"h{host.t0 * hosts_per_t0 + host.downlink}"


def elements_of_path(path: Path, hosts_per_t0: int) -> tuple[str, ...]:
    """Links and switches on the way from NIC to NIC, in order; the hosts are not among them."""
    nodes = [
        host_name(path.source, hosts_per_t0),
        *(switch.name for switch in path.switches),
        host_name(path.destination, hosts_per_t0),
    ]
    # Up to the topmost switch the near end comes first, from there on the far end
    topmost = len(nodes) // 2
    elements: list[str] = []
    for position, (near, far) in enumerate(pairwise(nodes)):
        lower, upper = (near, far) if position < topmost else (far, near)
        elements += (f"{lower}{LINK}{upper}", far)
    return tuple(elements[:-1])


def check_element(name: str) -> str:
    """The name itself. Raises AddressingError for what is no name of a switch or link."""
    ends = name.split(LINK)
    if len(ends) == 1:
        parse_switch_name(name)
        return name
    if len(ends) != 2:
        raise AddressingError(f"{name!r} is not the name of a link; write for example h3--p0-t0-1")
    upper = parse_switch_name(ends[1])
    if upper.role is Role.T0:
        parse_host_name(ends[0])
    elif parse_switch_name(ends[0]).role is not Role.T0 or upper.role is not Role.T1:
        raise AddressingError(f"{name!r}: a link between switches is a T0's with a T1, T0 first")
    return name


def evs_through(
    names: Collection[str],
    universe: EvUniverse,
    source: HostId,
    destination: HostId,
    hosts_per_t0: int,
) -> list[int]:
    """The EVs whose paths cross one of these switches or links: what a denylist would name.

    Raises AddressingError for what is no name of a switch or link.
    """
    wanted = frozenset(map(check_element, names))
    return [
        ev
        for ev in universe.evs
        if not wanted.isdisjoint(
            elements_of_path(path_of_ev(ev, source, destination), hosts_per_t0)
        )
    ]


@dataclass(frozen=True, slots=True)
class Observation:
    """Of a path: whether packets get through."""

    path: Path
    good: bool


def observations(evs: EvSet, source: HostId, destination: HostId) -> list[Observation]:
    """What the EVs of a queue pair tell: those in use are good, those ASSUMED_BAD are not."""
    return [
        Observation(path_of_ev(ev, source, destination), good)
        for good, some in ((True, evs.active()), (False, evs.in_state(EvState.ASSUMED_BAD)))
        for ev in some
    ]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Switches and links one of which explains why so many paths are bad.

    Which one of `elements` cannot be told: the same bad paths cross them all and no good one does.
    """

    elements: tuple[str, ...]
    bad_paths: int


def suspects(observed: Iterable[Observation], hosts_per_t0: int) -> list[Suspect]:
    """Which switches or links are bad, as few as explain every bad path; most paths first.

    What a good path crosses is not bad. A bad path all of whose elements good ones cross (it loses
    some packets, say) is not explained. Observations towards several destinations, or of several
    hosts, tell more than those of one queue pair.
    """
    cleared: set[str] = set()
    bad: list[tuple[str, ...]] = []
    for observation in observed:
        elements = elements_of_path(observation.path, hosts_per_t0)
        if observation.good:
            cleared.update(elements)
        else:
            bad.append(elements)
    crossed_by: dict[str, set[int]] = {}
    for number, elements in enumerate(bad):
        for name in elements:
            if name not in cleared:
                crossed_by.setdefault(name, set()).add(number)
    found = []
    while crossed_by:
        # dicts keep their order, so of equals the one nearest the source of the first path
        explained = max(crossed_by.values(), key=len).copy()
        group = tuple(name for name, numbers in crossed_by.items() if numbers == explained)
        found.append(Suspect(group, len(explained)))
        for numbers in crossed_by.values():
            numbers -= explained
        crossed_by = {name: numbers for name, numbers in crossed_by.items() if numbers}
    return found
