"""Completion queues and completion channels."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from host.qp.work import CompletionQueue, WorkCompletion
from host.verbs.errors import InvalidArgumentError, NotSupportedError, check_range
from host.verbs.resource import UNACKNOWLEDGED, Resource

if TYPE_CHECKING:
    from host.verbs.context import Context

MAX_CQE = 1 << 20


class CompChannel(Resource):
    """mrc_comp_channel: which of its CQs have got something, in order.

    There is no file descriptor, for there is no kernel. `notify` takes its place: it is called when
    an event is added, from within the NIC's work, and so may only arrange for the application to be
    called later (set an asyncio event, schedule a call).
    """

    __slots__ = ("_events", "notify")

    kind = "completion channel"

    def __init__(self, context: Context, notify: Callable[[], None] | None) -> None:
        super().__init__(context)
        self.notify = notify
        self._events: deque[NotifyingQueue] = deque()

    def push(self, cq: NotifyingQueue) -> None:
        """A CQ that wanted to be notified has a completion (the CQ calls this)."""
        self._events.append(cq)
        if self.notify is not None:
            self.notify()

    def forget(self, cq: NotifyingQueue) -> None:
        """A CQ is destroyed: events of it that nobody took are gone."""
        self._events = deque(other for other in self._events if other is not cq)

    def get_cq_event(self) -> NotifyingQueue | None:
        """mrc_get_cq_event: the CQ with the oldest event, or None (the original waits instead).

        It is to be acknowledged with `ack_cq_events`.
        """
        self.check_open()
        self.context.device.dispatch()
        if not self._events:
            return None
        cq = self._events.popleft()
        cq.acquire(UNACKNOWLEDGED)
        return cq

    def _destroy(self) -> None:
        self._events.clear()


class NotifyingQueue(Resource):
    """A queue that can tell of what it gets through a completion channel."""

    __slots__ = ("channel", "cq_context")

    def __init__(
        self, context: Context, cqe: int, cq_context: Any, channel: CompChannel | None
    ) -> None:
        check_range("cqe", cqe, 1, MAX_CQE)
        if channel is not None:
            channel.check_usable_in(context)
        super().__init__(context)
        self.cq_context = cq_context
        self.channel = channel
        if channel is not None:
            channel.acquire(self.kind)

    def req_notify_cq(self, solicited_only: bool = False) -> None:
        """mrc_req_notify_cq: the next entry makes an event of the channel, once.

        As there, an entry that is already in the queue makes none: ask, then poll once more.
        Raises InvalidArgumentError without a channel, NotSupportedError for `solicited_only`.
        """
        self.check_open()
        if solicited_only:
            raise NotSupportedError("solicited_only: the NIC has no solicited events")
        if self.channel is None:
            raise InvalidArgumentError(f"the {self.kind} has no completion channel")
        self._arm()

    @abstractmethod
    def _arm(self) -> None:
        """Push the queue to the channel at the next entry."""

    def ack_cq_events(self, nevents: int = 1) -> None:
        """mrc_ack_cq_events: events from `CompChannel.get_cq_event` are dealt with.

        While some are not, the queue cannot be destroyed (there, destroying waits for them).
        """
        self.check_open()
        check_range("nevents", nevents, 0, self._users[UNACKNOWLEDGED])
        self._users[UNACKNOWLEDGED] -= nevents

    def _destroy(self) -> None:
        if self.channel is not None:
            self.channel.forget(self)
            self.channel.release(self.kind)


class Cq(NotifyingQueue):
    """A completion queue (mrc_cq), made by `Context.create_cq`."""

    __slots__ = ("_core",)

    kind = "CQ"

    def __init__(
        self, context: Context, cqe: int, cq_context: Any, channel: CompChannel | None
    ) -> None:
        super().__init__(context, cqe, cq_context, channel)
        self._core = context.device.nic.create_cq(cqe)

    def __repr__(self) -> str:
        return f"Cq({len(self._core)} of {self._core.capacity})"

    def __len__(self) -> int:
        return len(self._core)

    @property
    def cqe(self) -> int:
        """How many completions it holds."""
        return self._core.capacity

    @property
    def core(self) -> CompletionQueue:
        """The NIC's queue."""
        return self._core

    def poll_cq(self, num_entries: int | None = None) -> list[WorkCompletion]:
        """mrc_poll_cq: up to `num_entries` of the oldest completions (None: all there are)."""
        self.check_open()
        if num_entries is not None and num_entries < 0:
            raise InvalidArgumentError(f"num_entries: {num_entries} does not fit: it is negative")
        return self._core.poll(num_entries)

    def _arm(self) -> None:
        self._core.request_notify(self._got_one)

    def _got_one(self, _: CompletionQueue) -> None:
        if self._open and self.channel is not None:
            self.channel.push(self)

    def _destroy(self) -> None:
        super()._destroy()
        self.context.forget_events(self)
