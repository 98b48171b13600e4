"""`mrc-topology` as a process, and what a run must not leave behind."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120

SMALL_TOPOLOGY = """\
name: small
planes: 1
t0_per_plane: 2
t1_per_plane: 2
hosts_per_t0: 1
queues:
  host: {data_limit: 32KiB, control_limit: 32KiB}
  fabric: {data_limit: 32KiB, control_limit: 32KiB}
"""


class Runner:
    """Runs the command with folders and a mark of its own.

    Every process of a run inherits the mark, so what is left of one can be found without knowing
    any of its process ids.
    """

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.runtime = folder / "rt"
        self.runtime.mkdir()
        self.topology = folder / "small.yaml"
        self.topology.write_text(SMALL_TOPOLOGY)
        self.mark = f"MRC_TEST_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.environment = {
            **os.environ,
            name: value,
            "MRC_TOPOLOGY_RUNS": str(self.runs),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PYTHONUNBUFFERED": "1",
        }
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return self.start_module("topologies.runner", *arguments, prefix=prefix)

    def start_module(
        self, module: str, *arguments: str, prefix: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """Start another command of ours among this runner's runs."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
            env={**self.environment, **environment},
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run to the end; returns exit code and output."""
        process = self.start(*arguments, prefix=prefix)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, output

    def states(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.runs.glob("*/run.json"))]

    def check(self) -> dict[str, Any]:
        (path,) = self.runs.glob("*/check.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def processes(self) -> list[int]:
        """Every living process that has the mark, but this one."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def network_namespaces(self) -> set[int]:
        """Inodes of the network namespaces that the marked processes hold."""
        found = set()
        for pid in self.processes():
            for path in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    if str(path.readlink()).startswith("net:"):
                        found.add(path.stat().st_ino)
                except OSError:
                    continue
        return found

    def switch_process(self, device_id: int) -> int:
        """The process of a switch: the child of this runner's process 1 with that device id."""
        (state,) = self.states()
        inner = state["pid"]
        children = Path(f"/proc/{inner}/task/{inner}/children").read_text().split()
        for pid in map(int, children):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if "--device-id" in words and words[words.index("--device-id") + 1] == str(device_id):
                return pid
        raise AssertionError(f"no child of {inner} has device id {device_id}")

    def leftovers(self) -> list[str]:
        """What a run that is over must not leave."""
        return [
            *(f"process {pid}" for pid in self.processes()),
            *(str(path) for path in self.runtime.iterdir()),
        ]

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        for state in self.states():
            if state["phase"] != "ended":
                self.run("down", "--all")
                break


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The output up to the line that contains `text`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"ended without {text!r}:\n{seen}")


def wait_for_end(pidfd: int) -> None:
    """Wait until the process behind a descriptor has ended."""
    assert select.select([pidfd], [], [], TIMEOUT_S)[0], "the process does not end"
