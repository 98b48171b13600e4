"""Every byte compared: what was written with what was to be, and what was not to change.

A receiving buffer is a row of slots with guard bytes before, between and behind them, registered as
one region. Every message has contents of its own, cut from a pattern, so that a packet in the wrong
place, of another message or of another flow is found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

GUARD_BYTES: Final = 4096
_GUARD: Final = b"\xa5" * GUARD_BYTES
_FRESH: Final = 0x5A
#: Contents of successive messages start so far apart in the pattern; coprime to any MTU that is
#: a multiple of 4
_STRIDE_BYTES: Final = 4099
_SPAN_BYTES: Final = 1 << 18
#: More random bytes than this are not drawn: the pattern repeats behind them, at an odd distance
_MAX_RANDOM_BYTES: Final = (1 << 22) - 3
_CHUNK_BYTES: Final = 1 << 20


class Pattern:
    """Contents of messages of one size."""

    def __init__(self, rng: random.Random, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        total = size_bytes + _SPAN_BYTES
        block = rng.randbytes(min(total, _MAX_RANDOM_BYTES))
        repeats = -(-total // len(block))
        self._bytes = memoryview((block * repeats)[:total])

    def message(self, number: int) -> memoryview:
        """The contents of a message."""
        start = number * _STRIDE_BYTES % _SPAN_BYTES
        return self._bytes[start : start + self.size_bytes]


def slot_offset(size_bytes: int, slot: int) -> int:
    """Where a slot of `Slots` starts in its buffer, for a peer that writes there."""
    return GUARD_BYTES + slot * (size_bytes + GUARD_BYTES)


class Slots:
    """A receiving buffer: `count` slots of `size_bytes` and their guards."""

    def __init__(self, size_bytes: int, count: int) -> None:
        self.size_bytes = size_bytes
        self.count = count
        self.buffer = bytearray(slot_offset(size_bytes, count))
        self._view = memoryview(self.buffer)
        self._fresh = bytes([_FRESH]) * min(size_bytes, _CHUNK_BYTES)
        for slot in range(count + 1):
            end = self.offset(slot)
            self._view[end - GUARD_BYTES : end] = _GUARD
        for slot in range(count):
            self.clear(slot)

    def offset(self, slot: int) -> int:
        """Where a slot starts in the buffer."""
        return slot_offset(self.size_bytes, slot)

    def clear(self, slot: int) -> None:
        """Make a slot as if nothing had been written to it."""
        start = self.offset(slot)
        for done in range(0, self.size_bytes, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, self.size_bytes - done)
            self._view[start + done : start + done + size] = self._fresh[:size]

    def wrong_bytes(self, slot: int, expected: memoryview) -> int:
        """How many bytes of a slot and of its guards are not what they should be."""
        return sum(self.wrong_by_chunk(slot, expected))

    def wrong_by_chunk(self, slot: int, expected: memoryview) -> Iterator[int]:
        """`wrong_bytes` in steps that are short, for those who have other work to do between."""
        start = self.offset(slot)
        for guard in (start - GUARD_BYTES, start + self.size_bytes):
            yield _differences(self._view[guard : guard + GUARD_BYTES], memoryview(_GUARD))
        for done in range(0, self.size_bytes, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, self.size_bytes - done)
            yield _differences(
                self._view[start + done : start + done + size], expected[done : done + size]
            )

    def written_bytes(self, slot: int) -> int:
        """How many bytes of a slot differ from a cleared one's, and of its guards."""
        start = self.offset(slot)
        wrong = 0
        for done in range(0, self.size_bytes, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, self.size_bytes - done)
            wrong += _differences(
                self._view[start + done : start + done + size], memoryview(self._fresh)[:size]
            )
        return wrong


def _differences(got: memoryview, expected: memoryview) -> int:
    left, right = bytes(got), bytes(expected)
    if left == right:
        return 0
    return sum(a != b for a, b in zip(left, right, strict=True))
