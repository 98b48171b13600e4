"""The responder, packet by packet, against mrc-protocol.md sections 4 and 1."""

from __future__ import annotations

from typing import Any

import pytest

from host.memory import Access
from host.qp.responder import MAX_WAITING_ANSWERS
from host.qp.states import QpState
from host.qp.syndrome import Syndrome
from host.wire import Ack, Nack, NackReason, Opcode, Packet, Sack, SackM, encode, trim
from host.wire.assumptions import psns_of_sack
from tests.host.peer import MTU, PEER_QP, RQ_PSN, Peer

FIRST, MIDDLE, LAST = (
    Opcode.RDMA_WRITE_FIRST,
    Opcode.RDMA_WRITE_MIDDLE,
    Opcode.RDMA_WRITE_LAST,
)
LAST_IMM = Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE
ONLY_IMM = Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE


def cack(sack: Sack) -> int:
    """The number, from 0, of the last packet received in order."""
    return (sack.seth.cack_psn - RQ_PSN + 1) % 2**24 - 1


def acknowledged(sack: Sack) -> list[int]:
    """Numbers of the packets that the bitmap acknowledges."""
    seth = sack.seth
    return [
        (psn - RQ_PSN) % 2**24
        for psn in psns_of_sack(seth.cack_psn, seth.sack_offset, seth.sack_bitmap)
    ]


def sacks(packets: list[Packet]) -> list[Sack]:
    return [packet for packet in packets if isinstance(packet, Sack)]


def acks(packets: list[Packet]) -> list[Ack]:
    return [packet for packet in packets if isinstance(packet, Ack)]


def nacks(packets: list[Packet]) -> list[Nack]:
    return [packet for packet in packets if isinstance(packet, Nack)]


def every_packet(**attributes: Any) -> Peer:
    """A responder that answers every packet."""
    return Peer(sack_packets=1, **attributes)


class TestPlacement:
    def test_payload_is_in_memory_when_it_arrives_in_any_order(self) -> None:
        peer = every_packet()
        data = bytes(range(200))
        parts = [
            (FIRST, 0, data[:MTU]),
            (MIDDLE, MTU, data[MTU : 2 * MTU]),
            (MIDDLE, 2 * MTU, data[2 * MTU : 3 * MTU]),
            (LAST, 3 * MTU, data[3 * MTU :]),
        ]
        for psn in (3, 1, 0, 2):
            opcode, offset, payload = parts[psn]
            peer.write(100 + offset, payload, opcode=opcode, psn=psn, dma_length=200)
            assert peer.memory[100 + offset : 100 + offset + len(payload)] == payload
        assert peer.memory[:100] == bytes(100) and peer.memory[300:] == bytes(4096 - 300)
        packets = peer.sent()
        assert [cack(sack) for sack in sacks(packets)] == [3, 3, 3, 3]
        (ack,) = acks(packets)
        assert (ack.aeth.syndrome, ack.aeth.msn) == (Syndrome.ACK, 0)
        assert ack.bth.dest_qp == PEER_QP

    def test_a_duplicate_is_never_written_again(self) -> None:
        peer = every_packet()
        peer.write(0, b"first")
        peer.write(500, b"early", psn=2, msn=2)
        peer.sent()
        peer.write(0, b"again")
        peer.write(500, b"again", psn=2, msn=2)
        assert peer.memory[:5] == b"first" and peer.memory[500:505] == b"early"
        packets = peer.sent()
        # Below the window a SACK and the transport ACK again, inside a SACK only
        assert len(sacks(packets)) == 2 and len(acks(packets)) == 1
        assert peer.responder.stats.duplicates == 2

    def test_very_old_packets_are_duplicates(self) -> None:
        peer = every_packet()
        peer.write(0, b"x")
        peer.sent()
        peer.write(0, b"y", psn=-(2**23) + 2)
        assert peer.memory[0] == ord("x") and len(sacks(peer.sent())) == 1

    def test_the_whole_psn_space_is_crossed(self) -> None:
        # RQ_PSN is 3 before the wrap
        peer = every_packet()
        for psn in range(10):
            peer.write(psn, b"z", psn=psn, msn=psn)
        assert cack(sacks(peer.sent())[-1]) == 9
        assert peer.memory[:11] == b"z" * 10 + b"\0"


