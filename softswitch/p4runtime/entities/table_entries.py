"""Table entries, the default ones included, and the direct resources in them.

Sections "TableEntry", "Direct Resources" and "Idle-timeout".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.externs import MeterRate
from softswitch.p4runtime.binding import BoundTable, decode_action, encode_action
from softswitch.p4runtime.entities.base import INT64_MAX, EntityHandler, Undo, count
from softswitch.p4runtime.entities.meter_config import decode_rates, encode_rates
from softswitch.p4runtime.entities.watch_ports import decode_watch_port, encode_watch_port
from softswitch.p4runtime.errors import denied, invalid, not_found, unimplemented
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import (
    ActionCall,
    Entry,
    EntryMissing,
    GroupRef,
    Match,
    MemberRef,
    OneShot,
    Target,
)


class TableEntryHandler(EntityHandler):
    """`TableEntry`."""

    kind = "table_entry"

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._binding = state.binding
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
        target = self._decode_target(bound, message.action)
        entry = self._entry(bound, message, match, priority, target)
        bound.table.insert(entry)
        entry.last_hit_ns = self._now_ns()
        self._note(bound, None, entry)

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
        if message.HasField("action"):
            target = self._decode_target(bound, message.action)
        entry = self._entry(bound, message, match, priority, target)
        before = _copy(old)
        bound.table.modify(entry)
        entry.last_hit_ns = self._now_ns()
        self._note(bound, before, entry)

        def undo() -> None:
            bound.table.modify(before)
            self._note(bound, entry, before)

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
        bound.table.delete(match, priority)
        self._note(bound, entry, None)

        def undo() -> None:
            bound.table.insert(entry)
            self._note(bound, None, entry)

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
        return Entry(
            match,
            target,
            priority,
            counter_data=_counter_data(message, bound)
            if message.HasField("counter_data")
            else None,
            # An empty configuration, not None: an unset meter_config resets the meter.
            meter_config=_meter_config(message, bound) if bound.schema.direct_meter else None,
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
        target = self._decode_target(bound, message.action, is_default=True)
        rates = _meter_config(message, bound)
        counted = _counter_data(message, bound) if message.HasField("counter_data") else None
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
        counted = _counter_data(message, bound) if message.HasField("counter_data") else None
        rates = _meter_config(message, bound)
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

    def _decode_target(
        self, bound: BoundTable, message: Any, *, is_default: bool = False
    ) -> Target:
        """What an entry points to; the kind must be the one the table is made for."""
        kind = message.WhichOneof("type")
        profile = bound.profile
        if profile is None:
            if kind != "action":
                raise invalid(f"{bound.label} is a direct table: want an action, found {kind}")
            return decode_action(
                message.action, bound.schema.actions, bound.label, is_default=is_default
            )
        if kind == "action_profile_member_id":
            member_id = message.action_profile_member_id
            if member_id not in profile.profile.members:
                raise not_found(f"{profile.label} has no member {member_id}")
            self._check_style(bound, one_shot=False)
            return MemberRef(member_id)
        if kind == "action_profile_group_id":
            group_id = message.action_profile_group_id
            if not profile.schema.with_selector:
                raise invalid(f"{bound.label}: {profile.label} has no selector and so no groups")
            if group_id not in profile.profile.groups:
                raise not_found(f"{profile.label} has no group {group_id}")
            self._check_style(bound, one_shot=False)
            return GroupRef(group_id)
        if kind == "action_profile_action_set" and profile.schema.with_selector:
            self._check_style(bound, one_shot=True)
            return self._decode_one_shot(bound, message.action_profile_action_set)
        wanted = "a member, group or action set" if profile.schema.with_selector else "a member"
        raise invalid(
            f"{bound.label} is implemented by {profile.label}: want {wanted}, found {kind}"
        )

    def _check_style(self, bound: BoundTable, *, one_shot: bool) -> None:
        """A selector's tables use action sets or members and groups, not both."""
        profile = bound.profile
        assert profile is not None
        if one_shot and profile.profile.members:
            raise invalid(f"{profile.label} has members: action sets cannot be used beside them")
        if not one_shot and profile.one_shots:
            raise invalid(f"{profile.label} is programmed with action sets: members cannot be used")

    def _decode_one_shot(self, bound: BoundTable, message: Any) -> OneShot:
        """Section "One Shot Action Selector Programming"."""
        profile = bound.profile
        assert profile is not None
        schema = profile.schema
        members = []
        for item in message.action_profile_actions:
            call = decode_action(item.action, schema.actions, bound.label)
            check_weight(item.weight, schema.sum_of_members, schema.max_member_weight, bound.label)
            members.append(
                (call, item.weight, decode_watch_port(item, self._state.access, bound.label))
            )
        total = len(members) if schema.sum_of_members else sum(weight for _, weight, _ in members)
        if schema.max_group_size and total > schema.max_group_size:
            raise invalid(
                f"{bound.label}: action set of size {total}, want at most {schema.max_group_size}"
            )
        one_shot = OneShot(tuple(members))
        if any(item.WhichOneof("watch_kind") == "watch" for item in message.action_profile_actions):
            self._state.watches_by_deprecated_field.add((schema.id, one_shot))
        return one_shot

    def _note(self, bound: BoundTable, old: Entry | None, new: Entry | None) -> None:
        """Keep count of action sets and of entries that may time out."""
        profile = bound.profile
        if profile is not None:
            profile.one_shots += new is not None and isinstance(new.target, OneShot)
            profile.one_shots -= old is not None and isinstance(old.target, OneShot)
        if bound.schema.idle_timeout:
            entry = new or old
            assert entry is not None
            key = (bound.schema.id, entry.key)
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
        self._encode_target(bound, entry.target, message.action)
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

    def _encode_target(self, bound: BoundTable, target: Target, message: Any) -> None:
        if isinstance(target, ActionCall):
            schema, _ = bound.schema.actions[bound.schema.action_ids[target.action]]
            encode_action(target, schema, message.action)
        elif isinstance(target, MemberRef):
            message.action_profile_member_id = target.member_id
        elif isinstance(target, GroupRef):
            message.action_profile_group_id = target.group_id
        else:
            assert bound.profile is not None
            actions = bound.schema
            deprecated = (
                bound.profile.schema.id,
                target,
            ) in self._state.watches_by_deprecated_field
            action_set = message.action_profile_action_set
            action_set.SetInParent()  # a set without actions is still a set
            for call, weight, watch_port in target.members:
                item = action_set.action_profile_actions.add(weight=weight)
                encode_action(
                    call, actions.actions[actions.action_ids[call.action]][0], item.action
                )
                encode_watch_port(watch_port, item, deprecated=deprecated)


# -- shared with the direct resources ----------------------------------------------------


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


def check_weight(weight: int, sum_of_members: bool, max_member_weight: int, what: str) -> None:
    """Weights start at 1; INVALID_ARGUMENT otherwise."""
    if weight < 1:
        raise invalid(f"{what}: weight {weight}, want at least 1")
    if sum_of_members and max_member_weight and weight > max_member_weight:
        raise invalid(f"{what}: weight {weight}, at most {max_member_weight} allowed")


def _counter_data(message: Any, bound: BoundTable) -> list[int]:
    """[packets, bytes] of a message whose counter_data is set."""
    data = message.counter_data
    return [count(data.packet_count, bound.label), count(data.byte_count, bound.label)]


def _meter_config(message: Any, bound: BoundTable) -> tuple[MeterRate, ...]:
    """Rates of the direct meter; none when meter_config is unset."""
    meter = bound.schema.direct_meter
    if meter is None or not message.HasField("meter_config"):
        return ()
    return decode_rates(message.meter_config, meter.type, bound.label)


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
