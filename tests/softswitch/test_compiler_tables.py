"""Table look-ups in compiled programs (programs/matching.p4)."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.tables import (
    ActionCall,
    Entry,
    Group,
    GroupRef,
    MemberRef,
    OneShot,
    TableConst,
)
from tests.softswitch.pipeline_support import Bench, bench

(
    EXACT_ONE,
    EXACT_TWO,
    PREFIX,
    EXACT_PREFIX,
    TERNARY_TWO,
    IN_RANGE,
    MAYBE,
    FIXED,
    REMOVED,
    VALIDITY,
    MASKED,
    MEMBER,
    GROUP,
) = range(13)
NONE, SET, OTHER, LEAVE, OUT_PORT = range(1, 6)


class Result(NamedTuple):
    """Which action ran, its argument, and what was set afterwards."""

    action: int
    arg: int = 0
    after: int = 0


@pytest.fixture
def matching() -> Bench:
    return bench("matching")


def key(
    which: int,
    *,
    e: int = 0,
    address: int = 0,
    t: int = 0,
    r: int = 0,
    o: int = 0,
    extra: int | None = None,
) -> bytes:
    mark = 0 if extra is None else 0xEE
    packed = which << 96 | e << 88 | address << 56 | t << 40 | r << 24 | o << 16 | mark << 8
    return packed.to_bytes(13, "big")[:12] + (b"" if extra is None else bytes([extra]))


def apply(matching: Bench, frame: bytes) -> Result:
    """Send, and check everything but the result against what came in."""
    out = matching.send_one(frame)
    assert out[:11] == frame[:11]
    return Result(out[-4], int.from_bytes(out[-3:-1], "big"), out[-1])


def set_(arg: int) -> ActionCall:
    return ActionCall("set", (arg,))


def test_exact(matching: Bench) -> None:
    assert apply(matching, key(EXACT_ONE, e=7)) == Result(NONE)
    matching.add("exact_one", 7, call=set_(0x1234))
    matching.add("exact_one", 8, call=ActionCall("other", (0xAB, 0xCD)))
    assert apply(matching, key(EXACT_ONE, e=7)) == Result(SET, 0x1234)
    assert apply(matching, key(EXACT_ONE, e=8)) == Result(OTHER, 0xABCD)
    assert apply(matching, key(EXACT_ONE, e=9)) == Result(NONE)
    table = matching.table("exact_one")
    table.delete((7,))
    assert apply(matching, key(EXACT_ONE, e=7)) == Result(NONE)
    table.set_default(matching.call("exact_one", set_(5)))
    assert apply(matching, key(EXACT_ONE, e=7)) == Result(SET, 5)
    table.reset_default()
    assert apply(matching, key(EXACT_ONE, e=7)) == Result(NONE)


def test_exit_ends_the_control(matching: Bench) -> None:
    matching.add("exact_one", 7, call=ActionCall("leave"))
    out = matching.send_one(key(EXACT_ONE, e=7))
    assert out[-4] == LEAVE
    assert out[11] == 0  # `mark` would have been 0x99
    assert matching.send_one(key(EXACT_ONE, e=8))[11] == 0x99


def test_hit_and_miss(matching: Bench) -> None:
    matching.add("exact_two", 1, 2, call=set_(3))
    assert apply(matching, key(EXACT_TWO, e=1, t=2)) == Result(SET, 3, 0x11)
    assert apply(matching, key(EXACT_TWO, e=2, t=1)) == Result(NONE, 0, 0x22)
    with pytest.raises(TableConst):
        matching.table("exact_two").set_default(matching.call("exact_two", set_(1)))


def test_longest_prefix(matching: Bench) -> None:
    assert apply(matching, key(PREFIX, address=1)) == Result(SET, 0xDEAD)
    for value, length, arg in (
        (0x0A000000, 8, 8),
        (0x0A010000, 16, 16),
        (0x0A010203, 32, 32),
        (0x0A010200, 24, 24),
    ):
        matching.add("prefix", (value, length), call=set_(arg))
    for address, arg in (
        (0x0A010203, 32),
        (0x0A010204, 24),
        (0x0A01FF04, 16),
        (0x0AFF0000, 8),
        (0x0B000000, 0xDEAD),
    ):
        assert apply(matching, key(PREFIX, address=address)) == Result(SET, arg), hex(address)
    matching.add("prefix", (0, 0), call=set_(0))
    assert apply(matching, key(PREFIX, address=0x0B000000)) == Result(SET, 0)
    matching.table("prefix").delete(((0x0A010200, 24),))
    assert apply(matching, key(PREFIX, address=0x0A010204)) == Result(SET, 16)


def test_prefix_with_an_exact_field(matching: Bench) -> None:
    matching.add("exact_prefix", 1, (0, 0), call=set_(10))
    matching.add("exact_prefix", 1, (0xC0000000, 2), call=set_(11))
    matching.add("exact_prefix", 2, (0xC0000000, 2), call=set_(20))
    assert apply(matching, key(EXACT_PREFIX, e=1, address=0xFFFFFFFF)) == Result(SET, 11)
    assert apply(matching, key(EXACT_PREFIX, e=1, address=0x10000000)) == Result(SET, 10)
    assert apply(matching, key(EXACT_PREFIX, e=2, address=0x10000000)) == Result(NONE)


def test_ternary_priority_and_action_run(matching: Bench) -> None:
    matching.add("ternary_two", (0, 0), (0, 0), call=set_(1), priority=1)
    matching.add("ternary_two", (0x12, 0xFF), (0, 0), call=set_(2), priority=10)
    matching.add("ternary_two", (0x0012, 0xFFFF), (0x80000000, 1), call=set_(3), priority=5)
    matching.add(
        "ternary_two", (0x7700, 0xFF00), (0, 0), call=ActionCall("other", (1, 2)), priority=7
    )
    assert apply(matching, key(TERNARY_TWO, t=0x12, address=0xF0000000)) == Result(SET, 2, 0x33)
    assert apply(matching, key(TERNARY_TWO, t=0x1112)) == Result(SET, 2, 0x33)
    assert apply(matching, key(TERNARY_TWO, t=0x13)) == Result(SET, 1, 0x33)
    # After action `other` a further table is applied, which runs its default action.
    assert apply(matching, key(TERNARY_TWO, t=0x7711)) == Result(NONE, 0x0102, 0x44)
    matching.table("ternary_two").delete(((0, 0), (0, 0)), 1)
    assert apply(matching, key(TERNARY_TWO, t=0x13)) == Result(NONE, 0, 0x55)


def test_the_same_ternary_match_with_two_priorities(matching: Bench) -> None:
    matching.add("ternary_two", (5, 0xFF), (0, 0), call=set_(1), priority=1)
    matching.add("ternary_two", (5, 0xFF), (0, 0), call=set_(2), priority=2)
    assert apply(matching, key(TERNARY_TWO, t=5)).arg == 2
    matching.table("ternary_two").delete(((5, 0xFF), (0, 0)), 2)
    assert apply(matching, key(TERNARY_TWO, t=5)).arg == 1


def test_range(matching: Bench) -> None:
    matching.add("in_range", (10, 20), 1, call=set_(1), priority=1)
    matching.add("in_range", (15, 0xFFFF), 1, call=set_(2), priority=2)
    for value, expected in ((9, Result(NONE)), (10, Result(SET, 1)), (15, Result(SET, 2))):
        assert apply(matching, key(IN_RANGE, r=value, e=1)) == expected, value
    assert apply(matching, key(IN_RANGE, r=0xFFFF, e=1)) == Result(SET, 2)
    assert apply(matching, key(IN_RANGE, r=15, e=2)) == Result(NONE)
    matching.table("in_range").delete(((15, 0xFFFF), 1), 2)
    assert apply(matching, key(IN_RANGE, r=15, e=1)) == Result(SET, 1)


def test_optional(matching: Bench) -> None:
    # p4c writes an optional field as a ternary one; its mask is all or nothing.
    matching.add("maybe", (1, 0xFF), (0, 0), call=set_(1), priority=1)
    matching.add("maybe", (0, 0), (2, 0xFF), call=set_(2), priority=2)
    matching.add("maybe", (0, 0xFF), (0, 0xFF), call=set_(3), priority=3)
    assert apply(matching, key(MAYBE, o=1, e=9)) == Result(SET, 1)
    assert apply(matching, key(MAYBE, o=1, e=2)) == Result(SET, 2)
    assert apply(matching, key(MAYBE, o=0, e=0)) == Result(SET, 3)
    assert apply(matching, key(MAYBE, o=5, e=5)) == Result(NONE)


def test_const_entries(matching: Bench) -> None:
    assert apply(matching, key(FIXED, t=0x1234, r=15, e=1)) == Result(SET, 100)  # the first wins
    assert apply(matching, key(FIXED, t=0x1234, r=9, e=1)) == Result(SET, 200)
    assert apply(matching, key(FIXED, t=0x1299, r=9, e=1)) == Result(NONE)
    assert apply(matching, key(FIXED, e=2)) == Result(SET, 300)
    table = matching.table("fixed")
    assert [entry.is_const for entry in table.entries()] == [True] * 3
    priorities = [entry.priority for entry in table.entries()]
    assert priorities == sorted(priorities, reverse=True)
    with pytest.raises(TableConst):
        matching.add("fixed", (0, 0), (0, 1), 0, call=set_(1), priority=9)
    with pytest.raises(TableConst):
        table.delete(next(table.entries()).match, priorities[0])
    matching.pipeline.reset_state()
    assert apply(matching, key(FIXED, e=2)) == Result(SET, 300)


def test_field_of_an_invalid_header_counts_as_zero(matching: Bench) -> None:
    matching.add("validity", 0, (0, 0xFF), call=set_(1), priority=1)
    matching.add("validity", 1, (5, 0xFF), call=set_(2), priority=1)
    assert apply(matching, key(VALIDITY)) == Result(SET, 1)
    assert apply(matching, key(VALIDITY, extra=5)) == Result(SET, 2)
    assert apply(matching, key(VALIDITY, extra=0)) == Result(NONE)
    assert apply(matching, key(REMOVED, extra=5)) == Result(SET, 1)


def test_key_with_a_mask_of_the_program(matching: Bench) -> None:
    matching.add("masked", 0x00123400, call=set_(1))
    assert apply(matching, key(MASKED, address=0xAB1234CD)) == Result(SET, 1)
    assert apply(matching, key(MASKED, address=0xAB1235CD)) == Result(NONE)


# ---- action profiles and selectors ---------------------------------------------------------------


def member_call(matching: Bench, arg: int, table: str = "member") -> ActionCall:
    return matching.call(table, set_(arg))


def test_members(matching: Bench) -> None:
    profile = matching.pipeline.action_profiles["IngressImpl.profile"]
    profile.insert_member(3, member_call(matching, 30))
    table = matching.table("member")
    table.insert(Entry((1,), MemberRef(3)))
    table.insert(Entry((2,), MemberRef(3)))
    assert apply(matching, key(MEMBER, e=1)) == Result(SET, 30)
    profile.modify_member(3, matching.call("member", ActionCall("other", (9, 9))))
    assert apply(matching, key(MEMBER, e=1)) == Result(OTHER, 0x0909)
    assert apply(matching, key(MEMBER, e=2)) == Result(OTHER, 0x0909)
    assert apply(matching, key(MEMBER, e=3)) == Result(0)  # no default action: nothing


def select(flow: int, address: int, count: int) -> int:
    """simple_switch: CRC-32 of the selector fields, modulo the members in order of their ids."""
    return zlib.crc32((flow << 32 | address).to_bytes(6, "big")) % count


def fill(matching: Bench, ids: list[int]) -> None:
    selector = matching.pipeline.action_profiles["IngressImpl.chooser"]
    for member in ids:
        selector.insert_member(member, member_call(matching, member, "group"))


def test_group_members_are_selected_by_hash(matching: Bench) -> None:
    selector = matching.pipeline.action_profiles["IngressImpl.chooser"]
    fill(matching, [7, 3, 5])
    selector.insert_group(1, Group({7: (1, -1), 3: (1, -1), 5: (1, -1)}))
    matching.table("group").insert(Entry((0,), GroupRef(1)))
    seen = set()
    for flow in range(50):
        result = apply(matching, key(GROUP, t=flow, address=flow * 77))
        assert result == Result(SET, [3, 5, 7][select(flow, flow * 77, 3)])
        seen.add(result.arg)
    assert seen == {3, 5, 7}
    selector.modify_group(1, Group({7: (1, -1), 3: (3, -1)}))
    for flow in range(50):
        result = apply(matching, key(GROUP, t=flow))
        assert result.arg == [3, 3, 3, 7][select(flow, 0, 4)]
    assert apply(matching, key(GROUP, e=1)).after == 0x66  # another key: miss


def test_member_of_a_port_that_is_down_is_not_selected(matching: Bench) -> None:
    selector = matching.pipeline.action_profiles["IngressImpl.chooser"]
    fill(matching, [1, 2])
    selector.insert_group(1, Group({1: (1, 11), 2: (1, 22)}))
    matching.table("group").insert(Entry((0,), GroupRef(1)))
    matching.pipeline.set_port_up(11, False)
    assert {apply(matching, key(GROUP, t=flow)).arg for flow in range(20)} == {2}
    matching.pipeline.set_port_up(22, False)
    assert apply(matching, key(GROUP)) == Result(0)  # an empty group does nothing, but is a hit
    matching.pipeline.set_port_up(11, True)
    assert {apply(matching, key(GROUP, t=flow)).arg for flow in range(20)} == {1}


def test_single_member_in_a_selector_table(matching: Bench) -> None:
    fill(matching, [4])
    matching.table("group").insert(Entry((0,), MemberRef(4)))
    assert apply(matching, key(GROUP)) == Result(SET, 4)


def test_action_set_of_one_entry(matching: Bench) -> None:
    calls = tuple(
        (member_call(matching, arg, "group"), weight, port)
        for arg, weight, port in (
            (1, 2, 11),
            (2, 1, -1),
        )
    )
    table = matching.table("group")
    table.insert(Entry((0,), OneShot(calls)))
    for flow in range(30):
        assert apply(matching, key(GROUP, t=flow)).arg == [1, 1, 2][select(flow, 0, 3)]
    matching.pipeline.set_port_up(11, False)
    assert {apply(matching, key(GROUP, t=flow)).arg for flow in range(20)} == {2}
    table.modify(Entry((0,), OneShot(calls[:1])))
    matching.pipeline.set_port_up(11, True)
    assert {apply(matching, key(GROUP, t=flow)).arg for flow in range(20)} == {1}
    table.delete((0,))
    assert apply(matching, key(GROUP)).after == 0x66


def test_selected_action_decides_the_port(matching: Bench) -> None:
    selector = matching.pipeline.action_profiles["IngressImpl.chooser"]
    selector.insert_member(1, matching.call("group", ActionCall("out_port", (9,))))
    matching.table("group").insert(Entry((0,), MemberRef(1)))
    assert [port for port, _ in matching.send(key(GROUP))] == [9]


# ---- the compiled look-up against the plain one -------------------------------------------------

ternary = st.integers(0, 0xFFFF).flatmap(
    lambda mask: st.integers(0, 0xFFFF).map(lambda value: (value & mask, mask))
)
prefix = st.integers(0, 32).flatmap(
    lambda length: st.integers(0, (1 << 32) - 1).map(
        lambda value: (value >> (32 - length) << (32 - length), length)
    )
)


@settings(max_examples=60, deadline=None)
@given(
    entries=st.dictionaries(st.tuples(ternary, prefix), st.integers(1, 50), max_size=12),
    deleted=st.sets(st.integers(0, 11)),
    keys=st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, (1 << 32) - 1)), max_size=12),
)
def test_ternary_search_finds_the_highest_priority(
    entries: dict[tuple[tuple[int, int], tuple[int, int]], int],
    deleted: set[int],
    keys: list[tuple[int, int]],
) -> None:
    own = bench_once()
    table = own.table("ternary_two")
    table.clear()
    for number, (match, priority) in enumerate(entries.items()):
        # Distinct priorities: between equal ones the choice is free.
        own.add("ternary_two", *match, call=set_(number), priority=priority * 100 + number)
    for number, (match, priority) in enumerate(entries.items()):
        if number in deleted:
            table.delete(match, priority * 100 + number)
    near = [(match[0][0], match[1][0]) for match in entries]
    for t, address in [*keys, *near]:
        hit = table.lookup((t, address))
        expected = Result(NONE, 0, 0x55)
        if hit is not None:
            assert isinstance(hit.target, ActionCall)
            expected = Result(SET, hit.target.args[0], 0x33)
        assert apply(own, key(TERNARY_TWO, t=t, address=address)) == expected


_ONCE: list[Bench] = []


def bench_once() -> Bench:
    if not _ONCE:
        _ONCE.append(bench("matching"))
    return _ONCE[0]