class TestWindow:
    def test_above_the_window_is_refused(self) -> None:
        peer = every_packet(mpr_dest_psns=128)
        peer.write(0, b"x", psn=127, msn=5)
        peer.write(1, b"y", psn=128, msn=6, ev=9)
        assert peer.memory[:2] == b"x\0"
        packets = peer.sent()
        assert acknowledged(sacks(packets)[0]) == [127]
        (nack,) = nacks(packets)
        assert nack.neth.reason == NackReason.PSN_OOR_WINDOW
        assert nack.neth.nack_psn == nack.bth.psn == (RQ_PSN + 128) % 2**24
        assert nack.neth.entropy == 9

    def test_the_sack_tells_mpr_and_counts(self) -> None:
        peer = every_packet(mpr_dest_psns=256)
        for psn in (1, 2, 5):
            peer.write(psn * 256, b"x" * 64, psn=psn, msn=psn)
        (*_, last) = peer.sent_of(Sack)
        assert last.seth.mpr == 2
        assert last.cc_state.ooo_count == 3
        assert last.cc_state.rcvd_bytes == 3 * 64 // 256

    def test_dynamic_mpr(self) -> None:
        peer = every_packet(mpr_dest_psns=256, dynamic_mpr=1)
        peer.responder.set_mpr(128)
        peer.write(0, b"x", psn=200, msn=1)
        peer.write(0, b"x", psn=256, msn=1)
        packets = peer.sent()
        assert [nack.neth.reason for nack in nacks(packets)] == [
            NackReason.NO_BITMAP,
            NackReason.PSN_OOR_WINDOW,
        ]
        peer.responder.set_mpr(512)
        peer.write(0, b"x", psn=256, msn=1)
        (sack,) = peer.sent_of(Sack)
        assert sack.seth.mpr == 4
        with pytest.raises(ValueError, match="multiple of 128"):
            peer.responder.set_mpr(200)

    def test_queue_pairs_share_the_bitmap_pool(self) -> None:
        peer = Peer(bitmap_pool_psns=512, mpr_dest_psns=512, dynamic_mpr=True)
        assert peer.responder.mpr_psns == 512
        other = peer.new_qp(PEER_QP + 1, mpr_dest_psns=512, dynamic_mpr=True)
        assert peer.responder.mpr_psns == 256
        peer.nic.destroy_qp(other)
        assert peer.responder.mpr_psns == 512
        with pytest.raises(ValueError, match="bitmap_pool_psns: 512 cannot hold 640"):
            peer.new_qp(PEER_QP + 1, mpr_dest_psns=512, dynamic_mpr=False)


