"""`headers` against the tables of `layouts`, bit by bit."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.wire import BTH, ERTH, METH, SETH, CCState, EncodeError, FieldError
from host.wire import constants as c
from host.wire.headers import EETH, NETH, PETH
from host.wire.layouts import LAYOUTS, VALUES, Header, Kind, check
from tests.host.wire.strategies import headers

SIZES = {
    "BTH": c.BTH_BYTES,
    "METH": c.METH_BYTES,
    "TSETH": c.TSETH_BYTES,
    "RETH": c.RETH_BYTES,
    "ImmDt": c.IMMDT_BYTES,
    "AETH": c.AETH_BYTES,
    "SETH": c.SETH_BYTES,
    "CC_STATE": c.CC_STATE_BYTES,
    "NETH": c.NETH_BYTES,
    "PETH": c.PETH_BYTES,
    "ERTH": c.ERTH_BYTES,
    "EETH": c.EETH_BYTES,
}

KINDS = pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: LAYOUTS[kind].name)


def bits_of(header: Header, **derived: int) -> bytes:
    """A header's bytes, straight from its table."""
    word = size = 0
    for field in LAYOUTS[type(header)].fields:
        value = derived.get(field.name, 0)
        if field.kind in VALUES:
            value = int(getattr(header, field.name))
        word = word << field.bits | value & (1 << field.bits) - 1
        size += field.bits
    return word.to_bytes(size // 8, "big")


@KINDS
def test_sizes(kind: type[Header]) -> None:
    layout = LAYOUTS[kind]
    assert sum(field.bits for field in layout.fields) % 8 == 0
    assert layout.size_bytes == SIZES[layout.name]


@KINDS
def test_the_table_has_every_value_of_the_header(kind: type[Header]) -> None:
    names = [field.name for field in LAYOUTS[kind].fields if field.kind in VALUES]
    assert sorted(names) == sorted(kind._fields)


@KINDS
@given(data=st.data())
def test_packs_and_unpacks_as_the_table_says(kind: Any, data: st.DataObject) -> None:
    header = data.draw(headers(kind))
    assert header.pack() == bits_of(header)
    assert kind.unpack(b"\xee" * 7 + header.pack(), 7) == header


@given(headers(BTH), st.integers(0, 3), st.booleans())
def test_bth_with_what_follows_from_the_packet(bth: BTH, pad: int, ts: bool) -> None:
    assert bth.pack(pad, ts) == bits_of(bth, pad=pad, ts=ts)


@KINDS
@given(data=st.data())
def test_reserved_bits_are_not_looked_at(kind: Any, data: st.DataObject) -> None:
    header = data.draw(headers(kind))
    reserved = 0
    for field in LAYOUTS[kind].fields:
        ones = (1 << field.bits) - 1 if field.kind in (Kind.RESERVED, Kind.DERIVED) else 0
        reserved = reserved << field.bits | ones
    packed = int.from_bytes(header.pack(), "big") | reserved
    assert kind.unpack(packed.to_bytes(LAYOUTS[kind].size_bytes, "big"), 0) == header


@pytest.mark.parametrize("kind", [SETH, NETH, PETH, ERTH, EETH], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bit", range(9))
def test_type_and_next_must_be_zero(kind: Any, bit: int) -> None:
    first_word = struct.pack("!H", 0x8000 >> bit)
    with pytest.raises(FieldError, match="must both be 0") as caught:
        kind.unpack(b"\0" * 5 + first_word + bytes(36), 5)
    assert (caught.value.header, caught.value.offset) == (kind.__name__, 5)


@KINDS
def test_check_names_the_field_that_does_not_fit(kind: Any) -> None:
    fields = [field for field in LAYOUTS[kind].fields if field.kind in VALUES]
    lowest = {field.name: field.limits[0] for field in fields}
    highest = {field.name: field.limits[1] for field in fields}
    check(kind(**lowest))
    check(kind(**highest))
    for field in fields:
        low, high = field.limits
        for value in (low - 1, high + 1):
            with pytest.raises(EncodeError) as caught:
                check(kind(**lowest | {field.name: value}))
            assert (caught.value.header, caught.value.field) == (LAYOUTS[kind].name, field.name)
            assert caught.value.value == value


def test_errors_say_what_would_be_right() -> None:
    with pytest.raises(EncodeError, match=r"METH\.msn: 65536 does not fit, it must be 0\.\.65535"):
        check(METH(0, 65536))


def test_probe_id_is_unsigned() -> None:
    seth = SETH(0, True, -2, 0, 0, 0, 0, 0, 0, 0)
    assert seth.probe_id == 0xFFFE


def test_cc_state_units() -> None:
    assert CCState(0, 0, False, 127, 2**24 - 1).pack()[4:] == b"\x7f\xff\xff\xff"
