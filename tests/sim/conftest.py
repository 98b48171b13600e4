"""Small scenarios, run in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reports.result import RunResult
from reports.verdict import failures
from sim.simulation import Simulation
from topologies.scenario_loader import parse_scenario


def topology(
    *, planes: int = 2, t0_per_plane: int = 2, t1_per_plane: int = 2, hosts_per_t0: int = 2
) -> str:
    """A topology section: links of 100 Gb/s, queues of 100 full packets, ECN from 25 to 75."""
    return f"""\
topology:
  planes: {planes}
  t0_per_plane: {t0_per_plane}
  t1_per_plane: {t1_per_plane}
  hosts_per_t0: {hosts_per_t0}
  links:
    host: {{rate: 100Gbps, delay: 500ns}}
    fabric: {{rate: 100Gbps, delay: 500ns}}
  queues:
    host: {{data_limit: 424200B, control_limit: 256KiB}}
    fabric:
      data_limit: 424200B
      control_limit: 256KiB
      ecn: {{min: 106050B, max: 318150B, probability: 1.0}}
"""


#: Two planes, two racks of two hosts, two T1s a plane
SMALL = (
    topology()
    + """\
traffic:
  - transfer: {name: there, from: h0, to: h2, size: 1MiB}
"""
)

Simulate = Callable[..., Simulation]
RunScenario = Callable[..., RunResult]


def simulate(
    extra: str = "",
    *,
    base: str = SMALL,
    changes: Sequence[str] = (),
    seed: int = 0,
    pcap: Path | None = None,
) -> Simulation:
    scenario = parse_scenario(base + extra, "small.yaml", changes=changes, seed=seed)
    return Simulation(scenario, pcap=pcap)


def run_scenario(
    extra: str = "",
    *,
    base: str = SMALL,
    changes: Sequence[str] = (),
    seed: int = 0,
    pcap: Path | None = None,
) -> RunResult:
    simulation = simulate(extra, base=base, changes=changes, seed=seed, pcap=pcap)
    result = simulation.run()
    result.failures = failures(simulation.scenario, result)
    return result


@pytest.fixture(name="simulate")
def _simulate() -> Simulate:
    return simulate


@pytest.fixture(name="run_scenario")
def _run_scenario() -> RunScenario:
    return run_scenario
