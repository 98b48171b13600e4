"""One direction of a link: frames go in at one end and come out at the other after its delay.

Whoever sends serialises: a switch's traffic manager and a NIC's ports hand over frames with the
time their last bit leaves. A frame arrives with its last bit. A wire without impairments costs one
event a frame and nothing else; it counts nothing, because both its ends do.
"""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappush
from typing import TYPE_CHECKING, Final, Protocol

from sim.loop import Call, Event, EventLoop

if TYPE_CHECKING:
    from sim.capture import Capture

LINK_DOWN: Final = "link down"


class Impairment(Protocol):
    """Something that a fault does to frames on a wire."""

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """Return the frame as it goes on; write into `passage` what else becomes of it."""
        ...


class Passage:
    """What happens to one frame on its way: changed by impairments in turn."""

    __slots__ = ("copies", "corrupted", "delay_ns", "lost", "random")

    #: What the impairment at work draws from
    random: random.Random

    def __init__(self, delay_ns: int) -> None:
        self.delay_ns = delay_ns
        self.copies = 1
        self.corrupted = False
        #: The cause, where the frame is lost
        self.lost: str | None = None


class Wire:
    """One direction of a link.

    Args:
        name: of the link, then the sending node, for seeds and reports.
        loop: the clock.
        delay_ns: propagation delay.
        arrive: called as `arrive(now_ns, port, frame)` when a frame is there whole.
        port: the port at the far end.

    Attributes:
        lost: frames that went in and did not come out, by cause.
        duplicated: frames that came out once more than they went in.
        corrupted: frames of which a bit was turned over.
    """

    __slots__ = (
        "_arrive",
        "_capture",
        "_from",
        "_heap",
        "_holds",
        "_last_ns",
        "_loop",
        "_number",
        "_plain",
        "_to",
        "corrupted",
        "delay_ns",
        "duplicated",
        "impairments",
        "lost",
        "name",
        "port",
        "receive",
        "up",
    )

    def __init__(
        self,
        name: str,
        loop: EventLoop,
        delay_ns: int,
        arrive: Call,
        port: int,
    ) -> None:
        self.name = name
        self.delay_ns = delay_ns
        self.port = port
        self.receive: Call = arrive
        self.up = True
        self._holds = 0
        #: Each with what it draws from
        self.impairments: list[tuple[Impairment, random.Random]] = []
        self.lost: Counter[str] = Counter()
        self.duplicated = 0
        self.corrupted = 0
        self._arrive = arrive
        self._loop = loop
        self._heap = loop.heap
        self._number = loop.number
        self._plain = True
        self._capture: Capture | None = None
        self._from = ""
        self._to = ""

    def send(self, left_ns: int, frame: bytes) -> None:
        """A frame whose last bit leaves at `left_ns`, which may be to come."""
        if self._plain:
            heappush(
                self._heap,
                (left_ns + self.delay_ns, self._number(), self.receive, self.port, frame),
            )
        else:
            self._send_impaired(left_ns, frame)

    def _send_impaired(self, left_ns: int, frame: bytes) -> None:
        if self._capture is not None:
            self._capture.write(self._from, self._loop.now_ns, frame)
        if not self.up:
            self.lost[LINK_DOWN] += 1
            return
        passage = Passage(self.delay_ns)
        for impairment, draws in self.impairments:
            passage.random = draws
            frame = impairment.impair(frame, passage)
            if passage.lost is not None:
                self.lost[passage.lost] += 1
                return
        for _ in range(passage.copies):
            heappush(
                self._heap,
                (left_ns + passage.delay_ns, self._number(), self.receive, self.port, frame),
            )
        self.duplicated += passage.copies - 1
        self.corrupted += passage.corrupted

    def set_up(self, up: bool) -> int:
        """Take the wire down, or let go of it: it is up when nobody holds it down.

        Going down loses what is on it. Returns how many frames.
        """
        self._holds += -1 if up else 1
        self.up = not self._holds
        self._look()
        if up:
            return 0
        lost = len(self._loop.withdraw(self._is_mine))
        self.lost[LINK_DOWN] += lost
        return lost

    def _is_mine(self, event: Event) -> bool:
        return event[3] == self.port and event[2] == self.receive

    def in_flight(self) -> int:
        """Frames on the wire; costs time in proportion to all events to come."""
        return sum(map(self._is_mine, self._loop.heap))

    def add(self, impairment: Impairment, draws: random.Random) -> None:
        """Impair frames sent from now on; `draws` is the impairment's own on this wire."""
        self.impairments.append((impairment, draws))
        self._look()

    def remove(self, impairment: Impairment) -> None:
        """Stop doing so."""
        self.impairments = [each for each in self.impairments if each[0] is not impairment]
        self._look()

    def capture(self, capture: Capture, sender: str, receiver: str) -> None:
        """Write every frame to the captures of both ends; before anything was sent."""
        self._capture = capture
        self._from = sender
        self._to = receiver
        self.receive = self._receive_captured
        self._look()

    def _receive_captured(self, now_ns: int, port: int, frame: bytes) -> None:
        assert self._capture is not None
        self._capture.write(self._to, now_ns, frame)
        self._arrive(now_ns, port, frame)

    def _look(self) -> None:
        self._plain = self.up and not self.impairments and self._capture is None
