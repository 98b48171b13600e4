"""Immediates and mailboxes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.kinds import Collective, describe, signature
from host.collectives.messages import (
    ABORT_OFFSET,
    MAILBOX_BYTES,
    READY_OFFSET,
    Failure,
    Immediate,
    Kind,
    Landing,
    Reason,
    Signature,
    decode_ready,
    encode_ready,
)
from host.qp.work import WcStatus


@given(st.sampled_from(Kind), st.integers(0, 255), st.integers(0, (1 << 22) - 1))
def test_an_immediate_is_32_bits_and_comes_back(kind: Kind, sequence: int, number: int) -> None:
    encoded = Immediate(kind, sequence, number).encode()
    assert 0 <= encoded < 1 << 32
    assert Immediate.decode(encoded) == (kind, sequence, number)


def test_an_immediate_bit_by_bit() -> None:
    assert Immediate(Kind.CREDIT, 0x81, 0x234567).encode() == 0b10 << 30 | 0x81 << 22 | 0x234567


def test_a_ready_comes_back_from_the_mailbox() -> None:
    told = Signature(1, 2, 3, 4096, 4095, 1024, (1 << 64) - 1, 1 << 40)
    landings = (Landing((1 << 64) - 1, (1 << 32) - 1), Landing(1 << 40, 7))
    mailbox = bytearray(MAILBOX_BYTES)
    contents = encode_ready(told, landings)
    assert READY_OFFSET + len(contents) <= ABORT_OFFSET
    mailbox[READY_OFFSET : READY_OFFSET + len(contents)] = contents
    assert decode_ready(memoryview(mailbox)) == (told, landings)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("status", [None, *WcStatus])
def test_an_abort_tells_who_saw_what(reason: Reason, status: WcStatus | None) -> None:
    failure = Failure(reason, 3, 4, status, "detail stays here")
    mailbox = bytearray(MAILBOX_BYTES)
    contents = failure.encode()
    mailbox[ABORT_OFFSET : ABORT_OFFSET + len(contents)] = contents
    assert Failure.decode(memoryview(mailbox)) == Failure(reason, 3, 4, status)


def test_any_bytes_in_a_mailbox_are_some_abort() -> None:
    told = Failure.decode(memoryview(b"\xff" * MAILBOX_BYTES))
    assert told == Failure(Reason.PROTOCOL, 0xFFFF, 0xFFFF, None)


def test_a_failure_reads_as_a_sentence() -> None:
    text = str(Failure(Reason.QP_ERROR, 3, 4, WcStatus.RETRY_EXCEEDED_ERROR))
    assert text == "rank 3, of rank 4: its queue pair ended, retry counter exceeded"
    assert str(Failure(Reason.ABORTED, 3, 3)) == "rank 3: the application aborted"


def test_signatures_are_described() -> None:
    told = signature(
        Collective.ALL_REDUCE, DataType.INT32, size=8, count=10, chunk=4, depth=2,
        reduce_op=ReduceOp.MAX,
    )  # fmt: skip
    assert describe(told) == "all-reduce of 10 int32 (max) among 8 ranks, 2 chunks of 4 elements"
    rooted = signature(
        Collective.BROADCAST, DataType.INT64, size=8, count=1, chunk=1, depth=8, root=5
    )
    assert describe(rooted).startswith("broadcast of 1 int64 from rank 5 among 8 ranks")
    assert describe(Signature(99, 0, 0, 1, 0, 1, 1, 1)) == "something unknown"
