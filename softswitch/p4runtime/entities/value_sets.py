"""Parser value sets (section "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.errors import Code, P4RuntimeError, exhausted
from softswitch.p4runtime.schema import FieldSchema
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import Match, MatchKind, MatchValue


class ValueSetHandler(EntityHandler):
    """`ValueSetEntry`. The members of a set are always written together."""

    kind = "value_set_entry"

    def __init__(self, state: PipelineState) -> None:
        self._schemas = state.schema.value_sets
        self._bound = state.binding.value_sets

    def modify(self, message: Any) -> Undo:
        """Replace the members; none at all empties the set."""
        schema = self._schemas.get(message.value_set_id)
        value_set, codec = self._bound[schema.id]
        what = schema.key.label
        if len(message.members) > schema.size:
            raise exhausted(f"{what}: {len(message.members)} members, room for {schema.size}")
        members: dict[Match, None] = {}
        for member in message.members:
            match = tuple(
                _to_mask(field, value)
                for field, value in zip(schema.key.fields, codec.decode(member.match), strict=True)
            )
            if match in members:
                raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what}: a member is given twice")
            members[match] = None
        before = value_set.members
        value_set.set_members(members)
        return lambda: value_set.set_members(before)

    def read(self, message: Any) -> Iterator[Any]:
        """One set, or all of them for id 0."""
        if message.value_set_id == 0:
            return self._read(list(self._bound))
        return self._read([self._schemas.get(message.value_set_id).id])

    def _read(self, value_set_ids: list[int]) -> Iterator[Any]:
        for value_set_id in value_set_ids:
            value_set, codec = self._bound[value_set_id]
            fields = self._schemas.by_id[value_set_id].key.fields
            message = p4runtime_pb2.ValueSetEntry(value_set_id=value_set_id)
            for match in value_set.members:
                plain = tuple(
                    _from_mask(field, value) for field, value in zip(fields, match, strict=True)
                )
                codec.encode(plain, message.members.add().match)
            yield message


def _to_mask(field: FieldSchema, value: MatchValue) -> MatchValue:
    """The parser knows exact values and (value, mask) pairs only."""
    if field.kind is MatchKind.LPM:
        assert isinstance(value, tuple)
        return value[0], field.max_value ^ (field.max_value >> value[1])
    return value


def _from_mask(field: FieldSchema, value: MatchValue) -> MatchValue:
    if field.kind is MatchKind.LPM:
        assert isinstance(value, tuple)
        return value[0], value[1].bit_count()
    return value
