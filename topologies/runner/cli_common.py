"""What several commands of `mrc-topology` share: options, the console, a run in its sandbox."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from topologies.loader import TopologyFileError, find_topology, load_topology
from topologies.model import Fabric, TopologyError
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunFolder, default_base, sweep
from topologies.runner.sandbox import Inside, Interrupted, run_isolated
from topologies.runner.targets import TARGETS, Target, find_target

DEFAULT_TOPOLOGY: Final = "two-plane"
_PIPE_WIDTH: Final = 110

topology_argument = click.argument("topology", default=DEFAULT_TOPOLOGY, envvar="MRC_TOPOLOGY")
target_option = click.option(
    "--target",
    "target_name",
    default=TARGETS[0],
    show_default=True,
    metavar="|".join(TARGETS),
    help="The switches: this repository's own, or BMv2's simple_switch_grpc.",
)


def reason(error: OSError) -> str:
    """What went wrong with which file."""
    return f"{error.filename or 'cannot write'}: {error.strerror or error}"


def drop_output() -> None:
    """What stdout still holds goes nowhere: the interpreter must not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_console(*, stderr: bool = False) -> Console:
    """Stdout or stderr, as wide as it can be shown."""
    console = Console(stderr=stderr)
    # In a pipe or a file nothing says how wide a line may be
    return console if console.is_terminal else Console(stderr=stderr, width=_PIPE_WIDTH)


def open_fabric(topology: str, target_name: str) -> tuple[Fabric, Target]:
    """A fabric that can be brought up, and its target. Raises RunnerError."""
    fabric = load_fabric(topology)
    try:
        fabric.check_target()
    except TopologyError as error:
        raise RunnerError(str(error)) from None
    return fabric, find_target(target_name)


def load_fabric(topology: str) -> Fabric:
    """The fabric of a file or a ready topology. Raises UsageError."""
    try:
        return load_topology(find_topology(topology))
    except TopologyFileError as error:
        raise UsageError("\n".join(error.problems)) from None


def not_modelled(fabric: Fabric, target: Target) -> Iterator[str]:
    """What of the topology does not happen here, one line each."""
    note = target.not_modelled()
    if note:
        yield note
    if fabric.pfc is not None:
        yield "queues.pfc: flow control is for virtual time (mrc-sim); here nobody is paused"
    if any(link.delay_ns for link in fabric.links()):
        yield "link delays are for virtual time; packets here take as long as this machine needs"


def run_in_sandbox(
    fabric: Fabric,
    target: Target,
    body: Callable[[Inside, RunFolder, Console], int],
    *,
    detachable: bool = False,
) -> int:
    """Do a run within namespaces of its own and return its exit code.

    Raises PrivilegeError where the kernel forbids namespaces.
    """

    def inside_sandbox(inside: Inside) -> int:
        def prepared(folder: RunFolder, console: Console) -> int:
            folder.state.pid = inside.outer_pid
            folder.state.rootless = inside.rootless
            folder.save()
            where = f"{target.name}{' (rootless)' if inside.rootless else ''}"
            print_heading(console, fabric, where, folder)
            for note in not_modelled(fabric, target):
                console.print(f"[yellow]note: {escape(note)}[/]\n", highlight=False, soft_wrap=True)
            return body(inside, folder, console)

        return in_run_folder(fabric.name, target.name, prepared)

    return run_isolated(inside_sandbox, detachable=detachable)


def print_heading(console: Console, fabric: Fabric, where: str, folder: RunFolder) -> None:
    """What runs where."""
    heading = f"[bold]{escape(fabric.name)}[/] on {where}, run {folder.state.run_id}\n"
    console.print(heading, highlight=False)


def in_run_folder(
    topology: str, target_name: str, body: Callable[[RunFolder, Console], int]
) -> int:
    """Do a run in a folder of its own, which stays, and return its exit code; errors are told."""
    base = default_base()
    console = make_console()
    errors = make_console(stderr=True)
    folder: RunFolder | None = None
    code = 1
    try:
        sweep(base)
        folder = RunFolder.create(base, topology, target_name)
        code = body(folder, console)
    except RunnerError as error:
        errors.print(f"[red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
        code = 2 if isinstance(error, UsageError) else 1
    except Interrupted as interrupted:
        errors.print(f"ended by {interrupted}; everything is cleaned up")
        code = interrupted.exit_code
    except KeyboardInterrupt:
        errors.print("ended by SIGINT")
        code = 128 + signal.SIGINT
    except OSError as error:
        errors.print(f"[red]{escape(reason(error))}[/]", highlight=False, soft_wrap=True)
        if error.filename is None:
            drop_output()
    except Exception:
        errors.print_exception()
    finally:
        if folder is not None:
            try:
                folder.close(code)
            except OSError as error:  # a full disk, say; `sweep` finds it as one of a killed run
                errors.print(f"[red]{folder.path}: {escape(reason(error))}[/]", soft_wrap=True)
    if code != 0 and folder is not None:
        errors.print(f"logs: {folder.logs}", highlight=False, soft_wrap=True)
    return code
