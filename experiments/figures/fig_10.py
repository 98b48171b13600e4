"""Figure 10: a T0 switch fails under T0-local traffic."""

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
from experiments.words import percent

PLANES: Final = 8
SWITCH: Final = "p2-t0-0"
SOURCE, DESTINATION = "h0", "h1"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    fault = {"switch_reboot": {"name": "t0", "switch": SWITCH}}
    left = (PLANES - 1) / PLANES
    return measure_one_fault("eight-plane", SOURCE, DESTINATION, fault, left, parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    share = results.spread("phase1_share")
    wanted = (PLANES - 1) / PLANES
    return [
        Check(
            "one plane's share is lost, and no more: steady on the rest",
            "7/8 = 87.5 %",
            share.text(percent),
            abs(share.low - wanted) <= 0.01 and abs(share.high - wanted) <= 0.01,
        ),
        check_full_rate(results, "full rate when it has rebooted", ""),
    ]


FIGURE = Figure(
    name="fig-10",
    title="a T0 switch fails (T0-local)",
    paper="One plane's share of the bandwidth (1/8) is lost; the rest is steady.",
    setup="h0 and h1 under the same T0s write to each other; the T0 of one plane is down for a "
    "phase, then starts again with its tables written anew.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("by all flows together")],
    columns=COLUMNS,
)
