"""EV sets: active and backup, replacement, the floor, planes, events, administration."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from host.paths.ev_set import MAX_EVENTS, EvSet
from host.paths.probing import ProbeTiming
from host.paths.states import EvState
from host.paths.universe import EvUniverse, plan_universe
from host.wire.constants import NackReason, SackM
from topologies.addressing import encode_ev

TIMING = ProbeTiming(interval_ns=1000, gap_ns=10, answers=3)


def ev_set(planes: int = 8, uplinks: int = 32, seed: int = 1, **knobs: Any) -> EvSet:
    return EvSet(
        plan_universe(planes, uplinks),
        rng=random.Random(seed),
        **{"timing": TIMING, **knobs},
    )


def lose(evs: EvSet, ev: int, now_ns: int = 10) -> None:
    evs.on_timeout(ev, now_ns - 5, now_ns)


class TestSets:
    @pytest.mark.parametrize(
        ("planes", "uplinks", "wanted", "per_plane"),
        [
            (8, 32, 128, 16),
            (8, 32, 256, 32),
            (8, 256, 256, 32),
            (8, 4, 128, 4),
            (5, 256, 256, 51),
            (8, 1, 128, 1),
            (8, 2, 8, 1),
            (8, 2, 3, 1),
        ],
    )
    def test_are_equal_per_plane(
        self, planes: int, uplinks: int, wanted: int, per_plane: int
    ) -> None:
        evs = ev_set(planes, uplinks, active_evs=wanted)
        for plane in range(planes):
            active, backup = evs.active(plane), evs.backup(plane)
            assert len(active) == per_plane
            assert len(backup) == uplinks - per_plane
            assert {evs.plane_of(ev) for ev in active + backup} == {plane}
        assert len({*evs.active(), *evs.backup()}) == planes * uplinks
        assert evs.usable_planes() == (1 << planes) - 1

    def test_are_drawn_at_random(self) -> None:
        drawn = {tuple(sorted(ev_set(seed=seed).active(0))) for seed in range(20)}
        assert len(drawn) == 20
        assert ev_set(seed=5).active() == ev_set(seed=5).active()

    def test_are_equal_where_the_planes_have_not_the_same_number_of_evs(self) -> None:
        universe = EvUniverse(3, [(ev, ev % 2) for ev in range(7)])  # 4 and 3, plane 2 has none
        evs = EvSet(universe, rng=random.Random(1), timing=TIMING)
        assert [len(evs.active(plane)) for plane in range(3)] == [3, 3, 0]
        assert [len(evs.backup(plane)) for plane in range(3)] == [1, 0, 0]
        assert evs.usable_planes() == 0b011

    def test_the_backup_set_can_be_limited(self) -> None:
        evs = ev_set(active_evs=64, backup_evs=16)
        assert {len(evs.backup(plane)) for plane in range(8)} == {2}
        (other, *_) = {*evs.universe.evs} - {*evs.active(), *evs.backup()}
        evs.on_sack(other, SackM.ALWAYS_SKIP, 0)
        evs.deny([other], 0)
        assert evs.in_state(EvState.ASSUMED_BAD) == evs.in_state(EvState.DENIED) == []
        with pytest.raises(KeyError):
            evs.state(other)

    def test_a_denylist_leaves_evs_out_from_the_start(self) -> None:
        denied = [encode_ev(2, uplink) for uplink in range(30)]
        evs = ev_set(active_evs=128, denied=denied)
        assert sorted(evs.active(2)) == [encode_ev(2, 30), encode_ev(2, 31)]
        assert evs.backup(2) == []
        assert len(evs.active(3)) == 16
        assert set(evs.in_state(EvState.DENIED)) == set(denied)
        assert not evs.events
        assert evs.next_timer() is None

    @pytest.mark.parametrize(
        ("knobs", "message"),
        [
            ({"active_evs": 0}, "active_evs: 0"),
            ({"ev_min_active": 129}, r"ev_min_active: 129 does not fit: it must be 0..128"),
            ({"ev_min_active": -1}, "ev_min_active: -1"),
        ],
    )
    def test_wrong_sizes_are_named(self, knobs: dict[str, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ev_set(**knobs)


class TestReplacement:
    def test_a_lost_ev_is_out_at_once_and_one_of_its_plane_in(self) -> None:
        evs = ev_set(8, 2, active_evs=8)
        (ev,), (twin,) = evs.active(3), evs.backup(3)
        lose(evs, ev)
        assert evs.active(3) == [twin]
        assert evs.state(ev) is EvState.ASSUMED_BAD
        (event,) = evs.events
        assert (event.old, event.new, event.cause) == ("GOOD", "ASSUMED_BAD", "timeout")
        assert (event.ev, event.replaced_by, event.now_ns) == (ev, twin, 10)
        taken = Counter(evs.select(255) for _ in range(80))
        assert ev not in taken and taken[twin] == 10

    def test_a_replacement_is_good_even_if_the_other_was_in_skip(self) -> None:
        evs = ev_set(1, 4, active_evs=2)
        ev = evs.active()[0]
        evs.on_sack(ev, SackM.SKIP_ONCE, 0)
        lose(evs, ev)
        assert evs.in_state(EvState.SKIP) == []

    def test_the_plane_of_the_replacement_is_the_same_even_if_others_have_more(self) -> None:
        evs = ev_set(2, 4, active_evs=4, ev_min_active=0)
        for ev in [*evs.active(0), *evs.backup(0)][:3]:
            lose(evs, ev)
        assert len(evs.active(0)) == 1 and evs.backup(0) == []
        assert len(evs.active(1)) == 2 and len(evs.backup(1)) == 2

    def test_one_that_comes_back_fills_the_gap_in_its_plane(self) -> None:
        evs = ev_set(2, 2, ev_min_active=0)
        ev = evs.active(0)[0]
        lose(evs, ev)
        assert len(evs.active(0)) == 1
        evs.allow([ev], 20)
        assert sorted(evs.active(0)) == [encode_ev(0, 0), encode_ev(0, 1)]
        assert evs.events[-1].new == "GOOD"

    def test_one_that_comes_back_to_a_full_plane_is_a_backup_last_in_line(self) -> None:
        evs = ev_set(1, 4, active_evs=2)
        ev = evs.active()[0]
        lose(evs, ev)
        evs.allow([ev], 20)
        assert len(evs.active()) == 2
        assert evs.backup()[-1] == ev

    def test_a_backup_ev_can_turn_bad_too(self) -> None:
        """Something late is heard of an EV that has just left the active set and come back."""
        evs = ev_set(1, 4, active_evs=2)
        ev = evs.backup()[0]
        evs.on_sack(ev, SackM.SKIP_ONCE, 1)
        assert evs.state(ev) is EvState.GOOD
        evs.on_sack(ev, SackM.ALWAYS_SKIP, 1)
        assert evs.state(ev) is EvState.ASSUMED_BAD
        assert ev not in evs.backup() and len(evs.active()) == 2


class TestFloor:
    def test_below_it_evs_are_not_demoted(self) -> None:
        evs = ev_set(4, 4, ev_min_active=6)
        for ev in evs.active():
            lose(evs, ev)
        assert len(evs.active()) == 6
        assert evs.counters["kept by ev_min_active"] == 6
        assert len(evs.events) == 10

    def test_it_is_a_quarter_by_default(self) -> None:
        evs = ev_set(8, 4)
        for ev in evs.active():
            lose(evs, ev)
        assert len(evs.active()) == 8

    def test_with_a_replacement_there_is_no_floor(self) -> None:
        evs = ev_set(1, 8, active_evs=4, ev_min_active=4)
        for ev in evs.active():
            lose(evs, ev)
        assert len(evs.active()) == 4 and evs.backup() == []
        lose(evs, evs.active()[0])
        assert len(evs.active()) == 4

    def test_the_last_one_on_planes_that_are_up_stays(self) -> None:
        evs = ev_set(2, 2, ev_min_active=0)
        evs.set_plane_up(1, False, 0)
        for ev in evs.active(0):
            lose(evs, ev)
        assert len(evs.active(0)) == 1
        assert evs.usable_planes() == 0b01

    def test_a_whole_plane_may_go(self) -> None:
        """A T0 that swallows packets takes all EVs of its plane."""
        evs = ev_set(8, 1)
        lose(evs, encode_ev(5, 0))
        assert evs.active(5) == []
        assert evs.usable_planes() == 255 - 32
        assert evs.select(1 << 5) is None

    def test_an_administrator_may_go_below(self) -> None:
        evs = ev_set(2, 2, ev_min_active=4)
        evs.deny(evs.active(), 0)
        assert evs.active() == [] and evs.usable_planes() == 0
        assert evs.select(3) is None
        evs.assume_bad([0], 0)
        assert evs.state(0) is EvState.DENIED


def at_the_floor(planes: int = 2, uplinks: int = 1, **knobs: Any) -> tuple[EvSet, int, int]:
    """An EV set, the first EV that turned bad, and the first one that the floor kept, at 10 ns."""
    evs = ev_set(planes, uplinks, **knobs)
    out = kept = -1
    for ev in evs.active():
        lose(evs, ev)
        if ev not in evs.active():
            out = ev if out < 0 else out
        elif kept < 0:
            kept = ev
    assert out >= 0 and kept >= 0
    return evs, out, kept


def probe(evs: EvSet, ev: int, now_ns: int) -> None:
    """The next probe is one of an EV, and answered."""
    assert evs.next_probe(now_ns) == ev
    evs.on_probe_answer(ev, now_ns + 5)


class TestFloorWithOneThatAnswers:
    def test_it_takes_the_place_of_one_that_loses_packets_again(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        assert evs.active() == [kept]
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [out] and evs.in_state(EvState.ASSUMED_BAD) == [kept]
        assert evs.usable_planes() == 1 << evs.plane_of(out)
        assert [(event.ev, event.old, event.new, event.cause) for event in evs.events[1:]] == [
            (out, "ASSUMED_BAD", "GOOD", "probe answered, one in use is silent"),
            (kept, "GOOD", "ASSUMED_BAD", "timeout"),
        ]
        # And back again
        evs.on_timeout(out, 41, 50)
        probe(evs, kept, 60)
        evs.on_timeout(out, 50, 70)
        assert evs.active() == [kept]

    def test_not_for_packets_that_were_on_their_way_with_the_first(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        evs.on_timeout(kept, 9, 40)
        assert evs.active() == [kept]

    def test_not_while_it_does_not_answer(self) -> None:
        evs, out, kept = at_the_floor()
        assert evs.next_probe(20) == out
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [kept]
        evs.on_probe_answer(out, 45)
        assert evs.active() == [kept]
        evs.on_timeout(kept, 40, 60)
        assert evs.active() == [out]

    def test_not_if_it_has_fallen_silent_too(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        assert evs.next_probe(35) == out
        evs.on_probe_timeout(out, 38)
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [kept]

    @pytest.mark.parametrize("m", [0, 1, 2, 3])
    def test_not_for_one_that_was_heard_of_since(self, m: int) -> None:
        evs, out, kept = at_the_floor(ev_min_active=1)
        probe(evs, out, 20)
        evs.on_sack(kept, m, 30)
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [kept]
        # From then on it must lose another, and the other one answer again
        evs.on_timeout(kept, 40, 60)
        assert evs.active() == [kept]
        probe(evs, out, 70)
        evs.on_timeout(kept, 60, 80)
        assert evs.active() == [out]

    def test_a_nack_is_heard_of_it_too(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        evs.on_nack(kept, NackReason.NO_RESOURCE, 30)
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [kept]

    def test_not_for_one_whose_plane_was_down_since(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        evs.set_plane_up(evs.plane_of(kept), False, 30)
        evs.set_plane_up(evs.plane_of(kept), True, 30)
        evs.on_timeout(kept, 30, 40)
        assert evs.active() == [kept]

    def test_one_on_a_plane_that_is_down_does_not(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        evs.set_plane_up(evs.plane_of(out), False, 30)
        evs.on_timeout(kept, 10, 40)
        assert evs.active() == [kept]

    def test_it_is_probed_at_once_however_long_it_was_silent(self) -> None:
        evs, out, kept = at_the_floor()
        now_ns = 0
        for _ in range(5):
            evs.on_sack(kept, SackM.NONE, now_ns)
            now_ns = evs.next_timer() or 0
            assert evs.next_probe(now_ns) == out
            evs.on_probe_timeout(out, now_ns + 10)
        assert evs.next_timer() == now_ns + 10 + 16 * TIMING.interval_ns
        lose(evs, kept, now_ns + 20)
        evs.on_timeout(kept, now_ns + 20, now_ns + 40)
        assert evs.next_timer() == now_ns + 40

    def test_the_last_that_answered_is_taken_and_only_where_its_plane_has_room(self) -> None:
        evs = ev_set(2, 3, ev_min_active=4)
        first, second, good = evs.active(0)
        other = evs.active(1)
        for ev in (first, second, *other):
            lose(evs, ev)
        assert evs.in_state(EvState.ASSUMED_BAD) == [first, second]
        early, latest = sorted([first, second])
        probe(evs, early, 30)
        probe(evs, latest, 50)
        evs.on_timeout(other[0], 10, 70)
        assert evs.state(latest) is EvState.GOOD
        assert sorted(evs.active(0)) == sorted([good, latest])
        assert evs.in_state(EvState.ASSUMED_BAD)[-1] == other[0]
        assert len(evs.active()) == 4

    def test_one_of_a_plane_that_lacks_none_waits_for_its_answers(self) -> None:
        """It would be a backup, and could not stand in for an EV of another plane."""
        evs = ev_set(2, 2, active_evs=2, ev_min_active=2)
        twins = [evs.active(0)[0], evs.backup(0)[0]]
        lose(evs, twins[0])
        gone = evs.active(1)[0]
        lose(evs, gone)
        kept = evs.active(1)[0]
        lose(evs, kept)
        assert evs.active() == [twins[1], kept]
        probe(evs, twins[0], 20)
        evs.on_timeout(kept, 10, 30)
        assert evs.active() == [twins[1], kept]
        # One of its own plane does not wait
        probe(evs, gone, 40)
        evs.on_timeout(kept, 10, 50)
        assert evs.active() == [twins[1], gone]

    def test_administrators_end_it(self) -> None:
        evs, out, kept = at_the_floor()
        probe(evs, out, 20)
        evs.deny([kept], 25)
        evs.on_timeout(kept, 10, 30)
        assert evs.state(out) is EvState.ASSUMED_BAD
        assert evs.state(kept) is EvState.DENIED


class TestPlanes:
    def test_no_ev_of_a_plane_that_is_down_is_selected(self) -> None:
        evs = ev_set()
        evs.set_plane_up(2, False, 0)
        assert evs.usable_planes() == 255 - 4
        assert evs.select(4) is None
        assert 2 not in {
            evs.plane_of(ev) for _ in range(500) if (ev := evs.select(255)) is not None
        }
        evs.set_plane_up(2, True, 1)
        assert evs.plane_of(evs.select(4) or 0) == 2

    def test_states_outlive_it(self) -> None:
        evs = ev_set(2, 4)
        ev = evs.active(0)[0]
        evs.on_sack(ev, SackM.SKIP_ONCE, 0)
        evs.set_plane_up(0, False, 0)
        evs.set_plane_up(0, True, 5)
        assert evs.state(ev) is EvState.SKIP

    def test_a_timeout_on_a_plane_that_is_or_was_down_blames_no_ev(self) -> None:
        evs = ev_set(2, 4)
        ev = evs.active(0)[0]
        evs.set_plane_up(0, False, 100)
        evs.on_timeout(ev, 50, 150)
        evs.set_plane_up(0, True, 200)
        evs.on_timeout(ev, 90, 210)
        assert evs.state(ev) is EvState.GOOD
        evs.on_timeout(ev, 200, 300)
        assert evs.state(ev) is EvState.ASSUMED_BAD

    def test_a_timeout_of_a_packet_sent_before_the_ev_came_back_does_not_either(self) -> None:
        evs = ev_set(2, 4)
        ev = evs.active(0)[0]
        lose(evs, ev, 10)
        for now_ns in (2000, 2020, 2040):
            assert evs.next_probe(now_ns) == ev
            evs.on_probe_answer(ev, now_ns + 5)
        assert evs.state(ev) is EvState.GOOD
        evs.on_timeout(ev, 9, 2050)
        assert evs.state(ev) is EvState.GOOD
        evs.on_timeout(ev, 2046, 3000)
        assert evs.state(ev) is EvState.ASSUMED_BAD

    def test_planes_that_are_not_there_are_passed_over(self) -> None:
        evs = ev_set(2, 2)
        evs.set_plane_up(7, False, 0)
        evs.set_plane_up(-1, False, 0)
        assert evs.usable_planes() == 3


class TestFeedbackOfAnyKind:
    def test_evs_that_are_not_ours_are_passed_over(self) -> None:
        evs = ev_set(2, 2)
        for ev in (encode_ev(2, 0), encode_ev(0, 2), 0xFFFFFFFF):
            for m in range(4):
                evs.on_sack(ev, m, 0)
            for reason in NackReason:
                evs.on_nack(ev, reason, 0)
            evs.on_timeout(ev, 0, 1)
            evs.on_probe_answer(ev, 0)
            evs.on_probe_timeout(ev, 0)
            evs.deny([ev], 0)
            evs.allow([ev], 0)
        assert not evs.events and not evs.in_state(EvState.SKIP) and evs.marks == 0
        assert len(evs.active()) == 4

    def test_marks_are_counted_not_reported(self) -> None:
        evs = ev_set(2, 2)
        evs.on_sack(0, SackM.SKIP_ONCE, 0)
        evs.on_nack(encode_ev(1, 1), NackReason.TRIMMED, 0)
        assert evs.marks == 2
        assert not evs.events
        for _ in range(8):
            evs.select(3)
        assert evs.turns_passed_over == 2


class TestEvents:
    def test_only_the_states_asked_for_are_reported(self) -> None:
        evs = ev_set(2, 4, event_mask={EvState.ASSUMED_BAD})
        lose(evs, evs.active(0)[0])
        evs.allow(evs.in_state(EvState.ASSUMED_BAD), 20)
        evs.deny(evs.active(1)[:1], 30)
        assert [event.new for event in evs.events] == ["ASSUMED_BAD"]

    def test_the_ring_of_events_is_bounded_and_keeps_the_newest(self) -> None:
        evs = ev_set(1, 2, ev_min_active=0)
        for number in range(MAX_EVENTS):
            evs.deny([0], 2 * number)
            evs.allow([0], 2 * number + 1)
        assert len(evs.events) == MAX_EVENTS
        assert evs.events_dropped == MAX_EVENTS
        assert evs.events[-1].now_ns == 2 * MAX_EVENTS - 1


class AnyLife(RuleBasedStateMachine):
    """Anything that may happen to an EV set, in any order."""

    @initialize(
        planes=st.integers(1, 8),
        uplinks=st.integers(1, 6),
        active_evs=st.integers(1, 40),
        backup_evs=st.none() | st.integers(0, 20),
        share=st.floats(0, 1),
        seed=st.integers(0, 99),
    )
    def begin(
        self,
        planes: int,
        uplinks: int,
        active_evs: int,
        backup_evs: int | None,
        share: float,
        seed: int,
    ) -> None:
        self.planes = planes
        self.per_plane = min(max(active_evs // planes, 1), uplinks)
        self.floor = int(share * self.per_plane * planes)
        self.evs = ev_set(
            planes,
            uplinks,
            seed,
            active_evs=active_evs,
            backup_evs=backup_evs,
            ev_min_active=self.floor,
        )
        self.members = sorted([*self.evs.active(), *self.evs.backup()])
        self.up = (1 << planes) - 1
        self.now_ns = 0
        self.probes_out: list[int] = []
        self.last_probe_ns: int | None = None

    def ev(self, number: int) -> int:
        return self.members[number % len(self.members)]

    @rule(room=st.integers(0, 255), count=st.integers(1, 5))
    def send(self, room: int, count: int) -> None:
        for _ in range(count):
            ev = self.evs.select(room)
            usable = room & self.evs.usable_planes()
            assert (ev is None) == (not usable)
            if ev is not None:
                assert usable >> self.evs.plane_of(ev) & 1
                assert self.up >> self.evs.plane_of(ev) & 1
                assert ev in self.evs.active()
                assert self.evs.state(ev) is EvState.GOOD

    @rule(number=st.integers(0, 99), m=st.integers(0, 3))
    def sack(self, number: int, m: int) -> None:
        self.evs.on_sack(self.ev(number), m, self.now_ns)

    @rule(number=st.integers(0, 99), reason=st.sampled_from(NackReason))
    def nack(self, number: int, reason: NackReason) -> None:
        ev = self.ev(number)
        before = self.evs.state(ev)
        self.evs.on_nack(ev, reason, self.now_ns)
        if reason is not NackReason.TRIMMED:
            assert self.evs.state(ev) is before

    @rule(number=st.integers(0, 99), age_ns=st.integers(0, 3000))
    def timeout(self, number: int, age_ns: int) -> None:
        ev = self.ev(number)
        active = len(self.evs.active())
        backups = len(self.evs.backup(self.evs.plane_of(ev)))
        was_active = ev in self.evs.active()
        self.evs.on_timeout(ev, self.now_ns - age_ns, self.now_ns)
        if was_active and ev not in self.evs.active():
            assert self.evs.state(ev) is EvState.ASSUMED_BAD
            left = len(self.evs.active())
            # With a backup in its place, or one that answers probes, or while the floor lets
            assert left == active or (not backups and left == active - 1 >= self.floor)

    @rule(plane=st.integers(0, 7), up=st.booleans())
    def port(self, plane: int, up: bool) -> None:
        self.evs.set_plane_up(plane, up, self.now_ns)
        if plane < self.planes:
            self.up = self.up | 1 << plane if up else self.up & ~(1 << plane)

    @rule(numbers=st.lists(st.integers(0, 99), max_size=4), how=st.integers(0, 2))
    def administer(self, numbers: list[int], how: int) -> None:
        evs = [self.ev(number) for number in numbers]
        (self.evs.deny, self.evs.allow, self.evs.assume_bad)[how](evs, self.now_ns)
        if how == 1:
            assert all(self.evs.state(ev) in (EvState.GOOD, EvState.SKIP) for ev in evs)
        if how == 0:
            assert all(self.evs.state(ev) is EvState.DENIED for ev in evs)

    @rule(step_ns=st.integers(1, 5000))
    def wait(self, step_ns: int) -> None:
        self.now_ns += step_ns

    @rule()
    def probe(self) -> None:
        due_ns = self.evs.next_timer()
        ev = self.evs.next_probe(self.now_ns)
        if ev is None:
            return
        assert due_ns is not None and due_ns <= self.now_ns
        assert self.last_probe_ns is None or self.now_ns >= self.last_probe_ns + TIMING.gap_ns
        assert self.evs.state(ev) is EvState.ASSUMED_BAD
        assert self.up >> self.evs.plane_of(ev) & 1
        assert ev not in self.probes_out or self.evs.state(ev) is EvState.ASSUMED_BAD
        self.last_probe_ns = self.now_ns
        self.probes_out.append(ev)

    @precondition(lambda self: self.probes_out)
    @rule(answered=st.booleans())
    def probe_ends(self, answered: bool) -> None:
        ev = self.probes_out.pop(0)
        if answered:
            self.evs.on_probe_answer(ev, self.now_ns)
        else:
            before = self.evs.state(ev)
            self.evs.on_probe_timeout(ev, self.now_ns)
            assert self.evs.state(ev) is before

    @invariant()
    def every_ev_is_in_one_place(self) -> None:
        evs = self.evs
        places = (
            evs.active(),
            evs.backup(),
            evs.in_state(EvState.ASSUMED_BAD),
            evs.in_state(EvState.DENIED),
        )
        everywhere = [ev for place in places for ev in place]
        assert len(everywhere) == len(set(everywhere))
        assert sorted(everywhere) == self.members
        for ev in places[2]:
            assert evs.state(ev) is EvState.ASSUMED_BAD
        # A plane lacks active EVs only where it has no backups, and never has too many
        for plane in range(self.planes):
            size = len(evs.active(plane))
            assert size <= self.per_plane
            assert size == self.per_plane or not evs.backup(plane)
        usable = sum(1 << p for p in range(self.planes) if evs.active(p) and self.up >> p & 1)
        assert evs.usable_planes() == usable

    @invariant()
    def state_is_bounded(self) -> None:
        probes = self.evs._probes
        bad = len(self.evs.in_state(EvState.ASSUMED_BAD))
        assert len(probes) == bad
        kept = self.evs._kept
        assert set(kept) <= set(self.evs.active())
        assert all(self.up >> self.evs.plane_of(ev) & 1 for ev in kept)
        assert len(probes._heap) <= 2 * bad + 32
        assert len(probes._returned) <= len(self.members)
        assert len(self.evs.events) <= MAX_EVENTS


AnyLife.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyLife = AnyLife.TestCase
