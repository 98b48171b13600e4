"""The command: names, what it writes, how it ends."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from experiments import catalogue, cli
from experiments.backend import ClusterError
from experiments.catalogue import UnknownFigureError, names_meant
from experiments.model import (
    Check,
    Column,
    Figure,
    Measured,
    Piece,
    Plot,
    Reason,
    Results,
    Run,
    Scale,
)
from experiments.output import show
from experiments.sweep import Outcome
from tests.signals import hear_ctrl_c


def _run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["mrc-experiment", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    code = left.value.code
    assert isinstance(code, int)
    return code


def test_names() -> None:
    assert names_meant(("9a", "fig-9a", "13")) == ["fig-9a", "fig-12"]
    assert names_meant(("all",)) == list(catalogue.FIGURES)
    with pytest.raises(UnknownFigureError, match="fig-9x: no such experiment; did you mean fig-9"):
        names_meant(("fig-9x",))


def test_a_typo_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["run", "leafspine"], monkeypatch) == 2
    assert capsys.readouterr().err == (
        "mrc-experiment: leafspine: no such experiment; did you mean leaf-spine?\n"
    )


def test_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["list"], monkeypatch) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == len(catalogue.FIGURES)
    assert "fig-9b" in out and "four of eight links" in out


def _figure(*, holds: bool, differs: Reason | None = None) -> Figure:
    def draw(results: Results, canvas: object) -> None:
        pass

    return Figure(
        name="fig-14",
        title="a title",
        paper="what the paper <reports>",
        setup="set-up",
        parameters=lambda scale: [{"forced_us": 300, "end_us": 700}],
        measure=lambda parameters, seed: Measured({}),
        checks=lambda results: [
            Check("a claim", "92 %", f"{results.middle('free_least'):.2f}", holds, differs)
        ],
        plots=[Plot("empty", "a caption", draw)],
        columns=[Column("free_least", "least")],
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the runs of the figure are finished after the first test."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize(
    ("holds", "differs", "code", "mark"),
    [
        (True, None, 0, "✓ a claim"),
        (False, None, 1, "✗ a claim"),
        (False, Reason("of this", "7 µs", True), 0, "differs because of this (checked: 7 µs)"),
        (False, Reason("of this", "9 µs", False), 1, "✗ a claim"),
    ],
)
def test_what_is_written_and_how_it_ends(
    holds: bool,
    differs: Reason | None,
    code: int,
    mark: str,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "figure", lambda name: _figure(holds=holds, differs=differs))
    arguments = ["run", "14", "--seeds", "1", "--jobs", "1", "--out", str(out)]
    assert _run(arguments, monkeypatch) == code
    assert mark in capsys.readouterr().out
    with (out / "tables/fig-14.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["forced_us"] == "300" and row["seed"] == "0"
    assert float(row["free_least"]) > 0.9
    assert (out / "figures/fig-14-empty.svg").exists()
    assert (out / "figures/fig-14-empty.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "paper.html").read_text()
    assert "what the paper &lt;reports&gt;" in page and "data:image/svg+xml;base64," in page
    assert ("Differs because" in page) == (differs is not None and differs.holds)
    assert ("No longer explained" in page) == (differs is not None and not differs.holds)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_a_figure_that_cannot_be_judged_fails_and_others_are_shown() -> None:
    run = Run("fig-14", {}, 0)
    outcome = Outcome([Piece(run, Measured({"free_least": None}))])
    shown = show(_figure(holds=True), outcome, 1)
    (check,) = shown.checks
    assert check.failed and "free_least is None, not a number" in check.ours
    assert shown.pictures == {}


def test_jobs_and_a_cluster_do_not_go_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["run", "14", "--jobs", "2", "--scheduler", "tcp://h:1"], monkeypatch) == 2
    assert "a cluster has the workers that it has" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def nobody(jobs: int | None, scheduler: str | None) -> NoReturn:
        raise ClusterError(f"{scheduler}: no scheduler answers there")

    monkeypatch.setattr(cli, "_backend", nobody)
    arguments = ["run", "14", "--scheduler", "tcp://h:1", "--out", str(tmp_path)]
    assert _run(arguments, monkeypatch) == 1
    assert capsys.readouterr().err == "mrc-experiment: tcp://h:1: no scheduler answers there\n"


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "experiments", "run", "9a", "--scale", "paper", "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=hear_ctrl_c,
    ) as process:
        assert process.stderr is not None
        assert "runs to make" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        try:
            assert process.wait(30) == 130
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # else nothing would end it
            raise
        last = process.stderr.read().strip()
        assert last == "mrc-experiment: interrupted; finished runs are kept"
    # Nobody of the group is left: not even the process that others are forked from
    for _ in range(100_000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        os.sched_yield()
    pytest.fail("processes are left")


def test_all_figures_have_runs_at_every_scale() -> None:
    for name in catalogue.FIGURES:
        figure = catalogue.figure(name)
        assert figure.name == name
        for scale in Scale:
            runs = figure.runs(scale)
            assert len({run.identity() for run in runs}) == len(runs) > 0
