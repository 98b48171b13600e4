"""What generated code calls: the rare and the looped, kept out of line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from softswitch import ir

log = logging.getLogger("softswitch.program")

Record = list[Any]

# A shift by more than any field's width leaves only zeros, and must not build a gigantic integer.
_WIDEST_SHIFT = 1 << 14


def fold(op: str, left: int, right: int) -> int | None:
    """Value of an operation on constants, None where it is left to run time."""
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<" if 0 <= right <= _WIDEST_SHIFT:
            return left << right
        case ">>" if right >= 0:
            return left >> right
    return None


def shift_left(value: int, amount: int) -> int:
    """`value << amount`, with 0 for amounts beyond the width of any field."""
    return value << amount if amount <= _WIDEST_SHIFT else 0


def divide(left: int, right: int) -> int:
    """Quotient; 0 where P4 leaves it undefined (divisor not positive, or negative dividend)."""
    return left // right if right > 0 and left >= 0 else 0


def modulo(left: int, right: int) -> int:
    """Remainder; 0 where P4 leaves it undefined."""
    return left % right if right > 0 and left >= 0 else 0


def cell(values: list[int], index: int) -> int:
    """A register cell; 0 beyond the end."""
    return values[index] if 0 <= index < len(values) else 0


def item(stack: list[Any], index: int) -> Any:
    """An element of a stack; beyond the end an invalid one that is thrown away after use."""
    if 0 <= index < len(stack):
        return stack[index]
    sample = stack[0]
    if sample and isinstance(sample[0], list):
        return [_invalid(record) for record in sample]
    return _invalid(sample)


def _invalid(record: Record) -> Record:
    return [False, *[0] * (len(record) - 1)]


def union_valid(union: list[Record]) -> bool:
    """True if a header of the union is valid."""
    return any(record[0] for record in union)


def unions_equal(left: list[Record], right: list[Record]) -> bool:
    """True if the same header is valid in both, with the same fields."""
    return any(a[0] and b[0] and a == b for a, b in zip(left, right, strict=True))


def make_valid(union: list[Record], index: int) -> None:
    """Make one header of a union valid, and so the others invalid."""
    for other in union:
        other[0] = False
    union[index][0] = True


def push(stack: list[Any], count: int) -> None:
    """push_front: the first `count` elements become invalid, the last ones are lost.

    So P4_16 says. simple_switch (1.15) does too for headers, but leaves unions valid.
    """
    size = len(stack)
    count = min(count, size)
    sample = stack[0]
    if isinstance(sample[0], list):
        fresh: list[Any] = [[_invalid(r) for r in sample] for _ in range(count)]
    else:
        fresh = [_invalid(sample) for _ in range(count)]
    stack[:] = fresh + stack[: size - count]


def pop(stack: list[Any], count: int) -> None:
    """pop_front: the first `count` elements are lost, the last ones become invalid."""
    size = len(stack)
    count = min(count, size)
    sample = stack[0]
    if isinstance(sample[0], list):
        fresh: list[Any] = [[_invalid(r) for r in sample] for _ in range(count)]
    else:
        fresh = [_invalid(sample) for _ in range(count)]
    stack[:] = stack[count:] + fresh


def copy_records(value: list[Any]) -> list[Any]:
    """A deep copy of a record, a union, or a stack of either."""
    if value and isinstance(value[0], list):
        return [copy_records(part) for part in value]
    return value[:]


def copy_into(target: list[Any], source: list[Any]) -> None:
    """Assign a union or a stack as a whole: fields of the valid headers, validity of all."""
    for to, from_ in zip(target, source, strict=True):
        if isinstance(from_[0], list):
            copy_into(to, from_)
        elif from_[0]:
            to[:] = from_
        else:
            to[0] = False


class RecordCodec:
    """Reads and writes the records of one header type."""

    def __init__(self, type_: ir.HeaderType) -> None:
        self.size = type_.size
        self.max_bytes = type_.max_bytes
        self.fields = type_.fields
        self.varbit = type_.varbit
        self.total = type_.bits

    def extract(self, record: Record, frame: bytes, at: int, varbit_bits: int = 0) -> None:
        """Fill a record from the frame, and make it valid."""
        left = self.total + varbit_bits
        value = int.from_bytes(frame[at : at + left // 8], "big")
        record[0] = True
        for index, field in enumerate(self.fields, start=1):
            width = varbit_bits if field.varbit else field.bitwidth
            left -= width
            part = (value >> left) & ((1 << width) - 1)
            if field.signed and part >> (width - 1):
                part -= 1 << width
            record[index] = part
        if self.varbit is not None:
            record[-1] = varbit_bits

    def read(self, frame: bytes, at: int, varbit_bits: int = 0) -> Record:
        """A new record from the frame."""
        record: Record = [False] * (1 + len(self.fields) + (self.varbit is not None))
        self.extract(record, frame, at, varbit_bits)
        return record

    def emit(self, record: Record) -> bytes:
        """The bytes of a record."""
        value = 0
        bits = self.total
        for index, field in enumerate(self.fields, start=1):
            width = field.bitwidth
            if field.varbit:
                width = record[-1]
                bits += width
            value = value << width | record[index] & ((1 << width) - 1)
        return value.to_bytes(bits // 8, "big")

    def bits(self, record: Record) -> int:
        """Length of a record in bits."""
        return self.total + (record[-1] if self.varbit is not None else 0)


def log_msg(text: str, values: tuple[int, ...]) -> None:
    """The program's log_msg: every `{}` is replaced by the next value."""
    if log.isEnabledFor(logging.INFO):
        parts = text.split("{}")
        out = parts[0]
        for i, part in enumerate(parts[1:]):
            out += (str(values[i]) if i < len(values) else "{}") + part
        log.info("%s", out.replace("\\{", "{").replace("\\}", "}"))


def make_random(rng: Any) -> Callable[[int, int], int]:
    """The uniform choice from [low, high] behind `random()`."""
    getrandbits = rng.getrandbits

    def uniform(low: int, high: int) -> int:
        span = high - low + 1
        # As random.Random.randrange does, without its checks.
        bits = span.bit_length()
        value: int = getrandbits(bits)
        while value >= span:
            value = getrandbits(bits)
        return low + value

    return uniform


def in_set(members: list[tuple[int, int]], key: int, only: int = -1) -> bool:
    """True if a parser value set has the key; only the bits of `only` are compared."""
    return any((key ^ value) & mask & only == 0 for mask, value in members)


def in_ranges(key: int, ranges: tuple[tuple[int, int, int, int], ...]) -> bool:
    """True if the key's fields are in all (shift, field mask, low, high)."""
    return all(low <= (key >> shift) & mask <= high for shift, mask, low, high in ranges)
