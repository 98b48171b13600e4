"""Entries in words: names of the program, addresses as people write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from controller.entries import (
    ActionCall,
    Entity,
    Group,
    GroupRef,
    Match,
    MatchValue,
    Member,
    MemberRef,
    OneShot,
    TableEntry,
    Target,
)
from controller.fabric_program import Kind
from controller.p4info import Field, KeyField, MatchKind, Schema
from topologies.addressing import BLOCK_BITS, SID_BITS, ipv6_text, mac_text


# The same SIDs and T0 prefixes stand in the tables of many switches
@lru_cache(maxsize=1 << 14)
def prefix_text(value: int, length: int) -> str:
    """An IPv6 prefix."""
    return f"{ipv6_text(value)}/{length}"


def _prefix_text(value: int, bits: int) -> str:
    return prefix_text(value << 128 - bits, bits)


_NUMBERS: dict[Kind, Callable[[int], str]] = {
    Kind.NUMBER: str,
    Kind.SID: lambda value: _prefix_text(value, SID_BITS),
    Kind.BLOCK: lambda value: _prefix_text(value, BLOCK_BITS),
    Kind.PREFIX: ipv6_text,
    Kind.MAC: mac_text,
}


def number_text(value: int, kind: Kind) -> str:
    """A value as its kind reads best."""
    return _NUMBERS[kind](value)


def kind_of(field: Field) -> Kind:
    """How values of a field of any program read best, by its width and name."""
    match field.bitwidth:
        case 128:
            return Kind.PREFIX
        case 48 if "sid" in field.name:
            return Kind.SID
        case 48:
            return Kind.MAC
        case 32 if "block" in field.name:
            return Kind.BLOCK
        case _:
            return Kind.NUMBER


def match_text(field: KeyField, value: MatchValue) -> str:
    """One key field's value: 'any' where it does not care."""
    kind = kind_of(field)
    match field.kind, value:
        case _, None:
            return "any"
        case _, int():
            return number_text(value, kind)
        case MatchKind.LPM, (prefix, length):
            if field.bitwidth == 128:
                return prefix_text(prefix, length)
            return f"{number_text(prefix, kind)}/{length}"
        case MatchKind.RANGE, (low, high):
            return f"{number_text(low, kind)}..{number_text(high, kind)}"
        case _, (bits, mask):
            return f"{bits:#x} &&& {mask:#x}" if mask else "any"


def keys_text(table: str, match: Match, schema: Schema) -> str:
    """field=value of every key field."""
    keys = schema.tables.name(table).keys
    return ", ".join(
        f"{field.name}={match_text(field, value)}" for field, value in zip(keys, match, strict=True)
    )


def call_text(call: ActionCall, schema: Schema) -> str:
    """An action by its own name, with parameters: to_port(egress_port=3)."""
    params = schema.actions.name(call.action).params
    arguments = ", ".join(
        f"{param.name}={number_text(value, kind_of(param))}"
        for param, value in zip(params, call.args, strict=True)
    )
    return f"{call.action.rpartition('.')[2]}({arguments})"


def target_text(target: Target, schema: Schema) -> str:
    """What a table entry does."""
    match target:
        case ActionCall():
            return call_text(target, schema)
        case MemberRef(member_id):
            return f"member {member_id}"
        case GroupRef(group_id):
            return f"group {group_id}"
        case OneShot(members):
            return " | ".join(f"{call_text(call, schema)} x{weight}" for call, weight in members)


def describe(entity: Entity, schema: Schema) -> str:
    """Which entry it is, without what it does."""
    match entity:
        case TableEntry():
            priority = f", priority {entity.priority}" if entity.priority else ""
            return f"{entity.table}[{keys_text(entity.table, entity.match, schema)}{priority}]"
        case Member():
            return f"{entity.profile}[member {entity.member_id}]"
        case Group():
            return f"{entity.profile}[group {entity.group_id}]"


def value_text(entity: Entity, schema: Schema) -> str:
    """What an entry does, without which it is."""
    match entity:
        case TableEntry():
            return target_text(entity.target, schema)
        case Member():
            return call_text(entity.call, schema)
        case Group():
            return "members " + ", ".join(
                str(member_id) if weight == 1 else f"{member_id} x{weight}"
                for member_id, weight in entity.members
            )
