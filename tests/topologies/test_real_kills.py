"""SIGKILL of what a running fabric is made of, while a transfer goes on: what is not concerned goes
on, what is ends with one line and exit code 1, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.topologies.live_runner import LiveRunner, live_runner, wait_until
from tests.topologies.runner_command import SMALL_TOPOLOGY, TIMEOUT_S, read_until, wait_for_end

pytestmark = pytest.mark.netns

TOPOLOGY = SMALL_TOPOLOGY.replace("hosts_per_t0: 1", "hosts_per_t0: 2")
MESSAGE_BYTES = 1 << 18


@pytest.fixture
def runner() -> Iterator[LiveRunner]:
    with live_runner() as made:
        made.topology.write_text(TOPOLOGY)
        made.bring_up()
        yield made


def kill(pid: int) -> None:
    """Returns when it has ended, with everything that ends with it."""
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(process)
    os.close(process)


def agent_of(runner: LiveRunner, host: str) -> int:
    (folder,) = runner.runs.iterdir()
    return runner.child("host.agent", str(folder / f"hosts/{host}.json"))


def switch_of(runner: LiveRunner, switch: str) -> int:
    return runner.child("softswitch", f"unix:{runner.sockets}/{switch}.grpc")


def received_packets(runner: LiveRunner, host: str) -> int:
    with runner.agent(host) as agent:
        return sum(port["rx_frames"] for port in agent.request("stat")["ports"])


def start_writing(runner: LiveRunner, source: str, peer: str) -> subprocess.Popen[str]:
    """`mrc-host write-bw` without an end, in the midst of it."""
    before = received_packets(runner, peer)
    process = runner.start_host("write-bw", "-A", source, peer, "-D", "5", "--run_infinitely")
    read_until(process, "#bytes")
    wait_until(lambda: received_packets(runner, peer) > before + 200)
    return process


def last_words(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what it said since."""
    output, _ = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, output


def assert_failed(process: subprocess.Popen[str], why: str) -> None:
    code, output = last_words(process)
    errors = [line for line in output.splitlines() if line.startswith("mrc-host:")]
    assert (code, len(errors), why in output) == (1, 1, True), output
    assert "Traceback" not in output


def assert_delivers(runner: LiveRunner, source: str, peer: str) -> None:
    with runner.transfer(source, peer, MESSAGE_BYTES) as transfer:
        transfer.post(1)
        assert transfer.wait(1) == ["SUCCESS"]
        assert transfer.is_whole()


def assert_told(runner: LiveRunner, name: str) -> None:
    (log,) = runner.runs.glob("*/logs/runner.log")
    wait_until(lambda: f"{name} ended (killed by SIGKILL)" in log.read_text())


def test_a_killed_agent_ends_its_own_transfers_only(runner: LiveRunner) -> None:
    far, near = start_writing(runner, "h0", "h2"), start_writing(runner, "h1", "h3")
    kill(agent_of(runner, "h2"))
    assert_failed(far, "towards h2: retry counter exceeded")
    assert_told(runner, "h2")
    assert near.poll() is None
    assert_delivers(runner, "h3", "h1")

    kill(agent_of(runner, "h1"))
    assert_failed(near, "h1.control is gone")
    assert_told(runner, "h1")
    assert_delivers(runner, "h0", "h3")
    assert "4 hosts, 4 switches" in runner.do("status")
    runner.do("down")
    assert runner.leftovers() == []


def test_a_killed_switch_ends_what_has_no_other_way(runner: LiveRunner) -> None:
    """Its links stay up, so that nobody is told: the endpoints must find out."""
    with runner.transfer("h0", "h2", MESSAGE_BYTES) as transfer:
        transfer.post(8)
        wait_until(lambda: received_packets(runner, "h2") > 100)
        kill(switch_of(runner, "p0-t1-0"))
        transfer.post(8)
        assert transfer.wait(16) == ["SUCCESS"] * 16
        assert transfer.is_whole()
        states = transfer.ev_states()
        assert sorted(states.values()) != ["GOOD", "GOOD"]
        assert "GOOD" in states.values()  # the other T1's
    assert_told(runner, "p0-t1-0")

    writing = start_writing(runner, "h0", "h2")
    kill(switch_of(runner, "p0-t0-0"))  # the hosts' only T0
    assert_failed(writing, "towards h2: retry counter exceeded")
    assert_delivers(runner, "h2", "h3")
    for switch in ("p0-t0-0", "p0-t1-0"):
        runner.do("switch", switch, "restart")
    runner.wait_for_all_paths("h0", "h2")
    assert_delivers(runner, "h0", "h2")
    runner.do("down")
    assert runner.leftovers() == []


def test_a_killed_runner_takes_everything_along(runner: LiveRunner) -> None:
    writing = start_writing(runner, "h0", "h2")
    capture = runner.start("pcap", "h0", "-o", str(runner.runs / "h0.pcap"))
    read_until(capture, "Ctrl-C ends it")
    (state,) = runner.states()
    kill(state["pid"])
    assert_failed(writing, "h0.control is gone")
    assert capture.wait(TIMEOUT_S) == 0
    assert runner.processes() == []
    assert "killed" in runner.do("status")
    code, output = runner.refused("link", "p0-t0-0", "p0-t1-0", "down")
    assert (code, "nothing is running" in output) == (2, True)
    assert runner.do("down") == f"cleaned up after {state['run_id']}, which was killed\n"
    assert runner.leftovers() == []
    assert runner.do("status") == "nothing is running\n"
