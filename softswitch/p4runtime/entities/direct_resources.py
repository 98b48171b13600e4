"""Direct counters and meters, whether they come in a TableEntry or in entities of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softswitch.externs import MeterRate
from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.entities.base import INT64_MAX, count
from softswitch.p4runtime.entities.meter_config import decode_rates
from softswitch.p4runtime.entities.selection import select_entries
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import Entry


def encode_counter(entry: Entry, message: Any) -> None:
    """Fill in a CounterData message; zeros when the entry never counted."""
    packets, octets = entry.counter_data or (0, 0)
    message.SetInParent()
    message.packet_count = min(packets, INT64_MAX)
    message.byte_count = min(octets, INT64_MAX)


def check_meter_counters(message: Any, field: str, what: str) -> None:
    """Meters of this switch do not count per colour (section "MeterCounterData")."""
    if message.HasField(field):
        raise unimplemented(f"{what}: per-colour meter counters are not supported ({field})")


def counter_data_of(message: Any, bound: BoundTable) -> list[int]:
    """[packets, bytes] of a message whose counter_data is set."""
    data = message.counter_data
    return [count(data.packet_count, bound.label), count(data.byte_count, bound.label)]


def meter_rates_of(message: Any, bound: BoundTable) -> tuple[MeterRate, ...]:
    """Rates of the direct meter; none when meter_config is unset."""
    meter = bound.schema.direct_meter
    if meter is None or not message.HasField("meter_config"):
        return ()
    return decode_rates(message.meter_config, meter.type, bound.label)


def select_one(state: PipelineState, message: Any, kind: str) -> tuple[BoundTable, Entry]:
    """The entry that a write of a direct resource names; NOT_FOUND when it does not exist."""
    if not message.HasField("table_entry"):
        raise invalid(f"{kind}: table_entry is not set")
    key = message.table_entry
    bound = state.binding.table(key.table_id)
    if key.is_default_action:
        for selected in select_entries(state, key):
            return selected
    if not bound.schema.needs_priority and key.priority:
        raise invalid(f"{bound.label}: priority {key.priority}, want 0")
    return bound, bound.table.get(bound.match.decode(key.match), key.priority)


def same_entry(bound: BoundTable, entry: Entry) -> Entry:
    """The entry that has this one's key now; undoing later updates may have replaced it."""
    if not entry.match:
        return bound.table.default
    return bound.table.get(entry.match, entry.priority)


def check_direct(
    state: PipelineState, message: Any, kind: str, check: Callable[[BoundTable], None]
) -> bool:
    """Whether a read of a direct resource is a wildcard.

    INVALID_ARGUMENT for tables without the resource.
    """
    if not message.HasField("table_entry"):
        raise invalid(f"{kind}: table_entry is not set")
    key = message.table_entry
    if key.table_id == 0:
        return True
    check(state.binding.table(key.table_id))
    return not len(key.match) and not key.is_default_action
