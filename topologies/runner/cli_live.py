"""Commands on a fabric that is up: `link`, `switch`, `pcap`."""

from __future__ import annotations

from pathlib import Path

import click

from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.options import run_option
from topologies.runner.run_store import default_base, select_run

_LINK_ACTIONS = ("up", "down", "rate", "loss", "corruption")
_WITH_VALUE = {"rate": "10Mbps", "loss": "1%", "corruption": "0.001"}
_DIRECTIONS = ("up", "down", "both")
_SWITCH_ACTIONS = ("kill", "restart", "blackhole", "forward")


@click.command()
@run_option
@click.argument("node")
@click.argument("other")
@click.argument("action", metavar="|".join(_LINK_ACTIONS))
@click.argument("value", required=False, metavar="[VALUE]")
@click.option(
    "--direction",
    type=click.Choice(_DIRECTIONS),
    help="Of loss and corruption; up: away from the hosts. Default: both.",
)
def link(
    run_id: str | None,
    node: str,
    other: str,
    action: str,
    value: str | None,
    direction: str | None,
) -> None:
    """Take a link down or up, or change what it is like: link p0-t0-0 p0-t1-0 rate 10Mbps.

    rate: at which switches send, at one or both ends; hosts are not limited. loss, corruption: of
    each frame, with a probability (1% or 0.01; 0 ends it), on links that `up --impair` names.
    """
    from topologies.runner.control import ask

    if action not in _LINK_ACTIONS:
        raise UsageError(f"link: {action!r} must be {_or(_LINK_ACTIONS)}")
    example = _WITH_VALUE.get(action)
    if (example is None) != (value is None):
        wrong = f"needs a value, as in: {action} {example}" if example else "takes no value"
        raise UsageError(f"link: {action} {wrong}")
    if direction is not None and action not in ("loss", "corruption"):
        raise UsageError(f"link: {action} has no direction")
    request = {"command": "link", "nodes": [node, other], "action": action}
    if value is not None:
        request["value"] = value
    if direction is not None:
        request["direction"] = direction
    for line in ask(select_run(default_base(), run_id), request):
        click.echo(line)


@click.command()
@run_option
@click.argument("node")
@click.argument("action", metavar="kill|restart|blackhole|forward")
def switch(run_id: str | None, node: str, action: str) -> None:
    """Let a switch fail: switch p0-t1-0 kill.

    kill: its process ends at once and its links go down. blackhole: it forwards nothing and its
    links stay up; forward ends that. restart: a new process, tables written, links up.
    """
    from topologies.runner.control import ask

    if action not in _SWITCH_ACTIONS:
        raise UsageError(f"switch: {action!r} must be {_or(_SWITCH_ACTIONS)}")
    request = {"command": "switch", "node": node, "action": action}
    for line in ask(select_run(default_base(), run_id), request):
        click.echo(line)


@click.command()
@run_option
@click.argument("node")
@click.argument("port", required=False)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The pcap file (nanoseconds).",
)
@click.option("-c", "--count", type=click.IntRange(1), help="End after so many packets.")
def pcap(run_id: str | None, node: str, port: str | None, output: Path, count: int | None) -> None:
    """Capture what crosses a port of a host or switch until Ctrl-C: pcap h0 plane0 -o h0.pcap.

    Without PORT, all ports of the node go into the one file. PORT may be just its number.
    """
    from topologies.runner.capture import Capture

    capture = Capture(select_run(default_base(), run_id), node, port, output)
    where = f"{node} {', '.join(capture.interfaces)}"
    click.echo(f"capturing {where} into {output}; Ctrl-C ends it", err=True)
    capture.work(count)
    missed = capture.close()
    click.echo(f"{capture.packets} packets in {output}", err=True)
    if missed:
        raise RunnerError(f"{missed} packets are missing in {output}")


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
