"""EV events: changes of the states of EVs, of profiles that are watched."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from host.verbs.cq import CompChannel, NotifyingQueue
from host.verbs.ctl.attributes import EvEvent
from host.verbs.errors import check_range

if TYPE_CHECKING:
    from host.verbs.context import Context
    from host.verbs.ctl.table import ProfileTable


class EvEventCq(NotifyingQueue):
    """A queue of EV events, made by `Control.create_ev_event_cq`.

    It gets the events of all EV profiles of the device, as their event masks say. It does not
    overrun: what does not fit is counted, and the next event that does has the count.
    """

    __slots__ = ("_dropped", "_events", "_notify", "_table", "cqe")

    kind = "EV event CQ"

    def __init__(
        self,
        context: Context,
        table: ProfileTable,
        cqe: int,
        cq_context: Any,
        channel: CompChannel | None,
    ) -> None:
        super().__init__(context, cqe, cq_context, channel)
        self.cqe = cqe
        self._table = table
        self._events: deque[EvEvent] = deque()
        self._dropped = 0
        self._notify = False
        table.watchers.append(self)

    def __len__(self) -> int:
        if not self.closed:
            self.context.device.dispatch()
        return len(self._events)

    def push(self, event: EvEvent) -> None:
        """An event of a watched profile (the table calls this)."""
        if len(self._events) >= self.cqe:
            self._dropped += 1
            return
        dropped, self._dropped = self._dropped, 0
        self._events.append(replace(event, drop_count=dropped) if dropped else event)
        if self._notify:
            self._notify = False
            assert self.channel is not None
            self.channel.push(self)

    def poll_ev_event(self, num_entries: int | None = None) -> list[EvEvent]:
        """mrc_ctl_poll_ev_event: up to `num_entries` of the oldest events (None: all there are)."""
        self.check_open()
        self.context.device.dispatch()
        if num_entries is None:
            num_entries = len(self._events)
        check_range("num_entries", num_entries, 0, 1 << 31)
        return [self._events.popleft() for _ in range(min(num_entries, len(self._events)))]

    def _arm(self) -> None:
        self._notify = True

    def _destroy(self) -> None:
        self._table.watchers.remove(self)
        super()._destroy()
