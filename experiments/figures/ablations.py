"""MRC without one of its parts: trimming, reactions of paths, paths chosen by the sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, MRC_OTHERWISE, axes, legend
from experiments.figures.one_plane import PACKET_BYTES
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import GBPS, MIB, MS, US, Document, laid_over, ns, simulate, size
from experiments.words import percent

PLANES: Final = 2
LINE_BPS: Final = PLANES * 100 * GBPS
BYTES: Final = {Scale.TINY: 4 * MIB, Scale.QUICK: 32 * MIB, Scale.PAPER: 256 * MIB}
#: A run that takes longer is over
LIMIT_NS: Final = 200 * MS
AT_US: Final = 50
#: Name → what the scenario has otherwise
VARIANTS: Final[dict[str, Document]] = {
    "MRC": {},
    "no trimming": {"topology": {"trimming": {"enabled": False}}},
    "oblivious spraying": {"endpoint": {"evs": {"adaptive": False}}},
    "switch-side spraying": {"endpoint": {"forwarding": "spray"}},
}
_TOPOLOGY: Final[Document] = {
    "base": "eight-plane",
    "planes": PLANES,
    "t0_per_plane": 5,
    "queues": {
        "host": {"data_limit": size(25 * PACKET_BYTES)},
        "fabric": {
            "data_limit": size(25 * PACKET_BYTES),
            "ecn": {
                "min": size(6 * PACKET_BYTES),
                "max": size(19 * PACKET_BYTES),
                "probability": 1.0,
            },
        },
    },
}
#: Name → how many write, and what is wrong
WORKLOADS: Final[dict[str, tuple[int, list[Document]]]] = {
    "incast": (7, []),
    "dead link": (
        1,
        [{"link_down": {"link": ["p0-t0-1", "p0-t1-1"], "at": ns(AT_US * US)}}],
    ),
    "slow link": (
        1,
        [{"slow_link": {"link": ["p0-t0-1", "p0-t1-1"], "rate": "10Gbps", "at": "0ns"}}],
    ),
}
_SENDERS: Final = ("h4", "h8", "h12", "h16", "h5", "h9", "h13")


#: Variants that a claim compares
_JUDGED: Final = {
    "incast": ("MRC", "no trimming"),
    "dead link": ("MRC", "oblivious spraying", "switch-side spraying"),
    "slow link": ("MRC", "oblivious spraying", "switch-side spraying"),
}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [
        {"workload": workload, "variant": variant, "bytes": BYTES[scale]}
        for workload in WORKLOADS
        for variant in VARIANTS
        # What nothing is claimed of is left out at tiny scale
        if scale is not Scale.TINY or variant in _JUDGED[workload]
    ]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    senders, faults = WORKLOADS[str(parameters["workload"])]
    count = int(parameters["bytes"] or 0) // senders
    document: Document = {
        "topology": _TOPOLOGY,
        "traffic": [
            {
                "incast": {
                    "name": "all",
                    "from": list(_SENDERS[:senders]),
                    "to": "h0",
                    "size": size(count),
                    "depth": 1,
                }
            }
        ],
        "faults": faults,
        "endpoint": {},
        "duration": ns(LIMIT_NS),
        "expect": {"complete": False},
    }
    result = simulate(laid_over(document, VARIANTS[str(parameters["variant"])]), seed)
    # What is not over in time has taken the limit at least
    last_ns = max(flow.completion_ns or LIMIT_NS for flow in result.flows)
    rate_bps = sum(flow.completed_bytes for flow in result.flows) * 8e9 / last_ns
    return Measured(
        {
            "share": rate_bps / (LINE_BPS * result.payload_share),
            "last_us": last_ns / US,
            "timeouts": result.total["timeouts"],
            "retransmissions": result.total["retransmissions"],
            "lost": sum(result.lost.values()),
            "trimmed": result.trimmed,
        }
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""

    def of(workload: str, variant: str) -> Results:
        return results.of(workload=workload, variant=variant)

    def shares(workload: str, *variants: str) -> str:
        return ", ".join(
            f"{name} {percent(of(workload, name).middle('share'))}" for name in variants
        )

    found = [
        Check(
            "without trimming, an incast costs timeouts",
            "",
            f"{of('incast', 'MRC').middle('timeouts'):.0f} timeouts with, "
            f"{of('incast', 'no trimming').middle('timeouts'):.0f} without; "
            + shares("incast", "MRC", "no trimming"),
            of("incast", "no trimming").middle("timeouts")
            > of("incast", "MRC").middle("timeouts") + 10,
        )
    ]
    blind = ("oblivious spraying", "switch-side spraying")
    for workload, lead in (("dead link", 1.2), ("slow link", 1.1)):
        least = of(workload, "MRC").least("share")
        found.append(
            Check(
                f"{workload}: who does not react, or cannot choose, sends into it for ever",
                "",
                shares(workload, "MRC", *blind) + " of line rate",
                all(least >= lead * of(workload, name).most("share") for name in blind),
            )
        )
    return found


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    ax = axes(canvas, "", "delivered payload,\n% of line rate")
    width = 0.8 / len(VARIANTS)
    made = {(piece["workload"], piece["variant"]) for piece in results}
    for number, (variant, look) in enumerate(zip(VARIANTS, (MRC, *MRC_OTHERWISE), strict=True)):
        # Each variant is named once, where it is drawn first
        drawn = [index for index, workload in enumerate(WORKLOADS) if (workload, variant) in made]
        for index, workload in enumerate(WORKLOADS):
            if index not in drawn:
                continue
            spread = results.of(workload=workload, variant=variant).spread("share")
            ax.bar(
                index + (number - (len(VARIANTS) - 1) / 2) * width,
                100 * spread.median,
                width * 0.92,
                yerr=[[100 * (spread.median - spread.low)], [100 * (spread.high - spread.median)]],
                capsize=2,
                color=look.colour,
                label=variant if index == drawn[0] else None,
            )
    ax.set_xticks(range(len(WORKLOADS)), list(WORKLOADS))
    ax.grid(axis="x", visible=False)
    legend(ax)


FIGURE = Figure(
    name="ablations",
    title="MRC without trimming, with oblivious and with switch-side spraying",
    paper="Not a figure of the paper: what each part of the design is there for.",
    setup="Two planes of 100 Gb/s with 4 T1s; queues of 25 packets. An incast of seven to one; a "
    "transfer whose T0-T1 link dies at 50 µs (one path of eight) and is not repaired; a transfer "
    "with one such link at a tenth of its rate.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("shares", "What is delivered, of line rate; bars: all seeds.", draw)],
    columns=(
        Column("share", "of line rate", percent),
        Column("last_us", "last flow, µs", "{:.0f}".format),
        Column("timeouts", "timeouts", "{:.0f}".format),
        Column("retransmissions", "resent", "{:.0f}".format),
        Column("lost", "frames lost", "{:.0f}".format),
        Column("trimmed", "trimmed", "{:.0f}".format),
    ),
)
