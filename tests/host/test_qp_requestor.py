"""The requestor, packet by packet, against mrc-protocol.md sections 3 and 1."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from host.config import TIMEOUT_UNIT_NS
from host.profiles import PlainProfiles
from host.qp.send_queue import MAX_UNCOMPLETED_MESSAGES
from host.qp.states import QpState, SendState
from host.qp.syndrome import Syndrome
from host.qp.work import WriteRequest
from host.wire import NackReason, Opcode, Probe, Write
from tests.host.listener import ListenerProfiles
from tests.host.peer import MTU, PEER_QP, SQ_PSN, Peer, number_of


def data(length: int) -> bytes:
    return bytes(index * 31 + 7 & 0xFF for index in range(length))


class TestSegmentation:
    @pytest.mark.parametrize(
        ("length", "opcodes"),
        [
            (1, [Opcode.RDMA_WRITE_ONLY]),
            (MTU, [Opcode.RDMA_WRITE_ONLY]),
            (MTU + 1, [Opcode.RDMA_WRITE_FIRST, Opcode.RDMA_WRITE_LAST]),
            (
                3 * MTU,
                [Opcode.RDMA_WRITE_FIRST, Opcode.RDMA_WRITE_MIDDLE, Opcode.RDMA_WRITE_LAST],
            ),
        ],
    )
    def test_packets_of_a_message(self, length: int, opcodes: list[Opcode]) -> None:
        peer = Peer()
        peer.post(1, data(length))
        packets = peer.sent_of(Write)
        assert [packet.bth.opcode for packet in packets] == opcodes
        assert b"".join(packet.payload for packet in packets) == data(length)
        for number, packet in enumerate(packets):
            assert number_of(packet) == number
            assert packet.bth.dest_qp == PEER_QP
            assert packet.reth.va == 0x1000 + number * MTU
            assert (packet.reth.r_key, packet.reth.dma_length) == (0x77, length)
            assert packet.immdt is None
            assert packet.envelope.dscp == peer.nic.config.traffic.trimmable
            assert not packet.bth.rtx

    def test_immediate_is_in_the_last_packet(self) -> None:
        peer = Peer()
        peer.post(1, data(2 * MTU), imm=0xDEADBEEF)
        peer.post(2, data(1), imm=7)
        first, last, only = peer.sent_of(Write)
        assert first.immdt is None and first.bth.opcode == Opcode.RDMA_WRITE_FIRST
        assert last.immdt is not None and last.immdt.value == 0xDEADBEEF
        assert last.bth.opcode == Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE
        assert only.immdt is not None and only.immdt.value == 7
        assert only.bth.opcode == Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE

    def test_message_numbers(self) -> None:
        # MSN counts messages, RQMSN WriteIMMs; both are the same in all packets of one
        peer = Peer()
        for wr_id, (length, imm) in enumerate([(1, None), (MTU + 1, 5), (1, None), (1, 6)]):
            peer.post(wr_id, data(length), imm)
        numbers = [(packet.meth.msn, packet.meth.rqmsn) for packet in peer.sent_of(Write)]
        assert numbers == [(0, 0), (1, 0), (1, 0), (2, 1), (3, 1)]

    def test_ack_is_requested_where_nothing_follows(self) -> None:
        peer = Peer()
        peer.post(1, data(2 * MTU))
        peer.post(2, data(2 * MTU))
        assert [p.bth.ack_request for p in peer.sent_of(Write)] == [False, False, False, True]

    def test_without_trim_nacks_data_is_not_trimmable(self) -> None:
        peer = Peer(trim_nack=False, linear_retries=7)
        peer.post(1, data(1))
        sent = [packet for _, packet in peer.wait(100_000) if isinstance(packet, Write)]
        assert len(sent) > 1
        assert {packet.envelope.dscp for packet in sent} == {peer.nic.config.traffic.no_trim}


class TestWindows:
    def test_nothing_beyond_cack_plus_mpr(self) -> None:
        peer = Peer(mpr_psns=128)
        peer.post(1, data(300 * MTU))
        assert [number_of(packet) for packet in peer.sent()] == list(range(128))
        assert peer.requestor.send_state is SendState.PENDING
        # Acknowledged out of order: cack has not moved
        peer.sack(-1, range(1, 64))
        assert peer.sent() == []
        peer.sack(0)
        assert [number_of(packet) for packet in peer.sent()] == [128]
        peer.sack(99)
        assert [number_of(packet) for packet in peer.sent()] == list(range(129, 228))

    def test_congestion_window_is_shared_by_destination(self) -> None:
        peer = Peer(profiles=PlainProfiles(cwnd_bytes=1))
        other = peer.new_qp(dest_qp=PEER_QP + 1)
        peer.post(1, data(2 * MTU))
        other.post_write(WriteRequest(2, data(MTU), 0x1000, 0x77))
        assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP]
        assert peer.requestor.controller.inflight_bytes > 0
        peer.sack(0)
        assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP + 1]

    def test_dynamic_mpr_follows_the_sack(self) -> None:
        peer = Peer(mpr_psns=256, dynamic_mpr=True)
        peer.post(1, data(1000 * MTU))
        assert len(peer.sent()) == 256
        peer.sack(99, mpr=1)
        # What was let out stays out; no more until 128 beyond cack
        assert peer.sent() == []
        peer.sack(200, mpr=1)
        assert [number_of(p) for p in peer.sent()] == list(range(256, 329))

    def test_a_smaller_mpr_holds_for_all_that_is_not_sent_yet(self) -> None:
        peer = Peer(mpr_psns=256, dynamic_mpr=True, profiles=PlainProfiles(cwnd_bytes=10_000))
        peer.post(1, data(1000 * MTU))
        sent = peer.sent()
        assert len(sent) < 100
        peer.sack(-1, range(1, 40), mpr=1)
        peer.requestor.controller.cwnd_bytes = 1 << 20
        assert number_of(peer.sent()[-1]) == 127

    def test_static_mpr_does_not(self) -> None:
        peer = Peer(mpr_psns=256)
        peer.post(1, data(1000 * MTU))
        assert len(peer.sent()) == 256
        peer.sack(99, mpr=1)
        assert len(peer.sent()) == 100

    def test_limit_of_write_imm_in_flight(self) -> None:
        peer = Peer(max_wimm=2)
        for wr_id in range(4):
            peer.post(wr_id, data(1), imm=wr_id)
        assert len(peer.sent()) == 2
        peer.sack(1)
        assert peer.sent() == []  # landed is not completed
        peer.ack(0)
        assert len(peer.sent()) == 1

    def test_limit_of_uncompleted_messages(self) -> None:
        peer = Peer(
            mpr_psns=255 * 128, max_send_wr=1 << 15, profiles=PlainProfiles(cwnd_bytes=1 << 30)
        )
        for wr_id in range(MAX_UNCOMPLETED_MESSAGES + 1):
            peer.post(wr_id, b"x", signaled=False)
        assert len(peer.sent()) == MAX_UNCOMPLETED_MESSAGES
        peer.sack(MAX_UNCOMPLETED_MESSAGES - 1)
        assert peer.sent() == []
        peer.ack(0)
        assert len(peer.sent()) == 1


class TestCompletion:
    def test_a_message_completes_with_its_transport_ack(self) -> None:
        peer = Peer()
        peer.post(1, data(MTU))
        peer.post(2, data(MTU))
        peer.sent()
        peer.sack(1)
        assert peer.statuses() == []
        peer.ack(0)
        assert peer.statuses() == [(1, "SUCCESS")]
        peer.ack(0)
        peer.ack(1)
        peer.ack(1)
        assert peer.statuses() == [(2, "SUCCESS")]
        assert peer.requestor.send_state is SendState.IDLE

    def test_an_ack_completes_all_before_it_and_may_overtake_the_sack(self) -> None:
        peer = Peer()
        for wr_id in range(3):
            peer.post(wr_id, data(MTU))
        peer.sent()
        peer.ack(2)
        assert peer.statuses() == [(0, "SUCCESS"), (1, "SUCCESS"), (2, "SUCCESS")]
        assert peer.requestor.controller.inflight_bytes == 0
        assert peer.wait(10**9) == []

    def test_unsignaled_leaves_no_completion(self) -> None:
        peer = Peer()
        peer.post(1, data(MTU), signaled=False)
        peer.sent()
        peer.ack(0)
        assert peer.statuses() == [] and peer.requestor.posted == 0

    def test_a_lost_transport_ack_is_drawn_by_a_retransmission(self) -> None:
        peer = Peer(timeout=5)
        peer.post(1, data(2 * MTU))
        peer.sent()
        peer.sack(1)
        again = peer.wait(TIMEOUT_UNIT_NS << 5)
        assert [(at, number_of(packet), packet.bth.rtx) for at, packet in again] == [
            (TIMEOUT_UNIT_NS << 5, 1, True)
        ]
        peer.ack(0)
        assert peer.statuses() == [(1, "SUCCESS")]
        assert peer.requestor.controller.inflight_bytes == 0
        assert peer.wait(10**9) == []


class TestRetransmission:
    def test_only_what_is_missing(self) -> None:
        peer = Peer(timeout=5)
        peer.post(1, data(6 * MTU))
        peer.sent()
        peer.sack(1, [3, 5])
        again = peer.wait(TIMEOUT_UNIT_NS << 5)
        writes = [packet for _, packet in again if isinstance(packet, Write)]
        assert [number_of(packet) for packet in writes] == [2, 4]
        assert all(packet.bth.rtx for packet in writes)
        retx = peer.nic.config.traffic.trimmable_retx
        assert {packet.envelope.dscp for packet in writes} == {retx}
        assert b"".join(packet.payload for packet in writes) == (
            data(6 * MTU)[2 * MTU : 3 * MTU] + data(6 * MTU)[4 * MTU : 5 * MTU]
        )

    def test_linear_then_exponential_then_error(self) -> None:
        peer = Peer(timeout=3, linear_retries=2, exponential_retries=3)
        peer.post(1, data(1))
        peer.post(2, data(1))
        unit = TIMEOUT_UNIT_NS << 3
        sent = [
            (at, number_of(packet)) for at, packet in peer.wait(10**9) if isinstance(packet, Write)
        ]
        times = [at // unit for at, number in sent if number == 0]
        # First transmission and two linear retries: one interval each; then 2, 4 and 8
        assert times == [0, 1, 2, 3, 5, 9]
        assert peer.statuses() == [(1, "RETRY_EXCEEDED_ERROR"), (2, "WR_FLUSH_ERROR")]
        assert peer.qp.state is QpState.ERROR
        assert peer.requestor.controller.inflight_bytes == 0

    def test_retries_for_ever_never_wait_longer_than_the_longest_timeout(self) -> None:
        peer = Peer(timeout=20, linear_retries=0, exponential_retries=25)
        peer.post(1, data(1))
        times = [at for at, p in peer.wait(400 * 10**9) if isinstance(p, Write)]
        gaps = {later - earlier for earlier, later in pairwise(times)}
        assert max(gaps) == TIMEOUT_UNIT_NS << 24
        assert peer.qp.state is QpState.RTS

    @pytest.mark.parametrize("reason", [NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP])
    def test_a_trimmed_packet_is_sent_again_at_once(self, reason: NackReason) -> None:
        peer = Peer()
        peer.post(1, data(3 * MTU))
        first = peer.sent_of(Write)
        in_flight = peer.requestor.controller.inflight_bytes
        peer.nack(1, reason, first[1].envelope.ev)
        assert peer.requestor.controller.inflight_bytes < in_flight
        (again,) = peer.sent_of(Write)
        assert number_of(again) == 1 and again.bth.rtx
        # Said twice, or of another transmission, it is not sent a third time
        stale = next(ev for ev in range(32) if ev != again.envelope.ev)
        peer.nack(1, reason, stale)
        assert peer.sent() == []

    def test_its_timer_starts_at_the_default_again(self) -> None:
        peer = Peer(timeout=3, linear_retries=0, exponential_retries=5)
        unit = TIMEOUT_UNIT_NS << 3
        peer.post(1, data(1))
        sent = [p for _, p in peer.wait(2 * unit) if isinstance(p, Write)]
        assert len(sent) == 2  # at 0 and 1; the next would be due at 3
        peer.nack(0, NackReason.TRIMMED, sent[-1].envelope.ev)
        sent_ns = peer.now_ns
        times = [at - sent_ns for at, p in peer.wait(2 * unit) if isinstance(p, Write)]
        assert times[:2] == [0, unit]

    @pytest.mark.parametrize(
        "reason",
        [
            NackReason.NO_BITMAP,
            NackReason.NO_PKT_BUFFER,
            NackReason.NO_RESOURCE,
            NackReason.PSN_OOR_WINDOW,
        ],
    )
    def test_a_refused_packet_waits_and_is_never_counted(self, reason: NackReason) -> None:
        peer = Peer(timeout=3, linear_retries=0, exponential_retries=0)
        unit = TIMEOUT_UNIT_NS << 3
        peer.post(1, data(1))
        (packet,) = peer.sent_of(Write)
        for _ in range(5):
            peer.nack(0, reason, packet.envelope.ev)
            assert peer.requestor.controller.inflight_bytes == 0
            assert peer.sent() == []
            ((_, again),) = peer.wait(unit)
            assert isinstance(again, Write)
            packet = again
        assert peer.qp.state is QpState.RTS
        peer.ack(0)
        assert peer.statuses() == [(1, "SUCCESS")]

    def test_nothing_is_sent_again_that_was_acknowledged_while_it_waited(self) -> None:
        peer = Peer(profiles=PlainProfiles(cwnd_bytes=500))
        peer.post(1, data(8 * MTU))
        sent = peer.sent_of(Write)
        for number, packet in enumerate(sent):
            peer.nack(number, NackReason.TRIMMED, packet.envelope.ev)
        peer.sack(len(sent) - 1)
        assert number_of(peer.sent_of(Write)[0]) == len(sent)


class TestProbes:
    def test_silence_draws_one_probe(self) -> None:
        peer = Peer(timeout=5)
        peer.post(1, data(4 * MTU))
        peer.sent()
        after = peer.wait(TIMEOUT_UNIT_NS << 5)
        probes = [packet for _, packet in after if isinstance(packet, Probe)]
        assert len(probes) == 1
        assert probes[0].bth.psn == 0
        assert probes[0].envelope.dscp == peer.nic.config.traffic.trimmable
        peer.sack(3, probe_id=probes[0].peth.probe_id)
        peer.ack(0)
        assert peer.statuses() == [(1, "SUCCESS")]

    def test_an_answer_to_no_probe_is_passed_over(self) -> None:
        peer = Peer()
        peer.post(1, data(1))
        peer.sent()
        peer.sack(0, probe_id=0xFFFF)
        peer.ack(0)
        assert peer.statuses() == [(1, "SUCCESS")]


class TestBadAnswers:
    def sent(self, count: int = 4, **attributes: Any) -> Peer:
        peer = Peer(**attributes)
        peer.post(1, data(count * MTU))
        peer.sent()
        return peer

    def unharmed(self, peer: Peer) -> None:
        assert peer.requestor.flight.una == SQ_PSN
        assert len(peer.requestor.flight.packets) == 4
        assert peer.requestor.controller.inflight_bytes > 0
        assert peer.statuses() == []
        assert peer.qp.state is QpState.RTS

    def test_a_sack_of_what_was_never_sent(self) -> None:
        peer = self.sent()
        peer.sack(4)
        peer.sack(0, [4])
        peer.sack(-1, [0, 63])
        peer.sack(2**23 - 10)
        assert peer.nic.drops["invalid SACK"] == 4
        self.unharmed(peer)

    def test_a_bitmap_that_starts_before_the_window(self) -> None:
        peer = self.sent()
        peer.sack(-1, [-60, 1], base=-62)
        assert len(peer.requestor.flight.packets) == 3
        peer.sack(0, [3], base=-30)
        assert sorted(peer.requestor.flight.packets) == [SQ_PSN + 2]

    def test_a_sack_of_another_context_or_peer(self) -> None:
        peer = self.sent()
        peer.sack(1, source=0x1111)
        peer.sack(1, src=peer.peer_config.address + 1)
        self.unharmed(peer)

    def test_an_old_sack_changes_nothing(self) -> None:
        peer = self.sent()
        peer.sack(2)
        peer.sack(0)
        peer.sack(-1, [1])
        assert peer.requestor.flight.una == SQ_PSN + 3
        assert peer.requestor.controller.inflight_bytes > 0

    def test_what_is_known_moves_on_with_the_window(self) -> None:
        peer = self.sent(8)
        peer.sack(0, [2])
        peer.sack(2)
        peer.sack(2, [4])
        numbers = [psn - SQ_PSN for psn in sorted(peer.requestor.flight.packets)]
        assert numbers == [3, 5, 6, 7]

    def test_an_ack_of_what_was_never_sent(self) -> None:
        peer = self.sent()
        peer.ack(1)
        peer.ack(0xFFFF)
        peer.ack(0x7FFF)
        self.unharmed(peer)

    def test_an_ack_of_a_message_that_is_not_wholly_sent(self) -> None:
        peer = Peer(mpr_psns=128)
        peer.post(1, data(200 * MTU))
        peer.sent()
        peer.ack(0)
        assert peer.statuses() == [] and peer.nic.drops["invalid ACK"] == 1

    def test_a_nack_of_what_was_never_sent(self) -> None:
        peer = self.sent()
        for reason in NackReason:
            peer.nack(4, reason, 0)
            peer.nack(-1 if reason is NackReason.UNEXP_EVENT else 5, reason, 0)
        peer.nack(1, NackReason.TRIMMED, 0, source=0x2222)
        peer.nack(1, NackReason.UNEXP_EVENT, 0, source=0x2222)
        self.unharmed(peer)

    def test_a_nak_of_a_message_that_is_not_in_flight(self) -> None:
        peer = Peer()
        for wr_id in range(3):
            peer.post(wr_id, data(1))
        peer.sent()
        peer.ack(0)
        for msn in (0, 2**24 - 1, 3, 1000):
            peer.ack(msn, Syndrome.NAK_REMOTE_ACCESS_ERROR)
        assert peer.qp.state is QpState.RTS
        assert peer.nic.drops["invalid ACK"] == 4
        assert peer.statuses() == [(0, "SUCCESS")]

    def test_unknown_reasons_and_syndromes(self) -> None:
        peer = self.sent()
        peer.nack(1, 99, 0)  # type: ignore[arg-type]
        peer.ack(0, syndrome=0x7F)
        self.unharmed(peer)


class TestErrors:
    @pytest.mark.parametrize(
        ("syndrome", "status"),
        [
            (Syndrome.NAK_INVALID_REQUEST, "REMOTE_INVALID_REQUEST_ERROR"),
            (Syndrome.NAK_REMOTE_ACCESS_ERROR, "REMOTE_ACCESS_ERROR"),
            (Syndrome.NAK_REMOTE_OPERATION_ERROR, "REMOTE_OPERATION_ERROR"),
            (Syndrome.NAK_WRITE_IMM_LIMIT_EXCEEDED, "REMOTE_INVALID_REQUEST_ERROR"),
        ],
    )
    def test_a_nak_fails_its_message_and_flushes_the_rest(
        self, syndrome: Syndrome, status: str
    ) -> None:
        peer = Peer()
        for wr_id in range(3):
            peer.post(wr_id, data(1))
        peer.sent()
        peer.qp.post_recv(9)
        peer.post(3, data(1))
        peer.ack(0)
        peer.ack(1, syndrome)
        assert peer.statuses() == [
            (0, "SUCCESS"),
            (1, status),
            (2, "WR_FLUSH_ERROR"),
            (3, "WR_FLUSH_ERROR"),
        ]
        (flushed,) = peer.recv_cq.poll()
        assert (flushed.wr_id, flushed.status.name) == (9, "WR_FLUSH_ERROR")
        assert peer.qp.state is QpState.ERROR
        peer.post(4, data(1))
        assert peer.statuses() == [(4, "WR_FLUSH_ERROR")]
        assert peer.wait(10**9) == []

    def test_unexpected_event_ends_at_once(self) -> None:
        peer = Peer()
        peer.post(0, data(1))
        peer.post(1, data(1))
        sent = peer.sent_of(Write)
        peer.nack(1, NackReason.UNEXP_EVENT, sent[1].envelope.ev)
        assert peer.statuses() == [(0, "WR_FLUSH_ERROR"), (1, "REMOTE_OPERATION_ERROR")]
        assert peer.qp.state is QpState.ERROR

    def test_without_any_path_the_retries_run_out_too(self) -> None:
        peer = Peer(timeout=3, linear_retries=2, exponential_retries=0)
        for port in range(4):
            peer.nic.set_port_up(port, False, 0)
        peer.post(0, data(200 * MTU))
        assert peer.wait(10**9) == []
        assert peer.statuses() == [(0, "RETRY_EXCEEDED_ERROR")]

    def test_a_path_that_comes_back_in_time_saves_the_message(self) -> None:
        peer = Peer(timeout=3, linear_retries=7, exponential_retries=0)
        for port in range(4):
            peer.nic.set_port_up(port, False, 0)
        peer.post(0, data(2 * MTU))
        assert peer.wait(5 * (TIMEOUT_UNIT_NS << 3)) == []
        peer.nic.set_port_up(2, True, peer.now_ns)
        sent = [p for _, p in peer.wait(TIMEOUT_UNIT_NS << 3) if isinstance(p, Write)]
        assert {number_of(packet) for packet in sent} == {0, 1}


class TestOrderOfRetransmissions:
    def test_the_oldest_packet_goes_first(self) -> None:
        peer = Peer()
        peer.post(1, data(6 * MTU))
        sent = peer.sent_of(Write)
        for number in (4, 1, 3):
            peer.nack(number, NackReason.TRIMMED, sent[number].envelope.ev)
        peer.post(2, data(1))
        assert [number_of(packet) for packet in peer.sent_of(Write)] == [1, 3, 4, 6]

    def test_a_peer_that_is_gone_costs_the_retries_of_one_packet(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles, timeout=5, linear_retries=3, exponential_retries=0)
        peer.post(1, data(6 * MTU))
        assert len(peer.sent_of(Write)) == 6
        # From now on one packet at a time: the others' retries wait behind those of the first
        profiles.controller.cwnd_bytes = 1
        peer.wait((TIMEOUT_UNIT_NS << 5) * 4 + 1000)
        assert peer.statuses() == [(1, "RETRY_EXCEEDED_ERROR")]


class TestWhatTheControllerHears:
    def test_an_rtt_beyond_the_wrap_of_timestamps_is_told_from_the_packets_age(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles, timeout=20)
        peer.now_ns = 1_000_003
        peer.post(1, data(MTU))
        peer.sent_of(Write)
        peer.now_ns += 30_000_000
        # The responder held the SACK back for 512 us and moved the timestamp on by as much
        peer.sack(0, tx_timestamp=(1_000_003 + 512_000) // 128 & 0xFFFF)
        (heard,) = [call for call in profiles.controller.heard if call[0] == "ack"]
        assert isinstance(heard[3], int)
        assert abs(heard[3] - (30_000_000 - 512_000)) < 128

    def test_rtt_is_exact_and_bytes_are_frames(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles)
        peer.now_ns = 1_000_003
        peer.post(1, data(3 * MTU))
        frames = peer.frames()
        size = len(frames[0][1])
        peer.now_ns += 7_777
        peer.sack(1, tx_timestamp=1_000_003 // 128 & 0xFFFF, m=1)
        heard = profiles.controller.heard
        assert ("ack", 2 * size, True, 7_777) in heard

    def test_trim_loss_and_penalty(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles, timeout=5)
        peer.post(1, data(3 * MTU))
        sent = peer.sent_of(Write)
        peer.nack(0, NackReason.TRIMMED, sent[0].envelope.ev)
        peer.nack(1, NackReason.TRIMMED_LASTHOP, sent[1].envelope.ev)
        peer.sack(-1, [0, 1], penalty=5)
        peer.sack(-1, [0, 1], penalty=5)
        peer.sack(-1, [0, 1], penalty=0, restore=True)
        peer.wait(TIMEOUT_UNIT_NS << 5)
        heard = profiles.controller.heard
        assert [entry[2] for entry in heard if entry[0] == "trim"] == [False, True]
        assert [entry[1:] for entry in heard if entry[0] == "penalty"] == [(5, False), (0, True)]
        assert len([entry for entry in heard if entry[0] == "loss"]) == 1
        evs = profiles.evs.heard
        assert ("nack", sent[0].envelope.ev, 1) in evs and ("nack", sent[1].envelope.ev, 2) in evs
        assert ("timeout", sent[2].envelope.ev) in evs

    def test_no_path_is_blamed_for_a_lost_transport_ack_or_for_want_of_a_path(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles, timeout=5)
        peer.post(1, data(MTU))
        peer.sent()
        peer.sack(0)
        assert len(peer.wait(4 * (TIMEOUT_UNIT_NS << 5))) == 4
        peer.ack(0)
        for port in range(4):
            peer.nic.set_port_up(port, False, peer.now_ns)
        peer.post(2, data(MTU))
        peer.wait(3 * (TIMEOUT_UNIT_NS << 5))
        assert peer.requestor.stats.timeouts > 3
        assert not [entry for entry in profiles.evs.heard if entry[0] == "timeout"]
        assert not [entry for entry in profiles.controller.heard if entry[0] == "loss"]
