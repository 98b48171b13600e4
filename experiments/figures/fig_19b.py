"""Figure 19b: T0-T1 links slower than the NIC fail one by one."""

from __future__ import annotations

from typing import Final

from experiments.figures.capacity import SETTLE_NS, capacity_figure, tracks_capacity
from experiments.model import Scale
from experiments.simulate import GBPS, MS

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
    "every one that fails costs a quarter. "
    f"The first {SETTLE_NS // MS} ms of each phase of 5 ms (20 ms at paper scale) are left out as "
    "settling: "
    "with four paths each that dies takes a quarter of the data and of the SACKs with it, "
    "and a timeout and three probes pass until one is back in use.",
    uplink_bps=UPLINK_BPS,
    failed=FAILED,
    checks=tracks_capacity,
)
