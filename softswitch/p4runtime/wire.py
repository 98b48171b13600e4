"""The protobuf wire format, as far as it is read here without a parser.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_MAX_VARINT_BYTES: Final = 10


class WireError(ValueError):
    """Bytes that are no message."""


def fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, begin and end of the value of every field in a part of `data`.

    Raises:
        WireError: the bytes are no fields, or have groups, which no message here has.
    """
    at = begin
    while at < end:
        tag, at = _varint(data, at, end)
        wire_type = tag & 7
        if wire_type == BYTES:
            size, at = _varint(data, at, end)
            after = at + size
        elif wire_type == VARINT:
            _, after = _varint(data, at, end)
        elif wire_type == FIXED64:
            after = at + 8
        elif wire_type == FIXED32:
            after = at + 4
        else:
            raise WireError(f"wire type {wire_type} at byte {at}")
        if after > end:
            raise WireError(f"field cut off at byte {at}")
        yield tag >> 3, wire_type, at, after
        at = after


def count_fields(data: bytes, descriptor: Any, limit: int) -> int:
    """How many fields a message of this descriptor has, those of its submessages included.

    Stops counting beyond `limit`.

    Raises:
        WireError: as `fields`.
    """
    count = 0
    parts = [(0, len(data), descriptor)]
    while parts:
        begin, end, kind = parts.pop()
        submessages = kind.fields_by_number
        for number, wire_type, value_begin, value_end in fields(data, begin, end):
            count += 1
            if count > limit:
                return count
            field = submessages.get(number) if wire_type == BYTES else None
            if field is not None and field.message_type is not None and value_begin < value_end:
                parts.append((value_begin, value_end, field.message_type))
    return count


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A base-128 varint and where the next byte stands."""
    value = shift = 0
    for position in range(at, min(end, at + _MAX_VARINT_BYTES)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position + 1
        shift += 7
    raise WireError(f"varint at byte {at} does not end")
