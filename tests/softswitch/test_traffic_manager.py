"""The traffic manager alone: exact times, strict priority, depths, changes while running."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.traffic_manager import (
    PRIORITY_OUT_OF_RANGE,
    QUEUE_FULL_BYTES,
    QUEUE_FULL_PACKETS,
    WIRE_OVERHEAD_BYTES,
    EgressPort,
    TrafficManager,
    TrafficManagerError,
)


@dataclass
class Owner:
    """Stands in for the switch: serves every item as it is and writes down what happens."""

    queues: int = 2
    served: list[tuple[int, int, bytes, int, int, int, int]] = field(default_factory=list)
    out: list[tuple[int, int, bytes]] = field(default_factory=list)
    lost: list[bytes] = field(default_factory=list)
    eat: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.manager: TrafficManager[bytes] = TrafficManager(self.queues, self.egress, self.deliver)

    def egress(
        self,
        port: EgressPort[bytes],
        queue: int,
        item: bytes,
        enqueued_ns: int,
        found: int,
        left: int,
        now_ns: int,
    ) -> bytes | None:
        self.served.append((port.number, queue, item, enqueued_ns, found, left, now_ns))
        return None if item in self.eat else item

    def deliver(self, port: EgressPort[bytes], frame: bytes, now_ns: int) -> None:
        if port.up:
            self.out.append((now_ns, port.number, frame))
        else:
            self.lost.append(frame)

    def send(self, port: int, frame: bytes, now_ns: int, priority: int = 0) -> str | None:
        self.manager.advance(now_ns)
        record = self.manager.ports[port]
        if record.direct:
            served = self.egress(record, priority, frame, now_ns, 0, 0, now_ns)
            if served is not None:
                self.deliver(record, served, now_ns)
            return None
        return self.manager.enqueue(record, priority, frame, len(frame), now_ns)


def wire_ns(size: int, rate_bps: int) -> Fraction:
    return Fraction((size + WIRE_OVERHEAD_BYTES) * 8 * 10**9, rate_bps)


def test_a_frame_leaves_when_its_last_bit_is_out() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=1_000_000_000)
    owner.send(1, bytes(976), 5_000)
    # (976 + 24) * 8 bits at 1 Gbit/s = 8000 ns
    assert owner.manager.next_timer() == 13_000
    owner.manager.advance(12_999)
    assert owner.out == []
    owner.manager.advance(13_000)
    assert owner.out == [(13_000, 1, bytes(976))]
    assert owner.manager.next_timer() is None


def test_back_to_back_frames_keep_the_exact_rate() -> None:
    owner = Owner()
    rate_bps = 400_000_000_000
    owner.manager.add_port(1, rate_bps=rate_bps)
    for _ in range(1000):
        owner.send(1, bytes(4242), 0)
    owner.manager.advance(10**9)
    exact = wire_ns(4242, rate_bps)  # 85.32 ns: not a whole number
    for index, (left_ns, _, _) in enumerate(owner.out, start=1):
        assert left_ns == -(-exact * index // 1)


def test_frames_shorter_than_a_nanosecond_keep_the_exact_rate() -> None:
    owner = Owner()
    rate_bps = 1_600_000_000_000
    owner.manager.add_port(1, rate_bps=rate_bps)
    for _ in range(100):
        owner.send(1, bytes(64), 0)
    owner.manager.advance(10**6)
    exact = wire_ns(64, rate_bps)
    assert [left_ns for left_ns, _, _ in owner.out] == [-(-exact * n // 1) for n in range(1, 101)]


def test_an_idle_port_starts_at_the_arrival() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=3)
    size = 1
    owner.send(1, bytes(size), 0)
    first = -(-wire_ns(size, 3) // 1)
    owner.send(1, bytes(size), first + 7)
    owner.manager.advance(10**12)
    assert [left_ns for left_ns, _, _ in owner.out] == [first, first + 7 + first]


def test_strict_priority_highest_number_first_ties_in_order() -> None:
    owner = Owner(queues=3)
    owner.manager.add_port(1, rate_bps=8_000)
    owner.send(1, b"first", 0)
    for name, priority in ((b"a0", 0), (b"b2", 2), (b"c1", 1), (b"d2", 2), (b"e0", 0)):
        owner.send(1, name, 1, priority)
    owner.manager.advance(10**12)
    assert [frame for _, _, frame in owner.out] == [b"first", b"b2", b"d2", b"c1", b"a0", b"e0"]


def test_what_comes_in_while_a_frame_is_on_the_wire_does_not_interrupt_it() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000)
    owner.send(1, b"low", 0, 0)
    owner.send(1, b"high", 1, 1)
    owner.manager.advance(10**12)
    assert [frame for _, _, frame in owner.out] == [b"low", b"high"]


def test_enqueue_and_dequeue_metadata() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=1_000_000_000)
    for now_ns, frame in ((0, b"a"), (10, b"b"), (20, b"c"), (30, b"d")):
        owner.send(1, frame, now_ns)
    step = int(wire_ns(1, 1_000_000_000))
    owner.manager.advance(10**9)
    # (port, queue, item, enqueued, queue found, queue left, dequeued)
    assert owner.served == [
        (1, 0, b"a", 0, 0, 0, 0),
        (1, 0, b"b", 10, 0, 2, step),
        (1, 0, b"c", 20, 1, 1, 2 * step),
        (1, 0, b"d", 30, 2, 0, 3 * step),
    ]


def test_depth_in_packets_and_in_bytes() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000, depth_packets=2, depth_bytes=250)
    assert owner.send(1, bytes(1000), 0) is None  # goes straight to the wire, whatever the depth
    assert owner.send(1, bytes(100), 0) is None
    assert owner.send(1, bytes(151), 0) == QUEUE_FULL_BYTES
    assert owner.send(1, bytes(150), 0) is None
    assert owner.send(1, b"", 0) == QUEUE_FULL_PACKETS
    assert owner.send(1, bytes(250), 0, priority=1) is None  # every queue has its own depth
    low, high = owner.manager.ports[1].queue_stats()
    assert (low.packets, low.size_bytes, low.peak_packets, low.peak_bytes) == (2, 250, 2, 250)
    assert (low.dropped_full_packets, low.dropped_full_bytes) == (1, 1)
    assert (high.packets, high.size_bytes) == (1, 250)


def test_depth_zero_still_sends_through_an_idle_port() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000, depth_packets=0)
    assert owner.send(1, b"a", 0) is None
    assert owner.send(1, b"b", 0) == QUEUE_FULL_PACKETS


def test_depths_change_while_running() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000, depth_packets=10)
    for _ in range(5):
        assert owner.send(1, b"x", 0) is None
    owner.manager.set_depth(1, 0, depth_packets=1)
    assert owner.send(1, b"y", 0) == QUEUE_FULL_PACKETS
    assert owner.send(1, b"y", 0, priority=1) is None
    assert owner.manager.held_packets() == 6  # nothing queued was thrown out
    owner.manager.set_depth(depth_packets=7)
    assert owner.send(1, b"z", 0) is None
    owner.manager.add_port(2, rate_bps=8_000)
    assert owner.manager.ports[2].queue_stats()[0].depth_packets == 7


def test_a_new_rate_applies_to_what_has_not_begun() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=1_000_000_000)
    owner.send(1, bytes(976), 0)
    owner.send(1, bytes(976), 0)
    owner.manager.set_rate(1, 2_000_000_000, 4_000)
    owner.manager.advance(10**9)
    assert [left_ns for left_ns, _, _ in owner.out] == [8_000, 12_000]


def test_lifting_the_limit_lets_the_queue_go_when_the_wire_is_free() -> None:
    owner = Owner()
    port = owner.manager.add_port(1, rate_bps=1_000_000_000)
    for _ in range(3):
        owner.send(1, bytes(976), 0)
    owner.manager.set_rate(1, None, 100)
    assert not port.direct  # or later packets would overtake
    owner.send(1, b"late", 200)
    owner.manager.advance(8_000)
    assert [left_ns for left_ns, _, _ in owner.out] == [8_000] * 4
    assert owner.out[-1][2] == b"late"
    assert port.direct


def test_setting_a_limit_on_an_unlimited_port() -> None:
    owner = Owner()
    owner.manager.add_port(1)
    owner.send(1, b"now", 0)
    owner.manager.set_rate(1, 8_000_000_000, 10)
    owner.send(1, bytes(976), 10)
    owner.manager.advance(10**9)
    assert [left_ns for left_ns, _, _ in owner.out] == [0, 1_010]


def test_an_item_that_comes_to_nothing_takes_no_time() -> None:
    owner = Owner(eat={b"gone"})
    owner.manager.add_port(1, rate_bps=1_000_000_000)
    owner.send(1, b"gone", 0)
    assert owner.manager.next_timer() is None
    owner.send(1, bytes(976), 0)
    owner.send(1, b"gone", 0)
    owner.send(1, bytes(977), 0)
    owner.manager.advance(10**9)
    assert [(left_ns, len(frame)) for left_ns, _, frame in owner.out] == [
        (8_000, 976),
        (16_008, 977),
    ]


def test_going_down_loses_what_is_held_and_coming_up_starts_afresh() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000)
    for frame in (b"wire", b"one", b"two"):
        owner.send(1, frame, 0)
    owner.manager.set_up(1, False, 5)
    assert owner.lost == [b"wire", b"one", b"two"]
    assert [item for _, _, item, *_ in owner.served] == [b"wire", b"one", b"two"]
    assert owner.manager.next_timer() is None
    owner.send(1, b"down", 6)
    assert owner.lost[-1] == b"down"
    owner.manager.set_up(1, True, 10)
    owner.send(1, b"up", 10)
    owner.manager.advance(10**12)
    assert owner.out == [(10 + int(wire_ns(2, 8_000)), 1, b"up")]


def test_ports_do_not_wait_for_each_other() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=1_000)
    owner.manager.add_port(2, rate_bps=1_000_000_000)
    owner.send(1, b"slow", 0)
    owner.send(2, b"fast", 0)
    owner.manager.advance(10**12)
    assert [frame for _, _, frame in owner.out] == [b"fast", b"slow"]


def test_removed_port_leaves_no_event() -> None:
    owner = Owner()
    owner.manager.add_port(1, rate_bps=8_000)
    owner.send(1, b"x", 0)
    owner.manager.remove_port(1, 1)
    assert owner.manager.next_timer() is None
    assert owner.lost == [b"x"]


@pytest.mark.parametrize("priority", [-1, 2])
def test_priority_out_of_range(priority: int) -> None:
    owner = Owner(queues=2)
    owner.manager.add_port(1, rate_bps=8_000)
    assert owner.send(1, b"x", 0, priority) == PRIORITY_OUT_OF_RANGE


def test_an_egress_that_queues_more_for_its_own_port() -> None:
    """As egress-to-egress clones do."""
    owner = Owner()
    serve = owner.egress
    copies = [b"copy1", b"copy2"]

    def egress(
        port: EgressPort[bytes], queue: int, item: bytes, enq: int, found: int, left: int, now: int
    ) -> bytes | None:
        if copies:
            assert manager.enqueue(port, 0, copies.pop(0), 5, now) is None
        return serve(port, queue, item, enq, found, left, now)

    manager: TrafficManager[bytes] = TrafficManager(2, egress, owner.deliver)
    owner.manager = manager
    manager.add_port(1, rate_bps=8_000)
    owner.send(1, b"first", 0)
    manager.advance(10**12)
    assert [frame for _, _, frame in owner.out] == [b"first", b"copy1", b"copy2"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.add_port(1), "port 1 exists"),
        (lambda m: m.add_port(2, rate_bps=0), "0 bit/s"),
        (lambda m: m.add_port(2, depth_packets=-1), "-1 packets"),
        (lambda m: m.set_rate(1, -5, 0), "-5 bit/s"),
        (lambda m: m.set_rate(9, 5, 0), "port 9 does not exist"),
        (lambda m: m.set_depth(1, 2, depth_bytes=1), "queue 2"),
        (lambda m: m.set_depth(1, depth_bytes=-1), "-1 bytes"),
        (lambda m: TrafficManager(0, Owner().egress, Owner().deliver), "queues per port: 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call: object, words: str) -> None:
    owner = Owner()
    owner.manager.add_port(1)
    assert callable(call)
    with pytest.raises(TrafficManagerError, match=words):
        call(owner.manager)


# -- against a plain model -----------------------------------------------------------------

ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 2_000),  # ns since the one before
        st.integers(0, 1),  # port
        st.integers(0, 2),  # priority
        st.integers(0, 300),  # size
    ),
    max_size=60,
)


@given(ARRIVALS, st.sampled_from([10**9, 3 * 10**9, 7_777_777_777]), st.integers(0, 6))
def test_agrees_with_a_model_that_knows_only_exact_times(
    arrivals: list[tuple[int, int, int, int]], rate_bps: int, depth: int
) -> None:
    """One port at a time, in fractions, by searching: slow and plainly right."""
    owner = Owner(queues=3)
    for port in (0, 1):
        owner.manager.add_port(port, rate_bps=rate_bps, depth_packets=depth)
    now_ns = 0
    expected: list[tuple[int, int, bytes]] = []
    per_port: dict[int, list[tuple[int, int, bytes]]] = {0: [], 1: []}
    for index, (gap_ns, port, priority, size) in enumerate(arrivals):
        now_ns += gap_ns
        frame = index.to_bytes(2, "big") + bytes(size)
        per_port[port].append((now_ns, priority, frame))
        owner.send(port, frame, now_ns, priority)
    owner.manager.advance(10**12)
    for port, packets in per_port.items():
        free = Fraction(0)
        waiting: list[tuple[int, int, bytes]] = []  # (-priority, order, frame)

        def start(port: int = port, waiting: list[tuple[int, int, bytes]] = waiting) -> bytes:
            waiting.sort()
            return waiting.pop(0)[2]

        for order, (at_ns, priority, frame) in enumerate(packets):
            # An end that falls between two whole nanoseconds happens at the later one.
            while waiting and -(-free // 1) <= at_ns:
                head = start()
                free += wire_ns(len(head), rate_bps)
                expected.append((-(-free // 1), port, head))
            if not waiting and -(-free // 1) <= at_ns:
                free = at_ns + wire_ns(len(frame), rate_bps)
                expected.append((-(-free // 1), port, frame))
            elif sum(1 for each in waiting if each[0] == -priority) < depth:
                waiting.append((-priority, order, frame))
        while waiting:
            head = start()
            free += wire_ns(len(head), rate_bps)
            expected.append((-(-free // 1), port, head))
    assert sorted(owner.out) == sorted(expected)
    assert owner.out == sorted(owner.out, key=lambda left: left[0])
