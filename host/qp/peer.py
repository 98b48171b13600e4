"""A destination NIC: routes to it, its reverse EVs, and the windows that queue pairs share."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from host.config import ForwardingMode, NicConfig
from host.congestion.base import CongestionController
from host.paths.base import ReverseEvs
from host.wire import FrameTemplate
from host.wire.constants import DSCP_SHIFT, ECN_ECT_0, ECN_NOT_ECT
from host.wire.envelope import Envelope
from topologies.addressing import AddressTemplate

if TYPE_CHECKING:
    from host.qp.endpoint import PortStatusUpdate
    from host.qp.queue_pair import QueuePair
    from host.qp.requestor import Requestor

#: EVs with a route that a peer remembers; more than any EV universe has
_MAX_ROUTES = 1 << 13


class NoRouteError(ValueError):
    """An address that is none of the fabric's hosts'."""


class Route:
    """A path to a peer: the port it starts at, and the frames of each traffic class on it."""

    __slots__ = ("control", "first", "port", "retx")

    def __init__(
        self, port: int, first: FrameTemplate, retx: FrameTemplate, control: FrameTemplate
    ) -> None:
        self.port = port
        self.first = first
        self.retx = retx
        self.control = control

    def with_dscp(self, dscp: int) -> FrameTemplate:
        """Frames of another class on the same path."""
        envelope = self.control.envelope
        inner = envelope.inner._replace(traffic_class=dscp << DSCP_SHIFT)
        outer = envelope.outer
        if outer is not None:
            outer = outer._replace(traffic_class=dscp << DSCP_SHIFT)
        return FrameTemplate(replace(envelope, inner=inner, outer=outer))


class Routes:
    """The routes to a peer, each made when it is first taken."""

    __slots__ = ("_address", "_config", "_template", "_trimmable", "by_ev")

    def __init__(
        self,
        config: NicConfig,
        template: AddressTemplate | None,
        address: int,
        trimmable: bool,
    ) -> None:
        self._config = config
        self._template = template
        self._address = address
        self._trimmable = trimmable
        self.by_ev: dict[int, Route] = {}

    def add(self, ev: int, plane: int) -> Route:
        """The route of an EV that is not in `by_ev` yet. Raises AddressingError for a wrong EV."""
        if len(self.by_ev) >= _MAX_ROUTES:
            self.by_ev.clear()
        route = make_route(self._config, self._template, self._address, ev, plane, self._trimmable)
        self.by_ev[ev] = route
        return route


class SharedWindow:
    """A congestion controller, and who waits for room in its window."""

    __slots__ = ("armed_ns", "controller", "waiting", "woken")

    def __init__(self, controller: CongestionController) -> None:
        self.controller = controller
        self.waiting: deque[Requestor] = deque()
        #: The one that was told of room last, until its turn comes
        self.woken: Requestor | None = None
        self.armed_ns: int | None = None

    def next_deadline(self) -> int | None:
        """When the controller wants to be called."""
        return self.controller.next_timer()

    def handle_timer(self, now_ns: int) -> None:
        """Time has come."""
        due_ns = self.controller.next_timer()
        if due_ns is not None and due_ns <= now_ns:
            self.controller.handle_timer(now_ns)


class Peer:
    """A destination NIC with which at least one queue pair is connected."""

    __slots__ = (
        "address",
        "armed_ns",
        "planes_up",
        "port_status",
        "queue_pairs",
        "reverse",
        "routes",
        "windows",
    )

    def __init__(self, config: NicConfig, address: int, reverse: ReverseEvs) -> None:
        template = template_towards(config, address)
        #: Routes of data that may not be trimmed, and of data that may
        self.routes = tuple(
            Routes(config, template, address, trimmable) for trimmable in (False, True)
        )
        self.address = address
        self.reverse = reverse
        #: By CC profile
        self.windows: dict[int | None, SharedWindow] = {}
        self.queue_pairs: list[QueuePair] = []
        #: The planes of which the peer's port status update says that they are up
        self.planes_up = (1 << len(config.ports)) - 1
        self.port_status: PortStatusUpdate | None = None
        self.armed_ns: int | None = None

    def next_deadline(self) -> int | None:
        """When the reverse EV set wants to probe."""
        return self.reverse.next_timer()

    def handle_timer(self, now_ns: int) -> None:
        """Nothing here: the NIC sends the probes."""

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """Take a plane out of use towards this peer, or back in."""
        self.reverse.set_plane_up(plane, up, now_ns)
        for qp in self.queue_pairs:
            if qp.evs is not None:
                qp.evs.set_plane_up(plane, up, now_ns)


def template_towards(config: NicConfig, address: int) -> AddressTemplate | None:
    """The carrier template; None where the forwarding mode needs none. Raises NoRouteError."""
    if config.forwarding is not ForwardingMode.SRV6:
        return None
    template = config.template(address)
    if template is None:
        raise NoRouteError(f"{config.name}: {address:#x} is the address of none of the hosts")
    return template


def make_route(
    config: NicConfig,
    template: AddressTemplate | None,
    address: int,
    ev: int,
    plane: int,
    trimmable: bool = True,
) -> Route:
    """The route of an EV; as `Peer.route`, without a memory."""
    port = config.ports[plane]
    carrier = None if template is None else template.address(ev)
    traffic = config.traffic

    def frames(dscp: int, ecn: int) -> FrameTemplate:
        return FrameTemplate(
            Envelope.over_path(
                dst_mac=port.gateway_mac,
                src_mac=port.mac,
                carrier=carrier,
                dst=address,
                src=config.address,
                ev=ev,
                dscp=dscp,
                ecn=ecn,
                udp_port=config.udp_port,
            )
        )

    return Route(
        plane,
        frames(traffic.trimmable if trimmable else traffic.no_trim, ECN_ECT_0),
        frames(traffic.trimmable_retx if trimmable else traffic.no_trim, ECN_ECT_0),
        frames(traffic.control, ECN_NOT_ECT),
    )