class TestSacks:
    def test_what_it_reflects(self) -> None:
        peer = every_packet()
        peer.write(0, b"x", psn=2, msn=2, ev=0x10003, tx_timestamp=0xFFFF)
        peer.now_ns += 300  # held here for 2.3 units
        (sack,) = peer.sent_of(Sack)
        seth = sack.seth
        assert (seth.m, seth.pr, seth.entropy) == (SackM.NONE, False, 0x10003)
        assert seth.cack_psn == sack.bth.psn == RQ_PSN - 1
        assert seth.ack_psn_offset == 3
        assert seth.spdcid == peer.qp.number & 0xFFFF
        assert seth.dpdcid == PEER_QP & 0xFFFF
        assert sack.cc_state.tx_timestamp == 1
        assert sack.envelope.dscp == peer.nic.config.traffic.control
        assert sack.envelope.ecn == 0

    def test_coalesced_by_number(self) -> None:
        peer = Peer(sack_packets=4)
        for psn in range(9):
            peer.write(psn, b"x", psn=psn, msn=psn)
        packets = peer.sent()
        assert [cack(sack) for sack in sacks(packets)] == [8, 8]
        assert peer.responder.stats.sacks == 2
        assert [ack.aeth.msn for ack in acks(packets)] == [8]

    def test_coalesced_by_time(self) -> None:
        peer = Peer(sack_packets=16, sack_delay_ns=700)
        peer.write(0, b"x", psn=0, msn=0)
        peer.now_ns += 400
        peer.write(1, b"x", psn=1, msn=1)
        assert peer.sent() == []
        sent = peer.wait(299)
        assert sent == []
        sent = peer.wait(1)
        assert [type(packet) for _, packet in sent] == [Sack, Ack]

    def test_at_once_on_ce_rtx_gap_and_ack_request(self) -> None:
        peer = Peer(sack_packets=64)
        peer.write(0, b"x", psn=0, msn=0)
        assert peer.sent() == []
        peer.write(0, b"x", psn=1, msn=1, ecn=3, ev=5)
        (sack,) = sacks(peer.sent())
        assert (sack.seth.m, sack.seth.entropy) == (SackM.SKIP_ONCE, 5)
        peer.write(0, b"x", psn=2, msn=2, rtx=True)
        assert len(sacks(peer.sent())) == 1
        peer.write(0, b"x", psn=3, msn=3, ack_request=True)
        assert len(sacks(peer.sent())) == 1
        peer.write(0, b"x", psn=5, msn=5)
        assert len(sacks(peer.sent())) == 1
        # Filling the gap opens none
        peer.write(0, b"x", psn=4, msn=4)
        assert peer.sent() == []

    def test_every_packet_received_is_in_a_bitmap(self) -> None:
        # One missing at the bottom: cack stays, and only bitmaps can tell
        peer = Peer(sack_packets=32, mpr_dest_psns=1024)
        numbers = [*range(1, 1000)]
        numbers.sort(key=lambda number: (number * 7919) % 1000)
        for number in numbers:
            peer.write(0, b"x", psn=number, msn=number)
        sent = sacks([packet for _, packet in peer.wait(10_000)])
        told = {number for sack in sent for number in acknowledged(sack)}
        assert told == set(numbers)

    def test_m_always_skip_of_paths_held_bad(self) -> None:
        peer = every_packet()
        peer.responder.bad_evs.add(7)
        peer.write(0, b"x", psn=0, msn=0, ev=7, ecn=3)
        peer.write(0, b"x", psn=1, msn=1, ev=6)
        assert [sack.seth.m for sack in sacks(peer.sent())] == [
            SackM.ALWAYS_SKIP,
            SackM.NONE,
        ]

    def test_penalty_and_restore(self) -> None:
        peer = every_packet(mpr_dest_psns=128)

        def told(psn: int) -> tuple[int, bool]:
            peer.write(0, b"x", psn=psn, msn=psn)
            (sack,) = sacks(peer.sent())
            return sack.cc_state.rcv_cwnd_pen, sack.cc_state.restore_cwnd

        assert told(0) == (0, False)
        peer.responder.set_cwnd_penalty(100)
        assert told(1) == (100, False)
        peer.responder.set_cwnd_penalty(0)
        assert told(2) == (0, True)
        for psn in range(3, 130):
            assert told(psn) == (0, True)
        assert told(130) == (0, False)
        with pytest.raises(ValueError, match="penalty"):
            peer.responder.set_cwnd_penalty(128)

    def test_reliability_probe(self) -> None:
        peer = Peer()
        peer.write(0, b"x", psn=0, msn=0)
        peer.write(0, b"x", psn=1, msn=1)
        peer.probe(0xFEDC, ev=3)
        packets = peer.sent()
        (sack,) = sacks(packets)
        assert sack.seth.pr and sack.seth.probe_id == 0xFEDC and sack.seth.entropy == 3
        assert cack(sack) == 1
        peer.probe(1, source=0x1234)
        assert peer.sent() == [] and peer.nic.drops["invalid probe"] == 1

    def test_answers_that_wait_are_bounded(self) -> None:
        peer = every_packet()
        for _ in range(MAX_WAITING_ANSWERS + 100):
            peer.write(0, b"x", psn=0, msn=0)
        assert len(peer.sent()) == MAX_WAITING_ANSWERS + 1


class TestTrimming:
    @pytest.mark.parametrize("last_hop", [False, True])
    def test_nack(self, last_hop: bool) -> None:
        peer = Peer()
        traffic = peer.nic.config.traffic
        whole = peer.write_packet(0, bytes(MTU), psn=4, tx_timestamp=77, ev=11)
        cut = trim(encode(whole), traffic.trimmed_lasthop if last_hop else traffic.trimmed)
        peer.nic.receive(0, cut, 0)
        (nack,) = peer.sent_of(Nack)
        assert nack.neth.reason == (NackReason.TRIMMED_LASTHOP if last_hop else NackReason.TRIMMED)
        assert nack.neth.nack_psn == (RQ_PSN + 4) % 2**24
        assert (nack.neth.entropy, nack.neth.tx_timestamp) == (11, 77)
        assert nack.envelope.dscp == traffic.control
        # Of a packet that is here already, a trimmed copy draws a SACK
        peer.receive(whole)
        peer.sent()
        peer.nic.receive(0, cut, 0)
        assert [type(packet) for packet in peer.sent()] == [Sack]

    def test_a_packet_too_short_to_trim_is_taken_and_marked(self) -> None:
        peer = every_packet()
        traffic = peer.nic.config.traffic
        peer.write(0, b"x", psn=0, msn=0, dscp=traffic.trimmed)
        peer.write(1, b"y", psn=1, msn=1, dscp=traffic.trimmed_lasthop)
        assert peer.memory[:2] == b"xy"
        assert [sack.seth.m for sack in sacks(peer.sent())] == [SackM.SKIP_ONCE, SackM.NONE]

    def test_without_the_ability_nothing_is_said(self) -> None:
        peer = Peer()
        silent = peer.nic.create_qp(peer.send_cq, trim_nack=False)
        silent.connect(peer.qp_endpoint(PEER_QP + 1))
        whole = peer.write_packet(0, bytes(MTU), dest_qp=silent.number)
        peer.nic.receive(0, trim(encode(whole), peer.nic.config.traffic.trimmed), 0)
        assert peer.sent() == []


