"""Every EV in turn, whatever becomes of the packets: the smallest path selection."""

from __future__ import annotations

from collections.abc import Iterable

from host.paths.base import EvEvent
from host.wire.constants import NackReason
from topologies.addressing import MAX_PLANES


def plane_of_ev(ev: int) -> int:
    """The plane of an EV of the addressing plan, which has it in the lowest bits."""
    return ev & MAX_PLANES - 1


def next_plane(planes: int, last: int) -> int:
    """The first plane of a mask that is not empty, behind plane `last`, round and round."""
    ahead = planes >> last + 1 << last + 1 or planes
    return (ahead & -ahead).bit_length() - 1


class RoundRobinEvs:
    """An EvSelector without states: EVs leave the rotation only while their plane is down.

    Planes take turns, and within each its EVs. One rotation over all EVs would not do: where ports
    come free one at a time, it falls in step with them and leaves out EVs for ever.
    """

    __slots__ = ("_cursors", "_evs", "_last", "_up", "events")

    def __init__(self, evs: Iterable[int]) -> None:
        self._evs: list[list[int]] = [[] for _ in range(MAX_PLANES)]
        for ev in evs:
            self._evs[plane_of_ev(ev)].append(ev)
        if not any(self._evs):
            raise ValueError("evs: at least one EV is needed")
        self._cursors = [0] * MAX_PLANES
        self._last = MAX_PLANES - 1
        self._up = sum(1 << plane for plane in range(MAX_PLANES) if self._evs[plane])
        self.events: list[EvEvent] = []

    def select(self, room: int) -> int | None:
        """The next EV of the next plane of `room`."""
        room &= self._up
        if not room:
            return None
        plane = self._last = next_plane(room, self._last)
        evs = self._evs[plane]
        cursor = self._cursors[plane]
        self._cursors[plane] = cursor + 1 if cursor + 1 < len(evs) else 0
        return evs[cursor]

    def plane_of(self, ev: int) -> int:
        """The plane of an EV."""
        return plane_of_ev(ev)

    def usable_planes(self) -> int:
        """All planes that are up."""
        return self._up

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """Take a plane's EVs in or out."""
        bit = 1 << plane
        self._up = self._up | bit if up and self._evs[plane] else self._up & ~bit

    def on_sack(self, ev: int, m: int, now_ns: int) -> None:
        """No reaction."""

    def on_nack(self, ev: int, reason: NackReason, now_ns: int) -> None:
        """No reaction."""

    def on_timeout(self, ev: int, sent_ns: int, now_ns: int) -> None:
        """No reaction."""

    def on_probe_answer(self, ev: int, now_ns: int) -> None:
        """No reaction."""

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """No reaction."""

    def next_probe(self, now_ns: int) -> int | None:
        """None: nothing is ever probed."""
        return None

    def next_timer(self) -> int | None:
        """None: nothing is ever probed."""
        return None


class FixedReverseEvs:
    """ReverseEvs with one EV per plane for ever, used in turn."""

    __slots__ = ("_evs", "_last", "_up")

    def __init__(self, evs: Iterable[int]) -> None:
        self._evs: dict[int, int] = {}
        for ev in evs:
            self._evs.setdefault(plane_of_ev(ev), ev)
        self._up = sum(1 << plane for plane in self._evs)
        self._last = MAX_PLANES - 1

    def select(self, room: int) -> int | None:
        """The EV of the next plane of `room`."""
        room &= self._up
        if not room:
            return None
        self._last = next_plane(room, self._last)
        return self._evs[self._last]

    def plane_of(self, ev: int) -> int:
        """The plane of an EV."""
        return plane_of_ev(ev)

    def answers_on(self, plane: int) -> None:
        """No reaction."""

    def refresh(self, ev: int, now_ns: int) -> None:
        """No reaction."""

    def heard(self, ev: int) -> None:
        """No reaction."""

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """Take a plane in or out."""
        bit = 1 << plane
        self._up = self._up | bit if up and plane in self._evs else self._up & ~bit

    def next_probe(self, now_ns: int) -> int | None:
        """None: nothing is ever probed."""
        return None

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """No reaction."""

    def next_timer(self) -> int | None:
        """None: nothing is ever probed."""
        return None
