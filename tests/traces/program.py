"""What a trace must know of a compiled program: the names and widths that it refers to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from p4src import compiled


class UnknownName(ValueError):
    """The program has nothing of this name; the message lists what it has."""


@dataclass(frozen=True, slots=True)
class Field:
    """A key field of a table or a parameter of an action. `kind` is BMv2's match kind, or ""."""

    name: str
    bits: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table: its key, its actions by full name with their parameters, its action profile."""

    name: str
    key: tuple[Field, ...]
    actions: dict[str, tuple[Field, ...]]
    profile: str | None


@dataclass(frozen=True)
class ProgramShape:
    """All names of a program that a trace can refer to, full."""

    name: str
    tables: dict[str, TableShape]
    profiles: dict[str, TableShape]
    counters: dict[str, int]
    registers: dict[str, int]


def _field_bits(tree: Any, target: list[str]) -> int:
    header, name = target
    type_name = next(h["header_type"] for h in tree["headers"] if h["name"] == header)
    fields = next(t["fields"] for t in tree["header_types"] if t["name"] == type_name)
    bits = next(f[1] for f in fields if f[0] == name)
    assert isinstance(bits, int)
    return bits


@cache
def shape(name: str) -> ProgramShape:
    """Return the shape of `p4src/<name>.p4` as compiled; raises KeyError."""
    tree = json.loads(compiled(name).json_text)
    parameters = {
        a["id"]: tuple(Field(p["name"], p["bitwidth"]) for p in a["runtime_data"])
        for a in tree["actions"]
    }
    tables = {}
    for pipeline in tree["pipelines"]:
        for table in pipeline["tables"]:
            if table["key"]:
                tables[table["name"]] = TableShape(
                    table["name"],
                    tuple(
                        Field(k["name"], _field_bits(tree, k["target"]), k["match_type"])
                        for k in table["key"]
                    ),
                    {
                        action: parameters[action_id]
                        for action, action_id in zip(
                            table["actions"], table["action_ids"], strict=True
                        )
                    },
                    table.get("action_profile"),
                )
    return ProgramShape(
        name,
        tables,
        {table.profile: table for table in tables.values() if table.profile},
        {c["name"]: c["size"] for c in tree["counter_arrays"]},
        {r["name"]: r["size"] for r in tree["register_arrays"]},
    )


def resolve(name: str, full_names: object, what: str) -> str:
    """Return the one full name that is `name` or ends in `.name`.

    Raises:
        UnknownName: none or several do.
    """
    names = sorted(full_names)  # type: ignore[call-overload]
    if name in names:
        return name
    found = [full for full in names if full.endswith("." + name)]
    if len(found) == 1:
        return str(found[0])
    problem = f"is ambiguous: {', '.join(found)}" if found else f"is none of: {', '.join(names)}"
    raise UnknownName(f"{what} {name!r} {problem}")
