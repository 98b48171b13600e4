"""What figures 8 to 11 and 19 have in common: a flow, things that break under it, and the rate.

Time is cut into phases. In each the rate should be a share of the rate of the first, in which
nothing is wrong yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import BLUE, GREY, axes, legend, shade
from experiments.model import Column, Measured, Parameters, Piece, Plot, Results, Scale
from experiments.simulate import (
    US,
    Document,
    gbps_between,
    gbps_over_time,
    ns,
    simulate,
    size,
)

#: Samples of delivered payload
INTERVAL_NS: Final = 2 * US
#: Of curves: about two base RTTs
BIN_NS: Final = 10 * US
#: At the beginning of a phase the rate is on its way to where it should be: three timeouts
SETTLE_NS: Final = 100 * US
#: As ib_write_bw has it: so many messages are posted that a packet which must be sent again, and
#: holds up completions, does not stop the sender
_MESSAGE_BYTES: Final = 256 << 10
_DEPTH: Final = 128
#: Six base RTTs. The default, which allows for full queues at every hop, is four times that; here
#: no queue fills
ENDPOINT: Final[Document] = {"timeout": 5}

#: Metrics that all outages have
COLUMNS: Final = (
    Column("first_gbps", "before, Gb/s", "{:.1f}".format),
    Column("worst_off", "furthest off what is expected", lambda value: f"{100 * value:.2f} %"),
    Column("lowest", "lowest 10 µs", lambda value: f"{100 * value:.1f} %"),
    Column("lost", "frames lost", "{:.0f}".format),
    Column("timeouts", "timeouts", "{:.0f}".format),
)


#: Whether both hosts write
BOTH_WAYS: Final = {Scale.TINY: False, Scale.QUICK: True, Scale.PAPER: True}


@dataclass(frozen=True, slots=True)
class Phase:
    """From `start_ns` to the next phase: which share of the first rate is to be had."""

    start_ns: int
    share: float
    broken: bool


def stream(source: str, destination: str, until_ns: int, name: str | None = None) -> Document:
    """A flow that goes on until a time."""
    return {
        "transfer": {
            "name": name or f"{source}-{destination}",
            "from": source,
            "to": destination,
            "size": size(_MESSAGE_BYTES),
            "until": ns(until_ns),
            "depth": _DEPTH,
        }
    }


def streams(source: str, destination: str, until_ns: int, parameters: Parameters) -> list[Document]:
    """Flows both ways; one way where `both_ways` is false, for half the cost."""
    flows = [stream(source, destination, until_ns)]
    if parameters["both_ways"]:
        flows.append(stream(destination, source, until_ns))
    return flows


def measure_outage(
    topology: Any,
    traffic: Sequence[Document],
    faults: Sequence[Document],
    phases: Sequence[Phase],
    end_ns: int,
    seed: int,
    endpoint: Document = ENDPOINT,
    settle_ns: int = SETTLE_NS,
) -> Measured:
    """Run it; rates are of all flows together. `settle_ns` of each phase are not judged."""
    result = simulate(
        {
            "topology": topology,
            "traffic": list(traffic),
            "faults": list(faults),
            "endpoint": endpoint,
            "measure": {"interval": ns(INTERVAL_NS)},
            "duration": ns(end_ns),
            "expect": {"complete": False},
        },
        seed,
    )
    samples, interval = result.delivered_bytes, result.interval_ns
    ends = [*(phase.start_ns for phase in phases[1:]), end_ns]
    rates = [
        gbps_between(samples, interval, phase.start_ns + settle_ns, end)
        for phase, end in zip(phases, ends, strict=True)
    ]
    first = rates[0]
    times, curve = gbps_over_time(samples, interval, BIN_NS)
    inside = [
        rate for time, rate in zip(times, curve, strict=True) if SETTLE_NS <= time * US <= end_ns
    ]
    off = [abs(rate / first - phase.share) for rate, phase in zip(rates, phases, strict=True)]
    metrics: dict[str, str | int | float | bool | None] = {
        "first_gbps": first,
        "first_share": first * 1e9 / _line_bps(result.flows, result.payload_share),
        "worst_off": max(off),
        "last_share": rates[-1] / first,
        "lowest": min(inside) / first,
        "lost": sum(result.lost.values()),
        "timeouts": result.total["timeouts"],
        "retransmissions": result.total["retransmissions"],
        "packets": result.total["packets"],
    }
    for number, rate in enumerate(rates):
        metrics[f"phase{number}_share"] = rate / first
    return Measured(
        metrics,
        {
            "time_us": times,
            "gbps": curve,
            "phase_us": [phase.start_ns / US for phase in phases] + [end_ns / US],
            "expected": [phase.share for phase in phases],
            "broken": [float(phase.broken) for phase in phases],
        },
    )


def _line_bps(flows: Sequence[Any], payload_share: float) -> float:
    senders = {flow.source: flow.line_rate_bps or 0 for flow in flows}
    return sum(senders.values()) * payload_share


def throughput_plot(caption: str) -> Plot:
    """Rate over time, with what is expected of each phase."""
    return Plot("throughput", caption, draw_outage)


def draw_outage(results: Results, canvas: Canvas) -> None:
    """The rate over time of the run with the first seed."""
    piece = results.first_seed()
    ax = axes(canvas, "time, µs", "delivered payload, Gb/s")
    edges, expected = piece.curve("phase_us"), piece.curve("expected")
    first = piece.number("first_gbps")
    ax.stairs(
        [first * share for share in expected],
        edges,
        baseline=None,
        color=GREY,
        linestyle="--",
        label="what is left",
    )
    ax.plot(*_until(piece), color=BLUE, label="delivered")
    label: str | None = "something is broken"
    for start, end, broken in zip(edges, edges[1:], piece.curve("broken"), strict=False):
        if broken:
            shade(ax, start, end, label)
            label = None
    ax.set_ylim(0, first * 1.12)
    ax.set_xlim(0, edges[-1])
    legend(ax)


def _until(piece: Piece) -> tuple[list[float], list[float]]:
    end = piece.curve("phase_us")[-1]
    points = [
        (time, rate)
        for time, rate in zip(piece.curve("time_us"), piece.curve("gbps"), strict=True)
        if time < end
    ]
    return [time for time, _ in points], [rate for _, rate in points]


def percent(value: float) -> str:
    """A share as people read it."""
    return f"{100 * value:.1f} %"


def shares_text(results: Results, phases: int) -> str:
    """The share of each phase, medians over seeds."""
    return ", ".join(percent(results.middle(f"phase{number}_share")) for number in range(phases))
