"""The responder: what is placed, what is answered, and how often."""

from __future__ import annotations

import pytest

from host.qp.states import QpState
from host.qp.work import WcOpcode
from host.roce.packet import Cnp, Opcode
from tests.host.roce.peer import MTU, PEER_QP, RocePeer

ACK, SEQUENCE_ERROR, INVALID, ACCESS = 0x1F, 0x60, 0x61, 0x62
RNR_10_US = 0x21
FIRST, MIDDLE, LAST = (
    Opcode.RDMA_WRITE_FIRST,
    Opcode.RDMA_WRITE_MIDDLE,
    Opcode.RDMA_WRITE_LAST,
)
ONLY_IMM = Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE
FULL = bytes(range(1, MTU + 1))
CE = 3


@pytest.fixture(name="peer")
def _peer() -> RocePeer:
    return RocePeer()


#: (numbers of single-packet writes as they come, what is answered, payloads in memory)
TABLE: list[tuple[str, list[int], list[tuple[int, int]], int]] = [
    ("in order, and one ACK for what came meanwhile", [0, 1, 2], [(ACK, 2)], 3),
    ("a gap", [0, 2], [(SEQUENCE_ERROR, 1)], 1),
    ("one NAK for a gap, however many come", [0, 2, 3, 4], [(SEQUENCE_ERROR, 1)], 1),
    ("the gap is filled before the NAK left", [0, 2, 1], [(ACK, 1)], 2),
    ("a duplicate", [0, 1, 0], [(ACK, 1)], 2),
    ("a duplicate behind a gap", [0, 2, 0], [(SEQUENCE_ERROR, 1)], 1),
]


