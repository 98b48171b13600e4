"""Variable-length fields (programs/lengths.p4): copies and checksums over them."""

from __future__ import annotations

import pytest

from softswitch.externs import csum16
from tests.softswitch.pipeline_support import Bench, bench

LABELS = b"LM"
COPY, COPY_DATA, REMOVE, VERIFY, COPY_STACK, RANDOM, EMPTY_RANGE, NOTHING = range(1, 9)


@pytest.fixture(scope="module")
def lengths() -> Bench:
    return bench("lengths")


def option(op: int, data: bytes, checksum: int = 0) -> bytes:
    return bytes([op, 8 * len(data)]) + data + checksum.to_bytes(2, "big")


def summed(op: int, data: bytes) -> bytes:
    return option(op, data, csum16(bytes([op, 8 * len(data)]) + data))


def run(lengths: Bench, first: bytes, second: bytes, rest: bytes = b"payload") -> bytes:
    """The frame that comes out, without the first option (which never changes)."""
    out = lengths.send_one(first + second + LABELS + rest)
    assert out.startswith(first)
    return out[len(first) :]


@pytest.mark.parametrize("sizes", [(0, 0), (1, 16), (16, 1), (3, 5)])
def test_copy_of_a_header_brings_its_length(lengths: Bench, sizes: tuple[int, int]) -> None:
    first, second = bytes(range(sizes[0])), bytes(sizes[1])
    out = run(lengths, option(COPY, first), option(9, second))
    assert out == summed(COPY, first) + LABELS + b"payload"


def test_copy_of_the_field_alone(lengths: Bench) -> None:
    out = run(lengths, option(COPY_DATA, b"abc"), option(9, b""))
    data = bytes([9, 0]) + b"abc"  # the length field is the header's own
    assert out == data + csum16(data).to_bytes(2, "big") + LABELS + b"payload"


def test_packet_length_follows_a_removed_header(lengths: Bench) -> None:
    frame = option(REMOVE, b"ab") + option(9, b"cde") + LABELS
    result = lengths.pipeline.ingress(frame, 1, 0)
    assert result is not None and result[3] == len(frame) - 7
    assert run(lengths, option(REMOVE, b"ab"), option(9, b"cde")) == LABELS + b"payload"


def test_checksum_over_a_variable_length(lengths: Bench) -> None:
    second = option(9, b"xy", 0x1111)
    assert run(lengths, summed(VERIFY, b"odd"), second).startswith(second)
    assert run(lengths, option(VERIFY, b"odd", 1), second).startswith(option(9, b"xy", 0x0BAD))


def test_stack_copied_in_the_parser(lengths: Bench) -> None:
    second = option(9, b"")
    assert run(lengths, option(COPY_STACK, b""), second) == second + LABELS + LABELS + b"payload"
    assert run(lengths, option(NOTHING, b""), second) == second + LABELS + b"payload"


def test_random_between_bounds_known_only_at_run_time(lengths: Bench) -> None:
    drawn = {
        int.from_bytes(run(lengths, option(RANDOM, b""), option(9, b""))[2:4], "big")
        for _ in range(2000)
    }
    assert min(drawn) == 100 and max(drawn) == 200


def test_random_from_an_empty_range_writes_nothing(lengths: Bench) -> None:
    second = option(9, b"", 0x4242)
    assert run(lengths, option(EMPTY_RANGE, b""), second).startswith(second)
