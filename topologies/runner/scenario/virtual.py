"""The same scenario in virtual time, with the same output and the same files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from host.endpoint_settings import SettingsError
from reports.terminal import print_result
from reports.text import time_text
from reports.verdict import failures
from sim.loop import StandstillError
from sim.record import make_record
from sim.simulation import Progress as Report
from sim.simulation import Simulation
from topologies.runner import report
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunFolder
from topologies.runner.scenario.report_files import Wanted, write_report
from topologies.scenario import Scenario


def run_scenario(
    scenario: Scenario, folder: RunFolder, console: Console, wanted: Wanted, pcap: Path | None
) -> int:
    """Run it and return the exit code. Raises RunnerError."""
    report.print_fabric(console, scenario.fabric)
    try:
        simulation = Simulation(scenario, pcap=pcap, along_time=True)
    except SettingsError as error:
        raise UsageError(scenario.endpoint.located(str(error))) from None
    try:
        with _progress(console) as progress:
            result = simulation.run(progress)
    except StandstillError as error:
        raise RunnerError(f"{scenario.name}: {error}; give its links a rate or a delay") from None
    result.failures = failures(scenario, result)
    record = make_record(simulation, result)
    files = [] if pcap is None else [pcap]
    try:
        files[:0] = write_report(record, folder.path, wanted)
    finally:  # what came of it is told even if the disk is full
        print_result(console, scenario.fabric, result, files)
    return 1 if result.failures else 0


@contextmanager
def _progress(console: Console) -> Iterator[Report | None]:
    if not console.is_terminal:
        yield None
        return
    bar = Progress(
        BarColumn(),
        TextColumn("{task.fields[moved]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, moved="")

        def show(delivered: int, total: int | None, now_ns: int) -> None:
            of = "" if total is None else f" of {total / 2**20:.1f}"
            moved = f"{delivered / 2**20:.1f}{of} MiB, {time_text(now_ns)} of virtual time"
            bar.update(task, total=total, completed=delivered, moved=moved)

        yield show
