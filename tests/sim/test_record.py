"""The record of a run in virtual time, and that making it changes nothing."""

from __future__ import annotations

import json

import pytest

from reports.page import page
from reports.record import RunRecord, from_json
from reports.result import RunResult
from sim.fabric_meter import FabricMeter
from sim.measure import MAX_SAMPLES
from sim.record import make_record
from sim.simulation import Simulation
from tests.sim.conftest import SMALL
from topologies.scenario_loader import parse_scenario

CUT = """\
faults:
  - link_down: {name: cut, link: [p1-t0-0, p1-t1-0], at: 20us, for: 40us}
  - loss: {name: bad-cable, link: [h0, p0-t0-0], probability: 0.01, at: 10us}
  - switch_dead: {name: never, switch: p0-t1-1, at: 1s}
"""


def simulate(extra: str = "", *, along_time: bool = True) -> tuple[Simulation, RunResult]:
    scenario = parse_scenario(SMALL + extra, "small.yaml", seed=0)
    simulation = Simulation(scenario, along_time=along_time)
    return simulation, simulation.run()


@pytest.fixture(name="made", scope="module")
def _made() -> tuple[RunRecord, RunResult]:
    simulation, result = simulate(CUT)
    return make_record(simulation, result), result


def test_sums_agree_with_the_result(made: tuple[RunRecord, RunResult]) -> None:
    record, result = made
    series = record.series
    lengths = {
        len(values)
        for values in (
            series.delivered_bytes,
            *series.plane_bytes,
            series.trimmed,
            series.marked,
            series.lost,
            series.retransmitted,
            series.queued,
            *(flow.delivered_bytes for flow in record.flows),
        )
    }
    assert len(lengths) == 1
    lost = sum(result.lost.values())
    assert lost > 0 and 0.9 * lost <= series.lost[-1] <= lost
    assert 0 < series.retransmitted[-1] <= result.total["retransmissions"]
    assert series.lost == sorted(series.lost)
    for plane, total in zip(series.plane_bytes, result.plane_bytes, strict=True):
        assert plane == sorted(plane) and 0.9 * total <= plane[-1] <= total
    assert max(series.queued) > 0


def test_links_say_what_they_carried(made: tuple[RunRecord, RunResult]) -> None:
    record, result = made
    links = {link.name: link for link in record.links}
    assert len(links) == 2 * (4 + 4)
    for plane, total in enumerate(result.plane_bytes):
        # Data and a little feedback, but for what was lost
        assert 0.9 * total < links[f"h0--p{plane}-t0-0"].up_bytes < 1.1 * total
        assert links[f"h1--p{plane}-t0-0"].up_bytes == 0


def test_faults_say_where_they_are(made: tuple[RunRecord, RunResult]) -> None:
    record, _ = made
    faults = {fault.name: fault for fault in record.faults}
    assert faults["cut"].links == ["p1-t0-0--p1-t1-0"] and faults["cut"].end_ns == 60_000
    assert faults["bad-cable"].links == ["h0--p0-t0-0"] and faults["bad-cable"].end_ns is None
    assert faults["never"].switches == ["p0-t1-1"] and not faults["never"].begun


def test_spans_are_of_evs_through_the_cut(made: tuple[RunRecord, RunResult]) -> None:
    record, _ = made
    out = [span for span in record.ev_spans if span.path == "plane 1 via p1-t1-0"]
    assert out and out[0].state == "ASSUMED_BAD" and out[0].cause == "timeout"
    assert (out[0].host, out[0].peer) == ("h0", "h2")
    assert out[0].start_ns >= 20_000 and (out[0].end_ns is None or out[0].end_ns > 60_000)


def test_paths_of_faults_are_said_in_words() -> None:
    simulation, result = simulate(
        "faults:\n  - deny: {name: no, from: h0, to: h2, plane: 1, uplinks: [1], at: 5us}\n"
    )
    assert make_record(simulation, result).faults[0].paths == ["h0 → h2, plane 1 via p1-t1-1"]


def test_runs_alike_give_pages_alike(made: tuple[RunRecord, RunResult]) -> None:
    record, _ = made
    simulation, result = simulate(CUT)
    assert page(make_record(simulation, result)) == page(record)
    assert from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_run_is_the_same_with_and_without(made: tuple[RunRecord, RunResult]) -> None:
    _, result = made
    simulation, plain = simulate(CUT, along_time=False)
    assert plain.to_json() == result.to_json()
    assert simulation.meter.fabric_samples == []
    with pytest.raises(ValueError, match="along_time"):
        make_record(simulation, plain)


def test_series_stay_together_when_the_interval_doubles() -> None:
    scenario = parse_scenario(SMALL, "small.yaml", seed=0, changes=["measure.interval=10ns"])
    simulation = Simulation(scenario, along_time=True)
    result = simulation.run()
    assert result.interval_ns == 20
    record = make_record(simulation, result)
    assert len(record.series.lost) == len(record.series.delivered_bytes) <= MAX_SAMPLES + 1
    assert record.series.plane_bytes[0] == sorted(record.series.plane_bytes[0])


def test_losses_are_those_of_the_books() -> None:
    simulation, _ = simulate(CUT)
    account = simulation.network.account()
    _, _, lost, _, queued = FabricMeter(simulation.network).read()[2:]
    assert lost == sum(account.lost.values()) > 0
    for switch in simulation.network.switches.values():
        stats = switch.switch.stats()
        assert switch.switch.dropped_and_queued() == (sum(stats.dropped.values()), stats.queued)
        queued -= stats.queued
    assert queued == 0
