"""Runs are made once, kept, and cost no more than themselves where they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.backend import ChangedCodeError
from experiments.local import LocalProcesses
from experiments.model import Piece, Run
from experiments.store import Store
from experiments.sweep import Outcome, sweep
from tests.experiments import fake_runs
from tests.experiments.fake_runs import Seen, runs, version_of


def _sweep(
    todo: list[Run], folder: Path, make: object, seen: Seen | None = None, *, fresh: bool = False
) -> Outcome:
    return sweep(
        todo,
        Store(folder / "runs", version_of),
        LocalProcesses(2, make),  # type: ignore[arg-type]
        seen or Seen(),
        fresh=fresh,
        version_of=version_of,
    )


def test_runs_are_made_and_kept(tmp_path: Path) -> None:
    outcome = _sweep(runs(3), tmp_path, fake_runs.double)
    assert [piece["twice"] for piece in outcome.pieces] == [0, 2, 4]
    again = Seen()
    kept = _sweep(runs(4), tmp_path, fake_runs.double, again)
    assert (again.kept, again.made) == (3, [3])
    assert kept.pieces[1].curve("curve") == [1.0, 2.0]
    fresh = Seen()
    _sweep(runs(4), tmp_path, fake_runs.double, fresh, fresh=True)
    assert sorted(fresh.made) == [0, 1, 2, 3]


def test_other_parameters_seeds_and_code_are_other_runs(tmp_path: Path) -> None:
    store = Store(tmp_path, version_of)
    (run,) = runs(1)
    paths = {
        store.path(run),
        store.path(Run("fake", run.parameters, 1)),
        store.path(Run("fake", {**run.parameters, "number": 7}, 0)),
        Store(tmp_path, lambda figure: "2").path(run),
    }
    assert len(paths) == 4
    turned = Run("fake", dict(reversed(list(run.parameters.items()))), 0)
    assert store.path(turned) == store.path(run)


def test_a_piece_that_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", version_of)
    _sweep(runs(1), tmp_path, fake_runs.double)
    store.path(runs(1)[0]).write_text('{"metrics": {')
    seen = Seen()
    _sweep(runs(1), tmp_path, fake_runs.double, seen)
    assert seen.made == [0]


def test_an_error_costs_its_run_and_is_not_tried_again(tmp_path: Path) -> None:
    seen = Seen()
    outcome = _sweep(runs(3), tmp_path, fake_runs.wrong, seen)
    assert [piece["twice"] for piece in outcome.pieces] == [0, 4]
    ((number, why, again),) = seen.failures
    assert (number, again) == (1, False)
    assert why.startswith("ValueError: number: 1 is odd (experiments/fake_runs.py:")
    assert [failed.run.parameters["number"] for failed in outcome.failed] == [1]


def test_a_run_that_dies_is_made_once_more(tmp_path: Path) -> None:
    seen = Seen()
    outcome = _sweep(runs(4, tmp_path), tmp_path, fake_runs.dies_once, seen)
    assert [piece["twice"] for piece in outcome.pieces] == [0, 2, 4, 6]
    assert not outcome.failed
    assert seen.failures == [(1, "its process ended with SIGKILL", True)]


def test_a_run_that_always_dies_is_reported(tmp_path: Path) -> None:
    outcome = _sweep(runs(4, tmp_path), tmp_path, fake_runs.dies)
    assert [piece["twice"] for piece in outcome.pieces] == [0, 4, 6]
    ((failed),) = outcome.failed
    assert (failed.run.parameters["number"], failed.why) == (1, "its process ended with SIGKILL")


def test_what_was_finished_before_an_interrupt_is_kept(tmp_path: Path) -> None:
    class Interrupts(Seen):
        def finished(self, piece: Piece) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _sweep(runs(5), tmp_path, fake_runs.double, Interrupts())
    seen = Seen()
    outcome = _sweep(runs(5), tmp_path, fake_runs.double, seen)
    assert seen.kept == 1
    assert len(outcome.pieces) == 5


def test_code_that_was_changed_meanwhile_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(ChangedCodeError, match="fake: the code was changed while this ran"):
        _sweep(runs(5), tmp_path, fake_runs.other_code)


def test_a_run_that_cannot_be_kept_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(beside: Path, target: Path) -> None:
        assert beside.exists()
        raise KeyboardInterrupt

    store = Store(tmp_path, version_of)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.keep(fake_runs.double(runs(1)[0], "1"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_runs_end_with_the_process_that_wants_them(tmp_path: Path) -> None:
    """Even where it is killed, and cannot end anybody."""
    code = f"from tests.experiments import fake_runs; fake_runs.sweep_for_ever({str(tmp_path)!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            while len(list(tmp_path.glob("pid-?"))) < 2:
                assert process.poll() is None
                time.sleep(0.01)
            process.kill()
            # Is at its end when the last process that could write to it is
            _, said = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert said == ""
