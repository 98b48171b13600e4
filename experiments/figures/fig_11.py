"""Figure 11: a T1 switch fails and returns under cross-T1 traffic."""

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
from experiments.simulate import US, ns

SWITCH: Final = "p5-t1-1"
SOURCE, DESTINATION = "h0", "h4"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns = int(parameters["phase_us"] or 0) * US
    phases = [
        Phase(number * phase_ns, 1.0, broken) for number, broken in enumerate((False, True, False))
    ]
    fails = {"name": "t1", "switch": SWITCH, "at": ns(phase_ns), "for": ns(phase_ns)}
    end_ns = 3 * phase_ns
    flows = streams(SOURCE, DESTINATION, end_ns, parameters)
    return measure_outage("eight-plane", flows, [{"switch_reboot": fails}], phases, end_ns, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    during, after = results.least("phase1_share"), results.least("phase2_share")
    return [
        Check(
            "no steady-state loss of throughput while the T1 is down",
            "none",
            f"{percent(during)} of the rate before",
            during >= 0.98,
        ),
        Check(
            "none when it is back", "none", f"{percent(after)} of the rate before", after >= 0.98
        ),
    ]


FIGURE = Figure(
    name="fig-11",
    title="a T1 switch fails and returns (cross-T1)",
    paper="No steady-state loss of throughput.",
    setup="h0 and h4 of different racks write to each other over 8 planes of 4 T1s; a T1 is down, "
    "with its links, for a phase.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
