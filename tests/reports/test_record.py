"""The record as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reports.record import VERSION, RecordError, from_json
from tests.reports.samples import fault, record, span


def test_json_keeps_everything() -> None:
    made = record(faults=[fault("cut"), fault("stays", end_ns=None)], spans=[span(7)])
    assert from_json(json.loads(json.dumps(made.to_json()))) == made
    assert made.to_json()["version"] == VERSION


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": VERSION + 1}, f"version: {VERSION + 1} is not known: it must be {VERSION}"),
        ({"interval_ns": "often"}, "interval_ns: 'often': Input should be a valid integer"),
        ({"interval_ns": 0}, "interval_ns: 0: it must be at least 1"),
        ({"end_ns": -1}, "end_ns: -1: it must be at least 0"),
        ({"clock": "wall"}, "clock: 'wall': it must be virtual or real"),
        ({"flows": [{}]}, "flows.0.name: "),
    ],
)
def test_what_is_no_record_is_refused_by_its_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordError) as refused:
        from_json(record().to_json() | change)
    assert str(refused.value).startswith(says)


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(RecordError, match="version: None is not known"):
        from_json([])


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("fabric.planes", 0, "fabric.planes: 0: it must be at least 1"),
        ("fabric.planes", 3, "series.plane_bytes: is of 2 planes: fabric.planes is 3"),
        ("series.delivered_bytes", [], "series.delivered_bytes: is empty"),
        ("series.queued", [0], "series.queued: has 1 values: series.delivered_bytes has 5"),
        ("series.plane_bytes.1", [0], "series.plane_bytes.1: has 1 values"),
        ("links.0.tier", "spine", "links.0.tier: 'spine': it must be host or fabric"),
        ("links.0.plane", 2, "links.0.plane: 2 is no plane: fabric.planes is 2"),
        ("links.1.name", "h0--p0-t0-0", "links.1.name: 'h0--p0-t0-0' is there twice"),
        ("flows.0.state", "over", "flows.0.state: 'over': it must be done, failed or unfinished"),
        ("flows.0.completion_ns", None, "flows.0.completion_ns: null: a flow whose state is done"),
        ("flows.0.packets", -4, "flows.0.packets: -4: it must be at least 0"),
        ("flows.0.delivered_bytes", [0] * 6, "flows.0.delivered_bytes: has 6 values: the run has"),
        ("faults.0.end_ns", 4999, "faults.0.end_ns: 4999 is before faults.0.at_ns, 5000"),
        ("faults.0.links", ["x--y"], "faults.0.links: 'x--y' is no link"),
        ("ev_spans.0.end_ns", 1, "ev_spans.0.end_ns: 1 is before ev_spans.0.start_ns, 7000"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(place: str, value: object, says: str) -> None:
    document = record(faults=[fault("cut")], spans=[span(7)]).to_json()
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    inside: Any = document
    for part in path:
        inside = inside[part]
    inside[last] = value
    with pytest.raises(RecordError) as refused:
        from_json(document)
    assert str(refused.value).startswith(says)
