"""Figure 9b: four of eight links of a NIC are down at once, and back later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    COLUMNS,
    Phase,
    measure_outage,
    percent,
    stream,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import US, ns

PLANES: Final = 8
DOWN: Final = 4
SOURCE, DESTINATION = "h0", "h1"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 12_000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns = int(parameters["phase_us"] or 0) * US
    phases = [
        Phase(0, 1.0, False),
        Phase(phase_ns, (PLANES - DOWN) / PLANES, True),
        Phase(2 * phase_ns, 1.0, False),
    ]
    down = {
        "name": "links",
        "link": [DESTINATION, f"p[0-{DOWN - 1}]-t0-0"],
        "at": ns(phase_ns),
        "for": ns(phase_ns),
    }
    end_ns = 3 * phase_ns
    both = [stream(SOURCE, DESTINATION, end_ns), stream(DESTINATION, SOURCE, end_ns)]
    return measure_outage("eight-plane", both, [{"link_down": down}], phases, end_ns, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    half = results.spread("phase1_share")
    last = results.least("last_share")
    return [
        Check(
            "half the bandwidth while four of eight links are down",
            "half",
            half.text(percent),
            abs(half.low - 0.5) <= 0.02 and abs(half.high - 0.5) <= 0.02,
        ),
        Check("full bandwidth after", "full again", percent(last), last >= 0.98),
    ]


FIGURE = Figure(
    name="fig-9b",
    title="four of eight links of a NIC down at once, back later",
    paper="Half the bandwidth while they are down, full again after.",
    setup="As figure 9a; the links are down for a phase instead of for 12 s.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("Payload delivered both ways, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
