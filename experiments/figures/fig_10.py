"""Figure 10: a T0 switch fails under T0-local traffic."""

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

PLANES: Final = 8
SWITCH: Final = "p2-t0-0"
SOURCE, DESTINATION = "h0", "h1"
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 500, Scale.PAPER: 5000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns = int(parameters["phase_us"] or 0) * US
    phases = [
        Phase(0, 1.0, False),
        Phase(phase_ns, (PLANES - 1) / PLANES, True),
        Phase(2 * phase_ns, 1.0, False),
    ]
    fails = {"name": "t0", "switch": SWITCH, "at": ns(phase_ns), "for": ns(phase_ns)}
    end_ns = 3 * phase_ns
    flows = streams(SOURCE, DESTINATION, end_ns, parameters)
    return measure_outage("eight-plane", flows, [{"switch_reboot": fails}], phases, end_ns, seed)


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
        Check(
            "full rate when it has rebooted",
            "",
            percent(results.least("last_share")),
            results.least("last_share") >= 0.98,
        ),
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
    plots=[throughput_plot("Payload delivered, first seed, in bins of 10 µs.")],
    columns=COLUMNS,
)
