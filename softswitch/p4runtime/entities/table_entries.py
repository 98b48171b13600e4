"""Table entries, the default ones included, and the direct resources in them.

Sections "TableEntry", "Direct Resources" and "Idle-timeout".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.entities.direct_resources import (
    check_meter_counters,
    counter_data_of,
    encode_counter,
    meter_rates_of,
)
from softswitch.p4runtime.entities.meter_config import encode_rates
from softswitch.p4runtime.entities.selection import encode_key, select_entries
from softswitch.p4runtime.entities.targets import TargetCodec, has_numeric_watch
from softswitch.p4runtime.errors import denied, invalid
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import ActionCall, Entry, Match, OneShot, Target


class TableEntryHandler(EntityHandler):
    """`TableEntry`."""

    kind = "table_entry"

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._binding = state.binding
        self._targets = TargetCodec(state.access)
        self._now_ns = state.access.now_ns

    # -- writes --------------------------------------------------------------------------

    def insert(self, message: Any) -> Undo:
        """Add an entry; also refuses a second one, a full table and a const table."""
        bound = self._binding.table(message.table_id)
        if message.is_default_action:
            raise invalid(f"{bound.label}: the default entry can only be modified")
        if not bound.schema.key.fields:
            raise invalid(f"{bound.label} has no key and so no entries but the default one")
        if bound.schema.is_const:
            raise denied(f"{bound.label} is const, its entries cannot be inserted")
        match, priority = self._key(bound, message)
        self._check_write(bound, message)
        if not message.HasField("action"):
            raise invalid(f"{bound.label}: action is not set")
        target = self._targets.decode(bound, message.action)
        entry = self._entry(bound, message, match, priority, target)
        bound.table.insert(entry)
        entry.last_hit_ns = self._now_ns()
        self._note(bound, None, entry, numeric_watch=has_numeric_watch(message))

        def undo() -> None:
            bound.table.delete(match, priority)
            self._note(bound, entry, None)

        return undo

    def modify(self, message: Any) -> Undo:
        """Replace an entry, the default one included; an unset action keeps the entry's own."""
        bound = self._binding.table(message.table_id)
        self._check_write(bound, message)
        if message.is_default_action:
            return self._modify_default(bound, message)
        match, priority = self._key(bound, message)
        old = bound.table.get(match, priority)
        if bound.schema.is_const or old.is_const:
            return self._modify_const(bound, message, old)
        target = old.target
        had_numeric_watch = numeric_watch = self._has_numeric_watch(bound, old)
        if message.HasField("action"):
            target = self._targets.decode(bound, message.action)
            numeric_watch = has_numeric_watch(message)
        entry = self._entry(bound, message, match, priority, target)
        before = _copy(old)
        bound.table.modify(entry)
        entry.last_hit_ns = self._now_ns()
        self._note(bound, before, entry, numeric_watch=numeric_watch)

        def undo() -> None:
            bound.table.modify(before)
            self._note(bound, entry, before, numeric_watch=had_numeric_watch)

        return undo

    def delete(self, message: Any) -> Undo:
        """Take an entry out. Only its key is looked at."""
        bound = self._binding.table(message.table_id)
        if message.is_default_action:
            raise invalid(f"{bound.label}: the default entry cannot be deleted, modify it")
        if bound.schema.is_const:
            raise denied(f"{bound.label} is const, its entries cannot be deleted")
        match, priority = self._key(bound, message)
        entry = bound.table.get(match, priority)
        if entry.is_const:
            raise denied(f"{bound.label}: this entry is const and cannot be deleted")
        had_numeric_watch = self._has_numeric_watch(bound, entry)
        bound.table.delete(match, priority)
        self._note(bound, entry, None)

        def undo() -> None:
            bound.table.insert(entry)
            self._note(bound, None, entry, numeric_watch=had_numeric_watch)

        return undo

    def _key(self, bound: BoundTable, message: Any) -> tuple[Match, int]:
        """Match and priority, which must be set exactly when the key has room for ambiguity."""
        match = bound.match.decode(message.match)
        priority: int = message.priority
        if bound.schema.needs_priority:
            if priority <= 0:
                raise invalid(f"{bound.label}: priority {priority}, want a number above 0")
        elif priority != 0:
            raise invalid(
                f"{bound.label}: priority {priority}, want 0: "
                "it has no ternary, range or optional field"
            )
        return match, priority

    def _check_write(self, bound: BoundTable, message: Any) -> None:
        """Fields that some tables, or all writes, do not allow."""
        if message.is_const:
            raise invalid(f"{bound.label}: is_const cannot be written")
        if message.HasField("time_since_last_hit"):
            raise invalid(f"{bound.label}: time_since_last_hit cannot be written")
        if message.idle_timeout_ns and not bound.schema.idle_timeout:
            raise invalid(f"{bound.label} does not support idle timeouts (idle_timeout_ns)")
        if message.idle_timeout_ns < 0:
            raise invalid(f"{bound.label}: idle_timeout_ns {message.idle_timeout_ns} is negative")
        if message.HasField("counter_data") and not bound.schema.direct_counter_id:
            raise invalid(f"{bound.label} has no direct counter (counter_data)")
        if message.HasField("meter_config") and bound.schema.direct_meter is None:
            raise invalid(f"{bound.label} has no direct meter (meter_config)")
        check_meter_counters(message, "meter_counter_data", bound.label)

    def _entry(
        self, bound: BoundTable, message: Any, match: Match, priority: int, target: Target
    ) -> Entry:
        counted = counter_data_of(message, bound) if message.HasField("counter_data") else None
        # An empty configuration, not None: an unset meter_config resets the meter.
        rates = meter_rates_of(message, bound) if bound.schema.direct_meter else None
        return Entry(
            match,
            target,
            priority,
            counter_data=counted,
            meter_config=rates,
            controller_metadata=message.controller_metadata,
            metadata=message.metadata,
            idle_timeout_ns=message.idle_timeout_ns,
        )

    def _modify_default(self, bound: BoundTable, message: Any) -> Undo:
        """Section "Default Entry"; an unset action brings the program's own back."""
        table = bound.table
        if len(message.match) or message.priority or message.idle_timeout_ns:
            raise invalid(
                f"{bound.label}: the default entry has no match, priority or idle timeout"
            )
        if bound.schema.const_default_action_id or table.const_default:
            raise denied(f"{bound.label}: the default action is const")
        if bound.profile is not None:
            raise denied(
                f"{bound.label}: the default action of an indirect table is const NoAction"
            )
        before = _copy(table.default)
        was_modified = bound.schema.id in self._state.modified_defaults

        def undo() -> None:
            self._restore_default(bound, before)
            self._note_default(bound, was_modified)

        if not message.HasField("action"):
            table.reset_default()
            self._note_default(bound, False)
            return undo
        target = self._targets.decode(bound, message.action, is_default=True)
        rates = meter_rates_of(message, bound)
        counted = counter_data_of(message, bound) if message.HasField("counter_data") else None
        table.set_default(target)
        entry = table.default
        entry.metadata = message.metadata
        entry.controller_metadata = message.controller_metadata
        if entry.counter_data is not None:
            entry.counter_data[:] = counted or before.counter_data or (0, 0)
        entry.meter_config = rates or None
        self._note_default(bound, True)
        return undo

    def _note_default(self, bound: BoundTable, modified: bool) -> None:
        if modified:
            self._state.modified_defaults.add(bound.schema.id)
        else:
            self._state.modified_defaults.discard(bound.schema.id)

    def _restore_default(self, bound: BoundTable, before: Entry) -> None:
        bound.table.set_default(before.target)
        entry = bound.table.default
        entry.metadata = before.metadata
        entry.controller_metadata = before.controller_metadata
        if entry.counter_data is not None and before.counter_data is not None:
            entry.counter_data[:] = before.counter_data
        entry.meter_config = before.meter_config

    def _modify_const(self, bound: BoundTable, message: Any, entry: Entry) -> Undo:
        """Only direct resources of a const entry can be written (section "Constant Tables")."""
        if message.HasField("action") or message.metadata or message.controller_metadata:
            raise denied(
                f"{bound.label}: only the direct resources of a const entry can be modified"
            )
        before = _copy(entry)
        counted = counter_data_of(message, bound) if message.HasField("counter_data") else None
        rates = meter_rates_of(message, bound)
        if counted is not None and entry.counter_data is not None:
            entry.counter_data[:] = counted
        if entry.meter is not None:
            entry.configure_meter(rates or None)

        def undo() -> None:
            if entry.counter_data is not None and before.counter_data is not None:
                entry.counter_data[:] = before.counter_data
            if entry.meter is not None:
                entry.configure_meter(before.meter_config)

        return undo

    def _has_numeric_watch(self, bound: BoundTable, entry: Entry) -> bool:
        """Whether an entry's action set was written with the deprecated field `watch`."""
        return (
            bound.profile is not None
            and (bound.schema.id, entry.key) in self._state.watches_by_deprecated_field
        )

    def _note(
        self,
        bound: BoundTable,
        old: Entry | None,
        new: Entry | None,
        *,
        numeric_watch: bool = False,
    ) -> None:
        """Keep count of action sets and of entries that may time out."""
        entry = new or old
        assert entry is not None
        key = (bound.schema.id, entry.key)
        profile = bound.profile
        if profile is not None:
            profile.one_shots += new is not None and isinstance(new.target, OneShot)
            profile.one_shots -= old is not None and isinstance(old.target, OneShot)
            if numeric_watch:
                self._state.watches_by_deprecated_field.add(key)
            else:
                self._state.watches_by_deprecated_field.discard(key)
        if bound.schema.idle_timeout:
            if new is not None and new.idle_timeout_ns:
                self._state.idle_started_ns[key] = self._now_ns()
            else:
                self._state.idle_started_ns.pop(key, None)

    # -- reads ---------------------------------------------------------------------------

    def read(self, message: Any) -> Iterator[Any]:
        """Entries that the request's fields select (section "Wildcard Reads")."""
        check_meter_counters(message, "meter_counter_data", "table_entry")
        if message.table_id == 0:
            if (
                len(message.match)
                or message.priority
                or message.controller_metadata
                or message.metadata
                or message.HasField("action")
            ):
                raise invalid("table_entry: with table_id 0 no other filter can be used")
        else:
            bound = self._binding.table(message.table_id)
            if message.HasField("time_since_last_hit") and not bound.schema.idle_timeout:
                raise invalid(f"{bound.label} does not support idle timeouts (time_since_last_hit)")
            action_id = message.action.action.action_id
            if action_id and bound.profile is None and action_id not in bound.schema.actions:
                raise invalid(f"{bound.label}: action id {action_id} is none of its actions")
        return self._read(message)

    def _read(self, message: Any) -> Iterator[Any]:
        action_id = message.action.action.action_id
        for bound, entry in select_entries(self._state, message):
            if (
                message.controller_metadata
                and entry.controller_metadata != message.controller_metadata
            ):
                continue
            if message.metadata and entry.metadata != message.metadata:
                continue
            if action_id and bound.profile is None:
                call = entry.target
                if (
                    not isinstance(call, ActionCall)
                    or bound.schema.action_ids[call.action] != action_id
                ):
                    continue
            yield self.encode(bound, entry, message)

    def encode(self, bound: BoundTable, entry: Entry, request: Any) -> Any:
        """The TableEntry message of an entry, direct resources as the request asks for them."""
        schema = bound.schema
        is_default = request.is_default_action
        message = encode_key(bound, entry, is_default=is_default)
        numeric_watch = self._has_numeric_watch(bound, entry)
        self._targets.encode(bound, entry.target, message.action, numeric_watch=numeric_watch)
        if entry.controller_metadata:
            message.controller_metadata = entry.controller_metadata
        if entry.metadata:
            message.metadata = entry.metadata
        if entry.idle_timeout_ns:
            message.idle_timeout_ns = entry.idle_timeout_ns
        if entry.is_const or (is_default and self._default_is_const(bound)):
            message.is_const = True
        if schema.direct_counter_id and request.HasField("counter_data"):
            encode_counter(entry, message.counter_data)
        if schema.direct_meter and request.HasField("meter_config") and entry.meter_config:
            encode_rates(entry.meter_config, message.meter_config)
        if schema.idle_timeout and request.HasField("time_since_last_hit") and not is_default:
            message.time_since_last_hit.elapsed_ns = max(0, self._now_ns() - entry.last_hit_ns)
        return message

    def _default_is_const(self, bound: BoundTable) -> bool:
        return (
            bound.schema.const_default_action_id != 0
            or bound.table.const_default
            or bound.profile is not None
        )


def _copy(entry: Entry) -> Entry:
    """An entry as it was, with counters of its own."""
    return Entry(
        entry.match,
        entry.target,
        entry.priority,
        counter_data=None if entry.counter_data is None else list(entry.counter_data),
        meter_config=entry.meter_config if entry.meter is None else entry.meter_config or (),
        controller_metadata=entry.controller_metadata,
        metadata=entry.metadata,
        idle_timeout_ns=entry.idle_timeout_ns,
        is_const=entry.is_const,
    )
