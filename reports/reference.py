"""The reference of a run's record, made from `reports.record`.

    python -m reports.reference docs

writes `report.schema.json` into a folder, and the tables of fields into `report-json.md` there,
between two marks.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from reports.record import RunRecord

SCHEMA_FILE: Final = "report.schema.json"
PAGE_FILE: Final = "report-json.md"
BEGIN: Final = "<!-- fields: made by `python -m reports.reference docs` -->"
END: Final = "<!-- end of fields -->"


def schema_text() -> str:
    """The JSON schema of a record."""
    schema = TypeAdapter(RunRecord).json_schema()
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(document, indent=2) + "\n"


def page_text(page: str) -> str:
    """A page with the tables between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{fields_text()}\n{END}{after}"


def fields_text() -> str:
    """Markdown of each class: what it says of itself, and its fields; the record itself first."""
    parts = []
    for index, kind in enumerate(_classes(RunRecord)):
        name = kind.__name__ if index else "RunRecord, the whole document"
        parts.append(f"### {name}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n")
        parts.append("\n".join(["| field | type | |", "|---|---|---|", *_rows(kind)]) + "\n")
    return "\n".join(parts)


def _classes(kind: Any) -> list[Any]:
    """A dataclass and those that its fields are made of, each once."""
    found = [kind]
    for each in found:
        for hint in get_type_hints(each).values():
            found.extend(inner for inner in _inside(hint) if inner not in found)
    return found


def _inside(hint: Any) -> Iterator[Any]:
    if is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from _inside(inner)


def _rows(kind: Any) -> Iterator[str]:
    hints = get_type_hints(kind)
    for each in fields(kind):
        yield f"| `{each.name}` | {_type(hints[each.name])} | {_default(each)} |"


def _default(each: Field[Any]) -> str:
    if each.default is MISSING and each.default_factory is MISSING:
        return ""
    value = each.default_factory() if each.default_factory is not MISSING else each.default
    return f"may be left out: `{json.dumps(value)}`"


def _type(hint: Any) -> str:
    """As JSON has it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in inner)
    if origin is list:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object, each {_type(inner[1])}"
    if is_dataclass(hint):
        name = str(getattr(hint, "__name__", hint))
        return f"[{name}](#{name.lower()})"
    names = {int: "integer", float: "number", str: "text", bool: "true or false"}
    return names.get(hint, "null")


def main(directory: Path) -> None:
    """Writes both files, where the page is in the directory."""
    page = directory / PAGE_FILE
    if page.exists():
        (directory / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
        page.write_text(page_text(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
