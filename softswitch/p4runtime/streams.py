"""The server's end of one StreamChannel: a bounded outbox between switch and gRPC.

Whoever has something to say to a client (the packet loop, another client's request, a timer) only
ever appends to its outbox, which never blocks; a slow or dead client costs its own notifications
and nothing else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

MAX_QUEUED_NOTIFICATIONS = 4096
"""Packet-ins, digests and errors waiting for one client.

Beyond that new ones are dropped and counted.
"""

Build = Callable[[], Any]
"""Makes the message when it is sent: pure-Python protobuf is too slow for the packet loop."""


class Outbox:
    """Messages to one client. Arbitration messages are never dropped, everything else may be."""

    def __init__(self, max_queued: int = MAX_QUEUED_NOTIFICATIONS) -> None:
        self._max_queued = max_queued
        self._queue: deque[Build] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = 0
        self.overflowed = False

    def send(self, build: Build) -> None:
        """Queue a message that must arrive.

        A client that asks and asks without ever reading answers is cut off instead.
        """
        with self._changed:
            if self._closed:
                return
            if len(self._queue) >= 2 * self._max_queued:
                self._queue.clear()
                self._closed = self.overflowed = True
            else:
                self._queue.append(build)
            self._changed.notify()

    def offer(self, build: Build) -> bool:
        """Queue a notification; False when the client is too far behind."""
        with self._changed:
            if self._closed or len(self._queue) >= self._max_queued:
                self.dropped += 1
                return False
            self._queue.append(build)
            self._changed.notify()
            return True

    def close(self, *, discard: bool = False) -> None:
        """End the stream: once what is queued has been taken, or at once with `discard`."""
        with self._changed:
            self._closed = True
            if discard:
                self._queue.clear()
            self._changed.notify()

    def __iter__(self) -> Iterator[Any]:
        """Messages until the outbox is closed.

        Blocks in between. What builds to None is left out.
        """
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                build = self._queue.popleft()
            message = build()
            if message is not None:
                yield message
