"""The receiving NIC's part in congestion control: `rcv_cwnd_pen` for those who send to it at once.

There is no ECN on the last hop, so senders learn of an incast by delay and trimmed packets only,
and these tell nobody what a fair share is. The destination knows how many send to it. It asks each
of n sources to scale its window down to 1/n, and as long as its ports are not busy (a source may be
held back elsewhere) to somewhat more. MRC carries the penalty in every SACK and leaves it to the
NIC what to put there: this policy is our choice.
"""

from __future__ import annotations

#: `rcv_cwnd_pen`: one packet per RTT
FULL_PENALTY = 127

#: Ports are busy from this part of their rate on
_BUSY = 0.96
#: What the shares grow and shrink by in an interval in which the ports are not busy, or are
_GROWTH = 1.2
_DECAY = 0.95


class FanIn:
    """Counts who sends to this NIC, in intervals; between them the penalty stays.

    `rate_bps` is that of all ports together; `interval_ns` a few RTTs.
    """

    __slots__ = (
        "_boost",
        "_bytes",
        "_capacity_bytes",
        "_end_ns",
        "_interval_ns",
        "_sources",
        "penalty",
    )

    def __init__(self, rate_bps: int, interval_ns: int) -> None:
        for name, value in (("rate_bps", rate_bps), ("interval_ns", interval_ns)):
            if value < 1:
                raise ValueError(f"{name}: {value} does not fit: it must be above 0")
        self._interval_ns = interval_ns
        #: That the ports can bring in an interval
        self._capacity_bytes = rate_bps * interval_ns / 8e9
        #: For every source now, 0 (none) .. 127
        self.penalty = 0
        #: A source's share is this many nths
        self._boost = 1.0
        self._sources: set[int] = set()
        self._bytes = 0
        self._end_ns: int | None = None

    def set_rate(self, rate_bps: int) -> None:
        """Ports came up or went down: what is left of them together."""
        self._capacity_bytes = rate_bps * self._interval_ns / 8e9

    def on_data(self, source: int, size_bytes: int, now_ns: int) -> bool:
        """A data frame of `source` came, whole or trimmed. True: the penalty is another one now."""
        changed = False
        if self._end_ns is None:
            self._end_ns = now_ns + self._interval_ns
        elif now_ns >= self._end_ns:
            changed = self._end_interval(now_ns)
        self._sources.add(source)
        self._bytes += size_bytes
        return changed

    def _end_interval(self, now_ns: int) -> bool:
        assert self._end_ns is not None
        sources = len(self._sources)
        if now_ns - self._end_ns >= self._interval_ns:
            # Nothing came for an interval: whoever comes now begins anew
            sources = 0
        if sources < 2:
            self._boost = 1.0
            penalty = 0
        else:
            busy = self._bytes >= _BUSY * self._capacity_bytes
            boost = self._boost * (_DECAY if busy else _GROWTH)
            self._boost = boost = min(max(boost, 1.0), float(sources))
            penalty = FULL_PENALTY - max(int(FULL_PENALTY * boost / sources), 1)
        self._sources.clear()
        self._bytes = 0
        self._end_ns = now_ns + self._interval_ns
        changed = penalty != self.penalty
        self.penalty = penalty
        return changed
