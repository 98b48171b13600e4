"""What the core asks of the paths of a queue pair, and tells them.

An entropy value (EV) names a path. The core chooses one when a packet leaves, tells how it fared,
and asks which ones to probe. `room` and `up` are bit masks of planes: bit p stands for plane p, and
plane p is port p of the NIC. Methods get feedback that a peer wrote: an EV that is not the
object's own is passed over in silence, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from host.wire.constants import NackReason


@dataclass(frozen=True, slots=True)
class EvEvent:
    """An EV changed its state (`old`, `new` as the state table spells them).

    SKIP is not reported. `replaced_by` is the EV of the same plane that took its place in the
    active set, if one did.
    """

    now_ns: int
    ev: int
    old: str
    new: str
    cause: str
    replaced_by: int | None = None


class EvSelector(Protocol):
    """The EVs of one queue pair's requestor."""

    #: Drained by the NIC after every call
    events: list[EvEvent]

    def select(self, room: int) -> int | None:
        """The EV for the packet that leaves now, on a plane of `room`; None: none there."""
        ...

    def plane_of(self, ev: int) -> int:
        """The plane (= port) of an EV of this object."""
        ...

    def usable_planes(self) -> int:
        """Mask of the planes on which `select` could find an EV if they had room."""
        ...

    def on_sack(self, ev: int, m: int, now_ns: int) -> None:
        """A SACK reflected `ev` with M = `m` (SackM)."""
        ...

    def on_nack(self, ev: int, reason: NackReason, now_ns: int) -> None:
        """A NACK reflected `ev`."""
        ...

    def on_timeout(self, ev: int, sent_ns: int, now_ns: int) -> None:
        """A packet sent on `ev` at `sent_ns` met its local ACK timeout without SACK or NACK."""
        ...

    def on_probe_answer(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was answered."""
        ...

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was not answered in time."""
        ...

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """The plane came up or went down, here (port) or there (port status update)."""
        ...

    def next_probe(self, now_ns: int) -> int | None:
        """An EV to be probed now; it counts as probed. None: nothing to probe yet."""
        ...

    def next_timer(self) -> int | None:
        """Absolute ns at which `next_probe` has something to say; None = never."""
        ...


class ReverseEvs(Protocol):
    """One known-good EV per plane towards a peer, for control packets."""

    def select(self, room: int) -> int | None:
        """The EV for a control packet that leaves now, on a plane of `room`; None: none there."""
        ...

    def plane_of(self, ev: int) -> int:
        """The plane (= port) of an EV that `select` or `next_probe` gave."""
        ...

    def answers_on(self, plane: int) -> None:
        """Answers of responders leave on a plane: its EV is to be kept known good."""
        ...

    def refresh(self, ev: int, now_ns: int) -> None:
        """A packet of ours on `ev` was answered: the EV is good."""
        ...

    def heard(self, ev: int) -> None:
        """Data of the peer came in on `ev`, which names the same cables in this direction."""
        ...

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """As EvSelector.set_plane_up."""
        ...

    def next_probe(self, now_ns: int) -> int | None:
        """An EV for an EV probe (endpoint operation) now; it counts as probed. None: not yet."""
        ...

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was not answered in time."""
        ...

    def next_timer(self) -> int | None:
        """Absolute ns at which `next_probe` has something to say; None = never."""
        ...
