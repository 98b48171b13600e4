"""Whether what a record says of one thing fits what it says of others, beyond the types of fields.

A record that our own commands wrote is consistent; a file that was cut, edited or made by another
program need not be, and tables made of it would be wrong without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reports.record import FaultRecord, FlowRecord, RunRecord

CLOCKS: Final = ("virtual", "real")
TIERS: Final = ("host", "fabric")
STATES: Final = ("done", "failed", "unfinished")


def inconsistencies(record: RunRecord) -> Iterator[str]:
    """What does not fit, a line each: the field, its value, and what would be right."""
    yield from _least(record.interval_ns, 1, "interval_ns")
    yield from _least(record.end_ns, 0, "end_ns")
    yield from _one_of(record.clock, CLOCKS, "clock")
    fabric = record.fabric
    for name in ("planes", "t0_per_plane", "t1_per_plane", "hosts_per_t0"):
        yield from _least(getattr(fabric, name), 1, f"fabric.{name}")
    yield from _series(record)
    yield from _named_once([each.name for each in record.links], "links")
    for index, link in enumerate(record.links):
        yield from _one_of(link.tier, TIERS, f"links.{index}.tier")
        if not 0 <= link.plane < fabric.planes:
            yield (
                f"links.{index}.plane: {link.plane} is no plane: fabric.planes is {fabric.planes}"
            )
    yield from _named_once([each.name for each in record.flows], "flows")
    for index, flow in enumerate(record.flows):
        yield from _flow(flow, f"flows.{index}", record)
    yield from _named_once([each.name for each in record.faults], "faults")
    for index, fault in enumerate(record.faults):
        yield from _fault(fault, f"faults.{index}", record)
    for index, span in enumerate(record.ev_spans):
        yield from _not_before(span.start_ns, span.end_ns, f"ev_spans.{index}", "start_ns")


def _series(record: RunRecord) -> Iterator[str]:
    series = record.series
    samples = len(series.delivered_bytes)
    if not samples:
        yield "series.delivered_bytes: is empty: it has a value at 0 at least"
    if len(series.plane_bytes) != record.fabric.planes:
        yield (
            f"series.plane_bytes: is of {len(series.plane_bytes)} planes: fabric.planes is "
            f"{record.fabric.planes}"
        )
    others = {f"plane_bytes.{plane}": values for plane, values in enumerate(series.plane_bytes)} | {
        name: getattr(series, name) for name in ("trimmed", "marked", "lost", "retransmitted")
    }
    others["queued"] = series.queued
    for name, values in others.items():
        if len(values) != samples:
            yield (
                f"series.{name}: has {len(values)} values: series.delivered_bytes has {samples}, "
                "and all have as many"
            )


def _flow(flow: FlowRecord, place: str, record: RunRecord) -> Iterator[str]:
    yield from _one_of(flow.state, STATES, f"{place}.state")
    if flow.state == "done" and flow.completion_ns is None:
        yield f"{place}.completion_ns: null: a flow whose state is done has a time"
    for name in ("start_ns", "size_bytes", "packets", "retransmissions", "timeouts", "trims"):
        yield from _least(getattr(flow, name), 0, f"{place}.{name}")
    yield from _least(flow.rate_bps, 0, f"{place}.rate_bps")
    samples = len(record.series.delivered_bytes)
    if len(flow.delivered_bytes) > samples:
        yield (
            f"{place}.delivered_bytes: has {len(flow.delivered_bytes)} values: the run has "
            f"{samples}"
        )


def _fault(fault: FaultRecord, place: str, record: RunRecord) -> Iterator[str]:
    yield from _least(fault.at_ns, 0, f"{place}.at_ns")
    yield from _not_before(fault.at_ns, fault.end_ns, place, "at_ns")
    yield from _least(fault.lost, 0, f"{place}.lost")
    known = {each.name for each in record.links}
    for name in fault.links:
        if name not in known:
            yield f"{place}.links: {name!r} is no link: links has no such name"


def _least(value: float, least: int, place: str) -> Iterator[str]:
    if value < least:
        yield f"{place}: {value}: it must be at least {least}"


def _one_of(value: str, words: Sequence[str], place: str) -> Iterator[str]:
    if value not in words:
        yield f"{place}: {value!r}: it must be {', '.join(words[:-1])} or {words[-1]}"


def _not_before(start_ns: int, end_ns: int | None, place: str, start: str) -> Iterator[str]:
    if end_ns is not None and end_ns < start_ns:
        yield f"{place}.end_ns: {end_ns} is before {place}.{start}, {start_ns}"


def _named_once(names: Sequence[str], place: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield f"{place}.{index}.name: {name!r} is there twice"
        seen.add(name)
