"""`mrc-controller`: plan, install, verify and look at the static tables of an MRC fabric.

Exit codes: 0 all is as it should be, 1 a switch failed or differs, 2 wrong usage or input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from commandline.program import FAILURE, USAGE, complain, run_command
from controller.cli_options import (
    addresses_option,
    election_option,
    format_option,
    switch_options,
    timeout_option,
    topology_argument,
    topology_option,
)
from controller.client import (
    DEFAULT_TIMEOUT_S,
    Pipeline,
    SwitchClient,
    SwitchError,
)
from controller.columns import entries, switches
from controller.compare import Difference, compare
from controller.contents_output import contents_json, contents_text, counters_json, counters_text
from controller.entries import Entity
from controller.fleet import Connection, for_each_switch
from controller.install import Installed
from controller.install import install as install_switch
from controller.install import verify as verify_switch
from controller.p4info import Schema, SchemaError
from controller.plan import SwitchPlan
from controller.plan_output import (
    fabric_json_lines,
    fabric_text,
    host_text,
    switch_json,
    switch_text,
)
from controller.program import (
    check_program,
    default_device_config,
    default_p4info,
    load_pipeline,
)
from controller.progress import progress
from controller.targets import Target, TargetsError, load_addresses, target_of, targets_of
from topologies.host_config import host_config, host_json
from topologies.loader import TopologyFileError, find_topology, load_topology
from topologies.model import Fabric, TopologyError

PROGRAM = "mrc-controller"

#: What is wrong with what the user gave, each with one line (or a line a problem) of text
_INPUT_ERRORS = (TopologyFileError, TopologyError, TargetsError, SchemaError)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Entry point; turns every error into its lines on stderr and an exit code."""
    errors = {**dict.fromkeys(_INPUT_ERRORS, USAGE), SwitchError: FAILURE}
    sys.exit(run_command(cli, PROGRAM, errors, args))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="mrc-reference", message="%(version)s")
def cli() -> None:
    """The static controller of an MRC fabric: topology in, tables out.

    TOPOLOGY is a file or the name of a ready topology (default: two-plane). Switches are named
    as p0-t1-3 (plane 0, T1 number 3), hosts as h5.
    """


# --- plan --------------------------------------------------------------------------------------


@cli.command()
@topology_argument
@click.option("--switch", "switch_name", metavar="NAME", help="The whole tables of one switch.")
@click.option("--host", "host_name", metavar="NAME", help="The configuration of one host.")
@format_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write switches/NAME.json and hosts/NAME.json into this directory.",
)
def plan(
    topology: str, switch_name: str | None, host_name: str | None, form: str, output: Path | None
) -> None:
    """What every switch must hold and every host must know.

    Without --switch or --host: how many entries each switch gets, or as JSON everything, one
    document a line.
    """
    if sum(option is not None for option in (switch_name, host_name, output)) > 1:
        raise click.UsageError("--switch, --host and --output exclude each other")
    fabric = load_topology(find_topology(topology))
    if switch_name is not None:
        switch_plan = SwitchPlan(fabric, fabric.switch(switch_name))
        _print([_dump(switch_json(switch_plan))] if form == "json" else switch_text(switch_plan))
    elif host_name is not None:
        config = host_config(fabric, fabric.host(host_name))
        _print([_dump(host_json(config))] if form == "json" else host_text(config))
    elif output is not None:
        _write_plan(fabric, output)
    elif form == "json":
        steps = 0 if sys.stdout.isatty() else fabric.switch_count + fabric.t0_per_plane
        with progress("planning", steps) as done:
            _print(fabric_json_lines(fabric, done))
    else:
        with progress("planning", fabric.switch_count) as done:
            lines = list(fabric_text(fabric, done))
        _print(lines)


def _dump(document: Any) -> str:
    return json.dumps(document, indent=2)


def _print(lines: Sequence[str] | Iterator[str]) -> None:
    write = sys.stdout.write
    for line in lines:
        write(line + "\n")
    sys.stdout.flush()


