"""Entries ↔ P4Runtime messages. Values are canonical byte strings (P4Runtime 1.4, section 8.4)."""

from __future__ import annotations

from typing import Any

from p4.v1 import p4runtime_pb2

from controller.entries import (
    ActionCall,
    Entity,
    Group,
    GroupRef,
    MatchValue,
    Member,
    MemberRef,
    OneShot,
    TableEntry,
    Target,
)
from controller.p4info import Field, KeyField, MatchKind, Schema, SchemaError


def to_bytes(value: int, field: Field, where: str) -> bytes:
    """The shortest big-endian form, one byte at least. Raises SchemaError where it does not fit."""
    if not 0 <= value < 1 << field.bitwidth:
        raise SchemaError(f"{where}: {field.name} {value:#x} does not fit in {field.bitwidth} bits")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def from_bytes(data: bytes) -> int:
    """The number in a byte string."""
    return int.from_bytes(data, "big")


# --- entries to messages -----------------------------------------------------------------------


def encode(entity: Entity, schema: Schema) -> Any:
    """The P4Runtime Entity of an entry, member or group.

    Raises SchemaError for names that the program has not and values that do not fit.
    """
    message = p4runtime_pb2.Entity()
    match entity:
        case TableEntry():
            _encode_table_entry(entity, schema, message.table_entry)
        case Member():
            member = message.action_profile_member
            member.action_profile_id = schema.profiles.name(entity.profile).id
            member.member_id = entity.member_id
            _encode_call(entity.call, schema, member.action)
        case Group():
            group = message.action_profile_group
            group.action_profile_id = schema.profiles.name(entity.profile).id
            group.group_id = entity.group_id
            for member_id, weight in entity.members:
                group.members.add(member_id=member_id, weight=weight)
    return message


def _encode_table_entry(entry: TableEntry, schema: Schema, message: Any) -> None:
    table = schema.tables.name(entry.table)
    message.table_id = table.id
    message.priority = entry.priority
    if len(entry.match) != len(table.keys):
        raise SchemaError(
            f"{entry.table}: {len(entry.match)} key values for {len(table.keys)} key fields"
        )
    for field, value in zip(table.keys, entry.match, strict=True):
        _encode_match(field, value, entry.table, message.match)
    match entry.target:
        case ActionCall() as call:
            _encode_call(call, schema, message.action.action)
        case MemberRef(member_id):
            message.action.action_profile_member_id = member_id
        case GroupRef(group_id):
            message.action.action_profile_group_id = group_id
        case OneShot(members):
            for call, weight in members:
                item = message.action.action_profile_action_set.action_profile_actions.add()
                item.weight = weight
                _encode_call(call, schema, item.action)


def _encode_match(field: KeyField, value: MatchValue, table: str, matches: Any) -> None:
    match field.kind, value:
        case MatchKind.EXACT, int():
            exact = matches.add(field_id=field.id).exact
            exact.value = to_bytes(value, field, table)
        case MatchKind.OPTIONAL, int():
            optional = matches.add(field_id=field.id).optional
            optional.value = to_bytes(value, field, table)
        case MatchKind.LPM, (prefix, length):
            if length:
                lpm = matches.add(field_id=field.id).lpm
                lpm.value, lpm.prefix_len = to_bytes(prefix, field, table), length
        case MatchKind.TERNARY, (bits, mask):
            if mask:
                ternary = matches.add(field_id=field.id).ternary
                ternary.value = to_bytes(bits, field, table)
                ternary.mask = to_bytes(mask, field, table)
        case MatchKind.RANGE, (low, high):
            if (low, high) != (0, (1 << field.bitwidth) - 1):
                interval = matches.add(field_id=field.id).range
                interval.low = to_bytes(low, field, table)
                interval.high = to_bytes(high, field, table)
        case MatchKind.OPTIONAL, None:
            pass
        case _:
            raise SchemaError(f"{table}: {field.name} matches {field.kind.name}, not {value!r}")


def _encode_call(call: ActionCall, schema: Schema, message: Any) -> None:
    action = schema.actions.name(call.action)
    message.action_id = action.id
    if len(call.args) != len(action.params):
        raise SchemaError(
            f"{call.action}: {len(call.args)} arguments for {len(action.params)} parameters"
        )
    for param, value in zip(action.params, call.args, strict=True):
        message.params.add(param_id=param.id, value=to_bytes(value, param, call.action))


# --- messages to entries -----------------------------------------------------------------------


def decode(message: Any, schema: Schema) -> Entity:
    """The inverse of `encode`. Raises SchemaError for ids that the program has not."""
    match message.WhichOneof("entity"):
        case "table_entry":
            return _decode_table_entry(message.table_entry, schema)
        case "action_profile_member":
            member = message.action_profile_member
            profile = schema.profiles.id(member.action_profile_id)
            return Member(profile.name, member.member_id, _decode_call(member.action, schema))
        case "action_profile_group":
            group = message.action_profile_group
            profile = schema.profiles.id(group.action_profile_id)
            members = sorted((item.member_id, item.weight) for item in group.members)
            return Group(profile.name, group.group_id, tuple(members))
        case other:
            raise SchemaError(f"an answer with a {other} was not asked for")


def _decode_table_entry(message: Any, schema: Schema) -> TableEntry:
    table = schema.tables.id(message.table_id)
    given = {item.field_id: item for item in message.match}
    values = tuple(_decode_match(field, given.get(field.id), table.name) for field in table.keys)
    return TableEntry(table.name, values, _decode_target(message.action, schema), message.priority)


def _decode_match(field: KeyField, message: Any, table: str) -> MatchValue:
    match field.kind:
        case MatchKind.EXACT:
            if message is None:
                raise SchemaError(f"{table}: an entry came without its exact field {field.name}")
            return from_bytes(message.exact.value)
        case MatchKind.OPTIONAL:
            return None if message is None else from_bytes(message.optional.value)
        case MatchKind.LPM:
            if message is None:
                return (0, 0)
            return (from_bytes(message.lpm.value), message.lpm.prefix_len)
        case MatchKind.TERNARY:
            if message is None:
                return (0, 0)
            return (from_bytes(message.ternary.value), from_bytes(message.ternary.mask))
        case MatchKind.RANGE:
            if message is None:
                return (0, (1 << field.bitwidth) - 1)
            return (from_bytes(message.range.low), from_bytes(message.range.high))


def _decode_target(message: Any, schema: Schema) -> Target:
    match message.WhichOneof("type"):
        case "action":
            return _decode_call(message.action, schema)
        case "action_profile_member_id":
            return MemberRef(message.action_profile_member_id)
        case "action_profile_group_id":
            return GroupRef(message.action_profile_group_id)
        case "action_profile_action_set":
            actions = message.action_profile_action_set.action_profile_actions
            return OneShot(
                tuple((_decode_call(item.action, schema), item.weight) for item in actions)
            )
        case _:
            raise SchemaError("an entry came without an action")


def _decode_call(message: Any, schema: Schema) -> ActionCall:
    action = schema.actions.id(message.action_id)
    given = {item.param_id: from_bytes(item.value) for item in message.params}
    try:
        return ActionCall(action.name, tuple(given[param.id] for param in action.params))
    except KeyError as error:
        raise SchemaError(f"{action.name} came without parameter {error.args[0]}") from None
