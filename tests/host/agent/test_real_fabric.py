"""Agents on real switches in real namespaces: what a user does with the two commands."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from host.agent.client import ControlClient
from host.agent.errors import AgentError
from tests.topologies.runner_command import REPOSITORY, TIMEOUT_S, Runner
from topologies.host_config import host_config, host_json
from topologies.loader import load_topology

pytestmark = pytest.mark.netns

TOPOLOGY = """\
name: agents
planes: 2
t0_per_plane: 2
t1_per_plane: 1
hosts_per_t0: 1
"""
MIB = 1 << 20
HOSTS = ("h0", "h1")


class RealFabric:
    """A fabric that is up, and agents in its hosts' namespaces."""

    def __init__(self, folder: Path) -> None:
        self.runner = Runner(folder)
        self.folder = folder
        self.runner.topology.write_text(TOPOLOGY)
        self._agents: dict[str, subprocess.Popen[str]] = {}
        self._fabric = load_topology(self.runner.topology)

    def bring_up(self) -> None:
        code, output = self.runner.run("up", str(self.runner.topology), "--detach")
        assert code == 0, output

    def on(self, node: str, *command: str) -> None:
        """Run something on a node."""
        code, output = self.runner.run("exec", node, "--", *command)
        assert code == 0, output

    def start_agent(self, host: str, *options: str) -> ControlClient:
        config = self.folder / f"{host}.json"
        document = host_json(host_config(self._fabric, self._fabric.host(host)))
        config.write_text(json.dumps(document))
        process = self.runner.start(
            *("exec", host, "--", sys.executable, "-m", "host.agent", "run"),
            *("--config", str(config), "--dir", str(self.folder), *options),
        )
        self._agents[host] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"{host}: ready"), line + process.stdout.read()
        return self.client(host)

    def client(self, host: str) -> ControlClient:
        return ControlClient(self.folder / f"{host}.control", timeout_s=TIMEOUT_S)

    def exchange(self, host: str) -> str:
        return f"unix:{self.folder / host}.exchange"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "host.agent", *arguments],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env={**self.runner.environment, "MRC_HOST_DIR": str(self.folder)},
            timeout=TIMEOUT_S,
            check=False,
        )

    def wait_for_agent(self, host: str) -> int:
        """Exit code of an agent that ends, as `mrc-topology exec` passes it on."""
        return self._agents.pop(host).wait(TIMEOUT_S)

    def close(self) -> None:
        self.runner.run("down", "--all")
        for process in self._agents.values():
            process.wait(TIMEOUT_S)
        self.runner.close()


@pytest.fixture(scope="module")
def fabric() -> Iterator[RealFabric]:
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        made = RealFabric(Path(folder))
        try:
            made.bring_up()
            yield made
        finally:
            made.close()
        assert made.runner.leftovers() == []


@pytest.fixture
def clients(fabric: RealFabric) -> Iterator[dict[str, ControlClient]]:
    """Two agents, ended after the test however it goes."""
    # A peer that is gone is given up after some 0.7 s. Sooner would not do: where others keep the
    # processors busy, an agent that works may be silent for several timeouts of 34 ms
    options = ("--timeout", "15", "--linear-retries", "7", "--exponential-retries", "3")
    made = {host: fabric.start_agent(host, *options) for host in HOSTS}
    yield made
    for host, client in made.items():
        try:
            client.request("quit")
        except AgentError:
            continue  # the test has ended it
        finally:
            client.close()
        assert fabric.wait_for_agent(host) == 0
        assert not (fabric.folder / f"{host}.control").exists()
        assert not (fabric.folder / f"{host}.exchange").exists()


def connect(
    fabric: RealFabric, near: ControlClient, far: ControlClient, host: str, size: int
) -> dict[str, Any]:
    """A region at each end and a queue pair between: keys source, inbox, qp and sha256."""
    inbox = far.request("register", size=size, publish="inbox")
    source = near.request("register", size=size)
    made = near.request("connect", to=fabric.exchange(host), region="inbox")
    filled = near.request("fill", region=source["region"], seed=size)
    return {
        "source": source["region"],
        "inbox": inbox["region"],
        "qp": made["qp"],
        "sha256": filled["sha256"],
    }


def states(client: ControlClient) -> dict[int, tuple[str, bool]]:
    """By EV: its state, and whether its port is up."""
    (paths,) = client.request("evs")["qps"]
    return {ev["ev"]: (ev["state"], ev["port_up"]) for ev in paths["evs"]}


def test_megabytes_arrive_both_ways_and_both_planes_carry_them(
    fabric: RealFabric, clients: dict[str, ControlClient]
) -> None:
    ends = []
    for near, far in (("h0", "h1"), ("h1", "h0")):
        ends.append((near, far, connect(fabric, clients[near], clients[far], far, 4 * MIB)))
    for near, _, made in ends:
        clients[near].request("post_write", qp=made["qp"], region=made["source"], imm=1)
    for near, far, made in ends:
        (done,) = clients[near].request("wait", qp=made["qp"])["completions"]
        assert done["status"] == "SUCCESS"
        (arrived,) = clients[far].request("arrivals", region=made["inbox"])["completions"]
        assert arrived["byte_len"] == 4 * MIB
        assert clients[far].request("digest", region=made["inbox"])["sha256"] == made["sha256"]
    for client in clients.values():
        # How much each has depends on who of this machine's processes waits for its turn
        assert min(client.request("sample")["plane_bytes"]) > 0