def _write_plan(fabric: Fabric, directory: Path) -> None:
    try:
        with progress("writing", fabric.switch_count + fabric.host_count) as done:
            for folder in ("switches", "hosts"):
                (directory / folder).mkdir(parents=True, exist_ok=True)
            for switch in fabric.switches():
                path = directory / "switches" / f"{switch.name}.json"
                path.write_text(_dump(switch_json(SwitchPlan(fabric, switch))) + "\n")
                done()
            for host in fabric.hosts():
                path = directory / "hosts" / f"{host.name}.json"
                path.write_text(_dump(host_json(host_config(fabric, host))) + "\n")
                done()
    except OSError as error:
        raise click.FileError(str(error.filename or directory), str(error.strerror)) from None
    click.echo(
        f"{directory}: {switches(fabric.switch_count)} and {fabric.host_count} hosts written"
    )


# --- install and verify ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """What install and verify work on."""

    fabric: Fabric
    pipeline: Pipeline
    targets: list[Target]

    def plan(self, target: Target) -> SwitchPlan:
        return SwitchPlan(self.fabric, self.fabric.switch(target.name))


def _job(
    topology: str, only: Sequence[str], addresses_file: Path | None, p4info: Path, program: Path
) -> _Job:
    fabric = load_topology(find_topology(topology))
    fabric.check_target()
    pipeline = load_pipeline(p4info, program)
    check_program(pipeline, p4info)
    chosen = [fabric.switch(name) for name in dict.fromkeys(only)] or list(fabric.switches())
    addresses = _addresses(addresses_file, fabric)
    try:
        targets = targets_of(fabric, chosen, addresses)
    except TargetsError as error:
        raise TargetsError(f"{addresses_file}: {error}") from None
    return _Job(fabric, pipeline, targets)


def _addresses(addresses_file: Path | None, fabric: Fabric) -> dict[str, Any] | None:
    return None if addresses_file is None else load_addresses(addresses_file, fabric)


@cli.command()
@topology_argument
@switch_options
@election_option
@click.option("-v", "--verbose", is_flag=True, help="A line for each switch.")
def install(
    topology: str,
    only: tuple[str, ...],
    addresses_file: Path | None,
    timeout_s: float,
    wait_s: float,
    jobs: int,
    p4info: Path,
    program: Path,
    election_id: int,
    verbose: bool,
) -> None:
    """Load the program and write all tables, read them back, compare, exit.

    Writes only what differs from the plan, so that a second run changes nothing. Switches are
    worked on in parallel; one that fails is named, and the rest are done.
    """
    job = _job(topology, only, addresses_file, p4info, program)

    def work(client: SwitchClient, target: Target) -> Installed:
        return install_switch(client, job.pipeline, job.plan(target))

    with progress("installing", len(job.targets)) as done:
        outcome = for_each_switch(
            job.targets,
            work,
            Connection(election_id, timeout_s, wait_s),
            jobs=jobs,
            progress=done,
        )
    if verbose:
        for name, result in outcome.done.items():
            loaded = "program loaded, " if result.pipeline_set else ""
            click.echo(
                f"{name}: {loaded}{result.written} written, {result.deleted} deleted, "
                f"{entries(result.entries)} verified"
            )
    results = outcome.done.values()
    click.echo(
        f"{len(results)} of {switches(len(job.targets))} installed: "
        f"program loaded on {sum(result.pipeline_set for result in results)}, "
        f"{sum(result.written for result in results)} written, "
        f"{sum(result.deleted for result in results)} deleted, "
        f"{entries(sum(result.entries for result in results))} verified"
    )
    _end(outcome.failed)


