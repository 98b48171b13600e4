"""A fabric that is up: hosts' agents, links and switches that fail and come back, captures."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.topologies.live_runner import LiveRunner, live_runner, wait_until
from tests.topologies.runner_command import TIMEOUT_S, read_until

pytestmark = pytest.mark.netns


@pytest.fixture
def runner() -> Iterator[LiveRunner]:
    with live_runner() as made:
        yield made


def test_agents_start_and_end_with_the_run(runner: LiveRunner) -> None:
    process = runner.start("up", str(runner.topology), "--hosts")
    output = read_until(process, "end it:")
    assert "2 agents ready" in output
    assert f"export MRC_HOST_DIR={runner.sockets}/hosts" in output
    assert "mrc-host write-bw --agent h0 h1" in output
    runner.wait_for_t1s(0, 1)
    (folder,) = runner.runs.iterdir()
    assert (folder / "logs/h1.log").read_text().startswith("h1: ready")
    # One that ends on its own is told at once
    os.kill(runner.child("host.agent", str(folder / "hosts/h1.json")), signal.SIGKILL)
    assert "h1 ended (killed by SIGKILL)" in read_until(process, "h1 ended")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert runner.leftovers() == []


def test_a_link_goes_down_at_both_ends_and_comes_back(runner: LiveRunner) -> None:
    runner.bring_up()
    runner.wait_for_t1s(0, 1)
    assert runner.do("link", "p0-t1-0", "p0-t0-0", "down") == "p0-t0-0--p0-t1-0 is down\n"
    assert not runner.link_is_up("p0-t0-0", "port1")
    assert not runner.link_is_up("p0-t1-0", "port0")
    assert runner.link_is_up("p0-t1-0", "port1")
    runner.wait_for_t1s(1)
    assert runner.do("link", "p0-t0-0", "p0-t1-0", "up") == "p0-t0-0--p0-t1-0 is up\n"
    runner.wait_for_t1s(0, 1)
    # A host's link: its agent sees the port
    runner.do("link", "h0", "p0-t0-0", "down")
    assert not runner.link_is_up("h0", "plane0")
    runner.wait_for_t1s()
    runner.do("link", "h0", "p0-t0-0", "up")
    runner.wait_for_t1s(0, 1)


def test_a_rate_holds_over_a_restart(runner: LiveRunner) -> None:
    runner.bring_up()
    runner.do("link", "p0-t0-0", "p0-t1-0", "rate", "10Mbps")
    assert (runner.rate_bps("p0-t0-0", 1), runner.rate_bps("p0-t1-0", 0)) == (10**7, 10**7)
    assert runner.rate_bps("p0-t0-0", 0) is None
    output = runner.do("link", "h0", "p0-t0-0", "rate", "2.5Mbps")
    assert "h0 is not limited" in output
    assert runner.rate_bps("p0-t0-0", 0) == 2_500_000
    runner.do("link", "p0-t0-0", "h0", "rate", "unlimited")
    assert runner.rate_bps("p0-t0-0", 0) is None
    runner.do("switch", "p0-t0-0", "restart")
    assert (runner.rate_bps("p0-t0-0", 0), runner.rate_bps("p0-t0-0", 1)) == (None, 10**7)


@pytest.mark.parametrize(
    "target", ["softswitch", pytest.param("bmv2", marks=pytest.mark.bmv2)], ids=str
)
def test_a_killed_switch_comes_back_with_its_tables(runner: LiveRunner, target: str) -> None:
    runner.bring_up("--target", target)
    runner.wait_for_t1s(0, 1)
    assert "p0-t1-0 is killed" in runner.do("switch", "p0-t1-0", "kill")
    assert not runner.link_is_up("p0-t0-0", "port1")  # its neighbours see it
    assert not runner.link_is_up("p0-t0-1", "port1")
    runner.wait_for_t1s(1)
    code, output = runner.refused("switch", "p0-t1-0", "kill")
    assert (code, "p0-t1-0 is not running" in output) == (1, True)
    assert "is up again" in runner.do("switch", "p0-t1-0", "restart")
    runner.wait_for_t1s(0, 1)
    (log,) = runner.runs.glob("*/logs/runner.log")
    assert log.read_text() == ""  # ended on purpose: no failure


def test_links_of_a_killed_switch_are_as_link_says_once_it_is_back(runner: LiveRunner) -> None:
    runner.bring_up()
    runner.do("switch", "p0-t1-0", "kill")
    # What `link` takes down stays down, what it brings up comes up with the switch
    assert "down as long as p0-t1-0 is" in runner.do("link", "p0-t0-0", "p0-t1-0", "down")
    assert "is up again" in runner.do("switch", "p0-t1-0", "restart")
    assert not runner.link_is_up("p0-t0-0", "port1")
    assert runner.link_is_up("p0-t0-1", "port1")
    runner.do("switch", "p0-t1-0", "kill")
    runner.do("link", "p0-t0-0", "p0-t1-0", "up")
    runner.do("switch", "p0-t1-0", "restart")
    runner.wait_for_t1s(0, 1)


@pytest.mark.bmv2
def test_bmv2_keeps_its_own_interfaces_up(runner: LiveRunner) -> None:
    runner.bring_up("--target", "bmv2")
    runner.wait_for_t1s(0, 1)
    code, output = runner.refused("link", "p0-t0-0", "p0-t1-0", "down")
    assert (code, "does not survive an interface that goes down" in output) == (1, True)
    code, output = runner.refused("switch", "p0-t1-0", "blackhole")
    assert (code, "cannot be made a black hole" in output) == (1, True)
    runner.do("link", "h0", "p0-t0-0", "down")
    assert not runner.link_is_up("h0", "plane0")
    runner.wait_for_t1s()
    runner.do("switch", "p0-t0-0", "restart")  # the link stays down
    assert not runner.link_is_up("h0", "plane0")
    runner.do("link", "h0", "p0-t0-0", "up")
    runner.wait_for_t1s(0, 1)


def test_a_switch_that_died_by_itself_is_told_and_can_be_restarted(runner: LiveRunner) -> None:
    runner.bring_up()
    (log,) = runner.runs.glob("*/logs/runner.log")
    for times in (1, 2):
        os.kill(runner.child("softswitch", f"unix:{runner.sockets}/p0-t1-1.grpc"), signal.SIGKILL)
        wait_until(lambda: log.read_text().count("p0-t1-1 ended (killed by SIGKILL)") == times)  # noqa: B023
        runner.do("switch", "p0-t1-1", "restart")
        runner.wait_for_t1s(0, 1)


def test_a_black_hole_keeps_its_links_up(runner: LiveRunner) -> None:
    runner.bring_up()
    runner.wait_for_t1s(0, 1)
    runner.do("switch", "p0-t1-1", "blackhole")
    assert runner.link_is_up("p0-t0-0", "port2")
    assert runner.answering_t1s() == {0}
    runner.do("switch", "p0-t1-1", "restart")
    runner.wait_for_t1s(0, 1)


def test_what_does_not_exist_is_named_in_one_line(runner: LiveRunner) -> None:
    runner.bring_up()
    for arguments, text in {
        ("link", "p0-t0-0", "h1", "up"): "no link joins p0-t0-0 and h1",
        ("link", "p0-t0-0", "p0-t1-7", "up"): "p0-t1-7 is not in small",
        ("link", "p0-t0-0", "p0-t1-0", "rate", "fast"): "'fast' must be like 10Mbps",
        ("switch", "h0", "kill"): "'h0' is not the name of a switch",
        ("pcap", "h0", "plan0", "-o", "x"): "did you mean plane0?",
        ("pcap", "h00", "-o", "x"): "did you mean h0?",
    }.items():
        code, output = runner.refused(*arguments)
        assert (code, text in output) == (2, True), output
    code, output = runner.refused("pcap", "h0", "-o", "/no/such/folder/x")
    assert (code, "No such file or directory" in output) == (1, True)


def read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes()
    assert struct.unpack_from("=I", data)[0] == 0xA1B23C4D
    frames, position = [], 24
    while position < len(data):
        _, nanoseconds, kept, size = struct.unpack_from("=IIII", data, position)
        assert kept == size
        assert nanoseconds < 10**9
        frames.append(data[position + 16 : position + 16 + kept])
        position += 16 + kept
    return frames


def start_capture(runner: LiveRunner, *arguments: str) -> subprocess.Popen[str]:
    process = runner.start("pcap", *arguments)
    read_until(process, "Ctrl-C ends it")
    return process


@pytest.mark.parametrize("rootless", [False, True], ids=["root", "rootless"])
def test_captures_end_by_signal_count_or_with_the_run(
    runner: LiveRunner, tmp_path: Path, rootless: bool
) -> None:
    if rootless:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        drop = ("setpriv", "--bounding-set=-sys_admin")
        code, output = runner.run("up", str(runner.topology), "--hosts", "--detach", prefix=drop)
        if "network namespaces need root" in output:
            pytest.skip("this kernel does not let users make user namespaces")
        assert code == 0, output
    else:
        runner.bring_up()
    files = [tmp_path / name for name in ("signal", "count", "run")]
    by_signal = start_capture(runner, "p0-t0-0", "0", "-o", str(files[0]))
    by_count = start_capture(runner, "p0-t0-0", "-c", "3", "-o", str(files[1]))
    with_run = start_capture(runner, "h1", "plane0", "-o", str(files[2]))
    runner.wait_for_t1s(0, 1)
    by_count.wait(timeout=TIMEOUT_S)
    by_signal.send_signal(signal.SIGINT)
    by_signal.wait(timeout=TIMEOUT_S)
    runner.do("down")
    with_run.wait(timeout=TIMEOUT_S)
    assert [each.returncode for each in (by_signal, by_count, with_run)] == [0, 0, 0]
    frames = [read_pcap(path) for path in files]
    # Two probes from h0 and their two answers, at least
    assert len(frames[0]) >= 4
    assert len(frames[1]) == 3
    assert len(frames[2]) >= 4
    assert all(frame[12:14] == b"\x86\xdd" for each in frames for frame in each)
    h0, h1 = bytes.fromhex("060000000000"), bytes.fromhex("060000010000")
    assert {frame[6:12] for frame in frames[0]} >= {h0}  # both directions
    assert any(frame[:6] == h0 for frame in frames[0])
    assert any(frame[:6] == h1 for frame in frames[2])
