"""`mrc-topology`: bring a fabric up on this machine, check it, look into it, take it down."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topologies.loader import (
    TopologyFileError,
    find_topology,
    load_topology,
    ready_topologies,
)
from topologies.model import Fabric, TopologyError
from topologies.runner.cli_live import link, pcap, switch
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.options import run_option
from topologies.runner.run_store import (
    RunFolder,
    default_base,
    find_runs,
    select_run,
    sweep,
)
from topologies.runner.sandbox import Inside, Interrupted, run_isolated
from topologies.runner.targets import TARGETS, Target, find_target

PROGRAM: Final = "mrc-topology"
PACKETS_PER_PATH: Final = 4
#: Switch names and addresses, as mrc-controller --switches takes them
SWITCHES_FILE: Final = "switches.json"
DEFAULT_TOPOLOGY: Final = "two-plane"

_STOP_TIMEOUT_S: Final = 20.0
_PIPE_WIDTH: Final = 110


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + n ended by signal n."""
    if sys.stdout is None:  # closed by whoever started this
        click.echo(f"{PROGRAM}: stdout is closed", err=True)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal knows every character
    try:
        cli(standalone_mode=False, prog_name=PROGRAM)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except UsageError as error:
        _complain(error)
        sys.exit(2)
    except RunnerError as error:
        _complain(error)
        sys.exit(1)
    except OSError as error:
        click.echo(f"{PROGRAM}: {_reason(error)}", err=True)
        _drop_output()
        sys.exit(1)
    sys.exit(0)


def _reason(error: OSError) -> str:
    return f"{error.filename or 'cannot write'}: {error.strerror or error}"


def _drop_output() -> None:
    """What stdout still holds goes nowhere: the interpreter must not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: RunnerError) -> None:
    click.echo(f"{PROGRAM}: {error}", err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run an MRC fabric on this machine: real switches, real packets, network namespaces.

    Needs root, or a kernel that lets users make user namespaces. Nothing that a run makes in the
    kernel outlives it, however it ends.
    """


_topology_argument = click.argument("topology", default=DEFAULT_TOPOLOGY, envvar="MRC_TOPOLOGY")
_target_option = click.option(
    "--target",
    "target_name",
    default=TARGETS[0],
    show_default=True,
    metavar="|".join(TARGETS),
    help="The switches: this repository's own, or BMv2's simple_switch_grpc.",
)


@cli.command()
@_topology_argument
@_target_option
@click.option(
    "--packets",
    default=PACKETS_PER_PATH,
    show_default=True,
    type=click.IntRange(1, 1 << 16),
    help="Packets of the write on each path.",
)
def run(topology: str, target_name: str, packets: int) -> None:
    """Bring a fabric up, check every path and its queues with real packets, take it down.

    TOPOLOGY is a file, or the name of one of the ready topologies (see `mrc-topology list`).
    Exits with 1 when anything is missing.
    """
    fabric, target = _open(topology, target_name)

    def body(inside: Inside, folder: RunFolder, console: Console) -> int:
        from topologies.runner import report, session
        from topologies.runner.deployment import Deployment

        started = time.monotonic()
        report.print_fabric(console, fabric)
        narrator = report.ConsoleNarrator(console)
        with Deployment(fabric, target, folder) as deployment:
            control = session.bring_up(deployment, narrator)
            _mark_up(folder)
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

    sys.exit(_run_in_sandbox(fabric, target, body))


@cli.command()
@_topology_argument
@_target_option
@click.option("-d", "--detach", is_flag=True, help="Return once it is up; end it with `down`.")
@click.option("--hosts", "with_hosts", is_flag=True, help="With an agent (mrc-host) on each host.")
def up(topology: str, target_name: str, detach: bool, with_hosts: bool) -> None:
    """Bring a fabric up, tables installed, and keep it until Ctrl-C or `mrc-topology down`."""
    fabric, target = _open(topology, target_name)

    def body(inside: Inside, folder: RunFolder, console: Console) -> int:
        from topologies.runner import report, session
        from topologies.runner.deployment import Deployment
        from topologies.runner.live import LiveFabric

        report.print_fabric(console, fabric)
        with Deployment(fabric, target, folder) as deployment:
            narrator = report.ConsoleNarrator(console)
            session.bring_up(deployment, narrator)
            if with_hosts:
                session.start_agents(deployment, narrator)
            with LiveFabric(deployment) as live:
                _mark_up(folder)
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

    sys.exit(_run_in_sandbox(fabric, target, body, detachable=detach))


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
        table.add_column(heading, overflow="fold")
    for each in runs:
        state = each.state
        phase = state.phase if each.alive else "killed; `mrc-topology down` cleans up"
        hosts = sum(name.startswith("h") for name in state.namespaces)
        nodes = f"{hosts} hosts, {len(state.namespaces) - hosts} switches"
        table.add_row(
            state.run_id, state.topology, state.target, phase, str(state.pid), nodes, str(each.path)
        )
    _console().print(table)


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
    """List the ready topologies and the targets."""
    table = Table(header_style="bold", title="Topologies", title_justify="left")
    for heading in ("name", "planes", "T0 per plane", "T1 per plane", "hosts", "switches"):
        table.add_column(heading, justify="left" if heading == "name" else "right")
    for path in ready_topologies().values():
        fabric = _load(str(path))
        numbers = (
            fabric.planes,
            fabric.t0_per_plane,
            fabric.t1_per_plane,
            fabric.host_count,
            fabric.switch_count,
        )
        table.add_row(path.stem, *map(str, numbers))
    console = _console()
    console.print(table)
    for name in TARGETS:
        try:
            find_target(name)
            console.print(f"target {name}: ready", highlight=False)
        except RunnerError as error:
            why = str(error).removeprefix(f"target {name} ")
            console.print(f"target {name}: {escape(why)}", highlight=False, soft_wrap=True)


