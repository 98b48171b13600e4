"""What a destination asks of those who send to it at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.congestion.fan_in import FULL_PENALTY, FanIn

#: 8 Gb/s for 1 µs: 1000 bytes
RATE_BPS, INTERVAL_NS = 8 * 10**9, 1000


def fan_in() -> FanIn:
    return FanIn(RATE_BPS, INTERVAL_NS)


def interval(penalties: FanIn, number: int, sources: int, size_bytes: int) -> bool:
    """Each source sends so much in interval `number`; whether the penalty changed at its start."""
    changed = [
        penalties.on_data(source, size_bytes, number * INTERVAL_NS) for source in range(sources)
    ]
    assert not any(changed[1:])
    return changed[0]


def test_one_source_is_never_penalised() -> None:
    penalties = fan_in()
    assert not any(interval(penalties, number, 1, 1000) for number in range(10))
    assert penalties.penalty == 0


@pytest.mark.parametrize(
    ("sources", "penalty"), [(2, 127 - 63), (7, 127 - 18), (16, 127 - 7), (127, 126), (500, 126)]
)
def test_of_many_each_gets_its_part_of_its_window(sources: int, penalty: int) -> None:
    penalties = fan_in()
    assert not interval(penalties, 0, sources, 1000)
    assert interval(penalties, 1, sources, 1000)
    assert penalties.penalty == penalty < FULL_PENALTY


def test_while_ports_are_not_busy_the_parts_grow_up_to_the_whole_window() -> None:
    penalties = fan_in()
    seen = []
    for number in range(30):
        interval(penalties, number, 4, 200)  # 80 %
        seen.append(penalties.penalty)
    assert seen[1:] == sorted(seen[1:], reverse=True)
    assert seen[1] > 80 and seen[-1] == 0


def test_and_shrink_again_when_they_are() -> None:
    penalties = fan_in()
    for number in range(30):
        interval(penalties, number, 4, 200)
    seen = []
    for number in range(30, 100):
        interval(penalties, number, 4, 250)
        seen.append(penalties.penalty)
    assert seen[1:] == sorted(seen[1:]) and seen[-1] == 127 - 31


def test_when_all_but_one_have_gone_so_has_the_penalty() -> None:
    penalties = fan_in()
    for number in range(5):
        interval(penalties, number, 4, 300)
    interval(penalties, 5, 1, 1000)
    assert penalties.penalty == 127 - 31
    assert interval(penalties, 6, 1, 1000)
    assert penalties.penalty == 0


def test_after_a_pause_all_begins_anew() -> None:
    penalties = fan_in()
    for number in range(5):
        interval(penalties, number, 4, 300)
    assert penalties.penalty
    assert interval(penalties, 50, 1, 300)
    assert penalties.penalty == 0


def test_with_a_port_down_less_is_busy() -> None:
    for rate_bps, busy in ((RATE_BPS, False), (RATE_BPS // 2, True)):
        penalties = fan_in()
        penalties.set_rate(rate_bps)
        for number in range(5):
            interval(penalties, number, 4, 130)  # 520 bytes
        assert (penalties.penalty == 127 - 31) == busy


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 9000), st.integers(0, 3000)), max_size=200
    )
)
def test_whatever_comes_the_penalty_fits_its_field(steps: list[tuple[int, int, int]]) -> None:
    penalties = fan_in()
    now_ns = 0
    for source, size_bytes, step_ns in steps:
        now_ns += step_ns
        before = penalties.penalty
        assert penalties.on_data(source, size_bytes, now_ns) == (penalties.penalty != before)
        assert 0 <= penalties.penalty < FULL_PENALTY
        assert len(penalties._sources) <= 21


@pytest.mark.parametrize(
    ("rate_bps", "interval_ns", "name"), [(0, 1, "rate_bps"), (1, 0, "interval_ns")]
)
def test_nothing_is_refused(rate_bps: int, interval_ns: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: 0 does not fit: it must be above 0"):
        FanIn(rate_bps, interval_ns)
