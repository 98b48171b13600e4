"""What a fault did to the rate of all traffic, from payload sampled at equal intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from reports.result import FaultEffect

#: A rate counts as full again from this share of what it was before the fault
FULL_RATE_SHARE: Final = 0.95
#: Samples that are averaged, so that one burst of feedback is no dip
SMOOTHING_SAMPLES: Final = 4


def rates_bps(delivered_bytes: Sequence[int], interval_ns: int) -> list[float]:
    """The rate in each interval, from what was delivered at 0, `interval_ns`, twice that, ..."""
    scale = 8 * 10**9 / interval_ns
    return [(after - before) * scale for before, after in pairwise(delivered_bytes)]


def whole_intervals(delivered_bytes: Sequence[int], total_bytes: int) -> int:
    """How many intervals, from time 0 on, passed before all there is now was delivered."""
    return max(bisect_left(delivered_bytes, total_bytes) - 1, 0)


def look_at_rates(effect: FaultEffect, rates: Sequence[float], interval_ns: int) -> None:
    """Fill in what the rate did around one fault.

    `rates` end where traffic did: an interval that was full in part only is not among them.
    """
    first = effect.at_ns // interval_ns
    window = rates[max(first - 4 * SMOOTHING_SAMPLES, min(2, first // 2)) : first]
    if not effect.begun or not window:
        return
    rate = sum(window) / len(window)
    effect.rate_before_bps = rate
    if not rate:
        return
    end_ns = effect.end_ns
    last = len(rates) if end_ns is None else min(len(rates), end_ns // interval_ns)
    while_ns, lowest = _until_full(rates[first:last], rate, interval_ns)
    effect.lowest_rate_bps = lowest
    effect.full_rate_ns = while_ns
    if end_ns is not None:
        effect.recovery_ns, _ = _until_full(rates[last:], rate, interval_ns)


def _until_full(
    rates: Sequence[float], wanted_bps: float, interval_ns: int
) -> tuple[int | None, float | None]:
    """(time until the rate is what is wanted and stays so, lowest rate)."""
    after = _smooth(rates)
    if not after:
        return None, None
    below = [index for index, value in enumerate(after) if value < FULL_RATE_SHARE * wanted_bps]
    if not below:
        return 0, min(after)
    if below[-1] == len(after) - 1:
        return None, min(after)
    return (below[-1] + SMOOTHING_SAMPLES) * interval_ns, min(after)


def _smooth(values: Sequence[float]) -> list[float]:
    size = SMOOTHING_SAMPLES
    return [sum(values[index : index + size]) / size for index in range(len(values) - size + 1)]
