"""Endpoint operations: port status updates and EV probes, requests and responses.

They belong to no queue pair (their destination QP is 2) but to the two NICs. A request is kept
until its response or its last retry; a port status update of a new state replaces the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from host.config import NicConfig
from host.qp.peer import NoRouteError, Peer, Route, make_route, template_towards
from host.wire.assumptions import (
    elapsed_ns,
    port_status_mask,
    ports_of_status_mask,
    timestamp_of_ns,
)
from host.wire.constants import ENDPOINT_QP, EndpointOp, Opcode
from host.wire.envelope import Envelope
from host.wire.headers import BTH, EETH, ERTH
from topologies.addressing import AddressingError

if TYPE_CHECKING:
    from host.qp.timers import Timed

#: NICs whose port status is remembered before a queue pair is connected with them
MAX_TOLD = 1 << 10
#: Requests that may be unanswered at a time
MAX_REQUESTS = 1 << 12
#: A port status update is sent this often before the peer is given up
PORT_STATUS_TRIES = 12
#: Doublings of its timeout at most
_MAX_DOUBLINGS = 6
#: An update is older than one accepted less than this ago if its timestamp is: half the time
#: after which timestamps come round
_ORDER_NS = 4_000_000
_HALF_TIMESTAMPS = 1 << 15
_TIMESTAMP_MASK = 0xFFFF
_HALF_REQUEST_IDS = 1 << 15
_REQUEST_ID_MASK = 0xFFFF


@dataclass(slots=True)
class EndpointRequestState:
    """A request that waits for its response."""

    request_id: int
    op: EndpointOp
    address: int
    #: None: to an address of the user's choice
    peer: Peer | None
    ev: int
    sent_ns: int
    deadline_ns: int
    tries: int = 1
    #: Of the reverse EV set, or told to a peer by the NIC: its outcome is not the user's
    internal: bool = False


@dataclass(frozen=True, slots=True)
class EndpointResult:
    """What became of a request of the user's. `rtt_ns` and `port` are None at a timeout."""

    request_id: int
    op: EndpointOp
    address: int
    ev: int
    rtt_ns: int | None
    port: int | None


@dataclass(frozen=True, slots=True)
class PeerPortsChanged:
    """A peer's port status update changed which planes are used towards it."""

    address: int
    planes_up: int


@dataclass(slots=True)
class PortStatusUpdate:
    """Of a peer: the last update accepted from it, for telling old from new.

    Several ports that change at once make several updates with one timestamp; the request id, which
    a NIC counts up, tells their order.
    """

    tx_timestamp: int
    request_id: int
    accepted_ns: int

    def is_newer_than(self, last: PortStatusUpdate) -> bool:
        """Whether it was sent after another one, as far as timestamps reach."""
        if self.accepted_ns - last.accepted_ns >= _ORDER_NS:
            return True
        later = self.tx_timestamp - last.tx_timestamp & _TIMESTAMP_MASK
        if later == 0:
            # Equal ids: a repetition, with what is true now
            return self.request_id - last.request_id & _REQUEST_ID_MASK < _HALF_REQUEST_IDS
        return later < _HALF_TIMESTAMPS


