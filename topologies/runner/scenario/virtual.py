"""The same scenario in virtual time, with the same output and the same files."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from host.endpoint_settings import SettingsError
from reports.progress import RunProgress
from reports.terminal import print_result
from reports.verdict import failures
from sim.loop import StandstillError
from sim.record import make_record
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
        with RunProgress(console, scenario.name).shown() as progress:
            simulation = Simulation(scenario, pcap=pcap, along_time=True, progress=progress)
            result = simulation.run()
    except SettingsError as error:
        raise UsageError(scenario.endpoint.located(str(error))) from None
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
