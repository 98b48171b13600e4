"""What figures 8 to 11 and 19 have in common: a flow, things that break under it, and the rate.

Time is cut into phases. In each the rate should be a share of the rate of the first, in which
nothing is wrong yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import GREY, MRC, axes, legend, shade
from experiments.model import Check, Column, Measured, Parameters, Piece, Plot, Results, Scale
from experiments.simulate import (
    US,
    Document,
    gbps_between,
    gbps_over_time,
    ns,
    simulate,
    size,
)
from experiments.words import percent

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

#: A longer run is drawn in milliseconds
_LONG_US: Final = 5000
#: Of a curve, at most; so many bins are then drawn as one
_POINTS: Final = 500
_TOGETHER: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

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


def streams(
    source: str, destination: str, until_ns: int, *, both_ways: bool = True
) -> list[Document]:
    """Flows both ways, or one way for half the cost."""
    flows = [stream(source, destination, until_ns)]
    if both_ways:
        flows.append(stream(destination, source, until_ns))
    return flows


def measure_one_fault(
    topology: Any,
    source: str,
    destination: str,
    fault: Document,
    left: float,
    parameters: Parameters,
    seed: int,
) -> Measured:
    """A phase without a fault, one with it, one after it, each `phase_us` long.

    `fault`: its kind, and what of it is not its time; `left`: the share of the rate meanwhile.
    """
    phase_ns = int(parameters["phase_us"] or 0) * US
    phases = [
        Phase(0, 1.0, False),
        Phase(phase_ns, left, True),
        Phase(2 * phase_ns, 1.0, False),
    ]
    ((kind, what),) = fault.items()
    during = {kind: {**what, "at": ns(phase_ns), "for": ns(phase_ns)}}
    end_ns = 3 * phase_ns
    both_ways = bool(parameters.get("both_ways", True))
    flows = streams(source, destination, end_ns, both_ways=both_ways)
    return measure_outage(topology, flows, [during], phases, end_ns, seed)


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


def check_full_rate(
    results: Results, claim: str, paper: str, share: str = "last_share", least: float = 0.98
) -> Check:
    """That the rate of a phase is at least `least` of the first one's, in every run."""
    lowest = results.least(share)
    return Check(claim, paper, f"{percent(lowest)} of the rate before", lowest >= least)


def throughput_plot(whose: str, more: str = "") -> Plot:
    """Rate over time, with what is expected of each phase. `whose`: of which flows it is."""
    caption = f"Payload delivered {whose}, first seed. Dashed: what the links left should give."
    return Plot("throughput", f"{caption} {more}".rstrip(), draw_outage)


def draw_outage(results: Results, canvas: Canvas) -> None:
    """The rate over time of the run with the first seed."""
    piece = results.first_seed()
    end_us = piece.curve("phase_us")[-1]
    unit, unit_us = ("µs", 1) if end_us < _LONG_US else ("ms", 1000)
    times, rates = _drawn_curve(piece, end_us)
    bin_us = times[1] - times[0]
    ax = axes(canvas, f"time, {unit}", "delivered payload, Gb/s")
    edges, expected = [edge / unit_us for edge in piece.curve("phase_us")], piece.curve("expected")
    first = piece.number("first_gbps")
    ax.stairs(
        [first * share for share in expected],
        edges,
        baseline=None,
        color=GREY,
        linestyle="--",
        label="what is left",
    )
    label = f"MRC, in bins of {bin_us:.0f} µs"
    ax.plot([time / unit_us for time in times], rates, color=MRC.colour, label=label)
    broken_label: str | None = "something is broken"
    for start, end, broken in zip(edges, edges[1:], piece.curve("broken"), strict=False):
        if broken:
            shade(ax, start, end, broken_label)
            broken_label = None
    ax.set_ylim(0, first * 1.12)
    ax.set_xlim(0, edges[-1])
    legend(ax)


def _drawn_curve(piece: Piece, end_us: float) -> tuple[list[float], list[float]]:
    """The rate until the end; of a long run means of several bins, each of a few packets."""
    points = [
        (time, rate)
        for time, rate in zip(piece.curve("time_us"), piece.curve("gbps"), strict=True)
        if time < end_us
    ]
    together = next(count for count in _TOGETHER if count * _POINTS >= len(points))
    groups = [points[at : at + together] for at in range(0, len(points), together)]
    whole = [group for group in groups if len(group) == together]
    times, rates = ([mean(point[of] for point in group) for group in whole] for of in (0, 1))
    return times, rates


def shares_text(results: Results, phases: int) -> str:
    """The share of each phase, medians over seeds."""
    return ", ".join(percent(results.middle(f"phase{number}_share")) for number in range(phases))
