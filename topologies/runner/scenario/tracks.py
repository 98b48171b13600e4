"""Values read at moments that nobody can choose exactly, and what they were at equal intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

#: Samples of a run; at more the interval doubles
MAX_SAMPLES: Final = 4096


class Track:
    """One value along the run. Between two readings it is taken to change evenly.

    At twice `MAX_SAMPLES` readings every other is dropped, and from then on they are kept so far
    apart as those left: a long run takes no more memory than a short one. The first and the latest
    are always there.
    """

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._values: list[int] = []
        #: Of any two readings that are kept, the latest apart
        self._apart_ns = 0

    def __len__(self) -> int:
        """Readings that are kept."""
        return len(self._times_ns)

    def add(self, now_ns: int, value: int) -> None:
        """A reading; one that is older than the latest says nothing new and is left out."""
        times, values = self._times_ns, self._values
        if times and now_ns < times[-1]:
            return
        if len(times) > 1 and times[-1] - times[-2] < self._apart_ns:
            times[-1], values[-1] = now_ns, value
            return
        times.append(now_ns)
        values.append(value)
        if len(times) >= 2 * MAX_SAMPLES:
            del times[1:-1:2]
            del values[1:-1:2]
            self._apart_ns = (times[-1] - times[0]) // MAX_SAMPLES

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
        """A reading; a name that is not in it, since nobody could say, is as it was."""
        if self._life is None:
            self._raw = dict(raw)
        elif self._life != life:
            self._raw = {}
        self._life = life
        for name, value in raw.items():
            more = value - self._raw.get(name, 0)
            # Below 0: a new process is read before it is known to be one
            if more > 0:
                self.counted[name] = self.counted.get(name, 0) + more
        self._raw = {**self._raw, **raw}


def total(tracks: Sequence[Track], times_ns: Sequence[int]) -> list[int]:
    """The sum of some tracks at each of the times."""
    if not tracks:
        return [0] * len(times_ns)
    return [sum(values) for values in zip(*(each.series(times_ns) for each in tracks), strict=True)]
