"""Figure 8: a T1 switch stops forwarding but stays up, and is rebooted later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    BOTH_WAYS,
    COLUMNS,
    Phase,
    check_full_rate,
    measure_outage,
    streams,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import US, ns
from experiments.words import percent

SWITCH: Final = "p5-t1-1"
#: Pairs of hosts of two racks, which all cross the switch
PAIRS: Final = {Scale.TINY: 1, Scale.QUICK: 1, Scale.PAPER: 4}
PHASE_US: Final = {Scale.TINY: 150, Scale.QUICK: 400, Scale.PAPER: 5000}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"pairs": PAIRS[scale], "phase_us": PHASE_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns, pairs = int(parameters["phase_us"] or 0) * US, int(parameters["pairs"] or 0)
    # Healthy, swallowing, rebooting, healthy again
    phases = [
        Phase(number * phase_ns, 1.0, broken)
        for number, broken in enumerate((False, True, True, False))
    ]
    end_ns = 4 * phase_ns
    # A fault of a switch must be over before the next begins; nothing is forwarded in 1 ns
    swallows = {"name": "swallows", "switch": SWITCH, "at": ns(phase_ns), "for": ns(phase_ns - 1)}
    reboots = {"name": "reboots", "switch": SWITCH, "at": ns(2 * phase_ns), "for": ns(phase_ns)}
    flows = []
    for pair in range(pairs):
        one, other = f"h{pair}", f"h{pair + 4}"
        flows += streams(one, other, end_ns, both_ways=bool(parameters["both_ways"]))
    measured = measure_outage(
        "eight-plane",
        flows,
        [{"switch_dead": swallows}, {"switch_reboot": reboots}],
        phases,
        end_ns,
        seed,
    )
    rates = list(zip(measured.series["time_us"], measured.series["gbps"], strict=True))
    first = measured.metrics["first_gbps"]
    assert isinstance(first, float)

    def lowest(start_ns: int, stop_ns: int) -> float:
        return min(rate for time, rate in rates if start_ns <= time * US < stop_ns) / first

    dip = {
        "dip": lowest(phase_ns, 2 * phase_ns),
        "at_reboot": lowest(2 * phase_ns, 2 * phase_ns + phase_ns // 2),
    }
    return Measured({**measured.metrics, **dip}, measured.series)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    dip, share = results.middle("dip"), results.least("phase1_share")
    reboot = results.least("at_reboot")
    return [
        Check(
            "paths through it are mapped out: full rate after the first timeouts",
            "a dip, then mapped out",
            f"{percent(share)} of the rate before after 100 µs; {percent(dip)} in the worst 10 µs",
            share >= 0.98,
        ),
        Check(
            "no effect at the reboot itself",
            "none",
            f"{percent(reboot)} of the rate before in the worst 10 µs around it",
            reboot >= 0.95,
        ),
        check_full_rate(results, "full rate when it forwards again", ""),
    ]


FIGURE = Figure(
    name="fig-8",
    title="a T1 stops forwarding with its links up, and is rebooted later",
    paper="Throughput dips, paths through the switch are mapped out; the reboot has no effect.",
    setup="Hosts of two racks write to each other over 8 planes of 4 T1s. One T1 swallows every "
    "frame for a phase, then reboots (links down) for a phase, then forwards again.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[
        throughput_plot(
            "by all flows together",
            "First half of the shaded time: the T1 swallows packets; second half: it reboots.",
        )
    ],
    columns=COLUMNS,
)
