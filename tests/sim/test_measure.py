"""Rates over time and what faults do to them."""

from __future__ import annotations

import pytest

from sim import measure
from tests.sim.conftest import SMALL, RunScenario, Simulate
from topologies.loader import find_topology, load_topology
from topologies.model import Fabric
from topologies.timing import base_rtt_ns, line_rate_bps, payload_share

LONG = SMALL.replace("size: 1MiB", "size: 64KiB, until: 600us, depth: 16")


def test_samples_add_up(run_scenario: RunScenario) -> None:
    result = run_scenario(changes=["measure.interval=1us"])
    (flow,) = result.flows
    samples = flow.delivered_samples
    assert samples[0] == 0 and samples == sorted(samples)
    assert samples == result.delivered_bytes
    assert (1 << 20) - samples[-1] < 200e9 / 8 * 4e-6
    assert len(samples) == result.now_ns // 1000 + 1


def test_long_runs_keep_a_bounded_number_of_samples(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MAX_SAMPLES", 16)
    simulation = simulate(changes=["measure.interval=1us"])
    result = simulation.run()
    assert result.interval_ns in (4000, 8000)
    assert len(result.delivered_bytes) <= 17
    # Sample i is still what was delivered at i times the interval
    fine = simulate(changes=["measure.interval=1us"])
    monkeypatch.setattr(measure, "MAX_SAMPLES", 1 << 20)
    samples = fine.run().delivered_bytes
    step = result.interval_ns // 1000
    assert result.delivered_bytes == samples[::step][: len(result.delivered_bytes)]


def test_a_port_down_halves_the_rate_and_the_repair_restores_it(
    run_scenario: RunScenario,
) -> None:
    extra = "faults:\n  - port_down: {name: port, host: h2, plane: 0, at: 200us, for: 200us}\n"
    port = run_scenario(extra, base=LONG).fault("port")
    assert port.rate_before_bps == pytest.approx(192e9, rel=0.03)
    assert port.lowest_rate_bps is not None and port.lowest_rate_bps < 110e9
    assert port.full_rate_ns is None
    assert port.recovery_ns is not None and port.recovery_ns < 60_000
    assert port.packets_after > 0


def test_a_cut_link_is_found_out_and_used_again(run_scenario: RunScenario) -> None:
    extra = (
        "faults:\n  - link_down: {name: cut, link: [p0-t0-0, p0-t1-1], at: 100us, for: 50us}\n"
        "endpoint: {timeout: 4}\n"
    )
    result = run_scenario(extra, base=LONG)
    cut = result.fault("cut")
    assert cut.evs_out == 1
    assert cut.first_out_ns == cut.last_out_ns
    # The last packet leaves when the first one sent into it times out
    assert cut.last_out_ns is not None and cut.last_packet_ns is not None
    assert cut.last_packet_ns <= cut.last_out_ns <= 16_384 + 5_000
    assert cut.packets_after > 0
    outs = [each for each in result.transitions if each.new == "ASSUMED_BAD"]
    assert [(each.host, each.peer) for each in outs] == [("h0", "h2")]


@pytest.fixture(name="fabric", scope="module")
def _fabric() -> Fabric:
    return load_topology(find_topology("eight-plane"))


def test_base_rtt_is_wire_times_and_delays(fabric: Fabric) -> None:
    near, far = fabric.host("h1"), fabric.host("h4")
    # 4,238 + 24 and 154 + 24 bytes at 100 Gb/s over four links, 500 ns each way
    assert base_rtt_ns(fabric, fabric.host("h0"), far) == 4 * (341 + 15 + 1000)
    assert base_rtt_ns(fabric, fabric.host("h0"), near) == 2 * (341 + 15 + 1000)


def test_line_rate_and_payload_share(fabric: Fabric) -> None:
    assert line_rate_bps(fabric, fabric.host("h3")) == 800 * 10**9
    assert payload_share(fabric) == pytest.approx(4096 / 4262)
    assert line_rate_bps(Fabric("x", 2, 1, 1, 1), fabric.host("h0")) is None


def test_the_end_of_a_transfer_is_no_dip(run_scenario: RunScenario) -> None:
    """Its last interval is full in part only, and that is no fault's doing."""
    extra = (
        "faults:\n  - loss: {name: harmless, link: [p0-t0-0, p0-t1-1], at: 20us, probability: 0}\n"
    )
    for size in range(1024, 1024 + 128, 16):
        changes = [f"traffic[0].transfer.size={size}KiB", "measure.interval=2us"]
        fault = run_scenario(extra, changes=changes).fault("harmless")
        assert fault.full_rate_ns == 0, size
