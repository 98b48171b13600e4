"""What a fault did to the rate, from samples."""

from __future__ import annotations

import pytest

from reports.rates import STEADY_SAMPLES, look_at_rates, traffic_changes_ns
from reports.result import FaultEffect

INTERVAL = 10


def effect(at: int, end: int | None) -> FaultEffect:
    end_ns = None if end is None else end * INTERVAL
    return FaultEffect("cut", "LinkDown", at * INTERVAL, end_ns, begun=True)


def looked_at(
    rates: list[float], at: int, end: int | None, changes: list[int] | None = None
) -> FaultEffect:
    made = effect(at, end)
    look_at_rates(made, rates, INTERVAL, [each * INTERVAL for each in changes or []])
    return made


def test_a_dip_is_over_when_the_rate_stays_full() -> None:
    rates = [100.0] * 30 + [20.0] * 6 + [100.0] * 64
    made = looked_at(rates, 30, 80)
    assert made.rate_before_bps == 100 and made.lowest_rate_bps == 20
    # The last window of four samples with a low one in it begins at 35 and ends at 39
    assert made.full_rate_ns == 9 * INTERVAL
    assert made.recovery_ns == 0


def test_a_short_pause_within_a_dip_does_not_end_it() -> None:
    rates = [100.0] * 30 + [20.0] * 4 + [100.0] * 8 + [20.0] * 4 + [100.0] * 54
    assert looked_at(rates, 30, 90).full_rate_ns == 19 * INTERVAL


def test_a_rate_that_stays_low_is_not_full_until_the_repair() -> None:
    rates = [100.0] * 30 + [50.0] * 30 + [100.0] * 40
    made = looked_at(rates, 30, 60)
    assert made.full_rate_ns is None and made.lowest_rate_bps == 50
    assert made.recovery_ns == 0
    slow = looked_at([100.0] * 30 + [50.0] * 40 + [100.0] * 30, 30, 60)
    assert slow.recovery_ns == 13 * INTERVAL


def test_what_dips_long_after_the_repair_dips_for_another_reason() -> None:
    late = 60 + STEADY_SAMPLES + 4
    rates = [100.0] * 30 + [50.0] * 30 + [100.0] * (late - 60) + [10.0] * 20
    assert looked_at(rates, 30, 60).recovery_ns == 0


def test_only_times_with_the_same_traffic_are_compared() -> None:
    # A second flow until 20, alone until 70, then another one
    rates = [200.0] * 20 + [100.0] * 30 + [50.0] * 10 + [100.0] * 10 + [10.0] * 30
    made = looked_at(rates, 50, 60, [0, 20, 70])
    assert made.rate_before_bps == 100 and made.lowest_rate_bps == 50
    assert made.recovery_ns == 0
    whole = looked_at(rates, 50, 60)
    assert whole.recovery_ns is None


def test_without_traffic_before_there_is_nothing_to_compare_with() -> None:
    made = looked_at([100.0] * 50, 0, None)
    assert made.rate_before_bps is None and made.full_rate_ns is None
    made = looked_at([0.0] * 50, 20, None)
    assert made.rate_before_bps == 0 and made.lowest_rate_bps is None


@pytest.mark.parametrize("end", [None, 40, 10_000])
def test_faults_at_the_end_of_a_run(end: int | None) -> None:
    made = looked_at([100.0] * 40, 39, end)
    assert made.rate_before_bps == 100
    assert made.full_rate_ns is None and made.recovery_ns is None


def test_traffic_changes_where_it_begins_and_where_it_is_done() -> None:
    assert traffic_changes_ns([]) == []
