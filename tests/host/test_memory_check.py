"""Memory: what is wrong is found, wherever it is."""

from __future__ import annotations

import random

import pytest

from host.memory_check import GUARD_BYTES, Pattern, Slots

SIZE = 10_000


@pytest.fixture(name="pattern")
def _pattern() -> Pattern:
    return Pattern(random.Random(1), SIZE)


def write(slots: Slots, slot: int, data: memoryview) -> None:
    start = slots.offset(slot)
    slots.buffer[start : start + len(data)] = data


def test_what_was_written_right_is_right(pattern: Pattern) -> None:
    slots = Slots(SIZE, 3)
    for slot in range(3):
        write(slots, slot, pattern.message(slot))
    for slot in range(3):
        assert slots.wrong_bytes(slot, pattern.message(slot)) == 0


def test_every_message_has_contents_of_its_own(pattern: Pattern) -> None:
    slots = Slots(SIZE, 1)
    write(slots, 0, pattern.message(0))
    assert slots.wrong_bytes(0, pattern.message(1)) > SIZE * 0.9


@pytest.mark.parametrize("shift", [0, 1, SIZE - 1])
def test_one_wrong_byte_is_found(pattern: Pattern, shift: int) -> None:
    slots = Slots(SIZE, 2)
    write(slots, 1, pattern.message(5))
    slots.buffer[slots.offset(1) + shift] ^= 0x10
    assert slots.wrong_bytes(1, pattern.message(5)) == 1


@pytest.mark.parametrize("place", [-1, -GUARD_BYTES, SIZE, SIZE + GUARD_BYTES - 1])
def test_a_write_beside_a_slot_is_found(pattern: Pattern, place: int) -> None:
    slots = Slots(SIZE, 2)
    write(slots, 0, pattern.message(0))
    slots.buffer[slots.offset(0) + place] ^= 1
    assert slots.wrong_bytes(0, pattern.message(0)) == 1


def test_a_packet_in_the_place_of_another_is_found() -> None:
    size = 1 << 23
    pattern = Pattern(random.Random(2), size)
    slots = Slots(size, 1)
    write(slots, 0, pattern.message(0))
    assert slots.wrong_bytes(0, pattern.message(0)) == 0
    start = slots.offset(0)
    for distance in (4096, 1 << 20, 1 << 22):
        moved = slots.buffer[start + distance : start + distance + 4096]
        assert moved != slots.buffer[start : start + 4096]


def test_a_cleared_slot_shows_later_writes(pattern: Pattern) -> None:
    slots = Slots(SIZE, 2)
    write(slots, 0, pattern.message(0))
    slots.clear(0)
    assert slots.written_bytes(0) == 0
    slots.buffer[slots.offset(0) + 77] ^= 0xFF
    assert slots.written_bytes(0) == 1
