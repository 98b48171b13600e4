"""Stateful externs and hash functions: counters, meters, registers, checksums and hashes.

Results equal those of BMv2 (simple_switch), which defines what the names of v1model mean there.
Out-of-range indices are ignored, as in BMv2: nothing is read, written or counted.
"""

from __future__ import annotations

import binascii
import random
import zlib
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

# ---- counters ------------------------------------------------------------------------------------


class CounterArray:
    """An indirect counter; it always counts packets and bytes (of the packet's ingress length)."""

    __slots__ = ("bytes", "name", "packets", "size")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.packets = [0] * size
        self.bytes = [0] * size

    def read(self, index: int) -> tuple[int, int]:
        """(packets, bytes) of one cell; raises IndexError."""
        self._check(index)
        return self.packets[index], self.bytes[index]

    def write(self, index: int, packets: int, octets: int) -> None:
        """Set one cell; raises IndexError."""
        self._check(index)
        self.packets[index] = packets
        self.bytes[index] = octets

    def reset(self) -> None:
        """All cells to zero."""
        self.packets[:] = [0] * self.size
        self.bytes[:] = [0] * self.size

    def _check(self, index: int) -> None:
        if not 0 <= index < self.size:
            raise IndexError(f"{self.name}: index {index}: must be 0 to {self.size - 1}")


# ---- meters --------------------------------------------------------------------------------------


class MeterKind(Enum):
    """What a meter counts; the values are the names of BMv2's JSON."""

    PACKETS = "packets"
    BYTES = "bytes"


class MeterRate(NamedTuple):
    """One rate of a meter: packets or bytes per second, and the burst in packets or bytes."""

    rate_per_s: int
    burst: int


GREEN, YELLOW, RED = 0, 1, 2


class Meter:
    """One meter cell: a two-rate three-colour marker, colour blind.

    As in BMv2, each rate is a token bucket that starts full and is refilled in whole microseconds;
    the highest rate is asked first, so a red packet takes no token from the lower rate (RFC 2698).
    A meter that is not configured marks everything green.
    """

    __slots__ = ("_buckets", "kind", "rates")

    def __init__(self, kind: MeterKind) -> None:
        self.kind = kind
        self.rates: tuple[MeterRate, ...] = ()
        # Per rate, highest first: [tokens per second, burst, colour, tokens, tokens ever earned]
        self._buckets: list[list[int]] = []

    def configure(self, rates: Iterable[tuple[int, int]]) -> None:
        """Rates in ascending order, e.g. (CIR, CBS), (PIR, PBS); none at all: unconfigured.

        Raises ValueError if they do not ascend.
        """
        new = tuple(MeterRate(rate, burst) for rate, burst in rates)
        for low, high in pairwise(new):
            if low.rate_per_s > high.rate_per_s:
                raise ValueError(f"meter rates {low.rate_per_s}, {high.rate_per_s}: must ascend")
        self.rates = new
        self._buckets = [
            [rate.rate_per_s, rate.burst, colour, rate.burst, 0]
            for colour, rate in enumerate(new, start=1)
        ][::-1]

    def execute(self, length_bytes: int, now_ns: int) -> int:
        """Colour of a packet: 0 green, 1 yellow, 2 red."""
        need = 1 if self.kind is MeterKind.PACKETS else length_bytes
        now_us = now_ns // 1000
        for bucket in self._buckets:
            rate, burst, colour, tokens, earned_before = bucket
            earned = now_us * rate // 1_000_000
            if earned > earned_before:
                tokens = min(tokens + earned - earned_before, burst)
                bucket[4] = earned
            if tokens < need:
                bucket[3] = tokens
                return colour
            bucket[3] = tokens - need
        return GREEN


class MeterArray:
    """An indirect meter."""

    __slots__ = ("cells", "kind", "name", "rate_count", "size")

    def __init__(self, name: str, size: int, kind: MeterKind, rate_count: int = 2) -> None:
        self.name = name
        self.size = size
        self.kind = kind
        self.rate_count = rate_count
        self.cells = [Meter(kind) for _ in range(size)]

    def configure(self, index: int, rates: Iterable[tuple[int, int]]) -> None:
        """Set the rates of a cell, see `Meter.configure`; raises IndexError, ValueError."""
        self._cell(index).configure(rates)

    def read_config(self, index: int) -> tuple[MeterRate, ...]:
        """Rates of a cell, empty if it is not configured; raises IndexError."""
        return self._cell(index).rates

    def execute(self, index: int, length_bytes: int, now_ns: int) -> int:
        """Colour of a packet; raises IndexError."""
        return self._cell(index).execute(length_bytes, now_ns)

    def reset(self) -> None:
        """All cells unconfigured."""
        for cell in self.cells:
            cell.configure(())

    def _cell(self, index: int) -> Meter:
        if not 0 <= index < self.size:
            raise IndexError(f"{self.name}: index {index}: must be 0 to {self.size - 1}")
        return self.cells[index]


# ---- registers -----------------------------------------------------------------------------------


class RegisterArray:
    """A register; `values` is read and written in place by the data plane."""

    __slots__ = ("bitwidth", "name", "size", "values")

    def __init__(self, name: str, size: int, bitwidth: int) -> None:
        self.name = name
        self.size = size
        self.bitwidth = bitwidth
        self.values = [0] * size

    def reset(self) -> None:
        """All cells to zero."""
        self.values[:] = [0] * self.size


# ---- hashes and checksums ------------------------------------------------------------------------

