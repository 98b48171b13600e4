"""Flows hashed on paths: the more paths, the worse the fullest one. Sprayed flows have no such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, ROCE, axes, bands, legend, level
from experiments.figures.one_plane import one_plane
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import GBPS, MIB, US, ns, simulate, size, tails

#: Paths between two racks, and hosts in each: as many flows each way as paths
PATHS: Final = {Scale.TINY: (2, 8), Scale.QUICK: (2, 4, 8, 16), Scale.PAPER: (2, 4, 8, 16, 32, 64)}
LINE_BPS: Final = 100 * GBPS
MESSAGE_BYTES: Final = {Scale.TINY: MIB // 2, Scale.QUICK: MIB, Scale.PAPER: 8 * MIB}
TRANSPORTS: Final = ("mrc", "roce")


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [
        {"transport": transport, "paths": paths, "bytes": MESSAGE_BYTES[scale]}
        for transport in TRANSPORTS
        for paths in PATHS[scale]
    ]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    transport, paths = str(parameters["transport"]), int(parameters["paths"] or 0)
    count = int(parameters["bytes"] or 0)
    result = simulate(
        {
            # With RoCE nothing is lost: what tails there are come of bins, not of timeouts
            "topology": one_plane(
                transport, LINE_BPS, racks=2, uplinks=paths, hosts_per_rack=paths
            ),
            "traffic": [
                {"permutation": {"name": "all", "shift": paths, "size": size(count), "depth": 1}}
            ],
            "endpoint": {"transport": transport},
            "duration": ns(100_000 * US),
        },
        seed,
    )
    times_us = [(flow.completion_ns or 0) / US for flow in result.flows]
    alone_us = (count * 8e9 / (LINE_BPS * result.payload_share) + result.base_rtt_ns) / US
    return Measured(
        {
            **{f"fct_{name}_us": value for name, value in tails(times_us).items()},
            "alone_us": alone_us,
            "worst": max(times_us) / alone_us,
            "timeouts": result.total["timeouts"],
            "retransmissions": result.total["retransmissions"],
        }
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    paths = results.distinct("paths")
    few, many = min(paths), max(paths)

    def worst(transport: str, count: int) -> float:
        return results.of(transport=transport, paths=count).middle("worst")

    return [
        Check(
            "hashed flows: the more paths, the worse the last flow",
            "tails worsen",
            ", ".join(f"{worst('roce', count):.2f}" for count in paths)
            + f" times a flow alone, with {', '.join(map(str, paths))} paths",
            worst("roce", many) >= 1.2 * worst("roce", few),
        ),
        Check(
            "MRC: no worse with more paths",
            "do not worsen",
            ", ".join(f"{worst('mrc', count):.2f}" for count in paths),
            worst("mrc", many) <= 1.1 * worst("mrc", few) and worst("mrc", many) <= 1.3,
        ),
    ]


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    ax = axes(
        canvas,
        "paths between the racks, and flows each way",
        "time of the last flow /\na flow alone",
    )
    paths = results.distinct("paths")
    for transport, label, look in (("mrc", "MRC, sprayed", MRC), ("roce", "RoCE, hashed", ROCE)):
        of = [results.of(transport=transport, paths=count) for count in paths]
        bands(ax, paths, of, "worst", label, look)
    level(ax, 1.0, "wire alone")
    ax.set_xscale("log", base=2)
    ax.set_xticks(paths, [str(count) for count in paths])
    ax.set_ylim(bottom=0)
    legend(ax)


FIGURE = Figure(
    name="bins",
    title="tails by the number of paths: hashed flows against sprayed ones",
    paper="With flows hashed on paths, tails worsen with more paths (more bins, a worse "
    "fullest bin); "
    "with MRC they do not.",
    setup="Two racks joined by n paths of 100 Gb/s, n hosts in each, every host writes to one of "
    "the other rack: n flows on n paths each way. RoCE with DCQCN, "
    "ECN on all ports and PFC. Last flow: P100 of completion times.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("tail", "The last flow's time by the number of paths; bars: all seeds.", draw)],
    columns=(
        Column("fct_p50_us", "P50, µs", "{:.0f}".format),
        Column("fct_p99_us", "P99, µs", "{:.0f}".format),
        Column("fct_p100_us", "P100, µs", "{:.0f}".format),
        Column("worst", "P100 / a flow alone", "{:.2f}".format),
        Column("timeouts", "timeouts", "{:.0f}".format),
    ),
    seeds={Scale.TINY: 1, Scale.QUICK: 7, Scale.PAPER: 15},
)
