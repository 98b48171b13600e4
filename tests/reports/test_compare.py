"""Two runs side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from reports.compare import print_comparison, ratio_text, read_record
from reports.record import RecordError, RunRecord
from tests.reports.samples import HOSTILE, fault, flow, record
from topologies.runner.cli_compare import compare
from topologies.runner.errors import UsageError


def compared(a: RunRecord, b: RunRecord, width: int = 120) -> list[str]:
    text = StringIO()
    print_comparison(Console(file=text, width=width), a, b)
    return text.getvalue().splitlines()


def cells(lines: list[str], *start: str) -> list[str]:
    """The words of the line that begins with these."""
    return next(words for line in lines if (words := line.split())[: len(start)] == list(start))


def test_flows_stand_side_by_side_with_their_ratio() -> None:
    a = record(flows=[flow("one")])
    b = record(flows=[replace(flow("one"), completion_ns=50_000, retransmissions=0, trims=7)])
    lines = compared(a, b)
    assert cells(lines, "one", "completion")[2:] == ["20", "µs", "50", "µs", "2.50"]
    assert cells(lines, "resent")[1:] == ["1", "0", "0.00"]
    assert cells(lines, "trims")[1:] == ["0", "7", "-"]
    # Nothing to see where it is 0 in both
    assert not any(line.split()[:1] == ["ECN"] for line in lines)


def test_faults_planes_totals_and_ev_changes_are_compared() -> None:
    a = replace(
        record(faults=[fault("cut")]), totals={"trimmed": 3}, ev_changes={"GOOD → SKIP: ECN": 4}
    )
    b = replace(
        record(faults=[replace(fault("cut"), last_out_ns=6000, full_rate_ns=0)]),
        totals={"trimmed": 6, "marked": 1},
        clock="real",
        target="softswitch",
        cpu_s={"h0": 1.5, "p0-t0-0": 0.5},
    )
    lines = compared(a, b)
    assert lines[1].startswith("B  sample, sample, real time on softswitch")
    assert cells(lines, "last", "EV", "out")[3:] == ["2", "µs", "6", "µs", "3.00"]
    assert cells(lines, "full", "after")[2:] == ["-", "no", "dip", "-"]
    assert cells(lines, "trimmed")[1:] == ["3", "6", "2.00"]
    assert cells(lines, "marked")[1:] == ["-", "1", "-"]
    assert cells(lines, "CPU,")[3:] == ["-", "2.0", "s", "-"]
    assert cells(lines, "plane", "0")[2:] == ["50.00", "%", "50.00", "%", "1"]
    assert cells(lines, "GOOD")[4:] == ["4", "0", "0.00"]


def test_what_only_one_has_is_one_line() -> None:
    a = record(flows=[flow("both"), flow("mine")], faults=[fault("cut")])
    b = record(flows=[flow("both"), flow("yours")], planes=3, failures=["late"])
    lines = compared(a, b)
    assert "   only in A: flow mine, fault cut" in lines
    assert "   only in B: flow yours" in lines
    assert any("the fabrics differ: 2 planes" in line and "3 planes" in line for line in lines)
    assert "1 expectation not met" in lines[1]
    assert cells(lines, "plane", "2")[2:] == ["-", "33.33", "%", "-"]


def test_states_are_shown_where_not_all_is_done() -> None:
    lines = compared(record(flows=[flow("one")]), record(flows=[flow("one", "failed")]))
    assert cells(lines, "one", "state")[2:] == ["done", "failed"]


def test_names_are_not_taken_for_markup() -> None:
    name = "[red]" + HOSTILE
    lines = compared(record(scenario=name), record(scenario=name))
    assert name in lines[0]


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [(2, 4, "2.00"), (4, 4, "1"), (0, 0, "-"), (0, 4, "-"), (None, 4, "-"), (1, 250, "250")],
)
def test_ratios(a: float | None, b: float | None, text: str) -> None:
    assert ratio_text(a, b) == text


def test_a_run_s_folder_stands_for_its_record(tmp_path: Path) -> None:
    made = record()
    (tmp_path / "report.json").write_text(json.dumps(made.to_json()))
    assert read_record(tmp_path) == read_record(tmp_path / "report.json") == made


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "no record of a run: not JSON: "),
        (b"[]", "no record of a run: version: None is not known"),
        (b'{"version": 1}', "no record of a run: scenario: "),
        (b"\xff\xfe", "cannot be read: it is not text"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_record_is_named(content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError) as refused:
        read_record(path)
    assert str(refused.value).startswith(f"{path}: {says}")


def test_the_command_takes_files_and_run_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "20250301-120000-two-plane-3fa2"
    run.mkdir()
    (run / "report.json").write_text(json.dumps(record().to_json()))
    monkeypatch.setenv("MRC_TOPOLOGY_RUNS", str(tmp_path))
    result = CliRunner().invoke(compare, [run.name, str(run / "report.json")])
    assert result.exit_code == 0 and "whole run" in result.output
    result = CliRunner().invoke(compare, [run.name, str(tmp_path / "none")])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 400])
def test_json_that_python_cannot_take_is_refused_in_a_line(tmp_path: Path, value: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(f'{{"version": 1, "end_ns": {value}}}')
    with pytest.raises(RecordError, match="not JSON"):
        read_record(file)


def test_names_bring_no_escape_sequences_to_the_terminal() -> None:
    hostile = replace(record(flows=[flow("\x1b[2J\x9b2J\ud800")]), scenario="\x1b]0;title\x07")
    text = "\n".join(compared(hostile, hostile))
    assert "title" in text
    assert "2J" in text
    assert not {"\x1b", "\x9b", "\x07", "\ud800"} & {*text}
