"""How groups end: queue pairs that break, ranks that disagree, calls that cannot be."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.collectives import (
    COLLECTIVES,
    DataType,
    Failure,
    Group,
    GroupError,
    Job,
    JobSpec,
    Options,
    Reason,
    ReduceOp,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    recv,
    reduce_scatter,
    send,
    send_recv,
)
from host.collectives.messages import Immediate, Kind
from host.qp.work import WcStatus
from tests.host.collectives.fake import FakeWorld

I32 = DataType.INT32


def failures(world: FakeWorld) -> list[Failure | None]:
    return [group.failure for group in world.groups]


# --- queue pairs that end ---


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(list(COLLECTIVES)),
    st.integers(2, 5),
    st.integers(0, 60),
    st.integers(0, 1 << 32),
)
def test_a_broken_queue_pair_ends_the_collective_everywhere(
    name: str, size: int, events: int, seed: int
) -> None:
    rng = random.Random(seed)
    world = FakeWorld(size)
    spec = JobSpec(name, 240, I32, options=Options(chunk_bytes=8, depth=2))
    jobs = [Job(group, spec) for group in world.groups]
    for job in jobs:
        job.start()
    for _ in range(events):
        if choices := world.events():
            rng.choice(choices)()
    victim = rng.randrange(size)
    world.qp(victim, (victim + 1) % size).fail(WcStatus.RETRY_EXCEEDED_ERROR)
    world.run(rng)
    for job in jobs:
        assert job.wrong_elements == 0
        if size == 2 and job.group.rank != victim and job.group.failure is None:
            # Nothing was on its way on the only queue pair, and nothing ever will be
            continue
        # Either it was over already, or the rank knows that it never will be
        assert job.done
        told = job.group.failure
        assert told is not None and told.reason is Reason.QP_ERROR
        # The other end of it may have noticed first
        assert {told.rank, told.peer} == {victim, (victim + 1) % size}
    for group in world.groups:
        group.close()
    assert all(len(memory.regions) == size - 1 for memory in world.memories)


def test_the_status_is_the_one_of_the_request_that_failed_not_of_those_flushed() -> None:
    world = FakeWorld(3)
    for group in world.groups:
        all_reduce(group, bytearray(64), bytearray(64), I32, options=Options(chunk_bytes=4))
    world.run(random.Random(0), until=lambda: len(world.qp(1, 2).posted) > 2)
    world.qp(1, 2).fail(WcStatus.RETRY_EXCEEDED_ERROR)
    world.run(random.Random(0))
    expected = Failure(Reason.QP_ERROR, 1, 2, WcStatus.RETRY_EXCEEDED_ERROR)
    assert failures(world) == [expected] * 3


def test_a_failed_group_says_why_to_whoever_comes_later() -> None:
    world = FakeWorld(2)
    told: list[Failure] = []
    world.groups[0].on_failure = told.append
    all_reduce(world.groups[0], bytearray(4), bytearray(4), I32)
    world.qp(0, 1).fail(WcStatus.REMOTE_ACCESS_ERROR)
    world.groups[0].progress()
    assert [each.status for each in told] == [WcStatus.REMOTE_ACCESS_ERROR]
    with pytest.raises(GroupError, match=r"rank 0, of rank 1: .* remote access error"):
        all_reduce(world.groups[0], bytearray(4), bytearray(4), I32)


def test_an_abort_ends_what_runs_and_what_waits_on_all_ranks() -> None:
    world = FakeWorld(4)
    buffers = [bytearray(64) for _ in range(4)]
    operations = [
        all_reduce(group, buffer, buffer, I32)
        for group, buffer in zip(world.groups, buffers, strict=True)
        for _ in range(2)
    ]
    world.groups[2].abort()
    world.run(random.Random(3))
    assert all(operation.done and not operation.succeeded for operation in operations)
    assert failures(world) == [Failure(Reason.ABORTED, 2, 2)] * 4


def test_closing_a_group_that_works_aborts_it_and_closing_an_idle_one_tells_nobody() -> None:
    world = FakeWorld(2)
    idle = FakeWorld(2)
    all_reduce(world.groups[0], bytearray(64), bytearray(64), I32)
    for each in (world, idle):
        each.groups[0].close()
        each.groups[0].close()
        each.run(random.Random(0))
        with pytest.raises(GroupError, match="closed"):
            all_reduce(each.groups[0], bytearray(4), bytearray(4), I32)
    assert world.groups[1].failure == Failure(Reason.ABORTED, 0, 0)
    assert idle.groups[1].failure is None


# --- ranks that disagree ---


def test_ranks_that_call_different_collectives_are_told_what_the_other_does() -> None:
    world = FakeWorld(2)
    all_reduce(world.groups[0], bytearray(40), bytearray(40), I32)
    all_reduce(world.groups[1], bytearray(44), bytearray(44), I32, ReduceOp.MAX)
    world.run(random.Random(0))
    first = next(failure for failure in failures(world) if failure and failure.detail)
    assert first.reason is Reason.MISMATCH
    assert "all-reduce of 10 int32 (sum)" in first.detail
    assert "all-reduce of 11 int32 (max)" in first.detail
    assert all(failure and failure.reason is Reason.MISMATCH for failure in failures(world))


@pytest.mark.parametrize(
    ("imm", "problem"),
    [
        (Immediate(Kind.DATA, 0, 5), "chunk 5 of stream 0, for which nothing is ready"),
        (Immediate(Kind.READY, 7, 0), "READY of stream 7, expected 0"),
    ],
)
def test_signals_that_cannot_be_end_the_group(imm: Immediate, problem: str) -> None:
    world = FakeWorld(2)
    link = world.groups[0].link(1)
    link.control(imm, b"\0", 0)
    world.run(random.Random(0))
    failure = world.groups[1].failure
    assert failure == Failure(Reason.PROTOCOL, 1, 0, detail=problem)
    # Where it came from, only the reason is known
    assert world.groups[0].failure == Failure(Reason.PROTOCOL, 1, 0)


def test_a_chunk_that_comes_twice_ends_the_group() -> None:
    world = FakeWorld(2)
    send(world.groups[0], bytes(8), 1, I32, Options(chunk_bytes=4))
    operation = recv(world.groups[1], bytearray(8), 0, I32, Options(chunk_bytes=4))
    world.run(random.Random(0), until=lambda: len(world.qp(0, 1).posted) == 2)
    world.groups[0].link(1).control(Immediate(Kind.DATA, 0, 0), b"\0", 0)
    # Deliver all three together
    flying = world.qp(0, 1)
    for message in flying.can_land():
        flying.land(message)
    flying.posted.rotate(1)
    flying.deliver()
    flying.deliver()
    world.groups[1].progress()
    failure = operation.failure
    assert failure is not None and failure.detail == "chunk 0 of stream 0 came twice"


# --- calls ---


def lonely() -> Group:
    return FakeWorld(3).groups[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: all_reduce(g, bytes(4), bytearray(8), I32), "result: it has 8 bytes, but must"),
        (lambda g: all_reduce(g, bytes(5), bytearray(5), I32), "mine: 5 bytes are no whole"),
        (lambda g: all_reduce(g, bytes(4), bytes(4), I32), "result: it is read-only"),
        (lambda g: all_gather(g, bytes(4), bytearray(8), I32), "result: it has 8 bytes, but must"),
        (lambda g: reduce_scatter(g, bytes(8), bytearray(4), I32), "mine: it has 8 bytes"),
        (lambda g: all_to_all(g, bytes(16), bytearray(16), I32), "4 elements are no whole blocks"),
        (lambda g: broadcast(g, None, bytearray(4), I32, 1), "the root has something to send"),
        (lambda g: broadcast(g, None, bytearray(4), I32, 3), "root: 3 does not fit: it must be 0"),
        (lambda g: send(g, bytes(4), 1, I32), "to: 1 is this rank itself"),
        (lambda g: recv(g, bytearray(4), 7, I32), "source_rank: 7 does not fit"),
        (lambda g: send_recv(g, bytes(4), 1, bytearray(4), 0, I32), "a rank's send to itself"),
        (lambda g: all_reduce(g, memoryview(bytes(8))[::2], bytearray(4), I32), "not contiguous"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be(call: Callable[[Group], object], message: str) -> None:
    group = lonely()
    with pytest.raises(ValueError, match=message):
        call(group)
    assert group.idle


@pytest.mark.parametrize("shift", [4, -4])
def test_buffers_that_overlap_elsewhere_than_in_place_are_refused(shift: int) -> None:
    group = lonely()
    whole = memoryview(bytearray(64))
    inner = whole[16 + shift : 32 + shift]
    calls: list[Callable[[], object]] = [
        lambda: all_gather(group, inner, whole[:48], I32),
        lambda: reduce_scatter(group, whole[:48], inner, I32),
        lambda: all_reduce(group, whole[16:32], inner, I32),
        lambda: send_recv(group, whole[16:32], 2, inner, 0, I32),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="overlaps mine"):
            call()


@pytest.mark.parametrize(
    ("values", "message"),
    [({"chunk_bytes": 0}, "chunk_bytes: 0"), ({"depth": 0}, "depth: 0"), ({"depth": 1025}, "1025")],
)
def test_options_out_of_range(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options(**values)


def test_too_many_chunks_to_number() -> None:
    with pytest.raises(ValueError, match="chunk_bytes: too small"):
        all_reduce(
            FakeWorld(2).groups[0], bytes(1 << 24), bytearray(1 << 24), I32,
            options=Options(chunk_bytes=4),
        )  # fmt: skip


def test_buffers_of_arrays_and_numpy() -> None:
    world = FakeWorld(2)
    first = array("i", [1, 2, 3])
    second = np.array([10, 20, 30], dtype=np.int32)
    results = np.zeros((2, 3), dtype=np.int32)
    all_reduce(world.groups[0], first, results[0], I32)
    all_reduce(world.groups[1], second, results[1], I32)
    world.run(random.Random(0))
    assert results.tolist() == [[11, 22, 33]] * 2


def test_ranks_that_are_not_connected() -> None:
    group = Group(0, 2, FakeWorld(2).memories[0], FakeWorld(2).cqs[0])
    with pytest.raises(ValueError, match="rank 0 is not connected with rank 1"):
        send(group, bytes(4), 1, I32)
    with pytest.raises(ValueError, match="rank: 2 does not fit"):
        Group(2, 2, FakeWorld(2).memories[0], FakeWorld(2).cqs[0])


def test_operations_of_a_group_run_in_the_order_of_the_calls() -> None:
    world = FakeWorld(3)
    over: list[int] = []
    buffer = [bytearray(24) for _ in world.groups]
    for rank, group in enumerate(world.groups):
        for number in range(4):
            operation = all_reduce(group, bytes([number + rank] * 24), buffer[rank], I32)
            if rank == 0:
                operation.on_done = lambda _, n=number: over.append(n)
    world.run(random.Random(7))
    assert over == [0, 1, 2, 3]
    # 3 + 4 + 5
    assert buffer == [bytes([12] * 24)] * 3
