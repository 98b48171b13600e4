"""The event loop: one clock in integer nanoseconds, and what is to happen when.

An event is a tuple `(time_ns, number, call, a, b)`, where `call(time_ns, a, b)` is what happens.
Events of one time happen in the order in which they were scheduled, so a run repeats exactly.

Nodes that were touched at some time `settle` once, when everything of that time has happened: a
NIC that got eight frames in one nanosecond is asked once what it sends now.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

Call = Callable[[int, Any, Any], None]
Event = tuple[int, int, Call, Any, Any]

#: Rounds of events at one time after which time is taken to stand still
MAX_ROUNDS_AT_ONE_TIME: Final = 1_000_000


class StandstillError(RuntimeError):
    """Things keep happening without any time passing (links with neither rate nor delay, say)."""


class Settles(Protocol):
    """A node that wants to know when everything of the present time has happened."""

    def settle(self, now_ns: int) -> None:
        """Do what follows from it all."""
        ...


class EventLoop:
    """Events in order of their time.

    Attributes:
        now_ns: the present time.
        heap: the events to come. Hot paths push events themselves, numbered by `number`.
        number: gives the next event's number.
        touched: nodes that settle at the end of the present time.
        events: how many events have happened.
    """

    __slots__ = ("_stopped", "events", "heap", "now_ns", "number", "touched")

    def __init__(self) -> None:
        self.now_ns = 0
        self.heap: list[Event] = []
        self.number: Callable[[], int] = count().__next__
        self.touched: deque[Settles] = deque()
        self.events = 0
        self._stopped = False

    def at(self, time_ns: int, call: Call, a: Any = None, b: Any = None) -> None:
        """Let `call(time_ns, a, b)` happen at a time, which must not be past."""
        if time_ns < self.now_ns:
            raise ValueError(f"time_ns: {time_ns} is past: it is {self.now_ns} now")
        heapq.heappush(self.heap, (time_ns, self.number(), call, a, b))

    def withdraw(self, matches: Callable[[Event], bool]) -> list[Event]:
        """Take out events that have not happened; costs time in proportion to all of them."""
        taken = [event for event in self.heap if matches(event)]
        if taken:
            self.heap[:] = [event for event in self.heap if not matches(event)]
            heapq.heapify(self.heap)
        return sorted(taken, key=lambda event: event[:2])

    def stop(self) -> None:
        """End `run` when the present time is over."""
        self._stopped = True

    def run(self, until_ns: int | None = None, max_events: int | None = None) -> bool:
        """Let events happen, up to and including `until_ns`, or about `max_events` of them.

        Returns:
            True: nothing is left to happen by `until_ns`, or `stop` was called.
            False: `max_events` is used up.

        Raises:
            StandstillError: time does not pass.
        """
        heap, touched = self.heap, self.touched
        pop = heapq.heappop
        limit_ns = float("inf") if until_ns is None else until_ns
        budget = float("inf") if max_events is None else max_events
        self._stopped = False
        done = 0
        rounds = 0
        try:
            while heap and not self._stopped:
                time_ns = heap[0][0]
                if time_ns > limit_ns:
                    break
                if done >= budget:
                    return False
                if time_ns == self.now_ns:
                    rounds += 1
                    if rounds > MAX_ROUNDS_AT_ONE_TIME:
                        raise StandstillError(
                            f"time stands still at {time_ns} ns: {rounds} rounds of events there"
                        )
                else:
                    rounds = 0
                    self.now_ns = time_ns
                while heap and heap[0][0] == time_ns:
                    _, _, call, a, b = pop(heap)
                    call(time_ns, a, b)
                    done += 1
                while touched:
                    touched.popleft().settle(time_ns)
        finally:
            self.events += done
        if not self._stopped and until_ns is not None:
            self.now_ns = max(self.now_ns, until_ns)
        return True
