"""Memory regions: what a remote write may touch."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.memory import FIRST_VIRTUAL_ADDRESS, Access, MemoryTable, RegistrationError

BOTH = Access.LOCAL_WRITE | Access.REMOTE_WRITE


@pytest.fixture
def table() -> MemoryTable:
    return MemoryTable(random.Random(1))


def test_registering_copies_nothing(table: MemoryTable) -> None:
    buffer = bytearray(100)
    region = table.register(buffer)
    target = table.remote_write(region.rkey, region.va + 10, 3, 0)
    assert target is not None
    target[:] = b"abc"
    assert buffer[10:13] == b"abc"


def test_part_of_a_buffer(table: MemoryTable) -> None:
    buffer = bytearray(100)
    region = table.register(memoryview(buffer)[40:50])
    assert region.length == 10
    target = table.remote_write(region.rkey, region.va, 10, 0)
    assert target is not None
    target[:] = bytes(range(10))
    assert buffer == bytes(40) + bytes(range(10)) + bytes(50)


def test_keys_and_addresses_repeat_with_the_seed_and_are_distinct() -> None:
    def made(seed: int) -> list[tuple[int, int]]:
        table = MemoryTable(random.Random(seed))
        regions = [table.register(bytearray(5000)) for _ in range(50)]
        return [(region.rkey, region.va) for region in regions]

    assert made(3) == made(3) != made(4)
    keys = [rkey for rkey, _ in made(3)]
    assert len(set(keys)) == 50 and 0 not in keys
    addresses = [va for _, va in made(3)]
    assert addresses[0] == FIRST_VIRTUAL_ADDRESS
    # An unused page lies between two regions
    assert all(b - a >= 5000 + 4096 for a, b in pairwise(addresses))


@given(
    start=st.integers(-20, 120),
    length=st.integers(0, 130),
    rkey_right=st.booleans(),
    pd=st.integers(0, 1),
    access=st.sampled_from([Access.NONE, Access.LOCAL_WRITE, Access.REMOTE_WRITE, BOTH]),
)
def test_what_is_allowed(
    start: int, length: int, rkey_right: bool, pd: int, access: Access
) -> None:
    table = MemoryTable(random.Random(1))
    region = table.register(bytearray(100), access, pd=1)
    rkey = region.rkey if rkey_right else region.rkey ^ 1
    target = table.remote_write(rkey, region.va + start, length, pd)
    allowed = (
        rkey_right
        and pd == 1
        and bool(access & Access.REMOTE_WRITE)
        and start >= 0
        and start + length <= 100
    )
    assert (target is not None) == allowed
    if target is not None:
        assert target.nbytes == length


def test_deregistering(table: MemoryTable) -> None:
    region = table.register(bytearray(8))
    table.deregister(region)
    assert not region.valid and len(table) == 0
    assert table.remote_write(region.rkey, region.va, 1, 0) is None
    with pytest.raises(RegistrationError, match="not registered here"):
        table.deregister(region)


def test_what_cannot_be_registered(table: MemoryTable) -> None:
    with pytest.raises(RegistrationError, match="read-only"):
        table.register(memoryview(b"abc"))
    with pytest.raises(RegistrationError, match="empty"):
        table.register(bytearray())
    with pytest.raises(RegistrationError, match="not contiguous"):
        table.register(memoryview(bytearray(10))[::2])
    with pytest.raises(RegistrationError, match="leaves no room for 2 bytes"):
        table.register(bytearray(2), va=2**64 - 1)
    assert table.register(bytearray(2), va=2**64 - 2).end == 2**64
    assert table.register(memoryview(b"abc"), Access.NONE).length == 3
