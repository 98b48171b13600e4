"""Ports: pacing, order of the classes, fairness, up and down."""

from __future__ import annotations

from collections import Counter

import pytest

from host.profiles import PlainProfiles
from host.qp.queue_pair import QueuePair
from host.qp.states import QpState, SendState
from host.qp.work import WriteRequest
from host.wire import Sack, Write, decode
from tests.host.network import Faults, Network, pair
from tests.host.peer import MTU, PEER_QP, Peer
from topologies.timing import WIRE_OVERHEAD_BYTES

GIGABIT = 10**9


def post(qp: QueuePair, wr_id: int, length: int) -> None:
    qp.post_write(WriteRequest(wr_id, bytes(length), 0x1000, 0x77))


def test_a_port_takes_the_next_frame_when_the_last_is_serialised() -> None:
    # 3 Gb/s: a frame takes a fraction of ns that must not be lost
    rate_bps = 3 * GIGABIT
    peer = Peer(rate_bps=rate_bps, mpr_psns=4096, timeout=20)
    post(peer.qp, 1, 2000 * MTU)
    starts: dict[int, list[int]] = {port: [] for port in range(4)}
    size_bytes = 0
    for _ in range(2000):
        for port, frame in peer.nic.transmit(peer.now_ns):
            starts[port].append(peer.now_ns)
            size_bytes = len(frame)
        timer = peer.nic.next_timer()
        assert timer is not None and timer >= peer.now_ns
        if timer > 100_000:
            break
        peer.now_ns = timer
        peer.nic.handle_timer(timer)
    work = (size_bytes + WIRE_OVERHEAD_BYTES) * 8 * 10**9
    for times in starts.values():
        assert len(times) > 150
        for number, time_ns in enumerate(times):
            # The first ns that is not before the exact time
            assert number * work <= time_ns * rate_bps < number * work + rate_bps


def test_one_frame_a_port_at_a_time() -> None:
    peer = Peer(rate_bps=GIGABIT)
    post(peer.qp, 1, 100 * MTU)
    assert sorted(port for port, _ in peer.nic.transmit(0)) == [0, 1, 2, 3]
    assert peer.nic.transmit(0) == []
    assert peer.nic.transmit(100) == []


def test_an_unlimited_port_takes_a_batch_at_a_time() -> None:
    peer = Peer(unlimited_batch=5)
    post(peer.qp, 1, 100 * MTU)
    assert Counter(port for port, _ in peer.nic.transmit(0)) == dict.fromkeys(range(4), 5)
    assert peer.nic.next_timer() == 0
    while peer.nic.transmit(0):
        pass
    timer = peer.nic.next_timer()
    assert timer is not None and timer > 0


def test_departures_are_when_ports_with_something_to_send_are_free_again() -> None:
    peer = Peer(rate_bps=GIGABIT)
    assert peer.nic.next_departure() is None
    post(peer.qp, 1, 6 * MTU)
    assert len(peer.nic.transmit(0)) == 4
    first_ns = peer.nic.next_departure()
    assert first_ns is not None and 0 < first_ns == peer.nic.next_timer()
    # However late the driver is, the frame starts then
    assert len(peer.nic.transmit(first_ns)) == 2
    # Ports are busy, but nothing waits for them
    assert peer.nic.next_departure() is None


def test_answers_go_before_data() -> None:
    peer = Peer(rate_bps=GIGABIT, sack_packets=1)
    post(peer.qp, 1, 100 * MTU)
    peer.nic.transmit(0)
    for psn in range(3):
        peer.write(0, b"x", psn=psn, msn=psn)
    timer = peer.nic.next_timer()
    assert timer is not None
    # The first ports that come free take SACKs; the transport ACK is the fourth frame
    sent: list[object] = []
    now_ns = 0
    while len(sent) < 8:
        now_ns = max(peer.nic.next_timer() or 0, now_ns + 1)
        sent += [type(decode(frame)).__name__ for _, frame in peer.nic.transmit(now_ns)]
    assert sent[:4] == ["Sack", "Sack", "Sack", "Ack"]
    assert sent[4:8] == ["Write"] * 4


