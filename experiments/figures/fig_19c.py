"""Figure 19c: two T0-T1 links slower than the NIC fail at once."""

from __future__ import annotations

from typing import Final

from experiments.figures.capacity import SETTLING_WHY, capacity_figure, tracks_capacity
from experiments.model import Scale
from experiments.simulate import GBPS

UPLINK_BPS: Final = 25 * GBPS
#: Uplinks down in each phase
FAILED: Final = {
    Scale.TINY: (0, 2),
    Scale.QUICK: (0, 2, 0),
    Scale.PAPER: (0, 2, 0),
}


FIGURE = capacity_figure(
    name="fig-19c",
    title="two T0-T1 links slower than the NIC fail at once",
    paper="Throughput tracks the remaining capacity closely.",
    setup=f"As figure 19b; two uplinks fail at once and return. {SETTLING_WHY}",
    uplink_bps=UPLINK_BPS,
    failed=FAILED,
    checks=tracks_capacity,
)
