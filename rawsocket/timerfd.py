"""A timer with the resolution of the clock, for an epoll loop."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

_CLOCK_MONOTONIC: Final = 1
_TFD_NONBLOCK: Final = os.O_NONBLOCK
_TFD_CLOEXEC: Final = os.O_CLOEXEC
_TFD_TIMER_ABSTIME: Final = 1


class Timer:
    """A timerfd on the monotonic clock. epoll's own timeout knows only milliseconds."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._libc.timerfd_create(
            _CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC
        )
        if self.descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._value = (ctypes.c_long * 4)()  # struct itimerspec: interval, value
        self._set_ns = 0

    def set(self, at_ns: int) -> None:
        """Become readable at `at_ns` of the monotonic clock."""
        if at_ns == self._set_ns:
            return
        self._set_ns = at_ns
        self._value[2], self._value[3] = divmod(at_ns, 1_000_000_000)
        self._libc.timerfd_settime(self.descriptor, _TFD_TIMER_ABSTIME, self._value, None)

    def clear(self) -> None:
        """Become unreadable again."""
        self._set_ns = 0
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 8)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)
