"""Figure 19a: three of four T0-T1 links fail, and what is left still suffices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.capacity import PHASE_US, measure_capacity
from experiments.figures.outage import COLUMNS, shares_text, throughput_plot
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import GBPS

UPLINK_BPS: Final = 100 * GBPS
#: Uplinks down in each phase
FAILED: Final = (0, 1, 2, 3, 0)


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    return measure_capacity(UPLINK_BPS, FAILED, int(parameters["phase_us"] or 0), seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    least = min(results.least(f"phase{number}_share") for number in range(len(FAILED)))
    return [
        Check(
            "no discernible loss of throughput in any phase",
            "none",
            f"{shares_text(results, len(FAILED))} of the rate before, phase by phase",
            least >= 0.98,
        )
    ]


FIGURE = Figure(
    name="fig-19a",
    title="three of four T0-T1 links fail one by one, capacity still sufficient",
    paper="No discernible loss.",
    setup="One plane, four uplinks of 100 Gb/s each, a NIC of 100 Gb/s: one uplink of the "
    "sender's rack more is down in each phase, until one is left, which still "
    "suffices. Then all are back.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
