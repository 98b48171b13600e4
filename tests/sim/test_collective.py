"""Collectives in scenarios: whole runs in virtual time, with loss and links that are cut."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from reports.result import CollectiveResult
from reports.terminal import print_result
from tests.sim.conftest import RunScenario, Simulate, topology
from topologies.scenario_loader import ScenarioFileError, parse_scenario

#: Three racks of three hosts
NINE = topology(t0_per_plane=3, hosts_per_t0=3)
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv", "broadcast"]


def traffic(op: str, *more: str) -> str:
    fields = ", ".join([f"op: {op}", *more])
    return f"traffic:\n  - collective: {{{fields}}}\n"


def run(run_scenario: RunScenario, extra: str) -> CollectiveResult:
    result = run_scenario(extra, base=NINE)
    assert result.failures == []
    (collective,) = result.collectives
    assert collective.done and not collective.wrong_elements
    return collective


@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("ranks", [2, 5, 9])
def test_every_collective(run_scenario: RunScenario, op: str, ranks: int) -> None:
    # Not a whole number of blocks, chunks or packets
    size = 4 * (2357 * ranks + 1)
    collective = run(
        run_scenario, traffic(op, f"size: {size}B", f"ranks: {ranks}", "order: spread", "repeat: 2")
    )
    assert len(collective.hosts) == ranks
    assert len(collective.round_ns) == 2
    assert collective.bus_bps > 1e9


@pytest.mark.parametrize("size", ["0B", "4B", "8B", "36B"])
def test_hardly_any_bytes(run_scenario: RunScenario, size: str) -> None:
    run(run_scenario, traffic("all-reduce", f"size: {size}", "ranks: 5"))


def test_one_rank_needs_nobody(run_scenario: RunScenario) -> None:
    collective = run(run_scenario, traffic("all-reduce", "size: 4KiB", "ranks: 1"))
    assert collective.packets == 0


def test_the_result_is_bounded_by_the_line_rate(run_scenario: RunScenario) -> None:
    """Bus bandwidth is what a link carries, so it cannot be more; and large sizes come near."""
    collective = run(run_scenario, traffic("all-reduce", "size: 2MiB", "hosts: [h0, h3, h6]"))
    share = collective.bus_share(1.0)
    assert share is not None and 0.75 < share < 0.97
    assert collective.algorithm_bps * 4 / 3 == pytest.approx(collective.bus_bps)
    assert collective.completion_ns == collective.round_ns[0]


@pytest.mark.parametrize("op", ["all-reduce", "all-to-all"])
def test_loss_and_a_cut_link_cost_time_and_no_element(run_scenario: RunScenario, op: str) -> None:
    text = traffic(op, "size: 512KiB", "ranks: 6", "order: spread", "in_place: true", "qps: 2")
    calm = run(run_scenario, text)
    faults = (
        "faults:\n"
        "  - loss: {tier: host, probability: 0.005}\n"
        "  - link_down: {link: [p0-t0-0, p0-t1-1], at: 10us}\n"
    )
    harmed = run(run_scenario, text + faults)
    assert harmed.retransmissions > 0 and calm.retransmissions == 0
    assert harmed.round_ns[0] > calm.round_ns[0]


def test_a_rank_out_of_reach_fails_the_collective_on_every_rank(run_scenario: RunScenario) -> None:
    """The ring is broken at one rank; the others still reach each other."""
    text = (
        traffic("all-reduce", "size: 256KiB", "hosts: [h0, h3, h6, h1]")
        + "faults:\n  - switch_dead: {switch: 'p*-t0-1', at: 5us}\n"
        + "endpoint: {timeout: 3, linear_retries: 2, exponential_retries: 1}\n"
        + "expect: {collectives: [{status: error}]}\n"
    )
    result = run_scenario(text, base=NINE)
    (collective,) = result.collectives
    why = collective.failures
    assert set(why) == {"h0", "h3", "h6", "h1"}
    # Rank 1 itself may blame any of its neighbours
    del why["h3"]
    assert all("of rank 1: its queue pair ended, retry counter" in each for each in why.values())
    assert result.failures == []


def test_beside_a_flow_and_with_expectations_that_do_not_hold(run_scenario: RunScenario) -> None:
    text = (
        "traffic:\n"
        "  - transfer: {name: there, from: h0, to: h8, size: 64KiB}\n"
        "  - collective: {name: sum, op: all-reduce, size: 64KiB, hosts: [h1, h4], start: 1us,"
        " dtype: int64, reduce: max}\n"
        "expect:\n"
        "  collectives:\n"
        "    - {collective: sum, completion_max: 1us, bus_share_min: 0.99,"
        " bus_bandwidth_min: 200Gbps}\n"
    )
    result = run_scenario(text, base=NINE)
    assert [failure.split(":")[0] for failure in result.failures] == ["sum"] * 3
    assert result.flow("there").done and result.collective("sum").done
    assert result.total["packets"] == 16 + result.collective("sum").packets
    document = json.loads(json.dumps(result.to_json()))
    assert document["collectives"][0]["reduce_op"] == "max"
    with pytest.raises(KeyError):
        result.collective("other")


def test_the_report_has_a_row_for_each_collective(simulate: Simulate) -> None:
    text = (
        "traffic:\n"
        "  - collective: {op: all-reduce, size: 64KiB, ranks: 4, repeat: 2, reduce: max}\n"
        "  - collective: {name: sheds, op: all-to-all, size: 64KiB, ranks: 3, dtype: int64}\n"
    )
    simulation = simulate(text, base=NINE)
    result = simulation.run()
    out = io.StringIO()
    print_result(Console(file=out, width=130), simulation.scenario.fabric, result)
    rows = [line.split() for line in out.getvalue().splitlines()]
    of_line = result.collective("all-reduce").bus_share(result.payload_share)
    assert of_line is not None
    first = next(row for row in rows if row[:1] == ["all-reduce"])
    assert first[1:7] == ["(float32", "max)", "4", "64KiB", "2", "yes"]
    assert f"{100 * of_line:.1f}" in first
    second = next(row for row in rows if row[:1] == ["sheds"])
    # 8,192 elements are rounded down to three whole blocks
    assert second[1:7] == ["(all-to-all", "int64)", "3", "65520B", "1", "yes"]
    # Nothing but collectives: no table of flows
    assert ["flows"] not in rows


def test_runs_repeat(run_scenario: RunScenario) -> None:
    text = traffic("all-to-all", "size: 64KiB", "ranks: 4") + (
        "faults:\n  - loss: {tier: fabric, probability: 0.02}\n"
    )
    first = run_scenario(text, base=NINE, seed=3).to_json()
    assert first == run_scenario(text, base=NINE, seed=3).to_json()
    assert first != run_scenario(text, base=NINE, seed=4).to_json()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("{op: all-reduc, size: 1KiB}", "traffic[0].collective.op: 'all-reduc': did you mean"),
        ("{op: all-reduce}", "traffic[0].collective.size: is missing"),
        ("{op: all-reduce, size: 1KiB, ranks: 10}", "ranks: 10 is too large: "),
        ("{op: all-reduce, size: 1KiB, ranks: 2, hosts: [h0]}", "hosts and ranks say the same"),
        ("{op: all-reduce, size: 1KiB, hosts: [h0, h0]}", "hosts[1]: h0 stands there twice"),
        ("{op: all-reduce, size: 1KiB, hosts: [h0, h99]}", "hosts[1]: "),
        ("{op: broadcast, size: 1KiB, root: 9}", "root: 9 does not fit: there are ranks 0..8"),
        ("{op: send-recv, size: 1KiB, in_place: true}", "in_place: send-recv needs two buffers"),
        ("{op: all-reduce, size: 1KiB, chunk: 0B}", "chunk: a chunk has at least 1B"),
        ("{op: all-reduce, size: 1KiB, dtype: float64}", "dtype: 'float64': did you mean float32"),
    ],
)  # fmt: skip
def test_what_a_scenario_cannot_say(item: str, message: str) -> None:
    with pytest.raises(ScenarioFileError) as caught:
        parse_scenario(NINE + f"traffic:\n  - collective: {item}\n", "nine.yaml")
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]


def test_names_orders_and_patterns() -> None:
    text = NINE + (
        "traffic:\n"
        "  - collective: {op: all-reduce, size: 1KiB}\n"
        "  - collective: {op: all-reduce, size: 1KiB, order: spread, ranks: 4}\n"
        "expect: {collectives: [{collective: '*-reduce2'}]}\n"
    )
    scenario = parse_scenario(text, "nine.yaml")
    first, second = scenario.collectives
    assert (first.name, second.name) == ("all-reduce", "all-reduce2")
    assert first.hosts == tuple(f"h{number}" for number in range(9))
    assert second.hosts == ("h0", "h3", "h6", "h1")
    assert scenario.expect.collectives[0].collectives == ("all-reduce2",)
    with pytest.raises(ScenarioFileError, match="'none' matches no collective"):
        parse_scenario(text.replace("'*-reduce2'", "none"), "nine.yaml")
