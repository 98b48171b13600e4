"""Figure 9c: T0-T1 links are taken down one after the other under cross-T1 traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.outage import (
    BOTH_WAYS,
    COLUMNS,
    SETTLE_NS,
    Phase,
    check_full_rate,
    measure_outage,
    streams,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import US, Document, ns
from experiments.words import percent

PLANES: Final = 8
#: Uplinks of each T0, and so paths a plane
UPLINKS: Final = 8
SOURCE, DESTINATION = "h0", "h4"
LINKS: Final = {Scale.TINY: 5, Scale.QUICK: 20, Scale.PAPER: 20}
#: From one link to the next
EVERY_US: Final = {Scale.TINY: 50, Scale.QUICK: 60, Scale.PAPER: 1000}
#: Nothing is wrong so long
BEFORE_US: Final = 200

TOPOLOGY: Final[Document] = {"base": "eight-plane", "t0_per_plane": 2, "t1_per_plane": UPLINKS}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"links": LINKS[scale], "every_us": EVERY_US[scale], "both_ways": BOTH_WAYS[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    links, every_ns = int(parameters["links"] or 0), int(parameters["every_us"] or 0) * US
    before_ns = BEFORE_US * US
    broken_ns = max(links * every_ns, 2 * SETTLE_NS)
    phases = [
        Phase(0, 1.0, False),
        Phase(before_ns, 1.0, True),
        Phase(before_ns + broken_ns, 1.0, True),
    ]
    end_ns = phases[-1].start_ns + before_ns
    faults = [
        {
            "link_down": {
                "name": f"link-{number}",
                # One of another plane each, then the next uplink of each plane
                "link": [f"p{number % PLANES}-t0-0", f"p{number % PLANES}-t1-{number // PLANES}"],
                "at": ns(before_ns + number * every_ns),
            }
        }
        for number in range(links)
    ]
    both_ways = bool(parameters["both_ways"])
    flows = streams(SOURCE, DESTINATION, end_ns, both_ways=both_ways)
    return measure_outage(TOPOLOGY, flows, faults, phases, end_ns, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    during = results.least("phase1_share")
    return [
        Check(
            "minimal impact while links go down one after the other",
            "minimal impact",
            f"{percent(during)} of the rate before, on average over that time",
            during >= 0.95,
        ),
        check_full_rate(results, "full rate without all of these links", "minimal impact"),
    ]


FIGURE = Figure(
    name="fig-9c",
    title="twenty T0-T1 links taken down one after the other (cross-T1)",
    paper="20 T0-T1 links are taken down, one a second: minimal impact.",
    setup="8 planes of 2 T0s and 8 T1s: 64 uplinks of the sender's rack, of which 20 go down, one "
    "every 60 µs. A retransmission timeout is 33 µs, so the sender hardly ever has a moment "
    "without a fresh fault, which is far harder than one a second. Both hosts write.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[throughput_plot("by all flows together")],
    columns=COLUMNS,
)
