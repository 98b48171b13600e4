"""Parsers (programs/parsing.p4): selects, loops, look-ahead, variable length, errors."""

from __future__ import annotations

import struct

import pytest

from softswitch.tables import BadMatch, TableFull
from tests.softswitch.pipeline_support import Bench, bench

NO_ERROR, TOO_SHORT, _NO_MATCH, STACK_FULL, HEADER_TOO_SHORT, TIMEOUT, BAD_ARGUMENT = range(7)
BAD_VERSION, UNWANTED = 7, 8


@pytest.fixture(scope="module")
def parsing() -> Bench:
    return bench("parsing")


def ethernet(ethertype: int, rest: bytes = b"") -> bytes:
    return bytes(range(12)) + ethertype.to_bytes(2, "big") + rest


def tags(*ethertypes: int) -> bytes:
    return b"".join(b"\x00\x01" + ethertype.to_bytes(2, "big") for ethertype in ethertypes)


def ipv4(options: bytes = b"", *, first: int | None = None, protocol: int = 17) -> bytes:
    first = 0x45 + len(options) // 4 if first is None else first
    return bytes([first]) + bytes(8) + bytes([protocol]) + bytes(10) + options


def report(bench_: Bench, frame: bytes, port: int = 1) -> tuple[int, int, int, int, int]:
    """(error, tags, loop counter, look-ahead, path), after a check that the rest is as it came."""
    out = bench_.send_one(frame, port)
    head = struct.Struct("!IBHBB")
    assert out[head.size :] == frame
    values: tuple[int, int, int, int, int] = head.unpack_from(out)
    return values


def test_plain_packet_is_accepted(parsing: Bench) -> None:
    assert report(parsing, ethernet(0x1234, b"payload")) == (NO_ERROR, 0, 0, 0, 0)


@pytest.mark.parametrize("length", range(14))
def test_too_short_for_the_first_header(parsing: Bench, length: int) -> None:
    assert report(parsing, ethernet(0x1234)[:length])[0] == TOO_SHORT


def test_an_empty_frame_is_a_parser_error_not_a_failure(parsing: Bench) -> None:
    assert report(parsing, b"")[0] == TOO_SHORT


@pytest.mark.parametrize("count", [1, 2, 3])
def test_stack_fills_up(parsing: Bench, count: int) -> None:
    inner = [0x8100] * (count - 1) + [0x4444]
    assert report(parsing, ethernet(0x8100, tags(*inner)))[:2] == (NO_ERROR, count)


def test_stack_out_of_bounds_keeps_what_was_extracted(parsing: Bench) -> None:
    frame = ethernet(0x8100, tags(0x8100, 0x8100, 0x8100, 0x4444))
    assert report(parsing, frame)[:2] == (STACK_FULL, 3)


def test_packet_ends_within_the_stack(parsing: Bench) -> None:
    frame = ethernet(0x8100, tags(0x8100) + b"\x00\x01\x81")
    assert report(parsing, frame)[:2] == (TOO_SHORT, 1)


def test_mask_and_port_range_in_select(parsing: Bench) -> None:
    marker = bytes(4)
    assert report(parsing, ethernet(0x9077, marker))[4] == 3
    for ethertype, port, path in ((0x9100, 1, 4), (0x9105, 1, 4), (0x9106, 1, 0), (0x9103, 2, 0)):
        assert report(parsing, ethernet(ethertype, marker), port)[4] == path, hex(ethertype)


def test_no_case_matches_and_no_default(parsing: Bench) -> None:
    # P4 says NoMatch; p4c emits no default transition, and then simple_switch accepts.
    assert report(parsing, ethernet(0x9000, b"\x05xyz"))[0] == NO_ERROR


def test_verify_with_an_error_of_the_program(parsing: Bench) -> None:
    assert report(parsing, ethernet(0x9000, b"\x02xyz"))[0] == UNWANTED


