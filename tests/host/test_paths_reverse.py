"""The reverse EV set: one known-good EV a plane for control packets."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.paths.reverse import ReverseEvSet
from host.paths.universe import plan_universe
from topologies.addressing import encode_ev

RTT = 5000


def reverse(planes: int = 4, uplinks: int = 3) -> ReverseEvSet:
    return ReverseEvSet(plan_universe(planes, uplinks), rng=random.Random(2), probe_interval_ns=RTT)


def answer(evs: ReverseEvSet, room: int) -> int:
    """A responder's answer leaves."""
    ev = evs.select(room)
    assert ev is not None
    evs.answers_on(evs.plane_of(ev))
    return ev


def evs_in_use(evs: ReverseEvSet, planes: int = 4) -> list[int]:
    chosen = [evs.select(1 << plane) for plane in range(planes)]
    return [ev for ev in chosen if ev is not None]


def test_planes_take_turns_and_each_has_one_ev() -> None:
    evs = reverse()
    taken = Counter(evs.select(15) for _ in range(40))
    assert len(taken) == 4 and set(taken.values()) == {10}
    assert sorted(evs.plane_of(ev) for ev in taken if ev is not None) == [0, 1, 2, 3]
    assert evs.plane_of(evs.select(0b0100) or 0) == 2
    assert evs.select(0) is None
    assert evs.select(1 << 4) is None


def test_a_data_sack_makes_its_ev_the_plane_s() -> None:
    evs = reverse()
    for uplink in (0, 2, 1):
        evs.refresh(encode_ev(3, uplink), 10)
        assert evs.select(0b1000) == encode_ev(3, uplink)
    evs.refresh(0xFFFF_FFFF, 10)
    evs.refresh(encode_ev(4, 0), 10)
    assert evs_in_use(evs)[3] == encode_ev(3, 1)


def test_until_an_answer_tells_the_ev_of_incoming_data_stands_in() -> None:
    evs = reverse()
    for uplink in (0, 2, 1):
        evs.heard(encode_ev(3, uplink))
        assert evs.select(0b1000) == encode_ev(3, uplink)
    evs.heard(0xFFFF_FFFF)
    evs.refresh(encode_ev(3, 0), 10)
    evs.heard(encode_ev(3, 2))
    assert evs.select(0b1000) == encode_ev(3, 0)


def test_data_that_comes_in_replaces_an_ev_in_doubt() -> None:
    evs = reverse(planes=1)
    evs.refresh(encode_ev(0, 0), 10)
    answer(evs, 1)
    probed = evs.next_probe(10 + RTT)
    assert probed == encode_ev(0, 0)
    evs.on_probe_timeout(probed, 10 + 2 * RTT)
    for uplink in (0, 1, 2):
        evs.heard(encode_ev(0, uplink))
        assert evs.select(1) == encode_ev(0, uplink)


def test_without_answers_nothing_is_probed() -> None:
    """Endpoint operations do not count: their responses would draw probes for ever."""
    evs = reverse()
    evs.select(15)
    assert evs.next_timer() is None
    assert evs.next_probe(10**9) is None


def test_when_only_receiving_one_probe_goes_out_per_rtt() -> None:
    evs = reverse()
    probed = []
    for now_ns in range(0, 20 * RTT, 100):
        answer(evs, 15)
        while (ev := evs.next_probe(now_ns)) is not None:
            probed.append((now_ns, ev))
            evs.refresh(ev, now_ns + 50)
    assert [now_ns for now_ns, _ in probed] == [number * RTT for number in range(20)]
    # and the planes take turns
    assert set(Counter(evs.plane_of(ev) for _, ev in probed).values()) == {5}


