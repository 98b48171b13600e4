"""`mrc-experiment`: the paper's experiments in virtual time, ours beside the paper's."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from commandline.launch import INTERRUPTED
from commandline.program import FAILURE, USAGE, complain, run_command
from experiments.backend import Backend, ClusterError
from experiments.catalogue import FIGURES, UnknownFigureError, figure, names_meant
from experiments.model import Check, Run, Scale
from experiments.output import show, write
from experiments.page import Shown, verdict_of
from experiments.store import Store
from experiments.sweep import Outcome, sweep

PROGRAM: Final = "mrc-experiment"


def main() -> NoReturn:
    """Entry point.

    Exit codes: 0 every claim holds or is known to differ, 1 not so or runs failed, 2 wrong usage,
    130 interrupted.
    """
    errors = {UnknownFigureError: USAGE, ClusterError: FAILURE}
    sys.exit(run_command(cli, PROGRAM, errors))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the paper's experiments in virtual time and lay ours beside the paper's."""


@cli.command("list")
def list_figures() -> None:
    """List the experiments."""
    width = max(map(len, FIGURES))
    for name in FIGURES:
        click.echo(f"{name:{width}}  {figure(name).title}")


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--scale",
    type=click.Choice([str(scale) for scale in Scale]),
    default=str(Scale.QUICK),
    show_default=True,
    help="quick: all in half an hour on two cores. paper: the paper's numbers of nodes and sizes, "
    "as far as memory allows. tiny: what the tests run.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Runs of each; default: the experiment's."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Runs at a time on this machine; default: its CPUs."
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="Make runs on a Dask cluster, as tcp://host:8786."
)
@click.option("--fresh", is_flag=True, help="Make runs again that are finished.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    metavar="DIR",
    help="Runs, tables, pictures and the page go there.",
)
def run(
    names: tuple[str, ...],
    scale: str,
    seeds: int | None,
    jobs: int | None,
    scheduler: str | None,
    fresh: bool,
    out: Path,
) -> None:
    """Run experiments by NAME (fig-9a or 9a; all: all of them) and write the page.

    Exits with 1 where a claim does not hold without a known reason, or a run failed.
    """
    if jobs is not None and scheduler is not None:
        raise click.UsageError("--jobs and --scheduler: a cluster has the workers that it has")
    figures = [figure(name) for name in names_meant(names)]
    size = Scale(scale)
    runs = [each for one in figures for each in one.runs(size, seeds)]
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    store, backend = Store(out / "runs"), _backend(jobs, scheduler)
    try:
        with _watching() as watcher:
            outcome = sweep(runs, store, backend, watcher, fresh=fresh)
    except KeyboardInterrupt:
        complain(PROGRAM, "interrupted; finished runs are kept")
        sys.exit(INTERRUPTED)
    wall_s = time.monotonic() - started
    shown = [show(one, outcome, len(one.runs(size, seeds))) for one in figures]
    cpu_s = sum(piece.cpu_s for piece in outcome.pieces)
    page = write(out, shown, size, {"CPU of all runs": f"{cpu_s:.0f} s"})
    _print(shown, outcome, wall_s, page)
    good = not outcome.failed and not any(check.failed for each in shown for check in each.checks)
    sys.exit(0 if good else 1)


def _backend(jobs: int | None, scheduler: str | None) -> Backend:
    if scheduler is not None:
        # Costs half a second that nobody else needs to pay
        from experiments.cluster import DaskCluster

        return DaskCluster(scheduler)
    from experiments.local import LocalProcesses

    return LocalProcesses(jobs or len(os.sched_getaffinity(0)))


class _Watcher:
    """Shows how a sweep goes: a bar in a terminal, else a line for what fails."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self._console = console
        self._bar = bar
        self._task = None if bar is None else bar.add_task("", total=None, running="")
        self._running: list[str] = []

    def begun(self, runs: int, kept: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=runs, completed=kept)
        elif runs > kept:
            self._console.print(f"{runs - kept} runs to make, {kept} finished before")

    def started(self, run: Run) -> None:
        self._running.append(run.text())
        self._look()

    def ended(self, run: Run, failure: str | None, again: bool) -> None:
        if run.text() in self._running:
            self._running.remove(run.text())
        if failure is not None:
            more = "; once more" if again else ""
            self._console.print(f"{PROGRAM}: {run.text()}: {failure}{more}", markup=False)
        if self._bar is not None and self._task is not None and not again:
            self._bar.advance(self._task)
        self._look()

    def _look(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, running=" | ".join(self._running[:4]))


@contextmanager
def _watching() -> Iterator[_Watcher]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Watcher(console, None)
        return
    bar = Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[running]}", markup=False),
        console=console,
        transient=True,
    )
    with bar:
        yield _Watcher(console, bar)


def _print(shown: Sequence[Shown], outcome: Outcome, wall_s: float, page: Path) -> None:
    for each in shown:
        click.echo(f"{each.figure.name}: {each.figure.title}")
        for failure in each.failures:
            click.echo(f"  ✗ {failure}")
        for check in each.checks:
            click.echo(f"  {verdict_of(check)[0]} {check.claim}: {check.ours}{_paper(check)}")
            if check.explanation:
                click.echo(f"    {check.explanation}")
    checks = [check for each in shown for check in each.checks]
    made = len(outcome.pieces) - outcome.kept
    click.echo(
        f"{sum(check.holds for check in checks)} of {len(checks)} claims hold; {made} runs made in "
        f"{wall_s:.0f} s, {outcome.kept} finished before; {page}"
    )


def _paper(check: Check) -> str:
    return f" (paper: {check.paper})" if check.paper else ""
