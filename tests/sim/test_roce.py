"""Whole runs over RoCE, and beside them the same over MRC."""

from __future__ import annotations

import pytest

from host.congestion.dcqcn import DcqcnConfig
from host.endpoint_settings import SettingsError
from reports.result import FlowResult, RunResult
from sim.simulation import Simulation
from tests.sim.conftest import RunScenario, Simulate, topology
from topologies.scenario_loader import ScenarioFileError, parse_scenario

#: One plane; the racks are joined by `t1_per_plane` ways
ONE_PLANE = (
    topology(planes=1, t1_per_plane=1)
    + """\
endpoint: {transport: roce}
traffic:
  - transfer: {name: a, from: h0, to: h2, size: 4MiB}
"""
)
MRC = "endpoint={transport: mrc}"
SECOND = "  - transfer: {name: b, from: h1, to: h3, size: 4MiB}\n"


def share(result: RunResult, flow: FlowResult) -> float:
    """Goodput over what payload can have of the sender's line rate."""
    assert flow.line_rate_bps is not None
    return flow.goodput_bps / (flow.line_rate_bps * result.payload_share)


def uplinks(simulation: Simulation) -> list[tuple[str, int]]:
    """Ports of the first rack's switches from which data went up: (switch, port)."""
    hosts = simulation.network.fabric.hosts_per_t0
    return [
        (name, port)
        for name, node in simulation.network.switches.items()
        if name.endswith("t0-0")
        for port, stats in node.switch.stats().ports.items()
        if port >= hosts and stats.tx_packets
    ]


def test_one_transfer_alone_has_the_line(run_scenario: RunScenario) -> None:
    result = run_scenario(base=ONE_PLANE)
    (flow,) = result.flows
    assert result.failures == []
    assert flow.done and flow.completed_bytes == 4 << 20
    assert (flow.packets, flow.retransmissions, flow.timeouts, flow.sacks) == (1024, 0, 0, 0)
    assert 0.95 < share(result, flow) <= 1
    # Data, an ACK for every 16 packets, and that of the last; nothing is trimmed
    assert result.sent == 1024 + 64 + 1
    assert result.trimmed == 0
    # Plain IPv6: 78 bytes around a payload, and 24 around the frame
    assert result.payload_share == pytest.approx(4096 / (4096 + 78 + 24))


@pytest.mark.parametrize("qps", [4, 16])
def test_queue_pairs_share_a_transfer(run_scenario: RunScenario, qps: int) -> None:
    changes = [f"traffic[0].transfer.qps={qps}", "traffic[0].transfer.repeat=3"]
    changes.append("traffic[0].transfer.size=1000001B")
    result = run_scenario(base=ONE_PLANE, changes=changes)
    (flow,) = result.flows
    assert result.failures == []
    # The same bytes and messages as on one
    assert flow.total_bytes == flow.completed_bytes == 3_000_003
    assert flow.completed_messages == len(flow.message_ns) == 3
    assert flow.wrong_bytes == 0
    assert share(result, flow) > 0.9


def test_queue_pairs_of_mrc_do_not_unless_told(run_scenario: RunScenario) -> None:
    changes = [MRC, "traffic[0].transfer.qps=4", "traffic[0].transfer.size=64KiB"]
    (flow,) = run_scenario(base=ONE_PLANE, changes=changes).flows
    assert flow.completed_bytes == 4 << 16
    (flow,) = run_scenario(
        base=ONE_PLANE, changes=[*changes, "traffic[0].transfer.stripe=true"]
    ).flows
    assert flow.completed_bytes == 1 << 16
    assert flow.completed_messages == 1


def test_a_striped_message_ends_with_its_last_part(run_scenario: RunScenario) -> None:
    changes = ["traffic[0].transfer.qps=16", "traffic[0].transfer.size=20000B"]
    changes += ["traffic[0].transfer.op=write_imm", "traffic[0].transfer.repeat=20"]
    result = run_scenario(base=ONE_PLANE, changes=changes)
    (flow,) = result.flows
    # Five packets: no more queue pairs than that have something to do
    assert flow.packets == 20 * 5
    assert flow.completed_messages == 20
    assert result.failures == [] and flow.problems == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_pair_keeps_to_one_path(simulate: Simulate, seed: int) -> None:
    changes = ["topology.planes=4", "topology.t1_per_plane=4", "traffic[0].transfer.size=256KiB"]
    simulation = simulate(base=ONE_PLANE, changes=changes, seed=seed)
    simulation.run()
    planes = simulation.network.hosts["h0"].plane_bytes
    assert sorted(planes)[:3] == [0, 0, 0] and sum(planes) > 256 << 10
    assert len(uplinks(simulation)) == 1


