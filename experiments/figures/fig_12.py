"""Figures 12 and 13: one of two EVs of a plane loses packets, its twin takes over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import GREEN, MRC, RED, axes, legend, shade
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import (
    MIB,
    US,
    Document,
    gbps_between,
    gbps_over_time,
    ns,
    simulate,
    size,
)
from experiments.words import percent

PLANES: Final = 8
#: Two EVs a plane, of which one is active
UPLINKS: Final = 2
PLANE: Final = 2
LOSS: Final = 0.2
AT_US: Final = 100
TRANSFER_BYTES: Final = {Scale.TINY: 16 * MIB, Scale.QUICK: 64 * MIB, Scale.PAPER: 1024 * MIB}
ENDPOINT: Final[Document] = {"evs": {"active_evs": PLANES}, "timeout": 5}
TIMEOUT_US: Final = 32.768


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"bytes": TRANSFER_BYTES[scale]}]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    # Which EV of the plane is active is drawn; the loss is on that one
    for uplink in range(UPLINKS):
        loss = {
            "name": "lossy",
            "path": {"from": "h0", "to": "h4", "plane": PLANE, "uplink": uplink},
            "probability": LOSS,
            "at": ns(AT_US * US),
        }
        flow = {
            "name": "perf",
            "from": "h0",
            "to": "h4",
            "size": size(MIB),
            "repeat": int(parameters["bytes"] or 0) // MIB,
            "depth": 32,
        }
        result = simulate(
            {
                "topology": {"base": "eight-plane", "t1_per_plane": UPLINKS},
                "traffic": [{"transfer": flow}],
                "faults": [{"loss": loss}],
                "endpoint": ENDPOINT,
                "measure": {"interval": ns(2 * US)},
            },
            seed,
        )
        if result.fault("lossy").packets_sent:
            break
    effect = result.fault("lossy")
    ours = [each for each in result.transitions if each.ev & 7 == PLANE]
    outs = [each for each in ours if each.new == "ASSUMED_BAD"]
    samples, interval = result.delivered_bytes, result.interval_ns
    end_ns = result.flow("perf").completion_ns or 0
    before = gbps_between(samples, interval, AT_US * US / 2, AT_US * US)
    after = gbps_between(samples, interval, (AT_US + 50) * US, end_ns - 20 * US)
    times, curve = gbps_over_time(samples, interval, 10 * US)
    even = sum(result.plane_bytes) / PLANES
    return Measured(
        {
            "out_us": None if effect.first_out_ns is None else effect.first_out_ns / US,
            "twin_at_once": bool(outs)
            and all(
                each.replaced_by is not None and each.replaced_by & 7 == PLANE for each in outs
            ),
            "before_gbps": before,
            "after_share": after / before,
            "lost": effect.lost,
            "plane_share": result.plane_bytes[PLANE] / even,
            "sent_into_it": effect.packets_sent,
        },
        {
            "time_us": times,
            "gbps": curve,
            "out_us": [each.now_ns / US for each in outs],
            "back_us": [each.now_ns / US for each in ours if each.new == "GOOD"],
        },
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    out = results.spread("out_us")
    return [
        Check(
            "the EV is inactive at its first timeout",
            "at once",
            f"{out.text('{:.0f}'.format)} µs after it began to lose; a timeout is 33 µs",
            out.high <= TIMEOUT_US + 15,
        ),
        Check(
            "its twin of the same plane is active in its place",
            "its twin active",
            "in every run" if all(piece["twin_at_once"] for piece in results) else "not always",
            all(piece["twin_at_once"] is True for piece in results),
        ),
        Check(
            "bandwidth unchanged",
            "unchanged",
            f"{percent(results.least('after_share'))} of that before; the plane carries "
            f"{percent(results.middle('plane_share'))} of its share",
            results.least("after_share") >= 0.99,
        ),
    ]


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    piece = results.first_seed()
    ax = axes(canvas, "time, µs", "delivered payload, Gb/s")
    times, curve = piece.curve("time_us"), piece.curve("gbps")
    # The last bin is full in part only
    ax.plot(times[:-2], curve[:-2], color=MRC.colour, label="delivered")
    shade(ax, AT_US, times[-2], "one EV loses 20 %")
    for index, at in enumerate(piece.curve("out_us")):
        ax.axvline(at, color=RED, linestyle="--", label=None if index else "EV out, its twin in")
    for index, at in enumerate(piece.curve("back_us")):
        ax.axvline(at, color=GREEN, linestyle=":", label=None if index else "EV back")
    ax.set_ylim(0, max(curve) * 1.12)
    legend(ax)


FIGURE = Figure(
    name="fig-12",
    title="one EV of sixteen drops a fifth of its packets (figures 12 and 13)",
    paper="16 EVs, two a plane, one of each active: the EV that drops 20 % is inactive at "
    "once, its "
    "twin active, and the bandwidth is unchanged.",
    setup="8 planes of 100 Gb/s with two T1s each; the loss is on the active path of plane 2 from "
    "100 µs on.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("throughput", "Payload delivered and states of the EV, first seed.", draw)],
    columns=(
        Column("before_gbps", "before, Gb/s", "{:.1f}".format),
        Column("after_share", "after, of that", lambda value: f"{100 * value:.2f} %"),
        Column("out_us", "EV out after, µs", "{:.1f}".format),
        Column("lost", "packets lost", "{:.0f}".format),
        Column("plane_share", "the plane's data, of its share", percent),
    ),
)
