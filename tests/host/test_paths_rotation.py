"""The rotation: whose turn it is, and what a mark costs."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.paths.rotation import Rotation, _first_of


def rotation(planes: int, evs_per_plane: int, seed: int = 0) -> Rotation:
    """EV number e of plane p is 100 p + e."""
    made = Rotation(
        [[100 * plane + ev for ev in range(evs_per_plane)] for plane in range(planes)],
        random.Random(seed),
    )
    for plane in range(planes):
        made.changed(plane, True)
    return made


def select(turns: Rotation, room: int) -> int:
    ev = turns.select(room)
    assert ev is not None
    return ev


def take(turns: Rotation, count: int, room: int) -> list[int]:
    return [select(turns, room) for _ in range(count)]


@pytest.mark.parametrize(("planes", "evs"), [(1, 1), (1, 7), (2, 1), (8, 4), (8, 32), (5, 3)])
def test_each_ev_has_one_turn_each_time_round(planes: int, evs: int) -> None:
    turns = rotation(planes, evs)
    everything = Counter(ev for ring in turns.rings for ev in ring.order)
    for _ in range(5):
        assert Counter(take(turns, planes * evs, (1 << planes) - 1)) == everything


def test_each_row_has_each_plane_once_in_changing_order() -> None:
    turns = rotation(8, 4)
    rows = [tuple(ev // 100 for ev in take(turns, 8, 255)) for _ in range(100)]
    assert all(sorted(row) == list(range(8)) for row in rows)
    assert len(set(rows)) > 30


def test_tables_tell_which_plane_stands_first() -> None:
    order = [3, 0, 7, 1, 2, 6, 5, 4]
    table = _first_of(order)
    for mask in range(1, 256):
        assert table[mask] == next(plane for plane in order if mask >> plane & 1)


def test_the_order_of_a_plane_s_evs_is_shuffled_anew() -> None:
    turns = rotation(1, 32)
    rounds = [tuple(take(turns, 32, 1)) for _ in range(20)]
    assert len(set(rounds)) == 20
    few = rotation(1, 4)
    assert len({tuple(take(few, 4, 1)) for _ in range(200)}) > 10


def test_queue_pairs_have_orders_of_their_own() -> None:
    orders = {tuple(take(rotation(8, 8, seed), 64, 255)) for seed in range(20)}
    assert len(orders) == 20
    assert take(rotation(8, 8, 7), 64, 255) == take(rotation(8, 8, 7), 64, 255)


def test_without_room_there_is_no_ev() -> None:
    turns = rotation(4, 2)
    assert turns.select(0) is None
    assert turns.select(0b1_0000) is None
    turns.usable = 0b0111
    assert turns.select(0b1000) is None


@given(rooms=st.lists(st.integers(1, 255), min_size=1, max_size=300), seed=st.integers(0, 999))
def test_a_plane_without_room_keeps_the_turns_of_its_evs(rooms: list[int], seed: int) -> None:
    """However rooms come and go, no EV of a plane has two turns more than another."""
    turns = rotation(8, 4, seed)
    taken: Counter[int] = Counter()
    for room in rooms:
        ev = select(turns, room)
        assert room >> ev // 100 & 1
        taken[ev] += 1
    for plane in range(8):
        counts = [taken[100 * plane + ev] for ev in range(4)]
        assert max(counts) - min(counts) <= 1


def test_when_ports_are_always_busy_but_one_planes_share_equally() -> None:
    """As at full rate: whichever port is free next takes the packet."""
    turns = rotation(8, 16)
    taken = Counter(select(turns, 1 << number % 8) // 100 for number in range(8000))
    assert set(taken.values()) == {1000}


# --- SKIP ---


def mark(turns: Rotation, ev: int) -> None:
    assert turns.mark(ev // 100, ev)


def test_one_mark_costs_one_turn() -> None:
    turns = rotation(2, 8)
    take(turns, 16 * 4, 3)
    mark(turns, 105)
    mark(turns, 105)  # changes nothing
    # One time round of a plane is 8 turns of its EVs, one of which is passed over
    taken = Counter(take(turns, 15, 3))
    assert taken[105] == 0
    assert turns.passed_over == 1
    assert turns.rings[1].skip == 0
    rest = Counter(take(turns, 16, 3))
    assert rest[105] == 1


def test_an_ev_that_is_passed_over_is_good_at_once() -> None:
    turns = rotation(1, 4)
    first = turns.rings[0].order[0]
    mark(turns, first)
    second = turns.rings[0].order[1]
    assert turns.select(1) == second
    assert turns.rings[0].skip == 0


def test_at_most_one_ev_returns_per_packet() -> None:
    turns = rotation(4, 4)
    for ring in turns.rings:
        for ev in list(ring.order):
            mark(turns, ev)
    for packet in range(1, 13):
        select(turns, 15)
        assert sum(ring.skip.bit_count() for ring in turns.rings) == 16 - packet


def test_when_no_other_is_good_the_one_just_restored_is_taken() -> None:
    turns = rotation(1, 3)
    first = turns.rings[0].order[0]
    for ev in list(turns.rings[0].order):
        mark(turns, ev)
    assert turns.select(1) == first
    lone = rotation(1, 1)
    mark(lone, 0)
    assert lone.select(1) == 0
    assert lone.rings[0].skip == 0


def test_another_plane_with_room_is_preferred_to_the_one_just_restored() -> None:
    turns = rotation(2, 1)
    mark(turns, 0)
    assert take(turns, 1, 3) == [100]
    mark(turns, 0)
    assert take(turns, 1, 1) == [0]


def test_a_second_marked_ev_is_deferred_not_restored() -> None:
    turns = rotation(1, 4)
    first, second, third, fourth = turns.rings[0].order
    mark(turns, first)
    mark(turns, second)
    # first is restored, second changes places with third
    assert turns.select(1) == third
    assert turns.rings[0].skipped() == [second]
    # now second is met first: it is restored in its turn
    assert turns.select(1) == fourth
    assert turns.rings[0].skipped() == []
    assert turns.passed_over == 2


def literal_scan(order: list[int], skip: set[int], cursor: int) -> tuple[int, int]:
    """The specification's words, for one plane: (EV, new cursor)."""
    restored = False
    while True:
        ev = order[cursor]
        cursor = (cursor + 1) % len(order)
        if ev not in skip:
            return ev, cursor
        if not restored:
            skip.discard(ev)
            restored = True


