"""Entries to P4Runtime messages and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from controller.codec import decode, encode, to_bytes
from controller.entries import (
    ActionCall,
    Entity,
    Group,
    GroupRef,
    MatchValue,
    Member,
    MemberRef,
    OneShot,
    TableEntry,
)
from controller.p4info import Field, Schema, SchemaError, parse_p4info
from controller.text import describe, value_text

P4INFO = """
tables {
  preamble { id: 1 name: "In.all_kinds" }
  match_fields { id: 1 name: "exact" bitwidth: 9 match_type: EXACT }
  match_fields { id: 2 name: "lpm" bitwidth: 128 match_type: LPM }
  match_fields { id: 3 name: "ternary" bitwidth: 16 match_type: TERNARY }
  match_fields { id: 4 name: "range" bitwidth: 16 match_type: RANGE }
  match_fields { id: 5 name: "optional" bitwidth: 8 match_type: OPTIONAL }
}
actions {
  preamble { id: 11 name: "In.act" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "mac" bitwidth: 48 }
}
actions { preamble { id: 12 name: "In.nothing" } }
action_profiles { preamble { id: 21 name: "In.selector" } with_selector: true }
"""

SCHEMA = Schema(parse_p4info(P4INFO))


def bits(width: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << width) - 1)


calls = st.one_of(
    st.builds(lambda port, mac: ActionCall("In.act", (port, mac)), bits(9), bits(48)),
    st.just(ActionCall("In.nothing", ())),
)
prefixes = st.integers(0, 128).flatmap(
    lambda length: bits(length).map(lambda value: (value << 128 - length, length))
)
ternaries = st.tuples(bits(16), bits(16)).map(lambda pair: (pair[0] & pair[1], pair[1]))
ranges = st.tuples(bits(16), bits(16)).map(lambda pair: (min(pair), max(pair)))
matches = st.tuples(bits(9), prefixes, ternaries, ranges, st.none() | bits(8))
targets = st.one_of(
    calls,
    st.builds(MemberRef, st.integers(1, 100)),
    st.builds(GroupRef, st.integers(1, 100)),
    st.lists(st.tuples(calls, st.integers(1, 9)), min_size=1, max_size=3).map(
        lambda members: OneShot(tuple(members))
    ),
)
entities: st.SearchStrategy[Entity] = st.one_of(
    st.builds(TableEntry, st.just("In.all_kinds"), matches, targets, st.integers(1, 1000)),
    st.builds(Member, st.just("In.selector"), st.integers(1, 1000), calls),
    st.builds(
        Group,
        st.just("In.selector"),
        st.integers(1, 1000),
        st.dictionaries(st.integers(1, 50), st.integers(1, 5)).map(
            lambda members: tuple(sorted(members.items()))
        ),
    ),
)


@given(entities)
def test_decode_is_the_inverse_of_encode(entity: Entity) -> None:
    wire = encode(entity, SCHEMA).SerializeToString()
    assert decode(p4runtime_pb2.Entity.FromString(wire), SCHEMA) == entity


@given(entities)
def test_every_entry_can_be_put_in_words_of_one_line(entity: Entity) -> None:
    text = f"{describe(entity, SCHEMA)} {value_text(entity, SCHEMA)}"
    assert "\n" not in text
    assert text.startswith("In.")


@given(st.integers(0, 2**48 - 1))
def test_byte_strings_are_canonical(value: int) -> None:
    data = to_bytes(value, Field(1, "mac", 48), "In.act")
    assert int.from_bytes(data, "big") == value
    assert len(data) == 1 or data[0] != 0


def test_values_that_do_not_care_are_left_out() -> None:
    match: tuple[MatchValue, ...] = (1, (0, 0), (0, 0), (0, 0xFFFF), None)
    entry = TableEntry("In.all_kinds", match, ActionCall("In.nothing", ()))
    message = encode(entry, SCHEMA)
    assert [item.field_id for item in message.table_entry.match] == [1]
    assert decode(message, SCHEMA) == entry


def test_padded_byte_strings_are_read_too() -> None:
    message = encode(Member("In.selector", 1, ActionCall("In.act", (3, 4))), SCHEMA)
    message.action_profile_member.action.params[0].value = b"\x00\x03"
    assert decode(message, SCHEMA) == Member("In.selector", 1, ActionCall("In.act", (3, 4)))


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (TableEntry("In.none", (), MemberRef(1)), "the program has no table In.none"),
        (Member("In.none", 1, ActionCall("In.nothing", ())), "has no action profile In.none"),
        (Member("In.selector", 1, ActionCall("In.none", ())), "has no action In.none"),
        (Member("In.selector", 1, ActionCall("In.act", (1,))), "1 arguments for 2 parameters"),
        (Member("In.selector", 1, ActionCall("In.act", (512, 0))),
         "In.act: port 0x200 does not fit in 9 bits"),
        (TableEntry("In.all_kinds", (1,), MemberRef(1)), "1 key values for 5 key fields"),
        (TableEntry("In.all_kinds", (1, 2, (0, 0), (0, 0), None), MemberRef(1)),
         "lpm matches LPM, not 2"),
        (TableEntry("In.all_kinds", (-1, (0, 0), (0, 0), (0, 0), None), MemberRef(1)),
         "exact -0x1 does not fit in 9 bits"),
    ],
)  # fmt: skip
def test_what_the_program_does_not_have_is_named(entity: Entity, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        encode(entity, SCHEMA)


def test_strange_answers_are_named() -> None:
    message = p4runtime_pb2.Entity()
    message.register_entry.register_id = 1
    with pytest.raises(SchemaError, match="register_entry was not asked for"):
        decode(message, SCHEMA)
    message = p4runtime_pb2.Entity()
    message.table_entry.table_id = 99
    with pytest.raises(SchemaError, match="no table with id 99"):
        decode(message, SCHEMA)
    message.table_entry.table_id = 1
    with pytest.raises(SchemaError, match="without its exact field exact"):
        decode(message, SCHEMA)


def test_unknown_fields_of_newer_p4info_are_left_out() -> None:
    newer = 'pkg_info { arch: "v1model" invented_later: 3 }'
    assert isinstance(parse_p4info(newer), p4info_pb2.P4Info)
