"""What a switch holds, as aligned text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from controller.client import CounterCell
from controller.columns import columns, counted, entries
from controller.entries import Entity, Group, Member, TableEntry
from controller.p4info import Schema
from controller.text import call_text, match_text, target_text, value_text


def contents_text(
    contents: Sequence[Entity], schema: Schema, only: Callable[[str], bool]
) -> Iterator[str]:
    """Tables and action profiles of a switch that `only` lets through."""
    for profile in schema.profiles:
        of_profile = [
            e for e in contents if not isinstance(e, TableEntry) and e.profile == profile.name
        ]
        if of_profile and only(profile.name):
            yield ""
            what = counted(len(of_profile), "member or group", "members and groups")
            yield f"{profile.name}, {what}"
            yield from columns(
                ["id", "holds"], [_profile_row(entity, schema) for entity in of_profile], "  "
            )
    for table in schema.tables:
        of_table = [e for e in contents if isinstance(e, TableEntry) and e.table == table.name]
        if only(table.name):
            yield ""
            yield f"{table.name}, {entries(len(of_table))}"
            if of_table:
                priorities = any(entry.priority for entry in of_table)
                yield from columns(
                    [
                        *(key.name for key in table.keys),
                        *(["priority"] if priorities else []),
                        "action",
                    ],
                    [
                        [
                            *(
                                match_text(key, value)
                                for key, value in zip(table.keys, entry.match, strict=True)
                            ),
                            *([str(entry.priority)] if priorities else []),
                            target_text(entry.target, schema),
                        ]
                        for entry in of_table
                    ],
                    "  ",
                )


def _profile_row(entity: Member | Group, schema: Schema) -> list[str]:
    if isinstance(entity, Member):
        return [f"member {entity.member_id}", call_text(entity.call, schema)]
    return [f"group {entity.group_id}", value_text(entity, schema)]


def contents_json(contents: Sequence[Entity], schema: Schema) -> list[dict[str, Any]]:
    """Tables and action profiles of a switch, an object an entry."""
    documents: list[dict[str, Any]] = []
    for entity in contents:
        if isinstance(entity, TableEntry):
            keys = schema.tables.name(entity.table).keys
            documents.append(
                {
                    "table": entity.table,
                    "match": {
                        key.name: match_text(key, value)
                        for key, value in zip(keys, entity.match, strict=True)
                    },
                    **({"priority": entity.priority} if entity.priority else {}),
                    "action": target_text(entity.target, schema),
                }
            )
        else:
            id, holds = _profile_row(entity, schema)
            documents.append({"action_profile": entity.profile, "id": id, "holds": holds})
    return documents


def counters_text(cells: Sequence[CounterCell]) -> list[str]:
    """Counter cells, a line each."""
    if not cells:
        return ["no counter has counted anything"]
    return columns(
        ["counter", "port", "packets", "bytes"],
        [[c.counter, str(c.index), str(c.packets), str(c.bytes)] for c in cells],
    )


def counters_json(cells: Sequence[CounterCell]) -> list[dict[str, Any]]:
    """Counter cells, an object each."""
    return [
        {"counter": c.counter, "port": c.index, "packets": c.packets, "bytes": c.bytes}
        for c in cells
    ]