@given(st.data(), st.integers(2, 12), st.integers(0, 999))
def test_sparse_marks_go_as_the_specification_s_scan(
    data: st.DataObject, size: int, seed: int
) -> None:
    """With one plane, within a time round, and never two marked EVs side by side."""
    turns = rotation(1, size, seed)
    order = list(turns.rings[0].order)
    cursor, skip = 0, set[int]()
    for _ in range(size):
        slot = data.draw(st.integers(0, size - 1))
        near = {order[slot - 1], order[slot], order[(slot + 1) % size]}
        if not near & skip:
            skip.add(order[slot])
            mark(turns, order[slot])
        if cursor + 2 >= size:
            break  # the next time round is in another order
        expected, cursor = literal_scan(order, skip, cursor)
        assert turns.select(1) == expected
        assert set(turns.rings[0].skipped()) == skip


@settings(max_examples=200)
@given(
    planes=st.integers(1, 8),
    evs=st.integers(1, 6),
    seed=st.integers(0, 999),
    marks=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=60),
    rooms=st.lists(st.integers(1, 255), min_size=1, max_size=20),
)
def test_one_mark_one_turn_whatever_comes(
    planes: int, evs: int, seed: int, marks: list[tuple[int, int]], rooms: list[int]
) -> None:
    """Every EV that is marked passes over one turn exactly, and is used again."""
    turns = rotation(planes, evs, seed)
    all_planes = (1 << planes) - 1
    effective = 0
    for number, (plane, ev) in enumerate(marks):
        plane, ev = plane % planes, ev % evs
        ring = turns.rings[plane]
        name = 100 * plane + ev
        was_marked = name in ring.skipped()
        mark(turns, name)
        effective += not was_marked
        room = rooms[number % len(rooms)] & all_planes
        if room:
            before = {marked for ring in turns.rings for marked in ring.skipped()}
            taken = select(turns, room)
            after = {marked for ring in turns.rings for marked in ring.skipped()}
            assert room >> taken // 100 & 1
            assert taken not in after
            # A marked EV was taken only if there was no other
            assert taken not in before or all(
                100 * other + some in before
                for other in range(planes)
                if room >> other & 1
                for some in range(evs)
            )
            assert after <= before and len(before - after) <= 1
    # Once there are no more marks all come back, one turn each
    everything = planes * evs
    take(turns, 4 * everything, all_planes)
    assert turns.passed_over == effective
    assert all(ring.skip == 0 for ring in turns.rings) and turns.all_skipped == 0
    taken_again = Counter(take(turns, 2 * everything, all_planes))
    assert len(taken_again) == everything


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "replace", "mark", "take"]), st.integers(0, 99)
        ),
        max_size=80,
    ),
    st.integers(0, 99),
)
def test_rings_stay_whole_when_evs_come_and_go(steps: list[tuple[str, int]], seed: int) -> None:
    turns = rotation(2, 3, seed)
    members = {plane: {100 * plane + ev for ev in range(3)} for plane in (0, 1)}
    marked: set[int] = set()
    fresh = 1000
    for what, number in steps:
        plane = number % 2
        ring = turns.rings[plane]
        there = sorted(members[plane])
        ev = there[number % len(there)] if there else None
        if what == "add":
            fresh += 1
            ring.add(fresh)
            members[plane].add(fresh)
        elif what == "take":
            turns.select(3)
            marked = {other for some in turns.rings for other in some.skipped()}
        elif ev is not None:
            if what == "mark":
                assert turns.mark(plane, ev)
                marked.add(ev)
            elif what == "remove":
                ring.remove(ev)
                members[plane].discard(ev)
                marked.discard(ev)
            else:
                fresh += 1
                ring.replace(ev, fresh)
                members[plane] ^= {ev, fresh}
                marked.discard(ev)
        turns.changed(plane, True)
        assert {other for some in turns.rings for other in some.skipped()} == marked
        for number_, ring in enumerate(turns.rings):
            assert set(ring.order) == members[number_] == set(ring.slot_of)
            assert all(ring.order[slot] == ev for ev, slot in ring.slot_of.items())
            assert 0 <= ring.cursor < max(len(ring.order), 1)
            whole = bool(ring.order) and len(ring.skipped()) == len(ring.order)
            assert not ring.order or bool(turns.all_skipped >> number_ & 1) == whole
        assert turns.usable == sum(1 << plane for plane in members if members[plane])
