"""Whose turn it is to send data: queue pairs that are READY, fair by bytes.

Deficit round robin over a ring of requestors. One that finds the congestion window it shares
full waits at the window. Room there wakes the first who waits, and when that one has had its turn
the next, so that feedback costs the same with one queue pair to a destination as with a thousand.
"""

from __future__ import annotations

from collections import deque

from host.qp.peer import SharedWindow
from host.qp.requestor import Requestor
from host.qp.sender import Verdict
from host.qp.states import SEND_TRANSITIONS, SendEvent, SendState


class SendScheduler:
    """The ring."""

    __slots__ = ("quantum_bytes", "ring")

    def __init__(self, quantum_bytes: int) -> None:
        #: Bytes that a queue pair may send before the next one's turn comes: a whole frame at least
        self.quantum_bytes = quantum_bytes
        #: Those in READY, and some that were; every member has `in_ring` set
        self.ring: deque[Requestor] = deque()

    def event(self, requestor: Requestor, event: SendEvent) -> None:
        """Move a requestor by the table of `states`."""
        state = SEND_TRANSITIONS[requestor.send_state][event]
        requestor.send_state = state
        if state is SendState.READY and not requestor.in_ring:
            requestor.in_ring = True
            self.ring.append(requestor)

    def next_packet(self, room: int, now_ns: int) -> tuple[int, bytes] | None:
        """(port, frame) of the next data packet, or None where nobody may send on these ports."""
        ring = self.ring
        passed_over = 0
        while passed_over < len(ring):
            requestor = ring[0]
            if requestor.send_state is not SendState.READY:
                ring.popleft()
                requestor.in_ring = False
                continue
            sent = requestor.next_packet(room, now_ns)
            window = requestor.window
            was_woken = window.woken is requestor
            if was_woken:
                window.woken = None
            if sent is not None:
                requestor.credit_bytes -= len(sent[1])
                if requestor.credit_bytes <= 0:
                    requestor.credit_bytes += self.quantum_bytes
                    if window.waiting:
                        # Others wait for this window: behind them
                        self._wait(requestor, first=False)
                    else:
                        ring.rotate(-1)
                if window.waiting:
                    self.wake(window)
                return sent
            verdict = requestor.sender.verdict
            if verdict is Verdict.WINDOW_FULL:
                self._wait(requestor, first=was_woken)
                continue
            if verdict is Verdict.NO_ROOM:
                ring.rotate(-1)
                passed_over += 1
            else:
                ring.popleft()
                requestor.in_ring = False
                if verdict is Verdict.HELD:
                    self.event(requestor, SendEvent.BLOCKED)
                else:
                    waits = requestor.has_unacknowledged()
                    self.event(requestor, SendEvent.SENT_ALL if waits else SendEvent.ACKED_ALL)
            # Room in its window that it leaves to others
            if window.waiting:
                self.wake(window)
        return None

    def _wait(self, requestor: Requestor, *, first: bool) -> None:
        """The first of the ring goes to those who wait for its window."""
        self.ring.popleft()
        requestor.in_ring = False
        self.event(requestor, SendEvent.BLOCKED)
        requestor.waits_for_window = True
        waiting = requestor.window.waiting
        if first:
            waiting.appendleft(requestor)
        else:
            waiting.append(requestor)

    def feedback(self, requestor: Requestor) -> None:
        """Something was heard of a requestor's packets, or its timers ran: look at it anew."""
        state = requestor.send_state
        if state is SendState.PENDING:
            if not requestor.waits_for_window:
                self.event(requestor, SendEvent.UNBLOCKED)
        elif state is SendState.ACTIVE:
            if requestor.has_work():
                self.event(requestor, SendEvent.WORK)
            elif not requestor.has_unacknowledged():
                self.event(requestor, SendEvent.ACKED_ALL)
        elif state is SendState.IDLE and requestor.has_work():
            self.event(requestor, SendEvent.WORK)
        if requestor.window.waiting:
            self.wake(requestor.window)

    def wake(self, window: SharedWindow) -> None:
        """If a window has room, the first who waits for it may try; the next when that one has."""
        woken = window.woken
        if woken is not None and woken.send_state is SendState.READY:
            return
        window.woken = None
        controller = window.controller
        waiting = window.waiting
        while waiting and controller.inflight_bytes < controller.cwnd_bytes:
            requestor = waiting.popleft()
            requestor.waits_for_window = False
            if requestor.send_state is SendState.PENDING:
                self.event(requestor, SendEvent.UNBLOCKED)
                window.woken = requestor
                return