def test_many_queue_pairs_take_many_paths(simulate: Simulate) -> None:
    changes = ["topology.t1_per_plane=4", "traffic[0].transfer.qps=16"]
    simulation = simulate(base=ONE_PLANE, changes=changes)
    simulation.run()
    assert len(uplinks(simulation)) >= 3


def test_two_on_one_link_share_it(run_scenario: RunScenario) -> None:
    changes = ["traffic[0].transfer.size=16MiB", "traffic[1].transfer.size=16MiB"]
    result = run_scenario(SECOND, base=ONE_PLANE, changes=changes)
    first, second = result.flows
    assert result.failures == []
    assert result.lost == {} and result.marked > 0
    assert first.ecn_marked > 0 and second.ecn_marked > 0
    shares = [share(result, flow) for flow in result.flows]
    assert sum(shares) > 0.8
    assert min(shares) / max(shares) > 0.8


def test_without_congestion_control_the_queue_is_what_stops_it(run_scenario: RunScenario) -> None:
    changes = ["endpoint.congestion={controller: none}"]
    result = run_scenario(SECOND, base=ONE_PLANE, changes=changes)
    assert result.failures == []
    # Not trimmed, since nobody could tell what it was: dropped, and named
    assert result.trimmed == 0
    assert set(result.lost) == {"data queue full"}
    assert sum(flow.retransmissions for flow in result.flows) >= result.lost["data queue full"]
    # Whose packets all met a full queue heard of it by a timeout
    assert sum(flow.nacks + flow.timeouts for flow in result.flows) > 0
    assert all(flow.wrong_bytes == 0 for flow in result.flows)


#: Up from one host
LOSS = "faults:\n  - loss: {link: [h0, p0-t0-0], direction: up, probability: 0.01}\n"


def test_a_loss_costs_a_round_trip_of_packets(run_scenario: RunScenario) -> None:
    """Go-back-N: what is lost with a packet is all that was behind it on the way."""
    result = run_scenario(LOSS, base=ONE_PLANE, changes=["topology.links.fabric.delay=5us"])
    (flow,) = result.flows
    assert result.failures == []
    losses = result.lost["random loss"]
    # 24 µs of 100 Gb/s are 71 packets; some are lost while they are sent again
    assert losses > 10
    assert 40 * losses < flow.retransmissions < 100 * losses


def test_loss_hurts_more_than_it_hurts_mrc(run_scenario: RunScenario) -> None:
    far = ["topology.links.fabric.delay=20us", "traffic[0].transfer.size=8MiB"]
    roce = run_scenario(LOSS, base=ONE_PLANE, changes=far)
    mrc = run_scenario(LOSS, base=ONE_PLANE, changes=[*far, MRC])
    assert roce.failures == mrc.failures == []
    (over_roce,), (over_mrc,) = roce.flows, mrc.flows
    assert over_mrc.retransmissions <= mrc.lost["random loss"]
    assert over_roce.goodput_bps < over_mrc.goodput_bps / 2


def test_a_collective(run_scenario: RunScenario) -> None:
    base = ONE_PLANE[: ONE_PLANE.index("traffic:")]
    base += "traffic:\n  - collective: {op: all-reduce, size: 512KiB, qps: 2}\n"
    result = run_scenario(base=base)
    (collective,) = result.collectives
    assert result.failures == []
    assert collective.done and collective.wrong_elements == 0
    assert collective.retransmissions == 0 and collective.packets >= 4 * 6 * 128 // 4


def test_faults_of_all_kinds(run_scenario: RunScenario) -> None:
    faults = """\
faults:
  - loss: {tier: fabric, probability: 0.005}
  - corruption: {tier: host, probability: 0.002}
  - duplication: {link: [h0, p0-t0-0], probability: 0.05}
  - delay: {link: [h1, p0-t0-0], extra: 300ns, jitter: 2us}
  - link_down: {link: [p0-t0-0, p0-t1-0], at: 100us, for: 20us}
"""
    back = "  - transfer: {name: back, from: h3, to: h1, size: 256KiB, repeat: 3, op: write_imm}\n"
    result = run_scenario(back + faults, base=ONE_PLANE)
    assert result.failures == []
    assert all(flow.done and flow.wrong_bytes == 0 for flow in result.flows)
    assert result.unaccounted == 0
    assert all(flow.retransmissions > 0 for flow in result.flows)


