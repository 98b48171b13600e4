"""A fabric that is up with an agent on every host: asking it, and having it fail."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from host.agent.client import ControlClient
from softswitch.control_socket import ControlClient as SwitchClient
from tests.topologies.runner_command import TIMEOUT_S, Runner

WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """Writes of a whole region from one host to another."""

    near: ControlClient
    far: ControlClient
    qp: int
    source: str
    inbox: str
    sha256: str

    def post(self, count: int) -> None:
        for _ in range(count):
            self.near.request("post_write", qp=self.qp, region=self.source)

    def wait(self, count: int) -> list[str]:
        """Status of the next completions."""
        answer = self.near.request("wait", qp=self.qp, count=count, timeout_ms=60_000)
        return [completion["status"] for completion in answer["completions"]]

    def is_whole(self) -> bool:
        """Whether the far memory holds every byte that was sent."""
        digest: str = self.far.request("digest", region=self.inbox)["sha256"]
        return digest == self.sha256

    def ev_states(self) -> dict[int, str]:
        (qp,) = (qp for qp in self.near.request("evs")["qps"] if qp["qp"] == self.qp)
        return {ev["ev"]: ev["state"] for ev in qp["evs"]}


class LiveRunner(Runner):
    """A small fabric that is up, and its paths as h0's agent sees them."""

    def bring_up(self, *options: str, prefix: tuple[str, ...] = ()) -> None:
        code, output = self.run(
            "up", str(self.topology), "--hosts", "--detach", *options, prefix=prefix
        )
        assert code == 0, output

    @property
    def sockets(self) -> Path:
        (state,) = self.states()
        return Path(state["sockets"])

    def do(self, *arguments: str) -> str:
        code, output = self.run(*arguments)
        assert code == 0, output
        return output

    def refused(self, *arguments: str) -> tuple[int, str]:
        """Exit code and the one line that says why."""
        code, output = self.run(*arguments)
        assert output.count("\n") == 1, output
        return code, output

    def agent(self, host: str) -> ControlClient:
        return ControlClient(self.sockets / f"hosts/{host}.control", timeout_s=TIMEOUT_S)

    def start_host(self, *arguments: str) -> subprocess.Popen[str]:
        """`mrc-host` with the agents of this run."""
        return self.start_module("host.agent", *arguments, MRC_HOST_DIR=f"{self.sockets}/hosts")

    def run_host(self, *arguments: str) -> tuple[int, str]:
        """`mrc-host` to its end; returns exit code and output."""
        process = self.start_host(*arguments)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, output

    def probe(self, source: str, peer: str) -> dict[int, int | None]:
        """Round trip of a probe in nanoseconds by EV; None where nothing answered."""
        with self.agent(source) as agent:
            evs = agent.request("probe", peer=peer, timeout_ms=1000)["evs"]
        return {ev["ev"]: ev["rtt_ns"] for ev in evs}

    def wait_for_all_paths(self, source: str, peer: str) -> None:
        wait_until(lambda: None not in self.probe(source, peer).values())

    @contextmanager
    def transfer(self, source: str, peer: str, size_bytes: int) -> Iterator[Transfer]:
        """A queue pair between two hosts, and a region of random contents at its near end."""
        with self.agent(source) as near, self.agent(peer) as far:
            inbox = far.request("register", size=size_bytes, publish="inbox")
            region = near.request("register", size=size_bytes)["region"]
            exchange = f"unix:{self.sockets}/hosts/{peer}.exchange"
            qp = near.request("connect", to=exchange, region="inbox")["qp"]
            sha256 = near.request("fill", region=region, seed=size_bytes)["sha256"]
            yield Transfer(near, far, qp, region, inbox["region"], sha256)

    def answering_t1s(self) -> set[int]:
        """Numbers of the T1s over which h1 answers probes of h0."""
        with ControlClient(self.sockets / "hosts/h0.control") as agent:
            evs = agent.request("probe", peer="h1", timeout_ms=500)["evs"]
        return {
            number
            for number in (0, 1)
            for ev in evs
            if ev["rtt_ns"] is not None and f"p0-t0-0--p0-t1-{number}" in str(ev["path"])
        }

    def wait_for_t1s(self, *numbers: int) -> None:
        wait_until(lambda: self.answering_t1s() == set(numbers))

    def link_is_up(self, node: str, interface: str) -> bool:
        return "state UP" in self.do("exec", node, "--", "ip", "-o", "link", "show", interface)

    def rate_bps(self, switch: str, port: int) -> int | None:
        with SwitchClient(self.sockets / f"{switch}.control") as control:
            rate: int | None = control.request("stats")["stats"]["ports"][str(port)]["rate_bps"]
        return rate

    def child(self, *words: str) -> int:
        """The process of the run whose command line has all the words."""
        for pid in self.processes():
            line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if set(words) <= set(line):
                return pid
        raise AssertionError(f"no process has {words} on its command line")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never becomes true"


@contextmanager
def live_runner() -> Iterator[LiveRunner]:
    """A runner with folders of its own; nothing of its runs is left afterwards."""
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        made = LiveRunner(Path(folder))
        try:
            yield made
        finally:
            made.close()
        assert made.leftovers() == []
