"""Twenty runs in a row leave nothing: no process, interface, socket or descriptor, no memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.topologies.live_runner import live_runner
from tests.topologies.repeated_runs import FULL_EVERY
from tests.topologies.runner_command import REPOSITORY

pytestmark = pytest.mark.netns

RUNS = 20
#: Of 100 MB. What a run used to keep would show twelve times
MEMORY_TOLERANCE_BYTES = 4 << 20
BLOCKS_TOLERANCE = 2000


def test_twenty_runs_in_one_process_leave_it_as_it_was() -> None:
    """A network namespace is held by a descriptor or a process, and nothing else."""
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        runtime = Path(folder) / "rt"
        runtime.mkdir()
        environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(runtime),
            # Else each thread takes one of glibc's many pools of memory, and each pool grows once
            "MALLOC_ARENA_MAX": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.topologies.repeated_runs", folder, str(RUNS)],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env=environment,
        )
    assert done.returncode == 0, done.stderr
    held = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(held) == RUNS
    for each in held:
        assert each["children"] == []
        assert each["sockets"] == []
        assert each["threads"] == 1
        assert each["interfaces"] == held[0]["interfaces"]
        assert each["descriptors"] == held[0]["descriptors"]
    # The first full one loads modules and fills pools
    settled, last = held[FULL_EVERY], held[-1]
    assert last["memory_bytes"] - settled["memory_bytes"] < MEMORY_TOLERANCE_BYTES
    assert last["blocks"] - settled["blocks"] < BLOCKS_TOLERANCE


def test_whole_runs_by_command_leave_nothing() -> None:
    with live_runner() as runner:
        for _ in range(2):
            runner.bring_up()
            code, output = runner.run_host("write-bw", "-A", "h0", "h1", "-n", "4")
            assert code == 0, output
            runner.do("down")
            assert runner.leftovers() == []
            assert runner.do("status") == "nothing is running\n"
            for state in runner.states():
                assert (state["phase"], state["exit_code"], state["namespaces"]) == ("ended", 0, {})
            for path in runner.runs.iterdir():  # the next has states() of its own
                path.rename(Path(f"{runner.runs}-{path.name}"))
