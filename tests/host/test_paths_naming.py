"""EV ↔ path naming, denylists by name, and which element is bad."""

from __future__ import annotations

import random

import pytest

from host.paths.ev_set import EvSet
from host.paths.naming import (
    Observation,
    Suspect,
    check_element,
    elements_of_path,
    evs_through,
    observations,
    suspects,
)
from host.paths.probing import ProbeTiming
from host.paths.universe import plan_universe
from topologies.addressing import AddressingError, HostId, encode_ev, path_of_ev
from topologies.model import Fabric

FABRIC = Fabric("test", planes=4, t0_per_plane=3, t1_per_plane=4, hosts_per_t0=2)
UNIVERSE = plan_universe(4, 4)
NEAR, FAR, ELSEWHERE, SAME_T0 = HostId(0, 1), HostId(1, 0), HostId(2, 0), HostId(0, 0)


def test_a_path_crosses_links_and_switches_in_order() -> None:
    path = path_of_ev(encode_ev(2, 3), NEAR, FAR)
    assert elements_of_path(path, 2) == (
        "h1--p2-t0-0",
        "p2-t0-0",
        "p2-t0-0--p2-t1-3",
        "p2-t1-3",
        "p2-t0-1--p2-t1-3",
        "p2-t0-1",
        "h2--p2-t0-1",
    )


def test_within_a_t0_it_crosses_that_alone() -> None:
    path = path_of_ev(encode_ev(2, 0), NEAR, SAME_T0)
    assert elements_of_path(path, 2) == ("h1--p2-t0-0", "p2-t0-0", "h0--p2-t0-0")


def test_names_are_the_fabric_s() -> None:
    links = {link.name for link in FABRIC.links()}
    switches = {switch.name for switch in FABRIC.switches()}
    for ev in UNIVERSE.evs:
        for element in elements_of_path(path_of_ev(ev, NEAR, FAR), FABRIC.hosts_per_t0):
            assert element in (links if "--" in element else switches)
            assert check_element(element) == element


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("p0-t2-0", "not the name of a switch"),
        ("h3", "not the name of a switch"),
        ("p0-t0-0--h3", "not the name of a switch"),
        ("h3--p0-t1-0", "not the name of a switch|T0 first"),
        ("p0-t1-0--p0-t0-0", "not the name of a host|T0 first"),
        ("p0-t1-0--p0-t1-1", "T0 first"),
        ("a--b--c", "not the name of a link"),
    ],
)
def test_other_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(AddressingError, match=message):
        check_element(name)


@pytest.mark.parametrize(
    ("names", "evs"),
    [
        (["p1-t1-2"], [encode_ev(1, 2)]),
        (["p1-t0-0--p1-t1-2", "p3-t0-1--p3-t1-0"], [encode_ev(1, 2), encode_ev(3, 0)]),
        (["p1-t0-1"], [encode_ev(1, uplink) for uplink in range(4)]),
        (["h1--p0-t0-0"], [encode_ev(0, uplink) for uplink in range(4)]),
        (["p1-t0-2", "h0--p0-t0-0"], []),
    ],
)
def test_evs_by_what_they_cross(names: list[str], evs: list[int]) -> None:
    assert evs_through(names, UNIVERSE, NEAR, FAR, 2) == evs


def seen(bad: list[int], destination: HostId = FAR) -> list[Observation]:
    return [Observation(path_of_ev(ev, NEAR, destination), ev not in bad) for ev in UNIVERSE.evs]


class TestSuspects:
    def test_nothing_bad_no_suspect(self) -> None:
        assert suspects(seen([]), 2) == []

    def test_one_queue_pair_cannot_tell_a_t1_from_its_links(self) -> None:
        assert suspects(seen([encode_ev(1, 2)]), 2) == [
            Suspect(("p1-t0-0--p1-t1-2", "p1-t1-2", "p1-t0-1--p1-t1-2"), 1)
        ]

    def test_another_destination_clears_what_is_common(self) -> None:
        """Bad to one T0, good to another: it is the link down to the first."""
        both = seen([encode_ev(1, 2)]) + seen([], ELSEWHERE)
        assert suspects(both, 2) == [Suspect(("p1-t0-1--p1-t1-2",), 1)]

    def test_bad_to_all_destinations_it_is_the_t1_or_the_link_up(self) -> None:
        both = seen([encode_ev(1, 2)]) + seen([encode_ev(1, 2)], ELSEWHERE)
        assert suspects(both, 2) == [Suspect(("p1-t0-0--p1-t1-2", "p1-t1-2"), 2)]

    def test_a_whole_plane_is_one_cause_not_many(self) -> None:
        bad = [encode_ev(3, uplink) for uplink in range(4)]
        (found,) = suspects(seen(bad), 2)
        assert found == Suspect(("h1--p3-t0-0", "p3-t0-0", "p3-t0-1", "h2--p3-t0-1"), 4)

    def test_several_causes_the_one_with_most_paths_first(self) -> None:
        bad = [*(encode_ev(3, uplink) for uplink in range(4)), encode_ev(0, 1)]
        found = suspects(seen(bad), 2)
        assert [suspect.bad_paths for suspect in found] == [4, 1]
        assert "p0-t1-1" in found[1].elements

    def test_what_good_paths_cross_all_of_is_not_explained(self) -> None:
        path = path_of_ev(encode_ev(0, 0), NEAR, FAR)
        assert suspects([Observation(path, True), Observation(path, False)], 2) == []

    def test_an_ev_set_tells(self) -> None:
        evs = EvSet(UNIVERSE, rng=random.Random(0), timing=ProbeTiming(10, 1))
        for uplink in range(4):
            evs.on_timeout(encode_ev(2, uplink), 0, 5)
        found = suspects(observations(evs, NEAR, FAR), 2)
        assert found == [Suspect(("h1--p2-t0-0", "p2-t0-0", "p2-t0-1", "h2--p2-t0-1"), 4)]
