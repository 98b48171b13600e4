"""Figure 19c: two T0-T1 links slower than the NIC fail at once."""

from __future__ import annotations

from typing import Final

from experiments.figures.capacity import SETTLE_NS, capacity_figure, tracks_capacity
from experiments.model import Scale
from experiments.simulate import GBPS, MS

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
    setup="As figure 19b; two uplinks fail at once and return. "
    f"The first {SETTLE_NS // MS} ms of each phase of 5 ms (20 ms at paper scale) are left out as "
    "settling: "
    "with four paths each that dies takes a quarter of the data and of the SACKs with it, "
    "and a timeout and three probes pass until one is back in use.",
    uplink_bps=UPLINK_BPS,
    failed=FAILED,
    checks=tracks_capacity,
)