def test_a_port_that_stays_down_ends_a_striped_flow(run_scenario: RunScenario) -> None:
    fault = "faults:\n  - port_down: {host: h0, plane: 0, at: 50us}\n"
    expect = "expect:\n  flows: [{flow: a, status: error}]\n"
    changes = ["traffic[0].transfer.qps=4", "traffic[0].transfer.repeat=10"]
    result = run_scenario(fault + expect, base=ONE_PLANE, changes=changes)
    (flow,) = result.flows
    assert result.failures == []
    assert flow.done and flow.completed_messages < 10
    assert flow.errors["retry counter exceeded"] == 4
    # Seven retries and then it is over
    assert flow.timeouts == 4 * 8


def test_runs_repeat_exactly(run_scenario: RunScenario) -> None:
    runs = [run_scenario(SECOND, base=ONE_PLANE, seed=5).to_json() for _ in range(2)]
    for run in runs:
        for name in [name for name in run if name.endswith("_s")]:
            del run[name]
    assert runs[0] == runs[1]


class TestSettings:
    @pytest.mark.parametrize(
        ("endpoint", "problem"),
        [
            ("{transport: roce, forwarding: srv6}", "forwarding: srv6 does not fit: RoCE has ecmp"),
            ("{transport: roce, mpr: 128}", "mpr: transport roce has no such thing"),
            ("{transport: roce, evs: {}}", "evs: transport roce has no such thing"),
            ("{window: 5}", "window: transport mrc has no such thing"),
            ("{transport: rocky}", "'rocky'"),
        ],
    )
    def test_of_the_wrong_transport(self, endpoint: str, problem: str) -> None:
        text = ONE_PLANE.replace("{transport: roce}", endpoint)
        with pytest.raises(ScenarioFileError) as caught:
            parse_scenario(text, "one.yaml")
        (line,) = caught.value.problems
        assert line.startswith("one.yaml:") and problem in line

    @pytest.mark.parametrize(
        "fault",
        [
            "deny: {from: h0, to: h2, plane: 0, uplinks: [0]}",
            "loss: {path: {from: h0, to: h2, plane: 0}, probability: 0.1}",
        ],
    )
    def test_paths_in_faults(self, fault: str) -> None:
        with pytest.raises(ScenarioFileError) as caught:
            parse_scenario(f"{ONE_PLANE}faults:\n  - {fault}\n", "one.yaml")
        (line,) = caught.value.problems
        assert "with transport roce, name links" in line

    @pytest.mark.parametrize(
        ("congestion", "problem"),
        [
            ("{controller: nscc}", "endpoint.congestion.controller: 'nscc' is none of RoCE's"),
            ("{controller: dcqn}", "did you mean dcqcn?"),
            ("{controller: none, g: 0.5}", "g: there is no controller to have it"),
            (
                "{rate_ai: 5}",
                "congestion.rate_ai: unknown field; did you mean rate_ai_bps?",
            ),
            ("{g: 2.0}", "endpoint.congestion: g: 2.0 does not fit"),
        ],
    )
    def test_of_congestion_control(self, simulate: Simulate, congestion: str, problem: str) -> None:
        with pytest.raises(SettingsError, match=r".*") as caught:
            simulate(base=ONE_PLANE, changes=[f"endpoint.congestion={congestion}"])
        assert problem in str(caught.value)

    def test_they_reach_the_nic(self, simulate: Simulate) -> None:
        endpoint = (
            "{transport: roce, timeout: 12, linear_retries: 3, sack_packets: 8, window: 100,"
            " rnr_retries: 2, rnr_timer: 5, cnp_interval: 4us,"
            " congestion: {controller: dcqcn, g: 0.25, rate_hai_bps: 7}}"
        )
        nic = simulate(base=ONE_PLANE, changes=[f"endpoint={endpoint}"]).network.hosts["h0"].nic
        qp = nic.config.qp
        assert (qp.timeout, qp.linear_retries, qp.exponential_retries) == (12, 3, 0)
        assert qp.sack_packets == 8
        roce = nic.roce  # type: ignore[attr-defined]
        assert (roce.window_psns, roce.rnr_retries, roce.rnr_timer) == (100, 2, 5)
        assert roce.cnp_interval_ns == 4000
        assert roce.dcqcn == DcqcnConfig(g=0.25, rate_hai_bps=7)
