"""`mrc-sim`: run a scenario in virtual time."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from commandline.program import USAGE, run_command
from host.endpoint_settings import SettingsError
from reports.page import page
from reports.progress import RunProgress
from reports.record import RunRecord
from reports.result import RunResult
from reports.terminal import print_result
from reports.text import time_text
from reports.verdict import failures
from sim.loop import StandstillError
from sim.record import make_record
from sim.simulation import Simulation
from topologies.documents import DocumentError
from topologies.scenario import Scenario
from topologies.scenario_loader import find_scenario, load_scenario, ready_scenarios
from topologies.scenario_schema import json_schema
from topologies.units import size_text

PROGRAM = "mrc-sim"
_PIPE_WIDTH = 130


def main() -> NoReturn:
    """Entry point. Exit codes: 0 all as expected, 1 not so, 2 wrong usage, 130 interrupted."""
    sys.exit(run_command(cli, PROGRAM, {DocumentError: USAGE}))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Move bytes over an MRC fabric in virtual time: real packets, compiled P4, any link speed."""


@cli.command()
@click.argument("scenario")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field: --set traffic[0].transfer.size=64MiB, --set topology.planes=4.",
)
@click.option("--seed", type=click.IntRange(min=0), help="In place of the scenario's.")
@click.option(
    "--pcap",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Capture every port there, one nanosecond pcap each.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write everything measured there; - is stdout.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page there that shows the run, for a browser; it needs no other file.",
)
@click.option(
    "--record",
    "record_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what the page is made of there, as JSON.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only what is not as expected.")
def run(
    scenario: str,
    changes: tuple[str, ...],
    seed: int | None,
    pcap: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    record_file: Path | None,
    quiet: bool,
) -> None:
    """Run SCENARIO, a file or the name of a ready one (see `mrc-sim list`).

    Exits with 1 where something the scenario expects does not hold.
    """
    loaded = load_scenario(find_scenario(scenario), changes=changes, seed=seed)
    to_stdout = json_file is not None and str(json_file) == "-"
    for file in (None if to_stdout else json_file, html_file, record_file):
        if file is not None:
            _check_writable(file)
    result, record = _run(loaded, pcap, quiet, html_file is not None or record_file is not None)
    if json_file is not None:
        text = json.dumps(result.to_json(), indent=2) + "\n"
        if to_stdout:
            click.echo(text, nl=False)
        else:
            _write(json_file, text)
    if record is not None and html_file is not None:
        _write(html_file, page(record))
    if record is not None and record_file is not None:
        _write(record_file, json.dumps(record.to_json(), indent=2) + "\n")
    if quiet:
        for failure in result.failures:
            click.echo(f"{PROGRAM}: {loaded.name}: {failure}", err=True)
    else:
        console = Console(stderr=to_stdout)
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console = Console(stderr=to_stdout, width=_PIPE_WIDTH)
        print_result(console, loaded.fabric, result)
    sys.exit(1 if result.failures else 0)


def _fail(message: str) -> NoReturn:
    click.echo(f"{PROGRAM}: {message}", err=True)
    sys.exit(1)


def _check_writable(path: Path) -> None:
    """Say before the run that its result could not be written."""
    if not path.name or path.is_dir():
        _fail(f"{path}: cannot be written: {os.strerror(errno.EISDIR)}")
    if not path.parent.is_dir():
        _fail(f"{path}: cannot be written: there is no folder {path.parent}")
    stands_alone = path.exists() and not path.is_file()
    if not (stands_alone or os.access(path.parent, os.W_OK | os.X_OK)) or (
        path.exists() and not os.access(path, os.W_OK)
    ):
        _fail(f"{path}: cannot be written: {os.strerror(errno.EACCES)}")


def _write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all; what is no file (a pipe, a device) takes it as is."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and (path.is_symlink() or not path.is_file()):
            path.write_text(text, encoding="utf-8")
            return
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        _fail(f"{path}: cannot be written: {error.strerror}")
    finally:
        with suppress(OSError):
            beside.unlink()


def _build(
    scenario: Scenario,
    pcap: Path | None = None,
    along_time: bool = False,
    progress: RunProgress | None = None,
) -> Simulation:
    try:
        return Simulation(scenario, pcap=pcap, along_time=along_time, progress=progress)
    except SettingsError as error:
        click.echo(f"{PROGRAM}: {scenario.endpoint.located(str(error))}", err=True)
        sys.exit(2)
    except OSError as error:
        _fail(f"{pcap}: cannot be written: {error.strerror}")


def _run(
    scenario: Scenario, pcap: Path | None, quiet: bool, along_time: bool
) -> tuple[RunResult, RunRecord | None]:
    progress = None if quiet else RunProgress(Console(stderr=True), scenario.name)
    try:
        with nullcontext() if progress is None else progress.shown():
            simulation = _build(scenario, pcap, along_time, progress)
            result = simulation.run()
    except StandstillError as error:
        _fail(f"{scenario.name}: {error}; give its links a rate or a delay")
    except OSError as error:
        _fail(f"{pcap}: cannot be written: {error.strerror}")
    result.failures = failures(scenario, result)
    return result, make_record(simulation, result) if along_time else None


@cli.command("list")
def list_scenarios() -> None:
    """List the ready scenarios."""
    ready = ready_scenarios()
    width = max(map(len, ready))
    for name, path in ready.items():
        click.echo(f"{name:{width}}  {load_scenario(path).description}")


@cli.command()
@click.argument("scenario")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="As in run.")
def check(scenario: str, changes: tuple[str, ...]) -> None:
    """Check a scenario without running it, and print its flows and faults."""
    loaded = load_scenario(find_scenario(scenario), changes=changes)
    _build(loaded)  # what can only be said of endpoints on their fabric
    click.echo(f"{loaded.name}: {loaded.fabric.name}, seed {loaded.seed}")
    for flow in loaded.flows:
        amount = "until the end" if flow.until_ns is not None else f"{flow.repeat} times"
        click.echo(
            f"  flow {flow.name}: {flow.source} -> {flow.destination}, "
            f"{size_text(flow.size_bytes)} {amount} on {flow.qps} QP"
        )
    for each in loaded.collectives:
        click.echo(
            f"  collective {each.name}: {each.collective} of {size_text(each.size_bytes)} among "
            f"{len(each.hosts)} hosts, {each.repeat} times on {each.qps} QP"
        )
    for fault in loaded.faults:
        end = "to the end" if fault.end_ns is None else f"until {time_text(fault.end_ns)}"
        click.echo(f"  fault {fault.name}: from {time_text(fault.at_ns)} {end}")


@cli.command()
def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))