def test_the_commands_measure(fabric: RealFabric, clients: dict[str, ControlClient]) -> None:
    done = fabric.command("probe", "-A", "h0", "h1", "-c", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    done = fabric.command("write-bw", "-A", "h0", "h1", "-a", "-n", "1", "-t", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[1:2] == ["1"]]
    assert [row[0] for row in rows] == [str(2**exponent) for exponent in range(1, 24)]
    done = fabric.command("write-lat", "-A", "h1", "h0", "-n", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    done = fabric.command("collective", "all-reduce", *HOSTS, "-b", "1MiB", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "0"


def test_a_flow_and_what_is_measured_meanwhile(
    fabric: RealFabric, clients: dict[str, ControlClient]
) -> None:
    near = clients["h0"]
    made: dict[str, Any] = {"name": "flow", "to": fabric.exchange("h1"), "size": 65536}
    near.request("flow_open", **made, depth=4, qps=2, immediate=True, repeat=25)
    result = near.request("flow_run", start_ns=time.monotonic_ns() + 20_000_000)
    assert result["done"], result
    assert result["completed_messages"] == 50
    assert (result["wrong_bytes"], result["errors"], result["problems"]) == (0, {}, {})
    sample = near.request("sample")
    assert sample["posted"] == {"flow": 50}
    assert min(sample["plane_bytes"]) > 0
    assert clients["h1"].request("sample")["delivered"] == {"flow": 50 * 65536}
    assert {path["ev"] for path in near.request("tally")["paths"]} == {0, 1}


def write_until(
    fabric: RealFabric,
    near: ControlClient,
    made: dict[str, Any],
    condition: Callable[[], bool],
    *command: str,
) -> None:
    """Write without a pause while a command runs on a node, until it has had its effect."""
    process = fabric.runner.start("exec", *command)
    deadline = time.monotonic() + TIMEOUT_S
    while not condition() or process.poll() is None:
        assert time.monotonic() < deadline, f"it has no effect: {states(near)}, {process.poll()}"
        for _ in range(4):
            near.request("post_write", qp=made["qp"], region=made["source"])
        completions = near.request("wait", qp=made["qp"], count=4)["completions"]
        assert [each["status"] for each in completions] == ["SUCCESS"] * 4
    assert process.returncode == 0, process.communicate()[0]


def test_an_interface_that_goes_down_takes_its_plane_out_at_both_ends(
    fabric: RealFabric, clients: dict[str, ControlClient]
) -> None:
    near, far = clients["h0"], clients["h1"]
    made = connect(fabric, near, far, "h1", MIB)
    change = ("h0", "--", "ip", "link", "set", "plane0")
    # Whatever its EV was before: on a busy machine, a timeout may have taken it out
    write_until(fabric, near, made, lambda: not states(near)[0][1], *change, "down")
    assert far.request("digest", region=made["inbox"])["sha256"] == made["sha256"]
    events: list[Any] = []
    far.request("watch", on_event=events.append, history=True)
    told = [event["planes_up"] for event in events if event["event"] == "peer_ports"]
    assert told[-1:] == [[1]]
    sent = near.request("stat")["ports"][0]["tx_frames"]
    write_until(fabric, near, made, lambda: states(near)[0] == ("GOOD", True), *change, "up")
    near.request("post_write", qp=made["qp"], region=made["source"])
    near.request("wait", qp=made["qp"])
    assert near.request("stat")["ports"][0]["tx_frames"] > sent + 100


def test_a_link_that_is_cut_in_the_fabric_is_found_by_its_silence(
    fabric: RealFabric, clients: dict[str, ControlClient]
) -> None:
    near, far = clients["h0"], clients["h1"]
    made = connect(fabric, near, far, "h1", MIB)
    (paths,) = near.request("evs")["qps"]
    assert paths["evs"][0]["path"][2] == "p0-t0-0--p0-t1-0"
    uplink = load_topology(fabric.runner.topology).link("p0-t0-0", "p0-t1-0").lower.port
    change = ("p0-t0-0", "--", "ip", "link", "set", f"port{uplink}")
    found = {0: ("ASSUMED_BAD", True), 1: ("GOOD", True)}
    write_until(fabric, near, made, lambda: states(near) == found, *change, "down")
    assert far.request("digest", region=made["inbox"])["sha256"] == made["sha256"]
    write_until(fabric, near, made, lambda: states(near)[0] == ("GOOD", True), *change, "up")


def test_a_killed_agent_is_noticed_by_its_peer_and_leaves_nothing(
    fabric: RealFabric, clients: dict[str, ControlClient]
) -> None:
    near, far = clients["h0"], clients["h1"]
    made = connect(fabric, near, far, "h1", MIB)
    pid = far.request("hello")["pid"]
    fabric.on("h1", "kill", "-9", str(pid))
    near.request("post_write", qp=made["qp"], region=made["source"])
    (done,) = near.request("wait", qp=made["qp"])["completions"]
    assert done["status"] == "RETRY_EXCEEDED_ERROR"
    assert near.request("stat")["qps"][0]["state"] == "ERROR"
    done = fabric.command("write-bw", "-A", "h0", "h1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mrc-host: no agent at ")
    assert fabric.wait_for_agent("h1") == 128 + 9
    # The next one takes its place, over the sockets that it left
    again = fabric.start_agent("h1")
    near.request("destroy_qp", qp=made["qp"])
    made = connect(fabric, near, again, "h1", MIB)
    near.request("post_write", qp=made["qp"], region=made["source"])
    (done,) = near.request("wait", qp=made["qp"])["completions"]
    assert done["status"] == "SUCCESS"
    clients["h1"] = again