def test_value_set_is_empty_then_filled_then_replaced() -> None:
    own = bench("parsing")
    (members,) = own.pipeline.value_sets.values()
    frame = ethernet(0xABCD, bytes(4))
    assert report(own, frame)[4] == 0
    members.set_members([(0xABCD,), (0x1111,)])
    assert report(own, frame)[4] == 5
    members.set_members([((0x0000, 0x00FF),)])  # a mask
    assert report(own, frame)[4] == 0
    assert report(own, ethernet(0xAB00, bytes(4)))[4] == 5
    own.pipeline.reset_state()
    assert report(own, ethernet(0xAB00, bytes(4)))[4] == 0


def test_value_set_refuses_what_does_not_fit() -> None:
    (members,) = bench("parsing").pipeline.value_sets.values()
    with pytest.raises(BadMatch, match="16 bits"):
        members.set_members([(0x10000,)])
    with pytest.raises(BadMatch, match="2 fields"):
        members.set_members([(1, 2)])
    members.size = 1
    with pytest.raises(TableFull, match="room for 1"):
        members.set_members([(1,), (2,)])


@pytest.mark.parametrize("words", [0, 1, 10])
def test_variable_length_header(parsing: Bench, words: int) -> None:
    frame = ethernet(0x0800, ipv4(bytes(range(4 * words))) + b"payload")
    assert report(parsing, frame) == (NO_ERROR, 0, 0, 0x45 + words, 1)


def test_variable_length_header_that_is_cut_off(parsing: Bench) -> None:
    frame = ethernet(0x0800, ipv4(bytes(40))[:-1])
    assert report(parsing, frame)[0] == TOO_SHORT


def test_verify_before_extract(parsing: Bench) -> None:
    assert report(parsing, ethernet(0x0800, ipv4(first=0x65)))[0] == BAD_VERSION
    assert report(parsing, ethernet(0x0800, ipv4(first=0x44)))[0] == HEADER_TOO_SHORT
    assert report(parsing, ethernet(0x0800))[0] == TOO_SHORT  # nothing there to look at


@pytest.mark.parametrize(
    ("bits", "error"), [(0, NO_ERROR), (64, NO_ERROR), (72, HEADER_TOO_SHORT), (12, BAD_ARGUMENT)]
)
def test_length_of_a_varbit_field(parsing: Bench, bits: int, error: int) -> None:
    tlv = bytes([1, bits]) + bytes(16)
    frame = ethernet(0x0800, ipv4(protocol=250) + tlv)
    assert report(parsing, frame)[0] == error


def test_loop_without_extraction(parsing: Bench) -> None:
    out = parsing.send_one(ethernet(0x9200, b"\x05"))
    assert struct.unpack_from("!H", out, 5)[0] == 15


def test_endless_loop_is_given_up(parsing: Bench) -> None:
    out = parsing.send_one(ethernet(0x9200, b"\x00"))
    assert struct.unpack_from("!I", out)[0] == TIMEOUT


def test_signed_fields(parsing: Bench) -> None:
    assert report(parsing, ethernet(0x9300, b"\x01\xff\xfe\x03"))[4] == 0
    out = parsing.send_one(ethernet(0x9300, b"\xff\xff\xfe\x03"))
    assert out[8] == 7
    assert out[-4:] == b"\xff\xff\xff\x03"  # -2 + 1
    assert parsing.send_one(ethernet(0x9300, b"\xff\x7f\xff\x03"))[-4:] == b"\xff\x80\x00\x03"


def test_advance_leaves_bytes_out(parsing: Bench) -> None:
    frame = ethernet(0x9400, b"\x10" + b"ab" + b"MARK" + b"rest")
    out = parsing.send_one(frame)
    # One byte that was looked at and two more are skipped: neither header nor payload.
    assert out[9:] == frame[:14] + b"MARK" + b"rest"


@pytest.mark.parametrize(
    ("ahead", "error"), [(b"\x10", TOO_SHORT), (b"\x0c" + bytes(9), BAD_ARGUMENT), (b"", TOO_SHORT)]
)
def test_advance_that_cannot_be(parsing: Bench, ahead: bytes, error: int) -> None:
    assert struct.unpack_from("!I", parsing.send_one(ethernet(0x9400, ahead)))[0] == error
