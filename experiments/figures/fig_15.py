"""Figure 15: sendrecv to a neighbour, many nodes, by message size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, axes, bands, legend, level
from experiments.model import (
    Check,
    Column,
    Figure,
    Measured,
    Parameters,
    Plot,
    Reason,
    Results,
    Scale,
)
from experiments.simulate import GBPS, KIB, MIB, US, simulate, size
from experiments.words import percent
from reports.text import bytes_text

LINE_BPS: Final = 800 * GBPS
RANKS: Final = {Scale.TINY: 2, Scale.QUICK: 8, Scale.PAPER: 64}
SIZES: Final = {
    Scale.TINY: (256 * KIB, 16 * MIB),
    Scale.QUICK: (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB),
    Scale.PAPER: (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
}
ROUNDS: Final = {Scale.TINY: 1, Scale.QUICK: 1, Scale.PAPER: 3}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [
        {"ranks": RANKS[scale], "bytes": count, "rounds": ROUNDS[scale]} for count in SIZES[scale]
    ]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    ranks, count = int(parameters["ranks"] or 0), int(parameters["bytes"] or 0)
    # Four hosts a rack, as many racks as that takes, so that every neighbour is in another rack
    racks = max(ranks // 4, 2)
    work = {
        "name": "sendrecv",
        "op": "send-recv",
        "size": size(count),
        "ranks": ranks,
        "order": "spread",
        "repeat": parameters["rounds"],
    }
    result = simulate(
        {
            "topology": {"base": "eight-plane", "t0_per_plane": racks},
            "traffic": [{"collective": work}],
        },
        seed,
    )
    bus_bps = result.collective("sendrecv").bus_bps
    return Measured(
        {
            "bus_gbps": bus_bps / GBPS,
            "share": bus_bps / LINE_BPS,
            "trimmed": result.trimmed,
            "timeouts": result.total["timeouts"],
        }
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    largest = max(results.distinct("bytes"))
    share = results.of(bytes=largest).spread("share")
    return [
        Check(
            "about 92 % of line rate at large messages",
            "≈92 %",
            f"{share.text(percent)} at {bytes_text(largest)}",
            share.low >= 0.88,
            differs=_handshake(results),
        ),
        Check(
            "the larger the message, the better",
            "",
            ", ".join(
                percent(results.of(bytes=count).middle("share"))
                for count in results.distinct("bytes")
            ),
            results.of(bytes=largest).middle("share")
            >= max(results.of(bytes=count).middle("share") for count in results.distinct("bytes"))
            - 0.01,
        ),
    ]


def _handshake(results: Results) -> Reason:
    """What a round costs whatever its size, from the two largest."""
    smaller, larger = sorted(results.distinct("bytes"))[-2:]
    # Gb/s is bits a nanosecond
    smaller_us, larger_us = (
        8 * count / results.of(bytes=count).middle("bus_gbps") / US for count in (smaller, larger)
    )
    rate_gbps = 8 * (larger - smaller) / (larger_us - smaller_us) / US
    share = rate_gbps * GBPS / LINE_BPS
    fixed_us = larger_us - 8 * larger / rate_gbps / US
    return Reason(
        "a round begins with a handshake of buffers, which costs the same at every size, and "
        "messages here are no larger than memory allows",
        f"from {bytes_text(smaller)} to {bytes_text(larger)}, every byte more goes at "
        f"{percent(share)} of line rate; {fixed_us:.0f} µs of {larger_us:.0f} do not "
        "depend on the size",
        share >= 0.9 and fixed_us > 0,
    )


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    sizes = results.distinct("bytes")
    ax = axes(canvas, "size of a message", "bus bandwidth, Gb/s")
    of = [results.of(bytes=count) for count in sizes]
    bands(ax, sizes, of, "bus_gbps", "sendrecv, MRC", MRC)
    level(ax, 0.92 * LINE_BPS / GBPS, "paper: 92 % of line rate")
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [bytes_text(count) for count in sizes])
    ax.set_ylim(0, LINE_BPS / GBPS)
    legend(ax)


FIGURE = Figure(
    name="fig-15",
    title="sendrecv to a neighbour in another rack",
    paper="≈92 % of line rate at large messages, on many nodes.",
    setup="Each rank sends to the next and receives from the one before, all in other "
    "racks, over 8 planes of 100 Gb/s; one round (three at paper scale) with its handshake of "
    "buffers. Bandwidth as nccl-tests have it, of the line rate with headers.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("bandwidth", "Bus bandwidth by message size; bars: all seeds.", draw)],
    columns=(
        Column("bus_gbps", "bus bandwidth, Gb/s", "{:.1f}".format),
        Column("share", "of 800 Gb/s", percent),
        Column("trimmed", "packets trimmed", "{:.0f}".format),
        Column("timeouts", "timeouts", "{:.0f}".format),
    ),
)
