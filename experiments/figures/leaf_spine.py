"""Permutation, incast and all-to-all on leaf-spine fabrics, to lay beside other simulators'."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, MRC_OTHERWISE, axes, common_legend
from experiments.interop.connection_matrix import (
    ConnectionMatrix,
    all_to_all,
    flows_of,
    incast,
    permutation,
)
from experiments.interop.leaf_spine import LeafSpine
from experiments.model import Check, Column, Figure, Measured, Parameters, Plot, Results, Scale
from experiments.simulate import GBPS, KIB, US, simulate_scenario, tails
from topologies.scenario import Scenario
from topologies.timing import base_rtt_ns, payload_share

#: Hosts, leaves
FABRICS: Final = {32: 4, 128: 8}
RATES_GBPS: Final = {Scale.TINY: (400,), Scale.QUICK: (100, 400), Scale.PAPER: (100, 400)}
LINK_NS: Final = 1000
HOSTS: Final = {Scale.TINY: (32,), Scale.QUICK: (32,), Scale.PAPER: (32, 128)}
#: Of a message, by workload; those of an all-to-all are all in memory at once
BYTES: Final = {
    "permutation": {Scale.TINY: 400_000, Scale.QUICK: 2_000_000, Scale.PAPER: 2_000_000},
    "incast": {Scale.TINY: 1_000_000, Scale.QUICK: 2_000_000, Scale.PAPER: 2_000_000},
    "all-to-all": {Scale.TINY: 2 * KIB, Scale.QUICK: 64 * KIB, Scale.PAPER: 256 * KIB},
}
WORKLOADS: Final = tuple(BYTES)
#: So many write to one
FAN_IN: Final = {Scale.TINY: 8, Scale.QUICK: 31, Scale.PAPER: 31}


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [
        {
            "workload": workload,
            "hosts": hosts,
            "rate_gbps": rate,
            "bytes": BYTES[workload][scale],
            "fan_in": FAN_IN[scale] if workload == "incast" else 0,
        }
        for hosts in HOSTS[scale]
        for workload in WORKLOADS
        for rate in RATES_GBPS[scale]
    ]


def _matrix(parameters: Parameters, seed: int) -> ConnectionMatrix:
    hosts, count = int(parameters["hosts"] or 0), int(parameters["bytes"] or 0)
    draw_of = random.Random(seed)
    match parameters["workload"]:
        case "permutation":
            order = list(range(hosts))
            while any(node == other for node, other in enumerate(order)):
                draw_of.shuffle(order)
            return permutation(order, count)
        case "incast":
            senders = draw_of.sample(range(1, hosts), int(parameters["fan_in"] or 0))
            return incast(hosts, senders, 0, count)
        case _:
            return all_to_all(hosts, count)


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    hosts, rate_bps = int(parameters["hosts"] or 0), int(parameters["rate_gbps"] or 0) * GBPS
    per_leaf = hosts // FABRICS[hosts]
    # As many spines as a leaf has hosts: full bisection
    shape = LeafSpine(hosts, per_leaf, per_leaf, rate_bps, rate_bps, LINK_NS, LINK_NS)
    fabric = shape.fabric("leaf-spine")
    matrix = _matrix(parameters, seed)
    result = simulate_scenario(Scenario("leaf-spine", fabric, flows_of(matrix, fabric), seed=seed))
    times_us = [(flow.completion_ns or 0) / US for flow in result.flows]
    # The busiest sender or receiver at line rate, and one base RTT
    loads: dict[tuple[str, int], int] = {}
    for each in matrix.connections:
        for key in (("out", each.source), ("in", each.destination)):
            loads[key] = loads.get(key, 0) + each.size_bytes
    wire_ns = max(loads.values()) * 8e9 / (rate_bps * payload_share(fabric))
    ideal_us = (wire_ns + base_rtt_ns(fabric, fabric.host("h0"), fabric.host(f"h{hosts - 1}"))) / US
    return Measured(
        {
            **{f"fct_{name}_us": value for name, value in tails(times_us).items()},
            "ideal_us": ideal_us,
            "slowdown": max(times_us) / ideal_us,
            "trimmed": result.trimmed,
            "marked": result.marked,
            "timeouts": result.total["timeouts"],
            "retransmissions": result.total["retransmissions"],
        },
        {"fct_us": sorted(times_us)},
    )


#: The last flow may take so much longer than the wire alone
_SLOWDOWN_MAX: Final = {"permutation": 1.35, "incast": 1.25, "all-to-all": 1.35}


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    found = []
    for workload in WORKLOADS:
        of = results.of(workload=workload)
        slowdown = of.spread("slowdown")
        limit = _SLOWDOWN_MAX[workload]
        found.append(
            Check(
                f"{workload}: the last flow ends within {limit} times what the wire alone takes",
                "",
                f"{slowdown.text('{:.2f}'.format)} times; {of.most('timeouts'):.0f} timeouts",
                slowdown.high <= limit,
            )
        )
    return found


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    for number, workload in enumerate(WORKLOADS):
        ax = axes(
            canvas,
            "completion time, µs",
            "share of flows" if not number else "",
            columns=3,
            index=number + 1,
        )
        ax.set_title(workload, fontsize=9)
        looks = iter((MRC, *MRC_OTHERWISE))
        for hosts in results.distinct("hosts"):
            for rate in results.distinct("rate_gbps"):
                of = results.of(workload=workload, hosts=hosts, rate_gbps=rate)
                times = of.first_seed().curve("fct_us")
                shares = [(index + 1) / len(times) for index in range(len(times))]
                ax.step(
                    times,
                    shares,
                    where="post",
                    color=next(looks).colour,
                    label=f"{hosts} hosts, {rate} Gb/s",
                )
        ax.set_xlim(left=0)
        ax.set_ylim(0, 1.02)
    common_legend(canvas)


FIGURE = Figure(
    name="leaf-spine",
    title="permutation, incast and all-to-all on leaf-spine fabrics, in completion times",
    paper="Not of the paper: workloads that other simulators' results are published for.",
    setup="Leaf-spine fabrics of full bisection (one plane), 100 and 400 Gb/s, 4 KiB MTU, links of "
    "1 µs, queues of 100 packets that mark from 25 to 75, 2 MB messages; made from "
    "htsim's topology "
    "and connection-matrix formats. The messages of the all-to-all are smaller, as all are in "
    "memory at once. Ideal: the busiest port at line rate, and one round trip.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("fct", "Completion times of flows, first seed.", draw)],
    columns=(
        Column("fct_p50_us", "P50, µs", "{:.1f}".format),
        Column("fct_p99_us", "P99, µs", "{:.1f}".format),
        Column("fct_p100_us", "P100, µs", "{:.1f}".format),
        Column("ideal_us", "wire alone, µs", "{:.1f}".format),
        Column("slowdown", "P100 / wire", "{:.2f}".format),
        Column("trimmed", "trimmed", "{:.0f}".format),
        Column("timeouts", "timeouts", "{:.0f}".format),
    ),
    seeds={Scale.TINY: 1, Scale.QUICK: 2, Scale.PAPER: 3},
)
