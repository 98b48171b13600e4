"""What the requestor asks of a congestion controller, and tells it.

One controller serves all queue pairs to one destination NIC. The requestor keeps count of the
bytes in flight (`inflight_bytes`) and may send while they are fewer than `cwnd_bytes`. Sizes are
whole frames as they leave the NIC, without preamble and FCS. Time is an argument, in ns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from host.congestion.network import Network


class CongestionController(ABC):
    """Base of all controllers. Only `cwnd_bytes` and `on_ack` must mean something."""

    __slots__ = ("cwnd_bytes", "inflight_bytes")

    #: The congestion window; at least one packet may always be in flight
    cwnd_bytes: int
    #: Sent and neither acknowledged, trimmed, refused nor given up; kept by the requestors
    inflight_bytes: int

    def __init__(self, cwnd_bytes: int) -> None:
        self.cwnd_bytes = cwnd_bytes
        self.inflight_bytes = 0

    @classmethod
    def make(cls, network: Network, **knobs: Any) -> Self:
        """A controller for one destination; `knobs` are the profile's, by name.

        Raises ValueError or TypeError, naming the knob, for one that is wrong or not known.
        """
        return cls(**knobs)

    def on_send(self, size_bytes: int, now_ns: int) -> None:  # noqa: B027
        """A frame was handed to a port; it is already in `inflight_bytes`."""

    @abstractmethod
    def on_ack(self, acked_bytes: int, ecn: bool, rtt_ns: int | None, now_ns: int) -> None:
        """A SACK came: `acked_bytes` newly acknowledged (may be 0), already out of flight.

        `ecn` is M = SKIP_ONCE. `rtt_ns` is of the packet that the SACK answers, without the time
        that the responder held it; None where it is not known.
        """

    @abstractmethod
    def on_trim(self, size_bytes: int, last_hop: bool, now_ns: int) -> None:
        """A frame was trimmed; it is already out of flight."""

    @abstractmethod
    def on_loss(self, size_bytes: int, now_ns: int) -> None:
        """A frame was given up at its local ACK timeout; it is already out of flight."""

    def on_peer_penalty(  # noqa: B027
        self, rcv_cwnd_pen: int, restore_cwnd: bool, now_ns: int
    ) -> None:
        """CC_STATE of a SACK, told when either differs from the last one told.

        `rcv_cwnd_pen` 0..127 scales the window down, 127 = one packet per RTT.
        """

    def next_timer(self) -> int | None:
        """Absolute ns at which `handle_timer` wants to be called; None = never."""
        return None

    def handle_timer(self, now_ns: int) -> None:  # noqa: B027
        """Time has come."""
