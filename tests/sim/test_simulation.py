"""Whole runs: every byte arrives, every frame is accounted for, and runs repeat exactly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from reports.result import RunResult
from tests.sim.conftest import SMALL, RunScenario, Simulate

#: Faults of every kind, one after the other
ALL_FAULTS = """\
  - transfer: {name: back, from: h2, to: h0, size: 256KiB, repeat: 3, op: write_imm}
faults:
  - loss: {name: loss, tier: fabric, probability: 0.01}
  - corruption: {name: corruption, tier: host, probability: 0.01}
  - duplication: {name: duplication, link: [p0-t0-0, p0-t1-0], probability: 0.1, direction: up}
  - delay: {name: delay, switch: p1-t1-1, extra: 300ns, jitter: 2us}
  - link_down: {name: down, link: [p0-t0-1, p0-t1-1], at: 10us, for: 10us, times: 2, every: 25us}
  - port_down: {name: port, host: h0, plane: 1, at: 20us, for: 20us}
  - slow_link: {name: slow, link: [p1-t0-0, p1-t1-0], rate: 10Gbps, at: 5us, for: 30us}
  - switch_dead: {name: dead, switch: p0-t1-0, at: 30us, for: 20us}
  - switch_reboot: {name: reboot, switch: p1-t0-1, at: 60us, for: 30us}
"""


def comparable(result: RunResult) -> str:
    return json.dumps(result.to_json(), sort_keys=True)


def digest(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def test_a_transfer_arrives_and_its_frames_are_accounted_for(run_scenario: RunScenario) -> None:
    result = run_scenario()
    (flow,) = result.flows
    assert result.failures == []
    assert flow.done and flow.completed_bytes == 1 << 20
    assert flow.packets == 256
    assert result.sent == result.received + result.in_flight
    assert result.lost == {}
    # The last bit of 1 MiB cannot be there sooner than the line rate lets it
    assert flow.completion_ns is not None
    assert flow.completion_ns > (1 << 20) * 8 / 200e9 * 1e9


def test_the_first_packet_takes_a_base_rtt(run_scenario: RunScenario) -> None:
    result = run_scenario(changes=["traffic[0].transfer.size=4096B", "endpoint.sack_delay=0ns"])
    (flow,) = result.flows
    # Completion waits for the transport ACK, which is as long as a SACK within a few bytes
    assert flow.completion_ns == pytest.approx(result.base_rtt_ns, abs=100)


def test_runs_repeat_to_the_byte_of_their_captures(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    first = run_scenario(ALL_FAULTS, pcap=tmp_path / "one", seed=7)
    second = run_scenario(ALL_FAULTS, pcap=tmp_path / "two", seed=7)
    other = run_scenario(ALL_FAULTS, pcap=tmp_path / "three", seed=8)
    assert comparable(first) == comparable(second)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    assert digest(tmp_path / "one") != digest(tmp_path / "three")
    assert comparable(first) != comparable(other)


def test_capturing_changes_nothing(run_scenario: RunScenario, tmp_path: Path) -> None:
    with_captures = run_scenario(ALL_FAULTS, pcap=tmp_path)
    assert comparable(with_captures) == comparable(run_scenario(ALL_FAULTS))


@pytest.mark.parametrize("seed", range(4))
def test_every_fault_at_once_and_still_every_byte_and_frame(
    run_scenario: RunScenario, seed: int
) -> None:
    result = run_scenario(ALL_FAULTS, seed=seed)
    assert result.failures == []
    assert result.unaccounted == 0
    assert all(fault.begun for fault in result.faults)
    assert sum(result.lost.values()) > 0
    assert result.corrupted > 0 and result.duplicated > 0


def test_a_captured_port_shows_what_the_other_end_sees(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    extra = "duration: 200us\nstop: duration\n"
    run_scenario(extra, pcap=tmp_path, changes=["traffic[0].transfer.size=64KiB"])
    assert (tmp_path / "h0-plane0.pcap").exists()
    # Both ends of a link without faults capture the same frames
    upper = (tmp_path / "p0-t0-0-port0.pcap").stat().st_size
    assert (tmp_path / "h0-plane0.pcap").stat().st_size == upper


def test_another_host_changes_nobody_elses_draws(simulate: Simulate) -> None:
    small, large = simulate(), simulate(changes=["topology.hosts_per_t0=3"])
    name = "h0"
    seeds = [
        [simulation.network.hosts[name].nic._rng.getrandbits(64) for _ in range(4)]
        for simulation in (small, large)
    ]
    assert seeds[0] == seeds[1]


def test_duration_ends_a_run(run_scenario: RunScenario) -> None:
    result = run_scenario("duration: 10us\n")
    assert result.now_ns == 10_000
    assert any("not complete" in failure for failure in result.failures)


def test_stop_duration_goes_on_when_traffic_is_done(run_scenario: RunScenario) -> None:
    result = run_scenario("duration: 500us\nstop: duration\n")
    assert result.failures == []
    assert result.now_ns == 500_000
    assert result.done_ns is not None and result.done_ns < 100_000
    assert result.in_flight == 0


def test_until_posts_for_a_time(run_scenario: RunScenario) -> None:
    base = SMALL.replace("size: 1MiB", "size: 64KiB, until: 50us")
    (flow,) = run_scenario(base=base).flows
    assert flow.done
    assert flow.completed_messages > 10
    assert flow.completion_ns is not None and 50_000 <= flow.completion_ns < 70_000


def test_queue_pairs_of_a_flow_have_messages_of_their_own(run_scenario: RunScenario) -> None:
    base = SMALL.replace("size: 1MiB", "size: 20000B, qps: 5, repeat: 3, op: write_imm, depth: 3")
    (flow,) = run_scenario(base=base).flows
    assert flow.completed_messages == 15
    assert flow.wrong_bytes == 0 and flow.problems == {}


def test_a_transfer_without_any_path_fails(run_scenario: RunScenario) -> None:
    extra = """\
faults:
  - link_down: {host: h2}
endpoint: {timeout: 0, linear_retries: 1, exponential_retries: 1}
expect:
  flows: [{status: error}]
"""
    result = run_scenario(extra)
    assert result.failures == []
    assert result.flows[0].errors
    assert result.unaccounted == 0


def test_a_wrong_byte_in_memory_fails_the_run(simulate: Simulate) -> None:
    from reports.verdict import failures

    simulation = simulate()
    (channel,) = simulation.flows[0].channels
    slots = channel.slots

    def spoil(now_ns: int, a: object, b: object) -> None:
        slots.buffer[slots.offset(0) - 1] ^= 1

    simulation.loop.at(1000, spoil)
    result = simulation.run()
    assert "there: 1 bytes of memory are wrong" in failures(simulation.scenario, result)


def test_a_run_can_be_looked_at_and_then_finished(simulate: Simulate) -> None:
    simulation = simulate()
    simulation.loop.run(until_ns=10_000)
    assert 0 < simulation.flows[0].delivered_bytes() < 1 << 20
    result = simulation.run()
    assert result.flows[0].done
    # And one that is over already is over
    simulation = simulate()
    simulation.loop.run(until_ns=1_000_000)
    assert simulation.run().flows[0].done


def test_a_run_that_is_stuck_ends(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.simulation.STUCK_NS", 20_000_000)
    monkeypatch.setattr("sim.simulation._EVENTS_PER_LOOK", 100)
    extra = "faults:\n  - link_down: {host: h2}\nendpoint: {exponential_retries: 25}\n"
    result = simulate(extra).run()
    assert not result.flows[0].done
    assert 20_000_000 <= result.now_ns < 200_000_000
