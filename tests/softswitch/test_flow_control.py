"""Flow control in the traffic manager: pauses, MAC control frames, lossless ingress buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.ingress_buffer import Thresholds
from softswitch.traffic_manager import (
    INGRESS_BUFFER_FULL,
    QUEUE_FULL_PACKETS,
    EgressPort,
    TrafficManager,
    TrafficManagerError,
)

RATE_BPS = 8_000_000_000
"""A byte a nanosecond."""


@dataclass
class Owner:
    """Two queues; ports 1 (egress) and 2, 3 (ingress, where data is lossless)."""

    thresholds: Thresholds = field(default_factory=lambda: Thresholds(1000, 400, 600))
    rate_bps: int | None = RATE_BPS

    def __post_init__(self) -> None:
        self.out: list[tuple[int, int, bytes]] = []
        self.mac: list[tuple[int, int, bytes]] = []
        self.lost: list[bytes] = []
        self.served = 0
        self.stops: list[tuple[int, int, bool, int]] = []
        self.manager: TrafficManager[bytes] = TrafficManager(
            2, self.egress, self.deliver, self.deliver_mac
        )
        self.ports = [self.manager.add_port(n, rate_bps=self.rate_bps) for n in (1, 2, 3)]
        self.buffers = {
            number: self.manager.make_lossless(number, 0, self.thresholds, self.on_stop)
            for number in (2, 3)
        }

    def egress(self, port: EgressPort[bytes], queue: int, item: bytes, *times: int) -> bytes | None:
        self.served += 1
        return item or None

    def deliver(self, port: EgressPort[bytes], frame: bytes, now_ns: int) -> None:
        if port.up:
            self.out.append((now_ns, port.number, frame))
        else:
            self.lost.append(frame)

    def deliver_mac(self, port: EgressPort[bytes], frame: bytes, now_ns: int) -> None:
        self.mac.append((now_ns, port.number, frame))

    def on_stop(self, port: int, queue: int, stop: bool, now_ns: int) -> None:
        self.stops.append((port, queue, stop, now_ns))

    def send(self, frame: bytes, now_ns: int, queue: int = 0, source: int = 2) -> str | None:
        self.manager.advance(now_ns)
        return self.manager.enqueue(self.ports[0], queue, frame, len(frame), now_ns, source)


def test_a_paused_queue_begins_nothing_and_the_others_go_on() -> None:
    owner = Owner()
    owner.send(bytes(76), 0)
    owner.send(bytes(77), 0)
    owner.manager.set_paused(1, 0, True, 50)
    owner.send(bytes(176), 60, queue=1)
    owner.manager.advance(10_000)
    # What was on the wire ends (100 ns with its overhead); then the other queue's
    assert [(left_ns, len(frame)) for left_ns, _, frame in owner.out] == [(100, 76), (300, 176)]
    assert owner.ports[0].is_paused(0) and owner.manager.held_packets() == 1
    assert owner.manager.next_timer() is None
    owner.send(bytes(78), 10_000)
    owner.manager.set_paused(1, 0, False, 20_000)
    owner.manager.advance(30_000)
    # 101 and 102 ns on the wire
    assert owner.out[2:] == [(20_101, 1, bytes(77)), (20_203, 1, bytes(78))]


def test_a_port_without_a_rate_can_be_paused() -> None:
    owner = Owner(rate_bps=None)
    port = owner.ports[0]
    owner.manager.set_paused(1, 0, True, 0)
    direct = [port.direct]
    owner.send(b"data", 1)
    owner.send(b"control", 2, queue=1)
    assert [frame for *_, frame in owner.out] == [b"control"]
    owner.manager.set_paused(1, 0, False, 3)
    assert [frame for *_, frame in owner.out] == [b"control", b"data"]
    assert [*direct, port.direct] == [False, True]
    assert owner.buffers[2].size_bytes == 0


def test_a_port_that_goes_down_forgets_its_pauses() -> None:
    owner = Owner()
    owner.manager.set_paused(1, 0, True, 0)
    owner.send(b"waits", 1)
    owner.manager.send_mac(1, b"mac", 1)
    owner.manager.set_up(1, False, 2)
    assert owner.lost == [b"waits"] and owner.mac == []
    owner.manager.set_paused(1, 0, True, 3)
    owner.manager.send_mac(1, b"mac", 3)
    owner.manager.set_up(1, True, 4)
    owner.send(b"goes", 4)
    owner.manager.advance(1000)
    assert [frame for *_, frame in owner.out] == [b"goes"]
    assert owner.mac == [] and owner.manager.held_packets() == 0
    assert owner.buffers[2].size_bytes == 0


def test_a_mac_frame_waits_for_the_frame_on_the_wire_only() -> None:
    owner = Owner()
    owner.send(bytes(76), 0)
    owner.send(bytes(76), 0, queue=1)
    owner.manager.set_paused(1, 0, True, 0)
    owner.manager.set_paused(1, 1, True, 0)
    owner.manager.send_mac(1, bytes(60), 10)
    assert owner.manager.held_packets() == 2
    owner.manager.advance(1000)
    assert owner.mac == [(184, 1, bytes(60))]
    assert [left_ns for left_ns, *_ in owner.out] == [100]
    # Nobody's packet: the program saw two, one of which waits
    assert owner.served == 1 and owner.manager.held_packets() == 1
    owner.manager.send_mac(1, bytes(60), 2000)
    owner.manager.advance(3000)
    assert owner.mac[1] == (2084, 1, bytes(60))


def test_senders_stop_above_xoff_and_go_on_at_xon() -> None:
    owner = Owner()
    for _ in range(5):
        owner.send(bytes(200), 0)
    assert owner.stops == [] and owner.buffers[2].size_bytes == 1000
    owner.send(bytes(200), 0)
    assert owner.stops == [(2, 0, True, 0)]
    # Frames are charged until their last bit is out: four of 224 ns each leave 400 bytes
    owner.manager.advance(895)
    assert len(owner.stops) == 1
    owner.manager.advance(896)
    assert owner.stops[1:] == [(2, 0, False, 896)]
    assert owner.buffers[2].peak_bytes == 1200 and owner.buffers[3].peak_bytes == 0


def test_only_the_lossless_queue_and_the_ports_own_frames_are_charged() -> None:
    owner = Owner()
    owner.send(bytes(500), 0, queue=1)
    owner.send(bytes(500), 0, source=1)
    owner.send(bytes(500), 0, source=3)
    assert (owner.buffers[2].size_bytes, owner.buffers[3].size_bytes) == (0, 500)


def test_beyond_the_headroom_frames_are_lost_and_the_program_sees_them_leave() -> None:
    owner = Owner()
    for _ in range(8):
        assert owner.send(bytes(200), 0) is None
    served = owner.served
    assert owner.send(bytes(200), 0) == INGRESS_BUFFER_FULL
    assert owner.served == served + 1
    assert owner.buffers[2].refused == 1
    assert owner.send(bytes(200), 0, source=3) is None


def test_what_a_full_queue_refuses_is_charged_to_nobody() -> None:
    owner = Owner()
    owner.manager.set_depth(1, 0, depth_packets=0)
    owner.send(b"on the wire", 0)
    assert owner.send(bytes(100), 0) == QUEUE_FULL_PACKETS
    assert owner.buffers[2].size_bytes == len(b"on the wire")


def test_what_comes_to_nothing_is_discharged() -> None:
    owner = Owner()
    # The owner's egress makes nothing of an item without bytes
    owner.manager.enqueue(owner.ports[0], 0, b"", 300, 0, 2)
    assert owner.buffers[2].size_bytes == 0
    owner.send(bytes(76), 0)
    owner.manager.enqueue(owner.ports[0], 0, b"", 300, 0, 2)
    assert owner.buffers[2].size_bytes == 376
    owner.manager.advance(100)
    assert owner.buffers[2].size_bytes == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.set_paused(1, 2, True, 0), "queue 2"),
        (lambda m: m.set_paused(9, 0, True, 0), "port 9 does not exist"),
        (lambda m: m.send_mac(9, b"", 0), "port 9 does not exist"),
        (lambda m: m.make_lossless(9, 0, Thresholds(1, 1, 1), print), "port 9 does not exist"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(TrafficManagerError, match=words):
        call(Owner().manager)


@pytest.mark.parametrize(("xon", "headroom", "words"), [(11, 0, "xon_bytes: 11"), (5, -1, "-1")])
def test_thresholds_that_cannot_be(xon: int, headroom: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Thresholds(10, xon, headroom)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 400),  # ns since the one before
        st.sampled_from(["send", "pause", "go", "mac", "down", "up"]),
        st.integers(0, 1),  # queue
        st.integers(1, 3),  # source
        st.integers(1, 500),  # size
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_nothing_is_charged_for_ever(
    steps: list[tuple[int, str, int, int, int]],
) -> None:
    owner = Owner()
    now_ns = sent = refused = 0
    for gap_ns, what, queue, source, size in steps:
        now_ns += gap_ns
        owner.manager.advance(now_ns)
        if what == "send":
            sent += 1
            if owner.ports[0].direct:
                owner.deliver(owner.ports[0], bytes(size), now_ns)
            else:
                refused += owner.send(bytes(size), now_ns, queue, source) is not None
        elif what in ("pause", "go"):
            owner.manager.set_paused(1, queue, what == "pause", now_ns)
        elif what == "mac":
            owner.manager.send_mac(1, bytes(60), now_ns)
        else:
            owner.manager.set_up(1, what == "up", now_ns)
        for buffer in owner.buffers.values():
            assert 0 <= buffer.size_bytes <= 1600
            assert buffer.stopped or buffer.size_bytes <= 1000
        held = owner.manager.held_packets()
        assert sent == len(owner.out) + len(owner.lost) + refused + held
    owner.manager.set_up(1, True, now_ns)
    for queue in (0, 1):
        owner.manager.set_paused(1, queue, False, now_ns)
    owner.manager.advance(now_ns + 10**6)
    assert owner.manager.held_packets() == 0
    for number, buffer in owner.buffers.items():
        assert buffer.size_bytes == 0 and not buffer.stopped
        told = [stop for port, _, stop, _ in owner.stops if port == number]
        assert told == [index % 2 == 0 for index in range(len(told))]
