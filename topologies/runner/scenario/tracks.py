"""Values read at moments that nobody can choose exactly, and what they were at equal intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence


class Track:
    """One value along the run. Between two readings it is taken to change evenly."""

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._values: list[int] = []

    def add(self, now_ns: int, value: int) -> None:
        """A reading; one that is older than the latest says nothing new and is left out."""
        if self._times_ns and now_ns < self._times_ns[-1]:
            return
        self._times_ns.append(now_ns)
        self._values.append(value)

    @property
    def last(self) -> int:
        """The latest reading, 0 without any."""
        return self._values[-1] if self._values else 0

    def rate(self, over_ns: int) -> float:
        """Change a second, over about the last so many nanoseconds."""
        times = self._times_ns
        if len(times) < 2:
            return 0.0
        first = min(max(bisect_right(times, times[-1] - over_ns) - 1, 0), len(times) - 2)
        return (self._values[-1] - self._values[first]) * 1e9 / max(times[-1] - times[first], 1)

    def at(self, now_ns: int) -> int:
        """The value at a time; before the first reading and after the last, that one's."""
        times, values = self._times_ns, self._values
        if not times:
            return 0
        index = bisect_right(times, now_ns)
        if index == 0:
            return values[0]
        if index == len(times):
            return values[-1]
        before_ns, after_ns = times[index - 1], times[index]
        before, after = values[index - 1], values[index]
        return before + (after - before) * (now_ns - before_ns) // (after_ns - before_ns)

    def series(self, times_ns: Sequence[int]) -> list[int]:
        """The value at each of the times."""
        return [self.at(each) for each in times_ns]


class CounterTrack(Track):
    """A counter of a process that may be started anew, which then counts from 0 again.

    What it counted before its first reading is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._life: object = None
        self._raw = 0
        self._total = 0

    def count(self, now_ns: int, raw: int, life: object = 0) -> None:
        """A reading; `life` tells one process from the next."""
        if self._life is None:
            self._life, self._raw = life, raw
        elif self._life != life:
            self._life, self._raw = life, 0
        # Less than before: part of what was counted together is gone, a queue pair that ended
        self._total += max(raw - self._raw, 0)
        self._raw = raw
        self.add(now_ns, self._total)


class Totals:
    """Counters by name, of a process that may be started anew: see `CounterTrack`."""

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}
        self._life: object = None
        self._raw: Mapping[str, int] = {}

    def count(self, raw: Mapping[str, int], life: object) -> None:
        """A reading."""
        if self._life is None:
            self._raw = dict(raw)
        elif self._life != life:
            self._raw = {}
        self._life = life
        for name, value in raw.items():
            more = value - self._raw.get(name, 0)
            if more:
                self.counted[name] = self.counted.get(name, 0) + more
        self._raw = dict(raw)


def total(tracks: Sequence[Track], times_ns: Sequence[int]) -> list[int]:
    """The sum of some tracks at each of the times."""
    if not tracks:
        return [0] * len(times_ns)
    return [sum(values) for values in zip(*(each.series(times_ns) for each in tracks), strict=True)]
