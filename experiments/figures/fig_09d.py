"""Figure 9d: eight T0-T1 links go down at once and come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    BOTH_WAYS,
    COLUMNS,
    check_full_rate,
    measure_one_fault,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import Document
from experiments.words import percent

UPLINKS: Final = 8
SOURCE, DESTINATION = "h0", "h4"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}

TOPOLOGY: Final[Document] = {"base": "eight-plane", "t0_per_plane": 2, "t1_per_plane": UPLINKS}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    # One uplink of each plane
    fault = {"link_down": {"name": "links", "link": ["p*-t0-0", "p*-t1-3"]}}
    return measure_one_fault(TOPOLOGY, SOURCE, DESTINATION, fault, 1.0, parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    during, lowest = results.least("phase1_share"), results.least("lowest")
    return [
        Check(
            "negligible impact of eight links at once",
            "negligible",
            f"{percent(during)} of the rate before once the first timeouts are over; "
            f"{percent(lowest)} in the worst 10 µs",
            during >= 0.98,
        ),
        check_full_rate(results, "none when they are back", "negligible"),
    ]


FIGURE = Figure(
    name="fig-9d",
    title="eight T0-T1 links down at once, back later (cross-T1)",
    paper="Eight T0-T1 links go down at once and come back: negligible impact.",
    setup="The fabric of figure 9c; one uplink of the rack in each plane, of 64 in all, goes down "
    "for a phase. Both hosts write.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("by all flows together")],
    columns=COLUMNS,
)
