"""Reference of topology and scenario files, made from their schemas.

`python -m topologies.reference DOCS` writes `topology.schema.json` and `scenario.schema.json` into
a directory, and the tables of fields into `topology-file.md` and `scenario-file.md` there, between
two marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from topologies.documents import sections_in
from topologies.scenario_schema import ScenarioFile
from topologies.scenario_schema import json_schema as scenario_json_schema
from topologies.schema import Section, TopologyFile, json_schema
from topologies.units import delay_text, size_text


@dataclass(frozen=True, slots=True)
class Reference:
    """One kind of file and where its reference is written."""

    schema: type[Section]
    json_schema: Callable[[], dict[str, Any]]
    schema_file: str
    page_file: str


TOPOLOGY = Reference(TopologyFile, json_schema, "topology.schema.json", "topology-file.md")
SCENARIO = Reference(ScenarioFile, scenario_json_schema, "scenario.schema.json", "scenario-file.md")
REFERENCES = (TOPOLOGY, SCENARIO)
SCHEMA_FILE = TOPOLOGY.schema_file
PAGE_FILE = TOPOLOGY.page_file
BEGIN = "<!-- fields: made by `python -m topologies.reference docs` -->"
END = "<!-- end of fields -->"

_UNITS: dict[str, Callable[[int], str]] = {"_ns": delay_text, "_bytes": size_text}


def schema_text(reference: Reference = TOPOLOGY) -> str:
    """The JSON schema of a kind of file."""
    return json.dumps(reference.json_schema(), indent=2) + "\n"


def fields_text(reference: Reference = TOPOLOGY) -> str:
    """Markdown tables of every section's fields, the top one first."""
    return "\n".join(_section(reference.schema, "")).strip() + "\n"


def page_text(page: str, reference: Reference = TOPOLOGY) -> str:
    """A page with the tables between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{fields_text(reference)}\n{END}{after}"


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
        shown = field.alias or name
        meaning = field.description or _one_line(inner.__doc__ if inner and inner.__doc__ else "")
        if inner is not None:
            below.append((inner, f"{path}.{shown}" if path else shown, _is_list(field.annotation)))
            yield f"| `{shown}` | section | {meaning} |"
            continue
        written = f"`{shown}`"
        if name in section.quantities:
            written += f" or `{section.quantities[name]}`"
        yield f"| {written} | {_default(section, name, field)} | {meaning} |"
    yield ""
    for inner, inner_path, is_list in below:
        yield from _section(inner, inner_path + ("[]" if is_list else ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is list


def _default(section: type[Section], name: str, field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined or name in section.required_quantities:
        return "required" if field.default_factory is None else "none"
    if value is None:
        return "none"
    if value == "":
        return "empty"
    plain = section.quantities.get(name, "")
    for ending, text in _UNITS.items():
        if plain.endswith(ending) or _is_quantity(field, ending):
            return f"`{text(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def _is_quantity(field: FieldInfo, ending: str) -> bool:
    """Whether a field without a plain twin is written with a unit of this kind."""
    kind = {"_ns": "Time", "_bytes": "Bytes"}[ending]
    return any(
        isinstance(each, WithJsonSchema)
        and str((each.json_schema or {}).get("description", "")).startswith(kind)
        for each in field.metadata
    )


def main(directory: Path) -> None:
    """Writes the files of each kind whose page is in the directory."""
    for reference in REFERENCES:
        page = directory / reference.page_file
        if not page.exists():
            continue
        schema_file = directory / reference.schema_file
        schema_file.write_text(schema_text(reference), encoding="utf-8")
        page.write_text(page_text(page.read_text(encoding="utf-8"), reference), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
