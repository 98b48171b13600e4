"""Commands that bring a fabric up, put it to work and take it down: `run` and `check`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click
from rich.console import Console
from rich.markup import escape

from topologies.loader import find_topology
from topologies.model import TopologyError
from topologies.runner.cli_common import (
    in_run_folder,
    not_modelled,
    open_fabric,
    print_heading,
    run_in_sandbox,
    target_option,
    topology_argument,
)
from topologies.runner.errors import PrivilegeError, RunnerError
from topologies.runner.run_store import RunFolder
from topologies.runner.sandbox import Inside, Interrupted
from topologies.runner.scenario.report_files import Wanted
from topologies.runner.targets import TARGETS, find_target
from topologies.scenario import Scenario
from topologies.scenario_loader import find_scenario, load_scenario

DEFAULT_SCENARIO: Final = "quickstart"
PACKETS_PER_PATH: Final = 4
#: In place of a target: the scenario in virtual time
VIRTUAL: Final = "sim"

_packets_option = click.option(
    "--packets",
    default=PACKETS_PER_PATH,
    show_default=True,
    type=click.IntRange(1, 1 << 16),
    help="Packets of the write on each path, when paths are checked.",
)
_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("topology", required=False, envvar="MRC_TOPOLOGY")
@click.option(
    "--scenario",
    "-s",
    "scenario_name",
    default=DEFAULT_SCENARIO,
    show_default=True,
    metavar="NAME|FILE",
    help="What happens: a ready scenario (see `mrc-topology list`), or a file.",
)
@click.option(
    "--target",
    "target_name",
    default=TARGETS[0],
    show_default=True,
    metavar="|".join((*TARGETS, VIRTUAL)),
    help="The switches: this repository's own, BMv2's simple_switch_grpc, or all in virtual time.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field of the scenario: --set traffic[0].transfer.size=64MiB.",
)
@click.option("--seed", type=click.IntRange(min=0), help="In place of the scenario's.")
@click.option("--json", "json_file", type=_file, help="A copy of the run's report.json.")
@click.option("--html", "html_file", type=_file, help="A copy of the run's report.html.")
@click.option("--pcap", is_flag=True, help="Capture every link, into the run's folder.")
@click.option(
    "--anyway", is_flag=True, help="Run on links that are far faster than these switches."
)
@_packets_option
def run(
    topology: str | None,
    scenario_name: str,
    target_name: str,
    changes: tuple[str, ...],
    seed: int | None,
    json_file: Path | None,
    html_file: Path | None,
    pcap: bool,
    anyway: bool,
    packets: int,
) -> None:
    """Bring a fabric up and run a scenario on it: real packets, real faults, every byte checked.

    The scenario names its topology; TOPOLOGY, a file or the name of a ready one, takes its place,
    with what the scenario changes in it.
    First every path is checked as `mrc-topology check` does. Exits with 1 when anything is not as
    it should be.
    """
    if topology is not None and target_name != VIRTUAL:
        open_fabric(topology, target_name)  # what is wrong with it is told first
    scenario = load_scenario(
        find_scenario(scenario_name),
        changes=changes,
        seed=seed,
        topology=None if topology is None else find_topology(topology),
    )
    wanted = Wanted(json_file, html_file)
    wanted.check()
    if target_name == VIRTUAL:
        sys.exit(_run_virtual(scenario, wanted, pcap))
    try:
        sys.exit(_run_real(scenario, target_name, wanted, packets, pcap, anyway))
    except PrivilegeError as error:
        click.echo(f"{error}\nSo this is the same scenario in virtual time.", err=True)
        sys.exit(_run_virtual(scenario, wanted, pcap))


def _run_real(
    scenario: Scenario, target_name: str, wanted: Wanted, packets: int, pcap: bool, anyway: bool
) -> int:
    # Imported when wanted: with it come gRPC and the host's protocol core
    from topologies.runner.scenario.feasibility import check_feasible
    from topologies.runner.scenario.plan import make_plan

    try:
        scenario.fabric.check_target()
    except TopologyError as error:
        raise RunnerError(str(error)) from None
    target = find_target(target_name)
    if not anyway:
        check_feasible(scenario, target)
    plan = make_plan(scenario, target)

    def body(inside: Inside, folder: RunFolder, console: Console) -> int:
        from topologies.runner.scenario.real_time import run_scenario

        for note in plan.notes:
            console.print(f"[yellow]note: {escape(note)}[/]\n", highlight=False, soft_wrap=True)
        plan.notes[:0] = not_modelled(scenario.fabric, target)
        return run_scenario(
            scenario, plan, target, folder, console, wanted, packets_per_path=packets, pcap=pcap
        )

    return run_in_sandbox(scenario.fabric, target, body)


def _run_virtual(scenario: Scenario, wanted: Wanted, pcap: bool) -> int:
    def body(folder: RunFolder, console: Console) -> int:
        from topologies.runner.scenario.virtual import run_scenario

        folder.state.pid, folder.state.phase = os.getpid(), "up"
        folder.save()
        # As in real time: `down` ends it, and its folder says that it has ended
        signal.signal(signal.SIGTERM, _interrupt)
        print_heading(console, scenario.fabric, "virtual time", folder)
        captures = folder.path / "captures" if pcap else None
        return run_scenario(scenario, folder, console, wanted, captures)

    return in_run_folder(scenario.fabric.name, VIRTUAL, body)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


@click.command()
@topology_argument
@target_option
@_packets_option
def check(topology: str, target_name: str, packets: int) -> None:
    """Bring a fabric up, check every path and its queues with real packets, take it down.

    TOPOLOGY is a file, or the name of one of the ready topologies (see `mrc-topology list`).
    Exits with 1 when anything is missing.
    """
    fabric, target = open_fabric(topology, target_name)

    def body(inside: Inside, folder: RunFolder, console: Console) -> int:
        from topologies.runner import report, session
        from topologies.runner.deployment import Deployment

        started = time.monotonic()
        report.print_fabric(console, fabric)
        narrator = report.ConsoleNarrator(console)
        with Deployment(fabric, target, folder) as deployment:
            control = session.bring_up(deployment, narrator)
            folder.mark_up()
            result = session.check(deployment, control, narrator, packets)
            failures = deployment.failures()
            with narrator.step("clean-up", 1) as step:
                deployment.close()
                step.result("switches stopped, namespaces gone")
        (folder.path / "check.json").write_text(report.result_json(result) + "\n")
        report.print_result(console, fabric, result)
        for failure in failures:
            console.print(f"\n[red]{escape(failure)}[/]", highlight=False, soft_wrap=True)
        passed = report.print_verdict(console, result, time.monotonic() - started)
        return 0 if passed else 1

    sys.exit(run_in_sandbox(fabric, target, body))
