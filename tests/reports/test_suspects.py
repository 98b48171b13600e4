"""What paths out of use have in common."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from reports.from_result import make_record
from reports.record import SeriesRecord
from reports.result import CollectiveResult, EvTransition, RunResult
from reports.suspects import Suspicion, one_of, suspicions
from tests.sim.conftest import run_scenario, simulate
from topologies.addressing import encode_ev
from topologies.model import Fabric

FABRIC = simulate().scenario.fabric
#: What is out to its end is out long enough
QUIET = replace(run_scenario(), now_ns=10**9)


def change(now_ns: int, host: str, peer: str, ev: int, new: str = "ASSUMED_BAD") -> EvTransition:
    old = "GOOD" if new == "ASSUMED_BAD" else "ASSUMED_BAD"
    return EvTransition(now_ns, host, peer, 17, ev, old, new, "timeout", None)


def of(*transitions: EvTransition, fabric: Fabric = FABRIC) -> list[Suspicion]:
    result: RunResult = replace(QUIET, flows=[], transitions=list(transitions))
    return suspicions(fabric, result)


def test_all_well_nothing_to_say() -> None:
    assert suspicions(FABRIC, QUIET) == []


def test_a_t1_is_between_two_pairs_that_lose_it() -> None:
    ev = encode_ev(1, 0)
    found = of(change(10, "h0", "h2", ev), change(20, "h1", "h3", ev))
    # One after the other goes the same way through the T1
    assert found == [
        Suspicion(20, ("p1-t0-0--p1-t1-0", "p1-t1-0", "p1-t0-1--p1-t1-0"), 2),
    ]


def test_a_queue_pair_that_was_gone_before_it_was_told_of_says_nothing() -> None:
    transitions = [change(10, "h0", "?", 1)]
    assert of(*transitions) == []
    result = replace(QUIET, transitions=transitions)
    series = SeriesRecord([], [], [], [], [], [], [])
    record = make_record(simulate().scenario, result, [], series)
    assert [(span.peer, span.path) for span in record.ev_spans] == [("?", "EV 0x00000001")]


def test_each_span_is_looked_at_where_most_were_out() -> None:
    first, second = encode_ev(0, 0), encode_ev(0, 1)
    found = of(
        change(10, "h0", "h2", first),
        change(20, "h0", "h2", second),
        change(30, "h0", "h2", first, "GOOD"),
        change(40, "h0", "h2", second, "GOOD"),
        change(90, "h0", "h2", second),
    )
    assert [each.at_ns for each in found] == [20, 90]
    # The whole plane, so its links at the hosts are the first that explain it
    assert found[0].paths_out == 2 and "h0--p0-t0-0" in found[0].elements
    assert found[1].elements == ("p0-t0-0--p0-t1-1", "p0-t1-1", "p0-t0-1--p0-t1-1")


def test_a_path_that_only_loses_some_is_not_explained() -> None:
    ev = encode_ev(0, 0)
    flow = QUIET.flow("there")
    # Another host's flow uses the same links and switches, both ways round
    others = [
        replace(flow, name="near", source="h0", destination="h3"),
        replace(flow, name="far", source="h1", destination="h2"),
    ]
    result = replace(QUIET, flows=others, transitions=[change(flow.start_ns + 1, "h0", "h2", ev)])
    assert suspicions(FABRIC, result) == []
    # ... unless they are over by then
    late = [change(flow.start_ns + 10**9, "h0", "h2", ev)]
    assert suspicions(FABRIC, replace(result, transitions=late, now_ns=10**10))[0].elements


T1_OF_ONE = ("p0-t0-0--p0-t1-1", "p0-t1-1", "p0-t0-1--p0-t1-1")


@pytest.mark.parametrize(
    ("collective", "start_ns", "elements"),
    [
        # h1 sends to h3 over both T1s all the time
        ("all-to-all", 0, None),
        ("all-reduce", 0, None),
        ("all-reduce", 11, T1_OF_ONE),
        # A chain, of which nobody knows here where it begins
        ("broadcast", 0, T1_OF_ONE),
    ],
)
def test_paths_of_a_running_collective_are_in_use(
    collective: str, start_ns: int, elements: tuple[str, ...] | None
) -> None:
    values: dict[str, Any] = {each.name: 0 for each in fields(CollectiveResult)}
    values |= {"collective": collective, "start_ns": start_ns, "completion_ns": 100}
    values["hosts"] = ["h0", "h2", "h1", "h3"]
    result = replace(
        QUIET,
        flows=[],
        collectives=[CollectiveResult(**values)],
        transitions=[change(10, "h0", "h2", encode_ev(0, 1))],
    )
    assert [each.elements for each in suspicions(FABRIC, result)] == (
        [elements] if elements else []
    )


def test_a_lone_path_that_is_soon_in_use_again_points_to_nothing() -> None:
    ev, soon_ns = encode_ev(0, 1), 31 * QUIET.base_rtt_ns
    out = change(10, "h0", "h2", ev)
    assert of(out, change(10 + soon_ns, "h0", "h2", ev, "GOOD")) == []
    assert of(out, change(10 + 2 * soon_ns, "h0", "h2", ev, "GOOD"))
    # Two that agree are told at once
    other = change(20, "h1", "h3", ev)
    back = [change(30, "h0", "h2", ev, "GOOD"), change(40, "h1", "h3", ev, "GOOD")]
    assert [each.paths_out for each in of(out, other, *back)] == [2]


def test_evs_that_name_no_path_say_nothing() -> None:
    assert of(change(10, "h0", "h2", encode_ev(7, 99))) == []


def test_names_in_a_sentence() -> None:
    assert one_of(["a"]) == "a"
    assert one_of(["a", "b", "c"]) == "a, b or c"
