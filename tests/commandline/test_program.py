"""How a command ends: exit code, one line for an error, stdout that nobody takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from commandline.program import FAILURE, USAGE, run_command

REPOSITORY = Path(__file__).resolve().parents[2]


class BadInputError(Exception):
    pass


class VeryBadInputError(BadInputError):
    pass


class LostError(Exception):
    pass


@click.group()
def cli() -> None:
    """A command with subcommands."""


@cli.command()
@click.argument("what")
def do(what: str) -> None:
    """Do what is said."""
    match what:
        case "nothing":
            return
        case "input":
            raise BadInputError("file: field: value\nfile: another: value")
        case "subclass":
            raise VeryBadInputError("worse")
        case "lose":
            raise LostError("p0-t0-0 ended; the end of its log:\n  | last words")
        case "file":
            Path("/no/such/file").read_text()
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            sys.exit(7)
        case "click":
            raise click.ClickException("no such thing")
        case "write":
            click.echo("x" * 10_000_000)  # more than any pipe holds
        case _:
            raise AssertionError(what)


def call(arguments: list[str]) -> None:
    sys.exit(run_command(cli, "prog", {BadInputError: USAGE, LostError: FAILURE}, arguments))


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("nothing", 0, ""),
        ("input", 2, "prog: file: field: value\nprog: file: another: value\n"),
        ("subclass", 2, "prog: worse\n"),
        ("lose", 1, "prog: p0-t0-0 ended; the end of its log:\n  | last words\n"),
        ("file", 1, "prog: /no/such/file: No such file or directory\n"),
        ("interrupt", 130, "prog: interrupted\n"),
        ("exit", 7, ""),
        ("click", 1, "prog: no such thing\n"),
    ],
)
def test_what_went_wrong_is_one_line_and_a_code(
    what: str, code: int, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        call(["do", what])
    assert (left.value.code, capfd.readouterr().err.lstrip("\n")) == (code, says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fly"], "prog: No such command 'fly'. (see prog --help)\n"),
        (["do"], "prog: Missing argument 'WHAT'. (see prog do --help)\n"),
        (["do", "--so"], "prog: No such option '--so'. (see prog do --help)\n"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        call(arguments)
    # click's words differ between its versions in quotes only
    assert (left.value.code, capsys.readouterr().err.replace('"', "'")) == (2, says)


def test_without_a_subcommand_it_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        call([])
    captured = capsys.readouterr()
    assert left.value.code == 2
    assert "Usage: prog" in captured.out + captured.err


@pytest.mark.parametrize(
    ("redirection", "code", "says"),
    [
        (">/dev/full", 1, "prog: cannot write: No space left on device\n"),
        (">&-", 1, "prog: stdout is closed\n"),
    ],
)
def test_output_that_nobody_takes(redirection: str, code: int, says: str) -> None:
    script = "from tests.commandline.test_program import call; call(['do', 'write'])"
    ran = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{script}" {redirection}'],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (code, says)


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """Its exit code is click's, and not the same in all its versions."""
    script = "from tests.commandline.test_program import call; call(['do', 'write'])"
    ran = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{script}" | head -c 3'],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("xxx", "")
