"""The books: the kernel's counters against the switches', and who answers for what is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from topologies.loader import find_topology, load_topology
from topologies.runner.scenario.books import Books, balance
from topologies.runner.scenario.interfaces import (
    InterfaceCounters,
    Interfaces,
    dropped_at,
    kept_in,
    since,
)
from topologies.runner.scenario.tracks import Totals

FABRIC = load_topology(find_topology("one-plane"))


def frames(received: int, sent: int, dropped: int = 0) -> InterfaceCounters:
    return InterfaceCounters(rx_packets=received, tx_packets=sent, tx_dropped=dropped)


def counted(**reasons: int) -> Totals:
    totals = Totals()
    totals.counted = dict(reasons)
    return totals


def books(
    counters: Interfaces,
    drops: dict[str, Totals] | None = None,
    *,
    target: str = "softswitch",
    boxes: dict[str, Totals] | None = None,
    **options: Any,
) -> Books:
    switches = {node for node, _ in counters if node.startswith("p") and "--" not in node}
    deployment = SimpleNamespace(
        fabric=FABRIC,
        target=SimpleNamespace(name=target),
        places=dict.fromkeys(sorted(switches)),
        boxes=boxes or {},
    )
    sampler = SimpleNamespace(drops=drops or {}, boxes=boxes or {})
    settings: dict[str, Any] = {
        "killed": (),
        "swallowing": (),
        "cut_by_boxes": (),
        "quiet": True,
        **options,
    }
    return balance(deployment, sampler, counters, **settings)  # type: ignore[arg-type]


#: h0 sent 100, 90 came to h1; the switch has 10 of them
TEN_MISSING = {
    ("h0", "plane0"): frames(0, 100),
    ("h1", "plane0"): frames(90, 0),
    ("p0-t0-0", "port0"): frames(100, 0),
    ("p0-t0-0", "port1"): frames(0, 90),
}


def test_what_a_switch_says_it_dropped_is_lost_by_its_reasons() -> None:
    found = books(TEN_MISSING, {"p0-t0-0": counted(no_route=7, port_down=3)})
    assert (found.sent, found.received, found.unaccounted) == (100, 90, 0)
    assert found.lost == {"no route": 7, "link down": 3}


def test_what_nobody_answers_for_is_unaccounted() -> None:
    assert books(TEN_MISSING).unaccounted == 10
    # More drops than frames that went in are as wrong
    assert books(TEN_MISSING, {"p0-t0-0": counted(no_route=12)}).unaccounted == -2


def test_what_is_unaccounted_says_where() -> None:
    (note,) = books(TEN_MISSING, {"p0-t0-0": counted(no_route=12)}).notes
    assert note.endswith(": p0-t0-0: -2")


def test_too_much_at_one_switch_does_not_make_up_for_too_little_at_another() -> None:
    counters = {**TEN_MISSING, ("p0-t0-1", "port0"): frames(0, 10)}
    found = books(counters)
    assert found.unaccounted == 10
    (note,) = found.notes
    assert note.endswith(": p0-t0-0: +10, p0-t0-1: -10")


def test_what_an_interface_refused_is_with_its_neighbour() -> None:
    """As a link goes down: the kernel refuses a frame, its sender tries twice and loses it."""
    counters = {
        ("h0", "plane0"): frames(0, 1),
        ("p0-t0-0", "port0"): frames(1, 0),
        ("p0-t0-0", "port2"): frames(0, 0, dropped=2),
        ("p0-t1-0", "port0"): frames(0, 0),
    }
    drops = {"p0-t0-0": counted(send_enetdown=1), "p0-t1-0": counted(interface_dropped=2)}
    found = books(counters, drops)
    assert (found.lost, found.unaccounted) == ({"link down": 1}, 0)


def test_as_long_as_frames_move_they_are_on_the_way() -> None:
    found = books(TEN_MISSING, quiet=False)
    assert (found.in_flight, found.unaccounted) == (10, 0)


def test_a_killed_switch_took_what_it_cannot_tell() -> None:
    found = books(TEN_MISSING, {"p0-t0-0": counted(no_route=4)}, killed={"p0-t0-0"})
    assert found.lost == {"no route": 4, "with p0-t0-0, which was killed": 6}
    assert found.unaccounted == 0


def test_what_the_kernel_could_not_send_is_lost_at_the_link() -> None:
    counters = {**TEN_MISSING, ("p0-t0-0", "port1"): frames(0, 90, dropped=4)}
    found = books(counters)
    assert (found.lost, found.unaccounted) == ({"link down": 4}, 6)


def test_bmv2_does_not_count_around_its_program() -> None:
    found = books(TEN_MISSING, {"p0-t0-0": counted(no_route=4)}, target="bmv2")
    assert found.lost == {"no route": 4, "in bmv2 before or after the program": 6}
    # It explains any difference, so that is said
    (note,) = found.notes
    assert note.startswith("6 frames that p0-t0-0 took and did not send are counted as lost")
    assert books(TEN_MISSING, {"p0-t0-0": counted(no_route=10)}, target="bmv2").notes == []


def test_a_black_hole_has_a_name_of_its_own() -> None:
    found = books(TEN_MISSING, {"p0-t0-0": counted(port_down=10)}, swallowing={"p0-t0-0"})
    assert found.lost == {"swallowed by p0-t0-0": 10}


@pytest.mark.parametrize(
    ("cut", "cause"), [(set(), "random loss"), ({"p0-t0-0--p0-t1-0"}, "in a box that cut a link")]
)
def test_a_box_answers_for_its_link(cut: set[str], cause: str) -> None:
    link = "p0-t0-0--p0-t1-0"
    counters = {
        ("h0", "plane0"): frames(0, 10),
        (link, "port0"): frames(10, 0),
        (link, "port1"): frames(0, 3),
    }
    totals = counted(lost=5, corrupted=1)
    totals.counted["own port_down"] = 2
    found = books(counters, boxes={link: totals}, cut_by_boxes=cut)
    assert found.lost == {cause: 5, "link down": 2}
    assert (found.corrupted, found.unaccounted) == (1, 0)


def test_counters_between_two_readings() -> None:
    before = {("a", "x"): frames(1, 2, 3)}
    after = {("a", "x"): frames(5, 4, 3), ("a", "y"): frames(1, 0)}
    counters = since(after, before)
    assert kept_in("a", counters) == 3
    assert dropped_at("a", counters) == 0
    assert kept_in("b", counters) == 0
