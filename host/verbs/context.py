"""The context: parent of all objects, and source of asynchronous events (mrc_context)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from host.adapter import CqOverrun, PortChanged, QpError
from host.qp.endpoint import PeerPortsChanged
from host.qp.syndrome import Syndrome
from host.qp.work import WcStatus
from host.verbs.attributes import ContextAttr, QpHintAttr, QpInitAttr
from host.verbs.cq import CompChannel, Cq
from host.verbs.ctl.control import Control
from host.verbs.errors import ClosedError, NotPermittedError
from host.verbs.events import MAX_ASYNC_EVENTS, AsyncEvent, Element
from host.verbs.flags import AsyncEventType
from host.verbs.hint import QpHint
from host.verbs.pd import Pd
from host.verbs.qp import QueuePair
from host.verbs.resource import UNACKNOWLEDGED, Resource

if TYPE_CHECKING:
    from host.verbs.device import Device


class Context:
    """What one user has of a device, made by `Device.open_context` (mrc_create_context).

    Everything it makes ends with it at the latest: `close`, or the end of a `with` block, destroys
    what is left. `on_async_event` is called when an asynchronous event is added, under the rule of
    `CompChannel.notify`.
    """

    def __init__(self, device: Device, attr: ContextAttr) -> None:
        self.device = device
        self.attr = attr
        self.on_async_event: Callable[[], None] | None = None
        self._open = True
        self._resources: dict[Resource, None] = {}
        self._async_events: deque[AsyncEvent] = deque(maxlen=MAX_ASYNC_EVENTS)
        self._control: Control | None = None
        self._unsubscribe = [
            device.events.subscribe(QpError, self._qp_error),
            device.events.subscribe(CqOverrun, self._cq_overrun),
            device.events.subscribe(PortChanged, self._port_changed),
            device.events.subscribe(PeerPortsChanged, self._peer_ports_changed),
        ]

    # --- life ---

    @property
    def closed(self) -> bool:
        """Whether it was destroyed."""
        return not self._open

    def check_open(self) -> None:
        """Raises ClosedError for a context that was destroyed."""
        if not self._open:
            raise ClosedError("the context was destroyed")

    def track(self, resource: Resource) -> None:
        """Destroy an object at the end (objects call this)."""
        self._resources[resource] = None

    def untrack(self, resource: Resource) -> None:
        """An object has been destroyed."""
        self._resources.pop(resource, None)

    def close(self) -> None:
        """mrc_destroy_context: destroy everything that it made, the newest first, and itself.

        A second time does nothing.
        """
        if not self._open:
            return
        for resource in reversed([*self._resources]):
            resource.force_close()
        self._open = False
        self._async_events.clear()
        if self._control is not None:
            self._control.close()
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- objects ---

    def alloc_pd(self) -> Pd:
        """A protection domain (ibv_alloc_pd)."""
        self.check_open()
        return Pd(self, self.device.next_pd_handle())

    def create_comp_channel(self, notify: Callable[[], None] | None = None) -> CompChannel:
        """A completion channel (mrc_create_comp_channel); `notify` as of `CompChannel`."""
        return CompChannel(self, notify)

    def create_cq(self, cqe: int, cq_context: Any = None, channel: CompChannel | None = None) -> Cq:
        """A completion queue of `cqe` entries (mrc_create_cq). `cq_context` is the user's own."""
        return Cq(self, cqe, cq_context, channel)

    def create_qp_hint(self, attr: QpHintAttr | None = None) -> QpHint:
        """A QP hint (mrc_create_qp_hint)."""
        return QpHint(self, QpHintAttr() if attr is None else attr)

    def create_qp(self, init_attr: QpInitAttr) -> QueuePair:
        """A queue pair in RESET (mrc_create_qp).

        Raises InvalidArgumentError for attributes out of range and objects of other contexts,
        NoMemoryError when the NIC has as many as it may.
        """
        return QueuePair(self, init_attr)

    # --- the privileged side ---

    @property
    def ctl(self) -> Control:
        """The calls of mrc_ctl.h. Raises NotPermittedError unless opened with `net_admin`."""
        self.check_open()
        if not self.attr.net_admin:
            raise NotPermittedError("the context was opened without net_admin")
        if self._control is None:
            self._control = Control(self)
        return self._control

    # --- asynchronous events ---

    def get_async_event(self) -> AsyncEvent | None:
        """mrc_get_async_event: the oldest, or None (the original waits instead).

        It is to be acknowledged.
        """
        self.check_open()
        self.device.dispatch()
        if not self._async_events:
            return None
        event = self._async_events.popleft()
        element = event.element
        if isinstance(element, Resource):
            element.acquire(UNACKNOWLEDGED)
            event.taken(lambda: element.release(UNACKNOWLEDGED))
        return event

    def _add_event(
        self, event_type: AsyncEventType, element: Element, status: WcStatus | None = None
    ) -> None:
        self._async_events.append(AsyncEvent(event_type, element, status))
        if self.on_async_event is not None:
            self.on_async_event()

    def forget_events(self, resource: Resource) -> None:
        """An object is destroyed: events of it that nobody took are gone."""
        kept = [event for event in self._async_events if event.element is not resource]
        if len(kept) != len(self._async_events):
            self._async_events = deque(kept, MAX_ASYNC_EVENTS)

    def _qp_error(self, error: QpError) -> None:
        qp = self.device.qp(error.qp_num)
        if qp is None or qp.context is not self:
            return
        if error.syndrome is None:
            event_type = AsyncEventType.QP_FATAL
        elif error.syndrome is Syndrome.NAK_REMOTE_ACCESS_ERROR:
            event_type = AsyncEventType.QP_ACCESS_ERR
        else:
            event_type = AsyncEventType.QP_REQ_ERR
        self._add_event(event_type, qp, error.status)

    def _cq_overrun(self, overrun: CqOverrun) -> None:
        for resource in self._resources:
            if isinstance(resource, Cq) and resource.core is overrun.cq:
                self._add_event(AsyncEventType.CQ_ERR, resource)
                return

    def _port_changed(self, change: PortChanged) -> None:
        event_type = AsyncEventType.PORT_ACTIVE if change.up else AsyncEventType.PORT_ERR
        self._add_event(event_type, change.port + 1)

    def _peer_ports_changed(self, change: PeerPortsChanged) -> None:
        self._add_event(AsyncEventType.PEER_PORTS, (change.address, change.planes_up))
