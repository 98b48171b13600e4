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
        ({"interval_ns": "often"}, "interval_ns: "),
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
