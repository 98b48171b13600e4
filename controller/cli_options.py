"""Arguments and options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from controller.client import DEFAULT_ELECTION_ID, DEFAULT_TIMEOUT_S
from controller.fleet import DEFAULT_JOBS
from controller.program import default_device_config, default_p4info

DEFAULT_TOPOLOGY = "two-plane"

Command = Callable[..., Any]


def _stacked(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_FILE = click.Path(dir_okay=False, path_type=Path)


class _Seconds(click.FloatRange):
    """A time to wait. Not nan and not endless."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


topology_argument = click.argument("topology", default=DEFAULT_TOPOLOGY, envvar="MRC_TOPOLOGY")
topology_option = click.option(
    "--topology",
    default=DEFAULT_TOPOLOGY,
    envvar="MRC_TOPOLOGY",
    show_default=True,
    help="Topology that the switch is of: a file, or the name of a ready one.",
)
addresses_option = click.option(
    "--switches",
    "addresses_file",
    type=_FILE,
    envvar="MRC_SWITCHES",
    help="YAML or JSON file of switch names and addresses (host:port or unix:/path); "
    "default: as the topology says.",
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=_Seconds(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="Seconds that one request may take.",
)
election_option = click.option(
    "--election-id",
    type=click.IntRange(1, 2**128 - 1),
    default=DEFAULT_ELECTION_ID,
    show_default=True,
    help="Election id to become primary with; the highest one wins.",
)
format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
switch_options = _stacked(
    click.option(
        "--switch",
        "only",
        multiple=True,
        metavar="NAME",
        help="Only this switch; may be repeated.",
    ),
    addresses_option,
    timeout_option,
    click.option(
        "--wait",
        "wait_s",
        type=_Seconds(min=0),
        default=0.0,
        show_default=True,
        help="Seconds to wait for switches that do not answer yet.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=DEFAULT_JOBS,
        show_default=True,
        help="Switches at a time.",
    ),
    click.option(
        "--p4info", type=_FILE, default=default_p4info, help="P4Info; default: fabric.p4's."
    ),
    click.option(
        "--program",
        type=_FILE,
        default=default_device_config,
        help="BMv2 JSON; default: fabric.p4's.",
    ),
)