def test_when_data_sacks_tell_nothing_is_probed() -> None:
    evs = reverse(planes=1)
    for now_ns in range(0, 20 * RTT, RTT // 2):
        answer(evs, 1)
        evs.refresh(encode_ev(0, 1), now_ns)
        assert evs.next_probe(now_ns) is None
        assert evs.next_timer() == now_ns + RTT


def test_when_control_stops_so_does_probing() -> None:
    evs = reverse()
    for _ in range(4):
        answer(evs, 15)
    now_ns, probes = 0, 0
    while (due_ns := evs.next_timer()) is not None:
        now_ns = max(now_ns + 1, due_ns)
        ev = evs.next_probe(now_ns)
        if ev is not None:
            probes += 1
            evs.refresh(ev, now_ns + 100)
    assert probes == 4
    assert now_ns <= 4 * RTT


def test_an_ev_that_does_not_answer_gives_way_to_another_of_its_plane() -> None:
    evs = reverse(planes=2)
    first = answer(evs, 0b01)
    assert evs.next_probe(0) == first
    evs.on_probe_timeout(first, 100)
    assert not evs.known_good(0)
    # The plane is avoided while another has room, and used where there is no other
    assert {evs.plane_of(evs.select(0b11) or 0) for _ in range(4)} == {1}
    second = evs.select(0b01)
    assert second is not None and second != first and evs.plane_of(second) == 0
    tried = {first}
    now_ns = 0
    for _ in range(6):
        answer(evs, 0b01)
        now_ns += RTT
        ev = evs.next_probe(now_ns)
        assert ev is not None
        evs.on_probe_timeout(ev, now_ns + 100)
        if evs.plane_of(ev) == 0:
            tried.add(ev)
    assert tried == {encode_ev(0, uplink) for uplink in range(3)}
    evs.refresh(encode_ev(0, 2), now_ns)
    assert evs.known_good(0)


def test_a_probe_that_is_late_does_not_take_a_good_ev_out() -> None:
    evs = reverse(planes=1)
    answer(evs, 1)
    ev = evs.next_probe(0)
    assert ev is not None
    other = next(candidate for u in range(3) if (candidate := encode_ev(0, u)) != ev)
    evs.refresh(other, 50)
    evs.on_probe_timeout(ev, 100)
    assert evs.select(1) == other and evs.known_good(0)


def test_a_plane_with_one_ev_keeps_it() -> None:
    evs = reverse(planes=2, uplinks=1)
    answer(evs, 0b01)
    assert evs.next_probe(0) == 0
    evs.on_probe_timeout(0, 10)
    assert evs.select(0b01) == 0
    assert not evs.known_good(0)


def test_planes_that_are_down_are_not_used() -> None:
    evs = reverse()
    evs.set_plane_up(1, False, 0)
    assert {evs.plane_of(evs.select(15) or 0) for _ in range(9)} == {0, 2, 3}
    assert evs.select(0b0010) is None
    evs.set_plane_up(1, True, 5)
    assert evs.plane_of(evs.select(0b0010) or 0) == 1
    evs.set_plane_up(6, True, 5)
    assert evs.select(1 << 6) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["select", "refresh", "down", "up", "probe", "lost"]),
            st.integers(0, 11),
        ),
        max_size=80,
    )
)
def test_whatever_happens_each_plane_that_is_up_has_an_ev(steps: list[tuple[str, int]]) -> None:
    evs = reverse()
    up, out, now_ns = 15, list[int](), 0
    for what, number in steps:
        now_ns += 700
        plane = number % 4
        if what == "select":
            ev = evs.select(number)
            assert (ev is None) == (not number & up & 15)
            if ev is not None:
                assert number & up & 1 << evs.plane_of(ev)
                evs.answers_on(evs.plane_of(ev))
        elif what == "refresh":
            evs.refresh(encode_ev(plane, number // 4), now_ns)
        elif what == "probe":
            ev = evs.next_probe(now_ns)
            if ev is not None:
                assert up >> evs.plane_of(ev) & 1
                out.append(ev)
        elif what == "lost" and out:
            evs.on_probe_timeout(out.pop(), now_ns)
        else:
            up = up | 1 << plane if what == "up" else up & ~(1 << plane) if what == "down" else up
            evs.set_plane_up(plane, bool(up >> plane & 1), now_ns)
    for plane in range(4):
        ev = evs.select(1 << plane)
        assert (ev is None) == (not up >> plane & 1)
        assert ev is None or evs.plane_of(ev) == plane


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="probe_interval_ns: 0 does not fit"):
        ReverseEvSet(plan_universe(1, 1), rng=random.Random(0), probe_interval_ns=0)
