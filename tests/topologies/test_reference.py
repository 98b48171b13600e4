"""The reference in docs/ is what the schema says today."""

from __future__ import annotations

import json
from pathlib import Path

from topologies import reference

DOCS = Path(__file__).parents[2] / "docs"
HOW = "stale: run `python -m topologies.reference docs`"


def test_json_schema_is_fresh() -> None:
    assert (DOCS / reference.SCHEMA_FILE).read_text() == reference.schema_text(), HOW


def test_page_is_fresh() -> None:
    page = (DOCS / reference.PAGE_FILE).read_text()
    assert reference.page_text(page) == page, HOW


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
