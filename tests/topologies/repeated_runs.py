"""Runs of a small fabric one after another in one process, and what the process holds after each.

    python -m tests.topologies.repeated_runs FOLDER COUNT

Each brings switches up, sends over every path, and takes everything down; each seventh one also has
an impairment box and host agents, one of which writes to the other. A process is half a second of
CPU time, so not all do. Prints one JSON object a run: a `Holdings`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from host.agent.client import ControlClient
from topologies.loader import load_topology
from topologies.model import Fabric
from topologies.runner import session
from topologies.runner.agents import directory
from topologies.runner.deployment import Deployment
from topologies.runner.live import LiveFabric
from topologies.runner.run_store import RunFolder
from topologies.runner.targets import find_target

#: As few processes as there can be with a link between switches
TOPOLOGY = """\
name: least
planes: 1
t0_per_plane: 1
t1_per_plane: 1
hosts_per_t0: 2
trimming: {enabled: false}
"""
FULL_EVERY = 7
MESSAGE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Holdings:
    """What this process has."""

    descriptors: list[str]
    children: list[int]
    threads: int
    #: Links of its own network namespace
    interfaces: list[str]
    sockets: list[str]
    memory_bytes: int
    #: Blocks of memory that Python objects have
    blocks: int
    seconds: float


def holdings(sockets: Path, seconds: float) -> Holdings:
    gc.collect()
    descriptors = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(str(path.readlink()))
        except OSError:  # the one that lists them
            continue
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Holdings(
        descriptors=sorted(descriptors),
        children=[
            int(pid)
            for task in Path("/proc/self/task").iterdir()
            for pid in (task / "children").read_text().split()
        ],
        threads=threading.active_count(),
        interfaces=sorted(path.name for path in Path("/sys/class/net").iterdir()),
        sockets=sorted(str(path) for path in sockets.iterdir()),
        memory_bytes=resident_pages * os.sysconf("SC_PAGE_SIZE"),
        blocks=sys.getallocatedblocks(),
        seconds=seconds,
    )


class Silent:
    """Tells nobody of a run's steps."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Silent]:
        yield self

    def advance(self, count: int = 1) -> None:
        pass

    def result(self, text: str) -> None:
        pass


def run(fabric: Fabric, base: Path, *, full: bool) -> None:
    nodes = ("p0-t0-0", "p0-t1-0")
    impaired = {fabric.link(*nodes).name} if full else frozenset[str]()
    target, narrator = find_target("softswitch"), Silent()
    with (
        RunFolder.create(base, fabric.name, target.name) as folder,
        Deployment(fabric, target, folder, impaired_links=impaired) as deployment,
    ):
        control = session.bring_up(deployment, narrator)
        problems = session.check(deployment, control, narrator, packets_per_path=4).problems()
        assert problems == [], problems
        if full:
            session.start_agents(deployment, narrator)
            with LiveFabric(deployment) as live:
                loss = {"command": "link", "action": "loss", "value": "0.5"}
                live.handle({**loss, "nodes": list(nodes)})
                write(directory(folder))


def write(agents: Path) -> None:
    with ControlClient(agents / "h0.control") as near, ControlClient(agents / "h1.control") as far:
        inbox = far.request("register", size=MESSAGE_BYTES, publish="inbox")["region"]
        source = near.request("register", size=MESSAGE_BYTES)["region"]
        qp = near.request("connect", to=f"unix:{agents / 'h1.exchange'}", region="inbox")["qp"]
        sha256 = near.request("fill", region=source, seed=1)["sha256"]
        near.request("post_write", qp=qp, region=source)
        (completion,) = near.request("wait", qp=qp, timeout_ms=30_000)["completions"]
        assert completion["status"] == "SUCCESS", completion
        assert far.request("digest", region=inbox)["sha256"] == sha256


def main(folder: Path, count: int) -> None:
    topology = folder / "least.yaml"
    topology.write_text(TOPOLOGY)
    fabric = load_topology(topology)
    for number in range(count):
        started = time.monotonic()
        run(fabric, folder / "runs", full=number % FULL_EVERY == 0)
        held = holdings(Path(os.environ["XDG_RUNTIME_DIR"]), time.monotonic() - started)
        print(json.dumps(asdict(held)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
