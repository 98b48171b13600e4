"""Expectations: each one is met or named."""

from __future__ import annotations

import pytest

from reports.result import jain_index
from tests.sim.conftest import SMALL, RunScenario
from topologies.units import delay_text

TWO = SMALL + "  - transfer: {name: back, from: h3, to: h1, size: 64KiB}\n"
CUT = "faults:\n  - link_down: {name: cut, link: [p0-t0-0, p0-t1-1], at: 5us}\n"


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("complete: true", None),
        ("flows: [{flow: there, goodput_min: 1Gbps}]", None),
        ("flows: [{flow: there, goodput_min: 1Tbps}]", "there: goodput "),
        ("flows: [{flow: there, goodput_share_min: 0.5}]", None),
        ("flows: [{flow: there, goodput_share_min: 0.999}]", "there: goodput is "),
        ("flows: [{flow: there, goodput_share_max: 0.999}]", None),
        ("flows: [{flow: there, goodput_share_max: 0.5}]", "there: goodput is "),
        ("flows: [{flow: there, completion_max: 1ms}]", None),
        ("flows: [{flow: back, completion_max: 1us}]", "back: complete in "),
        ("flows: [{jain_min: 0.999}]", "*: Jain's index "),
        ("flows: [{jain_min: 0.5}]", None),
        ("flows: [{flow: there, total_share_min: 0.999}]", "there: together "),
        ("flows: [{flow: back, status: error}]", "back: no work request failed, expected one to"),
        ("lost_max: 0", None),
        ("timeouts_max: 0", None),
        ("trimmed_min: 1", "packets trimmed: 0, expected at least 1"),
        ("trimmed_max: 0", None),
        ("plane_share_within: 0.5", None),
    ],
)
def test_expectations_of_a_run_without_faults(
    run_scenario: RunScenario, expect: str, complaint: str | None
) -> None:
    failures = run_scenario(f"expect:\n  {expect}\n", base=TWO).failures
    if complaint is None:
        assert failures == []
    else:
        (failure,) = failures
        assert failure.startswith(complaint)


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("lost_max: 0", "frames lost: "),
        ("timeouts_max: 0", "local ACK timeouts: "),
        ("retransmissions_max: 0", "retransmissions: "),
        ("faults: [{lost_max: 1000000}]", None),
        ("faults: [{lost_max: 0}]", "cut: cost "),
        ("faults: [{last_packet_max: 1ns}]", "cut: data was sent into it for "),
        ("faults: [{last_packet_max_rtts: 0.01}]", "cut: data was sent into it for "),
        ("faults: [{last_packet_max_rtts: 100.0}]", None),
        ("faults: [{evs_out_min: 1}]", None),
        ("faults: [{evs_out_min: 3}]", "cut: 1 EVs went out of use, expected at least 3"),
    ],
)
def test_expectations_of_faults(
    run_scenario: RunScenario, expect: str, complaint: str | None
) -> None:
    failures = run_scenario(f"{CUT}expect:\n  {expect}\n").failures
    if complaint is None:
        assert failures == []
    else:
        (failure,) = failures
        assert failure.startswith(complaint)


def test_what_frames_without_paths_went_into_is_not_known(run_scenario: RunScenario) -> None:
    extra = f"{CUT}expect:\n  faults: [{{last_packet_max: 1s}}]\n"
    result = run_scenario(extra, changes=["endpoint.forwarding=ecmp"])
    assert result.fault("cut").lost and not result.fault("cut").sent_known
    (failure,) = result.failures
    assert failure.startswith("cut: nobody knows how long data was sent into it")


@pytest.mark.parametrize("limit", ["last_packet_max: 1s", "last_packet_max_rtts: 1.0"])
def test_nothing_is_sent_into_a_denial_so_nothing_of_it_is_taken_for_met(
    run_scenario: RunScenario, limit: str
) -> None:
    deny = "faults:\n  - deny: {name: no, from: h0, to: h2, plane: 0, uplinks: [1], at: 5us}\n"
    result = run_scenario(f"{deny}expect:\n  faults: [{{{limit}}}]\n")
    assert result.fault("no").begun and not result.fault("no").sent_known
    (failure,) = result.failures
    assert failure.startswith("no: nobody knows how long data was sent into it: a denial")


@pytest.mark.parametrize(
    ("expect", "named"),
    [
        ("", True),
        ("expect:\n  faults: [{lost_max: 5}]\n", True),
        ("expect:\n  faults_begin: false\n", False),
        ("expect:\n  faults_begin: false\n  faults: [{fault: cut, lost_max: 5}]\n", True),
    ],
)
def test_a_fault_that_never_began_is_named_once(
    run_scenario: RunScenario, expect: str, named: bool
) -> None:
    result = run_scenario(CUT.replace("5us", "1s") + expect)
    told = f"cut: never began, the run was over at {delay_text(result.now_ns)}"
    assert result.failures == ([told] if named else [])


def test_one_bad_plane_is_named(run_scenario: RunScenario) -> None:
    extra = "faults:\n  - port_down: {host: h2, plane: 1}\nexpect:\n  plane_share_within: 0.01\n"
    failures = run_scenario(extra).failures
    assert [failure.split(":")[0] for failure in failures] == ["plane 0", "plane 1"]


def test_jain_index() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain_index([]) == 1.0
    assert jain_index([0.0, 0.0]) == 1.0
