"""Figure 14: two flows forced on one path of a plane, then free to part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, MRC_OTHERWISE, axes, legend, level, shade
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import (
    GBPS,
    KIB,
    US,
    Document,
    gbps_between,
    gbps_over_time,
    ns,
    simulate,
    size,
)
from experiments.words import percent

LINE_BPS: Final = 100 * GBPS
#: Both flows have EV-A (uplink 0) only so long
FORCED_US: Final = {Scale.TINY: 300, Scale.QUICK: 600, Scale.PAPER: 5000}
END_US: Final = {Scale.TINY: 1000, Scale.QUICK: 2500, Scale.PAPER: 20_000}
#: They are given so long to part
SETTLE_US: Final = 200
TOPOLOGY: Final[Document] = {"base": "eight-plane", "planes": 1, "t1_per_plane": 2}
FLOWS: Final = {"one": ("h0", "h4"), "two": ("h1", "h5")}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"forced_us": FORCED_US[scale], "end_us": END_US[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    forced_us, end_us = int(parameters["forced_us"] or 0), int(parameters["end_us"] or 0)
    flows = [
        {
            "transfer": {
                "name": name,
                "from": source,
                "to": destination,
                "size": size(256 * KIB),
                "until": ns(end_us * US),
                "depth": 8,
            }
        }
        for name, (source, destination) in FLOWS.items()
    ]
    faults = [
        {
            "deny": {
                "name": f"forced-{name}",
                "from": source,
                "to": destination,
                "plane": 0,
                "uplinks": [1],
                "for": ns(forced_us * US),
            }
        }
        for name, (source, destination) in FLOWS.items()
    ]
    result = simulate(
        {
            "topology": TOPOLOGY,
            "traffic": flows,
            "faults": faults,
            "measure": {"interval": ns(5 * US)},
        },
        seed,
    )
    line = LINE_BPS / GBPS * result.payload_share
    interval = result.interval_ns

    def share(name: str, start_us: int, stop_us: int) -> float:
        samples = result.flow(name).delivered_samples
        return gbps_between(samples, interval, start_us * US, stop_us * US) / line

    forced = [share(name, SETTLE_US // 2, forced_us) for name in FLOWS]
    free = [share(name, forced_us + SETTLE_US, end_us) for name in FLOWS]
    series: dict[str, Sequence[float]] = {}
    for name in FLOWS:
        times, curve = gbps_over_time(result.flow(name).delivered_samples, interval, 20 * US)
        series["time_us"], series[name] = times, curve
    return Measured(
        {
            "forced_one": forced[0],
            "forced_two": forced[1],
            "forced_together": sum(forced),
            "free_one": free[0],
            "free_two": free[1],
            "free_least": min(free),
            "marks": result.marked,
            "timeouts": result.total["timeouts"],
            "line_gbps": line,
        },
        series,
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    forced, least = results.spread("forced_together"), results.spread("free_least")
    return [
        Check(
            "forced on one path they share it, and marks say so",
            "ECN marks on EV-A",
            f"together {forced.text(percent)} of a line, {results.middle('marks'):.0f} marks",
            forced.high <= 1.005 and forced.low >= 0.9 and results.least("marks") > 0,
        ),
        Check(
            "free, both are near line rate",
            "both near line rate",
            f"the slower has {least.text(percent)} of a line",
            least.low >= 0.95,
        ),
    ]


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    piece = results.first_seed()
    ax = axes(canvas, "time, µs", "delivered payload, Gb/s")
    end = piece.number("end_us")
    for name, look in zip(FLOWS, (MRC, MRC_OTHERWISE[0]), strict=True):
        points = [
            (time, rate)
            for time, rate in zip(piece.curve("time_us"), piece.curve(name), strict=True)
            if time < end
        ]
        ax.plot(*zip(*points, strict=True), color=look.colour, label=f"flow {name}")
    level(ax, piece.number("line_gbps"), "line rate for payload")
    shade(ax, 0, piece.number("forced_us"), "both have EV-A only")
    ax.set_ylim(bottom=0)
    legend(ax)


FIGURE = Figure(
    name="fig-14",
    title="two flows forced on one path of a plane, then free to part",
    paper="ECN moves one of two flows to EV-B; both run near line rate.",
    setup="One plane of 100 Gb/s with two paths between two racks. EV-B is denied to both flows, "
    "then allowed again; nothing else tells them to part.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[
        Plot("throughput", "Payload delivered by each flow, first seed, in bins of 20 µs.", draw)
    ],
    columns=(
        Column("forced_together", "forced, together of a line", percent),
        Column("free_one", "free, flow one", percent),
        Column("free_two", "free, flow two", percent),
        Column("marks", "CE marks", "{:.0f}".format),
    ),
)
