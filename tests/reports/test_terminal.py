"""The summary, at any width: everything is there, and nothing is wider than the console."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from reports.result import PausedPort, PauseTotals, RunResult
from reports.terminal import print_result
from sim.simulation import Simulation
from tests.sim.conftest import run_scenario, simulate
from topologies.model import Fabric

FAULT = "faults:\n  - link_down: {name: cut, link: [p0-t0-0, p0-t1-1], at: 20us, for: 20us}\n"


@pytest.fixture(name="ran", scope="module")
def _ran() -> tuple[Fabric, RunResult]:
    simulation: Simulation = simulate(FAULT)
    return simulation.scenario.fabric, run_scenario(FAULT)


def printed(ran: tuple[Fabric, RunResult], width: int) -> list[str]:
    out = io.StringIO()
    print_result(Console(file=out, width=width), *ran)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 130])
def test_nothing_is_cut_off_or_too_wide(width: int, ran: tuple[Fabric, RunResult]) -> None:
    lines = printed(ran, width)
    assert "…" not in "".join(lines)
    words = " ".join(" ".join(lines).split())
    wide = printed(ran, 1000)
    for line in wide:
        for cell in line.split("  "):
            assert " ".join(cell.split()) in words
    too_wide = [line for line in lines if cell_len(line) > width]
    assert [line for line in too_wide if "every byte" not in line] == []


def test_columns_that_do_not_fit_follow_with_the_name_again(ran: tuple[Fabric, RunResult]) -> None:
    lines = printed(ran, 80)
    rows = [line for line in lines if line.startswith(" cut (LinkDown)")]
    heads = [lines[lines.index(row) - 1] for row in rows]
    assert len(rows) == 2
    assert " ".join(" ".join(heads).split()) == (
        "from until lost into it last at EVs out first out out by lowest full after repaired: full"
    )


def test_a_wide_console_gets_one_table(ran: tuple[Fabric, RunResult]) -> None:
    lines = printed(ran, 130)
    assert sum(line.startswith(" cut (LinkDown)") for line in lines) == 1


def test_flow_control_has_a_line_where_there_is_some(ran: tuple[Fabric, RunResult]) -> None:
    fabric, result = ran
    assert not any("pauses:" in line for line in printed(ran, 130))
    pauses = PauseTotals(
        pauses=7,
        frames=15,
        frames_received=14,
        hosts_paused_ns=2500,
        switches_paused_ns=3_000_000,
        peak_buffer_bytes=110 * 1024,
        ports=[
            PausedPort("p0-t1-0", 1, result.now_ns // 2),
            *(PausedPort("h0", plane, result.now_ns // 8) for plane in range(4)),
        ],
    )
    lines = printed((fabric, replace(result, pauses=pauses)), 200)
    (line,) = (line for line in lines if "pauses:" in line)
    assert line.split("pauses: ")[1] == (
        "7 asked for, 15 pause frames sent, 14 received; NIC ports paused 2.5 µs, "
        "switch ports 3 ms together; at most 110KiB held for one port"
    )
    (line,) = (line for line in lines if "paused longest" in line)
    assert line.split(":  ")[1].split("  ") == [
        "p0-t1-0 port 1 50.0",
        "h0 port 0 12.5",
        "h0 port 1 12.5",
        "h0 port 2 12.5",
    ]
