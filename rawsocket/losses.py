"""What a port's driver loses, and how it says that it cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERFACE_DROPPED: Final = "interface_dropped"
"""A reason. On a veth pair such a frame is the sender's still: the kernel refuses it there, and it
may try again; neither end counts it as sent or received."""


class PortError(Exception):
    """A port that cannot be opened; the message names the interface and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames a driver lost, by reason.

    `packets` frames of `size_bytes` in total were never sent, or, `before` the program that has the
    port, were never taken in (their size is unknown and 0).
    """

    reason: str
    packets: int
    size_bytes: int = 0
    before: bool = False
