"""Buffer of one ingress port and queue: when to stop the sender, so that nothing is lost.

IEEE 802.1Q-2022, clause 36 (priority-based flow control): what a port received and what has not
left yet is charged to it. Above `xoff_bytes` the sender is to stop; at `xon_bytes` it may go on.
What is still on its way meanwhile needs headroom: `headroom_bytes` above `xoff_bytes`. What does
not fit there is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

StopFn = Callable[[int, int, bool, int], None]
"""(ingress port, queue, whether its sender is to stop, now_ns)."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Bytes of frames. Raises ValueError unless 0 <= xon <= xoff and headroom >= 0."""

    xoff_bytes: int
    xon_bytes: int
    headroom_bytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.xon_bytes <= self.xoff_bytes:
            raise ValueError(
                f"xon_bytes: {self.xon_bytes} does not fit: it must be 0..{self.xoff_bytes}, "
                "the xoff_bytes"
            )
        if self.headroom_bytes < 0:
            raise ValueError(f"headroom_bytes: {self.headroom_bytes} is negative")


class IngressBuffer:
    """What one ingress port holds of one queue's class.

    Attributes:
        size_bytes, peak_bytes: held now, and the most so far.
        stopped: the sender was told to stop, and not yet to go on.
        refused: frames that found no room.
    """

    __slots__ = (
        "_limit_bytes",
        "_on_stop",
        "_xoff_bytes",
        "_xon_bytes",
        "peak_bytes",
        "port",
        "queue",
        "refused",
        "size_bytes",
        "stopped",
    )

    def __init__(self, port: int, queue: int, thresholds: Thresholds, on_stop: StopFn) -> None:
        self.port = port
        self.queue = queue
        self.size_bytes = 0
        self.peak_bytes = 0
        self.stopped = False
        self.refused = 0
        self._xoff_bytes = thresholds.xoff_bytes
        self._xon_bytes = thresholds.xon_bytes
        self._limit_bytes = thresholds.xoff_bytes + thresholds.headroom_bytes
        self._on_stop = on_stop

    def charge(self, size_bytes: int, now_ns: int) -> bool:
        """Take a frame in. False: there is no room, and it must be dropped."""
        held = self.size_bytes + size_bytes
        if held > self._limit_bytes:
            self.refused += 1
            return False
        self.size_bytes = held
        if held > self.peak_bytes:
            self.peak_bytes = held
        if held > self._xoff_bytes and not self.stopped:
            self.stopped = True
            self._on_stop(self.port, self.queue, True, now_ns)
        return True

    def discharge(self, size_bytes: int, now_ns: int) -> None:
        """A frame that was taken in is gone."""
        self.size_bytes -= size_bytes
        if self.stopped and self.size_bytes <= self._xon_bytes:
            self.stopped = False
            self._on_stop(self.port, self.queue, False, now_ns)
