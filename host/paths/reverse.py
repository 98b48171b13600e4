"""The reverse EV set: one known-good EV per plane for control packets.

mrc-protocol.md, section 4: "Control packets leave on the reverse EV set: one known-good EV per
plane, refreshed by data SACKs or, when the QP only receives, by one EV probe per RTT."
"""

from __future__ import annotations

import random

from host.paths.universe import EvUniverse
from topologies.addressing import MAX_PLANES


class _PlaneEv:
    """The EV of a plane."""

    __slots__ = ("candidates", "ev", "next", "refreshed_ns")

    def __init__(self, candidates: list[int]) -> None:
        #: Tried one after another while probes of the one in use are not answered
        self.candidates = candidates
        self.next = 0
        self.ev = candidates[0]
        self.refreshed_ns = -1

    def try_another(self) -> None:
        self.next = (self.next + 1) % len(self.candidates)
        if self.candidates[self.next] == self.ev:
            self.next = (self.next + 1) % len(self.candidates)
        self.ev = self.candidates[self.next]


class ReverseEvSet:
    """A `ReverseEvs` that keeps its EVs known good.

    An EV is taken over from every data SACK. Where none has told yet, or the EV in use is doubted,
    the EV of data that comes in stands in: in the addressing plan an EV names the same cables in
    both directions, and those just carried a packet.

    A plane on which answers of a responder leave and of which no SACK has told for
    `probe_interval_ns` (a base RTT) has its EV probed; one probe an interval goes out to a peer,
    the planes taking turns. Endpoint operations are no such answers: the response to a probe would
    draw another probe, for ever. A plane whose probe is not answered is avoided where another one
    has room, until one of its EVs is answered.
    """

    __slots__ = (
        "_doubted",
        "_interval_ns",
        "_last_plane",
        "_last_probe_ns",
        "_out",
        "_plane_of",
        "_planes",
        "_present",
        "_up",
        "_used",
    )

    def __init__(self, universe: EvUniverse, *, rng: random.Random, probe_interval_ns: int) -> None:
        if probe_interval_ns < 1:
            raise ValueError(
                f"probe_interval_ns: {probe_interval_ns} does not fit: it must be above 0"
            )
        self._interval_ns = probe_interval_ns
        self._plane_of = universe.plane_of
        self._planes = [
            _PlaneEv(rng.sample(evs, len(evs))) if evs else None for evs in universe.by_plane
        ]
        self._present = sum(1 << plane for plane, evs in enumerate(universe.by_plane) if evs)
        self._up = self._present
        #: Planes whose EV did not answer
        self._doubted = 0
        self._last_plane = MAX_PLANES - 1
        #: Planes that answers left on since their last probe
        self._used = 0
        self._last_probe_ns: int | None = None
        #: Planes with a probe out
        self._out = 0

    def select(self, room: int) -> int | None:
        """The EV for a control packet that leaves now, on a plane of `room`; None: none there."""
        room &= self._up
        if not room:
            return None
        room = room & ~self._doubted or room
        last = self._last_plane + 1
        ahead = room >> last << last or room
        bit = ahead & -ahead
        self._last_plane = plane = bit.bit_length() - 1
        chosen = self._planes[plane]
        assert chosen is not None
        return chosen.ev

    def answers_on(self, plane: int) -> None:
        """Answers of a responder leave on a plane: its EV is to be kept known good."""
        self._used |= 1 << plane

    def plane_of(self, ev: int) -> int:
        """The plane of an EV of the universe. Raises KeyError for another one."""
        return self._plane_of[ev]

    def known_good(self, plane: int) -> bool:
        """Whether nothing speaks against the EV of a plane."""
        return bool(self._present & ~self._doubted & 1 << plane)

    def refresh(self, ev: int, now_ns: int) -> None:
        """A packet of ours on `ev` was answered: the EV is good. Others' EVs are passed over."""
        plane = self._plane_of.get(ev)
        if plane is None:
            return
        entry = self._planes[plane]
        assert entry is not None
        entry.ev = ev
        entry.refreshed_ns = now_ns
        bit = ~(1 << plane)
        self._doubted &= bit
        self._out &= bit

    def heard(self, ev: int) -> None:
        """Data of the peer came in on `ev`; others' EVs are passed over."""
        plane = self._plane_of.get(ev)
        if plane is None:
            return
        entry = self._planes[plane]
        assert entry is not None
        if entry.refreshed_ns < 0 or self._doubted >> plane & 1:
            entry.ev = ev

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """As EvSelector.set_plane_up."""
        bit = 1 << plane
        if up:
            self._up |= bit & self._present
        else:
            self._up &= ~bit
            self._doubted &= ~bit
            self._out &= ~bit

    def _wanted(self) -> int:
        """Mask of the planes that may need a probe."""
        return (self._used | self._doubted) & self._up & ~self._out

    def next_probe(self, now_ns: int) -> int | None:
        """An EV for an EV probe (endpoint operation) now; it counts as probed. None: not yet."""
        last_ns = self._last_probe_ns
        if last_ns is not None and now_ns < last_ns + self._interval_ns:
            return None
        wanted = self._wanted() if self._used else 0
        best: _PlaneEv | None = None
        while wanted:
            bit = wanted & -wanted
            wanted ^= bit
            entry = self._planes[bit.bit_length() - 1]
            assert entry is not None
            if entry.refreshed_ns >= 0 and now_ns < entry.refreshed_ns + self._interval_ns:
                # A SACK has told
                continue
            if best is None or entry.refreshed_ns < best.refreshed_ns:
                best = entry
        if best is None:
            return None
        bit = 1 << self._plane_of[best.ev]
        self._used &= ~bit
        self._out |= bit
        self._last_probe_ns = now_ns
        return best.ev

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was not answered in time."""
        plane = self._plane_of.get(ev)
        if plane is None or not self._out >> plane & 1:
            return
        self._out &= ~(1 << plane)
        entry = self._planes[plane]
        assert entry is not None
        if entry.ev == ev and self._up >> plane & 1:
            self._doubted |= 1 << plane
            entry.try_another()

    def next_timer(self) -> int | None:
        """Absolute ns at which `next_probe` has something to say; None = never."""
        if not self._used:
            return None
        wanted = self._wanted()
        if not wanted:
            return None
        earliest: int | None = None
        while wanted:
            bit = wanted & -wanted
            wanted ^= bit
            entry = self._planes[bit.bit_length() - 1]
            assert entry is not None
            due_ns = entry.refreshed_ns + self._interval_ns if entry.refreshed_ns >= 0 else 0
            if earliest is None or due_ns < earliest:
                earliest = due_ns
        if self._last_probe_ns is not None and earliest is not None:
            earliest = max(earliest, self._last_probe_ns + self._interval_ns)
        return earliest
