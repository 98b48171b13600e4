"""A set of runs: what is finished already, what is to be made, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Protocol

from experiments.backend import Backend, Failed, Finished, Started, Task
from experiments.code_version import figure_version
from experiments.model import Piece, Results, Run
from experiments.store import Store

#: A run whose worker was lost is given to another, so often
_MORE_TRIES: Final = 1


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that came to nothing, and why."""

    run: Run
    why: str


@dataclass(slots=True)
class Outcome:
    """All runs of a sweep. `kept`: how many were finished before."""

    pieces: list[Piece] = field(default_factory=list)
    failed: list[FailedRun] = field(default_factory=list)
    kept: int = 0

    def of(self, figure: str) -> Results:
        """The finished runs of a figure, in the order of its parameters and seeds."""
        return Results([piece for piece in self.pieces if piece.run.figure == figure])


class Watcher(Protocol):
    """Is told how a sweep goes."""

    def begun(self, runs: Sequence[Run], kept: Sequence[Piece]) -> None:
        """All runs, and those of them that were finished before."""

    def started(self, run: Run) -> None:
        """A run is being made."""

    def finished(self, piece: Piece) -> None:
        """A run was made, and is kept."""

    def failed(self, run: Run, why: str, again: bool) -> None:
        """A run failed; `again`: it is made once more."""


def sweep(
    runs: Sequence[Run],
    store: Store,
    backend: Backend,
    watcher: Watcher,
    *,
    fresh: bool = False,
    version_of: Callable[[str], str] = figure_version,
) -> Outcome:
    """Make the runs that are not finished yet (`fresh`: all) and keep them.

    A run whose worker was lost is made once more. Raises OSError where runs cannot be kept, and
    what the backend raises; what was finished before an exception, KeyboardInterrupt among them,
    is kept.
    """
    done: dict[str, Piece] = {}
    if not fresh:
        for run in runs:
            piece = store.find(run)
            if piece is not None:
                done[run.identity()] = piece
    outcome = Outcome(kept=len(done))
    watcher.begun(runs, list(done.values()))
    tasks = [Task(run, version_of(run.figure)) for run in runs if run.identity() not in done]
    for again in range(1 + _MORE_TRIES):
        last = again == _MORE_TRIES
        tasks = _make(tasks, store, backend, watcher, done, outcome, last)
        if not tasks:
            break
    outcome.pieces = [done[run.identity()] for run in runs if run.identity() in done]
    return outcome


def _make(
    tasks: Sequence[Task],
    store: Store,
    backend: Backend,
    watcher: Watcher,
    done: dict[str, Piece],
    outcome: Outcome,
    last: bool,
) -> list[Task]:
    """Make runs; returns those that should be tried once more."""
    again = []
    with closing(backend.make(tasks)) as events:  # type: ignore[type-var]
        for event in events:
            match event:
                case Started(task):
                    watcher.started(task.run)
                case Finished(task, piece):
                    store.keep(piece)
                    done[task.run.identity()] = piece
                    watcher.finished(piece)
                case Failed(task, why, lost):
                    if lost and not last:
                        again.append(task)
                    else:
                        outcome.failed.append(FailedRun(task.run, why))
                    watcher.failed(task.run, why, again=lost and not last)
    return again
