"""Counters of many halves of queue pairs, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol


class Counting(Protocol):
    """A requestor or a responder of any transport; `stats` has a slot for each counter."""

    @property
    def stats(self) -> Any:
        """What it did."""
        ...


def sums(halves: Iterable[Counting]) -> Counter[str]:
    """The counters of halves by their names."""
    totals: Counter[str] = Counter()
    for half in halves:
        stats = half.stats
        for name in stats.__slots__:
            totals[name] += getattr(stats, name)
    return totals
