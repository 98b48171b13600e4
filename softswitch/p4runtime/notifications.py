"""What the switch has to say by itself: packet-ins, digest lists, idle timeouts.

The packet loop calls in with the switch's lock held and is never kept waiting: messages are only
queued here, and made by the thread that sends them. One timer thread serves what has to wait
(digest lists, idle timeouts); all state it looks at is guarded by the switch's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.digests import DigestListToSend
from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.idle_timeouts import collect_idle
from softswitch.p4runtime.pipeline_config import PipelineConfigs
from softswitch.p4runtime.state import PipelineState
from softswitch.p4runtime.stream_channel import (
    Sessions,
    digest_list_message,
    idle_timeout_message,
    packet_in_message,
)

MIN_TIMER_NS = 5_000_000
"""Timeouts are served at this resolution, however short they are."""


class Notifier:
    """Takes the switch's callbacks and runs the timer thread between `start` and `stop`."""

    def __init__(
        self,
        access: SwitchAccess,
        configs: PipelineConfigs,
        sessions: Sessions,
        failed: Callable[[str, Exception], P4RuntimeError],
    ) -> None:
        self._access = access
        self._configs = configs
        self._sessions = sessions
        self._failed = failed
        self._changed = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="p4runtime-timer", daemon=True)
        self.undelivered = {"packet_in": 0, "digest": 0}

    def start(self) -> None:
        """Register with the switch and start the timer."""
        self._access.set_callbacks(self._packet_in, self._digest)
        self._thread.start()

    def stop(self) -> None:
        """Undo `start`."""
        self._access.set_callbacks(None, None)
        self._stopping = True
        self._changed.set()
        self._thread.join()

    def wake(self) -> None:
        """Look at the timers again: something was written that may have started one."""
        self._changed.set()

    def acknowledge(self, state: PipelineState, digest_id: int, list_id: int) -> None:
        """A DigestListAck of the primary."""
        with self._access.lock:
            state.digests.acknowledge(digest_id, list_id)

    def primary_changed(self) -> None:
        """Digests that the previous primary was told of are news to the next one."""
        state = self._configs.active
        if state is not None:
            with self._access.lock:
                state.digests.forget_sent()

    # -- callbacks of the packet loop, switch's lock held --------------------------------

    def _packet_in(self, frame: bytes) -> bool:
        try:
            state = self._configs.active
            if state is not None and self._sessions.notify_primaries(
                lambda: packet_in_message(state, frame)
            ):
                return True
            self.undelivered["packet_in"] += 1
        except Exception as exception:  # nothing may reach the packet loop
            self._failed("packet-in", exception)
        return False

    def _digest(self, name: str, values: tuple[int, ...]) -> None:
        try:
            state = self._configs.active
            digest_id = None if state is None else state.binding.digest_ids.get(name)
            if state is None or digest_id is None:
                self.undelivered["digest"] += 1
                return
            to_send = state.digests.push(digest_id, values, self._access.now_ns())
            if to_send is not None:
                self._send(state, to_send)
            else:
                self._changed.set()
        except Exception as exception:  # nothing may reach the packet loop
            self._failed("digest", exception)

    # -- timer ---------------------------------------------------------------------------

    def _run(self) -> None:
        wait_ns: int | None = None
        while True:
            timeout_s = None if wait_ns is None else max(wait_ns, MIN_TIMER_NS) / 1e9
            self._changed.wait(timeout_s)
            self._changed.clear()
            if self._stopping:
                return
            try:
                wait_ns = self._serve_timers()
            except Exception as exception:
                self._failed("timer", exception)
                wait_ns = MIN_TIMER_NS

    def _serve_timers(self) -> int | None:
        """Do what is due; returns how long there is nothing to do, in ns, None = until woken."""
        state = self._configs.active
        if state is None:
            return None
        with self._access.lock:
            now_ns = self._access.now_ns()
            for to_send in list(state.digests.handle_timer(now_ns)):
                self._send(state, to_send)
            idle, idle_ns = collect_idle(state, now_ns)
            if idle:
                timestamp_ns = time.time_ns()
                self._sessions.notify_primaries(lambda: idle_timeout_message(idle, timestamp_ns))
            times_ns = [t for t in (state.digests.next_timer(), idle_ns) if t is not None]
        return min(times_ns) - now_ns if times_ns else None

    def _send(self, state: PipelineState, to_send: DigestListToSend) -> None:
        timestamp_ns = time.time_ns()
        if not self._sessions.notify_primaries(
            lambda: digest_list_message(state, to_send, timestamp_ns)
        ):
            self.undelivered["digest"] += len(to_send.messages)
