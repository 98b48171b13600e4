"""Two runs side by side: the same scenario in real and in virtual time, before and after a change.

Everything comes from their records. Ratios are B over A.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from reports.lines import Out
from reports.record import FaultRecord, FlowRecord, RecordError, RunRecord, from_json
from reports.text import NONE, bytes_text, count_text, rate_text, time_text

#: The record in a run's folder
REPORT_FILE: Final = "report.json"
#: Rows of a table; what is more is counted
MAX_ROWS: Final = 24

#: A quantity of flows or faults: its name, the field, and how it is written
_Quantity = tuple[str, str, Callable[[float | None], str]]


def _count(value: float | None) -> str:
    return NONE if value is None else count_text(value)


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f} s"


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.2f} %"


def _full(value: float | None) -> str:
    return "no dip" if value == 0 else time_text(value)


def _size(value: float | None) -> str:
    return NONE if value is None else bytes_text(int(value))


_FLOW: Final[Sequence[_Quantity]] = (
    ("completion", "completion_ns", time_text),
    ("rate", "rate_bps", rate_text),
    ("size", "size_bytes", _size),
    ("packets", "packets", _count),
    ("resent", "retransmissions", _count),
    ("timeouts", "timeouts", _count),
    ("trims", "trims", _count),
    ("ECN", "ecn_marked", _count),
)
_FAULT: Final[Sequence[_Quantity]] = (
    ("first EV out", "first_out_ns", time_text),
    ("last EV out", "last_out_ns", time_text),
    ("EVs out", "evs_out", _count),
    ("frames lost", "lost", _count),
    ("data into it", "packets_sent", _count),
    ("lowest rate", "lowest_rate_bps", rate_text),
    ("full after", "full_rate_ns", _full),
    ("repaired: full", "recovery_ns", _full),
)


def read_record(path: Path) -> RunRecord:
    """The record in a file, or in a run's folder. Raises RecordError, naming the file."""
    file = path / REPORT_FILE if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise RecordError(f"{file}: cannot be read: {why}") from None
    try:
        return from_json(json.loads(text, parse_int=_integer))
    except RecordError as error:
        raise RecordError(f"{file}: no record of a run: {error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file}: no record of a run: not JSON: {error}") from None


def _integer(digits: str) -> int:
    """Beyond 64 bits it is no time or size, and too large to be divided as a float."""
    value = int(digits)
    if value.bit_length() > 64:
        raise ValueError(f"{digits[:24]}...: has more than 64 bits")
    return value


def print_comparison(console: Console, a: RunRecord, b: RunRecord) -> None:
    """All tables. What only one of them has is named in one line each."""
    out = Out(console)
    for letter, record in (("A", a), ("B", b)):
        clock = f"{record.clock} time" + (f" on {record.target}" if record.target else "")
        out.prose(
            f"[bold]{letter}[/]  {escape(record.scenario)}, {record.fabric.name}, {clock}, seed "
            f"{record.seed}: {time_text(record.end_ns)}, {_verdict(record)}"
        )
    for line in _differences(a, b):
        out.prose(f"   {line}")
    _run(out, a, b)
    _flows(out, a, b)
    _planes(out, a, b)
    _faults(out, a, b)
    _ev_changes(out, a, b)


def _verdict(record: RunRecord) -> str:
    failures = len(record.failures)
    if not failures:
        return "[green]all as expected[/]"
    return f"[red]{failures} expectation{'s' if failures > 1 else ''} not met[/]"


def _differences(a: RunRecord, b: RunRecord) -> Iterator[str]:
    shape_a, shape_b = (
        (each.planes, each.t0_per_plane, each.t1_per_plane, each.hosts_per_t0)
        for each in (a.fabric, b.fabric)
    )
    if shape_a != shape_b:
        shapes = (
            "{} planes x {} T0 x {} T1 x {} hosts".format(*each) for each in (shape_a, shape_b)
        )
        yield f"the fabrics differ: {' and '.join(shapes)}"
    for letter, one, other in (("A", a, b), ("B", b, a)):
        only = [
            *_only("flow", one.flows, other.flows),
            *_only("fault", one.faults, other.faults),
        ]
        if only:
            yield f"only in {letter}: {escape(', '.join(only))}"


