"""What a fault did to the rate of all traffic, from payload sampled at equal intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from typing import Final

from reports.result import CollectiveResult, FaultEffect, FlowResult

#: A rate counts as full again from this share of what it was before the fault
FULL_RATE_SHARE: Final = 0.95
#: Samples that are averaged, so that one burst of feedback is no dip
SMOOTHING_SAMPLES: Final = 4
#: Samples before a fault that its effect is compared with, and for which a rate stays full again
STEADY_SAMPLES: Final = 4 * SMOOTHING_SAMPLES


def rates_bps(delivered_bytes: Sequence[int], interval_ns: int) -> list[float]:
    """The rate in each interval, from what was delivered at 0, `interval_ns`, twice that, ..."""
    scale = 8 * 10**9 / interval_ns
    return [(after - before) * scale for before, after in pairwise(delivered_bytes)]


def whole_intervals(delivered_bytes: Sequence[int], total_bytes: int) -> int:
    """How many intervals, from time 0 on, passed before all there is now was delivered."""
    return max(bisect_left(delivered_bytes, total_bytes) - 1, 0)


def look_at_rates(
    effect: FaultEffect, rates: Sequence[float], interval_ns: int, changes_ns: Iterable[int] = ()
) -> None:
    """Fill in what the rate did around one fault.

    `rates` end where traffic did: an interval that was full in part only is not among them.
    `changes_ns`: when traffic itself became more or less, as `traffic_changes_ns` has it. Rates are
    compared between the last of these before the fault and the first after it.
    """
    at_ns, end_ns = effect.at_ns, effect.end_ns
    first = at_ns // interval_ns
    since = max((-(-each // interval_ns) for each in changes_ns if each <= at_ns), default=0)
    # What is on its way when a flow ends came before that: the interval before is full in part
    ends = [each // interval_ns - 1 for each in changes_ns if each > at_ns]
    rates = rates[: max(min(ends), first)] if ends else rates
    window = rates[max(first - STEADY_SAMPLES, since + min(2, (first - since) // 2)) : first]
    if not effect.begun or not window:
        return
    rate = sum(window) / len(window)
    effect.rate_before_bps = rate
    if not rate:
        return
    last = len(rates) if end_ns is None else min(len(rates), end_ns // interval_ns)
    while_ns, lowest = _until_full(rates[first:last], rate, interval_ns)
    effect.lowest_rate_bps = lowest
    effect.full_rate_ns = while_ns
    if end_ns is not None:
        after = rates[last:]
        # What dips after so long dips for another reason, as at the end of a collective's round
        steady = _smooth(after)[:STEADY_SAMPLES]
        if len(steady) == STEADY_SAMPLES and min(steady) >= FULL_RATE_SHARE * rate:
            effect.recovery_ns = 0
        else:
            effect.recovery_ns, _ = _until_full(after, rate, interval_ns)


def traffic_changes_ns(traffic: Iterable[FlowResult | CollectiveResult]) -> list[int]:
    """When flows and collectives began and ended, from the start of the run."""
    changes: set[int] = set()
    for each in traffic:
        changes.add(each.start_ns)
        if each.done and each.completion_ns is not None:
            changes.add(each.start_ns + each.completion_ns)
    return sorted(changes)


def _until_full(
    rates: Sequence[float], wanted_bps: float, interval_ns: int
) -> tuple[int | None, float | None]:
    """(time until a dip is over, lowest rate). 0: there is no dip; None: it does not end."""
    after = _smooth(rates)
    if not after:
        return None, None
    below = [index for index, value in enumerate(after) if value < FULL_RATE_SHARE * wanted_bps]
    if not below:
        return 0, min(after)
    # The dip is over with its last low value: when none follows for so long, or to the end
    for index, following in zip_longest(below, below[1:], fillvalue=len(after) + STEADY_SAMPLES):
        if index == len(after) - 1:
            break
        if following - index > STEADY_SAMPLES:
            return (index + SMOOTHING_SAMPLES) * interval_ns, min(after)
    return None, min(after)


def _smooth(values: Sequence[float]) -> list[float]:
    size = SMOOTHING_SAMPLES
    return [sum(values[index : index + size]) / size for index in range(len(values) - size + 1)]
