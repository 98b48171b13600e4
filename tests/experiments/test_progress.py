"""What is told of a sweep while it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click
import pytest

from experiments import progress
from experiments.model import Measured, Piece, Run
from experiments.progress import SweepProgress, duration_text, shown_on_stderr


def _runs(figure: str, count: int) -> list[Run]:
    return [Run(figure, {"bytes": 1024}, seed) for seed in range(count)]


def _piece(run: Run, cpu_s: float) -> Piece:
    return Piece(run, Measured({}), cpu_s)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_done_elapsed_and_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    seen = SweepProgress("mrc-experiment", clock)
    cheap, dear = _runs("fig-9a", 4), _runs("fig-16", 4)
    seen.begun([*cheap, *dear], [_piece(cheap[0], 1.0), _piece(dear[0], 30.0)])
    assert capsys.readouterr().err == "6 runs to make, 2 finished before\n"
    assert seen.line() == "2 of 8 runs; 0 s"
    seen.started(cheap[1])
    seen.started(cheap[2])
    clock.now_s += 2
    seen.finished(_piece(cheap[1], 2.0))
    # Two of a mean of 1.5 s and three of 30 s, at a second of CPU a second
    assert seen.line() == ("3 of 8 runs; 2 s, about 1 min 33 s left; now fig-9a bytes=1024, seed 2")
    clock.now_s += 10
    assert seen.times() == "12 s, about 1 min 23 s left"
    seen.failed(cheap[2], "its process ended with SIGKILL", again=True)
    assert "seed 2: its process ended with SIGKILL; once more" in capsys.readouterr().err
    assert (seen.done, seen.finished_runs) == (3, 3)
    seen.failed(cheap[2], "its process ended with SIGKILL", again=False)
    assert (seen.done, seen.finished_runs) == (4, 3)


def test_a_figure_of_which_nothing_was_made_costs_what_others_do() -> None:
    clock = Clock()
    seen = SweepProgress("mrc-experiment", clock)
    known, unknown = _runs("fig-9a", 1), _runs("fig-16", 2)
    seen.begun([*known, *unknown], [])
    clock.now_s += 2
    seen.finished(_piece(known[0], 4.0))
    assert seen.left_s() == 4.0


def test_who_looks_while_a_run_is_taken_in_sees_all_of_it_or_nothing() -> None:
    """Another thread may look at any moment: here, while the clock is read."""
    left: list[float | None] = []

    def clock() -> float:
        if looking:
            looking.pop()
            left.append(seen.left_s())
        return 100.0

    looking: list[bool] = []
    seen = SweepProgress("mrc-experiment", clock)
    first, *_ = runs = _runs("fig-9a", 2)
    seen.begun(runs, [])
    looking.append(True)
    seen.finished(_piece(first, 4.0))
    assert left == [None]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3900, "1 h 05 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    twice = threading.Event()

    def echo(line: str, err: bool) -> None:
        assert err
        lines.append(line)
        if len(lines) >= 3:
            twice.set()

    monkeypatch.setattr(click, "echo", echo)
    seen = SweepProgress("mrc-experiment")
    seen.begun(_runs("fig-9a", 2), [])
    with shown_on_stderr(seen, every_s=0.001):
        assert twice.wait(60)
    assert lines[1].startswith("0 of 2 runs; ")
    alive = [thread for thread in threading.enumerate() if _is_of(progress, thread)]
    assert alive == []


def _is_of(module: object, thread: threading.Thread) -> bool:
    target: Callable[[], None] | None = getattr(thread, "_target", None)
    return getattr(target, "__module__", None) == getattr(module, "__name__", "")