def test_the_bytes_of_a_port_are_shared_fairly() -> None:
    peer = Peer(
        profiles=PlainProfiles(cwnd_bytes=1 << 30),
        rate_bps=GIGABIT,
        mpr_psns=4096,
        timeout=20,
    )
    # One with whole packets, one with small ones, one that comes late
    small = peer.new_qp(PEER_QP + 1, mpr_psns=4096, timeout=20)
    late = peer.new_qp(PEER_QP + 2, mpr_psns=4096, timeout=20)
    post(peer.qp, 1, 4000 * MTU)
    for wr_id in range(4000):
        post(small, wr_id, 1)
    sent: Counter[int] = Counter()
    now_ns = 0
    for number in range(900):
        if number == 300:
            post(late, 1, 4000 * MTU)
        for _, frame in peer.nic.transmit(now_ns):
            packet = decode(frame)
            if number >= 300:
                sent[packet.bth.dest_qp] += len(frame)
        timer = peer.nic.next_timer()
        assert timer is not None
        now_ns = timer
        peer.nic.handle_timer(now_ns)
    total = sum(sent.values())
    assert len(sent) == 3
    for size_bytes in sent.values():
        assert size_bytes / total == pytest.approx(1 / 3, rel=0.02)


def test_a_thousand_queue_pairs_all_get_their_turn() -> None:
    peer = Peer(profiles=PlainProfiles(cwnd_bytes=4000))
    others = [peer.new_qp(PEER_QP + 1 + number) for number in range(999)]
    for qp in [peer.qp, *others]:
        post(qp, 1, 3 * MTU)
    order: list[int] = []
    # Room for some at a time: each SACK lets others go
    for _ in range(3000):
        packets = peer.sent_of(Write)
        if not packets:
            break
        for packet in packets:
            order.append(packet.bth.dest_qp)
            qp = next(
                qp for qp in peer.nic.qps.values() if qp.attributes.dest_qp == packet.bth.dest_qp
            )
            _acknowledge(peer, qp, packet)
    assert Counter(order) == {PEER_QP + number: 3 for number in range(1000)}
    assert all(
        qp.requestor is not None and qp.requestor.send_state is SendState.ACTIVE
        for qp in peer.nic.qps.values()
    )
    # By turns: nobody is served twice before everybody was once
    assert all(len(set(order[at : at + 1000])) == 1000 for at in (0, 1000, 2000))


def _acknowledge(peer: Peer, qp: QueuePair, packet: Write) -> None:
    own, peer.qp = peer.qp, qp
    try:
        number = (packet.bth.psn - qp.attributes.sq_psn) % 2**24
        peer.sack(number, source=packet.bth.dest_qp & 0xFFFF)
    finally:
        peer.qp = own


def test_room_that_nobody_uses_is_passed_on() -> None:
    # Two wait for a window of one packet; what the first wanted to send again is acknowledged
    # before its turn comes, and so it leaves its room to the second
    peer = Peer(profiles=PlainProfiles(cwnd_bytes=1), timeout=3)
    other = peer.new_qp(PEER_QP + 1, timeout=3)
    post(peer.qp, 1, 1)
    assert len(peer.sent_of(Write)) == 1
    peer.now_ns += 1 << 20
    post(other, 2, 1)
    peer.nic.handle_timer(peer.now_ns)  # times out, is queued again
    requestor = peer.requestor
    # Somebody else's packet fills the window meanwhile
    requestor.controller.inflight_bytes += 100
    assert not any(isinstance(packet, Write) for packet in peer.sent())
    peer.sack(0)
    requestor.controller.inflight_bytes -= 100
    peer.nic._scheduler.wake(requestor.window)
    assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP + 1]


def test_a_window_that_opens_wide_lets_all_go_at_once() -> None:
    peer = Peer(profiles=PlainProfiles(cwnd_bytes=1))
    others = [peer.new_qp(PEER_QP + 1 + number) for number in range(20)]
    for qp in [peer.qp, *others]:
        post(qp, 1, 1)
    assert len(peer.sent()) == 1
    peer.requestor.controller.cwnd_bytes = 1 << 20
    peer.sack(0)
    assert len(peer.sent()) == 20


