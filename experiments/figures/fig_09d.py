"""Figure 9d: eight T0-T1 links go down at once and come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    BOTH_WAYS,
    COLUMNS,
    Phase,
    measure_outage,
    percent,
    streams,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import US, Document, ns

UPLINKS: Final = 8
SOURCE, DESTINATION = "h0", "h4"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}

TOPOLOGY: Final[Document] = {"base": "eight-plane", "t0_per_plane": 2, "t1_per_plane": UPLINKS}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns = int(parameters["phase_us"] or 0) * US
    phases = [
        Phase(number * phase_ns, 1.0, broken) for number, broken in enumerate((False, True, False))
    ]
    down = {
        "name": "links",
        # One of each plane
        "link": ["p*-t0-0", "p*-t1-3"],
        "at": ns(phase_ns),
        "for": ns(phase_ns),
    }
    end_ns = 3 * phase_ns
    flows = streams(SOURCE, DESTINATION, end_ns, parameters)
    return measure_outage(TOPOLOGY, flows, [{"link_down": down}], phases, end_ns, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    during, after = results.least("phase1_share"), results.least("phase2_share")
    lowest = results.least("lowest")
    return [
        Check(
            "negligible impact of eight links at once",
            "negligible",
            f"{percent(during)} of the rate before once the first timeouts are over; "
            f"{percent(lowest)} in the worst 10 µs",
            during >= 0.98,
        ),
        Check(
            "none when they are back",
            "negligible",
            f"{percent(after)} of the rate before",
            after >= 0.98,
        ),
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
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
