"""A first-come, first-served lock."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class FairLock:
    """A lock that whoever asked first gets next.

    The packet loop releases the lock between batches and wants it back at once. An ordinary lock
    would give it back nearly every time, because a thread that is woken comes too late, and a
    control-plane request could wait for as long as packets keep coming. Here `release` hands the
    lock over to the longest waiting thread itself.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self) -> None:
        """Wait for one's turn."""
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def release(self) -> None:
        """Hand the lock to the next in line, if any."""
        with self._guard:
            if not self._held:
                raise RuntimeError("release of a lock that is not held")
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    def locked(self) -> bool:
        """Whether somebody holds the lock."""
        return self._held

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
