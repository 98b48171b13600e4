"""MRC without one of its parts, as a scenario says it."""

from __future__ import annotations

import pytest

from sim.simulation import Simulation
from tests.sim.conftest import SMALL, RunScenario, Simulate

LOSSY = """\
faults:
  - loss: {name: loss, path: {from: h0, to: h2, plane: 1, uplink: 1}, probability: 0.3}
"""
INCAST = SMALL.replace(
    "  - transfer: {name: there, from: h0, to: h2, size: 1MiB}\n",
    "  - incast: {name: incast, to: h2, from: [h0, h1, h3], size: 512KiB}\n",
)
SHALLOW = ["topology.queues.host.data_limit=30KiB", "endpoint.timeout=5"]


def test_oblivious_spraying_goes_on_over_a_path_that_loses(run_scenario: RunScenario) -> None:
    changes = ["traffic[0].transfer.size=2MiB", "endpoint.timeout=4"]
    adaptive = run_scenario(LOSSY, changes=changes)
    oblivious = run_scenario(LOSSY, changes=[*changes, "endpoint.evs.adaptive=false"])
    assert adaptive.flows[0].done and oblivious.flows[0].done
    assert adaptive.fault("loss").evs_out == 1
    assert oblivious.transitions == [] and oblivious.fault("loss").evs_out == 0
    # A quarter of all packets has its turn there, repeats too
    sent = oblivious.total["packets"]
    assert 0.2 * sent < oblivious.fault("loss").packets_sent < 0.3 * sent
    assert oblivious.fault("loss").lost > 3 * adaptive.fault("loss").lost


def test_without_trimming_what_does_not_fit_is_lost(run_scenario: RunScenario) -> None:
    trimmed = run_scenario(base=INCAST, changes=SHALLOW)
    assert trimmed.trimmed > 0 and "data queue full" not in trimmed.lost
    dropped = run_scenario(base=INCAST, changes=[*SHALLOW, "topology.trimming.enabled=false"])
    assert dropped.trimmed == 0 and dropped.lost["data queue full"] > 0
    assert all(flow.done for flow in dropped.flows)
    assert dropped.total["timeouts"] > 0 == dropped.total["trims"]


ONE_EV = """\
endpoint:
  forwarding: {forwarding}
  evs: {{mode: explicit, evs: [0x1]}}
"""


def received(simulation: Simulation, name: str) -> int:
    return simulation.network.switches[name].count("FabricIngress.received")


@pytest.mark.parametrize("forwarding", ["ecmp", "spray"])
def test_switches_spray_what_would_else_take_one_path(simulate: Simulate, forwarding: str) -> None:
    changes = ["topology.planes=1", "topology.t1_per_plane=4", "traffic[0].transfer.size=4MiB"]
    simulation = simulate(ONE_EV.format(forwarding=forwarding), changes=changes)
    result = simulation.run()
    assert result.failures == [] and result.flows[0].done
    packets = result.total["packets"]
    shares = sorted(received(simulation, f"p0-t1-{t1}") / packets for t1 in range(4))
    if forwarding == "ecmp":
        # Data takes one, and so do the answers
        assert shares[:2] == [0, 0] and shares[3] >= 1
    else:
        # Answers are sprayed too: a quarter and less as much of them
        assert shares[3] < 1.25 * shares[0]
        assert result.flows[0].duplicates == 0


def test_spraying_is_a_setting_of_the_topology_too(simulate: Simulate) -> None:
    changes = ["topology.load_balancing=packet", "topology.planes=1"]
    simulation = simulate(ONE_EV.format(forwarding="ecmp"), changes=changes)
    simulation.run()
    assert received(simulation, "p0-t1-0") > 0 < received(simulation, "p0-t1-1")