def _only(
    kind: str,
    some: Sequence[FlowRecord] | Sequence[FaultRecord],
    others: Sequence[FlowRecord] | Sequence[FaultRecord],
) -> Iterator[str]:
    there = {each.name for each in others}
    yield from (f"{kind} {each.name}" for each in some if each.name not in there)


def _run(out: Out, a: RunRecord, b: RunRecord) -> None:
    rows = [
        ("duration", *_three(a.end_ns, b.end_ns, time_text)),
        ("base RTT", *_three(a.fabric.base_rtt_ns, b.fabric.base_rtt_ns, time_text)),
    ]
    for name in _union(a.totals, b.totals):
        rows.append((name, *_three(a.totals.get(name), b.totals.get(name), _count)))
    if a.cpu_s or b.cpu_s:
        cpu_a, cpu_b = (sum(each.cpu_s.values()) if each.cpu_s else None for each in (a, b))
        rows.append(("CPU, all processes", *_three(cpu_a, cpu_b, _seconds)))
    out.table("whole run", ("", "A", "B", "B/A"), rows)


def _flows(out: Out, a: RunRecord, b: RunRecord) -> None:
    of_b = {each.name: each for each in b.flows}
    pairs = [(each, of_b[each.name]) for each in a.flows if each.name in of_b]
    _quantities(out, "flows", pairs, _FLOW, lambda flow: str(flow.state))


def _faults(out: Out, a: RunRecord, b: RunRecord) -> None:
    of_b = {each.name: each for each in b.faults}
    pairs = [(each, of_b[each.name]) for each in a.faults if each.name in of_b]
    _quantities(out, "faults", pairs, _FAULT, lambda fault: "" if fault.begun else "never began")


def _quantities(
    out: Out,
    title: str,
    pairs: Sequence[tuple[FlowRecord, FlowRecord] | tuple[FaultRecord, FaultRecord]],
    quantities: Sequence[_Quantity],
    states: Callable[[Any], str],
) -> None:
    """A row for each quantity of each thing that both have; none for what is 0 in both."""
    rows: list[tuple[str, ...]] = []
    for one, other in pairs[:MAX_ROWS]:
        name = one.name
        here, there = states(one), states(other)
        if here != there or here not in ("done", ""):
            rows.append((name, "state", here or "begun", there or "begun", ""))
            name = ""
        for what, attribute, text in quantities:
            values: list[float | None] = [getattr(each, attribute) for each in (one, other)]
            if any(values) or values.count(None) == 1:
                rows.append((name, what, *_three(values[0], values[1], text)))
                name = ""
    if rows:
        out.table(title, ("", "", "A", "B", "B/A"), rows)
    if len(pairs) > MAX_ROWS:
        out.line(f"  … and {len(pairs) - MAX_ROWS} more")


def _planes(out: Out, a: RunRecord, b: RunRecord) -> None:
    shares = [_plane_shares(a), _plane_shares(b)]
    count = max(map(len, shares))
    if not count:
        return
    rows = []
    for plane in range(count):
        values = [each[plane] if plane < len(each) else None for each in shares]
        rows.append((f"plane {plane}", *_three(values[0], values[1], _percent)))
    out.table("share of data sent", ("", "A", "B", "B/A"), rows)


def _plane_shares(record: RunRecord) -> list[float]:
    sent = [totals[-1] if totals else 0 for totals in record.series.plane_bytes]
    total = sum(sent)
    return [size / total for size in sent] if total else []


def _ev_changes(out: Out, a: RunRecord, b: RunRecord) -> None:
    names = _union(a.ev_changes, b.ev_changes)
    rows = [
        (name, *_three(a.ev_changes.get(name, 0), b.ev_changes.get(name, 0), _count))
        for name in names
    ]
    if rows:
        out.table("EV changes", ("", "A", "B", "B/A"), rows)


def _union(some: Mapping[str, object], others: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys([*some, *others]))


def _three(
    a: float | None, b: float | None, text: Callable[[float | None], str]
) -> tuple[str, str, str]:
    """Both values and the ratio."""
    return text(a), text(b), ratio_text(a, b)


def ratio_text(a: float | None, b: float | None) -> str:
    """B over A; nothing where there is none."""
    if not a or b is None:
        return NONE
    if a == b:
        return "1"
    ratio = b / a
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"
