"""p4_device_config: bare JSON and the deprecated wrapper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4runtime.device_config import program_text
from softswitch.p4runtime.errors import Code, P4RuntimeError

JSON = b'{"header_types": []}'


def field(number: int, data: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size = len(data)
    length = b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def test_bare_json() -> None:
    assert program_text(JSON) == JSON.decode()
    assert program_text(b"\n  " + JSON) == "\n  " + JSON.decode()


def test_wrapped_json() -> None:
    extras = field(2, field(1, field(1, b"key") + field(2, b"value")))
    assert program_text(b"\x08\x01" + extras + field(3, JSON)) == JSON.decode()
    long = JSON + b" " * 1000
    assert program_text(field(3, long)) == long.decode()


@pytest.mark.parametrize(
    "data",
    [b"", b"\x08\x01", b"\x1a\x7f{}", b"\xff" * 20, b"hello", b"\x00", field(3, b"\xff\xfe{")],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(P4RuntimeError) as raised:
        program_text(data)
    assert raised.value.code is Code.INVALID_ARGUMENT


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        program_text(data)
    except P4RuntimeError as error:
        assert error.code is Code.INVALID_ARGUMENT
