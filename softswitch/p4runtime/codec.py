"""Values on the wire: big-endian byte strings (section "Bytestrings").

The only place that turns bytes into integers and back. What the server sends is canonical: the
shortest string that holds the value, one zero byte for 0. What it takes in may be longer, padded
with zeros (or with copies of the sign bit for `int<W>`).
"""

from __future__ import annotations

from softswitch.p4runtime.errors import Code, P4RuntimeError


def encode_uint(value: int) -> bytes:
    """Canonical byte string of a `bit<W>` value (value >= 0)."""
    return value.to_bytes((value.bit_length() + 7) >> 3 or 1, "big")


def decode_uint(data: bytes, bitwidth: int, what: str) -> int:
    """Value of a `bit<bitwidth>` byte string.

    `what` names the value in the error, for instance "field 'hdr.ipv6.dst' of table
    'Ingress.route'". Raises OUT_OF_RANGE for the empty string and for values that need more than
    `bitwidth` bits.
    """
    if not data:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: empty byte string, want bit<{bitwidth}>")
    value = int.from_bytes(data, "big")
    if value >> bitwidth:
        raise P4RuntimeError(
            Code.OUT_OF_RANGE, f"{what}: 0x{_shorten(value)} does not fit in bit<{bitwidth}>"
        )
    return value


def encode_int(value: int) -> bytes:
    """Canonical byte string of an `int<W>` value: two's complement, no superfluous sign bytes."""
    magnitude_bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(magnitude_bits // 8 + 1, "big", signed=True)


def decode_int(data: bytes, bitwidth: int, what: str) -> int:
    """Value of an `int<bitwidth>` byte string; OUT_OF_RANGE as for `decode_uint`."""
    if not data:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: empty byte string, want int<{bitwidth}>")
    value = int.from_bytes(data, "big", signed=True)
    bound = 1 << (bitwidth - 1)
    if not -bound <= value < bound:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: {value} does not fit in int<{bitwidth}>")
    return value


def to_signed(value: int, bitwidth: int) -> int:
    """Two's complement reading of a `bitwidth`-bit pattern."""
    return value - (1 << bitwidth) if value >> (bitwidth - 1) else value


def to_unsigned(value: int, bitwidth: int) -> int:
    """The `bitwidth`-bit pattern of a signed value."""
    return value & ((1 << bitwidth) - 1)


def _shorten(value: int) -> str:
    """Hex digits of a value, cut in the middle when a client sends kilobytes."""
    digits = f"{value:x}"
    return digits if len(digits) <= 64 else f"{digits[:32]}...({len(digits)} digits)"