Hash = Callable[[bytes], int]


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    """Byte table of a CRC in reflected (least significant bit first) form."""
    reflected = int(f"{polynomial:0{bits}b}"[::-1], 2)
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (reflected if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC16_TABLE = _table(0x8005, 16)
_CRC64_TABLE = _table(0x1B, 64)


def crc16(data: bytes) -> int:
    """CRC-16/ARC: polynomial 0x8005, reflected, start 0."""
    value = 0
    table = _CRC16_TABLE
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value


def crc_ccitt(data: bytes) -> int:
    """CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF, not reflected."""
    return binascii.crc_hqx(data, 0xFFFF)


def crc8(data: bytes) -> int:
    """CRC-8: polynomial 0x07, start 0, not reflected (BMv2's initial crc8_custom)."""
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value << 1) ^ 0x107 if value & 0x80 else value << 1
    return value


def crc64(data: bytes) -> int:
    """CRC-64 with polynomial 0x1B, reflected, start 0 (BMv2's initial crc64_custom)."""
    value = 0
    for byte in data:
        value = (value >> 8) ^ _CRC64_TABLE[(value ^ byte) & 0xFF]
    return value


def csum16(data: bytes) -> int:
    """Internet checksum (RFC 1071): complement of the one's complement sum of 16-bit words."""
    if len(data) & 1:
        data += b"\0"
    total = int.from_bytes(data, "big")
    # The one's complement sum is the number modulo 0xFFFF, where a multiple is 0xFFFF, not 0.
    return 0xFFFF - (total % 0xFFFF or 0xFFFF) if total else 0xFFFF


def _xor(data: bytes, size: int) -> int:
    value = 0
    for start in range(0, len(data), size):
        value ^= int.from_bytes(data[start : start + size].ljust(size, b"\0"), "big")
    return value


def xor16(data: bytes) -> int:
    """Exclusive or of the 16-bit words, zero-padded at the end."""
    return _xor(data, 2)


def xor32(data: bytes) -> int:
    """Exclusive or of the 32-bit words, zero-padded at the end."""
    return _xor(data, 4)


def identity(data: bytes) -> int:
    """The first eight bytes as a number."""
    return int.from_bytes(data[:8], "big")


def hash_ex(data: bytes) -> int:
    """simple_switch's example hash: FNV-1a with signed bytes and a final avalanche, 32 bits."""
    value = 2166136261
    for byte in data:
        signed = byte - 256 if byte > 127 else byte
        value = ((value ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    for shift, left in ((13, True), (7, False), (3, True), (17, False), (5, True)):
        if left:
            value = (value + (value << shift)) & 0xFFFFFFFF
        else:
            value ^= value >> shift
    return value


_U64 = (1 << 64) - 1
_XX1, _XX2, _XX3, _XX4, _XX5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _U64


def _xx_round(value: int, lane: int) -> int:
    return _rotate((value + lane * _XX2) & _U64, 31) * _XX1 & _U64


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0 (https://github.com/Cyan4973/xxHash, specification 0.1.1)."""
    length = len(data)
    at = 0
    if length >= 32:
        lanes = [(_XX1 + _XX2) & _U64, _XX2, 0, -_XX1 & _U64]
        while length - at >= 32:
            for i in range(4):
                word = int.from_bytes(data[at : at + 8], "little")
                lanes[i] = _xx_round(lanes[i], word)
                at += 8
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        value &= _U64
        for lane in lanes:
            value = ((value ^ _xx_round(0, lane)) * _XX1 + _XX4) & _U64
    else:
        value = _XX5
    value = (value + length) & _U64
    while length - at >= 8:
        value ^= _xx_round(0, int.from_bytes(data[at : at + 8], "little"))
        value = (_rotate(value, 27) * _XX1 + _XX4) & _U64
        at += 8
    if length - at >= 4:
        value ^= int.from_bytes(data[at : at + 4], "little") * _XX1 & _U64
        value = (_rotate(value, 23) * _XX2 + _XX3) & _U64
        at += 4
    for byte in data[at:]:
        value ^= byte * _XX5 & _U64
        value = _rotate(value, 11) * _XX1 & _U64
    value = (value ^ (value >> 33)) * _XX2 & _U64
    value = (value ^ (value >> 29)) * _XX3 & _U64
    return value ^ (value >> 32)


def _round_robin() -> Hash:
    count = -1

    def hash_(data: bytes) -> int:
        nonlocal count
        count += 1
        return count

    return hash_


def _round_robin_consistent() -> Hash:
    seen: dict[bytes, int] = {}
    return lambda data: seen.setdefault(data, len(seen))


_HASHES: dict[str, Hash] = {
    "bmv2_hash": xxh64,
    "cksum16": csum16,
    "crc16": crc16,
    "crc16_custom": crc16,
    "crc32": zlib.crc32,
    "crc32_custom": zlib.crc32,
    "crc64_custom": crc64,
    "crc8_custom": crc8,
    "crcCCITT": crc_ccitt,
    "csum16": csum16,
    "hash_ex": hash_ex,
    "identity": identity,
    "toeplitz": lambda data: 0,  # BMv2's initial key is zero, and so is every result
    "xor16": xor16,
    "xor32": xor32,
    "xxh64": xxh64,
}
HASH_NAMES: frozenset[str] = frozenset(
    {*_HASHES, "random", "round_robin", "round_robin_consistent"}
)


def make_hash(name: str, rng: random.Random) -> Hash:
    """A hash function by BMv2's name; stateful ones get a state of their own. Raises KeyError."""
    if name == "random":
        return lambda data: rng.getrandbits(64)
    if name == "round_robin":
        return _round_robin()
    if name == "round_robin_consistent":
        return _round_robin_consistent()
    return _HASHES[name]
