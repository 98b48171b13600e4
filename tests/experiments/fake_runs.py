"""Runs that do what tests want of them, wherever they are made."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.local import LocalProcesses
from experiments.model import Measured, Piece, Run
from experiments.store import Store
from experiments.sweep import sweep
from experiments.worker import OtherCodeError

_DEADLINE_S = 60.0


def double(run: Run, code: str) -> Piece:
    """Twice its number."""
    return Piece(run, Measured({"twice": 2 * _number(run)}, {"curve": [1.0, 2.0]}), 0.1)


def wrong(run: Run, code: str) -> Piece:
    """An error of number 1, twice the number of all others."""
    if _number(run) == 1:
        raise ValueError("number: 1 is odd")
    return double(run, code)


def dies_once(run: Run, code: str) -> Piece:
    """Number 1 takes its process with it, the first time."""
    marker = Path(str(run.parameters["folder"])) / "died"
    if _number(run) == 1 and not marker.exists():
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return double(run, code)


def dies(run: Run, code: str) -> Piece:
    """Number 1 takes its process with it, every time."""
    if _number(run) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return double(run, code)


def dies_last(run: Run, code: str) -> Piece:
    """As `dies`, once the two others are kept: no result of theirs is on a worker that dies."""
    if _number(run) == 1:
        kept = Path(str(run.parameters["folder"])) / "runs"
        deadline_s = time.monotonic() + _DEADLINE_S
        while len([*kept.rglob("*.json")]) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    return dies(run, code)


def other_code(run: Run, code: str) -> Piece:
    """A worker that has another checkout."""
    raise OtherCodeError(f"{run.figure}: this worker's code is 2, not {code}")


def for_ever(run: Run, code: str) -> Piece:
    """Says which process it is, and goes on until it is ended."""
    begun = Path(str(run.parameters["folder"])) / f"pid-{_number(run)}"
    begun.with_suffix(".tmp").write_text(str(os.getpid()))
    begun.with_suffix(".tmp").rename(begun)
    while True:
        signal.pause()


def sweep_for_ever(folder: str) -> None:
    """In a process of its own: two runs that do not end."""
    store = Store(Path(folder) / "runs", version_of)
    sweep(runs(2, folder), store, LocalProcesses(2, for_ever), Seen(), version_of=version_of)


def _number(run: Run) -> int:
    return int(run.parameters["number"] or 0)


def runs(count: int, folder: Path | str = "") -> list[Run]:
    """Runs with the numbers 0, 1, ..."""
    return [Run("fake", {"number": number, "folder": str(folder)}, 0) for number in range(count)]


def version_of(figure: str) -> str:
    """The hash of code that is always the same."""
    return "1"


class Seen:
    """Remembers what it is told of a sweep."""

    def __init__(self) -> None:
        self.kept = 0
        self.failures: list[tuple[int, str, bool]] = []
        self.made: list[int] = []

    def begun(self, runs: Sequence[Run], kept: Sequence[Piece]) -> None:
        self.kept = len(kept)

    def started(self, run: Run) -> None:
        pass

    def finished(self, piece: Piece) -> None:
        self.made.append(_number(piece.run))

    def failed(self, run: Run, why: str, again: bool) -> None:
        self.failures.append((_number(run), why, again))
