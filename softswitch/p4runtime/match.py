"""`FieldMatch` messages ↔ the `Match` of an entry (section "Match Format")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softswitch.p4runtime.codec import decode_uint, encode_uint
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.schema import FieldSchema, MatchKeySchema
from softswitch.tables import Match, MatchKind, MatchValue

_MISSING = object()
Decoder = Callable[[Any, FieldSchema], MatchValue]


def _expect(message: Any, kind: str, field: FieldSchema) -> Any:
    """The sub-message of a FieldMatch, refused when the client used another match type."""
    found = message.WhichOneof("field_match_type")
    if found != kind:
        raise invalid(f"{field.label}: match type is {kind}, found {found or 'nothing'}")
    return getattr(message, kind)


def _decode_exact(message: Any, field: FieldSchema) -> MatchValue:
    exact = _expect(message, "exact", field)
    return decode_uint(exact.value, field.bitwidth, field.label)


def _decode_lpm(message: Any, field: FieldSchema) -> MatchValue:
    lpm = _expect(message, "lpm", field)
    value = decode_uint(lpm.value, field.bitwidth, field.label)
    length: int = lpm.prefix_len
    if length == 0:
        raise invalid(f"{field.label}: prefix length 0 matches everything, leave the field out")
    if not 0 < length <= field.bitwidth:
        raise invalid(f"{field.label}: prefix length {length}, want 1 to {field.bitwidth}")
    if value & (field.max_value >> length):
        raise invalid(f"{field.label}: 0x{value:x}/{length} has bits set beyond its prefix")
    return value, length


def _decode_ternary(message: Any, field: FieldSchema) -> MatchValue:
    ternary = _expect(message, "ternary", field)
    value = decode_uint(ternary.value, field.bitwidth, field.label)
    mask = decode_uint(ternary.mask, field.bitwidth, field.label)
    if mask == 0:
        raise invalid(f"{field.label}: mask 0 matches everything, leave the field out")
    if value & ~mask:
        raise invalid(f"{field.label}: 0x{value:x} has bits set outside its mask 0x{mask:x}")
    return value, mask


def _decode_range(message: Any, field: FieldSchema) -> MatchValue:
    bounds = _expect(message, "range", field)
    low = decode_uint(bounds.low, field.bitwidth, field.label)
    high = decode_uint(bounds.high, field.bitwidth, field.label)
    if low > high:
        raise invalid(f"{field.label}: range 0x{low:x}..0x{high:x} is empty")
    if low == 0 and high == field.max_value:
        raise invalid(f"{field.label}: this range matches everything, leave the field out")
    return low, high


def _decode_optional(message: Any, field: FieldSchema) -> MatchValue:
    optional = _expect(message, "optional", field)
    return decode_uint(optional.value, field.bitwidth, field.label)


def _decode_optional_as_ternary(message: Any, field: FieldSchema) -> MatchValue:
    """BMv2 JSON knows no optional match: p4c writes it as ternary, all bits or none of them."""
    optional = _expect(message, "optional", field)
    return decode_uint(optional.value, field.bitwidth, field.label), field.max_value


_DECODERS: Mapping[tuple[MatchKind, MatchKind], Decoder] = {
    # (kind in P4Info, kind in the program)
    (MatchKind.EXACT, MatchKind.EXACT): _decode_exact,
    (MatchKind.LPM, MatchKind.LPM): _decode_lpm,
    (MatchKind.TERNARY, MatchKind.TERNARY): _decode_ternary,
    (MatchKind.RANGE, MatchKind.RANGE): _decode_range,
    (MatchKind.OPTIONAL, MatchKind.OPTIONAL): _decode_optional,
    (MatchKind.OPTIONAL, MatchKind.TERNARY): _decode_optional_as_ternary,
}


def _omitted(kind: MatchKind, max_value: int) -> Any:
    """What a field that is left out stands for."""
    if kind is MatchKind.EXACT:
        return _MISSING
    if kind is MatchKind.OPTIONAL:
        return None
    if kind is MatchKind.RANGE:
        return (0, max_value)
    return (0, 0)


class MatchCodec:
    """FieldMatch messages ↔ `Match`, for one table or value set."""

    def __init__(self, key: MatchKeySchema, kinds: tuple[MatchKind, ...]) -> None:
        """`kinds` are the program's; UNIMPLEMENTED when a field cannot be expressed with them."""
        self.key = key
        self._fields = key.fields
        self._positions = key.positions
        self._omitted = tuple(
            _omitted(kind, field.max_value) for kind, field in zip(kinds, key.fields, strict=True)
        )
        decoders = []
        for field, kind in zip(key.fields, kinds, strict=True):
            decoder = _DECODERS.get((field.kind, kind))
            if decoder is None:
                raise unimplemented(
                    f"{field.label}: {field.kind.value} in P4Info, {kind.value} in the program"
                )
            decoders.append(decoder)
        self._decoders = tuple(decoders)

    def decode(self, messages: Any) -> Match:
        """INVALID_ARGUMENT and OUT_OF_RANGE as section "Match Format" demands."""
        values = list(self._omitted)
        seen = 0
        for message in messages:
            position = self._positions.get(message.field_id)
            if position is None:
                raise invalid(f"{self.key.label} has no match field with id {message.field_id}")
            field = self._fields[position]
            if seen >> position & 1:
                raise invalid(f"{field.label} is given twice")
            seen |= 1 << position
            values[position] = self._decoders[position](message, field)
        if _MISSING in values:
            missing = self._fields[values.index(_MISSING)]
            raise invalid(f"{missing.label} is missing: exact fields cannot be left out")
        return tuple(values)

    def encode(self, match: Match, messages: Any) -> None:
        """Add the FieldMatch messages of a match to a repeated field, "don't care" left out."""
        for field, omitted, value in zip(self._fields, self._omitted, match, strict=True):
            if value == omitted:
                continue
            message = messages.add()
            message.field_id = field.id
            if isinstance(value, int):
                if field.kind is MatchKind.EXACT:
                    message.exact.value = encode_uint(value)
                else:
                    message.optional.value = encode_uint(value)
                continue
            assert value is not None  # only an optional field that is left out
            first, second = value
            if field.kind is MatchKind.OPTIONAL:
                message.optional.value = encode_uint(first)
            elif field.kind is MatchKind.LPM:
                message.lpm.value = encode_uint(first)
                message.lpm.prefix_len = second
            elif field.kind is MatchKind.TERNARY:
                message.ternary.value = encode_uint(first)
                message.ternary.mask = encode_uint(second)
            else:
                message.range.low = encode_uint(first)
                message.range.high = encode_uint(second)
