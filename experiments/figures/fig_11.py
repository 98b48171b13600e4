"""Figure 11: a T1 switch fails and returns under cross-T1 traffic."""

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

SWITCH: Final = "p5-t1-1"
SOURCE, DESTINATION = "h0", "h4"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    fault = {"switch_reboot": {"name": "t1", "switch": SWITCH}}
    return measure_one_fault("eight-plane", SOURCE, DESTINATION, fault, 1.0, parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    claim = "no steady-state loss of throughput while the T1 is down"
    return [
        check_full_rate(results, claim, "none", "phase1_share"),
        check_full_rate(results, "none when it is back", "none"),
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
    plots=[throughput_plot("by all flows together")],
    columns=COLUMNS,
)
