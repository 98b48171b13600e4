"""What a run shows while it runs, in a pipe and on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reports.result import EvTransition
from topologies.loader import find_topology, load_topology
from topologies.runner.scenario.live_view import LiveView, Status

FABRIC = load_topology(find_topology("two-plane"))


@pytest.fixture(name="out")
def _out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(name="view")
def _view(out: io.StringIO) -> LiveView:
    return LiveView(Console(file=out, width=110), FABRIC)


def status(now_ns: int, delivered_bytes: int = 0, total_bytes: int | None = 2 << 20) -> Status:
    return Status(now_ns, delivered_bytes, total_bytes, None, [25e6, 0.0], 3)


def test_in_a_pipe_there_is_a_line_now_and_then(view: LiveView, out: io.StringIO) -> None:
    with view.shown():
        for now_s in (-1, 0, 1, 4.9, 5.1, 5.3, 9.9, 12, 14):
            view.status(status(int(now_s * 1e9), 1 << 20))
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["5.1", "12.0"]
    assert "1.0 of 2.0 MiB delivered; plane 0 25 Mb/s, plane 1 0 b/s; 3 resent" in lines[0]


def transition(
    host: str, ev: int, new: str = "ASSUMED_BAD", cause: str = "timeout"
) -> EvTransition:
    return EvTransition(1_500_000_000, host, "h2", 1, ev, "GOOD", new, cause, None)


def test_evs_that_change_alike_are_one_line(view: LiveView, out: io.StringIO) -> None:
    view.transitions([transition("h0", 8), transition("h1", 8), transition("h0", 1, cause="port")])
    first, second = out.getvalue().splitlines()
    told = "2 EVs of h0, h1: GOOD → ASSUMED_BAD, timeout (p0-t1-1)"
    assert " ".join(first.split()) == f"1.500 s {told}"
    assert "1 EV of h0: GOOD → ASSUMED_BAD, port (p1-t1-0)" in second


def test_an_ev_that_names_no_path_is_told_as_it_is(view: LiveView, out: io.StringIO) -> None:
    view.transitions([transition("h0", 0xFFFF_FFF8)])
    assert "(EV 0xfffffff8)" in out.getvalue()


def test_markup_in_what_happened_is_no_markup(view: LiveView, out: io.StringIO) -> None:
    view.event(0, "problem", "p0-t1-0 ended [red] (exit code 3)")
    assert "p0-t1-0 ended [red] (exit code 3)" in out.getvalue()
