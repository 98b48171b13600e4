"""What of a scenario can be done on which switches: decided before anything is started."""

from __future__ import annotations

import pytest

from topologies.runner.errors import UsageError
from topologies.runner.scenario.plan import (
    CutLink,
    DenyEvs,
    Impair,
    Reboot,
    RunPlan,
    SetRate,
    Swallow,
    make_plan,
)
from topologies.runner.targets.bmv2 import Bmv2
from topologies.runner.targets.softswitch import Softswitch
from topologies.scenario import Scenario
from topologies.scenario_loader import parse_scenario

SOFTSWITCH = Softswitch()
BMV2 = Bmv2.__new__(Bmv2)  # nothing of it is started
BMV2._cli = None


def scenario(fault: str) -> Scenario:
    return parse_scenario(
        "topology: two-plane\n"
        "traffic:\n  - transfer: {name: flow, from: h0, to: h2, size: 1MiB}\n"
        f"faults:\n  - {fault}\n",
        "test.yaml",
    )


def planned(fault: str, target: Softswitch | Bmv2 = SOFTSWITCH) -> RunPlan:
    return make_plan(scenario(fault), target)


CUT = "link_down: {name: cut, link: [p0-t0-0, p0-t1-1], at: 1s, for: 1s}"
PORT = "port_down: {name: port, host: h2, plane: 1, at: 1s}"
DEAD = "switch_dead: {name: dead, switch: p0-t1-0, at: 1s}"


@pytest.mark.parametrize(
    ("fault", "acts"),
    [
        (CUT, [CutLink("p0-t0-0--p0-t1-1", ("p0-t0-0", "p0-t1-1"))]),
        (PORT, [CutLink("h2--p1-t0-1", ("h2", "p1-t0-1"))]),
        (DEAD, [Swallow("p0-t1-0")]),
        ("switch_reboot: {switch: p0-t1-0, at: 1s, for: 1s}", [Reboot("p0-t1-0")]),
        (
            "slow_link: {link: [p0-t0-0, p0-t1-0], rate: 1Mbps, at: 1s}",
            [SetRate(("p0-t0-0", "p0-t1-0"), "1000000bps", "25Mbps")],
        ),
        (
            "loss: {link: [p0-t0-0, p0-t1-0], probability: 0.5, direction: up, at: 1s}",
            [Impair("p0-t0-0--p0-t1-0", "up", loss=0.5)],
        ),
        (
            "corruption: {link: [p0-t0-0, p0-t1-0], probability: 0.5, at: 1s}",
            [Impair("p0-t0-0--p0-t1-0", "both", corruption=0.5)],
        ),
        (
            "deny: {from: h0, to: h2, plane: 1, uplinks: [1], at: 1s}",
            [DenyEvs("h0", "h2", (9,))],
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_softswitch_does_what_the_scenario_says(fault: str, acts: list[object]) -> None:
    plan = planned(fault)
    assert list(plan.faults[0].acts) == acts
    assert plan.impaired_links == {act.link for act in acts if isinstance(act, Impair)}
    assert plan.notes == []


def test_a_path_that_loses_is_the_link_that_the_fewest_others_share() -> None:
    fault = "loss: {name: lossy, path: {from: h0, to: h2, plane: 0, uplink: 1}, probability: 0.2}"
    plan = planned(fault)
    assert list(plan.faults[0].acts) == [Impair("p0-t0-0--p0-t1-1", "up", loss=0.2)]
    assert "lossy: a box in p0-t0-0--p0-t1-1 treats all frames" in plan.notes[0]
    within_rack = planned(fault.replace("h2", "h1").replace("uplink: 1", "uplink: 0"))
    assert list(within_rack.faults[0].acts) == [Impair("h0--p0-t0-0", "up", loss=0.2)]


def test_bmv2_survives_a_cut_between_switches_since_a_box_makes_it() -> None:
    plan = planned(CUT, BMV2)
    assert list(plan.faults[0].acts) == [Impair("p0-t0-0--p0-t1-1", "both", loss=1.0)]
    assert plan.impaired_links == {"p0-t0-0--p0-t1-1"}
    assert "cut: bmv2 does not survive" in plan.notes[0] and "no signal" in plan.notes[0]
    assert list(planned(PORT, BMV2).faults[0].acts) == [CutLink("h2--p1-t0-1", ("h2", "p1-t0-1"))]


def test_boxes_in_all_its_links_make_a_black_hole_of_bmv2() -> None:
    plan = planned(DEAD, BMV2)
    assert plan.impaired_links == {"p0-t0-0--p0-t1-0", "p0-t0-1--p0-t1-0"}
    assert all(isinstance(act, Impair) and act.loss == 1.0 for act in plan.faults[0].acts)
    assert "dead: p0-t1-0 goes on working" in plan.notes[0]


@pytest.mark.parametrize(
    ("fault", "target", "why"),
    [
        ("duplication: {name: twice, link: [p0-t0-0, p0-t1-0], probability: 0.1}", SOFTSWITCH,
         "fault twice: not in real time on softswitch: nothing here delivers a frame twice"),
        ("delay: {name: late, link: [p0-t0-0, p0-t1-0], extra: 1ms}", SOFTSWITCH,
         "fault late: not in real time on softswitch: nothing here holds frames back"),
        ("slow_link: {name: slow, link: [p0-t0-0, p0-t1-0], rate: 1Mbps, at: 1s}", BMV2,
         "fault slow: not in real time on bmv2: the rates of this BMv2 cannot be set"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(
    fault: str, target: Softswitch | Bmv2, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(fault, target)
    text = str(caught.value)
    assert text.startswith(why)
    assert "\n" not in text and "--target sim" in text


def test_what_begins_as_another_ends_is_for_virtual_time() -> None:
    dead = "switch_dead: {name: dead, switch: p0-t1-0, at: 1s, for: 1s}"
    boot = "switch_reboot: {name: boot, switch: p0-t1-0, at: 2s, for: 1s}"
    with pytest.raises(UsageError, match=r"^fault boot: .*: dead ends on p0-t1-0 as this begins"):
        planned(f"{dead}\n  - {boot}")
    assert planned(f"{dead}\n  - {boot.replace('2s', '4s')}").faults