class TestImmediates:
    def test_they_wait_for_all_before_them(self) -> None:
        peer = every_packet()
        for wr_id in range(3):
            peer.qp.post_recv(wr_id)
        peer.write(2, b"c", opcode=ONLY_IMM, imm=22, psn=3, msn=2, rqmsn=1)
        peer.write(1, b"b", opcode=ONLY_IMM, imm=11, psn=2, msn=1, rqmsn=0)
        assert peer.recv_cq.poll() == []
        peer.write(512, bytes(MTU), opcode=FIRST, psn=0, dma_length=MTU + 1)
        assert peer.recv_cq.poll() == []
        peer.write(512 + MTU, b"e", opcode=LAST, psn=1, dma_length=MTU + 1)
        completions = peer.recv_cq.poll()
        assert [(c.wr_id, c.imm, c.byte_len, c.status.name) for c in completions] == [
            (0, 11, 1, "SUCCESS"),
            (1, 22, 1, "SUCCESS"),
        ]
        assert [ack.aeth.msn for ack in acks(peer.sent())] == [2]

    def test_without_a_receive_it_is_refused_and_taken_later(self) -> None:
        peer = every_packet()
        peer.qp.post_recv(1)
        peer.write(2, b"c", opcode=ONLY_IMM, imm=2, psn=1, msn=1, rqmsn=1)
        # The only receive is kept for the one that waits
        peer.write(1, b"b", opcode=ONLY_IMM, imm=1, psn=0, msn=0, rqmsn=0, ev=4)
        packets = peer.sent()
        (nack,) = nacks(packets)
        assert (nack.neth.reason, nack.neth.entropy) == (NackReason.NO_RESOURCE, 4)
        assert peer.memory[:3] == b"\0\0c"
        peer.qp.post_recv(2)
        peer.write(1, b"b", opcode=ONLY_IMM, imm=1, psn=0, msn=0, rqmsn=0, rtx=True)
        assert [(c.wr_id, c.imm) for c in peer.recv_cq.poll()] == [(1, 1), (2, 2)]

    def test_more_than_negotiated(self) -> None:
        peer = every_packet(max_wimm_dest=2)
        for wr_id in range(4):
            peer.qp.post_recv(wr_id)
        for number in (1, 2):
            peer.write(number, b"x", opcode=ONLY_IMM, imm=0, psn=number, msn=number, rqmsn=number)
        nak = acks(peer.sent())[-1]
        assert nak.aeth == (Syndrome.NAK_WRITE_IMM_LIMIT_EXCEEDED, 2)
        assert peer.memory[2] == 0
        assert peer.qp.state is QpState.ERROR
        assert [c.status.name for c in peer.recv_cq.poll()] == ["WR_FLUSH_ERROR"] * 4


