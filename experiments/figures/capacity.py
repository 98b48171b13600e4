"""What figures 19a, b and c have in common: the uplinks of a rack fail and capacity shrinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from experiments.figures.outage import (
    COLUMNS,
    Phase,
    measure_outage,
    shares_text,
    stream,
    throughput_plot,
)
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale
from experiments.simulate import GBPS, MS, US, Document, bps, ns

UPLINKS: Final = 4
NIC_BPS: Final = 100 * GBPS
PHASE_US: Final = {Scale.TINY: 3600, Scale.QUICK: 5000, Scale.PAPER: 20_000}
#: 66 µs: an uplink's queue of 100 packets at 25 Gb/s is drained in 136 µs, but marking keeps it at
#: a small part of that
ENDPOINT: Final[Document] = {"timeout": 6}
#: With a single plane and four paths every path that dies takes a quarter of the data and of the
#: SACKs with it; that, and the probes that find paths that are back, take some timeouts, and are
#: not the subject
SETTLE_NS: Final = 3000 * US
#: For the set-up of each figure
SETTLING: Final = (
    f"The first {SETTLE_NS // MS} ms of each phase of 5 ms (20 ms at paper scale) are left out as "
    "settling"
)
#: Where uplinks that fail are missed
SETTLING_WHY: Final = (
    f"{SETTLING}: with four paths each that dies takes a quarter of the data and of the SACKs with "
    "it, and a timeout and three probes pass until one is back in use."
)


def capacity_figure(
    name: str,
    title: str,
    paper: str,
    setup: str,
    uplink_bps: int,
    failed: Mapping[Scale, Sequence[int]],
    checks: Callable[[Results], Sequence[Check]],
) -> Figure:
    """A figure of one run at each scale; `failed`: uplinks down in each phase."""

    def parameters(scale: Scale) -> Sequence[Parameters]:
        return [{"phase_us": PHASE_US[scale], "failed": " ".join(map(str, failed[scale]))}]

    def measure(parameters: Parameters, seed: int) -> Measured:
        return measure_capacity(uplink_bps, parameters, seed)

    return Figure(
        name=name,
        title=title,
        paper=paper,
        setup=setup,
        parameters=parameters,
        measure=measure,
        checks=checks,
        plots=[throughput_plot("by the flow")],
        columns=COLUMNS,
    )


def tracks_capacity(results: Results) -> Sequence[Check]:
    """What figures 19b and c claim of finished runs."""
    worst = results.most("worst_off")
    return [
        Check(
            "throughput tracks the remaining capacity",
            "closely",
            f"{shares_text(results, phase_count(results))} phase by phase, at most "
            f"{100 * worst:.1f} % of the full rate off",
            worst <= 0.03,
        )
    ]


def phase_count(results: Results) -> int:
    """Phases of these runs."""
    (failed,) = results.distinct("failed")
    return len(str(failed).split())


def measure_capacity(uplink_bps: int, parameters: Parameters, seed: int) -> Measured:
    """One flow between racks of one plane."""
    phase_us = int(parameters["phase_us"] or 0)
    failed = [int(count) for count in str(parameters["failed"]).split()]
    topology: Document = {
        "base": "eight-plane",
        "planes": 1,
        "t0_per_plane": 2,
        "t1_per_plane": UPLINKS,
        "links": {"fabric": {"rate": bps(uplink_bps)}},
    }
    phase_ns = phase_us * US
    full_bps = min(NIC_BPS, UPLINKS * uplink_bps)
    phases = [
        Phase(
            number * phase_ns,
            min(NIC_BPS, (UPLINKS - down) * uplink_bps) / full_bps,
            down > 0,
        )
        for number, down in enumerate(failed)
    ]
    end_ns = len(phases) * phase_ns
    faults = []
    for uplink in range(UPLINKS):
        # The uplink is down in a row of phases
        of = [number for number, down in enumerate(failed) if down > uplink]
        if of:
            faults.append(
                {
                    "link_down": {
                        "name": f"uplink-{uplink}",
                        "link": ["p0-t0-0", f"p0-t1-{uplink}"],
                        "at": ns(of[0] * phase_ns),
                        "for": ns(len(of) * phase_ns),
                    }
                }
            )
    flows = [stream("h0", "h4", end_ns)]
    return measure_outage(
        topology,
        flows,
        faults,
        phases,
        end_ns,
        seed,
        endpoint=ENDPOINT,
        settle_ns=SETTLE_NS,
    )
