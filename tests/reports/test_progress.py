"""How far a run is: lines now and then, a bar where there is a terminal."""

from __future__ import annotations

import io
from itertools import count

from rich.console import Console

from reports.progress import LINE_EVERY_S, RunProgress, counted
from sim.simulation import Simulation
from tests.sim.conftest import SMALL
from topologies.scenario_loader import parse_scenario


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    now_s = 100.0
    progress = RunProgress(Console(file=out, width=40), "a[b]", clock=lambda: now_s)
    with progress.shown():
        progress.building("hosts", 1, 99)
        now_s += LINE_EVERY_S
        progress.building("hosts", 20, 99)
        progress.building("hosts", 21, 99)
        now_s += LINE_EVERY_S - 1
        progress.running(1 << 20, 1 << 21, 5_000_000)
        now_s += 1
        progress.running(3 << 19, 1 << 21, 6_000_000)
        now_s += 10 * LINE_EVERY_S
        progress.running(3 << 19, None, 6_000_000)
    assert out.getvalue().splitlines() == [
        "a[b]: building: 20 of 99 hosts, 5 s",
        "a[b]: 1.5 MiB of 2 MiB delivered, 6 ms of virtual time, 10 s",
        "a[b]: 1.5 MiB delivered, 6 ms of virtual time, 60 s",
    ]


def test_a_terminal_has_a_bar_that_vanishes() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True)
    progress = RunProgress(console, "small", clock=count().__next__)
    with progress.shown():
        progress.building("switches with their tables", 3, 8)
        (task,) = progress._bar.tasks
        assert task.fields["text"] == "building: 3 of 8 switches with their tables"
        assert (task.completed, task.total) == (3, 8)
        progress.running(1 << 20, None, 5_000)
        assert (task.completed, task.total) == (1 << 20, None)  # nobody knows of how many
    text = out.getvalue()
    assert "1 MiB delivered, 5 µs of virtual time" in text
    assert text.endswith("\x1b[2K")  # its line is erased


def test_items_are_told_before_they_are_made_into_something() -> None:
    out = io.StringIO()
    progress = RunProgress(Console(file=out), "n", clock=count(step=int(LINE_EVERY_S)).__next__)
    assert list(counted("ab", "letters", 2, progress)) == ["a", "b"]
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        "n: building: 0 of 2 letters",
        "n: building: 1 of 2 letters",
    ]
    assert list(counted("ab", "letters", 2, None)) == ["a", "b"]


def test_a_simulation_tells_what_it_builds_and_how_far_its_time_is() -> None:
    out = io.StringIO()
    clock = count(step=int(LINE_EVERY_S)).__next__
    progress = RunProgress(Console(file=out, width=200), "small", clock=clock)
    Simulation(parse_scenario(SMALL, "small.yaml"), progress=progress).run()
    lines = out.getvalue().splitlines()
    kinds = [line.split(" of ")[1].partition(" ")[2].split(",")[0] for line in lines[:-1]]
    assert list(dict.fromkeys(kinds)) == ["hosts", "switches with their tables", "links", "flows"]
    assert kinds.count("hosts") == 4 and kinds.count("links") == 16
    assert lines[-1].startswith("small: 1 MiB of 1 MiB delivered, ")
