"""The summary, at any width: everything is there, and nothing is wider than the console."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from reports.result import RunResult
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
        "from until lost into it last at EVs out out by lowest full after repaired: full"
    )


def test_a_wide_console_gets_one_table(ran: tuple[Fabric, RunResult]) -> None:
    lines = printed(ran, 130)
    assert sum(line.startswith(" cut (LinkDown)") for line in lines) == 1
