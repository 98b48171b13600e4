"""The pipeline's calling convention: what a packet can ask for (programs/requests.p4)."""

from __future__ import annotations

import linecache
import logging
import struct
from typing import NamedTuple

import pytest

from softswitch.pipeline import (
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_REPLICATION,
    EgressRequests,
    Pipeline,
)
from softswitch.program import load_program
from tests.softswitch.pipeline_support import PROGRAMS, Bench, bench

(
    CLONE_INGRESS,
    RESUBMIT,
    MULTICAST,
    DIGEST,
    TRUNCATE,
    DROP,
    DROP_AND_TELL,
    LOG,
    ASSERT,
    SEND,
    RECIRCULATE,
    CLONE_EGRESS,
    DROP_EGRESS,
    DROP_AND_CLONE_EGRESS,
    TRUNCATE_EGRESS,
    SWAP_HEADERS,
) = range(1, 17)
TRACE = struct.Struct("!BBHHIHH6s6sI3sI3s")


class Trace(NamedTuple):
    """The `trace_t` header that egress puts in front."""

    instance: int
    rid: int
    in_port: int
    out_port: int
    length: int
    kept: int
    lost: int
    in_us: int
    out_us: int
    enq_us: int
    enq_depth: int
    waited_us: int
    deq_depth: int


@pytest.fixture
def asked() -> Bench:
    return bench("requests")


def ask(what: int, arg: int = 0, kept: int = 0, payload: bytes = b"payload") -> bytes:
    return struct.pack("!BBH", what, arg, kept) + payload


def split(frame: bytes) -> tuple[Trace, bytes]:
    values = TRACE.unpack_from(frame)
    numbers = [int.from_bytes(v, "big") if isinstance(v, bytes) else v for v in values]
    return Trace(*numbers), frame[TRACE.size :]


def test_metadata(asked: Bench) -> None:
    asked.now_ns, asked.wait_ns = 7_000_999, 3_500
    trace, rest = split(asked.send_one(ask(0), port=9))
    assert rest == ask(0)
    assert trace == Trace(INSTANCE_NORMAL, 0, 9, 2, 11, 0, 0, 7000, 7004, 7000, 3, 4, 4)


def test_result_of_ingress(asked: Bench) -> None:
    result = asked.pipeline.ingress(ask(SEND, 77, 5), 1, 0)
    assert result is not None
    assert result[:4] == (77, 5, 0, 11)
    assert result[5] is None


def test_drop(asked: Bench) -> None:
    assert asked.pipeline.ingress(ask(DROP), 1, 0) is None
    assert asked.send(ask(DROP_EGRESS)) == []


def test_drop_port_of_the_switch() -> None:
    program = load_program((PROGRAMS / "requests.json").read_text())
    own = Bench(Pipeline(program, drop_port=100))
    assert own.send(ask(DROP)) == []
    assert own.send(ask(DROP_EGRESS)) == []
    assert own.send(ask(SEND, 100)) == []
    assert [port for port, _ in own.send(ask(SEND, 101))] == [101]


def test_clone_from_ingress(asked: Bench) -> None:
    asked.sessions[5] = [7, 8]
    sent = asked.send(ask(CLONE_INGRESS, 5, 0x1234))
    assert [port for port, _ in sent] == [7, 8, 2]
    for port, frame in sent[:2]:
        trace, rest = split(frame)
        assert rest == ask(CLONE_INGRESS, 5, 0x1234)  # as it came in
        assert (trace.instance, trace.out_port) == (INSTANCE_INGRESS_CLONE, port)
        assert (trace.kept, trace.lost, trace.in_port) == (0x1234, 0, 0)
    trace, rest = split(sent[2][1])
    assert rest == ask(CLONE_INGRESS, 5, 0xFFFF)
    assert (trace.instance, trace.kept, trace.lost) == (INSTANCE_NORMAL, 0x1234, 0x5555)


def test_clone_session_0_is_a_session(asked: Bench) -> None:
    asked.sessions[0] = [7]
    assert [port for port, _ in asked.send(ask(CLONE_INGRESS, 0))] == [7, 2]
    assert [port for port, _ in asked.send(ask(CLONE_INGRESS, 1))] == [2]


def test_clone_of_a_packet_with_a_parser_error(asked: Bench) -> None:
    assert asked.send_one(b"\x01\x02")[TRACE.size :] == b"\x01\x02"


def test_resubmit_keeps_its_field_list(asked: Bench) -> None:
    trace, rest = split(asked.send_one(ask(RESUBMIT, 1, 0xABCD), port=9))
    # The frame is the original (arg 1), `kept` was put into it in the second round.
    assert rest == ask(RESUBMIT, 1, 0xABCD)
    assert (trace.kept, trace.lost, trace.in_port) == (0xABCD, 0x2222, 0)
    assert trace.instance == INSTANCE_NORMAL


def test_recirculate(asked: Bench) -> None:
    trace, rest = split(asked.send_one(ask(RECIRCULATE, 3, 5), port=9))
    # egress changed `kept` to 0x9999, the second ingress to the preserved 0x1111
    assert rest == ask(RECIRCULATE, 0x13, 0x1111)
    assert (trace.kept, trace.lost, trace.length) == (0x1111, 0, 11)


