"""Runs that do what tests want of them, wherever they are made."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from experiments.model import Measured, Piece, Run

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

    def begun(self, runs: int, kept: int) -> None:
        self.kept = kept

    def started(self, run: Run) -> None:
        pass

    def ended(self, run: Run, failure: str | None, again: bool) -> None:
        if failure is None:
            self.made.append(_number(run))
        else:
            self.failures.append((_number(run), failure, again))
