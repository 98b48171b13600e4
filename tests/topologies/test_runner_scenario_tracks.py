"""Readings at odd moments, and what they say about equal intervals."""

from __future__ import annotations

from topologies.runner.scenario.tracks import CounterTrack, Totals, Track, total


def test_between_two_readings_a_value_changes_evenly() -> None:
    track = Track()
    for now_ns, value in ((100, 10), (300, 30), (350, 130)):
        track.add(now_ns, value)
    assert track.series([0, 100, 200, 300, 325, 350, 900]) == [10, 10, 20, 30, 80, 130, 130]
    assert track.last == 130


def test_a_reading_that_comes_late_is_left_out() -> None:
    track = Track()
    for now_ns, value in ((0, 0), (100, 0), (50, 0), (200, 20)):
        track.add(now_ns, value)
    assert track.series([50, 100, 150]) == [0, 0, 10]


def test_without_readings_there_is_nothing() -> None:
    assert Track().series([0, 1]) == [0, 0]
    assert Track().rate(1000) == 0.0
    assert total([], [0, 1]) == [0, 0]


def test_the_rate_is_of_the_last_readings_only() -> None:
    track = Track()
    for second, value in enumerate((0, 1000, 1500, 2000)):
        track.add(second * 10**9, value)
    assert track.rate(2 * 10**9) == 500.0
    assert track.rate(1) == 500.0
    assert track.rate(10**11) == 2000 / 3


def test_what_was_counted_before_the_first_reading_does_not_count() -> None:
    track = CounterTrack()
    for now_ns, raw in ((0, 500), (10, 520)):
        track.count(now_ns, raw)
    assert track.series([0, 10]) == [0, 20]


def test_a_process_that_is_started_anew_counts_from_zero() -> None:
    track = CounterTrack()
    track.count(0, 500, life=1)
    track.count(10, 520, life=1)
    # Its first reading is more than the old one's last: only the process tells them apart
    track.count(20, 600, life=2)
    track.count(30, 610, life=2)
    assert track.series([10, 20, 30]) == [20, 620, 630]


def test_a_counter_never_runs_backwards() -> None:
    track = CounterTrack()
    for now_ns, raw in ((0, 0), (10, 50), (20, 30), (30, 40)):
        track.count(now_ns, raw)
    assert track.series([0, 10, 20, 30]) == [0, 50, 50, 60]


def test_totals_by_name_go_on_over_restarts() -> None:
    totals = Totals()
    totals.count({"full": 7, "down": 1}, life=1)
    totals.count({"full": 9, "down": 1}, life=1)
    totals.count({"full": 3, "new": 2}, life=2)
    assert totals.counted == {"full": 5, "new": 2}


def test_tracks_add_up_at_the_same_moments() -> None:
    one, other = Track(), Track()
    one.add(0, 0)
    one.add(100, 100)
    other.add(50, 8)
    assert total([one, other], [0, 50, 100]) == [8, 58, 108]
