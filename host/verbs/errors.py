"""What the calls raise: one exception for each errno that mrc.h and mrc_ctl.h return.

All are `OSError`s, so `errno` and `strerror` say the same as in C. Where Python has an exception of
its own for the case, ours is one too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from host.qp.base import QueueFullError
from host.qp.states import QpStateError


class MrcError(OSError):
    """Base of all errors of the API."""

    code: ClassVar[int] = errno.EIO

    #: Of `QueuePair.post_send`: the first work request that was not posted
    bad_wr: object | None = None

    def __init__(self, message: str) -> None:
        super().__init__(self.code, message)


class InvalidArgumentError(MrcError, ValueError):
    """EINVAL: an argument out of range, of another device, or not allowed in this state."""

    code = errno.EINVAL


class ClosedError(MrcError):
    """EBADF: the object, or what it belongs to, was destroyed."""

    code = errno.EBADF


class BusyError(MrcError):
    """EBUSY: other objects still use this one."""

    code = errno.EBUSY


class NoMemoryError(MrcError):
    """ENOMEM: a queue or a table is full."""

    code = errno.ENOMEM


class NotPermittedError(MrcError, PermissionError):
    """EPERM: the context is not privileged."""

    code = errno.EPERM


class NotSupportedError(MrcError):
    """ENOTSUP: the device cannot do it."""

    code = errno.ENOTSUP


class NotFoundError(MrcError, LookupError):
    """ENOENT: there is no such EV, or no such peer."""

    code = errno.ENOENT


class TooBigError(MrcError):
    """E2BIG: an array, or the sum of its fields, exceeds what the device holds."""

    code = errno.E2BIG


class TryAgainError(MrcError):
    """EAGAIN: too much is outstanding; later there may be room."""

    code = errno.EAGAIN


class TimedOutError(MrcError, TimeoutError):
    """ETIMEDOUT: not all responses came in time."""

    code = errno.ETIMEDOUT


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the core raises into what the API raises, with the core's own words."""
    try:
        yield
    except MrcError:
        raise
    except QueueFullError as error:
        raise NoMemoryError(str(error)) from None
    except (QpStateError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from None


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raises InvalidArgumentError where a number is no integer of low..high."""
    if not isinstance(value, int):
        raise InvalidArgumentError(f"{name}: {value!r} does not fit: it must be an integer")
    if not low <= value <= high:
        raise InvalidArgumentError(f"{name}: {value} does not fit: it must be {low}..{high}")