def test_who_finds_the_window_full_again_keeps_the_first_place() -> None:
    peer = Peer(profiles=PlainProfiles(cwnd_bytes=1), timeout=20)
    first, second = (peer.new_qp(PEER_QP + number, timeout=20) for number in (1, 2))
    for qp in (peer.qp, first, second):
        post(qp, 1, 1)
    assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP]
    controller = peer.requestor.controller
    peer.sack(0)  # wakes the first...
    controller.inflight_bytes += 1  # ... but the room is gone before its turn
    assert peer.sent() == []
    controller.inflight_bytes -= 1
    peer.sack(0)
    assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP + 1]


@pytest.mark.parametrize("state", [QpState.ERROR, QpState.RESET])
def test_a_queue_pair_that_ends_leaves_its_room_to_others(state: QpState) -> None:
    peer = Peer(profiles=PlainProfiles(cwnd_bytes=1))
    other = peer.new_qp(PEER_QP + 1)
    post(peer.qp, 1, 1)
    post(other, 2, 1)
    assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP]
    requestor = peer.requestor
    peer.qp.modify(state)
    assert requestor.send_state is SendState.IDLE
    assert [packet.bth.dest_qp for packet in peer.sent()] == [PEER_QP + 1]


class TestUpAndDown:
    def network(self, **changes: object) -> Network:
        return pair(seed=1, faults=Faults(delay_ns=2000), rate_bps=100 * GIGABIT)

    def connected(self, network: Network) -> tuple[QueuePair, QueuePair]:
        near, far = (nic.create_qp(nic.create_cq()) for nic in network.nics)
        told = near.endpoint(), far.endpoint()
        near.connect(told[1])
        far.connect(told[0])
        return near, far

    def test_the_peer_leaves_the_plane_after_one_way(self) -> None:
        network = self.network()
        near, far = self.connected(network)
        a, b = network.nics
        memory = a.register_memory(bytearray(1 << 20))
        far.post_write(WriteRequest(1, bytes(1 << 20), memory.va, memory.rkey))
        last: dict[int, int] = {}

        def watch(nic: object, port: int, frame: bytes) -> None:
            if nic is b and isinstance(decode(frame), Write):
                last[port] = network.now_ns

        network.watch = watch
        network.at(10_000, lambda: a.set_port_up(2, False, network.now_ns))
        network.run(lambda: len(far.send_cq) == 1)
        assert last[2] <= 10_000 + 2_000 + 500
        assert all(last[port] > 15_000 for port in (0, 1, 3))
        assert far.evs is not None and far.evs.usable_planes() == 0b1011
        assert b.peer(a.config.address).planes_up == 0b1011  # type: ignore[union-attr]
        assert any(type(event).__name__ == "PeerPortsChanged" for event in iter(b.next_event, None))

        a.set_port_up(2, True, network.now_ns)
        network.run()
        assert far.evs.usable_planes() == 0b1111
        assert near.state is far.state

    def test_updates_are_repeated_until_they_are_answered(self) -> None:
        network = self.network()
        near, far = self.connected(network)
        network.run()
        a, _ = network.nics
        lost: list[int] = []

        def passes(nic: object, port: int, frame: bytes) -> bool:
            if nic is a and len(lost) < 5:
                lost.append(network.now_ns)
                return False
            return True

        network.passes = passes
        a.set_port_up(0, False, network.now_ns)
        network.run()
        assert len(lost) == 5 and far.evs is not None
        assert far.evs.usable_planes() == 0b1110
        assert near.evs is not None and near.evs.usable_planes() == 0b1110
        assert a.next_timer() is None

    def test_a_peer_that_connects_later_knows_all_the_same(self) -> None:
        network = self.network()
        a, b = network.nics
        a.set_port_up(3, False, 0)
        near = a.create_qp(a.create_cq())
        far = b.create_qp(b.create_cq())
        near.connect(far.endpoint())
        network.run()
        far.connect(near.endpoint())
        network.run()
        assert far.evs is not None and far.evs.usable_planes() == 0b0111

    def test_nothing_leaves_or_enters_a_port_that_is_down(self) -> None:
        peer = Peer(sack_packets=1)
        peer.nic.set_port_up(1, False, 0)
        post(peer.qp, 1, 40 * MTU)
        assert {port for port, _ in peer.frames()} == {0, 2, 3}
        packet = peer.write_packet(0, b"x")
        peer.receive(packet, port=1)
        assert peer.memory[0] == 0 and peer.nic.drops["port down"] == 1
        peer.receive(packet, port=2)
        assert isinstance(peer.sent()[0], Sack)
