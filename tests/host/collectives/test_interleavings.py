"""Every collective under every order of events that MRC allows, as far as they can be tried."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from host.collectives import (
    COLLECTIVES,
    DataType,
    Job,
    JobSpec,
    Options,
    ReduceOp,
    recv,
    reduce_scatter,
    send,
)
from tests.host.collectives.fake import FakeWorld


def run(
    spec: JobSpec, size: int, seed: int = 0, *, lanes: int = 1, max_wimm: int = 128
) -> FakeWorld:
    """All ranks run a job to its end; the result is checked."""
    world = FakeWorld(size, lanes=lanes, max_wimm=max_wimm)
    jobs = [Job(group, spec) for group in world.groups]
    for job in jobs:
        job.start()
    world.run(random.Random(seed))
    for job in jobs:
        assert job.done and job.failure is None, f"stuck: {spec}"
        assert job.wrong_elements == 0
        assert job.group.idle
    # Nothing but mailboxes is left registered
    assert all(len(memory.regions) == (size - 1) for memory in world.memories)
    return world


def in_place_too(name: str) -> list[bool]:
    return [False] if name == "send-recv" else [False, True]


CASES = [(name, in_place) for name in COLLECTIVES for in_place in in_place_too(name)]


@pytest.mark.parametrize(("name", "in_place"), CASES)
@pytest.mark.parametrize("size", range(1, 10))
def test_every_number_of_ranks(name: str, in_place: bool, size: int) -> None:
    # Two elements more than whole blocks, and chunks that do not divide a block
    spec = JobSpec(
        name, 4 * (7 * size + 2), DataType.INT32, in_place=in_place, rounds=2,
        root=size // 2, options=Options(chunk_bytes=12, depth=2),
    )  # fmt: skip
    run(spec, size, seed=size)


@pytest.mark.parametrize(("name", "in_place"), CASES)
@pytest.mark.parametrize("elements", [0, 1, 2, 4, 5, 6])
def test_hardly_any_elements(name: str, in_place: bool, elements: int) -> None:
    run(JobSpec(name, 8 * elements, DataType.INT64, in_place=in_place, rounds=3), 5)


@pytest.mark.parametrize("name", [kind.name for kind in COLLECTIVES.values() if kind.reduces])
@pytest.mark.parametrize("data_type", DataType)
@pytest.mark.parametrize("reduce_op", ReduceOp)
def test_every_type_and_reduction(name: str, data_type: DataType, reduce_op: ReduceOp) -> None:
    run(JobSpec(name, 400, data_type, reduce_op, options=Options(chunk_bytes=16)), 4)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CASES),
    st.integers(2, 6),
    st.integers(0, 90),
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([1, 2, 128]),
    st.integers(0, 1 << 32),
)
@example(("all-reduce", True), 2, 40, 1, 1, 1, 1, 0)
def test_events_in_any_order(
    case: tuple[str, bool],
    size: int,
    elements: int,
    chunk: int,
    depth: int,
    lanes: int,
    max_wimm: int,
    seed: int,
) -> None:
    name, in_place = case
    spec = JobSpec(
        name, 4 * elements, DataType.FLOAT32, in_place=in_place, rounds=2, root=seed % size,
        options=Options(chunk_bytes=4 * chunk, depth=depth),
    )  # fmt: skip
    run(spec, size, seed, lanes=lanes, max_wimm=max_wimm)


@pytest.mark.parametrize("elements", [1, 2])
def test_a_broadcast_in_every_order_there_is(elements: int) -> None:
    """All orders of events, depth first: after each prefix, every event that is possible."""
    spec = JobSpec(
        "broadcast", 4 * elements, DataType.INT32, options=Options(chunk_bytes=4, depth=1)
    )
    pending: list[tuple[int, ...]] = [()]
    runs = 0
    while pending:
        choices = pending.pop()
        world = FakeWorld(2)
        jobs = [Job(group, spec) for group in world.groups]
        for job in jobs:
            job.start()
        for choice in choices:
            world.events()[choice]()
        # Go on with the first event each time, and remember the others
        path = choices
        while events := world.events():
            pending.extend((*path, other) for other in range(1, len(events)))
            events[0]()
            path = (*path, 0)
        runs += 1
        for job in jobs:
            assert job.done and job.failure is None and job.wrong_elements == 0, path
    assert runs > 1


def test_more_operations_than_there_are_sequences() -> None:
    spec = JobSpec("all-reduce", 16, DataType.INT32, rounds=300)
    run(spec, 2)
    run(replace(spec, collective="broadcast"), 3)


def test_ranks_may_be_far_ahead_of_those_they_have_nothing_to_do_with() -> None:
    world = FakeWorld(4)
    buffers = [bytearray(8) for _ in range(4)]
    whole = bytearray(range(32))
    scattered = [bytearray(8) for _ in range(4)]
    # Ranks 2 and 3 exchange three times while 0 and 1 have not begun anything
    for number in range(3):
        send(world.groups[2], bytes([number] * 8), 3, DataType.INT32)
        recv(world.groups[3], buffers[3], 2, DataType.INT32)
    for rank in (2, 3):
        reduce_scatter(world.groups[rank], whole, scattered[rank], DataType.INT32)
    world.run(random.Random(1))
    assert buffers[3] == bytes([2] * 8)
    assert not world.groups[2].idle
    send(world.groups[0], b"12345678", 1, DataType.INT32)
    received = recv(world.groups[1], buffers[1], 0, DataType.INT32)
    for rank in (0, 1):
        reduce_scatter(world.groups[rank], whole, scattered[rank], DataType.INT32)
    world.run(random.Random(2))
    assert received.succeeded and buffers[1] == b"12345678"
    assert all(group.idle for group in world.groups)
    # Four equal vectors: no byte of 4 * (0..31) carries
    assert b"".join(scattered) == bytes(4 * value for value in range(32))
