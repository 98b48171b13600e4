"""Figure 9a: the links of a NIC fail one by one and return, under traffic both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    COLUMNS,
    Phase,
    check_full_rate,
    measure_outage,
    streams,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import US, ns

PLANES: Final = 8
SOURCE, DESTINATION = "h0", "h1"
#: The link of one plane more is down in each phase, then up again in each
PHASE_US: Final = {Scale.TINY: 130, Scale.QUICK: 250, Scale.PAPER: 2000}
#: How many of them fail at most
MOST_DOWN: Final = {Scale.TINY: 2, Scale.QUICK: 7, Scale.PAPER: 7}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"phase_us": PHASE_US[scale], "most_down": MOST_DOWN[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    phase_ns = int(parameters["phase_us"] or 0) * US
    most = int(parameters["most_down"] or 0)
    downs = [*range(most + 1), *range(most - 1, -1, -1)]
    phases = [
        Phase(number * phase_ns, (PLANES - down) / PLANES, down > 0)
        for number, down in enumerate(downs)
    ]
    end_ns = len(phases) * phase_ns
    faults = [
        {
            "port_down": {
                "name": f"port-{plane}",
                "host": DESTINATION,
                "plane": plane,
                "at": ns((plane + 1) * phase_ns),
                "for": ns((len(downs) - 2 * (plane + 1)) * phase_ns),
            }
        }
        for plane in range(most)
    ]
    both_ways = streams(SOURCE, DESTINATION, end_ns)
    return measure_outage("eight-plane", both_ways, faults, phases, end_ns, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    worst = results.most("worst_off")
    return [
        Check(
            "throughput is planes still up / planes, at each step, both ways",
            "planes up / planes",
            f"at most {100 * worst:.2f} % of the full rate off, at any step",
            worst <= 0.02,
        ),
        check_full_rate(results, "full rate again when all links are back", "recovers"),
    ]


FIGURE = Figure(
    name="fig-9a",
    title="links of a NIC fail one by one, then return (T0-local, both ways)",
    paper="Throughput is that of the planes still up at each step, and recovers.",
    setup="8 planes of 100 Gb/s, h0 and h1 under the same T0s, both write to each other. A link of "
    "h1 more goes down in each phase until one is left, then they return one by one. A phase lasts "
    "fractions of a millisecond instead of seconds; what the endpoint does takes microseconds.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("both ways together")],
    columns=COLUMNS,
)
