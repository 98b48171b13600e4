"""The few Linux calls that Python 3.11 lacks: unshare, setns, prctl, mount.

Each raises OSError with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

# <linux/sched.h>
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

# <sys/mount.h>
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18

# <linux/prctl.h>
_PR_SET_PDEATHSIG: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling thread (NEWPID: its children) into new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace of type `kind` that `fd` stands for."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def set_parent_death_signal(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    arguments = (ctypes.c_ulong(signal_number), *(ctypes.c_ulong(0),) * 3)
    _check(_libc.prctl(ctypes.c_int(_PR_SET_PDEATHSIG), *arguments), "prctl")


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """Mount without options; an empty `kind` stands for none."""
    name = kind.encode() if kind else None
    _check(_libc.mount(source.encode(), target.encode(), name, flags, None), f"mount {target}")
