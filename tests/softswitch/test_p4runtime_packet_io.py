"""Controller packet headers, packed and taken apart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import Code, P4RuntimeError
from softswitch.p4runtime.packet_io import ControllerHeader
from softswitch.p4runtime.schema import MetadataSchema


def header(*widths: int) -> ControllerHeader:
    return ControllerHeader(
        tuple(MetadataSchema(i, f"m{i}", w, f"metadata 'm{i}'") for i, w in enumerate(widths, 1))
    )


def packet_out(payload: bytes, **values: bytes) -> Any:
    message = p4runtime_pb2.PacketOut(payload=payload)
    for name, value in values.items():
        message.metadata.add(metadata_id=int(name[1:]), value=value)
    return message


def test_layout() -> None:
    frame = header(9, 7).packet_out(packet_out(b"pay", m2=b"\x01", m1=b"\x01\x02"))
    assert frame == bytes.fromhex("8101") + b"pay"


def test_packet_in_is_canonical() -> None:
    message = header(9, 1, 6).packet_in(bytes.fromhex("00c1") + b"pay")
    assert message is not None
    assert message.payload == b"pay"
    assert [(m.metadata_id, m.value) for m in message.metadata] == [
        (1, b"\x01"),
        (2, b"\x01"),
        (3, b"\x01"),
    ]


def test_header_that_is_no_whole_bytes_is_padded() -> None:
    assert header(9).size_bytes == 2
    assert header(9).packet_out(packet_out(b"", m1=b"\x01")) == bytes.fromhex("0080")


def test_without_header_the_payload_is_the_frame() -> None:
    assert header().packet_out(packet_out(b"frame")) == b"frame"
    message = header().packet_in(b"frame")
    assert message is not None
    assert message.payload == b"frame"


def test_frame_shorter_than_the_header() -> None:
    assert header(16).packet_in(b"\x00") is None


@pytest.mark.parametrize(
    ("values", "code", "match"),
    [
        ({"m1": b"\x01"}, Code.INVALID_ARGUMENT, "'m2' missing"),
        ({"m1": b"\x01", "m2": b"\x01", "m3": b"\x01"}, Code.INVALID_ARGUMENT, "metadata id 3"),
        ({"m1": b"\x02\x00", "m2": b"\x01"}, Code.OUT_OF_RANGE, "'m1'"),
        ({"m1": b"", "m2": b"\x01"}, Code.OUT_OF_RANGE, "'m1'"),
    ],
)
def test_metadata_must_be_those_of_p4info(values: dict[str, bytes], code: Code, match: str) -> None:
    with pytest.raises(P4RuntimeError, match=match) as raised:
        header(9, 7).packet_out(packet_out(b"", **values))
    assert raised.value.code is code


def test_metadata_given_twice() -> None:
    message = packet_out(b"", m1=b"\x01")
    message.metadata.add(metadata_id=1, value=b"\x01")
    with pytest.raises(P4RuntimeError, match="twice"):
        header(9).packet_out(message)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6).flatmap(
        lambda widths: st.tuples(
            st.just(widths), st.tuples(*(st.integers(0, 2**w - 1) for w in widths))
        )
    )
)
def test_round_trip(case: tuple[list[int], tuple[int, ...]]) -> None:
    widths, values = case
    layout = header(*widths)
    data = {f"m{i}": v.to_bytes(8, "big") for i, v in enumerate(values, 1)}
    message = layout.packet_in(layout.packet_out(packet_out(b"x", **data)))
    assert message is not None
    assert message.payload == b"x"
    assert [int.from_bytes(m.value, "big") for m in message.metadata] == list(values)
