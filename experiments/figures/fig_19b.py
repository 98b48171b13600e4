"""Figure 19b: T0-T1 links slower than the NIC fail one by one."""

from __future__ import annotations

from typing import Final

from experiments.figures.capacity import SETTLING_WHY, capacity_figure, tracks_capacity
from experiments.model import Scale
from experiments.simulate import GBPS

UPLINK_BPS: Final = 25 * GBPS
#: Uplinks down in each phase
FAILED: Final = {
    Scale.TINY: (0, 3),
    Scale.QUICK: (0, 1, 2, 3, 0),
    Scale.PAPER: (0, 1, 2, 3, 0),
}


FIGURE = capacity_figure(
    name="fig-19b",
    title="T0-T1 links slower than the NIC fail one by one",
    paper="Throughput tracks the remaining capacity closely.",
    setup="As figure 19a with uplinks of 25 Gb/s, which together have the rate of the NIC: "
    f"every one that fails costs a quarter. {SETTLING_WHY}",
    uplink_bps=UPLINK_BPS,
    failed=FAILED,
    checks=tracks_capacity,
)
