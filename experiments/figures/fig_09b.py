"""Figure 9b: four of eight links of a NIC are down at once, and back later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    COLUMNS,
    check_full_rate,
    measure_one_fault,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.words import percent

PLANES: Final = 8
DOWN: Final = 4
SOURCE, DESTINATION = "h0", "h1"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 12_000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    fault = {"link_down": {"name": "links", "link": [DESTINATION, f"p[0-{DOWN - 1}]-t0-0"]}}
    left = (PLANES - DOWN) / PLANES
    return measure_one_fault("eight-plane", SOURCE, DESTINATION, fault, left, parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    half = results.spread("phase1_share")
    return [
        Check(
            "half the bandwidth while four of eight links are down",
            "half",
            half.text(percent),
            abs(half.low - 0.5) <= 0.02 and abs(half.high - 0.5) <= 0.02,
        ),
        check_full_rate(results, "full bandwidth after", "full again"),
    ]


FIGURE = Figure(
    name="fig-9b",
    title="four of eight links of a NIC down at once, back later",
    paper="Half the bandwidth while they are down, full again after.",
    setup="As figure 9a; the links are down for a phase instead of for 12 s.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("both ways together")],
    columns=COLUMNS,
)
