"""A run's own process and user namespaces: whatever happens, nothing of it outlives it.

The command splits in two. The outer process stays where it was started, passes signals on and
waits. The inner one is process 1 of a new PID namespace and does the work; every process it
starts lives in that namespace. When process 1 ends, for whatever reason, the kernel kills all
the others; and when the outer process ends, the kernel kills process 1. Network namespaces are
anonymous (see namespaces.py), so they go with the processes.

Without root the same happens in a new user namespace, where the caller is root over the new
network and PID namespaces and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from topologies.runner import kernel
from topologies.runner.errors import PrivilegeError

_ISOLATED: Final = kernel.CLONE_NEWPID | kernel.CLONE_NEWNET
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORBIDDEN: Final = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC, errno.EUSERS)
_READY: Final = b"r"


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to end. `exit_code` as shells count: 128 and the signal's number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.exit_code = 128 + signal_number


@dataclass(frozen=True, slots=True)
class Inside:
    """What the inner process knows of its place."""

    #: This process as others see it
    outer_pid: int
    #: The caller was not root: namespaces belong to a user namespace
    rootless: bool
    _ready_fd: int

    def detach(self, log: Path) -> None:
        """Let the outer process return with exit code 0; from now on write to `log`."""
        sys.stdout.flush()
        sys.stderr.flush()
        with log.open("ab") as file, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.write(self._ready_fd, _READY)


def _isolate() -> bool:
    """New PID and network namespaces for the children; returns whether rootless."""
    try:
        kernel.unshare(_ISOLATED)
        return False
    except OSError as error:
        if error.errno not in _FORBIDDEN:
            raise
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(_ISOLATED | kernel.CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        return True
    except OSError as error:
        raise PrivilegeError(
            "network namespaces need root, or a kernel that lets users make user namespaces; "
            f"this one says: {error.strerror or error}. Run it with sudo, or allow it: sysctl "
            "user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 (Debian), "
            "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
        ) from None


def run_isolated(body: Callable[[Inside], int], *, detachable: bool = False) -> int:
    """Run `body` as process 1 of new namespaces and return its exit code.

    Call it before any thread exists. `detachable`: the body may call `Inside.detach` to go on
    alone, in a session of its own. Raises PrivilegeError where the kernel forbids namespaces.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    rootless = _isolate()
    greeting_out, greeting_in = os.pipe()
    ready_out, ready_in = os.pipe()
    inner = os.fork()
    if inner == 0:
        os.close(greeting_in)
        os.close(ready_out)
        _be_inner(body, greeting_out, ready_in, rootless, detachable)
    os.close(greeting_out)
    os.close(ready_in)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(inner, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    os.write(greeting_in, struct.pack("=q", inner))
    # The inner process holds the other end: this returns when it is ready or gone
    if os.read(ready_out, 1) == _READY:
        return 0
    # greeting_in stays open until here: the inner process sees by it that we live
    _, status = os.waitpid(inner, 0)
    os.close(greeting_in)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    print(f"the run was ended by {signal.Signals(-code).name}", file=sys.stderr)
    return 128 - code


def _be_inner(
    body: Callable[[Inside], int],
    greeting: int,
    ready: int,
    rootless: bool,
    detachable: bool,
) -> NoReturn:
    code = 1
    try:
        if detachable:
            os.setsid()
        else:
            kernel.set_parent_death_signal(signal.SIGKILL)
        packed = os.read(greeting, 8)
        # The outer process keeps its end open for life: a closed one means that it died before
        # we asked for the signal, and nobody would tell us.
        if len(packed) == 8 and not _is_closed(greeting):
            _catch_signals()
            code = body(Inside(struct.unpack("=q", packed)[0], rootless, ready))
    except Interrupted as interrupted:
        code = interrupted.exit_code
    except KeyboardInterrupt:  # before anything began
        code = 128 + signal.SIGINT
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # nobody reads our output any more
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _is_closed(pipe: int) -> bool:
    poller = select.poll()
    poller.register(pipe, 0)
    return bool(poller.poll(0))


def _catch_signals() -> None:
    """The first signal unwinds the run; later ones must not disturb its clean-up."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in _PASSED_ON:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    for number in _PASSED_ON:
        signal.signal(number, stop)
