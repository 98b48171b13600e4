"""A port that is a pair of Python calls: `inject` on one side, a callback on the other."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from softswitch.ports.base import Loss


class InProcessPort:
    """Joins the switch to code in the same process.

    Args:
        name: for captures and messages.
        on_frame: called with every frame the switch sends here, from the runtime's thread.

    `inject` may be called from any thread.
    """

    def __init__(self, name: str, on_frame: Callable[[bytes], None]) -> None:
        self._name = name
        self._on_frame = on_frame
        self._waiting: deque[bytes] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @property
    def name(self) -> str:
        """See `PortDriver`."""
        return self._name

    @property
    def backlog(self) -> int:
        """Always 0: the callback takes every frame."""
        return 0

    def fileno(self) -> int:
        """See `PortDriver`."""
        return self._event

    def inject(self, frame: bytes) -> None:
        """Let a frame arrive at the switch."""
        self._waiting.append(frame)
        os.eventfd_write(self._event, 1)

    def receive(self, limit: int) -> list[bytes]:
        """See `PortDriver`."""
        waiting = self._waiting
        # The event is emptied first: an `inject` in between makes it readable again.
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return []
        frames = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        if waiting:
            os.eventfd_write(self._event, 1)
        return frames

    def send(self, frame: bytes) -> None:
        """See `PortDriver`."""
        self._on_frame(frame)

    def retry(self) -> None:
        """Nothing to do: there is no backlog."""

    def link_down(self) -> None:
        """Nothing to do: there is no backlog."""

    def take_losses(self, *, poll: bool) -> list[Loss]:
        """Nothing is ever lost here."""
        del poll
        return []

    def close(self) -> None:
        """See `PortDriver`."""
        os.close(self._event)
