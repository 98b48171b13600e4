"""Figure 16: ring all-reduce by size and loss, MRC beside RoCE with 1 and 16 QPs."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.figures.collective_sweep import (
    COLUMNS,
    MRC,
    MRC_SHORT,
    PLOT,
    ROCE,
    measure_collective,
    parameters_of,
    resent_per_loss,
    share,
)
from experiments.figures.outage import percent
from experiments.model import Check, Figure, Measured, Parameters, Results, Scale


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return parameters_of(scale)


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    return measure_collective("all-reduce", parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    sizes = results.distinct("bytes")
    large = max(sizes)
    one, many = ROCE

    def at(transport: str, loss: float, count: int = large) -> float:
        return share(results, transport, loss, count)

    def line(loss: float, count: int) -> str:
        of = ", ".join(percent(at(transport, loss, count)) for transport in (MRC, *ROCE))
        return f"{of} of line rate (MRC, RoCE with 1 QP, with 16 QPs)"

    def waits(loss: float, count: int) -> str:
        short = percent(at(MRC_SHORT, loss, count))
        return (
            "every frame that MRC loses on a wire waits for its ACK timeout: nothing is trimmed, "
            "and at this size the whole collective lasts a few timeouts: with one of 16 µs instead "
            f"of the default it has {short} of line rate. RoCE learns of a loss on its only path "
            "from the next packet, a round trip of 4 µs later, and sends "
            f"{resent_per_loss(results, one, loss, count):.0f} packets again for each with 1 QP, "
            f"{resent_per_loss(results, many, loss, count):.0f} with 16."
        )

    best = all(at(MRC, 0.0, count) >= at(roce, 0.0, count) for roce in ROCE for count in sizes)
    found = [
        Check(
            "no loss: MRC is best at every size",
            "MRC best everywhere",
            f"at the largest {line(0.0, large)}",
            best and at(MRC, 0.0) >= 0.85,
        ),
        Check(
            "no loss: RoCE with one QP has about half, as hashed flows collide",
            "about half",
            percent(at(one, 0.0)),
            0.25 <= at(one, 0.0) <= 0.75,
        ),
    ]
    for loss, paper in (
        (0.001, "MRC near line rate at large sizes, RoCE collapses"),
        (0.01, "MRC about a third, RoCE unusable"),
    ):
        found.append(
            Check(
                f"{100 * loss:g} % loss: MRC is ahead at the largest size",
                paper,
                line(loss, large),
                all(at(MRC, loss) > at(roce, loss) for roce in ROCE),
                differs=waits(loss, large),
            )
        )
    found.append(
        Check(
            "MRC with an ACK timeout of 16 µs is ahead of RoCE at 0.1 % and at 1 %",
            "MRC best everywhere",
            "; ".join(
                f"{100 * loss:g} %: {percent(at(MRC_SHORT, loss))} against "
                + " and ".join(percent(at(roce, loss)) for roce in ROCE)
                for loss in (0.001, 0.01)
            ),
            all(at(MRC_SHORT, loss) > at(roce, loss) for loss in (0.001, 0.01) for roce in ROCE),
        )
    )
    found.append(
        Check(
            "1 % loss: MRC keeps about a third at large sizes",
            "about a third",
            percent(at(MRC, 0.01)),
            at(MRC, 0.01) >= 0.25,
            differs=waits(0.01, large),
        )
    )
    return found


FIGURE = Figure(
    name="fig-16",
    title="ring all-reduce by size, at 0, 0.1 and 1 % loss, MRC beside RoCE",
    paper="64-way ring all-reduce. MRC is best everywhere; RoCE with 1 QP has about half (ECMP "
    "collisions). At 0.1 % loss MRC is near line rate at large sizes and RoCE "
    "collapses; at 1 % MRC "
    "has about a third, RoCE is unusable.",
    setup="One plane of 400 Gb/s, racks of 4 hosts, 4 T1s; neighbours of the ring in "
    "different racks. "
    "Loss on every frame that leaves a NIC. RoCE: go-back-N, DCQCN, ECMP by UDP "
    "source port, ECN on "
    "all ports, PFC. MRC: the same fabric with trimming. Bus bandwidth as nccl-tests have it.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[PLOT],
    columns=COLUMNS,
    seeds={Scale.TINY: 1, Scale.QUICK: 2, Scale.PAPER: 3},
)
