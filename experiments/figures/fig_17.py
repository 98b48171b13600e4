"""Figure 17: all-to-all by size and loss, MRC beside RoCE with 1 and 16 QPs."""

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
    return measure_collective("all-to-all", parameters, seed)


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    sizes = results.distinct("bytes")
    small, large = min(sizes), max(sizes)
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

    found = [
        Check(
            "no loss: MRC is best at the largest size",
            "MRC best at every size",
            line(0.0, large),
            all(at(MRC, 0.0) >= 0.99 * at(roce, 0.0) for roce in ROCE),
        ),
        Check(
            "16 QPs of RoCE are no better than 1",
            "no better",
            f"{percent(at(many, 0.0))} against {percent(at(one, 0.0))}",
            at(many, 0.0) <= 1.1 * at(one, 0.0),
        ),
    ]
    for loss in (0.001, 0.01):
        found.append(
            Check(
                f"{100 * loss:g} % loss: MRC is ahead at the largest size",
                "MRC best at every size",
                line(loss, large),
                all(at(MRC, loss) >= at(roce, loss) for roce in ROCE),
                differs=waits(loss, large),
            )
        )
    found.append(
        Check(
            "1 % loss hurts RoCE at small sizes",
            "most at small sizes",
            f"smallest: {line(0.01, small)}; without loss {line(0.0, small)}",
            min(at(roce, 0.01, small) / at(roce, 0.0, small) for roce in ROCE) <= 0.8,
        )
    )
    return found


FIGURE = Figure(
    name="fig-17",
    title="all-to-all by size, at 0, 0.1 and 1 % loss, MRC beside RoCE",
    paper="64-way all-to-all. MRC is best at every size; 16 QPs of RoCE are no better than "
    "one; loss "
    "hurts RoCE most at small sizes.",
    setup="As figure 16. Sizes are of the whole vector, which has a block for each rank.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[PLOT],
    columns=COLUMNS,
    seeds={Scale.TINY: 1, Scale.QUICK: 2, Scale.PAPER: 3},
)
