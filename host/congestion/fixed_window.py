"""A window that never changes: the smallest congestion controller, and an example of one."""

from __future__ import annotations

from typing import Any, Self

from host.congestion.base import CongestionController
from host.congestion.network import REFERENCE_RTT_NS, Network
from host.congestion.registry import register


@register("fixed-window")
class FixedWindow(CongestionController):
    """Lets `cwnd_bytes` be in flight, whatever the network says."""

    __slots__ = ()

    @classmethod
    def make(cls, network: Network, **knobs: Any) -> Self:
        """Knob: `cwnd_bytes`; without it, one and a half times the BDP."""
        rtt_ns = network.base_rtt_ns or REFERENCE_RTT_NS
        knobs.setdefault("cwnd_bytes", max(int(1.5 * network.bdp_bytes(rtt_ns)), 1))
        cwnd_bytes = knobs["cwnd_bytes"]
        if isinstance(cwnd_bytes, bool) or not isinstance(cwnd_bytes, int):
            raise ValueError(f"cwnd_bytes: {cwnd_bytes!r} does not fit: it must be an integer")
        if cwnd_bytes < 1:
            raise ValueError(f"cwnd_bytes: {cwnd_bytes} does not fit: it must be above 0")
        return cls(**knobs)

    def on_ack(self, acked_bytes: int, ecn: bool, rtt_ns: int | None, now_ns: int) -> None:
        """No reaction."""

    def on_trim(self, size_bytes: int, last_hop: bool, now_ns: int) -> None:
        """No reaction."""

    def on_loss(self, size_bytes: int, now_ns: int) -> None:
        """No reaction."""
