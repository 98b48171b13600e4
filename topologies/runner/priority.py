"""The runner's share of the CPU beside that of what it runs.

Switches and endpoints take all the CPU that there is when a fabric is loaded. The runner needs
little, but at its times: a link that it cuts 400 ms late makes the endpoints look slow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: sched(7): where there are autogroups, sessions share the CPU by these nice values, and those of
#: their processes count within a session only
_AUTOGROUP: Final = Path("/proc/self/autogroup")
_NICE: Final = -10


@contextmanager
def before_others() -> Iterator[None]:
    """This process goes before all that it has started, where the kernel lets it.

    It does not let it in a user namespace.
    """
    own = os.getpriority(os.PRIO_PROCESS, 0)
    session = _session_nice()
    _set(_NICE, None if session is None else _NICE)
    try:
        yield
    finally:
        _set(own, session)


def as_others(pid: int) -> None:
    """A process that was just started has the nice value of this one: let it have the usual one."""
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        with suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, pid, 0)


def _session_nice() -> int | None:
    """As in '/autogroup-98 nice 0'."""
    try:
        return int(_AUTOGROUP.read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _set(own: int, session: int | None) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, own)
        if session is not None:
            _AUTOGROUP.write_text(str(session))
