"""What a controller is told of the way to its destination."""

from __future__ import annotations

from dataclasses import dataclass

#: What NSCC's constants are scaled from, and what is taken where nothing is known (UET 1.0)
REFERENCE_RATE_BPS = 100 * 10**9
REFERENCE_RTT_NS = 12_000
REFERENCE_BDP_BYTES = REFERENCE_RATE_BPS * REFERENCE_RTT_NS // 8 // 10**9


@dataclass(frozen=True, slots=True)
class Network:
    """The way from a NIC to a destination.

    `base_rtt_ns` is the RTT of a full data frame and its SACK through empty queues; 0 = not known.
    `rate_bps` is that of all ports of the NIC together. `frame_bytes` is the largest frame,
    `mss_bytes` the payload in it. Raises ValueError for what cannot be.
    """

    base_rtt_ns: int = 0
    rate_bps: int = REFERENCE_RATE_BPS
    frame_bytes: int = 4242
    mss_bytes: int = 4096
    trimming: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("base_rtt_ns", 0),
            ("rate_bps", 1),
            ("frame_bytes", 1),
            ("mss_bytes", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name}: {getattr(self, name)} does not fit: it must be at least {least}"
                )

    def bdp_bytes(self, rtt_ns: int) -> float:
        """Bytes that are under way when the NIC sends at its rate."""
        return self.rate_bps * rtt_ns / 8e9