@pytest.mark.parametrize(
    ("numbers", "answers", "placed"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_sequences(
    peer: RocePeer, numbers: list[int], answers: list[tuple[int, int]], placed: int
) -> None:
    for number in numbers:
        peer.write(number, bytes([number + 1]), offset=number)
    assert peer.answers() == answers
    assert peer.memory == bytes(range(1, placed + 1)) + bytes(4096 - placed)
    assert peer.responder.msn == placed


def test_a_new_gap_draws_a_new_nak(peer: RocePeer) -> None:
    peer.write(1)
    assert peer.answers() == [(SEQUENCE_ERROR, 0)]
    peer.write(2)
    assert peer.answers() == []
    peer.write(0)
    assert peer.answers() == [(ACK, 0)]
    peer.write(2)
    assert peer.answers() == [(SEQUENCE_ERROR, 1)]
    stats = peer.responder.stats
    assert (stats.out_of_order, stats.nacks, stats.packets, stats.sacks) == (3, 2, 1, 0)


def test_no_ack_where_none_is_asked_for(peer: RocePeer) -> None:
    peer.write(0, FULL, opcode=FIRST, dma_length=MTU + 2, ask=False)
    assert peer.answers() == []
    peer.write(1, b"ab", opcode=LAST)
    assert peer.answers() == [(ACK, 1)]
    assert peer.memory[: MTU + 2] == FULL + b"ab"


def test_the_msn_counts_messages(peer: RocePeer) -> None:
    peer.write(0, FULL, opcode=FIRST, dma_length=MTU + 1)
    peer.write(1, b"a", opcode=LAST)
    peer.write(2)
    (packet,) = peer.sent()
    assert packet.bth.dest_qp == PEER_QP
    assert peer.responder.msn == 2


def test_an_immediate_completes_a_receive(peer: RocePeer) -> None:
    peer.qp.post_recv(5)
    peer.write(0, FULL, opcode=FIRST, dma_length=MTU + 1)
    peer.write(1, b"a", opcode=Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE, imm=77)
    (completion,) = peer.recv_cq.poll()
    assert completion.opcode is WcOpcode.RECV_RDMA_WITH_IMM
    assert (completion.wr_id, completion.imm, completion.byte_len) == (5, 77, MTU + 1)


def test_no_receive(peer: RocePeer) -> None:
    peer.write(0, b"a", opcode=ONLY_IMM, imm=1)
    peer.write(1)
    assert peer.answers() == [(RNR_10_US, 0)]
    assert not any(peer.memory)
    peer.write(0, b"a", opcode=ONLY_IMM, imm=1)
    assert peer.answers() == [(RNR_10_US, 0)]
    peer.qp.post_recv(1)
    peer.write(0, b"a", opcode=ONLY_IMM, imm=1)
    assert peer.answers() == [(ACK, 0)]
    assert len(peer.recv_cq.poll()) == 1


#: (opcodes, lengths, DMA length) that make no sense
WRONG: list[tuple[str, list[tuple[Opcode, int, int | None]]]] = [
    ("a middle without a first", [(MIDDLE, MTU, None)]),
    ("a last without a first", [(LAST, 1, None)]),
    ("a first in a message", [(FIRST, MTU, 3 * MTU), (FIRST, MTU, 3 * MTU)]),
    ("an only in a message", [(FIRST, MTU, 3 * MTU), (Opcode.RDMA_WRITE_ONLY, 1, 1)]),
    ("a short first", [(FIRST, MTU - 4, 3 * MTU)]),
    ("a short middle", [(FIRST, MTU, 3 * MTU), (MIDDLE, MTU - 4, None)]),
    ("a first that is all", [(FIRST, MTU, MTU)]),
    ("a middle that is the rest", [(FIRST, MTU, 2 * MTU), (MIDDLE, MTU, None)]),
    ("a last that is too short", [(FIRST, MTU, 2 * MTU), (LAST, MTU - 1, None)]),
    ("a last that is too long", [(FIRST, MTU, MTU + 1), (LAST, 2, None)]),
    ("an only that is longer than it says", [(Opcode.RDMA_WRITE_ONLY, 5, 4)]),
    ("an only longer than the MTU", [(Opcode.RDMA_WRITE_ONLY, MTU + 4, MTU + 4)]),
    ("an only of nothing", [(Opcode.RDMA_WRITE_ONLY, 0, 0)]),
]


@pytest.mark.parametrize("packets", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_invalid_requests(peer: RocePeer, packets: list[tuple[Opcode, int, int | None]]) -> None:
    for number, (opcode, length, dma_length) in enumerate(packets):
        peer.write(number, bytes(length), opcode=opcode, dma_length=dma_length, ask=False)
    assert peer.answers() == [(INVALID, len(packets) - 1)]
    assert peer.qp.state is QpState.ERROR


@pytest.mark.parametrize(
    "fields",
    [{"rkey": 1}, {"offset": 4095, "dma_length": 2}, {"offset": 4096}, {"offset": -1}],
    ids=["key", "end", "behind", "before"],
)
def test_access_errors(peer: RocePeer, fields: dict[str, int]) -> None:
    payload = bytes([9] * fields.get("dma_length", 1))
    peer.write(0, b"\1")
    peer.write(1, payload, **fields)  # type: ignore[arg-type]
    assert peer.answers() == [(ACCESS, 1)]
    assert peer.memory == b"\1" + bytes(4095)
    assert peer.qp.state is QpState.ERROR
    # Section 9.9.3: after that it is silent
    peer.write(2, b"\1")
    assert peer.answers() == []


def test_the_whole_message_must_fit_before_it_begins(peer: RocePeer) -> None:
    peer.write(0, FULL, opcode=FIRST, offset=4096 - MTU, dma_length=MTU + 1)
    assert peer.answers() == [(ACCESS, 0)]
    assert not any(peer.memory)


def test_a_region_that_goes_away_in_a_message(peer: RocePeer) -> None:
    peer.write(0, FULL, opcode=FIRST, dma_length=MTU + 1, ask=False)
    peer.nic.memory.deregister(peer.region)
    peer.write(1, b"a", opcode=LAST)
    assert peer.answers() == [(ACCESS, 1)]


def test_strangers_write_nothing(peer: RocePeer) -> None:
    peer.write(0, src=1)
    assert peer.answers() == []
    assert not any(peer.memory)
    assert peer.nic.drops["not the QP's peer"] == 1


class TestCongestion:
    def test_a_mark_draws_a_cnp_and_one_only_every_50_us(self, peer: RocePeer) -> None:
        times = []
        for number in range(30):
            peer.write(number, ecn=CE, ask=False)
            times += [peer.now_ns for packet in peer.sent() if isinstance(packet, Cnp)]
            peer.now_ns += 4_000
        assert times == [0, 52_000, 104_000]
        stats = peer.responder.stats
        assert (stats.cnps, stats.ecn_marked) == (3, 30)

    def test_packets_out_of_order_and_duplicates_count(self, peer: RocePeer) -> None:
        peer.write(5, ecn=CE)
        assert [type(packet).__name__ for packet in peer.sent()] == ["Cnp", "Ack"]

    def test_no_mark_no_cnp(self, peer: RocePeer) -> None:
        peer.write(0, ecn=2)
        assert [type(packet).__name__ for packet in peer.sent()] == ["Ack"]

    def test_a_pause_does_not_stop_it(self, peer: RocePeer) -> None:
        peer.nic.set_port_paused(peer.responder.path.port, True, 0)
        peer.write(0, ecn=CE)
        assert [type(packet).__name__ for packet in peer.sent()] == ["Cnp"]


def test_packets_that_come_while_a_cnp_waits_do_not_line_it_up_again() -> None:
    peer = RocePeer(rate_bps=10**6)
    peer.write(0, ecn=CE)
    for _ in range(100):
        peer.write(0)  # a duplicate, which asks for an answer
    lines = peer.nic._lines[peer.responder.path.port]
    assert (len(lines.cnps), len(lines.answers)) == (1, 1)
    packets = [packet for _, packet in peer.wait(10**7)]
    assert [type(packet).__name__ for packet in packets] == ["Cnp", "Ack"]
    peer.write(0, ecn=CE)
    assert isinstance(peer.wait(10**7)[0][1], Cnp)
