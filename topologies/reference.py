"""Reference of the topology file, made from its schema: `python -m topologies.reference DOCS`.

Writes `topology.schema.json` into a directory, and the tables of fields into `topology-file.md`
there, between two marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from topologies.documents import sections_in
from topologies.schema import Section, TopologyFile, json_schema
from topologies.units import delay_text, size_text

SCHEMA_FILE = "topology.schema.json"
PAGE_FILE = "topology-file.md"
BEGIN = "<!-- fields: made by `python -m topologies.reference docs` -->"
END = "<!-- end of fields -->"

_UNITS: dict[str, Callable[[int], str]] = {"_ns": delay_text, "_bytes": size_text}


def schema_text() -> str:
    """The JSON schema of a topology file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def fields_text() -> str:
    """Markdown tables of every section's fields, the top one first."""
    return "\n".join(_section(TopologyFile, "")).strip() + "\n"


def page_text(page: str) -> str:
    """A page with the tables between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{fields_text()}\n{END}{after}"


def _section(section: type[Section], path: str) -> Iterator[str]:
    yield f"### `{path or 'top level'}`" if path else "### Top level"
    yield ""
    yield _one_line(section.__doc__ or "")
    yield ""
    yield "| field | default | meaning |"
    yield "|---|---|---|"
    twins = {plain: name for name, plain in section.quantities.items()}
    below = []
    for name, field in section.model_fields.items():
        if name in twins:
            continue
        inner = next(sections_in(field.annotation), None)
        meaning = field.description or _one_line(inner.__doc__ if inner and inner.__doc__ else "")
        if inner is not None:
            below.append((inner, f"{path}.{name}" if path else name, _is_list(field.annotation)))
            yield f"| `{name}` | section | {meaning} |"
            continue
        written = f"`{name}`"
        if name in section.quantities:
            written += f" or `{section.quantities[name]}`"
        yield f"| {written} | {_default(section, name, field.default)} | {meaning} |"
    yield ""
    for inner, inner_path, is_list in below:
        yield from _section(inner, inner_path + ("[]" if is_list else ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is list


def _default(section: type[Section], name: str, value: Any) -> str:
    if value is PydanticUndefined or name in section.required_quantities:
        return "required"
    if value is None:
        return "none"
    plain = section.quantities.get(name, "")
    for ending, text in _UNITS.items():
        if plain.endswith(ending):
            return f"`{text(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def main(directory: Path) -> None:
    """Writes both files."""
    (directory / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
    page = directory / PAGE_FILE
    page.write_text(page_text(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
