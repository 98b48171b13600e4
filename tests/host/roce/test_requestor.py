"""Go-back-N at the requestor: what comes, what is sent again, and when it gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from host.congestion.dcqcn import DcqcnConfig
from host.qp.states import QpState
from host.roce import RoceConfig
from host.roce.config import ROCE_QP_DEFAULTS, rnr_timer_ns
from host.roce.packet import Opcode, Write, ack_frame
from host.wire.headers import AETH
from tests.host.roce.peer import MTU, SQ_PSN, TIMEOUT_NS, RocePeer

SEQUENCE_ERROR = 0x60
RNR_10_US = 0x21


@pytest.fixture(name="peer")
def _peer() -> RocePeer:
    return RocePeer()


def test_a_message_is_cut_into_packets(peer: RocePeer) -> None:
    peer.post(7, 3, imm=9)
    packets = peer.sent()
    assert [packet.bth.opcode for packet in packets] == [
        Opcode.RDMA_WRITE_FIRST,
        Opcode.RDMA_WRITE_MIDDLE,
        Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE,
    ]
    first, middle, last = packets
    assert isinstance(first, Write) and isinstance(middle, Write) and isinstance(last, Write)
    assert first.reth is not None and tuple(first.reth) == (0x1000, 0x77, 2 * MTU + 1)
    assert middle.reth is None and last.reth is None
    assert last.immdt is not None and last.immdt.value == 9
    assert [len(packet.payload) for packet in (first, middle, last)] == [MTU, MTU, 1]
    # The PSN wraps, and the last packet asks for an ACK
    assert last.bth.ack_request


def test_one_packet_in_so_many_asks_for_an_ack() -> None:
    peer = RocePeer(qp=replace(ROCE_QP_DEFAULTS, sack_packets=4))
    peer.post(1, 10)
    asking = [number for number, packet in enumerate(peer.sent()) if packet.bth.ack_request]
    # SQ_PSN is 3 modulo 4
    assert asking == [0, 4, 8, 9]


#: (what the peer answers to packets 0..9 of messages of 5, what is sent then, what is complete)
NAK, ACK = SEQUENCE_ERROR, 0x1F
TABLE: list[tuple[str, list[tuple[int, int]], list[int], list[int]]] = [
    ("an ACK of all", [(9, ACK)], [], [1, 2]),
    ("an ACK of some", [(6, ACK)], [], [1]),
    ("ACKs one after the other", [(2, ACK), (4, ACK), (9, ACK)], [], [1, 2]),
    ("an old ACK after a new one", [(9, ACK), (4, ACK)], [], [1, 2]),
    ("an ACK twice", [(4, ACK), (4, ACK)], [], [1]),
    ("a NAK of the first", [(0, NAK)], [*range(10)], []),
    ("a NAK in the middle acknowledges what is before", [(5, NAK)], [*range(5, 10)], [1]),
    ("a NAK within a message", [(7, NAK)], [7, 8, 9], [1]),
    ("an old NAK after an ACK", [(6, ACK), (3, NAK)], [], [1]),
    ("an ACK of what was to be sent again", [(2, NAK), (9, ACK)], [], [1, 2]),
    ("an ACK of a part of that", [(2, NAK), (6, ACK)], [7, 8, 9], [1]),
    ("a NAK behind a NAK", [(2, NAK), (6, NAK)], [6, 7, 8, 9], [1]),
    ("an ACK of what was never sent", [(10, ACK)], [], []),
    ("a NAK of what was never sent", [(10, NAK)], [], []),
    ("a NAK of no known kind", [(3, 0x7F)], [], []),
    ("a syndrome of no known kind", [(3, 0x5F)], [], []),
]


@pytest.mark.parametrize(
    ("answers", "again", "complete"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_answers(
    peer: RocePeer, answers: list[tuple[int, int]], again: list[int], complete: list[int]
) -> None:
    peer.post(1, 5)
    peer.post(2, 5)
    assert peer.numbers() == [*range(10)]
    for number, syndrome in answers:
        peer.ack(number, syndrome)
    assert peer.numbers() == again
    assert peer.statuses() == [(wr_id, "SUCCESS") for wr_id in complete]
    assert peer.requestor.stats.retransmissions == len(again)


def test_packets_sent_again_are_what_they_were(peer: RocePeer) -> None:
    peer.post(1, 3)
    peer.post(2, 1, imm=5)
    first = peer.sent()
    peer.ack(0, SEQUENCE_ERROR)
    again = peer.sent()
    assert [(p.bth, bytes(p.payload)) for p in first if isinstance(p, Write)] == [
        (p.bth, bytes(p.payload)) for p in again if isinstance(p, Write)
    ]


def test_a_timeout_sends_everything_again(peer: RocePeer) -> None:
    peer.post(1, 3)
    assert peer.numbers() == [0, 1, 2]
    assert peer.numbers_within(TIMEOUT_NS - 1) == []
    assert peer.numbers_within(1) == [0, 1, 2]
    assert peer.requestor.stats.timeouts == 1


def test_progress_starts_the_timeout_afresh(peer: RocePeer) -> None:
    peer.post(1, 1)
    peer.post(2, 1)
    assert peer.numbers() == [0, 1]
    assert peer.wait(TIMEOUT_NS - 1) == []
    peer.ack(0)
    assert peer.numbers_within(TIMEOUT_NS - 1) == []
    assert peer.numbers_within(1) == [1]
    assert peer.requestor.stats.timeouts == 1


def test_retries_run_out() -> None:
    peer = RocePeer(qp=replace(ROCE_QP_DEFAULTS, linear_retries=3))
    peer.post(1, 2)
    peer.post(2, 1)
    sent = peer.wait(10 * TIMEOUT_NS)
    assert len(sent) == 3 * 4
    assert peer.statuses() == [(1, "RETRY_EXCEEDED_ERROR"), (2, "WR_FLUSH_ERROR")]
    assert peer.qp.state is QpState.ERROR
    assert peer.nic.next_timer() is None


def test_progress_gives_all_retries_back() -> None:
    peer = RocePeer(qp=replace(ROCE_QP_DEFAULTS, linear_retries=1))
    peer.post(1, 8)
    assert peer.numbers() == [*range(8)]
    for number in range(1, 8):
        # Each brings something, and costs the one retry
        peer.ack(number, SEQUENCE_ERROR)
        assert peer.numbers() == [*range(number, 8)]
    peer.ack(7, SEQUENCE_ERROR)
    assert peer.statuses() == [(1, "RETRY_EXCEEDED_ERROR")]


def test_an_rnr_nak_waits_as_long_as_it_says(peer: RocePeer) -> None:
    peer.post(1, 1, imm=1)
    peer.post(2, 1)
    assert peer.numbers() == [0, 1]
    peer.ack(0, RNR_10_US)
    assert peer.numbers_within(9_999) == []
    assert peer.numbers_within(1) == [0, 1]
    assert peer.requestor.stats.refusals == 1


def test_rnr_retries_are_endless(peer: RocePeer) -> None:
    peer.post(1, 1, imm=1)
    for _ in range(50):
        assert peer.numbers_within(10_000) == [0]
        peer.ack(0, RNR_10_US)
    peer.ack(0)
    assert peer.statuses() == [(1, "SUCCESS")]


def test_rnr_retries_run_out() -> None:
    peer = RocePeer(roce=RoceConfig(dcqcn=None, rnr_retries=2))
    peer.post(1, 1, imm=1)
    for _ in range(3):
        assert peer.numbers_within(10_000) == [0]
        peer.ack(0, RNR_10_US)
    assert peer.statuses() == [(1, "RNR_RETRY_EXCEEDED_ERROR")]


def test_rnr_timers() -> None:
    # IBTA volume 1, table 45: 0 is the longest, the rest from 10 µs to 491.52 ms
    assert [rnr_timer_ns(code) for code in (0, 1, 2, 12, 14, 31)] == [
        655_360_000,
        10_000,
        20_000,
        640_000,
        1_280_000,
        491_520_000,
    ]
    times = [rnr_timer_ns(code) for code in range(1, 32)]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (0x61, "REMOTE_INVALID_REQUEST_ERROR"),
        (0x62, "REMOTE_ACCESS_ERROR"),
        (0x63, "REMOTE_OPERATION_ERROR"),
    ],
)
def test_fatal_naks(peer: RocePeer, syndrome: int, status: str) -> None:
    for wr_id in (1, 2, 3):
        peer.post(wr_id, 2)
    peer.sent()
    peer.ack(3, syndrome)
    assert peer.statuses() == [(1, "SUCCESS"), (2, status), (3, "WR_FLUSH_ERROR")]
    assert peer.qp.state is QpState.ERROR


def test_the_window() -> None:
    peer = RocePeer(roce=RoceConfig(dcqcn=None, window_psns=4))
    peer.post(1, 10)
    packets = peer.sent()
    assert len(packets) == 4
    # The one that fills the window asks, or nobody would ever open it
    assert packets[-1].bth.ack_request
    peer.ack(1)
    assert peer.numbers() == [4, 5]


def test_answers_of_strangers_do_nothing(peer: RocePeer) -> None:
    peer.post(1, 1)
    peer.sent()
    peer.receive(ack_frame(peer.frames(src=1), peer.qp.number, SQ_PSN, AETH(ACK, 1)))
    assert peer.statuses() == []
    assert peer.nic.drops["not the QP's peer"] == 1


def test_a_port_that_is_down_uses_up_the_retries() -> None:
    peer = RocePeer(qp=replace(ROCE_QP_DEFAULTS, linear_retries=2))
    for port in range(4):
        peer.nic.set_port_up(port, False, 0)
    peer.post(1, 1)
    assert peer.wait(2 * TIMEOUT_NS) == []
    assert peer.statuses() == []
    peer.wait(TIMEOUT_NS)
    assert peer.statuses() == [(1, "RETRY_EXCEEDED_ERROR")]


def test_a_port_that_comes_back_in_time(peer: RocePeer) -> None:
    port = peer.requestor.path.port
    peer.post(1, 2)
    peer.nic.set_port_up(port, False, 0)
    assert peer.wait(TIMEOUT_NS * 2) == []
    peer.nic.set_port_up(port, True, peer.now_ns)
    assert peer.numbers() == [0, 1]


def test_a_paused_port_sends_no_data(peer: RocePeer) -> None:
    port = peer.requestor.path.port
    peer.nic.set_port_paused(port, True, 0)
    peer.post(1, 2)
    assert peer.wait(1000) == []
    peer.nic.set_port_paused(port, False, peer.now_ns)
    assert peer.numbers() == [0, 1]


def test_a_cnp_halves_the_rate() -> None:
    # 64 + 78 + 24 bytes a packet: 1,328 ns at 1 Gb/s
    peer = RocePeer(roce=RoceConfig(dcqcn=DcqcnConfig()), rate_bps=10**9)
    peer.post(1, 100)
    times = [now_ns for now_ns, _ in peer.wait(20_000)]
    # The first packet has a RETH
    assert times[2] - times[1] == (MTU + 78 + 24) * 8
    peer.cnp()
    times = [now_ns for now_ns, _ in peer.wait(40_000)]
    assert times[-1] - times[-2] == 2 * (MTU + 78 + 24) * 8
    assert peer.requestor.stats.cnps == 1