@cli.command()
@topology_argument
@switch_options
def verify(
    topology: str,
    only: tuple[str, ...],
    addresses_file: Path | None,
    timeout_s: float,
    wait_s: float,
    jobs: int,
    p4info: Path,
    program: Path,
) -> None:
    """Compare what every switch holds with its plan; exit 1 at any difference."""
    job = _job(topology, only, addresses_file, p4info, program)

    def work(client: SwitchClient, target: Target) -> Difference:
        return verify_switch(client, job.pipeline, job.plan(target))

    with progress("verifying", len(job.targets)) as done:
        outcome = for_each_switch(
            job.targets,
            work,
            Connection(timeout_s=timeout_s, wait_s=wait_s),
            jobs=jobs,
            progress=done,
        )
    schema = Schema(job.pipeline.p4info)
    differing = {name: difference for name, difference in outcome.done.items() if difference}
    for name, difference in differing.items():
        for line in difference.lines(schema):
            click.echo(f"{name}: {line}")
    alike = len(outcome.done) - len(differing)
    differences = sum(difference.count for difference in differing.values())
    click.echo(
        f"{switches(alike)} as planned, {len(differing)} differ in {entries(differences)}, "
        f"{len(outcome.failed)} not compared"
    )
    _end(outcome.failed, failed=bool(differing))


def _end(failures: dict[str, str], *, failed: bool = False) -> None:
    for failure in failures.values():
        complain(PROGRAM, failure)
    if failures or failed:
        raise click.exceptions.Exit(FAILURE)


# --- one switch --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Contents:
    entities: list[Entity]
    schema: Schema


def _target(topology: str, switch: str, addresses_file: Path | None) -> tuple[Fabric, Target]:
    fabric = load_topology(find_topology(topology))
    addresses = _addresses(addresses_file, fabric)
    return fabric, target_of(fabric, fabric.switch(switch), addresses)


@contextmanager
def _client(target: Target, timeout_s: float) -> Iterator[SwitchClient]:
    """A client of a switch; errors name the switch."""
    try:
        with Connection(timeout_s=timeout_s).open(target) as client:
            yield client
    except (SwitchError, SchemaError) as error:
        raise SwitchError(f"{target.name} ({target.address}) {error}") from None


def _contents(target: Target, timeout_s: float) -> _Contents:
    with _client(target, timeout_s) as client:
        schema = client.schema()
        return _Contents(list(client.read_entries(schema)), schema)


@cli.command()
@click.argument("switch")
@topology_option
@addresses_option
@timeout_option
@click.option("--tables", is_flag=True, help="Tables only.")
@click.option("--counters", is_flag=True, help="Counters only.")
@click.option("--table", "chosen", multiple=True, metavar="NAME", help="Only this table.")
@click.option("--all-ports", is_flag=True, help="Counters of all ports, zeros too.")
@format_option
def show(
    switch: str,
    topology: str,
    addresses_file: Path | None,
    timeout_s: float,
    tables: bool,
    counters: bool,
    chosen: tuple[str, ...],
    all_ports: bool,
    form: str,
) -> None:
    """Tables and counters of a switch, by name.

    A table may be given by its full name or its last part (next_sid). Counters that are zero are
    left out.
    """
    fabric, target = _target(topology, switch, addresses_file)
    with_counters = counters or not (tables or chosen)
    with_tables = tables or bool(chosen) or not counters
    with _client(target, timeout_s) as client:
        schema = client.schema()
        contents = list(client.read_entries(schema)) if with_tables else []
        cells = list(client.read_counters(schema)) if with_counters else []
    names = [item.name for item in (*schema.profiles, *schema.tables)]
    unknown = [name for name in chosen if not any(_names(name, full) for full in names)]
    if unknown:
        raise click.UsageError(
            f"{target.name} has no table {unknown[0]}; there are {', '.join(names)}"
        )

    def wanted(full: str) -> bool:
        return not chosen or any(_names(name, full) for name in chosen)

    ports = fabric.port_count(fabric.switch(switch).id)
    cells = [
        cell for cell in cells if cell.packets or cell.bytes or (all_ports and cell.index < ports)
    ]
    if form == "json":
        shown = [
            e
            for e in contents_json(contents, schema)
            if wanted(e.get("table") or e["action_profile"])
        ]
        document: dict[str, Any] = {"switch": target.name, "device_id": target.device_id}
        document |= {"entries": shown} if with_tables else {}
        document |= {"counters": counters_json(cells)} if with_counters else {}
        _print([_dump(document)])
        return
    _print([f"{target.name}: device {target.device_id} at {target.address}"])
    if with_tables:
        _print(contents_text(contents, schema, wanted))
    if with_counters:
        _print(["", *counters_text(cells)])


