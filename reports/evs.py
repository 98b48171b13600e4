"""What a fault did to EVs, from the changes of their states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reports.result import EvTransition, FaultEffect
from topologies.addressing import AddressingError, path_of_ev
from topologies.fault_scope import FaultScope
from topologies.model import Fabric, TopologyError

#: Of an EV that is no longer used; `host.paths.EvState` has all states
_ASSUMED_BAD: Final = "ASSUMED_BAD"


def look_at_evs(
    effect: FaultEffect,
    scope: FaultScope,
    fabric: Fabric,
    transitions: Iterable[EvTransition],
    *,
    grace_ns: int,
    count_earlier: bool,
) -> None:
    """Count the EVs through a fault that went out of use, and when the first and the last did.

    Args:
        effect: of a fault that has begun; gets `evs_out`, `first_out_ns` and `last_out_ns`.
        scope: where the fault is.
        transitions: all of the run, in order.
        grace_ns: for so long after its end, EVs may still be found out that met it.
        count_earlier: EVs that were out already when it began count, and say nothing about the
            time that it took. On a busy machine there are timeouts that have no other reason.
    """
    last_ns = None if effect.end_ns is None else effect.end_ns + grace_ns
    before: set[tuple[str, int, int]] = set()
    out: dict[tuple[str, int, int], int] = {}
    for each in transitions:
        if last_ns is not None and each.now_ns > last_ns:
            break
        is_out, is_earlier = each.new == _ASSUMED_BAD, each.now_ns < effect.at_ns
        if not (count_earlier if is_earlier else is_out):
            continue
        key = each.host, each.qp_num, each.ev
        if key in out or not _crosses(each, scope, fabric):
            continue
        if is_earlier:
            (before.add if is_out else before.discard)(key)
        elif key not in before:
            out[key] = each.now_ns - effect.at_ns
    effect.evs_out = len(before | out.keys())
    if out:
        effect.first_out_ns, effect.last_out_ns = min(out.values()), max(out.values())


def _crosses(transition: EvTransition, scope: FaultScope, fabric: Fabric) -> bool:
    """Whether an EV's path goes through the fault."""
    try:
        source, destination = fabric.host(transition.host), fabric.host(transition.peer)
        path = path_of_ev(transition.ev, source.id, destination.id)
    except (AddressingError, TopologyError):  # no EV of the plan, or a peer that nobody knows
        return False
    return scope.crosses(fabric, path)