class TestRefusals:
    @pytest.mark.parametrize(
        ("what", "syndrome"),
        [
            ({"r_key": 0x12345}, Syndrome.NAK_REMOTE_ACCESS_ERROR),
            ({"va": 0}, Syndrome.NAK_REMOTE_ACCESS_ERROR),
            ({"va": 2**64 - 3}, Syndrome.NAK_REMOTE_ACCESS_ERROR),
            ({"offset": 4096 - 4}, Syndrome.NAK_REMOTE_ACCESS_ERROR),
            ({"offset": -1}, Syndrome.NAK_REMOTE_ACCESS_ERROR),
            ({"dma_length": 4}, Syndrome.NAK_INVALID_REQUEST),
            ({"dma_length": 6}, Syndrome.NAK_INVALID_REQUEST),
            ({"dma_length": 0}, Syndrome.NAK_INVALID_REQUEST),
            ({"dma_length": 2**32 - 1}, Syndrome.NAK_INVALID_REQUEST),
            ({"payload": b"", "dma_length": 0}, Syndrome.NAK_INVALID_REQUEST),
            ({"payload": bytes(MTU + 1)}, Syndrome.NAK_INVALID_REQUEST),
            ({"opcode": FIRST}, Syndrome.NAK_INVALID_REQUEST),
            ({"opcode": MIDDLE, "payload": bytes(MTU)}, Syndrome.NAK_INVALID_REQUEST),
            ({"opcode": LAST, "dma_length": MTU + 4}, Syndrome.NAK_INVALID_REQUEST),
            # A first packet tells how long the message is: too long for the region
            (
                {"opcode": FIRST, "payload": bytes(MTU), "dma_length": 4097},
                Syndrome.NAK_REMOTE_ACCESS_ERROR,
            ),
            (
                {"opcode": FIRST, "payload": bytes(MTU), "dma_length": 2**32 - 1},
                Syndrome.NAK_REMOTE_ACCESS_ERROR,
            ),
            ({"msn": 3}, Syndrome.NAK_INVALID_REQUEST),
            ({"msn": 0xFFFF}, Syndrome.NAK_INVALID_REQUEST),
        ],
    )
    def test_nothing_is_written_and_the_queue_pair_ends(
        self, what: dict[str, object], syndrome: Syndrome
    ) -> None:
        peer = every_packet()
        peer.write(100, b"before", psn=0, msn=0)
        peer.sent()
        before = bytes(peer.memory)
        values: dict[str, object] = {"offset": 0, "payload": b"12345", "psn": 1, "msn": 1, **what}
        offset, payload = values.pop("offset"), values.pop("payload")
        assert isinstance(offset, int) and isinstance(payload, bytes)
        peer.write(offset, payload, **values)
        if "msn" not in what:
            assert peer.memory == before
        packets = peer.sent()
        # The reliability layer has the packet all the same
        (sack,) = sacks(packets)
        assert cack(sack) == 1 or acknowledged(sack) == [1]
        (nak,) = acks(packets)
        assert nak.aeth.syndrome == syndrome
        assert peer.qp.state is QpState.ERROR
        event = peer.nic.next_event()
        assert event is not None

    def test_what_was_completed_before_is_acknowledged_before(self) -> None:
        peer = Peer(sack_packets=64)
        peer.write(0, b"x", psn=0, msn=0)
        peer.write(0, b"x", psn=1, msn=1)
        peer.write(0, b"x", psn=2, msn=2, r_key=1)
        assert [ack.aeth for ack in acks(peer.sent())] == [
            (Syndrome.ACK, 1),
            (Syndrome.NAK_REMOTE_ACCESS_ERROR, 2),
        ]

    def test_a_region_without_remote_write_and_another_domain(self) -> None:
        for access, pd in ((Access.LOCAL_WRITE, 0), (Access.REMOTE_WRITE, 7)):
            peer = every_packet()
            memory = bytearray(64)
            region = peer.nic.register_memory(memory, access, pd=pd)
            peer.write(0, b"x", va=region.va, r_key=region.rkey)
            assert memory == bytes(64) and peer.qp.state is QpState.ERROR

    def test_a_region_that_was_deregistered(self) -> None:
        peer = every_packet()
        peer.nic.memory.deregister(peer.region)
        peer.write(0, b"x")
        assert peer.memory[0] == 0 and peer.qp.state is QpState.ERROR

    def test_a_lost_nak_is_drawn_again(self) -> None:
        peer = every_packet()
        peer.write(0, b"x", r_key=1)
        assert len(acks(peer.sent())) == 1
        peer.write(0, b"x", r_key=1, rtx=True)
        (nak,) = acks(peer.sent())
        assert nak.aeth == (Syndrome.NAK_REMOTE_ACCESS_ERROR, 0)

    def test_a_queue_pair_in_error_of_its_own_says_so(self) -> None:
        peer = every_packet()
        peer.qp.modify(QpState.ERROR)
        peer.write(0, b"x", psn=0)
        assert peer.memory[0] == 0
        (nack,) = peer.sent_of(Nack)
        assert nack.neth.reason == NackReason.UNEXP_EVENT
        assert nack.neth.nack_psn == RQ_PSN

    def test_nothing_reaches_a_queue_pair_that_is_not_ready(self) -> None:
        peer = every_packet()
        peer.qp.modify(QpState.RESET)
        peer.write(0, b"x")
        peer.qp.modify(QpState.INIT)
        peer.write(0, b"x")
        peer.write(0, b"x", dest_qp=0x999)
        assert peer.memory[0] == 0 and peer.sent() == []
        assert peer.nic.drops["request in RESET"] == 1
        assert peer.nic.drops["request in INIT"] == 1
        assert peer.nic.drops["unknown QP"] == 1

    def test_only_the_peer_may_write(self) -> None:
        peer = every_packet()
        peer.write(0, b"x", src=peer.peer_config.address + 1)
        assert peer.memory[0] == 0 and peer.sent() == []
        assert peer.nic.drops["not the QP's peer"] == 1
