"""Whose turn it is with a switch or link, of several threads that act on a fabric."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """First come, first served, element by element: who acts elsewhere waits for nobody."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: By element, in front who has the turn
        self._queues: dict[str, deque[object]] = defaultdict(deque)

    @contextmanager
    def with_all(self, *elements: str) -> Iterator[None]:
        """Wait for the turn with all of these elements, and have it meanwhile.

        Places in all queues are taken at once, so no two can wait for each other.
        """
        ticket = object()
        with self._changed:
            queues = [self._queues[name] for name in dict.fromkeys(elements)]
            for queue in queues:
                queue.append(ticket)
        try:
            with self._changed:
                self._changed.wait_for(lambda: all(queue[0] is ticket for queue in queues))
            yield
        finally:
            with self._changed:
                for queue in queues:
                    queue.remove(ticket)
                self._changed.notify_all()

    def waiting(self, element: str) -> int:
        """How many wait for their turn with it."""
        with self._changed:
            return max(len(self._queues[element]) - 1, 0)
