"""Figure 4: a job starts with some links down, and no endpoint has a denylist."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import GREY, MRC, axes, common_legend
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import (
    KIB,
    US,
    Document,
    gbps_between,
    ns,
    scenario_of,
    simulate_scenario,
    size,
)
from experiments.words import percent

#: Of 8 planes x 4 T0s x 4 T1s = 128 T0-T1 links, spread over planes and racks
LINKS_DOWN: Final = 4
#: Queue pairs of each host to its neighbour: a job has many on a NIC, so each has a small part
QPS: Final = {Scale.TINY: (1, 16), Scale.QUICK: (1, 4, 16), Scale.PAPER: (1, 4, 16, 64)}
HOSTS: Final = {Scale.TINY: 2, Scale.QUICK: 4, Scale.PAPER: 16}
LASTS_US: Final = {Scale.TINY: 160, Scale.QUICK: 300, Scale.PAPER: 2000}
MESSAGE_BYTES: Final = 64 * KIB
#: Messages of a NIC that are posted at a time, all queue pairs together
MESSAGES: Final = 256
BIN_US: Final = 10
ENDPOINT: Final[Document] = {"timeout": 5}
TIMEOUT_US: Final = 32.768


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [{"qps": qps, "hosts": HOSTS[scale], "lasts_us": LASTS_US[scale]} for qps in QPS[scale]]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    qps, hosts = int(parameters["qps"] or 0), int(parameters["hosts"] or 0)
    lasts_ns = int(parameters["lasts_us"] or 0) * US
    # Neighbours are in different racks
    ring = [f"h{4 * (number % 4) + number // 4}" for number in range(hosts)]
    traffic = [
        {
            "transfer": {
                "name": f"{source}-{destination}",
                "from": source,
                "to": destination,
                "size": size(MESSAGE_BYTES),
                "until": ns(lasts_ns),
                "depth": max(MESSAGES // qps, 2),
                "qps": qps,
            }
        }
        for source, destination in zip(ring, ring[1:] + ring[:1], strict=True)
    ]
    faults = [
        {
            "link_down": {
                "name": f"dead-{number}",
                "link": [f"p{number}-t0-{number % 4}", f"p{number}-t1-{(number // 4) % 4}"],
            }
        }
        for number in range(LINKS_DOWN)
    ]
    document = {
        "topology": "eight-plane",
        "traffic": traffic,
        "faults": faults,
        "endpoint": ENDPOINT,
        "duration": ns(lasts_ns),
        "measure": {"interval": ns(2 * US)},
        "expect": {"complete": False},
    }
    result = simulate_scenario(scenario_of(document, seed, "fig-4"))
    outs = [each.now_ns / US for each in result.transitions if each.new == "ASSUMED_BAD"]
    bins = ceil(lasts_ns / US / BIN_US)
    counts = [0.0] * bins
    for out_us in outs:
        counts[min(int(out_us / BIN_US), bins - 1)] += 1
    queue_pairs = hosts * qps
    samples = result.delivered_bytes
    late = gbps_between(samples, result.interval_ns, lasts_ns * 3 / 4, lasts_ns)
    line = hosts * 800 * result.payload_share
    resent = result.total["timeouts"]
    return Measured(
        {
            "lost_per_qp": resent / queue_pairs,
            "lost_per_qp_path": resent / max(sum(fault.evs_out for fault in result.faults), 1),
            "frames_lost": sum(result.lost.values()),
            "last_out_us": max(outs, default=0.0),
            "out_after_two_timeouts": sum(out > 2.5 * TIMEOUT_US for out in outs)
            / max(len(outs), 1),
            "late_share": late / line,
            "evs_out": len(outs),
        },
        {"time_us": [(number + 0.5) * BIN_US for number in range(bins)], "evs_out": counts},
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    many = max(results.distinct("qps"))
    lost = results.of(qps=many).spread("lost_per_qp")
    one = results.of(qps=1).spread("lost_per_qp")
    late = results.least("late_share")
    after = results.most("out_after_two_timeouts")
    return [
        Check(
            f"fewer than 5 packets lost per QP where a NIC has {many} QPs",
            "fewer than 5",
            f"{lost.text('{:.1f}'.format)} (with one QP that has the whole NIC: "
            f"{one.text('{:.0f}'.format)})",
            lost.high < 5,
        ),
        Check(
            "losses stop as each path is met once and mapped out",
            "below 1 a second and NIC within minutes",
            f"{100 * after:.1f} % of EVs that went out did so later than 2.5 timeouts (82 µs)",
            after <= 0.25,
        ),
        Check(
            "full rate then",
            "",
            f"{percent(late)} of line rate in the last quarter",
            late >= 0.95,
        ),
    ]


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    counts = results.distinct("qps")
    for number, qps in enumerate(counts):
        of = results.of(qps=qps)
        ax = axes(
            canvas,
            "time, µs",
            f"EVs mapped out in {BIN_US} µs" if not number else "",
            columns=len(counts),
            index=number + 1,
        )
        piece = of.first_seed()
        ax.bar(
            piece.curve("time_us"),
            piece.curve("evs_out"),
            BIN_US * 0.9,
            color=MRC.colour,
        )
        ax.set_title(f"{qps} QPs a NIC" if qps > 1 else "one QP a NIC", fontsize=9)
        ax.axvline(TIMEOUT_US, color=GREY, linestyle="--", label="ACK timeout, 33 µs")
    common_legend(canvas)


FIGURE = Figure(
    name="fig-4",
    title="a job starts with links down and no denylist",
    paper="Losses fall below 1 per second and NIC within minutes; fewer than 5 packets are lost "
    "per QP.",
    setup="Hosts in a ring of racks write to their neighbours at line rate over 8 planes of 4 T0s "
    "and 4 T1s, of whose 128 T0-T1 links 4 are down, one of each rack, from the "
    "start. Time is in microseconds, from "
    "a cold start at full rate; the paper's job takes minutes to use all its paths. The fewer QPs "
    "share a NIC, the more packets each sends into a dead path before its first timeout.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("evs-out", "EVs mapped out over time, first seed, by QPs of each NIC.", draw)],
    columns=(
        Column("lost_per_qp", "packets lost per QP", "{:.2f}".format),
        Column("lost_per_qp_path", "per QP and dead path", "{:.2f}".format),
        Column("evs_out", "EVs mapped out", "{:.0f}".format),
        Column("last_out_us", "the last at, µs", "{:.0f}".format),
        Column("late_share", "of line rate at the end", percent),
    ),
)
