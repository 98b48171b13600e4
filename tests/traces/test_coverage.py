"""The traces exercise everything that the compiled programs can do."""

from __future__ import annotations

import pytest

from p4src import PROGRAM_NAMES
from tests.traces.conftest import COVERAGE_REPORTS
from tests.traces.coverage import report, seen_by_traces, universe, unreachable_items


@pytest.mark.parametrize("program", PROGRAM_NAMES)
def test_everything_reachable_is_exercised(program: str, pytestconfig: pytest.Config) -> None:
    text, missed = report(program, seen_by_traces(program), unreachable_items(program))
    pytestconfig.stash[COVERAGE_REPORTS].append(text)
    assert not missed, text


@pytest.mark.parametrize("program", PROGRAM_NAMES)
def test_nothing_unreachable_was_seen(program: str) -> None:
    assert not seen_by_traces(program) & unreachable_items(program).keys()


@pytest.mark.parametrize("program", PROGRAM_NAMES)
def test_nothing_was_seen_that_the_universe_lacks(program: str) -> None:
    """The instrument and the universe speak of the same things."""
    assert not seen_by_traces(program) - universe(program).keys()


def test_a_gap_is_reported_with_its_place() -> None:
    seen = seen_by_traces("fabric")
    item = next(item for item in universe("fabric") if item.kind == "table")
    text, missed = report("fabric", seen - {item}, unreachable_items("fabric"))
    assert missed == [item]
    assert f"NOT EXERCISED: {universe('fabric')[item]}" in text
    assert "p4src/include/srv6.p4:" in text
