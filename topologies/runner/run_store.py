"""Where runs keep their files, and which of them are alive.

    <base>/<run id>/run.json     what another process needs to find and enter the run
                    lock         held by the run while it lives (flock): the one truth about that
                    logs/        one file a switch, and runner.log of a detached run
                    ...          reports
    <runtime>/mrc-XXXX/          Unix sockets: their paths must be short (108 bytes)

`base` is $MRC_TOPOLOGY_RUNS, else $XDG_STATE_HOME/mrc-topology, else ~/.local/state/mrc-topology.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from topologies.runner.errors import RunnerError, UsageError

#: Folders of ended runs that stay for reading; older ones are removed when a run starts
KEPT_RUNS: Final = 20

#: What the 108 bytes of a Unix socket's path leave beside mrc-XXXXXXXX/p7-t1-2047.control
_RUNTIME_PATH_BYTES: Final = 70

#: Switch names and addresses, as mrc-controller --switches takes them
SWITCHES_FILE: Final = "switches.json"

_STATE_FILE: Final = "run.json"
_LOCK_FILE: Final = "lock"
_ANOTHER_PLACE: Final = "$MRC_TOPOLOGY_RUNS can name another place"


def default_base() -> Path:
    """The folder of all runs of this user."""
    chosen = os.environ.get("MRC_TOPOLOGY_RUNS")
    if chosen:
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "mrc-topology"


def _runtime_folder() -> str:
    """Where sockets go: $XDG_RUNTIME_DIR if it can be used, else the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = len(runtime) <= _RUNTIME_PATH_BYTES and os.access(runtime, os.W_OK | os.X_OK)
    return runtime if usable else tempfile.gettempdir()


@dataclass(slots=True)
class RunState:
    """What run.json holds."""

    run_id: str
    topology: str
    target: str
    #: The process that holds the namespaces, as seen from outside them; 0 until it is known
    pid: int = 0
    rootless: bool = False
    #: starting, up, ended
    phase: str = "starting"
    sockets: str = ""
    started_at: str = ""
    #: Descriptor of each node's network namespace in process `pid`
    namespaces: dict[str, int] = field(default_factory=dict)
    #: P4Runtime address of each switch
    grpc: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None


