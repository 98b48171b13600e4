"""The rotation: which EV of the active set the next packet takes.

mrc-protocol.md, section 3, "Selection": scan the rotation from a per-QP cursor; the first SKIP EV
met is set back to GOOD and passed over for this packet; go on to the next GOOD EV; should no other
be GOOD, come round to the one just restored.

The rotation is laid out so that the scan seldom looks at more than one EV. It is a sequence of
rows, each with one EV of every usable plane in pseudo-random order; every plane has its EVs in a
ring, shuffled anew each time round, with a cursor of its own. A plane whose port has no room keeps
its turn until the row is over, and its EVs keep theirs. So planes get the same number of packets,
and the EVs of a plane too, whatever the order in which ports have room.

A second SKIP EV met for the same packet changes places with the next GOOD EV of its plane: it
neither returns now (one a packet) nor loses more than its one turn.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import repeat

from topologies.addressing import MAX_PLANES

#: A ring is shuffled when it has come round, but not sooner than after so many turns
_SHUFFLE_TURNS = 32

#: Rows run through this many orders of planes
_ROW_ORDERS = 64


def _first_of(order: Sequence[int]) -> bytes:
    """By a mask of planes: the one of them that stands first in `order`."""
    table = bytearray(1 << MAX_PLANES)
    # What stands further ahead overwrites what stands behind it
    for plane in reversed(order):
        bit = 1 << plane
        for high in range(bit, 1 << MAX_PLANES, 2 * bit):
            table[high : high + bit] = bytes((plane,)) * bit
    return bytes(table)


@cache
def _row_tables() -> tuple[bytes, ...]:
    """The orders of planes in rows, as tables of `_first_of`; the same for all, as a constant."""
    rng = random.Random(0)
    tables = []
    for _ in range(_ROW_ORDERS):
        order = list(range(MAX_PLANES))
        rng.shuffle(order)
        tables.append(_first_of(order))
    return tuple(tables)


class PlaneRing:
    """The active EVs of one plane in their order, and which of them are in SKIP."""

    __slots__ = ("_rng", "_rounds", "cursor", "order", "skip", "slot_of")

    def __init__(self, evs: Iterable[int], rng: random.Random) -> None:
        self._rng = rng
        self.order: list[int] = list(evs)
        self.slot_of: dict[int, int] = {}
        #: The slot whose turn is next
        self.cursor = 0
        #: Bit i: the EV in slot i is in SKIP
        self.skip = 0
        #: Times round before the next shuffle
        self._rounds = 0
        self.shuffle()

    def __len__(self) -> int:
        return len(self.order)

    def __contains__(self, ev: int) -> bool:
        return ev in self.slot_of

    def come_round(self) -> None:
        """Begin a new time round."""
        self.cursor = 0
        self._rounds -= 1
        if self._rounds <= 0:
            self.shuffle()

    def shuffle(self) -> None:
        """Begin a new time round, in a new order."""
        order = self.order
        skipped = self.skipped() if self.skip else ()
        if len(order) > 1:
            rnd = self._rng.random
            order.sort(key=lambda _: rnd())
        self._rounds = _SHUFFLE_TURNS // len(order) if order else 1
        self.slot_of = dict(zip(order, range(len(order)), strict=True))
        self.cursor = 0
        self.skip = 0
        for ev in skipped:
            self.skip |= 1 << self.slot_of[ev]

    def skipped(self) -> list[int]:
        """The EVs in SKIP, in their order."""
        return [ev for slot, ev in enumerate(self.order) if self.skip >> slot & 1]

    def take(self) -> int:
        """The EV whose turn it is; the next one's turn comes."""
        cursor = self.cursor
        ev = self.order[cursor]
        self.cursor = cursor + 1
        if cursor + 1 == len(self.order):
            self.come_round()
        return ev

    def bring_good(self, other_than: int) -> bool:
        """Put the next GOOD EV that is not `other_than` where the cursor is. False: there is none.

        The one that was there takes its place.
        """
        size = len(self.order)
        good = ~self.skip & (1 << size) - 1
        slot = self.slot_of.get(other_than)
        if slot is not None:
            good &= ~(1 << slot)
        if not good:
            return False
        cursor = self.cursor
        good = good >> cursor << cursor or good
        found = (good & -good).bit_length() - 1
        if found != cursor:
            order = self.order
            order[cursor], order[found] = order[found], order[cursor]
            self.slot_of[order[cursor]] = cursor
            self.slot_of[order[found]] = found
            bits = self.skip >> cursor ^ self.skip >> found
            if bits & 1:
                self.skip ^= 1 << cursor | 1 << found
        return True

    def replace(self, ev: int, by: int) -> None:
        """Another EV takes the place of one, as GOOD."""
        slot = self.slot_of.pop(ev)
        self.order[slot] = by
        self.slot_of[by] = slot
        self.skip &= ~(1 << slot)

    def add(self, ev: int) -> None:
        """An EV joins as GOOD; its turn comes last this time round."""
        self.slot_of[ev] = len(self.order)
        self.order.append(ev)

    def remove(self, ev: int) -> None:
        """An EV leaves."""
        slot = self.slot_of.pop(ev)
        del self.order[slot]
        self.slot_of = dict(zip(self.order, range(len(self.order)), strict=True))
        below = (1 << slot) - 1
        self.skip = self.skip & below | (self.skip >> slot + 1) << slot
        if slot < self.cursor:
            self.cursor -= 1
        if self.cursor >= len(self.order):
            self.come_round()


