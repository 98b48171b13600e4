"""One heap of timers for a NIC, with an entry for each thing that has deadlines, not for each."""

from __future__ import annotations

import heapq
from typing import Protocol


class Timed(Protocol):
    """Something with deadlines. It is woken at the earliest, or sooner, and looks for itself."""

    #: When it will be woken; only `Timers` writes it
    armed_ns: int | None

    def next_deadline(self) -> int | None:
        """The earliest deadline; None = none."""
        ...

    def handle_timer(self, now_ns: int) -> None:
        """Deadlines up to now have passed (or none has)."""
        ...


class Timers:
    """Wakes things at or before their deadlines."""

    __slots__ = ("_armed", "_heap", "_sequence")

    _SLACK = 64

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._sequence = 0
        self._armed = 0

    def __len__(self) -> int:
        """How many things are armed."""
        return self._armed

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Wake `timed` at `deadline_ns`, if it is not to be woken sooner anyway."""
        armed_ns = timed.armed_ns
        if armed_ns is None:
            self._armed += 1
        elif armed_ns <= deadline_ns:
            return
        timed.armed_ns = deadline_ns
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ns, self._sequence, timed))
        # Entries that a sooner one has overtaken are passed over when their time comes; should
        # there be many, take them out
        if len(self._heap) > 2 * self._armed + self._SLACK:
            self._heap = [entry for entry in self._heap if entry[2].armed_ns == entry[0]]
            heapq.heapify(self._heap)

    def disarm(self, timed: Timed) -> None:
        """Never wake it."""
        if timed.armed_ns is not None:
            timed.armed_ns = None
            self._armed -= 1

    def next_timer(self) -> int | None:
        """When the next one is to be woken."""
        heap = self._heap
        while heap:
            if heap[0][2].armed_ns == heap[0][0]:
                return heap[0][0]
            heapq.heappop(heap)
        return None

    def pop_due(self, now_ns: int) -> Timed | None:
        """One that is to be woken by now; it is not armed any more."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            deadline_ns, _, timed = heapq.heappop(heap)
            if timed.armed_ns == deadline_ns:
                timed.armed_ns = None
                self._armed -= 1
                return timed
        return None
