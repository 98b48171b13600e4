"""Prints what the traces exercise at the end of a run."""

from __future__ import annotations

import pytest

COVERAGE_REPORTS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COVERAGE_REPORTS] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for report in config.stash.get(COVERAGE_REPORTS, []):
        terminalreporter.section("trace coverage")
        terminalreporter.write_line(report)
