"""Figure 19c: two T0-T1 links slower than the NIC fail at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.capacity import (
    SETTLE_NS,
    capacity_parameters,
    measure_capacity,
    phase_count,
)
from experiments.figures.outage import COLUMNS, shares_text, throughput_plot
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import GBPS, MS

UPLINK_BPS: Final = 25 * GBPS
#: Uplinks down in each phase
FAILED: Final = {
    Scale.TINY: (0, 2),
    Scale.QUICK: (0, 2, 0),
    Scale.PAPER: (0, 2, 0),
}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return capacity_parameters(scale, FAILED[scale])


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    return measure_capacity(UPLINK_BPS, parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    worst = results.most("worst_off")
    return [
        Check(
            "throughput tracks the remaining capacity",
            "closely",
            f"{shares_text(results, phase_count(results))} phase by phase, at most "
            f"{100 * worst:.1f} % of the full rate off",
            worst <= 0.03,
        )
    ]


FIGURE = Figure(
    name="fig-19c",
    title="two T0-T1 links slower than the NIC fail at once",
    paper="Throughput tracks the remaining capacity closely.",
    setup="As figure 19b; two uplinks fail at once and return. "
    f"The first {SETTLE_NS // MS} ms of each phase of 5 ms (20 ms at paper scale) are left out as "
    "settling: "
    "with four paths each that dies takes a quarter of the data and of the SACKs with it, "
    "and a timeout and three probes pass until one is back in use.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
