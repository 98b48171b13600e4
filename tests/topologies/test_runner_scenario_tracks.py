"""Readings at odd moments, and what they say about equal intervals."""

from __future__ import annotations

from topologies.runner.scenario.tracks import MAX_SAMPLES, CounterTrack, Totals, Track, total


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


def test_a_long_run_takes_no_more_memory_and_says_the_same() -> None:
    track, apart_ns, readings = Track(), 100_000_000, 5 * MAX_SAMPLES
    for number in range(readings):
        track.add(number * apart_ns, number**2)
        assert len(track) < 2 * MAX_SAMPLES
        assert track.last == number**2
    assert len(track) > MAX_SAMPLES
    assert track.at(0) == 0
    # Evenly along the whole run: readings at most 8 apart everywhere, so no worse than 16 between
    far_off = [n for n in range(readings) if abs(track.at(n * apart_ns) - n**2) > 16]
    assert far_off == []


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


def test_totals_that_nobody_could_read_are_not_counted_twice() -> None:
    totals = Totals()
    totals.count({"full": 0, "down": 0}, life=1)
    totals.count({"full": 2, "down": 5}, life=1)
    # Who counts `down` did not answer
    totals.count({"full": 3}, life=1)
    totals.count({"full": 3, "down": 6}, life=1)
    assert totals.counted == {"full": 3, "down": 6}


def test_totals_of_a_new_process_that_is_taken_for_the_old_one_lose_nothing() -> None:
    totals = Totals()
    for raw, life in ((0, 1), (7, 1), (1, 1), (2, 2)):
        totals.count({"full": raw}, life)
    assert totals.counted == {"full": 9}


def test_tracks_add_up_at_the_same_moments() -> None:
    one, other = Track(), Track()
    one.add(0, 0)
    one.add(100, 100)
    other.add(50, 8)
    assert total([one, other], [0, 50, 100]) == [8, 58, 108]
