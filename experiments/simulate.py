"""A scenario in virtual time, from a figure's parameters to what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reports.rates import rates_bps
from reports.result import RunResult
from reports.verdict import failures
from sim.simulation import Simulation
from topologies.scenario import Scenario
from topologies.scenario_loader import parse_scenario

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GBPS: Final = 10**9
US: Final = 1000
MS: Final = 1000 * US

Document = dict[str, Any]


class WrongRunError(RuntimeError):
    """A run whose memory is wrong, whose books do not balance or that did not end."""


def scenario_of(document: Mapping[str, Any], seed: int, name: str) -> Scenario:
    """The scenario of a document, which has the fields of a scenario file.

    Raises ScenarioFileError.
    """
    # JSON is YAML
    return parse_scenario(json.dumps(document), name, default_name=name, seed=seed)


def simulate(document: Mapping[str, Any], seed: int, name: str = "figure") -> RunResult:
    """Run a scenario. Raises WrongRunError unless all that is expected holds.

    Expected is always that every byte of memory is right and that no frame is lost without a cause;
    that everything completes unless the document says otherwise.
    """
    return simulate_scenario(scenario_of(document, seed, name))


def simulate_scenario(scenario: Scenario) -> RunResult:
    """The same, of a scenario made in another way."""
    result = Simulation(scenario).run()
    result.failures = failures(scenario, result)
    if result.failures:
        raise WrongRunError("; ".join(result.failures[:3]))
    return result


def laid_over(document: Document, changes: Document) -> Document:
    """A document with changes, section by section."""
    made = dict(document)
    for name, value in changes.items():
        below = made.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            made[name] = laid_over(below, value)
        else:
            made[name] = value
    return made


# --- quantities of scenario files --------------------------------------------------------------


def ns(value: float) -> str:
    """A time."""
    return f"{round(value)}ns"


def size(value: int) -> str:
    """A size."""
    return f"{value}B"


def bps(value: float) -> str:
    """A rate."""
    return f"{round(value)}bps"


# --- what came of it ---------------------------------------------------------------------------


def gbps_over_time(
    samples: Sequence[int], interval_ns: int, bin_ns: int
) -> tuple[list[float], list[float]]:
    """(middle of each bin in µs, delivered payload in it in Gb/s), of whole bins."""
    step = max(bin_ns // interval_ns, 1)
    kept = samples[::step]
    width_ns = interval_ns * step
    rates = [rate / GBPS for rate in rates_bps(kept, width_ns)]
    return [(index + 0.5) * width_ns / US for index in range(len(rates))], rates


def gbps_between(samples: Sequence[int], interval_ns: int, start_ns: float, end_ns: float) -> float:
    """Mean rate of delivered payload between two times, to whole samples inside."""
    first = -(-round(start_ns) // interval_ns)
    last = min(round(end_ns) // interval_ns, len(samples) - 1)
    if last <= first:
        raise ValueError(f"no samples between {start_ns:.0f} ns and {end_ns:.0f} ns")
    return (samples[last] - samples[first]) * 8 / ((last - first) * interval_ns)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0..1) of all are at or below: one of them, none in between."""
    ordered = sorted(values)
    return ordered[max(-(-round(share * 1000 * len(ordered)) // 1000), 1) - 1]


def tails(values: Sequence[float]) -> dict[str, float]:
    """P50, P99 and P100."""
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "p100": max(values)}
