"""EVs that a fault put out of use: which count, and when they went."""

from __future__ import annotations

import pytest

from reports.evs import look_at_evs
from reports.result import EvTransition, FaultEffect
from topologies.addressing import encode_ev
from topologies.fault_scope import FaultScope
from topologies.model import Fabric

FABRIC = Fabric("small", planes=2, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=1)
SCOPE = FaultScope(switches=frozenset({"p0-t1-1"}))
THROUGH, ELSEWHERE = encode_ev(0, 1), encode_ev(1, 1)
OUT, BACK = "ASSUMED_BAD", "GOOD"


def change(now_ns: int, new: str, ev: int = THROUGH, qp: int = 1, peer: str = "h1") -> EvTransition:
    return EvTransition(now_ns, "h0", peer, qp, ev, "", new, "timeout", None)


def looked_at(
    *changes: EvTransition, end_ns: int | None = 2000, count_earlier: bool = False
) -> tuple[int, int | None, int | None]:
    effect = FaultEffect("f", "SwitchDead", 1000, end_ns, begun=True)
    look_at_evs(effect, SCOPE, FABRIC, changes, grace_ns=100, count_earlier=count_earlier)
    return effect.evs_out, effect.first_out_ns, effect.last_out_ns


def test_each_ev_of_each_queue_pair_counts_once_by_its_first_time() -> None:
    changes = (change(1010, OUT), change(1020, BACK), change(1030, OUT), change(1400, OUT, qp=2))
    assert looked_at(*changes) == (2, 10, 400)


def test_what_does_not_cross_it_does_not_count() -> None:
    changes = change(1010, OUT, ELSEWHERE), change(1020, OUT, peer="?"), change(1030, "DENIED")
    assert looked_at(*changes) == (0, None, None)


@pytest.mark.parametrize(("end_ns", "out"), [(2000, 1), (None, 2)])
def test_what_is_found_out_long_after_it_does_not_count(end_ns: int | None, out: int) -> None:
    assert looked_at(change(2100, OUT), change(2101, OUT, qp=2), end_ns=end_ns)[0] == out


@pytest.mark.parametrize(("count_earlier", "out"), [(False, (1, 10, 10)), (True, (2, 10, 10))])
def test_what_was_out_already(count_earlier: bool, out: tuple[int, int, int]) -> None:
    """One was out and stays so, one was back before it began."""
    changes = (
        change(500, OUT),
        change(600, OUT, qp=2),
        change(700, BACK, qp=2),
        change(1010, OUT, qp=2),
    )
    assert looked_at(*changes, count_earlier=count_earlier) == out


def test_what_was_out_already_says_nothing_about_the_time() -> None:
    changes = change(500, OUT), change(1010, BACK), change(1020, OUT)
    assert looked_at(*changes, count_earlier=True) == (1, None, None)
    assert looked_at(*changes) == (1, 20, 20)
