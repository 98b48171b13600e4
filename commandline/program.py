"""A click command as a process: what it prints and how it exits when something is wrong.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Every error is one line on stderr that
begins with the program's name, or several that do where several things are wrong.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from commandline.launch import INTERRUPTED

FAILURE: Final = 1
USAGE: Final = 2


def run_command(
    command: click.Command,
    program: str,
    errors: Mapping[type[Exception], int],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a command to its end; returns the exit code.

    Args:
        command: what does the work; it may exit with a code of its own.
        program: its name, as the user called it.
        errors: exceptions whose text is for the user, and the exit code of each. Where several
            fit, the first counts.
        arguments: in place of those of the process.
    """
    if sys.stdout is None:  # closed by whoever started this
        complain(program, "stdout is closed")
        return FAILURE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal knows every character
    try:
        code = command.main(arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else program
        complain(program, f"{error.format_message()} (see {where} --help)")
        code = error.exit_code
    except click.ClickException as error:
        complain(program, error.format_message())
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain(program, "interrupted")
        code = INTERRUPTED
    except tuple(errors) as error:
        complain(program, str(error))
        code = next(code for kind, code in errors.items() if isinstance(error, kind))
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        code = FAILURE
    except OSError as error:
        complain(program, f"{error.filename or 'cannot write'}: {error.strerror or error}")
        _drop_output()
        code = FAILURE
    return code if isinstance(code, int) else 0


def complain(program: str, text: str) -> None:
    """Say what is wrong; each line with the program's name, but for those that are indented."""
    for line in text.splitlines():
        click.echo(line if line.startswith(" ") else f"{program}: {line}", err=True)


def _drop_output() -> None:
    """What stdout still holds goes nowhere: the interpreter must not complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
