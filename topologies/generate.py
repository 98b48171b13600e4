"""Topology files from numbers: `python -m topologies.generate --planes 8 …`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from topologies.loader import TopologyFileError, parse_topology
from topologies.model import Fabric
from topologies.units import delay_text, size_text

#: A full packet of 4,096 payload bytes as a frame: what queue limits are counted in
_FULL_FRAME_BYTES = 4242
_QUEUE_FRAMES = 100
_ECN_MIN_FRAMES = 25
_ECN_MAX_FRAMES = 75
_CONTROL_LIMIT = "256KiB"


def topology_yaml(
    *,
    name: str,
    planes: int,
    t0_per_plane: int,
    t1_per_plane: int,
    hosts_per_t0: int,
    rate: str | None = None,
    delay_ns: int = 0,
    queue_frames: int = _QUEUE_FRAMES,
) -> str:
    """The text of a topology file; `rate` with its unit, None = unlimited.

    Queues hold `queue_frames` full packets and mark from a quarter to three quarters of that.
    Raises TopologyFileError where the numbers make no fabric.
    """
    limit = size_text(queue_frames * _FULL_FRAME_BYTES)
    ecn_min = size_text(queue_frames * _ECN_MIN_FRAMES // _QUEUE_FRAMES * _FULL_FRAME_BYTES)
    ecn_max = size_text(queue_frames * _ECN_MAX_FRAMES // _QUEUE_FRAMES * _FULL_FRAME_BYTES)
    link = f"{{rate: {rate or 'null'}, delay: {delay_text(delay_ns)}}}"
    text = f"""\
name: {name}
planes: {planes}
t0_per_plane: {t0_per_plane}
t1_per_plane: {t1_per_plane}
hosts_per_t0: {hosts_per_t0}

links:
  host: {link}
  fabric: {link}

# Limits in full packets of {_FULL_FRAME_BYTES:,} bytes: {queue_frames}
queues:
  host: {{data_limit: {limit}, control_limit: {_CONTROL_LIMIT}}}
  fabric:
    data_limit: {limit}
    control_limit: {_CONTROL_LIMIT}
    ecn: {{min: {ecn_min}, max: {ecn_max}, probability: 1.0}}
"""
    parse_topology(text, name)
    return text


def generate(
    planes: int, t0_per_plane: int, t1_per_plane: int, hosts_per_t0: int, *, name: str = "generated"
) -> Fabric:
    """A fabric of so many parts with default settings. Raises TopologyFileError as above."""
    text = topology_yaml(
        name=name,
        planes=planes,
        t0_per_plane=t0_per_plane,
        t1_per_plane=t1_per_plane,
        hosts_per_t0=hosts_per_t0,
    )
    return parse_topology(text, name)


@click.command(context_settings={"show_default": True})
@click.option("--name", default="generated", help="Name of the fabric.")
@click.option("--planes", type=int, required=True, help="Planes.")
@click.option("--t0", type=int, required=True, help="T0 switches per plane.")
@click.option("--t1", type=int, required=True, help="T1 switches per plane.")
@click.option("--hosts", type=int, required=True, help="Hosts per T0.")
@click.option("--rate", help="Link rate, as 100Gbps; default: unlimited.")
@click.option("--delay-ns", type=click.IntRange(min=0), default=0, help="Link delay, one way.")
@click.option(
    "--queue-frames",
    type=click.IntRange(min=4),
    default=_QUEUE_FRAMES,
    help="Full packets that a queue holds.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: stdout."
)
def command(
    name: str,
    planes: int,
    t0: int,
    t1: int,
    hosts: int,
    rate: str | None,
    delay_ns: int,
    queue_frames: int,
    output: Path | None,
) -> None:
    """Write a topology file of so many planes, switches and hosts."""
    text = topology_yaml(
        name=name,
        planes=planes,
        t0_per_plane=t0,
        t1_per_plane=t1,
        hosts_per_t0=hosts,
        rate=rate,
        delay_ns=delay_ns,
        queue_frames=queue_frames,
    )
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(output), str(error.strerror)) from None


def main(args: Sequence[str] | None = None) -> None:
    """Entry point; errors are lines on stderr, exit code 2."""
    try:
        command.main(args, prog_name="topologies.generate", standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"topologies.generate: {error.format_message()}", err=True)
        sys.exit(2)
    except TopologyFileError as error:
        for problem in error.problems:
            click.echo(f"topologies.generate: {problem}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
