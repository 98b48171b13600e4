"""Which links and switches the EVs that went out of use point to: paths that are out at one time,
and what they have in common that no path in use has.

Only what endpoints know goes in, so this is what they could tell whoever repairs the fabric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from host.paths.naming import Observation, suspects
from reports.result import EvTransition, FlowResult, RunResult
from topologies.model import Fabric

_OUT: Final = "ASSUMED_BAD"

#: Source, destination and EV
_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Links and switches by name, one of which explains why `paths_out` of the paths that were out
    of use at a time were so. `elements` is empty where nothing explains them: what they cross,
    paths in use cross as well."""

    at_ns: int
    elements: tuple[str, ...]
    paths_out: int


def suspicions(fabric: Fabric, result: RunResult) -> list[Suspicion]:
    """One or more for each time span with EVs out of use, of the moment at which most were out.

    A path counts as in use where its hosts had traffic at that moment and its EV was not out.
    """
    found: list[Suspicion] = []
    hosts = {host.name for host in fabric.hosts()}
    known_ends = (each for each in result.transitions if {each.host, each.peer} <= hosts)
    for at_ns, out, pairs in _episodes(known_ends):
        pairs |= {
            (flow.source, flow.destination) for flow in result.flows if _is_running(flow, at_ns)
        }
        paths = [
            (path, (source, destination, path.ev))
            for source, destination in sorted(pairs)
            for path in fabric.paths(fabric.host(source), fabric.host(destination))
        ]
        known = {key for _, key in paths}
        explained = 0
        observed = (Observation(path, key not in out) for path, key in paths)
        for suspect in suspects(observed, fabric.hosts_per_t0):
            found.append(Suspicion(at_ns, suspect.elements, suspect.bad_paths))
            explained += suspect.bad_paths
        # EVs that name no path of the fabric say nothing of it
        left = len(out & known) - explained
        if left:
            found.append(Suspicion(at_ns, (), left))
    return found


def _is_running(flow: FlowResult, at_ns: int) -> bool:
    if flow.completion_ns is None:
        return flow.start_ns <= at_ns
    return flow.start_ns <= at_ns <= flow.start_ns + flow.completion_ns


def _episodes(
    transitions: Iterable[EvTransition],
) -> Iterator[tuple[int, set[_Key], set[tuple[str, str]]]]:
    """(when, EVs out, pairs of hosts with EVs out) of the worst moment of each span.

    A span lasts as long as some EV is out.
    """
    out: Counter[_Key] = Counter()
    pairs: set[tuple[str, str]] = set()
    worst: set[_Key] = set()
    at_ns = 0
    for each in transitions:
        key = each.host, each.peer, each.ev
        if each.new == _OUT and each.old != _OUT:
            out[key] += 1
            pairs.add((each.host, each.peer))
            if len(out) > len(worst):
                worst, at_ns = set(out), each.now_ns
        elif each.old == _OUT and each.new != _OUT and key in out:
            out[key] -= 1
            if not out[key]:
                del out[key]
            if not out:
                yield at_ns, worst, pairs
                worst, pairs = set(), set()
    if worst:
        yield at_ns, worst, pairs


def one_of(names: Sequence[str]) -> str:
    """Names in a sentence: a, b or c."""
    if not names:
        return "nothing that paths in use do not cross too"
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
