"""The run's clock: nanoseconds since time 0 of its traffic, on the clock that all share."""

from __future__ import annotations

import asyncio
import time
from typing import Final

#: As long as nobody knows when time 0 is, it is far away
_FAR_NS: Final = 1 << 62


class RunClock:
    """`zero_ns` is the time 0 in CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self.zero_ns = _FAR_NS

    def start_in(self, ns: int) -> None:
        """Time 0 is so long from now."""
        self.zero_ns = time.monotonic_ns() + ns

    def now_ns(self) -> int:
        """Below 0 before the start."""
        return time.monotonic_ns() - self.zero_ns

    def monotonic_ns(self, run_ns: int) -> int:
        """What others call a time of the run."""
        return self.zero_ns + run_ns

    def run_ns(self, monotonic_ns: int) -> int:
        """The time of the run that others call so."""
        return monotonic_ns - self.zero_ns

    async def sleep_until(self, run_ns: int) -> None:
        """Return at a time of the run, at once if it has passed."""
        left_ns = run_ns - self.now_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / 1e9)
