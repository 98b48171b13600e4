"""Figure 19c: two T0-T1 links slower than the NIC fail at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.capacity import PHASE_US, measure_capacity
from experiments.figures.outage import COLUMNS, shares_text, throughput_plot
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import GBPS

UPLINK_BPS: Final = 25 * GBPS
#: Uplinks down in each phase
FAILED: Final = (0, 2, 0)


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    return measure_capacity(UPLINK_BPS, FAILED, int(parameters["phase_us"] or 0), seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    worst = results.most("worst_off")
    return [
        Check(
            "throughput tracks the remaining capacity",
            "closely",
            f"{shares_text(results, len(FAILED))} phase by phase, at most {100 * worst:.1f} % of "
            "the full rate off",
            worst <= 0.03,
        )
    ]


FIGURE = Figure(
    name="fig-19c",
    title="two T0-T1 links slower than the NIC fail at once",
    paper="Throughput tracks the remaining capacity closely.",
    setup="As figure 19b; two uplinks fail at once and return.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
