"""All EVs that a queue pair may use, by plane."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from functools import lru_cache

from topologies.addressing import EV_BITS, MAX_PLANES, PLANE_BITS, ev_universe

_MAX_EV = (1 << EV_BITS) - 1


def plane_of_ev(ev: int) -> int:
    """The plane that an EV of the addressing plan names, which has it in the lowest bits."""
    return ev & MAX_PLANES - 1


class EvUniverse:
    """Distinct EVs and the plane (= port of the NIC) that each one leaves on.

    Queue pairs share a universe; nothing of it changes. Raises ValueError, naming what is wrong,
    for no EVs at all, an EV that is there twice, one of more than 32 bits, or a plane that the NIC
    does not have.
    """

    __slots__ = ("by_plane", "plane_of")

    def __init__(self, planes: int, evs: Iterable[tuple[int, int]]) -> None:
        by_plane: list[list[int]] = [[] for _ in range(planes)]
        self.plane_of: dict[int, int] = {}
        for ev, plane in evs:
            if not 0 <= ev <= _MAX_EV:
                raise ValueError(f"EV {ev:#x} does not fit: it must have {EV_BITS} bits")
            if not 0 <= plane < planes:
                raise ValueError(
                    f"EV {ev:#010x} is of plane {plane}, but the NIC has planes 0..{planes - 1}"
                )
            if ev in self.plane_of:
                raise ValueError(f"EV {ev:#010x} is there twice; EVs must be distinct")
            self.plane_of[ev] = plane
            by_plane[plane].append(ev)
        if not self.plane_of:
            raise ValueError("there is no EV; at least one is needed")
        self.by_plane = tuple(map(tuple, by_plane))

    def __len__(self) -> int:
        return len(self.plane_of)

    def without(self, evs: Collection[int]) -> EvUniverse:
        """The universe less some EVs; itself where that would leave none."""
        left = [(ev, plane) for ev, plane in self.plane_of.items() if ev not in evs]
        if not left or len(left) == len(self.plane_of):
            return self
        return EvUniverse(len(self.by_plane), left)

    @property
    def evs(self) -> tuple[int, ...]:
        """All of them, plane by plane."""
        return tuple(self.plane_of)


@lru_cache(maxsize=64)
def plan_universe(planes: int, uplinks: int) -> EvUniverse:
    """The EVs that name the paths between two hosts, by the addressing plan."""
    return EvUniverse(planes, ((ev, plane_of_ev(ev)) for ev in ev_universe(planes, uplinks)))


def hashed_universe(planes: int, evs_per_plane: int, rng: random.Random) -> EvUniverse:
    """EVs for a fabric that hashes them: random numbers with the plane in the lowest bits."""
    return EvUniverse(
        planes,
        (
            (number << PLANE_BITS | plane, plane)
            for plane in range(planes)
            for number in rng.sample(range(1 << EV_BITS - PLANE_BITS), evs_per_plane)
        ),
    )
