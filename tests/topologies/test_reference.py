"""The reference in docs/ is what the schema says today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topologies import reference

DOCS = Path(__file__).parents[2] / "docs"
HOW = "stale: run `python -m topologies.reference docs`"


@pytest.mark.parametrize("kind", reference.REFERENCES, ids=lambda kind: kind.page_file)
def test_json_schema_is_fresh(kind: reference.Reference) -> None:
    assert (DOCS / kind.schema_file).read_text() == reference.schema_text(kind), HOW


@pytest.mark.parametrize("kind", reference.REFERENCES, ids=lambda kind: kind.page_file)
def test_page_is_fresh(kind: reference.Reference) -> None:
    page = (DOCS / kind.page_file).read_text()
    assert reference.page_text(page, kind) == page, HOW


def test_making_it_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / reference.PAGE_FILE).write_text(
        f"before\n{reference.BEGIN}\nstale line\n{reference.END}!"
    )
    reference.main(tmp_path)
    once = (tmp_path / reference.PAGE_FILE).read_text()
    reference.main(tmp_path)
    assert (tmp_path / reference.PAGE_FILE).read_text() == once
    assert once.startswith("before\n")
    assert once.endswith(f"{reference.END}!")
    assert "stale line" not in once
    assert "| `rate` or `rate_bps` | none | Link rate; null means unlimited |" in once
    assert json.loads((tmp_path / reference.SCHEMA_FILE).read_text())["title"] == "TopologyFile"
