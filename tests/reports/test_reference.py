"""The reference of the record in docs/ is what the record is today."""

from __future__ import annotations

import json
from pathlib import Path

from reports import reference
from reports.record import RunRecord, from_json
from tests.reports.samples import record

DOCS = Path(__file__).parents[2] / "docs"
HOW = "stale: run `python -m reports.reference docs`"


def test_schema_is_fresh() -> None:
    assert (DOCS / reference.SCHEMA_FILE).read_text() == reference.schema_text(), HOW


def test_page_is_fresh() -> None:
    page = (DOCS / reference.PAGE_FILE).read_text()
    assert reference.page_text(page) == page, HOW


def test_every_field_of_every_class_has_a_row() -> None:
    text = reference.fields_text()
    assert "| `first_out_ns` | integer or null |  |" in text
    assert "| `flows` | list of [FlowRecord](#flowrecord) |  |" in text
    assert "| `cpu_s` | object, each number | may be left out: `{}` |" in text
    for name in RunRecord.__dataclass_fields__:
        assert f"| `{name}` |" in text


def test_what_the_schema_requires_is_what_a_reader_requires() -> None:
    schema = json.loads(reference.schema_text())
    whole = record().to_json()
    least = {name: whole[name] for name in (*schema["required"], "version")}
    assert from_json(least) == record()
    assert "tables" not in least


def test_making_it_twice_changes_nothing(tmp_path: Path) -> None:
    page = tmp_path / reference.PAGE_FILE
    page.write_text(f"before\n{reference.BEGIN}\nstale\n{reference.END}!")
    reference.main(tmp_path)
    once = page.read_text()
    reference.main(tmp_path)
    assert page.read_text() == once
    assert once.startswith("before\n") and once.endswith(f"{reference.END}!")
    assert "stale" not in once
