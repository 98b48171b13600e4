"""Events of the NIC on their way to who wants them, and the asynchronous events of mrc.h."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from host.adapter import ChannelAdapter
from host.qp.work import WcStatus
from host.verbs.flags import AsyncEventType

if TYPE_CHECKING:
    from host.verbs.cq import Cq
    from host.verbs.qp import QueuePair

E = TypeVar("E")

#: Asynchronous events that wait to be taken; beyond, the oldest are lost
MAX_ASYNC_EVENTS = 1 << 12

#: What an event is about: a CQ, a QP, a port (from 1) or a peer and its planes that are up
Element: TypeAlias = "Cq | QueuePair | int | tuple[int, int]"


class EventRouter:
    """Takes the events of a NIC and hands each to those who asked for its kind."""

    __slots__ = ("_handlers", "_nic")

    def __init__(self, nic: ChannelAdapter[Any]) -> None:
        self._nic = nic
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[E], handler: Callable[[E], None]) -> Callable[[], None]:
        """Hand events of a kind to `handler` from now on; the result ends that."""
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    def dispatch(self) -> int:
        """Hand out everything that has happened; returns how many events that were."""
        count = 0
        while (event := self._nic.next_event()) is not None:
            count += 1
            for handler in tuple(self._handlers.get(type(event), ())):
                handler(event)
        return count


class AsyncEvent:
    """mrc_async_event. `status` says of a QP's event which completion status goes with it.

    An event that was taken and not acknowledged keeps its CQ or QP from being destroyed; `ack`
    acknowledges, as does the end of a `with` block.
    """

    __slots__ = ("_release", "element", "event_type", "status")

    def __init__(
        self, event_type: AsyncEventType, element: Element, status: WcStatus | None = None
    ) -> None:
        self.event_type = event_type
        self.element = element
        self.status = status
        self._release: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"AsyncEvent({self.event_type.name}, {self.element!r})"

    def taken(self, release: Callable[[], None]) -> None:
        """The event was handed to the application; `release` is for when it acknowledges."""
        self._release = release

    def ack(self) -> None:
        """mrc_ack_async_event. A second time does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ack()
