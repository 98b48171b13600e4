"""Which links and switches the EVs that went out of use point to: paths that are out at one time,
and what they have in common that no path in use has.

Only what endpoints know goes in, so this is what they could tell whoever repairs the fabric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from host.collectives import collective_kind
from host.paths.naming import Observation, elements_of_path, suspects
from reports.result import CollectiveResult, EvTransition, FlowResult, RunResult
from topologies.addressing import Path
from topologies.model import Fabric

_OUT: Final = "ASSUMED_BAD"
#: What one path alone points to is told where it was out so long: of a timeout that came by
#: mistake, since some process did not run in time, the first few probes make an end
_HELD_BASE_RTTS: Final = 32

#: Source and destination
_Pair = tuple[str, str]
#: Source, destination and EV
_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Links and switches by name, one of which explains why `paths_out` of the paths that were out
    of use at a time were so."""

    at_ns: int
    elements: tuple[str, ...]
    paths_out: int


def suspicions(fabric: Fabric, result: RunResult) -> list[Suspicion]:
    """For each time span with EVs out of use, what explains those of the moment at which most were.

    A path counts as in use where its hosts had traffic at that moment and its EV was not out. Paths
    that nothing explains, since paths in use cross all that they cross, say nothing of the fabric
    and are left out; so is what one path alone points to that was soon in use again.
    """
    found: list[Suspicion] = []
    hosts = {host.name for host in fabric.hosts()}
    known_ends = (each for each in result.transitions if {each.host, each.peer} <= hosts)
    for span in _spans(known_ends, result.now_ns):
        # EVs that name no path of the fabric are not among these
        bad = {key: path for key, path in _paths(fabric, span.pairs) if key in span.held_ns}
        # Paths of other planes have nothing in common with them
        planes = {path.plane for path in bad.values()}
        observed = (
            Observation(path, key not in bad)
            for key, path in _paths(fabric, span.pairs | set(_running(result, span.at_ns)))
            if path.plane in planes
        )
        for suspect in suspects(observed, fabric.hosts_per_t0):
            held_ns = max(
                span.held_ns[key]
                for key, path in bad.items()
                if suspect.elements[0] in elements_of_path(path, fabric.hosts_per_t0)
            )
            if suspect.bad_paths > 1 or held_ns >= _HELD_BASE_RTTS * result.base_rtt_ns:
                found.append(Suspicion(span.at_ns, suspect.elements, suspect.bad_paths))
    return found


def _paths(fabric: Fabric, pairs: Iterable[_Pair]) -> Iterator[tuple[_Key, Path]]:
    for source, destination in sorted(pairs):
        for path in fabric.paths(fabric.host(source), fabric.host(destination)):
            yield (source, destination, path.ev), path


def _running(result: RunResult, at_ns: int) -> Iterator[_Pair]:
    """Hosts of which one sends data to the other at a time."""
    for flow in result.flows:
        if _is_running(flow, at_ns):
            yield flow.source, flow.destination
    for item in result.collectives:
        kind = collective_kind(item.collective)
        # A chain has an end, and nobody says here which rank it is
        if kind.rooted or not _is_running(item, at_ns):
            continue
        size = len(item.hosts)
        for rank, host in enumerate(item.hosts):
            for peer in kind.peers(rank, size) if kind.full_mesh else ((rank + 1) % size,):
                yield host, item.hosts[peer]


def _is_running(traffic: FlowResult | CollectiveResult, at_ns: int) -> bool:
    if traffic.completion_ns is None:
        return traffic.start_ns <= at_ns
    return traffic.start_ns <= at_ns <= traffic.start_ns + traffic.completion_ns


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which some EV was out: its worst moment; for how long at most each EV that was out
    then was so; pairs of hosts that had EVs out."""

    at_ns: int
    held_ns: dict[_Key, int]
    pairs: set[_Pair]


def _spans(transitions: Iterable[EvTransition], end_ns: int) -> Iterator[_Span]:
    """Every span, up to the end of the run."""
    #: Queue pairs of which an EV is out, and since when it is of the first
    out: Counter[_Key] = Counter()
    since_ns: dict[_Key, int] = {}
    held_ns: Counter[_Key] = Counter()
    worst: set[_Key] = set()
    at_ns = 0

    def span() -> _Span:
        pairs = {(source, destination) for source, destination, _ in held_ns}
        return _Span(at_ns, {key: held_ns[key] for key in worst}, pairs)

    for each in transitions:
        key = each.host, each.peer, each.ev
        if each.new == _OUT and each.old != _OUT:
            since_ns.setdefault(key, each.now_ns)
            held_ns.setdefault(key, 0)
            out[key] += 1
            if len(out) > len(worst):
                worst, at_ns = set(out), each.now_ns
        elif each.old == _OUT and each.new != _OUT and key in out:
            out[key] -= 1
            if not out[key]:
                del out[key]
                held_ns[key] = max(held_ns[key], each.now_ns - since_ns.pop(key))
            if not out:
                yield span()
                worst, held_ns = set(), Counter()
    for key, since in since_ns.items():
        held_ns[key] = max(held_ns[key], end_ns - since)
    if worst:
        yield span()


def one_of(names: Sequence[str]) -> str:
    """Names in a sentence: a, b or c."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
