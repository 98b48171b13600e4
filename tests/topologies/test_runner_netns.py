"""The runner on real namespaces, links and switches."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.topologies.runner_command import REPOSITORY, Runner, read_until, wait_for_end
from topologies.addressing import parse_switch_name

pytestmark = pytest.mark.netns

#: Enough that the writes are still under way when a test has done what it wants to do
ENDLESS = "60000"


@pytest.fixture
def runner() -> Iterator[Runner]:
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        made = Runner(Path(folder))
        try:
            yield made
        finally:
            made.close()
        assert made.leftovers() == []


@pytest.mark.parametrize(
    "target", ["softswitch", pytest.param("bmv2", marks=pytest.mark.bmv2)], ids=str
)
def test_a_run_delivers_every_packet_and_trims_bursts(runner: Runner, target: str) -> None:
    code, output = runner.run("check", str(runner.topology), "--target", target, "--packets", "3")
    assert code == 0, output
    assert output.splitlines()[-1].startswith("PASS"), output
    check = runner.check()
    assert check["problems"] == []
    # Two hosts, both directions, over either T1
    assert [path["whole"] for path in check["paths"]] == [3] * 4
    assert {tuple(path["switches"]) for path in check["paths"]} == {
        ("p0-t0-0", "p0-t1-0", "p0-t0-1"),
        ("p0-t0-0", "p0-t1-1", "p0-t0-1"),
        ("p0-t0-1", "p0-t1-0", "p0-t0-0"),
        ("p0-t0-1", "p0-t1-1", "p0-t0-0"),
    }
    assert len(check["bursts"]) == 2
    for burst in check["bursts"]:
        assert burst["whole"] > 0
        assert burst["trimmed"] > 0
        assert burst["sent"] == burst["whole"] + burst["trimmed"] + sum(burst["dropped"].values())
    assert check["switches"]["p0-t1-0"]["received"] > 0
    (state,) = runner.states()
    assert (state["phase"], state["exit_code"]) == ("ended", 0)


def test_a_switch_that_dies_is_named_and_its_paths_fail(runner: Runner) -> None:
    process = runner.start("check", str(runner.topology), "--packets", ENDLESS)
    output = read_until(process, "controller")
    device_id = parse_switch_name("p0-t0-1").device_id
    os.kill(runner.switch_process(device_id), signal.SIGKILL)
    output += process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "p0-t0-1" in output
    assert "killed by SIGKILL" in output
    assert "/logs/p0-t0-1.log" in output
    assert "logs: " in output


def test_paths_around_a_dead_switch_still_deliver(runner: Runner) -> None:
    process = runner.start("check", str(runner.topology), "--packets", "400")
    output = read_until(process, "controller")
    device_id = parse_switch_name("p0-t1-1").device_id
    os.kill(runner.switch_process(device_id), signal.SIGKILL)
    output += process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "FAIL" in output
    for path in runner.check()["paths"]:
        dead = "p0-t1-1" in path["switches"]
        assert (path["missing"] > 0) == dead, path
    assert runner.check()["dead_switches"] == ["p0-t1-1"]


def test_a_killed_runner_leaves_nothing_in_the_kernel(runner: Runner) -> None:
    process = runner.start("check", str(runner.topology), "--packets", ENDLESS)
    read_until(process, "controller")
    (state,) = runner.states()
    inner = os.pidfd_open(state["pid"])
    namespaces = runner.network_namespaces()
    assert len(namespaces) >= 6
    process.kill()
    process.wait()
    wait_for_end(inner)  # process 1 of a PID namespace ends after all others in it
    os.close(inner)
    assert runner.processes() == []
    code, output = runner.run("status")
    assert (code, "killed" in output) == (0, True)
    code, output = runner.run("down")
    assert code == 0
    assert output == f"cleaned up after {state['run_id']}, which was killed\n"
    assert runner.leftovers() == []
    assert runner.run("status")[1] == "nothing is running\n"


@pytest.mark.parametrize(
    ("number", "after"),
    [
        (signal.SIGINT, "controller"),
        (signal.SIGTERM, "network"),
        (signal.SIGHUP, "small on softswitch"),
    ],
    ids=["ctrl-c-in-traffic", "term-while-switches-start", "hangup-at-once"],
)
def test_a_signal_cleans_up_at_any_step(runner: Runner, number: signal.Signals, after: str) -> None:
    process = runner.start("check", str(runner.topology), "--packets", ENDLESS)
    read_until(process, after)
    process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + number, output
    assert f"ended by {number.name}" in output
    assert runner.leftovers() == []
    (state,) = runner.states()
    assert state["phase"] == "ended"


def test_two_runs_side_by_side_do_not_meet(runner: Runner) -> None:
    processes = [runner.start("check", str(runner.topology)) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    assert len(runner.states()) == 2


def test_a_fabric_stays_up_until_it_is_taken_down(runner: Runner) -> None:
    code, output = runner.run("up", str(runner.topology), "--detach")
    assert code == 0, output
    (state,) = runner.states()
    assert state["phase"] == "up"
    assert "small" in runner.run("status")[1]

    code, output = runner.run("exec", "h1", "--", "ip", "-o", "link", "show", "plane0")
    assert code == 0, output
    assert "06:00:00:01:00:00" in output
    assert "mtu 9216" in output
    assert runner.run("exec", "p0-t0-0", "--", "sh", "-c", "exit 7")[0] == 7
    code, output = runner.run("exec", "h11", "--", "true")
    assert code == 2
    assert "did you mean h1" in output
    assert runner.run("exec", "h0", "--", "no-such-program")[0] == 127

    # The controller finds the switches by what the run wrote down
    (switches,) = runner.runs.glob("*/switches.json")
    verify = ("-m", "controller.cli", "verify", str(runner.topology), "--switches", str(switches))
    verified = subprocess.run(
        [sys.executable, *verify], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr

    code, output = runner.run("down")
    assert (code, output) == (0, f"ended {state['run_id']}\n")
    assert runner.leftovers() == []
    code, output = runner.run("down")
    assert code == 2
    assert "nothing is running" in output


def test_interfaces_are_silent_and_whole(runner: Runner) -> None:
    """No IPv6 of the kernel's own, and no offloads that would merge or leave packets unfinished."""
    assert runner.run("up", str(runner.topology), "--detach")[0] == 0
    code, output = runner.run("exec", "h0", "--", "ip", "-6", "address")
    assert (code, output) == (0, "")
    if shutil.which("ethtool") is not None:
        code, output = runner.run("exec", "p0-t0-0", "--", "ethtool", "-k", "port0")
        for feature in (
            "tx-checksumming",
            "generic-segmentation-offload",
            "generic-receive-offload",
        ):
            assert f"{feature}: off" in output
    code, output = runner.run("exec", "p0-t0-0", "--", "cat", "/proc/net/dev")
    counts = {
        line.split(":")[0].strip(): line.split(":")[1].split() for line in output.splitlines()[2:]
    }
    assert all(int(count[1]) == int(count[9]) == 0 for name, count in counts.items() if "p" in name)


def test_without_privileges_it_uses_a_user_namespace(runner: Runner) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    drop = (setpriv, "--bounding-set=-sys_admin")
    code, output = runner.run("check", str(runner.topology), prefix=drop)
    if "network namespaces need root" in output:
        pytest.skip("this kernel does not let users make user namespaces")
    assert code == 0, output
    assert "(rootless)" in output
    assert output.splitlines()[-1].startswith("PASS")


def test_a_switch_that_does_not_start_is_explained(runner: Runner, tmp_path: Path) -> None:
    broken = tmp_path / "simple_switch_grpc"
    broken.write_text('#!/bin/sh\necho "no such luck" >&2\nexit 3\n')
    broken.chmod(0o755)
    runner.environment["BMV2"] = str(broken)
    code, output = runner.run("check", str(runner.topology), "--target", "bmv2")
    assert code == 1
    assert "ended while it started (exit code 3)" in output
    assert "| no such luck" in output
    assert runner.leftovers() == []
