"""Links that lose and damage frames: a box with `impair.p4` between two nodes of a real fabric."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.topologies.live_runner import LiveRunner, live_runner, wait_until
from topologies.runner.control import ask
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import select_run

pytestmark = pytest.mark.netns

MESSAGE_BYTES = 1 << 18
LINK = ("p0-t0-0", "p0-t1-0")
BOX = "p0-t0-0--p0-t1-0"


@pytest.fixture(scope="module")
def runner() -> Iterator[LiveRunner]:
    """One fabric for all tests; each leaves it without loss."""
    with live_runner() as made:
        made.bring_up("--impair", "p0-t1-0:p0-t0-0", "--impair", "h0:p0-t0-0")
        yield made


def set_link(runner: LiveRunner, nodes: tuple[str, str], action: str, **more: str) -> str:
    """What `mrc-topology link` asks of the runner, and its answer."""
    request = {"command": "link", "nodes": list(nodes), "action": action, **more}
    (line,) = ask(select_run(runner.runs, None), request)
    return line


def packets(runner: LiveRunner) -> dict[str, tuple[int, int]]:
    """Received and sent by each interface of the box."""
    lines = runner.do("exec", BOX, "--", "cat", "/proc/net/dev").splitlines()
    split = [line.split(":") for line in lines if "port" in line]
    columns = {name.strip(): rest.split() for name, rest in split}
    return {name: (int(counts[1]), int(counts[9])) for name, counts in columns.items()}


def test_loss_hits_the_link_and_direction_that_are_named(runner: LiveRunner) -> None:
    runner.wait_for_t1s(0, 1)
    assert runner.do("link", *LINK, "loss", "100%") == f"{BOX} loses 100% of all frames both ways\n"
    assert runner.answering_t1s() == {1}
    assert runner.link_is_up("p0-t0-0", "port1")  # it loses everything, and nobody is told
    set_link(runner, LINK, "loss", value="0")
    runner.wait_for_t1s(0, 1)

    # Probes go up, answers come down: which of the two gets through?
    for direction, (blocked, free) in {
        "up": ("port0", "port1"),
        "down": ("port1", "port0"),
    }.items():
        told = set_link(runner, LINK, "loss", value="1", direction=direction)
        assert ("hosts" in told, "100%" in told) == (True, True)
        before = packets(runner)
        assert runner.answering_t1s() == {1}
        after = packets(runner)
        assert after[blocked][0] > before[blocked][0]  # came in at the one end
        assert after[free][1] == before[free][1]  # and did not go out at the other
        set_link(runner, LINK, "loss", value="0")


def test_a_transfer_survives_loss_and_damage(runner: LiveRunner) -> None:
    host_link = ("h0", "p0-t0-0")
    set_link(runner, LINK, "loss", value="0.05")
    set_link(runner, host_link, "corruption", value="2%")
    with runner.transfer("h0", "h1", MESSAGE_BYTES) as transfer:
        transfer.post(4)
        assert transfer.wait(4) == ["SUCCESS"] * 4
        assert transfer.is_whole()
        (qp,) = (qp for qp in transfer.near.request("stat")["qps"] if qp["qp"] == transfer.qp)
    assert qp["retransmissions"] > 0
    set_link(runner, LINK, "loss", value="0")
    set_link(runner, host_link, "corruption", value="0")


def test_neighbours_see_each_other_through_the_box(runner: LiveRunner) -> None:
    runner.wait_for_t1s(0, 1)
    set_link(runner, LINK, "down")
    assert not runner.link_is_up("p0-t0-0", "port1")
    assert not runner.link_is_up("p0-t1-0", "port0")
    runner.wait_for_t1s(1)
    set_link(runner, LINK, "up")
    runner.wait_for_t1s(0, 1)
    runner.do("switch", "p0-t1-0", "kill")
    assert "NO-CARRIER" in runner.do("exec", "p0-t0-0", "--", "ip", "link", "show", "port1")
    runner.do("switch", "p0-t1-0", "restart")
    runner.wait_for_t1s(0, 1)
    assert "2 hosts, 4 switches" in runner.do("status")


def test_what_cannot_be_is_said(runner: LiveRunner) -> None:
    other = ("p0-t0-0", "p0-t1-1")
    with pytest.raises(RunnerError, match="up --impair p0-t0-0:p0-t1-1"):
        set_link(runner, other, "loss", value="1%")
    for value in ("1.5", "-1%", "nan", "often"):
        with pytest.raises(UsageError, match=f"'{value}' must be from 0 to 1"):
            set_link(runner, LINK, "loss", value=value)
    with pytest.raises(UsageError, match="direction 'left' must be up, down, both"):
        set_link(runner, LINK, "loss", value="1", direction="left")
    with pytest.raises(UsageError, match="down has no direction"):
        set_link(runner, LINK, "down", direction="up")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("link", *LINK, "loss"), "loss needs a value, as in: loss 1%"),
        (("up", "two-plane", "--impair", "h0-p0-t0-0"), "must be two nodes"),
        (("up", "two-plane", "--impair", "h0:p0-t1-0"), "no link joins h0 and p0-t1-0"),
    ],
)
def test_wrong_usage_is_one_line(runner: LiveRunner, arguments: tuple[str, ...], text: str) -> None:
    code, output = runner.refused(*arguments)
    assert (code, text in output) == (2, True), output


def test_a_box_that_dies_is_told(runner: LiveRunner) -> None:
    """The last test: its link is dead from here on, and its neighbours do not see it."""
    os.kill(runner.child("softswitch", f"unix:{runner.sockets}/impair1.grpc"), signal.SIGKILL)
    (log,) = runner.runs.glob("*/logs/runner.log")
    wait_until(lambda: f"the impairment box of {BOX} ended (killed by SIGKILL)" in log.read_text())
    with pytest.raises(RunnerError, match=f"the impairment box of {BOX} does not answer"):
        set_link(runner, LINK, "loss", value="0")
    assert runner.answering_t1s() == {1}
