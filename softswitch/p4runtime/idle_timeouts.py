"""Idle timeouts of table entries (section "Table Idle Timeout Notification").

The data plane stamps `Entry.last_hit_ns`; this looks at the stamps when the earliest timeout may be
over. Entries stay in their table: what happens to an idle entry is the client's decision.
"""

from __future__ import annotations

from typing import Any

from softswitch.p4runtime.entities.selection import encode_key
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import EntryMissing


def collect_idle(state: PipelineState, now_ns: int) -> tuple[list[Any], int | None]:
    """TableEntry messages of the entries that went idle, and when to look again (None = never).

    An entry that is reported starts its timeout afresh. To be called with the switch's lock held.
    """
    idle: list[Any] = []
    next_ns: int | None = None
    for key, started_ns in list(state.idle_started_ns.items()):
        table_id, (match, priority) = key
        bound = state.binding.tables[table_id]
        try:
            entry = bound.table.get(match, priority)
        except EntryMissing:
            del state.idle_started_ns[key]
            continue
        since_ns = max(started_ns, entry.last_hit_ns)
        if now_ns - since_ns >= entry.idle_timeout_ns:
            message = encode_key(bound, entry, is_default=False)
            message.controller_metadata = entry.controller_metadata
            message.metadata = entry.metadata
            message.idle_timeout_ns = entry.idle_timeout_ns
            idle.append(message)
            since_ns = state.idle_started_ns[key] = now_ns
        due_ns = since_ns + entry.idle_timeout_ns
        next_ns = due_ns if next_ns is None else min(next_ns, due_ns)
    return idle, next_ns
