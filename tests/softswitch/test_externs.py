"""Counters, meters, registers and hash functions."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.externs import (
    GREEN,
    HASH_NAMES,
    RED,
    YELLOW,
    CounterArray,
    Meter,
    MeterArray,
    MeterKind,
    RegisterArray,
    crc8,
    crc16,
    crc64,
    crc_ccitt,
    csum16,
    hash_ex,
    identity,
    make_hash,
    xor16,
    xor32,
    xxh64,
)

CHECK = b"123456789"  # the customary input of CRC catalogues
MS = 1_000_000


def test_crc_check_values() -> None:
    assert crc16(CHECK) == 0xBB3D
    assert crc_ccitt(CHECK) == 0x29B1
    assert crc8(CHECK) == 0xF4
    assert make_hash("crc32", random.Random())(CHECK) == 0xCBF43926


def test_crc64_is_a_reflected_crc() -> None:
    assert crc64(b"") == 0
    # By definition: the remainder of the bits, low bit first, modulo x^64 + x^4 + x^3 + x + 1
    value = int("".join(f"{byte:08b}"[::-1] for byte in CHECK), 2) << 64
    polynomial = (1 << 64) | 0x1B
    while value.bit_length() > 64:
        value ^= polynomial << (value.bit_length() - 65)
    assert crc64(CHECK) == int(f"{value:064b}"[::-1], 2)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_known_values(data: bytes, expected: int) -> None:
    assert xxh64(data) == expected


def test_internet_checksum() -> None:
    # The example of RFC 1071, section 3
    data = bytes.fromhex("0001f203f4f5f6f7")
    assert csum16(data) == 0xFFFF - 0xDDF2
    assert csum16(b"") == 0xFFFF
    assert csum16(bytes(20)) == 0xFFFF
    assert csum16(b"\xff\xff") == 0


@given(st.binary(max_size=80))
def test_internet_checksum_by_words(data: bytes) -> None:
    total = 0
    padded = data + b"\0" * (len(data) % 2)
    for at in range(0, len(padded), 2):
        total += int.from_bytes(padded[at : at + 2], "big")
        total = (total & 0xFFFF) + (total >> 16)
    assert csum16(data) == total ^ 0xFFFF


def test_small_hashes() -> None:
    assert xor16(b"\x12\x34\x56") == 0x1234 ^ 0x5600
    assert xor32(b"\x12\x34\x56\x78\x01") == 0x12345678 ^ 0x01000000
    assert identity(b"\x01\x02") == 0x0102
    assert identity(bytes(range(1, 12))) == 0x0102030405060708
    assert hash_ex(b"") == _avalanche(2166136261)
    assert hash_ex(b"\x80") == _avalanche((2166136261 ^ 0xFFFFFF80) * 16777619)


def _avalanche(value: int) -> int:
    value &= 0xFFFFFFFF
    value = value + (value << 13) & 0xFFFFFFFF
    value ^= value >> 7
    value = value + (value << 3) & 0xFFFFFFFF
    value ^= value >> 17
    return value + (value << 5) & 0xFFFFFFFF


@pytest.mark.parametrize("name", sorted(HASH_NAMES))
def test_every_named_hash_can_be_made(name: str) -> None:
    value = make_hash(name, random.Random(1))(b"abc")
    assert isinstance(value, int) and value >= 0
    with pytest.raises(KeyError):
        make_hash(name + "x", random.Random(1))


def test_hashes_with_state() -> None:
    first = make_hash("round_robin", random.Random())
    second = make_hash("round_robin", random.Random())
    assert [first(b"x"), first(b"x"), second(b"x")] == [0, 1, 0]
    consistent = make_hash("round_robin_consistent", random.Random())
    assert [consistent(b"x"), consistent(b"y"), consistent(b"x")] == [0, 1, 0]
    draws = [make_hash("random", random.Random(5))(b"x") for _ in range(2)]
    assert draws[0] == draws[1]


def test_custom_crcs_start_as_the_plain_ones() -> None:
    rng = random.Random()
    assert make_hash("crc16_custom", rng)(CHECK) == 0xBB3D
    assert make_hash("crc32_custom", rng)(CHECK) == zlib.crc32(CHECK)


# ---- counters and registers ----------------------------------------------------------------------


def test_counter_array() -> None:
    counter = CounterArray("c", 2)
    counter.write(1, 3, 300)
    assert counter.read(1) == (3, 300)
    packets = counter.packets
    counter.reset()
    assert counter.packets is packets and counter.read(1) == (0, 0)
    for call in (lambda: counter.read(2), lambda: counter.write(-1, 0, 0)):
        with pytest.raises(IndexError, match=r"c: index .*: must be 0 to 1"):
            call()


def test_register_array() -> None:
    register = RegisterArray("r", 3, 8)
    values = register.values
    values[2] = 5
    register.reset()
    assert register.values is values == [0, 0, 0]


# ---- meters --------------------------------------------------------------------------------------


def test_unconfigured_meter_is_green() -> None:
    meter = Meter(MeterKind.BYTES)
    assert [meter.execute(10**9, t) for t in range(5)] == [GREEN] * 5


def test_packets_meter_starts_full_and_refills() -> None:
    meter = Meter(MeterKind.PACKETS)
    meter.configure([(10, 2), (20, 4)])
    assert [meter.execute(9000, 0) for _ in range(6)] == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    # after 50 ms: half a token of the lower rate, one of the higher
    assert [meter.execute(1, 50 * MS) for _ in range(2)] == [YELLOW, RED]
    assert [meter.execute(1, 100 * MS) for _ in range(2)] == [GREEN, RED]


def test_bytes_meter_refuses_what_is_larger_than_the_burst() -> None:
    meter = Meter(MeterKind.BYTES)
    meter.configure([(1000, 100), (1000, 200)])
    assert meter.execute(201, 0) == RED
    assert meter.execute(150, 0) == YELLOW
    assert meter.execute(50, 0) == GREEN


def test_long_term_rate() -> None:
    meter = Meter(MeterKind.PACKETS)
    meter.configure([(100, 1), (100, 1)])
    green = sum(meter.execute(1, t * MS) == GREEN for t in range(10_000))
    assert 1000 <= green <= 1001


def test_time_that_does_not_pass_earns_nothing() -> None:
    meter = Meter(MeterKind.PACKETS)
    meter.configure([(10**9, 1), (10**9, 1)])
    assert [meter.execute(1, 5 * MS) for _ in range(3)] == [GREEN, RED, RED]
    assert meter.execute(1, 4 * MS) == RED  # nor does a step back


def test_rates_must_ascend() -> None:
    with pytest.raises(ValueError, match="must ascend"):
        Meter(MeterKind.BYTES).configure([(2, 1), (1, 1)])


def test_meter_array() -> None:
    meters = MeterArray("m", 2, MeterKind.PACKETS)
    meters.configure(1, [(1, 1), (1, 1)])
    assert meters.read_config(0) == ()
    assert meters.read_config(1) == ((1, 1), (1, 1))
    assert [meters.execute(1, 1, 0) for _ in range(2)] == [GREEN, RED]
    cells = meters.cells
    meters.reset()
    assert meters.cells is cells and meters.read_config(1) == ()
    with pytest.raises(IndexError, match="m: index 2"):
        meters.configure(2, [])
