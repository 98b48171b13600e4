"""The command: names, what it writes, how it ends."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
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
from experiments.output import show, write
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
    assert names_meant(("18", "all", "9a")) == list(catalogue.FIGURES)
    assert names_meant(("19a", "bins", "8")) == ["fig-8", "fig-19a", "bins"]
    for given in (("fig-9x",), ("9x",), ("all", "9x")):
        with pytest.raises(UnknownFigureError, match="9x: no such experiment; did you mean fig-9"):
            names_meant(given)


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


def test_a_reason_stands_below_its_claim_and_is_told_once(tmp_path: Path) -> None:
    reason = Reason("a `queue` was full", "3 drops", True)
    differing = [Check(f"claim {number}", "", "", False, reason) for number in range(2)]
    figure = replace(
        _figure(holds=True),
        name="table-5.2.1",
        checks=lambda results: [Check("a first", "", "", True), *differing],
    )
    pieces = [
        Piece(Run("table-5.2.1", {"loss": loss, "bytes": 2048}, 0), Measured({"free_least": 1.0}))
        for loss in (0.0, 0.01)
    ]
    shown = show(figure, Outcome(pieces), 2)
    page = write(tmp_path, [shown], Scale.TINY, {}).read_text()
    place = [page.index(text) for text in ("a first", "claim 0", "Differs because", "claim 1")]
    assert place == sorted(place)
    assert page.count("Differs because") == 1 and "For the reason given above" in page
    assert "a <code>queue</code> was full (checked: 3 drops)" in page
    assert ">1 %<" in page and ">2 KiB<" not in page  # only what varies is a column
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"table-5.2.1-empty.svg", "table-5.2.1-empty.png"}


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


@pytest.mark.parametrize(
    ("number", "everybody", "code"),
    [(signal.SIGINT, True, 130), (signal.SIGTERM, True, 143), (signal.SIGTERM, False, 143)],
    ids=["Ctrl-C", "SIGTERM to the group", "SIGTERM to the command"],
)
def test_a_signal_ends_everything(
    number: signal.Signals, everybody: bool, code: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "experiments", "run", "9a", "--scale", "paper", "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=hear_ctrl_c,
    ) as process:
        assert process.stderr is not None
        assert "runs to make" in process.stderr.readline()
        os.killpg(process.pid, number) if everybody else process.send_signal(number)
        try:
            assert process.wait(30) == code
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # else nothing would end it
            raise
        last = process.stderr.read().strip()
        assert last == (
            "mrc-experiment: interrupted; 0 of 5 runs are finished and kept: "
            "the same command goes on from there"
        )
    # Nobody of the group is left: not even the process that others are forked from
    deadline_s = time.monotonic() + 60
    while left := _alive_in_group(process.pid):
        assert time.monotonic() < deadline_s, left
        time.sleep(0.01)


def _alive_in_group(group: int) -> list[str]:
    """Command lines of its processes; those that only nobody has waited for yet are none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_all_figures_have_runs_at_every_scale() -> None:
    for name in catalogue.FIGURES:
        figure = catalogue.figure(name)
        assert figure.name == name
        for scale in Scale:
            runs = figure.runs(scale)
            assert len({run.identity() for run in runs}) == len(runs) > 0
