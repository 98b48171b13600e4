"""Header stacks, unions and stacks of unions (programs/stacks.p4)."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest

from tests.softswitch.pipeline_support import Bench, bench

Items = list[tuple[int, int]]
SHORT, LONG, ONE_SHORT, ONE_LONG = 1, 2, 3, 4


@pytest.fixture(scope="module")
def stacks() -> Bench:
    return bench("stacks")


class Out(NamedTuple):
    """What the program reported, and the bytes after the operation's header."""

    total: int
    valid: int
    last: int
    op: int
    rest: bytes


def run(
    bench_: Bench, op: int, items: Items, *, a: int = 0, b: int = 0, rest: bytes = b"\0"
) -> Out:
    body = b"".join(bytes(item) for item in items)
    frame = bytes([op, a, b, len(items)]) + body + rest
    out = bench_.send_one(frame)
    total, valid, last = struct.unpack_from("!HBB", out)
    assert out[5:8] == frame[1:4]
    return Out(total, valid, last, out[4], out[8:])


def packed(items: Items, rest: bytes = b"\0") -> bytes:
    return b"".join(bytes(item) for item in items) + rest


FOUR = [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.parametrize("count", range(5))
def test_untouched(stacks: Bench, count: int) -> None:
    out = run(stacks, 0, FOUR[:count])
    assert out.rest == packed(FOUR[:count])
    assert out.total == sum(value for _, value in FOUR[: min(count, 2)])
    assert out.valid == (1 << count) - 1


def test_last_and_its_index_in_the_parser(stacks: Bench) -> None:
    assert run(stacks, 0, FOUR[:3]).last == 2 + 3  # lastIndex + last.kind


def test_push(stacks: Bench) -> None:
    out = run(stacks, 1, FOUR[:2], a=9, b=90)
    assert out.rest == packed([(9, 90), (1, 10), (2, 20)])
    assert (out.total, out.valid) == (100, 0b0111)


def test_push_onto_a_full_stack_loses_the_last(stacks: Bench) -> None:
    assert run(stacks, 1, FOUR, a=9, b=90).rest == packed([(9, 90), *FOUR[:3]])


def test_push_of_several_leaves_them_invalid(stacks: Bench) -> None:
    out = run(stacks, 2, FOUR[:2])
    assert out.rest == packed(FOUR[:1])
    assert out.valid == 0b1000


def test_pop(stacks: Bench) -> None:
    assert run(stacks, 3, FOUR).rest == packed(FOUR[1:])
    assert run(stacks, 4, FOUR).rest == packed(FOUR[3:])
    assert run(stacks, 4, FOUR[:2]).rest == packed([])


def test_field_by_run_time_index(stacks: Bench) -> None:
    out = run(stacks, 5, FOUR, a=0, b=3)
    assert out.rest == packed([(1, 40), *FOUR[1:]])
    assert out.total == 60


@pytest.mark.parametrize(("a", "b"), [(4, 0), (255, 1), (0, 4), (77, 99)])
def test_run_time_index_out_of_range_touches_nothing(stacks: Bench, a: int, b: int) -> None:
    out = run(stacks, 5, FOUR, a=a, b=b)
    expected = [(1, 0), *FOUR[1:]] if a == 0 else FOUR
    assert out.rest == packed(expected)


def test_header_by_run_time_index(stacks: Bench) -> None:
    assert run(stacks, 6, FOUR[:3], a=3, b=1).rest == packed([*FOUR[:3], (2, 20)])
    assert run(stacks, 6, FOUR[:3], a=0, b=3).rest == packed(FOUR[1:3])  # the source is invalid


def test_set_invalid(stacks: Bench) -> None:
    assert run(stacks, 7, FOUR).rest == packed([FOUR[0], *FOUR[2:]])
    assert run(stacks, 9, FOUR, a=2).rest == packed([*FOUR[:2], FOUR[3]])
    assert run(stacks, 9, FOUR, a=200).rest == packed(FOUR)


def test_copy_out_of_the_stack(stacks: Bench) -> None:
    out = run(stacks, 8, FOUR[:2])
    assert out.rest == packed([FOUR[1], FOUR[0]])  # the copy is deparsed after the stack


def test_comparison_of_headers(stacks: Bench) -> None:
    assert run(stacks, 15, [(1, 2), (1, 2)]).op == 0xE0
    assert run(stacks, 15, [(1, 2), (1, 3)]).op == 0xE1
    assert run(stacks, 15, []).op == 0xE0  # two invalid headers are equal in P4_16


def test_union_stack_is_parsed_and_deparsed(stacks: Bench) -> None:
    rest = bytes([SHORT, 5, LONG, 1, 2, 3, 0])
    out = run(stacks, 0, [], rest=rest)
    assert out.rest == rest
    assert out.valid == 16


def test_union_stack_full_is_a_parser_error(stacks: Bench) -> None:
    rest = bytes([SHORT, 5, SHORT, 6, SHORT, 7, 0])
    assert run(stacks, 0, [], rest=rest).rest == rest  # the third is payload


def test_making_one_member_valid_makes_the_other_invalid(stacks: Bench) -> None:
    assert run(stacks, 10, [], rest=bytes([ONE_LONG, 1, 2, 3, 0])).rest == b"\x77\0\0"
    assert run(stacks, 11, [], rest=bytes([ONE_SHORT, 9, 0])).rest == b"\0\x12\x34\x56\0"


def test_copy_of_a_union(stacks: Bench) -> None:
    rest = bytes([SHORT, 5, ONE_LONG, 1, 2, 3, 0])
    out = run(stacks, 12, [], rest=rest)
    assert out.rest == bytes([ONE_LONG, 1, 2, 3, ONE_LONG, 1, 2, 3, 0])
    assert out.valid == 32


def test_push_and_pop_of_unions(stacks: Bench) -> None:
    rest = bytes([LONG, 1, 2, 3, 0])
    assert run(stacks, 13, [], rest=rest).rest == bytes([0, 9]) + rest
    # P4 makes the last element invalid; simple_switch 1.15 forgets that for unions.
    assert run(stacks, 14, [], rest=rest).rest == b"\0"


@pytest.mark.parametrize(
    ("rest", "op"),
    [(bytes([ONE_LONG, 1, 2, 3]), 0xE0), (bytes([ONE_SHORT, 1]), 0xE0), (b"\0", 0xE1)],
)
def test_validity_of_a_union(stacks: Bench, rest: bytes, op: int) -> None:
    assert run(stacks, 16, [], rest=rest).op == op


def test_packets_do_not_share_records(stacks: Bench) -> None:
    """Two packets that are both between ingress and egress."""
    ingress, egress = stacks.pipeline.ingress, stacks.pipeline.egress
    frames = [bytes([0, 0, 0, 1, kind, kind]) + b"\0" for kind in (1, 2)]
    states = [result[4] for frame in frames if (result := ingress(frame, 1, 0)) is not None]
    outs = [egress(state, 2, 0) for state in states]
    again = egress(states[0], 2, 0)  # as for a second multicast copy
    assert [out[8:] for out in outs if isinstance(out, bytes)] == [f[4:] for f in frames]
    assert again == outs[0]
