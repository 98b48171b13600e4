"""`mrc-experiment`: the paper's experiments in virtual time, ours beside the paper's."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

from commandline.launch import INTERRUPTED
from commandline.program import FAILURE, USAGE, complain, run_command
from experiments.backend import Backend, ChangedCodeError, ClusterError
from experiments.catalogue import FIGURES, UnknownFigureError, figure, names_meant
from experiments.model import Check, Scale
from experiments.output import show, write
from experiments.page import Shown, verdict_of
from experiments.progress import SweepProgress, duration_text, shown_on_stderr
from experiments.store import Store
from experiments.sweep import Outcome, sweep

PROGRAM: Final = "mrc-experiment"
#: Of a figure, at the end; all of them were shown when they failed, and are on the page
_FAILURES_SHOWN: Final = 3
#: To draw them takes long enough to say so
_MANY_FIGURES: Final = 5


def main() -> NoReturn:
    """Entry point.

    Exit codes: 0 every claim holds or is known to differ, 1 not so or runs failed, 2 wrong usage,
    130 interrupted, 143 terminated.
    """
    errors = {UnknownFigureError: USAGE, ClusterError: FAILURE, ChangedCodeError: FAILURE}
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
    progress = SweepProgress(PROGRAM)
    try:
        with _ending_like_ctrl_c():
            with shown_on_stderr(progress):
                outcome = sweep(runs, store, backend, progress, fresh=fresh)
            wall_s = time.monotonic() - started
            if len(figures) >= _MANY_FIGURES:
                click.echo(f"drawing {len(figures)} figures", err=True)
            shown = [show(one, outcome, len(one.runs(size, seeds))) for one in figures]
            facts = {"CPU of all runs": duration_text(sum(each.cpu_s for each in outcome.pieces))}
            page = write(out, shown, size, facts)
    except KeyboardInterrupt as interrupt:
        kept = f"{progress.finished_runs} of {len(runs)} runs are finished and kept"
        how = "without --fresh " if fresh else ""
        complain(PROGRAM, f"interrupted; {kept}: {how}the same command goes on from there")
        sys.exit(interrupt.exit_code if isinstance(interrupt, _Terminated) else INTERRUPTED)
    _print(shown, outcome, wall_s, page)
    good = not outcome.failed and not any(check.failed for each in shown for check in each.checks)
    sys.exit(0 if good else FAILURE)


def _backend(jobs: int | None, scheduler: str | None) -> Backend:
    if scheduler is not None:
        # Costs half a second that nobody else needs to pay
        from experiments.cluster import DaskCluster

        return DaskCluster(scheduler)
    from experiments.local import LocalProcesses

    return LocalProcesses(jobs or len(os.sched_getaffinity(0)))


class _Terminated(KeyboardInterrupt):
    """The process was asked to end, by another signal than Ctrl-C's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def _ending_like_ctrl_c() -> Iterator[None]:
    """Who asks this process to end gets what Ctrl-C gets: nothing is left running."""

    def end(number: int, _: object) -> NoReturn:
        raise _Terminated(number)

    # What is ignored, as SIGHUP under nohup, stays so
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _print(shown: Sequence[Shown], outcome: Outcome, wall_s: float, page: Path) -> None:
    for each in shown:
        click.echo(f"{each.figure.name}: {each.figure.title}")
        for failure in each.failures[:_FAILURES_SHOWN]:
            click.echo(f"  ✗ {failure}")
        if len(each.failures) > _FAILURES_SHOWN:
            click.echo(f"  ✗ and {len(each.failures) - _FAILURES_SHOWN} runs more that failed")
        for check in each.checks:
            click.echo(f"  {verdict_of(check)[0]} {check.claim}: {check.ours}{_paper(check)}")
            if check.explanation:
                click.echo(f"    {check.explanation}")
    checks = [check for each in shown for check in each.checks]
    hold, failed = sum(check.holds for check in checks), sum(check.failed for check in checks)
    differ = len(checks) - hold - failed
    made = len(outcome.pieces) - outcome.kept
    differs = f"{differ} differ" + ("s" if differ == 1 else "")
    click.echo(
        f"{hold} of {len(checks)} claims hold"
        + (f", {differs} with the reason given" if differ else "")
        + (f", {failed} do not hold" if failed else "")
        + f"; {made} runs made in {duration_text(wall_s)}, {outcome.kept} finished before"
    )
    click.echo(f"page: {page}")


def _paper(check: Check) -> str:
    return f" (paper: {check.paper})" if check.paper else ""
