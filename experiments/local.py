"""Runs in processes of this machine: one process a run, so that a crash costs that run only."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

from experiments.backend import ChangedCodeError, Failed, Finished, Started, Task
from experiments.model import Piece, Run
from experiments.worker import OtherCodeError, make_piece

#: Loaded once; every run's process is a fork of that
_PRELOAD: Final = ["experiments.simulate", "experiments.worker"]

Make = Callable[[Run, str], Piece]


@dataclass(slots=True)
class _Job:
    task: Task
    process: BaseProcess
    answer: Connection


class LocalProcesses:
    """A process for each run, `jobs` at a time. `make` is what they do."""

    def __init__(self, jobs: int, make: Make = make_piece) -> None:
        self.jobs = jobs
        self._make = make
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        atexit.register(_stop_fork_server)

    def make(self, tasks: Sequence[Task]) -> Iterator[Started | Finished | Failed]:
        """Make all runs. Closing the iterator ends the processes. Raises ChangedCodeError."""
        left = deque(tasks)
        running: dict[Connection, _Job] = {}
        try:
            while left or running:
                while left and len(running) < self.jobs:
                    job = self._start(left.popleft())
                    running[job.answer] = job
                    yield Started(job.task)
                for answer in wait(list(running)):
                    assert isinstance(answer, Connection)
                    yield _outcome(running.pop(answer))
        finally:
            for job in running.values():
                job.process.terminate()
            for job in running.values():
                job.process.join()

    def _start(self, task: Task) -> _Job:
        _start_fork_server()
        answer, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(theirs, self._make, task.run, task.code), daemon=True
        )
        process.start()
        theirs.close()
        return _Job(task, process, answer)


def _start_fork_server() -> None:
    """Unless it runs: start what runs are forked from.

    It and they are deaf to Ctrl-C from their first moment, which is the parent's affair: it ends
    its children.
    """
    # Where this is started later, in between, the signal is unblocked
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop_fork_server() -> None:
    """At the end of this process: it would end by itself, but only some time later."""
    # There is no public way to wait for it
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _work(answer: Connection, make: Make, run: Run, code: str) -> None:
    _end_with_parent()
    made: Piece | OtherCodeError | str
    try:
        made = make(run, code)
    except OtherCodeError as error:
        made = error
    except Exception as error:
        made = _why(error)
    sys.stdout.flush()
    # Where nobody waits for it any more, it is no error
    with contextlib.suppress(BrokenPipeError):
        answer.send(made)


def _end_with_parent() -> None:
    """From now on this process ends when its parent has, even one that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _why(error: Exception) -> str:
    """One line: what, and where in the code it came from."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = "/".join(frame.filename.split("/")[-2:])
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} ({file}:{frame.lineno})"


def _outcome(job: _Job) -> Finished | Failed:
    try:
        answer = job.answer.recv()
    except (EOFError, OSError):
        answer = None
    job.answer.close()
    job.process.join()
    if isinstance(answer, Piece):
        return Finished(job.task, answer)
    if isinstance(answer, OtherCodeError):
        figure = job.task.run.figure
        raise ChangedCodeError(f"{figure}: the code was changed while this ran; start it again")
    if answer is not None:
        return Failed(job.task, str(answer), lost=False)
    return Failed(job.task, f"its process ended with {_ending(job.process.exitcode)}", lost=True)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
