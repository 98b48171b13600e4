"""Requests from bytes: parsed, or refused before they take memory."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime import requests, wire
from softswitch.p4runtime.errors import Code, P4RuntimeError
from softswitch.p4runtime.requests import parser, well_formed

WRITE = p4runtime_pb2.WriteRequest
EMPTY_UPDATE = b"\x22\x00"
UNKNOWN_FIELD = b"\xf8\x01\x01"
DEEP_UPDATE = b"\x22\x06\x12\x04\x12\x02\x12\x00"  # update.entity.table_entry.match, empty


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_FIELDS", 1000)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    ("part", "fields"), [(EMPTY_UPDATE, 1), (UNKNOWN_FIELD, 1), (DEEP_UPDATE, 4)]
)
def test_no_request_has_more_fields_than_memory_can_take(part: bytes, fields: int) -> None:
    just_right = part * (1000 // fields)
    parse = parser("Write", WRITE)
    assert isinstance(well_formed(parse(just_right)), Message)
    with pytest.raises(P4RuntimeError, match="more than 1000 fields, send it in parts") as refused:
        well_formed(parse(just_right + part))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.usefixtures("small_limit")
def test_a_long_value_is_one_field() -> None:
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    request.config.p4_device_config = bytes(100_000)
    parse = parser("SetForwardingPipelineConfig", type(request))
    assert well_formed(parse(request.SerializeToString())) == request


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("data", [b"\xff" * 5000, b"\x1b" * 5000, b"\x22\x7f" * 2000 + b"\x22"])
def test_long_nonsense_is_malformed(data: bytes) -> None:
    with pytest.raises(P4RuntimeError, match="are no WriteRequest") as refused:
        well_formed(parser("Write", WRITE)(data))
    assert refused.value.code is Code.INVALID_ARGUMENT


def test_every_field_at_every_depth_counts() -> None:
    request = WRITE(device_id=1, atomicity=1)
    request.election_id.low = 7
    entry = request.updates.add(type=1).entity.table_entry
    entry.table_id = 5
    entry.match.add(field_id=1).exact.value = b"\x01"
    data = request.SerializeToString()
    # device_id, election_id and its low, atomicity; update, type, entity, table_entry, table_id,
    # match, field_id, exact, value
    assert wire.count_fields(data, WRITE.DESCRIPTOR, 100) == 13
    assert wire.count_fields(data, WRITE.DESCRIPTOR, 3) == 4


@given(st.binary(max_size=100))
def test_counting_is_not_fooled_by_any_bytes(data: bytes) -> None:
    try:
        count = wire.count_fields(data, WRITE.DESCRIPTOR, 1000)
    except wire.WireError:
        return
    assert count <= len(data) // 2