class Rotation:
    """The rings of all planes, and whose turn it is among the planes."""

    __slots__ = (
        "_first",
        "_left",
        "_row",
        "_stride",
        "_tables",
        "all_skipped",
        "passed_over",
        "rings",
        "usable",
    )

    def __init__(self, evs_of_planes: Sequence[Iterable[int]], rng: random.Random) -> None:
        self.rings = tuple(map(PlaneRing, evs_of_planes, repeat(rng)))
        #: Mask of the planes that may be used and have an EV
        self.usable = 0
        #: Mask of the planes all of whose EVs are in SKIP
        self.all_skipped = 0
        #: Mask of the planes that still have their turn in this row
        self._left = 0
        self._tables = _row_tables()
        self._row = rng.randrange(_ROW_ORDERS)
        self._stride = rng.randrange(1, _ROW_ORDERS, 2)
        self._first = self._tables[self._row]
        #: Turns that EVs in SKIP passed over, ever
        self.passed_over = 0

    def select(self, room: int) -> int | None:
        """The EV of the next packet, on a plane of the mask `room`; None: there is none."""
        room &= self.usable
        turn = self._left & room
        if not turn:
            if not room:
                return None
            turn = self._next_row() & room
        plane = self._first[turn]
        self._left ^= 1 << plane
        ring = self.rings[plane]
        cursor = ring.cursor
        if ring.skip >> cursor & 1:
            return self._select_past(plane, room)
        # PlaneRing.take, here for speed
        ev = ring.order[cursor]
        cursor += 1
        if cursor == len(ring.order):
            ring.come_round()
        else:
            ring.cursor = cursor
        return ev

    def _next_row(self) -> int:
        """Every usable plane has a turn again, in the next order."""
        self._row = self._row + self._stride & _ROW_ORDERS - 1
        self._first = self._tables[self._row]
        self._left = self.usable
        return self._left

    def _select_past(self, plane: int, room: int) -> int:
        """The EV at the cursor of `plane` is the first in SKIP that this packet meets."""
        ring = self.rings[plane]
        ring.skip ^= 1 << ring.cursor
        restored = ring.take()
        self.passed_over += 1
        # What is left of this row, then one whole row: every plane with room is looked at, save
        # those all of whose EVs are in SKIP
        room &= ~self.all_skipped
        for _ in range(2):
            while turn := self._left & room:
                other = self._first[turn]
                self._left ^= 1 << other
                if self.rings[other].bring_good(other_than=restored):
                    self.all_skipped &= ~(1 << plane)
                    return self.rings[other].take()
            self._next_row()
        self.all_skipped &= ~(1 << plane)
        return restored

    def mark(self, plane: int, ev: int) -> bool:
        """An EV is in SKIP from now on, if it is one of the rotation's. False: it is not."""
        ring = self.rings[plane]
        slot = ring.slot_of.get(ev)
        if slot is None:
            return False
        ring.skip |= 1 << slot
        if ring.skip + 1 == 1 << len(ring.order):
            self.all_skipped |= 1 << plane
        return True

    def changed(self, plane: int, up: bool) -> None:
        """EVs came to a plane or left it, or it came up or went down."""
        ring = self.rings[plane]
        bit = 1 << plane
        if ring.order and up:
            self.usable |= bit
        else:
            self.usable &= ~bit
        if ring.skip + 1 == 1 << len(ring.order):
            self.all_skipped |= bit
        else:
            self.all_skipped &= ~bit