cli.add_command(link)
cli.add_command(switch)
cli.add_command(pcap)


# --- helpers -----------------------------------------------------------------------------------


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr)
    # In a pipe or a file nothing says how wide a line may be
    return console if console.is_terminal else Console(stderr=stderr, width=_PIPE_WIDTH)


def _open(topology: str, target_name: str) -> tuple[Fabric, Target]:
    fabric = _load(topology)
    try:
        fabric.check_target()
    except TopologyError as error:
        raise RunnerError(str(error)) from None
    return fabric, find_target(target_name)


def _load(topology: str) -> Fabric:
    try:
        return load_topology(find_topology(topology))
    except TopologyFileError as error:
        raise UsageError("\n".join(error.problems)) from None


def _host_hints(fabric: Fabric, folder: RunFolder) -> str:
    from topologies.runner.agents import directory

    last = fabric.host_count - 1
    return (
        f"  find the agents:      export MRC_HOST_DIR={directory(folder)}\n"
        f"  bandwidth:            mrc-host write-bw --agent h0 h{last}\n"
        "  state of all paths:   mrc-host evs --agent h0 --watch\n"
    )


def _not_modelled(fabric: Fabric, target: Target) -> Iterator[str]:
    """What of the topology does not happen here, one line each."""
    note = target.not_modelled()
    if note:
        yield note
    if any(link.delay_ns for link in fabric.links()):
        yield "link delays are for virtual time; packets here take as long as this machine needs"


def _mark_up(folder: RunFolder) -> None:
    addresses = json.dumps(folder.state.grpc, indent=2) + "\n"
    (folder.path / SWITCHES_FILE).write_text(addresses)
    folder.state.phase = "up"
    folder.save()


def _run_in_sandbox(
    fabric: Fabric,
    target: Target,
    body: Callable[[Inside, RunFolder, Console], int],
    *,
    detachable: bool = False,
) -> int:
    def inside_sandbox(inside: Inside) -> int:
        base = default_base()
        console = _console()
        errors = _console(stderr=True)
        folder: RunFolder | None = None
        code = 1
        try:
            sweep(base)
            folder = RunFolder.create(base, fabric.name, target.name)
            folder.state.pid = inside.outer_pid
            folder.state.rootless = inside.rootless
            folder.save()
            console.print(
                f"[bold]{escape(fabric.name)}[/] on {target.name}"
                f"{' (rootless)' if inside.rootless else ''}, run {folder.state.run_id}\n",
                highlight=False,
            )
            for note in _not_modelled(fabric, target):
                console.print(f"[yellow]note: {escape(note)}[/]\n", highlight=False, soft_wrap=True)
            code = body(inside, folder, console)
        except RunnerError as error:
            errors.print(f"[red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
        except Interrupted as interrupted:
            errors.print(f"ended by {interrupted}; everything is cleaned up")
            code = interrupted.exit_code
        except OSError as error:
            errors.print(f"[red]{escape(_reason(error))}[/]", highlight=False, soft_wrap=True)
            if error.filename is None:
                _drop_output()
        except Exception:
            errors.print_exception()
        finally:
            if folder is not None:
                try:
                    folder.close(code)
                except (
                    OSError
                ) as error:  # a full disk, say; `sweep` finds it as one of a killed run
                    errors.print(f"[red]{folder.path}: {escape(_reason(error))}[/]", soft_wrap=True)
        if code != 0 and folder is not None:
            errors.print(f"logs: {folder.logs}", highlight=False, soft_wrap=True)
        return code

    return run_isolated(inside_sandbox, detachable=detachable)
