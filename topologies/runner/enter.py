"""Running a command on a node of a living run, from outside it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, NoReturn

from topologies.runner import kernel
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunRecord

_COMMAND_NOT_FOUND: Final = 127
_PRIVATE_MOUNTS: Final = (("proc", "/proc", "proc"), ("sysfs", "/sys", "sysfs"))


def execute_on(run: RunRecord, node: str, command: Sequence[str]) -> int:
    """Run a command in a node's network namespace and return its exit code.

    The command lives in the run's PID namespace, so it ends with the run. Raises UsageError for an
    unknown node, RunnerError where the run cannot be entered.
    """
    _enter(run, node, ("pid", kernel.CLONE_NEWPID))
    child = os.fork()
    if child == 0:
        _become(command)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # the terminal sends them to the command as well
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def enter_network(run: RunRecord, node: str) -> None:
    """Move this process into a node's network namespace, for good. Raises as `execute_on`."""
    _enter(run, node)


def _enter(run: RunRecord, node: str, *others: tuple[str, int]) -> None:
    namespaces = run.state.namespaces
    if node not in namespaces:
        near = get_close_matches(node, namespaces, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(namespaces)}"
        raise UsageError(f"no node {node!r} in {run.state.run_id}; {hint}")
    process = f"/proc/{run.state.pid}"
    kinds = [(f"{process}/fd/{namespaces[node]}", kernel.CLONE_NEWNET)]
    kinds += [(f"{process}/ns/{name}", kind) for name, kind in others]
    if run.state.rootless:
        kinds.insert(0, (f"{process}/ns/user", kernel.CLONE_NEWUSER))
    try:
        descriptors = [(os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind) for path, kind in kinds]
        for descriptor, kind in descriptors:
            kernel.setns(descriptor, kind)
            os.close(descriptor)
    except OSError as error:
        raise RunnerError(f"cannot enter {run.state.run_id}: {error}") from None


def _become(command: Sequence[str]) -> NoReturn:
    # /proc and /sys of the node, where the kernel lets us: for ps, ip and the like
    with contextlib.suppress(OSError):
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
        for source, where, kind in _PRIVATE_MOUNTS:
            with contextlib.suppress(OSError):
                flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
                kernel.mount(source, where, kind, flags)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        print(f"mrc-topology: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(_COMMAND_NOT_FOUND)
