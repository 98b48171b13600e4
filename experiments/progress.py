"""How a sweep goes, for who waits for it: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from commandline.program import complain
from experiments.model import Piece, Run

#: Between two lines of a log
EVERY_S: Final = 30.0
#: So many of the runs that are being made are named
_NAMED: Final = 4


class SweepProgress:
    """What is done of a sweep and how long the rest will take. `clock` in seconds."""

    def __init__(self, program: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        self.finished_runs = 0
        self._program = program
        self._clock = clock
        self._began_s = self._last_s = clock()
        self._left: dict[str, Run] = {}
        self._making: dict[str, Run] = {}
        self._made_cpu_s = 0.0
        #: CPU time of finished runs of the same parameters, of the same figure, of all
        self._costs_s: dict[str, list[float]] = {}

    @property
    def done(self) -> int:
        """Runs of which nothing is to be done any more: finished ones, and those that failed."""
        return self.total - len(self._left)

    def begun(self, runs: Sequence[Run], kept: Sequence[Piece]) -> None:
        """All runs, and those of them that were finished before."""
        self.total, self._began_s = len(runs), self._clock()
        self._left = {run.identity(): run for run in runs}
        for piece in kept:
            self._is_done(piece)
        if self._left:
            click.echo(f"{len(self._left)} runs to make, {self.done} finished before", err=True)

    def started(self, run: Run) -> None:
        """A run is being made."""
        self._making[run.identity()] = run

    def finished(self, piece: Piece) -> None:
        """A run was made."""
        self._is_done(piece)
        self._last_s = self._clock()
        # Last: from now on another thread goes by all of it (`left_s`)
        self._made_cpu_s += piece.cpu_s

    def failed(self, run: Run, why: str, again: bool) -> None:
        """A run failed; `again`: it is made once more."""
        complain(self._program, f"{run.text()}: {why}{'; once more' if again else ''}")
        self._making.pop(run.identity(), None)
        if not again:
            self._left.pop(run.identity(), None)

    def _is_done(self, piece: Piece) -> None:
        self.finished_runs += 1
        identity = piece.run.identity()
        self._making.pop(identity, None)
        self._left.pop(identity, None)
        for key in _alike(piece.run):
            self._costs_s.setdefault(key, []).append(piece.cpu_s)

    def elapsed_s(self) -> float:
        """Since the sweep began."""
        return self._clock() - self._began_s

    def left_s(self) -> float | None:
        """How long the rest will take, going by what was made so far; None: nothing was yet."""
        if not self._made_cpu_s:
            return None
        cpu_s = sum(self._expected_s(run) for run in list(self._left.values()))
        took_s = self._last_s - self._began_s
        return max(cpu_s * took_s / self._made_cpu_s - (self._clock() - self._last_s), 0.0)

    def _expected_s(self, run: Run) -> float:
        return next(mean(self._costs_s[key]) for key in _alike(run) if key in self._costs_s)

    def times(self) -> str:
        """3 min 20 s, about 17 min left."""
        left_s = self.left_s()
        rest = f", about {duration_text(left_s)} left" if left_s is not None and self._left else ""
        return duration_text(self.elapsed_s()) + rest

    def making(self) -> str:
        """The runs that are being made."""
        runs = [run.text() for run in list(self._making.values())]
        return " | ".join(runs[:_NAMED]) + (" | …" if len(runs) > _NAMED else "")

    def line(self) -> str:
        """57 of 325 runs; 3 min 20 s, about 17 min left; now fig-16 …, seed 0."""
        making = self.making()
        return f"{self.done} of {self.total} runs; {self.times()}" + (
            f"; now {making}" if making else ""
        )


def _alike(run: Run) -> tuple[str, str, str]:
    """Keys of runs that cost about as much, the most like first."""
    return Run(run.figure, run.parameters, 0).identity(), run.figure, ""


def duration_text(seconds: float) -> str:
    """45 s, 3 min 20 s, 1 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


@contextmanager
def shown_on_stderr(progress: SweepProgress, every_s: float = EVERY_S) -> Iterator[None]:
    """While this lasts, progress is to be seen; `every_s`: between two lines of a log."""
    console = Console(stderr=True)
    over = threading.Event()
    if console.is_terminal:
        bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[now]}", markup=False),
            console=console,
            transient=True,
        )
        task = bar.add_task("", total=None, now="")

        def look() -> None:
            while not over.wait(0.2):
                now = f"{progress.times()}; {progress.making()}" if progress.total else ""
                bar.update(task, total=progress.total or None, completed=progress.done, now=now)

        with bar, _thread(look, over):
            yield
        return

    def log() -> None:
        while not over.wait(every_s):
            click.echo(progress.line(), err=True)

    with _thread(log, over):
        yield


@contextmanager
def _thread(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
