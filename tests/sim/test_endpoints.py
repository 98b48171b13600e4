"""Times of endpoints follow from the fabric, where a scenario does not set them."""

from __future__ import annotations

from reports.verdict import failures
from sim.endpoints import nic_changes
from sim.simulation import Simulation
from tests.sim.conftest import RunScenario, simulate
from topologies.scenario_loader import find_scenario, load_scenario, parse_scenario

TWO_PLANE = "topology: two-plane\ntraffic:\n  - transfer: {from: h0, to: h2, size: 256KiB}\n"


def test_a_slow_fabric_has_long_timeouts_unless_they_are_set() -> None:
    derived = nic_changes(parse_scenario(TWO_PLANE, "x"))["qp"]
    assert derived.timeout == 16 and derived.sack_delay_ns == 568_320
    assert derived.exponential_retries == 5
    given = nic_changes(parse_scenario(TWO_PLANE + "endpoint: {timeout: 14}\n", "x"))["qp"]
    assert given.timeout == 14 and given.sack_delay_ns == 568_320


def test_nothing_times_out_where_nothing_is_lost(run_scenario: RunScenario) -> None:
    result = run_scenario("", base=TWO_PLANE + "expect: {timeouts_max: 0, lost_max: 0}\n")
    assert not result.failures and result.flows[0].done


def test_a_full_queue_of_the_last_hop_is_no_timeout() -> None:
    # Of all queues the one that marks nothing fills whole, with windows that nothing holds back
    extra = (
        "endpoint: {congestion: {controller: fixed-window, cwnd_bytes: 65536}}\n"
        "traffic:\n  - incast: {to: h0, from: [h1, h2, h3], size: 512KiB}\n"
    )
    base = simulate().scenario
    assert nic_changes(base)["qp"].timeout == 6
    text = "topology: two-plane\n" + extra
    simulation = Simulation(parse_scenario(text, "x"))
    result = simulation.run()
    assert result.total["timeouts"] == 0 and all(flow.done for flow in result.flows)


def test_quickstart_in_small() -> None:
    changes = [
        "traffic[0].collective.size=1MiB",
        "traffic[0].collective.repeat=1",
        "faults[0].link_down.at=50ms",
        "faults[0].link_down.for=150ms",
        "traffic[1].incast.size=64KiB",
        "traffic[1].incast.start=350ms",
    ]
    scenario = load_scenario(find_scenario("quickstart"), changes=changes)
    result = Simulation(scenario).run()
    assert failures(scenario, result) == []
    assert result.collectives[0].wrong_elements == 0
    # One of the two uplinks is gone, and no rack has more than one flow for them
    assert result.fault("cut").evs_out == 2
    assert result.trimmed >= 1