def _names(name: str, full: str) -> bool:
    return full == name or full.endswith(f".{name}")


@cli.command()
@click.argument("a")
@click.argument("b")
@topology_option
@addresses_option
@timeout_option
def diff(a: str, b: str, topology: str, addresses_file: Path | None, timeout_s: float) -> None:
    """What separates A from B; exit 1 where anything does.

    Each is a topology (a file or a ready one's name) or the name of a switch. Two topologies:
    what would change on the switches. A topology and a switch: the plan for that switch, and what
    it holds. Two switches: what they hold. The names of switches are those of --topology.
    """
    live_a, live_b = _is_switch(a), _is_switch(b)
    if not live_a and not live_b:
        differs = _diff_topologies(load_topology(find_topology(a)), load_topology(find_topology(b)))
    else:
        schema: Schema | None = None
        sides = []
        for name, other in ((a, b), (b, a)):
            if _is_switch(name):
                _, target = _target(topology, name, addresses_file)
                contents = _contents(target, timeout_s)
                schema = contents.schema
                sides.append(contents.entities)
            else:
                fabric = load_topology(find_topology(name))
                sides.append(list(SwitchPlan(fabric, fabric.switch(other)).entities()))
        assert schema is not None
        differs = _print_diff(f"{b if live_b else a}: ", compare(sides[1], sides[0]), schema)
    if differs:
        raise click.exceptions.Exit(FAILURE)


def _is_switch(name: str) -> bool:
    if Path(name).exists():
        return False
    try:
        return bool(Fabric("any", 8, 2048, 2048, 1).switch(name))
    except TopologyError:
        return False


def _print_diff(prefix: str, difference: Difference, schema: Schema) -> bool:
    for line in difference.changes(schema):
        click.echo(prefix + line)
    return bool(difference)


def _diff_topologies(a: Fabric, b: Fabric) -> bool:
    schema = Schema(load_pipeline(default_p4info(), default_device_config()).p4info)
    names_a = {switch.name: switch for switch in a.switches()}
    names_b = {switch.name: switch for switch in b.switches()}
    differs = False
    for name in dict.fromkeys([*names_a, *names_b]):
        if name not in names_b:
            click.echo(f"{name}: removed")
            differs = True
        elif name not in names_a:
            click.echo(f"{name}: added")
            differs = True
        else:
            difference = compare(
                SwitchPlan(b, names_b[name]).entities(), SwitchPlan(a, names_a[name]).entities()
            )
            differs |= _print_diff(f"{name}: ", difference, schema)
    return differs


@cli.command()
@click.argument("switch")
@topology_option
@addresses_option
@election_option
def shell(switch: str, topology: str, addresses_file: Path | None, election_id: int) -> None:
    """p4runtime-shell, connected to a switch."""
    _, target = _target(topology, switch, addresses_file)
    # The shell waits for ever for a switch that is not there
    with _client(target, DEFAULT_TIMEOUT_S) as client:
        client.schema()
    arguments = [
        sys.executable,
        "-m",
        "p4runtime_sh",
        "--grpc-addr",
        target.address,
        "--device-id",
        str(target.device_id),
        "--election-id",
        f"{election_id >> 64},{election_id & (1 << 64) - 1}",
    ]
    sys.stdout.flush()
    os.execv(sys.executable, arguments)


if __name__ == "__main__":
    main()
