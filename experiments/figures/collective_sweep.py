"""What figures 16 and 17 have in common: a collective by size, transport and loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.figure import Figure as Canvas

from experiments import drawing
from experiments.drawing import axes, bands, common_legend, level
from experiments.figures.one_plane import one_plane
from experiments.model import Column, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import GBPS, MIB, MS, ns, simulate, size
from experiments.words import percent
from reports.text import bytes_text

#: One plane, so that both transports have the same fabric
HOSTS_PER_T0: Final = 4
UPLINKS: Final = 4
SIZES: Final = {
    Scale.TINY: (MIB,),
    Scale.QUICK: (MIB // 2, 2 * MIB, 8 * MIB),
    Scale.PAPER: (MIB // 4, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
}
LOSSES: Final = (0.0, 0.001, 0.01)
#: Name → transport, queue pairs of each two ranks, ACK timeout (None: the endpoint's own default)
TRANSPORTS: Final[dict[str, tuple[str, int, int | None]]] = {
    "MRC, 1 QP": ("mrc", 1, None),
    "RoCE, 1 QP": ("roce", 1, None),
    "RoCE, 16 QPs": ("roce", 16, None),
    # What of the cost of a loss is waiting: an ACK timeout of 16 µs, three to four base RTTs
    "MRC, 16 µs timeout": ("mrc", 1, 4),
    # What RoCE's own cost of a loss is where applications set the timeout: perftest's default
    "RoCE, 1 QP, 67 ms timeout": ("roce", 1, 14),
}
MRC: Final = "MRC, 1 QP"
MRC_SHORT: Final = "MRC, 16 µs timeout"
ROCE: Final = ("RoCE, 1 QP", "RoCE, 16 QPs")
ROCE_LONG: Final = "RoCE, 1 QP, 67 ms timeout"
#: A run that takes longer is over: bandwidth is what was moved until then
LIMIT_NS: Final = 100 * MS

COLUMNS: Final = (
    Column("bus_gbps", "bus bandwidth, Gb/s", "{:.1f}".format),
    Column("share", "of line rate for payload", percent),
    Column("retransmissions", "packets resent", "{:.0f}".format),
    Column("timeouts", "timeouts", "{:.0f}".format),
    Column("marked", "ECN", "{:.0f}".format),
)


def parameters_of(
    ranks: int,
    line_gbps: int,
    sizes: Sequence[int],
    transports: Sequence[str] = (MRC, *ROCE, MRC_SHORT),
) -> Sequence[Parameters]:
    """Every transport at every loss and size; `line_gbps` is of the NIC and of every link."""
    return [
        {
            "transport": transport,
            "loss": loss,
            "bytes": count,
            "ranks": ranks,
            "line_gbps": line_gbps,
        }
        for loss in LOSSES
        for transport in transports
        for count in sizes
        # Without losses a timeout does nothing
        if loss or transport != MRC_SHORT
    ]


def measure_collective(op: str, parameters: Parameters, seed: int) -> Measured:
    """One round of a collective among hosts that take turns in racks."""
    transport, qps, timeout = TRANSPORTS[str(parameters["transport"])]
    ranks = int(parameters["ranks"] or 0)
    loss = float(parameters["loss"] or 0.0)
    line_bps = int(parameters["line_gbps"] or 0) * GBPS
    work: dict[str, Any] = {
        "name": "work",
        "op": op,
        "size": size(int(parameters["bytes"] or 0)),
        "ranks": ranks,
        "order": "spread",
        "qps": qps,
    }
    faults = [{"loss": {"tier": "host", "direction": "up", "probability": loss}}] if loss else []
    result = simulate(
        {
            "topology": one_plane(
                transport,
                line_bps,
                racks=max(ranks // HOSTS_PER_T0, 2),
                uplinks=UPLINKS,
                hosts_per_rack=HOSTS_PER_T0,
            ),
            "traffic": [{"collective": work}],
            "endpoint": {"transport": transport, **({"timeout": timeout} if timeout else {})},
            "faults": faults,
            "duration": ns(LIMIT_NS),
            "expect": {"complete": False},
        },
        seed,
    )
    done = result.collective("work")
    pause_frames = 0 if result.pauses is None else result.pauses.frames
    # What is not over in time has at most what the limit leaves it
    bus_bps = done.bus_bps
    if not done.done:
        factor = 2 * (ranks - 1) / ranks if op == "all-reduce" else (ranks - 1) / ranks
        bus_bps = done.size_bytes * 8e9 / LIMIT_NS * factor
    return Measured(
        {
            "bus_gbps": bus_bps / GBPS,
            "share": bus_bps / (line_bps * result.payload_share),
            "done": done.done,
            "retransmissions": done.retransmissions,
            "timeouts": done.timeouts,
            "marked": done.ecn_marked,
            "lost": result.lost.get("random loss", 0),
            "packets": done.packets,
            # Of NICs; pause frames are those of switches
            "frames": result.sent - pause_frames,
        }
    )


def share(results: Results, transport: str, loss: float, count: int) -> float:
    """The median share of line rate of one point."""
    return results.of(transport=transport, loss=loss, bytes=count).middle("share")


def resent_per_loss(results: Results, transport: str, loss: float, count: int) -> float:
    """Packets sent again for each frame that was lost."""
    of = results.of(transport=transport, loss=loss, bytes=count)
    return sum(of.values("retransmissions")) / max(sum(of.values("lost")), 1.0)


def draw_sweep(results: Results, canvas: Canvas) -> None:
    """Bandwidth by size, a panel for each loss."""
    sizes = results.of(transport=MRC).distinct("bytes")
    (line_gbps,) = results.distinct("line_gbps")
    looks = {
        MRC: drawing.MRC,
        MRC_SHORT: drawing.MRC_OTHERWISE[0],
        ROCE[0]: drawing.ROCE,
        ROCE[1]: drawing.ROCE_MANY_QPS,
    }
    swept = [name for name in results.distinct("transport") if name != ROCE_LONG]
    for index, loss in enumerate(LOSSES):
        ax = axes(
            canvas,
            "size of the vector",
            "bus bandwidth, Gb/s" if not index else "",
            columns=len(LOSSES),
            index=index + 1,
        )
        ax.set_title(f"loss {100 * loss:g} %", fontsize=9)
        for transport in swept:
            # Without losses a timeout does nothing, and there is no run with another
            run = transport if loss or transport != MRC_SHORT else MRC
            of = [results.of(transport=run, loss=loss, bytes=count) for count in sizes]
            bands(ax, sizes, of, "bus_gbps", transport, looks[transport])
        level(ax, line_gbps, "line rate")
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [bytes_text(count) for count in sizes], rotation=30)
        ax.minorticks_off()
        ax.set_ylim(0, line_gbps * 1.05)
    common_legend(canvas, columns=5)


PLOT: Final = Plot("bandwidth", "Bus bandwidth by size and loss; bars: all seeds.", draw_sweep)
