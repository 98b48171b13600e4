"""Reliability probes of a requestor: those to be sent, and those that wait for an answer.

mrc-protocol.md, section 3: no PSN, elicits a SACK with pr=1; tests an EV, or asks what arrived when
SACKs seem lost.
"""

from __future__ import annotations

from collections import deque

#: Probes that may be out or queued at a time, of all purposes
MAX_PROBES = 256

#: In place of an EV: whichever has its turn
ANY_EV = -1


class ReliabilityProbes:
    """`queue` has those to be sent: EV or `ANY_EV`, and whether path selection asked for it."""

    __slots__ = ("_last_id", "_out", "_timeout_ns", "queue")

    def __init__(self, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        self.queue: deque[tuple[int, bool]] = deque()
        #: id → EV, when it was sent, whether path selection asked; in the order of sending
        self._out: dict[int, tuple[int, int, bool]] = {}
        self._last_id = 0

    def out(self) -> int:
        """How many wait for their answers."""
        return len(self._out)

    def room(self) -> bool:
        """Whether one more may be asked for."""
        return len(self._out) + len(self.queue) < MAX_PROBES

    def ask_ev(self, ev: int) -> None:
        """Path selection wants to know of an EV; there must be room."""
        self.queue.append((ev, True))

    def ask_for_sack(self) -> None:
        """One at a time on any EV: its SACK says what arrived."""
        if any(not asked for _, asked in self.queue):
            return
        if any(not asked for _, _, asked in self._out.values()):
            return
        if self.room():
            self.queue.append((ANY_EV, False))

    def sent(self, ev: int, now_ns: int, asked: bool) -> int:
        """One leaves on an EV. Returns its id."""
        self._last_id = self._last_id + 1 & 0xFFFF
        self._out[self._last_id] = ev, now_ns, asked
        return self._last_id

    def answered(self, probe_id: int) -> int | None:
        """One was answered. Returns its EV if path selection waits for that."""
        probe = self._out.pop(probe_id, None)
        return probe[0] if probe is not None and probe[2] else None

    def next_deadline(self) -> int | None:
        """When the oldest has had its time; None: none is out."""
        if not self._out:
            return None
        # Sent in order, and each given the same time
        _, sent_ns, _ = next(iter(self._out.values()))
        return sent_ns + self._timeout_ns

    def pop_due(self, now_ns: int) -> int | None:
        """EV of one that was not answered in time, and that path selection waits for."""
        while self._out:
            probe_id, (ev, sent_ns, asked) = next(iter(self._out.items()))
            if sent_ns + self._timeout_ns > now_ns:
                return None
            del self._out[probe_id]
            if asked:
                return ev
        return None

    def close(self) -> None:
        """Give all up."""
        self._out.clear()
        self.queue.clear()
