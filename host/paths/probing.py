"""When to probe which EV that is ASSUMED_BAD, and when it has answered often enough.

mrc-protocol.md, section 3: "Probes answered (several in a row) → GOOD". An EV is probed as soon as
it is bad: a timeout has passed already, and where a single packet was lost by chance, every moment
without the path costs its share of the rate. One probe of an EV is out at a time; between any two
probes of a queue pair at least `gap_ns` pass, whatever the number of bad EVs, so the rate is
bounded. The time between two probes of an EV doubles with each that is not answered, up to 32
times: a repair is noticed in about as long as the failure lasted. An EV that relapses soon after it
came back must answer twice as often, and so on up to 16 times, so that a path that loses some
packets does not come and go. Where an EV that must stay in use loses packet after packet, one that
answers is better at once (`answered_since`), and waiting makes no sense (`hurry`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

#: Times that the interval of an EV that does not answer doubles at most
MAX_BACKOFF = 5
#: Times that the number of answers asked for doubles at most
MAX_DOUBLINGS = 4
#: A relapse later than this many probe intervals after the return is no relapse
RELAPSE_INTERVALS = 64
#: Probes of all bad EVs of a queue pair in a local ACK timeout, which is several round trips, at
#: most: three answers take no longer than the timeout did that made the EV bad, even of two EVs
GAPS_IN_TIMEOUT = 8

_HEAP_SLACK = 32


@dataclass(frozen=True, slots=True)
class ProbeTiming:
    """How often EVs are probed.

    `interval_ns` is the time from when an EV is found not to answer to its next probe; it doubles
    with each probe in a row that is not answered, `MAX_BACKOFF` times at most. `gap_ns` is the
    least time between any two probes; `answers` in a row make an EV GOOD.
    """

    interval_ns: int
    gap_ns: int
    answers: int = 3

    def __post_init__(self) -> None:
        for name in ("interval_ns", "gap_ns", "answers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} does not fit: it must be above 0")

    @classmethod
    def of_timeout(cls, timeout_ns: int, answers: int = 3) -> ProbeTiming:
        """What suits a queue pair with this local ACK timeout."""
        return cls(max(timeout_ns, 1), max(timeout_ns // GAPS_IN_TIMEOUT, 1), answers)


class _Probed:
    """An EV that is being probed."""

    __slots__ = ("answered_ns", "due_ns", "needed", "plane", "silent", "streak")

    def __init__(self, plane: int, needed: int) -> None:
        self.plane = plane
        #: Answers in a row, and how many it takes
        self.streak = 0
        self.needed = needed
        #: When the last answer came; below every time if the last probe had none
        self.answered_ns = -1
        #: Probes in a row that were not answered
        self.silent = 0
        #: When the next probe is due; None: one is out, or the plane is down
        self.due_ns: int | None = None


class ProbeSchedule:
    """The EVs that are being probed. `planes_up` is the mask of planes worth probing on."""

    __slots__ = ("_heap", "_last_ns", "_parked", "_probed", "_returned", "planes_up", "timing")

    def __init__(self, timing: ProbeTiming, planes_up: int) -> None:
        self.timing = timing
        self.planes_up = planes_up
        self._probed: dict[int, _Probed] = {}
        #: (due, EV); entries that are not the EV's `due_ns` any more are passed over
        self._heap: list[tuple[int, int]] = []
        self._parked: set[int] = set()
        self._last_ns: int | None = None
        #: Of EVs that came back: (when, doublings)
        self._returned: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._probed)

    def add(self, ev: int, plane: int, now_ns: int) -> None:
        """Begin to probe an EV, at once."""
        doublings = 0
        returned = self._returned.pop(ev, None)
        if returned is not None:
            since_ns, doublings = returned
            soon = now_ns - since_ns < RELAPSE_INTERVALS * self.timing.interval_ns
            doublings = min(doublings + 1, MAX_DOUBLINGS) if soon else 0
        probed = _Probed(plane, self.timing.answers << doublings)
        self._probed[ev] = probed
        self._schedule(ev, probed, now_ns)

    def remove(self, ev: int) -> None:
        """Stop probing an EV."""
        self._probed.pop(ev, None)
        self._parked.discard(ev)
        if not self._probed:
            self._heap.clear()

    def returned(self, ev: int, now_ns: int) -> None:
        """Stop probing an EV: it is GOOD now."""
        probed = self._probed.get(ev)
        if probed is not None:
            doublings = (probed.needed // self.timing.answers).bit_length() - 1
            self._returned[ev] = now_ns, doublings
        self.remove(ev)

    def good_since_ns(self, ev: int) -> int:
        """When an EV came back last; below every time if it never did."""
        returned = self._returned.get(ev)
        return -1 if returned is None else returned[0]

    def _schedule(self, ev: int, probed: _Probed, due_ns: int) -> None:
        if not self.planes_up >> probed.plane & 1:
            probed.due_ns = None
            self._parked.add(ev)
            return
        probed.due_ns = due_ns
        heapq.heappush(self._heap, (due_ns, ev))
        # Entries of EVs that were taken out meanwhile leave when they are due, or here
        if len(self._heap) > 2 * len(self._probed) + _HEAP_SLACK:
            live = {other: state.due_ns for other, state in self._probed.items()}
            self._heap = [(due, other) for due, other in self._heap if live.get(other) == due]
            heapq.heapify(self._heap)

    def set_planes_up(self, planes_up: int, now_ns: int) -> None:
        """Only these planes are worth probing on."""
        self.planes_up = planes_up
        for ev in sorted(self._parked):
            probed = self._probed[ev]
            if planes_up >> probed.plane & 1:
                self._parked.discard(ev)
                self._schedule(ev, probed, now_ns)

    def next_probe(self, now_ns: int) -> int | None:
        """An EV to be probed now; it counts as probed. None: nothing to probe yet."""
        if not self._heap or (
            self._last_ns is not None and now_ns < self._last_ns + self.timing.gap_ns
        ):
            return None
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            due_ns, ev = heapq.heappop(heap)
            probed = self._probed.get(ev)
            if probed is None or probed.due_ns != due_ns:
                continue
            probed.due_ns = None
            if not self.planes_up >> probed.plane & 1:
                self._parked.add(ev)
                continue
            self._last_ns = now_ns
            return ev
        return None

    def hurry(self, now_ns: int) -> None:
        """Nothing waits for its next probe longer than till now, but for the gap between any two.

        Those that are due already stay ahead, so that each has its turn however often this is so.
        """
        for ev, probed in self._probed.items():
            if probed.due_ns is not None and probed.due_ns > now_ns:
                self._schedule(ev, probed, now_ns)

    def answered_since(self, since_ns: int, planes: int) -> int | None:
        """Of the EVs on a mask of planes, the one that answered last, if it was since then."""
        answered = [
            (probed.answered_ns, ev)
            for ev, probed in self._probed.items()
            if probed.answered_ns >= since_ns and planes >> probed.plane & 1
        ]
        return max(answered)[1] if answered else None

    def answered(self, ev: int, now_ns: int) -> bool:
        """A probe came back. True: that was often enough."""
        probed = self._out(ev)
        if probed is None:
            return False
        probed.streak += 1
        probed.silent = 0
        probed.answered_ns = now_ns
        if probed.streak >= probed.needed:
            return True
        self._schedule(ev, probed, now_ns)
        return False

    def timed_out(self, ev: int, now_ns: int) -> None:
        """A probe did not come back."""
        probed = self._out(ev)
        if probed is not None:
            probed.streak = 0
            probed.answered_ns = -1
            self._schedule(ev, probed, now_ns + (self.timing.interval_ns << probed.silent))
            probed.silent = min(probed.silent + 1, MAX_BACKOFF)

    def _out(self, ev: int) -> _Probed | None:
        """The EV, if a probe of it is out."""
        probed = self._probed.get(ev)
        return probed if probed and probed.due_ns is None and ev not in self._parked else None

    def next_timer(self) -> int | None:
        """Absolute ns at which `next_probe` has something to say; None = never."""
        heap = self._heap
        while heap:
            due_ns, ev = heap[0]
            probed = self._probed.get(ev)
            if probed is not None and probed.due_ns == due_ns:
                if self._last_ns is not None:
                    return max(due_ns, self._last_ns + self.timing.gap_ns)
                return due_ns
            heapq.heappop(heap)
        return None
