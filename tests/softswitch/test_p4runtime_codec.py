"""Byte strings: the tables of the specification's section "Bytestrings", and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4runtime import codec
from softswitch.p4runtime.errors import Code, P4RuntimeError


@pytest.mark.parametrize(
    ("bitwidth", "value", "data", "canonical"),
    [
        (8, 0x63, b"\x63", True),
        (16, 0x63, b"\x00\x63", False),
        (16, 0x63, b"\x63", True),
        (16, 0x3064, b"\x30\x64", True),
        (16, 0x3064, b"\x00\x30\x64", False),
        (12, 0x63, b"\x00\x63", False),
        (12, 0x63, b"\x63", True),
        (12, 0x63, b"\x00\x00\x63", False),
        (1, 0, b"\x00", True),
        (1, 1, b"\x01", True),
    ],
)
def test_valid_unsigned(bitwidth: int, value: int, data: bytes, canonical: bool) -> None:
    assert codec.decode_uint(data, bitwidth, "x") == value
    assert (codec.encode_uint(value) == data) is canonical


@pytest.mark.parametrize(
    ("bitwidth", "value", "data", "canonical"),
    [
        (8, 0x63, b"\x63", True),
        (8, -0x63, b"\x9d", True),
        (8, -0x63, b"\xff\x9d", False),
        (12, -0x2E3, b"\xfd\x1d", True),
        (16, 0, b"\x00\x00", False),
        (16, 0, b"\x00", True),
        (8, -128, b"\x80", True),
        (8, 127, b"\x7f", True),
        (16, 128, b"\x00\x80", True),
    ],
)
def test_valid_signed(bitwidth: int, value: int, data: bytes, canonical: bool) -> None:
    assert codec.decode_int(data, bitwidth, "x") == value
    assert (codec.encode_int(value) == data) is canonical


@pytest.mark.parametrize(
    ("bitwidth", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
        (1, b"\x02"),
    ],
)
def test_invalid_unsigned(bitwidth: int, data: bytes) -> None:
    with pytest.raises(P4RuntimeError, match="the field") as raised:
        codec.decode_uint(data, bitwidth, "the field")
    assert raised.value.code is Code.OUT_OF_RANGE


@pytest.mark.parametrize(
    ("bitwidth", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b""), (8, b"\xff\x7f")]
)
def test_invalid_signed(bitwidth: int, data: bytes) -> None:
    with pytest.raises(P4RuntimeError) as raised:
        codec.decode_int(data, bitwidth, "x")
    assert raised.value.code is Code.OUT_OF_RANGE


def test_huge_values_make_short_messages() -> None:
    with pytest.raises(P4RuntimeError) as raised:
        codec.decode_uint(b"\xff" * 100_000, 32, "x")
    assert len(raised.value.message) < 200


@given(st.integers(1, 300).flatmap(lambda w: st.tuples(st.just(w), st.integers(0, 2**w - 1))))
def test_unsigned_round_trip(width_and_value: tuple[int, int]) -> None:
    width, value = width_and_value
    data = codec.encode_uint(value)
    assert codec.decode_uint(data, width, "x") == value
    assert codec.decode_uint(b"\x00\x00" + data, width, "x") == value
    assert len(data) == 1 or data[0] != 0


@given(
    st.integers(1, 300).flatmap(
        lambda w: st.tuples(st.just(w), st.integers(-(2 ** (w - 1)), 2 ** (w - 1) - 1))
    )
)
def test_signed_round_trip(width_and_value: tuple[int, int]) -> None:
    width, value = width_and_value
    data = codec.encode_int(value)
    assert codec.decode_int(data, width, "x") == value
    padding = b"\xff\xff" if value < 0 else b"\x00\x00"
    assert codec.decode_int(padding + data, width, "x") == value
    pattern = codec.to_unsigned(value, width)
    assert 0 <= pattern < 1 << width
    assert codec.to_signed(pattern, width) == value