def test_multicast(asked: Bench) -> None:
    asked.groups[6] = [(3, 1), (4, 2), (3, 9)]
    sent = asked.send(ask(MULTICAST, 6, 0x77))
    traces = [split(frame)[0] for _, frame in sent]
    assert [(port, t.out_port, t.rid) for (port, _), t in zip(sent, traces, strict=True)] == [
        (3, 3, 1),
        (4, 4, 2),
        (3, 3, 9),
    ]
    assert {(t.instance, t.kept) for t in traces} == {(INSTANCE_REPLICATION, 0x77)}
    assert asked.send(ask(MULTICAST, 5)) == []  # no such group


def test_digest(asked: Bench) -> None:
    asked.send(ask(DIGEST, 0, 0x1234), port=3)
    assert [(d.name, d.values) for d in asked.digests] == [("message_t", (DIGEST, 0x1234, 3))]
    assert [bits for _, bits in asked.pipeline.digests["message_t"].fields] == [8, 16, 9]


def test_dropped_packet_is_still_cloned_and_told(asked: Bench) -> None:
    asked.sessions[5] = [9]
    sent = asked.send(ask(DROP_AND_TELL))
    assert [port for port, _ in sent] == [9]
    assert split(sent[0][1])[0].kept == 7
    assert [d.values for d in asked.digests] == [(DROP_AND_TELL, 7, 0)]


def test_truncate_counts_the_bytes_that_leave(asked: Bench) -> None:
    result = asked.pipeline.ingress(ask(TRUNCATE, 6, payload=bytes(1000)), 1, 0)
    assert result is not None and result[3] == 6
    out = asked.send_one(ask(TRUNCATE, 50, payload=bytes(1000)))
    assert len(out) == 50
    assert split(out)[0].length == 1004
    assert len(asked.send_one(ask(TRUNCATE, 250, payload=bytes(9)))) == TRACE.size + 13
    assert asked.send_one(ask(TRUNCATE_EGRESS)) == asked.send_one(ask(0))[:6]


def test_clone_from_egress(asked: Bench) -> None:
    asked.sessions[5] = [7]
    sent = asked.send(ask(CLONE_EGRESS, 5, 0x1234), port=9)
    assert [port for port, _ in sent] == [7, 2]
    clone, rest = split(sent[0][1])
    assert rest == ask(CLONE_EGRESS, 5, 0x6666)  # as it is at the end of egress
    assert clone.instance == INSTANCE_EGRESS_CLONE
    assert (clone.kept, clone.lost, clone.in_port, clone.out_port) == (0x1234, 0, 0, 7)
    # the header added in egress was there already, and its length counted
    assert clone.length == 11 + TRACE.size
    trace, _ = split(sent[1][1])
    assert (trace.instance, trace.kept, trace.lost) == (INSTANCE_NORMAL, 0x1234, 0x7777)


def test_packet_dropped_in_egress_may_be_cloned(asked: Bench) -> None:
    asked.sessions[3] = [9]
    assert [port for port, _ in asked.send(ask(DROP_AND_CLONE_EGRESS))] == [9]
    result = asked.pipeline.ingress(ask(DROP_AND_CLONE_EGRESS), 1, 0)
    assert result is not None
    out = asked.pipeline.egress(result[4], 2, 0)
    assert isinstance(out, EgressRequests) and out.frame is None


def test_length_follows_headers(asked: Bench) -> None:
    result = asked.pipeline.ingress(ask(SWAP_HEADERS), 1, 0)
    assert result is not None and result[3] == 11 - 4 + 1
    trace, rest = split(asked.send_one(ask(SWAP_HEADERS)))
    assert trace.length == 8
    assert rest == b"\xabpayload"


def test_log_msg(asked: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "softswitch.program"):
        asked.send(ask(LOG, 4, 1234))
    assert [record.getMessage() for record in caplog.records] == ["kept = 1234 of 4"]


def test_failed_assertion_drops_and_is_counted(asked: Bench) -> None:
    assert len(asked.send(ask(ASSERT, 2))) == 1
    assert asked.send(ask(ASSERT, 0)) == []
    assert asked.send(ask(ASSERT, 1)) == []
    assert asked.send(ask(ASSERT, 1)) == []
    counts = asked.pipeline.failed_asserts
    assert sorted(counts.values()) == [1, 2]
    assert all(where.startswith("requests.p4(") for where in counts)


def test_source_is_known_to_tracebacks(asked: Bench) -> None:
    pipeline = asked.pipeline
    for function, source in (
        (pipeline.ingress, pipeline.ingress_source),
        (pipeline.egress, pipeline.egress_source),
    ):
        filename = function.__code__.co_filename
        assert "".join(linecache.getlines(filename)) == source
        assert source.startswith("def ")


def test_two_pipelines_of_a_program_are_independent() -> None:
    one, two = bench("stateful"), bench("stateful")
    frame = bytes([0x45]) + bytes(19)
    one.send(frame)
    assert one.pipeline.counters["IngressImpl.by_port"].read(1) == (1, 20)
    assert two.pipeline.counters["IngressImpl.by_port"].read(1) == (0, 0)
