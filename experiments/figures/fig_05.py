"""Figure 5: T0-T1 links flap all the time under a job."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean
from typing import Final

from matplotlib.figure import Figure as Canvas

from experiments.drawing import MRC, RED, axes, legend
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
from experiments.simulate import MIB, US, Document, ns, simulate, size, tails

#: The job: a ring all-reduce of this size, over and over, one a step
RANKS: Final = {Scale.TINY: 4, Scale.QUICK: 8, Scale.PAPER: 16}
VECTOR_BYTES: Final = {Scale.TINY: 2 * MIB, Scale.QUICK: 4 * MIB, Scale.PAPER: 16 * MIB}
STEPS: Final = {Scale.TINY: 2, Scale.QUICK: 6, Scale.PAPER: 40}
#: A step is about so long
STEP_US: Final = {Scale.TINY: 60, Scale.QUICK: 120, Scale.PAPER: 400}
#: Of 8 x 4 x 4 = 128 T0-T1 links at a time; each flap is of another link
FLAP_EVERY_US: Final = 40
FLAP_US: Final = 20
ENDPOINT: Final[Document] = {"timeout": 5}
TIMEOUT_US: Final = 32.768
#: A packet that is sent again can meet the next flap
_FLAP_COSTS_TIMEOUTS: Final = 1.5


def parameters(scale: Scale) -> Sequence[Parameters]:
    """The runs at a scale."""
    return [
        {
            "flaps": flaps,
            "ranks": RANKS[scale],
            "bytes": VECTOR_BYTES[scale],
            "steps": STEPS[scale],
            "expected_us": STEPS[scale] * STEP_US[scale],
        }
        for flaps in (False, True)
    ]


def measure(parameters: Parameters, seed: int) -> Measured:
    """One run."""
    count = int(parameters["expected_us"] or 0) // FLAP_EVERY_US if parameters["flaps"] else 0
    draw_of = random.Random(seed)
    faults = [
        {
            "link_down": {
                "name": f"flap-{number}",
                "link": [
                    f"p{plane}-t0-{draw_of.randrange(4)}",
                    f"p{plane}-t1-{draw_of.randrange(4)}",
                ],
                "at": ns((number + 0.5) * FLAP_EVERY_US * US),
                "for": ns(FLAP_US * US),
            }
        }
        for number, plane in enumerate(draw_of.randrange(8) for _ in range(count))
    ]
    job = {
        "name": "job",
        "op": "all-reduce",
        "size": size(int(parameters["bytes"] or 0)),
        "ranks": parameters["ranks"],
        "order": "spread",
        "repeat": parameters["steps"],
    }
    result = simulate(
        {
            "topology": "eight-plane",
            "traffic": [{"collective": job}],
            "faults": faults,
            "endpoint": ENDPOINT,
            # Links flap for as long as the job lasts
            "expect": {"faults_begin": False},
        },
        seed,
    )
    steps_us = [step / US for step in result.collective("job").round_ns]
    return Measured(
        {
            "step_us": mean(steps_us),
            **{f"step_{name}_us": value for name, value in tails(steps_us).items()},
            "flap_count": sum(fault.begun for fault in result.faults),
            "lost": sum(result.lost.values()),
            "timeouts": result.total["timeouts"],
        },
        {"step_us": steps_us},
    )


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    calm, flapping = results.of(flaps=False), results.of(flaps=True)
    step, slow = calm.middle("step_us"), flapping.middle("step_us")
    steps, flaps = flapping.pieces[0].number("steps"), flapping.middle("flap_count")
    longer = f"{100 * (slow / step - 1):+.1f} %"
    each_us = (slow - step) * steps / flaps
    return [
        Check(
            "every step ends, with the right sums, and a flap costs the job an ACK timeout of "
            "33 µs, or little more",
            "no measurable effect on the job",
            f"{flaps:.0f} flaps add {each_us:.0f} µs each to a job of {steps:.0f} steps",
            each_us <= _FLAP_COSTS_TIMEOUTS * TIMEOUT_US,
        ),
        Check(
            "no measurable effect on a step",
            "none",
            f"{longer} on average over all steps, of {step:.0f} µs without flaps",
            slow - step <= 0.01 * step,
            differs=Reason(
                "a step here is a ten thousandth of a training step, and several links flap in "
                "each. A flap costs the packets that were on the link, and the ring waits until "
                "they are sent again, after the ACK timeout. Of a training step of a second that "
                "would be 0.003 % a flap",
                f"each flap adds {each_us:.0f} µs, a timeout is {TIMEOUT_US:.0f} µs; "
                f"{flapping.middle('timeouts'):.0f} timeouts for "
                f"{flapping.middle('lost'):.0f} frames lost, none without flaps",
                each_us <= _FLAP_COSTS_TIMEOUTS * TIMEOUT_US
                and not calm.most("timeouts")
                and flapping.least("timeouts") > 0,
            ),
        ),
    ]


def draw(results: Results, canvas: Canvas) -> None:
    """The picture."""
    ax = axes(canvas, "step of the job", "time of the step, µs")
    for flaps, colour, mark, label in (
        (False, MRC.colour, MRC.mark, "no flaps"),
        (True, RED, "s", "links flap"),
    ):
        for index, piece in enumerate(results.of(flaps=flaps)):
            steps = piece.curve("step_us")
            ax.plot(
                range(1, len(steps) + 1),
                steps,
                color=colour,
                marker=mark,
                alpha=0.7,
                label=label if not index else None,
            )
    ax.set_ylim(bottom=0)
    legend(ax)


FIGURE = Figure(
    name="fig-5",
    title="constant flaps of T0-T1 links under a job",
    paper="No measurable effect on the job.",
    setup="The job is a ring all-reduce, over and over; a step is one of them, some 10⁴ "
    "times shorter "
    "than a training step. Another T0-T1 link (of 128) goes down for 20 µs every 40 µs: flaps are "
    "10⁵ and more times as frequent as any real cable's. They go on a little longer than the job "
    "takes without them.",
    parameters=parameters,
    measure=measure,
    checks=checks,
    plots=[Plot("steps", "Time of each step, all seeds.", draw)],
    columns=(
        Column("step_us", "mean step, µs", "{:.1f}".format),
        Column("step_p50_us", "P50", "{:.1f}".format),
        Column("step_p99_us", "P99", "{:.1f}".format),
        Column("step_p100_us", "P100", "{:.1f}".format),
        Column("flap_count", "flaps", "{:.0f}".format),
        Column("lost", "frames lost", "{:.0f}".format),
    ),
)
