"""The probe schedule: which EV when, how fast, and when it is GOOD again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from host.paths.probing import MAX_BACKOFF, MAX_DOUBLINGS, ProbeSchedule, ProbeTiming

TIMING = ProbeTiming(interval_ns=1000, gap_ns=100, answers=3)


def schedule(timing: ProbeTiming = TIMING) -> ProbeSchedule:
    return ProbeSchedule(timing, planes_up=0b11)


def run(
    probes: ProbeSchedule, until_ns: int, answers: bool, rtt_ns: int = 50
) -> list[tuple[int, int]]:
    """Send every probe when it is due, and let all or none be answered: [(time, EV)]."""
    sent = []
    while (due_ns := probes.next_timer()) is not None and due_ns <= until_ns:
        ev = probes.next_probe(due_ns)
        if ev is None:
            continue
        sent.append((due_ns, ev))
        if not answers:
            probes.timed_out(ev, due_ns + rtt_ns)
        elif probes.answered(ev, due_ns + rtt_ns):
            probes.returned(ev, due_ns + rtt_ns)
    return sent


def test_nothing_bad_nothing_to_do() -> None:
    probes = schedule()
    assert probes.next_timer() is None
    assert probes.next_probe(10**12) is None
    assert len(probes) == 0


def test_several_answers_in_a_row_make_it_good() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=1000)
    # The first goes out at once
    assert probes.next_timer() == 1000
    assert probes.next_probe(999) is None
    assert probes.next_probe(1000) == 8
    # One probe of an EV is out at a time
    assert probes.next_timer() is None
    assert probes.next_probe(5000) is None
    assert not probes.answered(8, 1050)
    # The next follows soon, but not before the gap is over
    assert probes.next_timer() == 1100
    assert probes.next_probe(1100) == 8
    assert not probes.answered(8, 1150)
    assert probes.next_probe(1200) == 8
    assert probes.answered(8, 1250)


def test_one_that_is_not_answered_begins_again() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=1000)
    for now_ns in (1000, 1100):
        assert probes.next_probe(now_ns) == 8
        assert not probes.answered(8, now_ns + 10)
    assert probes.next_probe(1200) == 8
    probes.timed_out(8, 1500)
    assert probes.next_timer() == 2500
    for now_ns in (2500, 2600, 2700):
        assert probes.next_probe(now_ns) == 8
        assert probes.answered(8, now_ns + 10) == (now_ns == 2700)


def test_what_does_not_answer_is_probed_ever_more_seldom_to_a_limit() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=0)
    times = [now_ns for now_ns, _ in run(probes, 10**6, answers=False)]
    gaps = [later - earlier - 50 for earlier, later in pairwise(times)]
    assert gaps[: MAX_BACKOFF + 2] == [1000 << min(n, MAX_BACKOFF) for n in range(MAX_BACKOFF + 2)]
    assert set(gaps[MAX_BACKOFF:]) == {1000 << MAX_BACKOFF}


def test_an_answer_ends_the_backing_off() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=0)
    run(probes, 100_000, answers=False)
    due_ns = probes.next_timer()
    assert due_ns is not None
    assert probes.next_probe(due_ns) == 8
    assert not probes.answered(8, due_ns + 10)
    assert probes.next_probe(due_ns + 100) == 8
    probes.timed_out(8, due_ns + 200)
    assert probes.next_timer() == due_ns + 200 + 1000


def test_the_rate_is_bounded_whatever_the_number_of_bad_evs() -> None:
    probes = schedule()
    for ev in range(64):
        probes.add(ev, 0, now_ns=0)
    sent = run(probes, 20_000, answers=False, rtt_ns=1)
    times = [now_ns for now_ns, _ in sent]
    assert all(later - earlier >= 100 for earlier, later in pairwise(times))
    # and none is forgotten
    assert set(Counter(ev for _, ev in sent)) == set(range(64))


def test_a_path_that_comes_and_goes_must_answer_more_and_more_often() -> None:
    probes = schedule()
    now_ns, needed = 0, []
    for _ in range(MAX_DOUBLINGS + 2):
        probes.add(8, 0, now_ns)
        sent = run(probes, now_ns + 10**6, answers=True)
        needed.append(len(sent))
        now_ns = sent[-1][0] + 500
    assert needed == [3, 6, 12, 24, 48, 48]
    # Long good, it is as any other
    probes.add(8, 0, now_ns + 10**9)
    assert len(run(probes, now_ns + 2 * 10**9, answers=True)) == 3


def test_on_a_plane_that_is_down_nothing_is_probed() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=0)
    probes.add(9, 1, now_ns=0)
    probes.set_planes_up(0b10, now_ns=10)
    assert [ev for _, ev in run(probes, 50_000, answers=False)] == [9] * 6
    probes.add(10, 0, now_ns=50_000)
    probes.remove(9)
    assert probes.next_timer() is None
    probes.set_planes_up(0b11, now_ns=60_000)
    assert [ev for _, ev in run(probes, 60_500, answers=True)] == [8, 10] * 3


def test_a_probe_out_when_the_plane_goes_down_is_not_forgotten() -> None:
    probes = schedule()
    probes.add(8, 0, now_ns=0)
    assert probes.next_probe(1000) == 8
    probes.set_planes_up(0b10, now_ns=1010)
    probes.timed_out(8, 1500)
    assert probes.next_timer() is None
    probes.set_planes_up(0b11, now_ns=2000)
    assert probes.next_probe(2000) == 8


def test_answers_that_nobody_waits_for_mean_nothing() -> None:
    probes = schedule()
    assert not probes.answered(8, 5)
    probes.timed_out(8, 5)
    probes.add(8, 0, now_ns=10)
    for _ in range(5):
        assert not probes.answered(8, 20)
    probes.remove(8)
    assert len(probes) == 0 and probes.next_timer() is None


def test_taking_evs_in_and_out_leaves_nothing_behind() -> None:
    probes = schedule()
    probes.add(1, 0, now_ns=0)
    for now_ns in range(1000):
        probes.add(8, 0, now_ns)
        probes.remove(8)
    assert len(probes) == 1
    assert len(probes._heap) <= 2 * 1 + 32


@pytest.mark.parametrize("bad", [1, 2])
def test_what_was_lost_by_chance_costs_a_path_less_than_another_timeout(bad: int) -> None:
    """Three answers, of two EVs even: on few paths, each one that is out is a share of the rate."""
    timeout_ns, rtt_ns = 32_768, 5_000
    probes = schedule(ProbeTiming.of_timeout(timeout_ns))
    for ev in range(bad):
        probes.add(ev, 0, now_ns=0)
    sent = run(probes, 10 * timeout_ns, answers=True, rtt_ns=rtt_ns)
    assert Counter(ev for _, ev in sent) == dict.fromkeys(range(bad), 3)
    assert sent[-1][0] + rtt_ns < timeout_ns


@pytest.mark.parametrize("name", ["interval_ns", "gap_ns", "answers"])
def test_times_of_nothing_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: 0 does not fit: it must be above 0"):
        ProbeTiming(**{"interval_ns": 1, "gap_ns": 1, "answers": 1, name: 0})


def test_timing_follows_the_timeout() -> None:
    assert ProbeTiming.of_timeout(32_768) == ProbeTiming(32_768, 4_096, 3)
    assert ProbeTiming.of_timeout(0) == ProbeTiming(1, 1, 3)
