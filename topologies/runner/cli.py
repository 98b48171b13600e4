"""`mrc-topology`: bring a fabric up on this machine, check it, look into it, take it down."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commandline.program import FAILURE, USAGE, run_command
from topologies.addressing import is_host_name
from topologies.documents import DocumentError
from topologies.loader import ready_topologies
from topologies.model import Fabric, TopologyError
from topologies.runner.cli_common import (
    load_fabric,
    make_console,
    open_fabric,
    run_in_sandbox,
    target_option,
    topology_argument,
)
from topologies.runner.cli_compare import compare
from topologies.runner.cli_live import link, pcap, switch
from topologies.runner.cli_run import check, run
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.options import run_option
from topologies.runner.run_store import (
    SWITCHES_FILE,
    RunFolder,
    default_base,
    find_runs,
    select_run,
)
from topologies.runner.sandbox import Inside, Interrupted
from topologies.runner.targets import TARGETS, find_target
from topologies.scenario_loader import load_scenario, ready_scenarios

PROGRAM: Final = "mrc-topology"
_STOP_TIMEOUT_S: Final = 20.0


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + n ended by signal n."""
    errors = {
        UsageError: USAGE,
        DocumentError: USAGE,
        RunnerError: FAILURE,
    }
    sys.exit(run_command(cli, PROGRAM, errors))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run an MRC fabric on this machine: real switches, real packets, network namespaces.

    Needs root, or a kernel that lets users make user namespaces. Nothing that a run makes in the
    kernel outlives it, however it ends.
    """


@cli.command()
@topology_argument
@target_option
@click.option("-d", "--detach", is_flag=True, help="Return once it is up; end it with `down`.")
@click.option("--hosts", "with_hosts", is_flag=True, help="With an agent (mrc-host) on each host.")
@click.option(
    "--impair",
    multiple=True,
    metavar="NODE:NODE",
    help="A link that can lose and damage frames later on (`link … loss P`); repeatable.",
)
def up(
    topology: str, target_name: str, detach: bool, with_hosts: bool, impair: tuple[str, ...]
) -> None:
    """Bring a fabric up, tables installed, and keep it until Ctrl-C or `mrc-topology down`."""
    fabric, target = open_fabric(topology, target_name)
    impaired_links = {_link_name(fabric, text) for text in impair}

    def body(inside: Inside, folder: RunFolder, console: Console) -> int:
        from topologies.runner import report, session
        from topologies.runner.deployment import Deployment
        from topologies.runner.live import LiveFabric

        report.print_fabric(console, fabric)
        with Deployment(fabric, target, folder, impaired_links=impaired_links) as deployment:
            narrator = report.ConsoleNarrator(console)
            session.bring_up(deployment, narrator)
            if with_hosts:
                session.start_agents(deployment, narrator)
            with LiveFabric(deployment) as live:
                folder.mark_up()
                # As root of a user namespace tcpdump cannot give up its privileges
                look = "tshark -ni port0" if inside.rootless else "tcpdump -eni port0"
                show = f"mrc-controller show p0-t0-0 --topology {topology}"
                console.print(
                    f"\nup: {folder.state.run_id}\n"
                    "  a shell on a host:    mrc-topology exec h0 -- bash\n"
                    f"  what a port sees:     mrc-topology exec p0-t0-0 -- {look}\n"
                    f"  tables and counters:  {show} --switches {folder.path / SWITCHES_FILE}\n"
                    f"  a link that fails:    mrc-topology link p0-t0-0 p0-t1-0 down\n"
                    f"{_host_hints(fabric, folder) if with_hosts else ''}"
                    f"  end it:               {'mrc-topology down' if detach else 'Ctrl-C'}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
                if detach:
                    inside.detach(folder.logs / "runner.log")
                try:
                    live.serve(
                        lambda failure: console.print(
                            f"[red]{escape(failure)}[/]", highlight=False, soft_wrap=True
                        )
                    )
                except Interrupted:
                    return 0  # that is how it ends

    sys.exit(run_in_sandbox(fabric, target, body, detachable=detach))


@cli.command()
@run_option
@click.option("--all", "every", is_flag=True, help="End all runs of this user.")
def down(run_id: str | None, every: bool) -> None:
    """End what is up, and clean what a killed run left behind."""
    base = default_base()
    runs = list(find_runs(base))
    left = [each for each in runs if each.left_behind]
    for each in left:
        each.clean()
        click.echo(f"cleaned up after {each.state.run_id}, which was killed")
    if every:
        living = [each for each in runs if each.alive]
    elif run_id is not None or not left or any(each.alive for each in runs):
        living = [select_run(base, run_id)]
    else:
        return
    for each in living:
        each.end(_STOP_TIMEOUT_S)
        click.echo(f"ended {each.state.run_id}")


@cli.command()
def status() -> None:
    """Show the runs that are alive, and what killed ones left behind."""
    runs = [each for each in find_runs(default_base()) if each.alive or each.left_behind]
    if not runs:
        click.echo("nothing is running")
        return
    table = Table(header_style="bold")
    for heading in ("run", "topology", "target", "state", "process", "nodes", "folder"):
        # The id is there to be copied
        table.add_column(heading, overflow="fold", no_wrap=heading in ("run", "nodes"))
    for each in runs:
        state = each.state
        phase = state.phase if each.alive else "killed; `mrc-topology down` cleans up"
        names = [name for name in state.namespaces if "--" not in name]  # else: impairment boxes
        hosts = sum(map(is_host_name, names))
        nodes = f"{hosts} hosts, {len(names) - hosts} switches"
        table.add_row(
            state.run_id, state.topology, state.target, phase, str(state.pid), nodes, str(each.path)
        )
    make_console().print(table)


@cli.command("exec", context_settings={"ignore_unknown_options": True})
@run_option
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(run_id: str | None, node: str, command: tuple[str, ...]) -> None:
    """Run a command on a host or switch of a fabric that is up: exec h0 -- tcpdump -i plane0."""
    from topologies.runner.enter import execute_on

    sys.exit(execute_on(select_run(default_base(), run_id), node, command))


@cli.command("list")
def list_topologies() -> None:
    """List the ready topologies, the ready scenarios, and the targets."""
    table = Table(header_style="bold", title="Topologies", title_justify="left")
    for heading in ("name", "planes", "T0 per plane", "T1 per plane", "hosts", "switches"):
        table.add_column(heading, justify="left" if heading == "name" else "right")
    for path in ready_topologies().values():
        fabric = load_fabric(str(path))
        numbers = (
            fabric.planes,
            fabric.t0_per_plane,
            fabric.t1_per_plane,
            fabric.host_count,
            fabric.switch_count,
        )
        table.add_row(path.stem, *map(str, numbers))
    console = make_console()
    console.print(table)
    scenarios = Table(header_style="bold", title="Scenarios", title_justify="left")
    for heading in ("name", "topology", "what happens"):
        scenarios.add_column(heading, overflow="fold")
    for path in ready_scenarios().values():
        scenario = load_scenario(path)
        scenarios.add_row(path.stem, scenario.fabric.name, scenario.description)
    console.print(scenarios)
    for name in TARGETS:
        try:
            find_target(name)
            console.print(f"target {name}: ready", highlight=False)
        except RunnerError as error:
            why = str(error).removeprefix(f"target {name} ")
            console.print(f"target {name}: {escape(why)}", highlight=False, soft_wrap=True)


cli.add_command(run)
cli.add_command(check)
cli.add_command(link)
cli.add_command(switch)
cli.add_command(pcap)
cli.add_command(compare)


# --- helpers -----------------------------------------------------------------------------------


def _link_name(fabric: Fabric, text: str) -> str:
    node, colon, other = text.partition(":")
    if not colon:
        raise UsageError(f"--impair {text}: must be two nodes, as in p0-t0-0:p0-t1-0")
    try:
        return fabric.link(node, other).name
    except TopologyError as error:
        raise UsageError(f"--impair {text}: {error}") from None


def _host_hints(fabric: Fabric, folder: RunFolder) -> str:
    from topologies.runner.agents import directory

    last = fabric.host_count - 1
    return (
        f"  find the agents:      export MRC_HOST_DIR={directory(folder)}\n"
        f"  bandwidth:            mrc-host write-bw --agent h0 h{last}\n"
        "  state of all paths:   mrc-host evs --agent h0 --watch\n"
    )