class EndpointOperations:
    """Both ends of the endpoint operations of a NIC.

    `send(port, frame)` queues a control frame at a port; `ports_up()` is the mask of local ports
    that are up; `peers` are the NIC's by address; `report` takes results and changes.
    """

    __slots__ = (
        "_arm",
        "_config",
        "_next_id",
        "_peers",
        "_planes_changed",
        "_ports_up",
        "_report",
        "_requests",
        "_send",
        "_timeout_ns",
        "_told",
        "armed_ns",
    )

    def __init__(
        self,
        config: NicConfig,
        timeout_ns: int,
        peers: dict[int, Peer],
        *,
        send: Callable[[int, bytes], None],
        ports_up: Callable[[], int],
        report: Callable[[object], None],
        planes_changed: Callable[[Peer, int], None],
        arm: Callable[[Timed, int], None],
    ) -> None:
        self._config = config
        self._timeout_ns = timeout_ns
        self._peers = peers
        self._send = send
        self._ports_up = ports_up
        self._report = report
        self._planes_changed = planes_changed
        self._arm = arm
        self._requests: dict[int, EndpointRequestState] = {}
        self._next_id = 0
        #: Port status of NICs that are not peers yet: one end connects before the other
        self._told: dict[int, tuple[int, PortStatusUpdate]] = {}
        self.armed_ns: int | None = None

    def __len__(self) -> int:
        return len(self._requests)

    # --- requests of ours ---

    def announce(self, peer: Peer, now_ns: int) -> None:
        """A new peer: tell it which local ports are up, and heed what it may have told already."""
        told = self._told.pop(peer.address, None)
        if told is not None:
            peer.planes_up, peer.port_status = told
        self._request(EndpointOp.PORT_STATUS_UPDATE, peer, -1, now_ns, internal=True)

    def update_port_status(self, now_ns: int) -> None:
        """Tell every peer which local ports are up; older updates are forgotten."""
        for request in [*self._requests.values()]:
            if request.op is EndpointOp.PORT_STATUS_UPDATE and request.internal:
                del self._requests[request.request_id]
        for peer in self._peers.values():
            self._request(EndpointOp.PORT_STATUS_UPDATE, peer, -1, now_ns, internal=True)

    def probe_reverse(self, peer: Peer, now_ns: int) -> None:
        """Send the EV probes that a peer's reverse EV set wants."""
        while (ev := peer.reverse.next_probe(now_ns)) is not None:
            if self._request(EndpointOp.EV_PROBE, peer, ev, now_ns, internal=True) is None:
                break

    def probe_ev(self, peer: Peer, ev: int, now_ns: int, dscp: int | None = None) -> int | None:
        """Send an EV probe; an `EndpointResult` with the returned request id follows.

        `dscp` None: that of control. None is returned when too many requests are unanswered.
        Raises AddressingError for an EV that leads nowhere.
        """
        return self._request(EndpointOp.EV_PROBE, peer, ev, now_ns, internal=False, dscp=dscp)

    def request_on_route(
        self,
        op: EndpointOp,
        address: int,
        route: Route,
        ev: int,
        now_ns: int,
        *,
        timeout_ns: int,
        dscp: int | None = None,
        planes_up: int = 0,
    ) -> int | None:
        """Send a request of the user's once; an `EndpointResult` with the returned id follows.

        To the NIC's own address, on a route that comes back: the request's return is its response.
        `dscp` None: that of control. None is returned when too many requests are unanswered.
        """
        if len(self._requests) >= MAX_REQUESTS:
            return None
        request = EndpointRequestState(
            self._new_id(), op, address, None, ev, now_ns, now_ns + timeout_ns
        )
        if self._ports_up() >> route.port & 1:
            self._send_request(request, route, planes_up, now_ns, dscp)
        self._requests[request.request_id] = request
        self._arm(self, request.deadline_ns)
        return request.request_id

    def _new_id(self) -> int:
        self._next_id = self._next_id + 1 & 0xFFFF
        while self._next_id in self._requests:
            self._next_id = self._next_id + 1 & 0xFFFF
        return self._next_id

    def forget(self, peer: Peer) -> None:
        """A peer is gone."""
        for request in [*self._requests.values()]:
            if request.peer is peer:
                del self._requests[request.request_id]
                if not request.internal:
                    self._report_timeout(request)

    def _request(
        self,
        op: EndpointOp,
        peer: Peer,
        ev: int,
        now_ns: int,
        *,
        internal: bool,
        dscp: int | None = None,
    ) -> int | None:
        if len(self._requests) >= MAX_REQUESTS:
            return None
        request = EndpointRequestState(
            self._new_id(),
            op,
            peer.address,
            peer,
            ev,
            now_ns,
            now_ns + self._timeout_ns,
            internal=internal,
        )
        self._transmit(request, peer, now_ns, dscp)
        self._requests[request.request_id] = request
        self._arm(self, request.deadline_ns)
        return request.request_id

    def _transmit(
        self, request: EndpointRequestState, peer: Peer, now_ns: int, dscp: int | None = None
    ) -> None:
        if request.op is EndpointOp.PORT_STATUS_UPDATE:
            ev = peer.reverse.select(self._ports_up())
            if ev is None:
                return
            request.ev = ev
        route = control_route(peer, request.ev)
        if not self._ports_up() >> route.port & 1:
            return
        self._send_request(request, route, self._ports_up(), now_ns, dscp)

    def _send_request(
        self,
        request: EndpointRequestState,
        route: Route,
        planes_up: int,
        now_ns: int,
        dscp: int | None,
    ) -> None:
        mask = 0
        if request.op is EndpointOp.PORT_STATUS_UPDATE:
            mask = port_status_mask(
                plane + 1 for plane in range(len(self._config.ports)) if planes_up >> plane & 1
            )
        bth = BTH(Opcode.ENDPOINT_REQUEST, ENDPOINT_QP, request.request_id)
        erth = ERTH(request.op, mask, timestamp_of_ns(now_ns))
        frames = route.control if dscp is None else route.with_dscp(dscp)
        self._send(route.port, frames.frame(bth.pack() + erth.pack()))

    def on_response(self, port: int, envelope: Envelope, bth: BTH, eeth: EETH, now_ns: int) -> bool:
        """A response came. False: to no request of ours."""
        request = self._requests.get(bth.psn & 0xFFFF)
        if request is None or request.op != eeth.op or request.address != envelope.inner.src:
            return False
        self._answered(request, port, eeth.tx_timestamp, now_ns)
        return True

    def _answered(
        self, request: EndpointRequestState, port: int, tx_timestamp: int, now_ns: int
    ) -> None:
        del self._requests[request.request_id]
        if request.op is EndpointOp.EV_PROBE and request.peer is not None:
            request.peer.reverse.refresh(request.ev, now_ns)
        if not request.internal:
            rtt_ns = now_ns - request.sent_ns
            if timestamp_of_ns(request.sent_ns) != tx_timestamp:
                rtt_ns = elapsed_ns(tx_timestamp, now_ns)
            self._report(
                EndpointResult(
                    request.request_id, request.op, request.address, request.ev, rtt_ns, port
                )
            )

    # --- requests of others ---

    def on_request(self, port: int, envelope: Envelope, bth: BTH, erth: ERTH, now_ns: int) -> bool:
        """A request came: answer it, and heed it if a peer sent it. False: no way back."""
        address = envelope.inner.src
        peer = self._peers.get(address)
        if erth.op not in (EndpointOp.PORT_STATUS_UPDATE, EndpointOp.EV_PROBE):
            return False
        if not _is_one_host(address):
            return False
        if address == self._config.address:
            # A self-probe is back
            request = self._requests.get(bth.psn & 0xFFFF)
            if request is None or request.op != erth.op or request.address != address:
                return False
            self._answered(request, port, erth.tx_timestamp, now_ns)
            return True
        if erth.op == EndpointOp.PORT_STATUS_UPDATE:
            self._heed(address, peer, erth, bth.psn & _REQUEST_ID_MASK, now_ns)
        route = self._route_back(peer, port, address, envelope.ev)
        if route is None:
            return False
        response = BTH(Opcode.ENDPOINT_RESPONSE, ENDPOINT_QP, bth.psn & 0xFFFF)
        eeth = EETH(erth.op, erth.tx_timestamp)
        self._send(route.port, route.control.frame(response.pack() + eeth.pack()))
        return True

    def _route_back(self, peer: Peer | None, port: int, address: int, ev: int) -> Route | None:
        if peer is not None:
            selected = peer.reverse.select(self._ports_up())
            return None if selected is None else control_route(peer, selected)
        # Nobody we are connected with: the way it came, and nothing is remembered
        try:
            template = template_towards(self._config, address)
            return make_route(self._config, template, address, ev, port)
        except (NoRouteError, AddressingError):
            return None

    def _heed(
        self, address: int, peer: Peer | None, erth: ERTH, request_id: int, now_ns: int
    ) -> None:
        planes_up = 0
        for number in ports_of_status_mask(erth.port_status_mask):
            planes_up |= 1 << number - 1
        planes_up &= (1 << len(self._config.ports)) - 1
        update = PortStatusUpdate(erth.tx_timestamp, request_id, now_ns)
        if peer is None:
            # The newest ones are kept; who connects after that many others is told again
            told = self._told.pop(address, None)
            if told is not None and not update.is_newer_than(told[1]):
                planes_up, update = told
            self._told[address] = planes_up, update
            if len(self._told) > MAX_TOLD:
                del self._told[next(iter(self._told))]
            return
        last = peer.port_status
        if last is not None and not update.is_newer_than(last):
            return
        peer.port_status = update
        if planes_up != peer.planes_up:
            self._planes_changed(peer, planes_up)
            self._report(PeerPortsChanged(address, planes_up))

    # --- time ---

    def next_deadline(self) -> int | None:
        """When the next request has waited long enough."""
        return min((request.deadline_ns for request in self._requests.values()), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Send updates again, give up probes."""
        for request in [*self._requests.values()]:
            if request.deadline_ns > now_ns:
                continue
            peer = request.peer
            if (
                request.op is EndpointOp.PORT_STATUS_UPDATE
                and peer is not None
                and request.tries < PORT_STATUS_TRIES
            ):
                request.tries += 1
                doublings = min(request.tries, _MAX_DOUBLINGS)
                request.deadline_ns = now_ns + (self._timeout_ns << doublings)
                self._transmit(request, peer, now_ns)
                continue
            del self._requests[request.request_id]
            if not request.internal:
                self._report_timeout(request)
            elif request.op is EndpointOp.EV_PROBE and peer is not None:
                peer.reverse.on_probe_timeout(request.ev, now_ns)

    def _report_timeout(self, request: EndpointRequestState) -> None:
        self._report(
            EndpointResult(request.request_id, request.op, request.address, request.ev, None, None)
        )


def _is_one_host(address: int) -> bool:
    """Whether an IPv6 address may be a source: an answer to another would go to many, or nobody.

    Not multicast, unspecified or loopback (RFC 4291, sections 2.5.2, 2.5.3 and 2.7).
    """
    return address > 1 and address >> 120 != 0xFF


def control_route(peer: Peer, ev: int) -> Route:
    """The route of a control packet. Raises AddressingError for an EV that leads nowhere."""
    routes = peer.routes[False]
    return routes.by_ev.get(ev) or routes.add(ev, peer.reverse.plane_of(ev))
