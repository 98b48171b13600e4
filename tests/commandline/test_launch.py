"""Ctrl-C while a command is still importing its modules."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.signals import hear_ctrl_c

REPOSITORY = Path(__file__).resolve().parents[2]

#: As `python -m MODULE`, with SIGINT in the moment in which the named module is imported
PROBE = """\
import os, runpy, signal, sys
entry, moment = sys.argv[1:3]
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None
sys.meta_path.insert(0, Interrupt())
sys.argv = [entry, "--help"]
runpy.run_module(entry, run_name="__main__", alter_sys=True)
"""

COMMANDS = {
    "topologies.runner": ("topologies.runner.cli", "rich.table"),
    "host.agent": ("host.agent.cli", "click.core"),
    "sim": ("sim.cli", "numpy"),
    "controller": ("controller.cli", "grpc"),
    "softswitch": ("softswitch.cli", "softswitch.runtime"),
    "experiments": ("experiments.cli", "rich.console"),
}


def probe(entry: str, moment: str, **options: object) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-c", PROBE, entry, moment],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
        **{"preexec_fn": hear_ctrl_c, **options},  # type: ignore[call-overload]
    )
    return done


@pytest.mark.parametrize(
    ("entry", "moment"),
    [(entry, moment) for entry, moments in COMMANDS.items() for moment in moments],
)
def test_ctrl_c_during_imports_is_silent(entry: str, moment: str) -> None:
    done = probe(entry, moment)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_command_that_ignores_ctrl_c_goes_on() -> None:
    """As `nohup` and scripts start programs in the background."""
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    done = probe("controller", "grpc", **ignoring)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")


def test_every_command_starts_with_launch() -> None:
    """The scripts that are installed go through the same door as `python -m`."""
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    for entry in COMMANDS:
        assert f'"{entry}.__main__:main"' in pyproject
