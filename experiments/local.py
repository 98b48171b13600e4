"""Runs in processes of this machine: one process a run, so that a crash costs that run only."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

from experiments.backend import Failed, Finished, Started, Task
from experiments.model import Piece, Run
from experiments.worker import make_piece

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

    def make(self, tasks: Sequence[Task]) -> Iterator[Started | Finished | Failed]:
        """Make all runs. Closing the iterator ends the processes."""
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
        answer, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(theirs, self._make, task.run, task.code), daemon=True
        )
        process.start()
        theirs.close()
        return _Job(task, process, answer)


def _work(answer: Connection, make: Make, run: Run, code: str) -> None:
    # Ctrl-C is the parent's affair, which ends its children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer.send(make(run, code))
    except Exception as error:
        answer.send(_why(error))
    answer.close()
    sys.stdout.flush()


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
