"""Figure 19a: three of four T0-T1 links fail, and what is left still suffices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.figures.capacity import SETTLING, capacity_figure, phase_count
from experiments.figures.outage import shares_text
from experiments.model import Check, Results, Scale
from experiments.simulate import GBPS

UPLINK_BPS: Final = 100 * GBPS
#: Uplinks down in each phase
FAILED: Final = {
    Scale.TINY: (0, 3),
    Scale.QUICK: (0, 1, 2, 3, 0),
    Scale.PAPER: (0, 1, 2, 3, 0),
}


def checks(results: Results) -> Sequence[Check]:
    """What is claimed of finished runs."""
    least = min(results.least(f"phase{number}_share") for number in range(phase_count(results)))
    return [
        Check(
            "no discernible loss of throughput in any phase",
            "none",
            f"{shares_text(results, phase_count(results))} of the rate before, phase by phase",
            least >= 0.98,
        )
    ]


FIGURE = capacity_figure(
    name="fig-19a",
    title="three of four T0-T1 links fail one by one, capacity still sufficient",
    paper="No discernible loss.",
    setup="One plane, four uplinks of 100 Gb/s each, a NIC of 100 Gb/s: one uplink of the "
    "sender's rack more is down in each phase, until one is left, which still "
    f"suffices. Then all are back. {SETTLING}.",
    uplink_bps=UPLINK_BPS,
    failed=FAILED,
    checks=checks,
)
