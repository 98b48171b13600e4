"""Which entries a TableEntry message selects, and the message that names one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.errors import invalid, not_found
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import ActionCall, Entry, EntryMissing


def select_entries(state: PipelineState, message: Any) -> Iterator[tuple[BoundTable, Entry]]:
    """Entries that the key fields of a TableEntry select, wildcards included.

    INVALID_ARGUMENT for keys that are not valid for the table. Entries that do not exist are not
    selected.
    """
    if message.is_default_action and (len(message.match) or message.priority):
        raise invalid("table_entry: the default entry has no match and no priority")
    tables = (
        [state.binding.table(message.table_id)]
        if message.table_id
        else list(state.binding.tables.values())
    )
    for bound in tables:
        if message.is_default_action:
            yield bound, default_entry(bound)
            continue
        priority: int = message.priority
        if not len(message.match):
            for entry in bound.table.entries():
                if not priority or entry.priority == priority:
                    yield bound, entry
            continue
        match = bound.match.decode(message.match)
        if priority or not bound.schema.needs_priority:
            try:
                yield bound, bound.table.get(match, priority)
            except EntryMissing:
                continue
        else:
            for entry in bound.table.entries():
                if entry.match == match:
                    yield bound, entry


def default_entry(bound: BoundTable) -> Entry:
    """The default entry; a table that the program gives none does nothing on a miss (NoAction)."""
    try:
        return bound.table.default
    except EntryMissing:
        for schema, _ in bound.schema.actions.values():
            if schema.name == "NoAction":
                return Entry((), ActionCall("NoAction"))
        raise not_found(f"{bound.label} has no default action") from None


def encode_key(bound: BoundTable, entry: Entry, *, is_default: bool) -> Any:
    """A TableEntry message with what identifies the entry."""
    message = p4runtime_pb2.TableEntry(table_id=bound.schema.id)
    if is_default:
        message.is_default_action = True
        return message
    bound.match.encode(entry.match, message.match)
    if entry.priority:
        message.priority = entry.priority
    return message