class RunFolder:
    """The folder of a run that this process owns, from `create` to `close`."""

    def __init__(self, path: Path, state: RunState, lock: int) -> None:
        self.path = path
        self.state = state
        self._lock = lock

    @classmethod
    def create(cls, base: Path, topology: str, target: str) -> RunFolder:
        """Make the folder of a new run and take its lock. Raises RunnerError."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        run_id = f"{stamp}-{topology}-{secrets.token_hex(2)}"
        path = base / run_id
        sockets = Path(_runtime_folder()) / f"mrc-{secrets.token_hex(4)}"
        state = RunState(run_id, topology, target, sockets=str(sockets), started_at=stamp)
        try:
            (path / "logs").mkdir(parents=True)
            lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder = cls(path, state, lock)
            # Written down before it is made: a run that is killed in between leaves nothing
            # that nobody knows of
            folder.save()
            sockets.mkdir(mode=0o700)
        except OSError as error:
            raise RunnerError(
                f"cannot make the run's folders {path} and {sockets}: {error.strerror}; "
                f"{_ANOTHER_PLACE}"
            ) from error
        return folder

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.path / "logs"

    @property
    def sockets(self) -> Path:
        """For Unix sockets; gone after the run."""
        return Path(self.state.sockets)

    def save(self) -> None:
        """Write run.json in one step, so that readers see the old one or the new one."""
        fresh = self.path / (_STATE_FILE + ".new")
        fresh.write_text(json.dumps(asdict(self.state), indent=2) + "\n")
        fresh.replace(self.path / _STATE_FILE)

    def mark_up(self) -> None:
        """The fabric is up: others may find its switches."""
        addresses = json.dumps(self.state.grpc, indent=2) + "\n"
        (self.path / SWITCHES_FILE).write_text(addresses)
        self.state.phase = "up"
        self.save()

    def close(self, exit_code: int) -> None:
        """The run is over: its sockets go, its logs stay."""
        self.state.phase = "ended"
        self.state.exit_code = exit_code
        self.state.namespaces = {}
        self.state.grpc = {}
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.save()
        os.close(self._lock)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.state.phase != "ended":
            self.close(getattr(error, "exit_code", 1) if error else 0)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as found on disk. `alive`: its process holds the lock."""

    path: Path
    state: RunState
    alive: bool

    @property
    def left_behind(self) -> bool:
        """It was killed: it does not live, and it has not closed its folder."""
        return not self.alive and self.state.phase != "ended"

    def clean(self) -> None:
        """Remove what a killed run left: its sockets. The kernel has removed the rest."""
        shutil.rmtree(self.state.sockets, ignore_errors=True)
        self.state.phase = "ended"
        self.state.namespaces = {}
        self.state.grpc = {}
        (self.path / _STATE_FILE).write_text(json.dumps(asdict(self.state), indent=2) + "\n")

    def end(self, timeout_s: float) -> None:
        """Ask a living run to clean up and wait until it has. Raises RunnerError when it does not.

        The wait is for the run's lock, which the kernel frees with its process.
        """
        if self.state.pid <= 0:
            raise RunnerError(f"{self.state.run_id} is just starting; try again")
        try:
            process = os.pidfd_open(self.state.pid)
        except OSError:
            return
        try:
            if not _is_locked(self.path):
                return  # the number may be another process's by now
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if _ended(process, timeout_s):
                return
            signal.pidfd_send_signal(process, signal.SIGKILL)
            if not _ended(process, timeout_s):
                raise RunnerError(f"{self.state.run_id}: process {self.state.pid} does not end")
        except PermissionError:
            raise RunnerError(f"{self.state.run_id} belongs to another user") from None
        finally:
            os.close(process)


def _ended(process: int, timeout_s: float) -> bool:
    return bool(select.select([process], [], [], timeout_s)[0])


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(lock)


def _read(path: Path) -> RunState | None:
    try:
        raw: dict[str, Any] = json.loads((path / _STATE_FILE).read_text())
        return RunState(**raw)
    except (OSError, ValueError, TypeError):
        return None


def find_runs(base: Path) -> Iterator[RunRecord]:
    """Every run with a readable run.json, oldest first. Raises RunnerError."""
    try:
        paths = sorted(base.iterdir()) if base.is_dir() else []
    except OSError as error:
        raise RunnerError(
            f"cannot read the folder of runs {base}: {error.strerror}; {_ANOTHER_PLACE}"
        ) from error
    for path in paths:
        # The lock first: a run that ends in between has then written its last state already
        alive = _is_locked(path)
        state = _read(path)
        if state is not None:
            yield RunRecord(path, state, alive)


def select_run(base: Path, run_id: str | None) -> RunRecord:
    """The living run that is named (a part of its id is enough), or the only one there is.

    Raises UsageError where none or several fit.
    """
    living = [run for run in find_runs(base) if run.alive]
    fitting = [run for run in living if run_id is None or run_id in run.state.run_id]
    if len(fitting) == 1:
        return fitting[0]
    if not living:
        raise UsageError("nothing is running; bring a fabric up with: mrc-topology up")
    names = ", ".join(run.state.run_id for run in living)
    if not fitting:
        raise UsageError(f"no run is named {run_id}; running: {names}")
    raise UsageError(f"several runs fit; name one with --run: {names}")


def sweep(base: Path) -> None:
    """Clean what killed runs left, and remove the folders of all but the last ended runs."""
    ended = []
    for run in find_runs(base):
        if run.left_behind:
            run.clean()
        if not run.alive:
            ended.append(run.path)
    for path in ended[:-KEPT_RUNS]:
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
