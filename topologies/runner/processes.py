"""Processes of a run: started into a namespace, watched, and explained when they fail."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from topologies.runner.errors import RunnerError
from topologies.runner.namespaces import NetworkNamespace
from topologies.runner.priority import as_others

LOG_TAIL_LINES: Final = 12
#: How often a condition that has no descriptor to wait on is looked at again
_LOOK_AGAIN_MS: Final = 20


def exit_text(code: int) -> str:
    """'exit code 3', or the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    return f"killed by {signal.Signals(-code).name}"


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, indented; says so where there is none."""
    try:
        text = path.read_text(errors="replace").strip()
    except OSError as error:
        return f"  (no log: {error.strerror})"
    if not text:
        return "  (its log is empty)"
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])


class ManagedProcess:
    """A process in a node's network namespace, with its output in a log file.

    It needs no death signal: it lives in the run's PID namespace and ends with it.
    """

    def __init__(
        self, name: str, argv: Sequence[str], namespace: NetworkNamespace, log: Path
    ) -> None:
        """Start it. Raises RunnerError where the program cannot be started."""
        self.name = name
        self.log = log
        with log.open("ab") as output:
            try:
                # A child inherits the namespace of the thread that starts it. A session of its
                # own keeps Ctrl-C away from it: the runner ends it in its own order.
                with namespace.entered():
                    self._process = subprocess.Popen(
                        argv,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
            except OSError as error:
                raise RunnerError(f"{name}: cannot start {argv[0]}: {error.strerror}") from error
        as_others(self._process.pid)
        self._pidfd = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """As seen in the run's PID namespace."""
        return self._process.pid

    @property
    def pidfd(self) -> int:
        """Becomes readable when the process ends."""
        return self._pidfd

    @property
    def exit_code(self) -> int | None:
        """None while it runs; below 0 the number of the signal that ended it."""
        return self._process.poll()

    def failure(self, when: str) -> str:
        """Which process, how it ended, and the tail of its log."""
        code = self.exit_code
        how = "still running" if code is None else exit_text(code)
        return f"{self.name} {when} ({how}); the end of {self.log}:\n{log_tail(self.log)}"

    def signal(self, number: int) -> None:
        """Send it a signal; nothing happens when it has ended."""
        self._process.send_signal(number)

    def wait(self) -> None:
        """Wait until it has ended."""
        self._process.wait()

    def close(self) -> None:
        """Let go of an ended process."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def wait_until_ready(
    processes: Iterable[tuple[ManagedProcess, Callable[[], bool]]],
    timeout_s: float,
    on_ready: Callable[[ManagedProcess], None],
) -> None:
    """Wait until each process meets its condition.

    Raises RunnerError as soon as one ends, or when one is not ready in time.
    """
    waiting = {process.pidfd: (process, is_ready) for process, is_ready in processes}
    poller = select.poll()
    for pidfd in waiting:
        poller.register(pidfd, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while True:
        for pidfd, (process, is_ready) in list(waiting.items()):
            if is_ready():
                poller.unregister(pidfd)
                del waiting[pidfd]
                on_ready(process)
        if not waiting:
            return
        for pidfd, _ in poller.poll(_LOOK_AGAIN_MS):
            raise RunnerError(waiting[pidfd][0].failure("ended while it started"))
        if time.monotonic() > deadline:
            late, _ = next(iter(waiting.values()))
            raise RunnerError(late.failure(f"was not ready within {timeout_s:.0f} s"))


def stop_all(processes: Sequence[ManagedProcess], grace_s: float) -> None:
    """Ask all to end, and end those that do not within the grace."""
    poller = select.poll()
    running = 0
    for process in processes:
        if process.exit_code is None:
            process.signal(signal.SIGTERM)
            poller.register(process.pidfd, select.POLLIN)
            running += 1
    deadline = time.monotonic() + grace_s
    while running:
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))
        ended = poller.poll(left_ms)
        if not ended:
            break
        for pidfd, _ in ended:
            poller.unregister(pidfd)
            running -= 1
    for process in processes:
        if process.exit_code is None:
            process.signal(signal.SIGKILL)
            process.wait()
        process.close()
