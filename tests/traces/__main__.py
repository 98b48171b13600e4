"""Look at traces, run them, and turn them into captures and back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from p4src import PROGRAM_NAMES
from tests.conftest import find_bmv2
from tests.traces import captures
from tests.traces.coverage import report, seen_by_traces, unreachable_items
from tests.traces.format import CASES, Trace, TraceError, read
from tests.traces.observation import Target, differences, dump
from tests.traces.targets.in_process import ReferenceTarget, SoftswitchInProcess
from tests.traces.targets.process import ProcessTarget, bmv2_command, softswitch_command

TARGETS: dict[str, Callable[[], Target]] = {
    "softswitch": SoftswitchInProcess,
    "softswitch-veth": lambda: ProcessTarget(softswitch_command),
    "bmv2": lambda: ProcessTarget(bmv2_command),
    "reference": ReferenceTarget,
}


def _read(name: str) -> Trace:
    """A trace by path, or by its bare name among the cases; ends the program if there is none."""
    path = Path(name)
    if not path.exists() and (CASES / f"{name}.trace").exists():
        path = CASES / f"{name}.trace"
    try:
        return read(path)
    except TraceError as error:
        raise click.UsageError(str(error)) from error


@click.group(help=__doc__)
def main() -> None:
    """Entry point."""


@main.command("list")
def list_traces() -> None:
    """Name all traces, with the first line of what they say about themselves."""
    for path in sorted(CASES.glob("*.trace")):
        trace = _read(str(path))
        where = " (in process)" if trace.only_in_process else ""
        first_line = (trace.about.splitlines() or [""])[0]
        click.echo(f"{trace.name:16} {len(trace.steps):3} packets  {first_line}{where}")


@main.command()
@click.argument("trace")
def show(trace: str) -> None:
    """Print a trace with all frames in hexadecimal."""
    read_trace = _read(trace)
    click.echo(read_trace.about)
    for step in read_trace.steps:
        click.echo(f"\nline {step.line}: into port {step.port} at {step.at_ns} ns")
        click.echo(dump(step.frame))
        for out in step.outs:
            click.echo(f" line {out.line}: out of port {out.port}")
            click.echo(dump(out.frame))
        click.echo(f" counts {', '.join(f'{name}[{index}]' for name, index in step.counts)}")


@main.command()
@click.argument("trace")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def pcap(trace: str, file: Path) -> None:
    """Write a trace as a pcapng FILE, with an interface a port; packets carry comments."""
    read_trace = _read(trace)
    try:
        captures.write_pcapng(file, read_trace.ports, captures.frames_of(read_trace))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error


@main.command("from-pcap")
@click.argument("files", nargs=-1, required=True)
def from_pcap(files: tuple[str, ...]) -> None:
    """Print captures as the start of a trace file.

    FILES are pcapng files, or classic pcap files as PORT:in=FILE and PORT:out=FILE.
    """
    frames: list[captures.Captured] = []
    for text in files:
        prefix, equals, name = text.partition("=")
        port, _, direction = prefix.partition(":")
        try:
            if not equals:
                frames += captures.read_pcapng(Path(text))
            elif port.isdecimal() and direction in ("in", "out"):
                frames += captures.read_pcap(Path(name), int(port), direction == "in")
            else:
                raise click.UsageError(f"{text}: must be FILE, PORT:in=FILE or PORT:out=FILE")
        except captures.CaptureError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            raise click.ClickException(f"{name or text}: {error.strerror}") from error
    click.echo(captures.as_trace(frames))


@main.command()
@click.argument("traces", nargs=-1)
@click.option("--target", type=click.Choice(list(TARGETS)), default="softswitch", show_default=True)
def run(traces: tuple[str, ...], target: str) -> None:
    """Run TRACES (default: all that the target can run) and print what differs."""
    if target == "bmv2" and find_bmv2() is None:
        raise click.ClickException("target bmv2 needs simple_switch_grpc on the PATH or in $BMV2")
    names = traces or tuple(str(path) for path in sorted(CASES.glob("*.trace")))
    make_target = TARGETS[target]
    failed = False
    for name in names:
        trace = _read(name)
        switch = make_target()
        if trace.only_in_process and isinstance(switch, ProcessTarget):
            click.echo(f"{trace.name}: only in process, skipped")
            continue
        found = list(differences(trace, switch.run(trace)))
        failed = failed or bool(found)
        click.echo(f"{trace.name}: {'differs' if found else f'{len(trace.steps)} packets, ok'}")
        for line in found:
            click.echo(line)
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("program", type=click.Choice(PROGRAM_NAMES), default="fabric")
def coverage(program: str) -> None:
    """Print what the traces exercise of PROGRAM."""
    text, missed = report(program, seen_by_traces(program), unreachable_items(program))
    click.echo(text)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main(prog_name="python -m tests.traces")
