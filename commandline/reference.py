"""The reference of all commands, made from the commands themselves.

    python -m commandline.reference docs

writes `commands.md` into a folder: for each command and subcommand what it does, its arguments and
options with their values and defaults.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import click

#: Each command of ours, and where its click command is
COMMANDS: Final = {
    "mrc-topology": "topologies.runner.cli:cli",
    "mrc-sim": "sim.cli:cli",
    "mrc-host": "host.agent.cli:cli",
    "mrc-controller": "controller.cli:cli",
    "mrc-experiment": "experiments.cli:cli",
    "softswitch": "softswitch.cli:command",
}
PAGE_FILE: Final = "commands.md"
_HEAD: Final = """\
# Commands

All commands and their options, as `--help` prints them; made by
`python -m commandline.reference docs`. Exit codes, where a command says nothing else: 0 done,
1 failed, 2 wrong usage or input, 130 interrupted.
"""


def load(place: str) -> click.Command:
    """The click command at `module:name`."""
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name)
    assert isinstance(command, click.Command), place
    return command


def page_text() -> str:
    """The page."""
    parts = [_HEAD]
    names = [f"[{name}](#{name})" for name in COMMANDS]
    parts.append(" · ".join(names) + "\n")
    for name, place in COMMANDS.items():
        parts.extend(_command(load(place), name, None, 2))
    return "\n".join(parts)


def _command(
    command: click.Command, name: str, parent: click.Context | None, level: int
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * level} {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {usage}\n```\n"
    yield from _help(command)
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None and not inner.hidden:
                yield from _command(inner, each, context, level + 1)


def _help(command: click.Command) -> Iterator[str]:
    r"""Its paragraphs; those that click leaves as they are (behind \b) as they are."""
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```\n{inspect.cleandoc(paragraph.removeprefix(chr(8)))}\n```\n"
        elif paragraph.strip():
            yield f"{_escape(paragraph)}\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    rows = []
    for each in command.params:
        if not isinstance(each, click.Option) or each.hidden:
            continue
        record = each.get_help_record(context)
        if record is None:
            continue
        names, meaning = record
        rows.append(f"| `{_cell(names)}` | {_cell(_escape(meaning))} |")
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(directory: Path) -> None:
    """Writes the page."""
    (directory / PAGE_FILE).write_text(page_text(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
