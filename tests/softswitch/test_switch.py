"""The switch around a pipeline: order of events, names of losses, conservation."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.pipeline import (
    Again,
    Clone,
    Digest,
    EgressRequests,
    EgressResult,
    IngressRequests,
    IngressResult,
    Pipeline,
    State,
)
from softswitch.ports.base import Loss
from softswitch.replication import CloneSession, MulticastGroup, Replica
from softswitch.switch import Switch, SwitchError
from softswitch.traffic_manager import TrafficManagerError
from tests.softswitch.scripted_pipeline import Egress, Ingress, Leaving, as_it_is, scripted, send_to

GIGABIT = 1_000_000_000


def make(
    ingress: Ingress, egress: Egress = as_it_is, *, ports: int = 4, **options: Any
) -> tuple[Switch, Any]:
    """Return a switch with ports 1 to `ports` and its scripted pipeline."""
    switch = Switch(**options)
    for port in range(1, ports + 1):
        switch.add_port(port)
    pipeline: Any = switch.install(scripted(ingress, egress))
    return switch, pipeline


def to_port_2(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
    return send_to(2, frame)


def dropped(switch: Switch) -> dict[str, int]:
    stats = switch.stats()
    assert stats.unaccounted == 0
    return dict(stats.dropped)


# -- unicast -------------------------------------------------------------------------------


def test_unlimited_port_passes_at_once() -> None:
    switch, pipeline = make(to_port_2)
    switch.receive(1, b"frame", 7)
    assert switch.next_timer() is None
    assert switch.transmit(7) == [(2, b"frame")]
    assert switch.transmit(7) == []
    (leaving,) = pipeline.left
    assert vars(leaving) == {
        "port": 2,
        "now_ns": 7,
        "rid": 0,
        "enqueued_ns": 7,
        "enq_qdepth": 0,
        "deq_qdepth": 0,
        "qid": 0,
    }
    stats = switch.stats()
    assert (stats.received, stats.sent, stats.queued) == (1, 1, 0)
    assert (stats.ports[1].rx_packets, stats.ports[1].rx_bytes) == (1, 5)
    assert (stats.ports[2].tx_packets, stats.ports[2].tx_bytes) == (1, 5)


def test_limited_port_runs_egress_when_serialisation_begins() -> None:
    switch, pipeline = make(to_port_2)
    switch.set_port_rate(2, GIGABIT, 0)
    for _ in range(3):
        switch.receive(1, bytes(976), 0)
    assert len(pipeline.left) == 1
    assert switch.transmit(7_999) == []
    assert switch.next_timer() == 8_000
    assert switch.stats().queued == 3
    # Late by far, and yet every packet left its queue at its own time.
    assert switch.transmit(100_000) == [(2, bytes(976))] * 3
    assert [each.now_ns for each in pipeline.left] == [0, 8_000, 16_000]
    assert [each.enqueued_ns for each in pipeline.left] == [0, 0, 0]
    assert [each.enq_qdepth for each in pipeline.left] == [0, 0, 1]
    assert [each.deq_qdepth for each in pipeline.left] == [0, 1, 0]


def test_receive_catches_up_before_it_queues() -> None:
    """What the switch does must not depend on when its owner asks for output."""
    polled, _ = make(to_port_2)
    unpolled, _ = make(to_port_2)
    out: list[tuple[int, bytes]] = []
    for switch in (polled, unpolled):
        switch.set_port_rate(2, GIGABIT, 0)
        switch.set_queue_depth(2, depth_packets=1)
    for now_ns in range(0, 200_000, 6_000):
        for switch in (polled, unpolled):
            switch.receive(1, bytes(976), now_ns)
        out += polled.transmit(now_ns)
    out += polled.transmit(10**9)
    assert unpolled.transmit(10**9) == out
    assert unpolled.stats() == polled.stats()
    assert dropped(polled)["queue_full_packets"] > 0


def test_priority_is_the_queue_number() -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        return send_to(2, frame, priority=frame[0])

    switch, pipeline = make(ingress, priority_queues=2)
    switch.set_port_rate(2, GIGABIT, 0)
    for frame in (b"\0first", b"\0low", b"\1high", b"\2none"):
        switch.receive(1, frame, 0)
    assert [frame for _, frame in switch.transmit(10**9)] == [b"\0first", b"\1high", b"\0low"]
    assert [each.qid for each in pipeline.left] == [0, 1, 0]
    assert dropped(switch) == {"priority_out_of_range": 1}
    switch.receive(1, b"\2none", 10**9)
    switch.set_port_rate(2, None, 10**9)
    switch.receive(1, b"\2none", 10**9)
    assert dropped(switch) == {"priority_out_of_range": 3}


# -- named losses --------------------------------------------------------------------------


def test_no_pipeline() -> None:
    switch = Switch()
    switch.add_port(1)
    switch.receive(1, b"x", 0)
    assert dropped(switch) == {"no_pipeline": 1}


def test_drops_of_the_program() -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        return {b"a": None, b"b": send_to(511, frame)}.get(frame, send_to(2, frame))

    def egress(state: State, leaving: Leaving) -> EgressResult:
        return None

    switch, _ = make(ingress, egress)
    for frame in (b"a", b"b", b"c"):
        switch.receive(1, frame, 0)
    assert dropped(switch) == {"ingress_drop": 2, "egress_drop": 1}
    assert switch.stats().ports[1].dropped == {"ingress_drop": 2}
    assert switch.stats().ports[2].dropped == {"egress_drop": 1}


def test_drop_port_is_what_it_was_set_to() -> None:
    switch, _ = make(lambda frame, *_: send_to(7, frame), drop_port=7)
    switch.receive(1, b"x", 0)
    assert dropped(switch) == {"ingress_drop": 1}
    with pytest.raises(SwitchError, match="port 7 is the drop port"):
        switch.add_port(7)
    with pytest.raises(SwitchError, match="cannot be both"):
        Switch(cpu_port=511)


def test_unknown_ports_run_through_egress_and_are_named() -> None:
    switch, pipeline = make(lambda frame, *_: send_to(300, frame))
    switch.receive(1, b"x", 0)
    switch.receive(99, b"y", 0)
    assert dropped(switch) == {"no_such_port": 2}
    assert [each.port for each in pipeline.left] == [300]
    assert switch.stats().received == 2


def test_a_port_that_is_down() -> None:
    switch, pipeline = make(to_port_2)
    switch.set_port_rate(2, GIGABIT, 0)
    for _ in range(3):
        switch.receive(1, b"queued", 0)
    switch.set_port_up(2, False, 1)
    assert pipeline.ports_down == {2}
    assert len(pipeline.left) == 3  # the program saw every packet it admitted leave
    switch.receive(1, b"to it", 2)
    switch.receive(2, b"from it", 2)
    assert switch.transmit(10**9) == []
    assert dropped(switch) == {"port_down": 5}
    switch.set_port_up(2, True, 10)
    assert pipeline.ports_down == set()
    switch.receive(1, b"again", 10)
    assert switch.transmit(10**9) == [(2, b"again")]


def test_port_states_are_told_to_a_new_pipeline() -> None:
    switch, _ = make(to_port_2)
    switch.set_port_up(3, False, 0)
    pipeline: Any = switch.install(scripted(to_port_2))
    assert pipeline.ports_down == {3}


def test_queue_limits_are_named_and_counted_where_they_are() -> None:
    switch, _ = make(to_port_2, depth_packets=2)
    switch.set_port_rate(2, GIGABIT, 0)
    switch.set_queue_depth(2, 0, depth_bytes=150)
    for size in (100, 100, 100, 10, 10):
        switch.receive(1, bytes(size), 0)
    assert dropped(switch) == {"queue_full_bytes": 1, "queue_full_packets": 1}
    port = switch.stats().ports[2]
    assert (port.queued, port.queues[0].packets, port.queues[0].size_bytes) == (3, 2, 110)


def test_errors_of_the_program_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        if frame == b"in":
            raise IndexError("list index out of range")
        return send_to(2, frame)

    def egress(state: State, leaving: Leaving) -> EgressResult:
        raise ZeroDivisionError("division by zero")

    switch, _ = make(ingress, egress)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            switch.receive(1, b"in", 0)
            switch.receive(1, b"out", 0)
        switch.set_port_rate(2, GIGABIT, 0)
        for _ in range(5):
            switch.receive(1, b"out", 0)
    assert dropped(switch) == {"program_error": 15}
    assert len(caplog.records) == 2
    assert sorted(switch.stats().errors.values()) == [5, 10]


def test_losses_of_ports_are_part_of_the_account() -> None:
    switch, _ = make(to_port_2)
    switch.receive(1, b"frame", 0)
    switch.receive(1, b"frame", 0)
    assert len(switch.transmit(0)) == 2
    switch.count_lost(2, Loss("send_enobufs", 1, size_bytes=5))
    switch.count_lost(1, Loss("socket_overflow", 10, before=True))
    stats = switch.stats()
    assert (stats.received, stats.sent) == (12, 1)
    assert stats.ports[2].tx_bytes == 5
    assert dropped(switch) == {"send_enobufs": 1, "socket_overflow": 10}


# -- multicast and clones ------------------------------------------------------------------


def group_of(*copies: tuple[int, int]) -> MulticastGroup:
    return MulticastGroup(1, tuple(Replica(port, rid) for port, rid in copies))


def test_multicast_in_order_of_instance_and_port() -> None:
    switch, pipeline = make(lambda frame, *_: (0, 0, 1, len(frame), (frame,), None))
    switch.receive(1, b"x", 0)
    assert dropped(switch) == {"multicast_no_replica": 1}
    switch.replication.create_group(group_of((4, 1), (2, 1), (3, 0)))
    switch.receive(1, b"x", 0)
    assert switch.transmit(0) == [(3, b"x"), (2, b"x"), (4, b"x")]
    assert [(each.port, each.rid) for each in pipeline.left] == [(3, 0), (2, 1), (4, 1)]
    stats = switch.stats()
    assert (stats.received, stats.copies, stats.sent) == (2, 2, 3)
    assert stats.unaccounted == 0


def test_multicast_wins_over_the_drop_port() -> None:
    switch, _ = make(lambda frame, *_: (511, 0, 1, len(frame), (frame,), None))
    switch.replication.create_group(group_of((2, 0)))
    switch.receive(1, b"x", 0)
    assert switch.transmit(0) == [(2, b"x")]
    assert dropped(switch) == {}


def test_ingress_clone_comes_before_the_original_and_survives_its_drop() -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        clone = Clone(5, 0, len(frame), (b"clone of " + frame,))
        to = 511 if frame == b"drop" else 2
        return to, 0, 0, len(frame), (frame,), IngressRequests(clone=clone)

    switch, _ = make(ingress)
    switch.receive(1, b"a", 0)
    assert switch.transmit(0) == [(2, b"a")]  # no such session: no clone, no fuss
    switch.replication.create_session(CloneSession(5, (Replica(3, 0), Replica(4, 9))))
    switch.receive(1, b"b", 0)
    switch.receive(1, b"drop", 0)
    assert switch.transmit(0) == [
        (3, b"clone of b"),
        (4, b"clone of b"),
        (2, b"b"),
        (3, b"clone of drop"),
        (4, b"clone of drop"),
    ]
    assert switch.stats().copies == 4
    assert dropped(switch) == {"ingress_drop": 1}


def test_clone_session_length_and_class() -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        return 511, 0, 0, 9, (frame,), IngressRequests(clone=Clone(1, 0, len(frame), (frame,)))

    switch, pipeline = make(ingress, priority_queues=4)
    switch.replication.create_session(
        CloneSession(1, (Replica(2),), class_of_service=3, packet_length_bytes=4)
    )
    switch.set_port_rate(2, GIGABIT, 0)
    switch.receive(1, b"longer than four", 0)
    switch.receive(1, b"a", 0)
    assert switch.stats().ports[2].queues[3].size_bytes == 1
    assert switch.transmit(10**9) == [(2, b"long"), (2, b"a")]
    assert pipeline.left[0].qid == 3


def test_egress_clone_goes_to_its_queue_and_the_original_on() -> None:
    def egress(state: State, leaving: Leaving) -> EgressResult:
        (frame,) = state
        if frame == b"clone":
            return b"clone"
        clone = Clone(1, 0, 5, (b"clone",))
        return EgressRequests(frame=None if frame == b"drop" else frame, clone=clone)

    switch, _ = make(to_port_2, egress)
    switch.replication.create_session(CloneSession(1, (Replica(2),)))
    switch.set_port_rate(2, GIGABIT, 0)
    switch.receive(1, b"a", 0)
    switch.receive(1, b"drop", 0)
    assert switch.transmit(10**9) == [(2, b"a"), (2, b"clone"), (2, b"clone")]
    assert dropped(switch) == {"egress_drop": 1}
    switch.set_port_rate(2, None, 10**9)
    switch.receive(1, b"a", 10**9)
    assert switch.transmit(10**9) == [(2, b"a"), (2, b"clone")]


def test_digests_are_told() -> None:
    told: list[tuple[str, tuple[int, ...]]] = []
    requests = IngressRequests(digest=Digest("learn", (1, 2)))
    switch, _ = make(lambda frame, *_: (511, 0, 0, len(frame), (frame,), requests))
    switch.receive(1, b"nobody listens", 0)
    switch.on_digest = lambda name, values: told.append((name, values))
    switch.receive(1, b"x", 0)
    assert told == [("learn", (1, 2))]


# -- once more -----------------------------------------------------------------------------


def again_until(last: int, kind: str) -> tuple[Ingress, Egress]:
    """A program that sends a packet through again until its first byte is `last`."""

    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        following = Again(bytes([frame[0] + 1 & 255]) + frame[1:], port, 6, ())
        if kind == "resubmit" and frame[0] != last:
            # Resubmission comes before multicast and drop, and after clones.
            clone = Clone(1, 0, 1, (b"clone",))
            return 511, 0, 1, 1, (frame,), IngressRequests(clone=clone, resubmit=following)
        return send_to(2, frame)

    def egress(state: State, leaving: Leaving) -> EgressResult:
        (frame,) = state
        if kind == "recirculate" and frame[0] != last:
            following = Again(bytes([frame[0] + 1 & 255]) + frame[1:], leaving.port, 4, ())
            return EgressRequests(recirculate=following)
        out: bytes = frame
        return out

    return ingress, egress


@pytest.mark.parametrize("kind", ["resubmit", "recirculate"])
def test_passing_through_again(kind: str) -> None:
    switch, _ = make(*again_until(10, kind))
    switch.receive(1, b"\0x", 0)
    assert switch.transmit(0) == [(2, b"\x0ax")]
    stats = switch.stats()
    assert (stats.received, stats.copies, stats.sent, stats.dropped) == (1, 0, 1, {})


@pytest.mark.parametrize("kind", ["resubmit", "recirculate"])
@pytest.mark.parametrize("rate_bps", [None, GIGABIT])
def test_endless_passing_through_is_cut(kind: str, rate_bps: int | None) -> None:
    switch, _ = make(*again_until(255, kind), max_passes=9)
    switch.set_port_rate(2, rate_bps, 0)
    switch.receive(1, b"\0x", 0)
    assert switch.transmit(10**9) == []
    assert dropped(switch) == {"loop_limit": 1}


def test_recirculation_through_a_limited_port_takes_no_wire_time() -> None:
    switch, pipeline = make(*again_until(3, "recirculate"))
    switch.set_port_rate(2, GIGABIT, 0)
    switch.receive(1, b"\0" + bytes(975), 0)
    assert [each.now_ns for each in pipeline.left] == [0, 0, 0, 0]
    assert switch.next_timer() == 8_000


@pytest.mark.parametrize("rate_bps", [None, GIGABIT])
def test_clones_of_clones_are_cut(rate_bps: int | None) -> None:
    """A program that clones every packet in egress, its clones too: endless on BMv2."""

    def egress(state: State, leaving: Leaving) -> EgressResult:
        (frame,) = state
        return EgressRequests(frame=frame, clone=Clone(1, 0, 1, (frame,)))

    switch, _ = make(to_port_2, egress, max_copies=100, max_passes=5)
    switch.replication.create_session(CloneSession(1, (Replica(2), Replica(3))))
    for port in (2, 3):
        switch.set_port_rate(port, rate_bps, 0)
    switch.receive(1, b"x", 0)
    sent = switch.transmit(10**12)
    stats = switch.stats()
    assert stats.unaccounted == 0
    assert len(sent) == 2**6 - 1  # 1 + 2 + 4 + … + 32 pass, every one of the next 64 is cut
    assert stats.dropped == {"loop_limit": 64}
    wide, _ = make(to_port_2, egress, max_copies=100, max_passes=60)
    wide.replication.create_session(CloneSession(1, (Replica(2), Replica(3))))
    wide.receive(1, b"x", 0)
    assert len(wide.transmit(0)) == 101
    assert wide.stats().unaccounted == 0


def test_deep_chains_do_not_recurse() -> None:
    for rate_bps in (None, GIGABIT):
        switch, _ = make(*again_until(-1, "recirculate"), max_passes=20_000)
        switch.set_port_rate(2, rate_bps, 0)
        switch.receive(1, b"\0x", 0)
        assert dropped(switch) == {"loop_limit": 1}


# -- CPU port ------------------------------------------------------------------------------


def test_cpu_port() -> None:
    taken: list[bytes] = []
    switch, _ = make(
        lambda frame, port, *_: send_to(2 if port == 510 else 510, frame), cpu_port=510
    )
    switch.receive(1, b"nobody takes it", 0)
    assert dropped(switch) == {"no_controller": 1}

    def take(frame: bytes) -> bool:
        taken.append(frame)
        return True

    switch.on_packet_in = take
    switch.receive(1, b"up", 0)
    switch.packet_out(b"down", 0)
    assert taken == [b"up"]
    assert switch.transmit(0) == [(2, b"down")]
    switch.on_packet_in = lambda frame: False
    switch.receive(1, b"its stream is gone", 0)
    assert dropped(switch) == {"no_controller": 2}
    stats = switch.stats()
    assert (stats.ports[510].rx_packets, stats.ports[510].tx_packets) == (1, 1)
    assert stats.unaccounted == 0
    with pytest.raises(SwitchError, match="always up"):
        switch.set_port_up(510, False, 0)
    with pytest.raises(SwitchError, match="stays"):
        switch.remove_port(510, 0)
    with pytest.raises(SwitchError, match="is the CPU port"):
        switch.add_port(510)


def test_a_controller_that_raises_costs_only_its_packet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("stream closed")

    requests = IngressRequests(digest=Digest("learn", (1,)))
    switch, _ = make(lambda frame, *_: (510, 0, 0, len(frame), (frame,), requests), cpu_port=510)
    switch.on_packet_in = fail
    switch.on_digest = fail
    for _ in range(3):
        switch.receive(1, b"x", 0)
    assert dropped(switch) == {"controller_error": 3}
    assert sorted(switch.stats().errors.values()) == [3, 3]
    assert len(caplog.records) == 2


def test_packet_out_without_a_cpu_port() -> None:
    with pytest.raises(SwitchError, match="no CPU port"):
        make(to_port_2)[0].packet_out(b"x", 0)


# -- changes while running -----------------------------------------------------------------


def test_what_is_queued_leaves_through_the_program_it_was_queued_for() -> None:
    def old_egress(state: State, leaving: Leaving) -> EgressResult:
        frame: bytes = state[0]
        if frame == b"recirculate":
            return EgressRequests(recirculate=Again(frame, 2, 4, ()))
        return b"old " + frame

    switch, _ = make(to_port_2, old_egress)
    switch.set_port_rate(2, GIGABIT, 0)
    for frame in (b"a", b"b", b"recirculate"):
        switch.receive(1, frame, 0)
    switch.replication.create_group(group_of((2, 0)))
    switch.install(scripted(to_port_2, lambda state, _: b"new " + state[0]))
    assert list(switch.replication.groups()) == []
    switch.receive(1, b"c", 0)
    assert switch.transmit(10**9) == [(2, b"old a"), (2, b"old b"), (2, b"new c")]
    assert dropped(switch) == {"pipeline_replaced": 1}


def test_a_removed_port_stays_in_the_totals() -> None:
    switch, _ = make(to_port_2)
    switch.set_port_rate(2, GIGABIT, 0)
    switch.receive(1, b"x", 0)
    switch.transmit(10**9)
    switch.receive(1, b"y", 10**9)
    switch.remove_port(2, 10**9)
    switch.remove_port(1, 10**9)
    stats = switch.stats()
    assert switch.ports == (3, 4)
    assert (stats.received, stats.sent, stats.dropped) == (2, 1, {"port_down": 1})
    assert stats.unaccounted == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: s.add_port(1), SwitchError, "port 1 exists"),
        (lambda s: s.add_port(-1), SwitchError, "port -1 is negative"),
        (lambda s: s.set_port_up(9, True, 0), SwitchError, "port 9 does not exist"),
        (lambda s: s.port_is_up(9), SwitchError, "port 9 does not exist"),
        (lambda s: s.set_port_rate(9, 1, 0), SwitchError, "port 9 does not exist"),
        (lambda s: s.set_queue_depth(9, depth_packets=1), SwitchError, "port 9 does not exist"),
        (lambda s: s.set_port_rate(1, 0, 0), TrafficManagerError, "0 bit/s"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, error: type[Exception], words: str) -> None:
    switch, _ = make(to_port_2)
    with pytest.raises(error, match=words):
        call(switch)


# -- conservation --------------------------------------------------------------------------


def everything(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
    """A program that does with a packet what its first byte says."""
    what, to = frame[0] % 8, 1 + frame[1] % 5  # port 5 does not exist
    priority = frame[2] % 3
    length = len(frame)
    if what == 0:
        return None
    if what == 1:
        return 511, priority, 0, length, (frame,), None
    if what == 2:
        return to, priority, 1 + frame[3] % 3, length, (frame,), None
    requests = None
    if what == 3:
        requests = IngressRequests(clone=Clone(frame[3] % 3, priority, length, (frame,)))
    elif what == 4:
        requests = IngressRequests(resubmit=Again(frame[1:] + frame[:1], port, 6, ()))
    elif what == 5 and frame[3] % 16 == 0:
        raise RuntimeError("program error")
    return to, priority, 0, length, (frame,), requests


def everything_leaves(state: State, leaving: Leaving) -> EgressResult:
    frame: bytes = state[0]
    what = frame[3] % 8
    if what == 0:
        return None
    if what == 1:
        return EgressRequests(frame=frame, clone=Clone(1, frame[2] % 3, 4, (frame[1:] + b"\7",)))
    if what == 2:
        return EgressRequests(recirculate=Again(frame[2:] + frame[:2], leaving.port, 4, ()))
    return frame + bytes(frame[1] % 50)


FRAMES = st.binary(min_size=5, max_size=12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), st.integers(1, 4), FRAMES),
        st.tuples(
            st.just("rate"), st.integers(1, 4), st.sampled_from([None, 10**6, 10**9, 7 * 10**7])
        ),
        st.tuples(st.just("packets"), st.integers(1, 4), st.integers(0, 4)),
        st.tuples(st.just("bytes"), st.integers(1, 4), st.integers(0, 40)),
        st.tuples(st.just("up"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("load"), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50_000), st.booleans()), max_size=80), STEPS)
def test_nothing_is_ever_lost_without_a_name(
    pauses: list[tuple[int, bool]], steps: list[tuple[str, int, Any]]
) -> None:
    switch, _ = make(everything, everything_leaves, priority_queues=2, max_passes=4, max_copies=20)
    switch.replication.create_session(CloneSession(1, (Replica(1), Replica(4, 3))))
    switch.replication.create_session(
        CloneSession(2, (Replica(5), Replica(2)), packet_length_bytes=5)
    )
    switch.replication.create_group(group_of((1, 0), (2, 0), (3, 1)))
    switch.replication.create_group(MulticastGroup(2))
    now_ns, arrived = 0, 0
    taken: list[tuple[int, bytes]] = []
    for index, (action, port, value) in enumerate(steps):
        pause_ns, poll = pauses[index] if index < len(pauses) else (0, False)
        now_ns += pause_ns
        if action == "receive":
            switch.receive(port, value, now_ns)
            arrived += 1
        elif action == "rate":
            switch.set_port_rate(port, value, now_ns)
        elif action == "packets":
            switch.set_queue_depth(port, depth_packets=value)
        elif action == "bytes":
            switch.set_queue_depth(port, 0, depth_bytes=value)
        elif action == "up":
            switch.set_port_up(port, value, now_ns)
        else:
            switch.install(scripted(everything, everything_leaves))
        if poll:
            taken += switch.transmit(now_ns)
        stats = switch.stats()
        assert stats.unaccounted == 0
        assert stats.received == arrived
        assert stats.queued == sum(each.queued for each in stats.ports.values())
    while (timer_ns := switch.next_timer()) is not None:
        assert timer_ns >= now_ns
        now_ns = timer_ns
        taken += switch.transmit(now_ns)
    taken += switch.transmit(now_ns)
    stats = switch.stats()
    assert (stats.queued, stats.unaccounted) == (0, 0)
    assert stats.sent == len(taken)
    assert sum(each.tx_bytes for each in stats.ports.values()) == sum(
        len(frame) for _, frame in taken
    )


def test_pipeline_is_the_one_installed() -> None:
    pipeline: Pipeline = scripted(to_port_2)
    switch = Switch()
    assert switch.pipeline is None
    assert switch.install(pipeline) is pipeline is switch.pipeline
