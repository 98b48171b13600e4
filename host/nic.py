"""The MRC NIC: what a `ChannelAdapter` sends and takes, and when.

On each port, frames go in this order: endpoint operations, answers of responders, data.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from host.adapter import ChannelAdapter
from host.config import TIMEOUT_UNIT_NS, ForwardingMode, NicConfig
from host.congestion.network import REFERENCE_RATE_BPS
from host.paths.base import EvEvent, EvSelector
from host.profiles import PlainProfiles, Profiles
from host.qp.base import QpMake
from host.qp.endpoint import EndpointOperations, control_route
from host.qp.peer import Peer, Route, SharedWindow
from host.qp.queue_pair import QueuePair
from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.qp.scheduler import SendScheduler
from host.qp.states import QP_OPERATIONS, Allowed, Operation, QpState, SendEvent
from host.qp.work import WcStatus
from host.wire import Decoder
from host.wire.constants import (
    MPR_UNIT_PSNS,
    TRIM_BYTES,
    WRITE_OPCODES,
    EndpointOp,
    NackReason,
    SackM,
)
from host.wire.errors import DecodeError
from host.wire.packet import (
    Ack,
    EndpointRequest,
    EndpointResponse,
    Nack,
    Probe,
    Sack,
    Trimmed,
    Write,
)

#: Padding and ICRC behind a payload
_TRAILER_BYTES = 7


@dataclass(frozen=True, slots=True)
class QpEvEvent:
    """An EV of a queue pair changed its state."""

    qp_num: int
    event: EvEvent


class Nic(ChannelAdapter[QueuePair]):
    """An MRC NIC of `NicConfig.ports` ports. `seed` makes its keys, numbers and orders."""

    def __init__(self, config: NicConfig, *, seed: int, profiles: Profiles | None = None) -> None:
        super().__init__(config, seed=seed)
        self.profiles = PlainProfiles() if profiles is None else profiles
        self._peers: dict[int, Peer] = {}
        self._fan_in = self.profiles.fan_in(config)
        self._decoder = Decoder(
            config.address, udp_port=config.udp_port, traffic_classes=config.traffic
        )
        self._trimmed_dscp = config.traffic.trimmed
        self._lasthop_dscp = config.traffic.trimmed_lasthop
        self._all_ports = (1 << len(config.ports)) - 1
        #: An EV means the same cables in both directions
        self._evs_name_paths = config.forwarding is not ForwardingMode.ECMP
        self._scheduler = SendScheduler(config.path_mtu_bytes + TRIM_BYTES + _TRAILER_BYTES)
        #: Queue pairs whose responder has answers to send; members have `responder.in_ring`
        self._control_ring: deque[Responder] = deque()
        self._endpoint = EndpointOperations(
            config,
            TIMEOUT_UNIT_NS << config.qp.timeout,
            self._peers,
            send=self._send_on_port,
            ports_up=self.ports_up,
            report=self._report,
            planes_changed=self._peer_planes_changed,
            arm=self._timers.arm,
        )

    def _new_qp(self, make: QpMake) -> QueuePair:
        return QueuePair(self, make)

    def peer(self, address: int) -> Peer | None:
        """The peer with this address, if a queue pair is connected with it."""
        return self._peers.get(address)

    # --- the wire: in ---

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """A frame came in on a port. Whatever is in it, this does not raise."""
        self._now_ns = now_ns
        counters = self._ports[port]
        counters.rx_frames += 1
        counters.rx_bytes += len(frame)
        if not counters.up:
            self.drops["port down"] += 1
            return
        try:
            packet = self._decoder.decode(frame)
        except DecodeError as error:
            self.drops[type(error).__name__] += 1
            return
        kind = type(packet)
        if kind is Write:
            assert isinstance(packet, Write)
            qp = self._qp_of_request(packet)
            if qp is not None:
                responder = qp.responder
                assert responder is not None
                dscp = packet.envelope.dscp
                # A packet too short to be trimmed met a full queue all the same
                m = SackM.SKIP_ONCE if dscp == self._trimmed_dscp else SackM.NONE
                fan_in = self._fan_in
                if fan_in is not None and fan_in.on_data(
                    packet.envelope.inner.src, len(frame), now_ns
                ):
                    self._penalise()
                if self._evs_name_paths:
                    assert qp.peer is not None
                    qp.peer.reverse.heard(packet.envelope.ev)
                responder.on_write(packet, m, now_ns)
        elif kind is Sack:
            assert isinstance(packet, Sack)
            qp = self._qp_of_answer(packet)
            if qp is not None:
                requestor = qp.requestor
                assert requestor is not None
                if requestor.on_sack(packet.seth, packet.cc_state, now_ns):
                    assert qp.peer is not None
                    qp.peer.reverse.refresh(packet.seth.entropy, now_ns)
                    self._after_feedback(requestor)
                else:
                    self.drops["invalid SACK"] += 1
        else:
            self._receive_other(port, packet, now_ns)
        if self._overruns:
            self._fail_overrun()

    def _receive_other(self, port: int, packet: object, now_ns: int) -> None:
        if isinstance(packet, Ack):
            qp = self._qp_of_answer(packet)
            if qp is not None and qp.requestor is not None:
                if qp.requestor.on_ack(packet.aeth, now_ns):
                    self._after_feedback(qp.requestor)
                else:
                    self.drops["invalid ACK"] += 1
        elif isinstance(packet, Nack):
            qp = self._qp_of_answer(packet)
            if qp is not None and qp.requestor is not None:
                if self._nack(qp, qp.requestor, packet, now_ns):
                    self._after_feedback(qp.requestor)
                else:
                    self.drops["invalid NACK"] += 1
        elif isinstance(packet, Trimmed):
            if packet.bth.opcode not in WRITE_OPCODES:
                self.drops["trimmed, no data"] += 1
                return
            qp = self._qp_of_request(packet)
            if qp is not None and qp.responder is not None:
                fan_in = self._fan_in
                if fan_in is not None and fan_in.on_data(
                    packet.envelope.inner.src, TRIM_BYTES, now_ns
                ):
                    self._penalise()
                last_hop = packet.envelope.dscp == self._lasthop_dscp
                qp.responder.on_trimmed(packet, last_hop, now_ns)
        elif isinstance(packet, Probe):
            qp = self._qp_of_request(packet)
            if (
                qp is not None
                and qp.responder is not None
                and not qp.responder.on_probe(packet.envelope.ev, packet.peth, now_ns)
            ):
                self.drops["invalid probe"] += 1
        elif isinstance(packet, EndpointRequest):
            if not self._endpoint.on_request(
                port, packet.envelope, packet.bth, packet.erth, now_ns
            ):
                self.drops["endpoint request without answer"] += 1
        elif isinstance(packet, EndpointResponse):
            if not self._endpoint.on_response(
                port, packet.envelope, packet.bth, packet.eeth, now_ns
            ):
                self.drops["endpoint response to nothing"] += 1
            elif (peer := self._peers.get(packet.envelope.inner.src)) is not None:
                self._arm_peer(peer)

    def _qp_of_request(self, packet: Write | Trimmed | Probe) -> QueuePair | None:
        """The queue pair that a request is for, if it may have it."""
        qp = self.qps.get(packet.bth.dest_qp)
        if qp is None:
            self.drops["unknown QP"] += 1
            return None
        if qp.state is QpState.RTS:
            allowed = Allowed.YES
        else:
            allowed = QP_OPERATIONS[qp.state][Operation.RECEIVE_REQUEST]
            if allowed is Allowed.NO or qp.responder is None:
                self.drops[f"request in {qp.state.value}"] += 1
                return None
        if packet.envelope.inner.src != qp.attributes.peer_address:
            self.drops["not the QP's peer"] += 1
            return None
        if allowed is Allowed.ANSWER:
            self.drops["request in ERROR"] += 1
            assert qp.responder is not None
            tseth = None if isinstance(packet, Probe) else packet.tseth
            tx_timestamp = 0 if tseth is None else tseth.tx_timestamp
            qp.responder.on_request_in_error(
                packet.envelope.ev, packet.bth.psn, tx_timestamp, self._now_ns
            )
            return None
        return qp

    def _qp_of_answer(self, packet: Sack | Nack | Ack) -> QueuePair | None:
        """The queue pair that an answer is for, if it may have it."""
        qp = self.qps.get(packet.bth.dest_qp)
        if qp is None:
            self.drops["unknown QP"] += 1
            return None
        if qp.state is not QpState.RTS:
            allowed = QP_OPERATIONS[qp.state][Operation.RECEIVE_ANSWER]
            if allowed is not Allowed.YES:
                self.drops[f"answer in {qp.state.value}"] += 1
                return None
        if packet.envelope.inner.src != qp.attributes.peer_address:
            self.drops["not the QP's peer"] += 1
            return None
        return qp

    def _nack(self, qp: QueuePair, requestor: Requestor, packet: Nack, now_ns: int) -> bool:
        if packet.neth.reason != NackReason.UNEXP_EVENT:
            return requestor.on_nack(packet.neth, now_ns)
        valid, message = requestor.message_of_nack(packet.neth)
        if valid:
            qp.fail(message, WcStatus.REMOTE_OPERATION_ERROR, now_ns)
        return valid

    def _after_feedback(self, requestor: Requestor) -> None:
        """A requestor heard something, or its timers ran."""
        evs = requestor.evs
        if evs.events:
            number = requestor.qp.number
            self._events.extend(QpEvEvent(number, event) for event in evs.events)
            evs.events.clear()
        if requestor.closed:
            self._scheduler.wake(requestor.window)
            self._kicked = True
            return
        timers = self._timers
        due_ns = evs.next_timer()
        if due_ns is not None and (requestor.armed_ns is None or due_ns < requestor.armed_ns):
            timers.arm(requestor, due_ns)
        window = requestor.window
        due_ns = window.controller.next_timer()
        if due_ns is not None and (window.armed_ns is None or due_ns < window.armed_ns):
            timers.arm(window, due_ns)
        self._scheduler.feedback(requestor)
        self._kicked = True

    # --- the wire: out ---

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """(port, frame) of all that may start on the wire now, at most one a port with a rate.

        A port takes the next frame when the one before has been serialised, with preamble, FCS
        and inter-frame gap. A port without a rate takes `unlimited_batch` a call.
        """
        self._now_ns = now_ns
        self._kicked = False
        out: list[tuple[int, bytes]] = []
        if not self._control_frames and not self._control_ring and not self._scheduler.ring:
            return out
        room = 0
        all_down = True
        for number, port in enumerate(self._ports):
            if not port.up:
                continue
            all_down = False
            if port.busy_until_ns <= now_ns:
                room |= 1 << number
                port.budget = self.config.unlimited_batch
                while port.control and room >> number & 1:
                    self._control_frames -= 1
                    room = self._start(number, port.control.popleft(), room, out)

        ring = self._control_ring
        passed_over = 0
        while room and passed_over < len(ring):
            responder = ring[0]
            peer = responder.qp.peer
            if peer is None or not responder.has_control():
                ring.popleft()
                responder.in_ring = False
                continue
            ev = peer.reverse.select(room)
            if ev is None:
                ring.rotate(-1)
                passed_over += 1
                continue
            route = control_route(peer, ev)
            peer.reverse.answers_on(route.port)
            if peer.armed_ns is None:
                self._arm_peer(peer)
            room = self._start(route.port, responder.next_control(route, now_ns), room, out)
            passed_over = 0
            if responder.has_control():
                ring.rotate(-1)
            else:
                ring.popleft()
                responder.in_ring = False

        room &= ~self._paused
        scheduler = self._scheduler
        # With all ports down nothing leaves, but queue pairs must learn that they have no path
        while (room or all_down) and scheduler.ring:
            sent = scheduler.next_packet(room, now_ns)
            if sent is None:
                break
            room = self._start(*sent, room, out)
        return out

    # --- time ---

    def handle_timer(self, now_ns: int) -> None:
        """Time has come."""
        self._now_ns = now_ns
        timers = self._timers
        while (timed := timers.pop_due(now_ns)) is not None:
            timed.handle_timer(now_ns)
            if isinstance(timed, Requestor):
                self._after_feedback(timed)
            elif isinstance(timed, SharedWindow):
                self._scheduler.wake(timed)
                self._kicked = True
            elif isinstance(timed, Peer):
                self._endpoint.probe_reverse(timed, now_ns)
            deadline_ns = timed.next_deadline()
            if deadline_ns is not None:
                # Something that asks for the past would keep this loop from ending
                timers.arm(timed, max(deadline_ns, now_ns + 1))
        if self._overruns:
            self._fail_overrun()

    # --- ports ---

    def _waits(self) -> int:
        return self._all_ports if self._scheduler.ring or self._control_ring else 0

    def _port_changed(self, port: int, now_ns: int) -> None:
        """Every peer is told."""
        for peer in self._peers.values():
            self._set_plane(peer, port, now_ns)
        self._endpoint.update_port_status(now_ns)

    def _rates_changed(self) -> None:
        rates = [port.rate_bps for port in self._ports if port.up]
        if self._fan_in is not None and rates:
            self._fan_in.set_rate(sum(rate or REFERENCE_RATE_BPS for rate in rates))

    def _penalise(self) -> None:
        """How many send to this NIC at once has changed."""
        assert self._fan_in is not None
        for qp in self.qps.values():
            if qp.responder is not None:
                qp.responder.set_cwnd_penalty(self._fan_in.penalty)

    def _peer_planes_changed(self, peer: Peer, planes_up: int) -> None:
        changed = peer.planes_up ^ planes_up
        peer.planes_up = planes_up
        for plane in range(len(self._ports)):
            if changed >> plane & 1:
                self._set_plane(peer, plane, self._now_ns)

    def _set_plane(self, peer: Peer, plane: int, now_ns: int) -> None:
        up = self._ports[plane].up and bool(peer.planes_up >> plane & 1)
        peer.set_plane_up(plane, up, now_ns)
        for qp in peer.queue_pairs:
            if qp.requestor is not None:
                self._after_feedback(qp.requestor)
        self._arm_peer(peer)

    def probe_ev(self, address: int, ev: int, now_ns: int, dscp: int | None = None) -> int | None:
        """Send an EV probe to a peer (mrc_ctl_ep_batch_send_wait); an EndpointResult follows.

        Returns the request id, or None when too many requests are unanswered. Raises ValueError
        for an address that no queue pair is connected with, AddressingError for a wrong EV.
        """
        peer = self._peers.get(address)
        if peer is None:
            raise ValueError(f"address {address:#x}: no QP is connected with it")
        self._now_ns = now_ns
        return self._endpoint.probe_ev(peer, ev, now_ns, dscp)

    def request(
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
        """Send an endpoint request on a route, to anybody (mrc_ctl_ep_batch_send_wait).

        As `probe_ev`, but no queue pair need be connected with the address. `planes_up` is what a
        port status update tells.
        """
        self._now_ns = now_ns
        return self._endpoint.request_on_route(
            op, address, route, ev, now_ns, timeout_ns=timeout_ns, dscp=dscp, planes_up=planes_up
        )

    def forget_windows(self, cc_profile: int) -> None:
        """A CC profile is another one now, and no queue pair has it: begin with new windows."""
        for peer in self._peers.values():
            window = peer.windows.pop(cc_profile, None)
            if window is not None:
                self._timers.disarm(window)

    def evs_administered(self, qp: QueuePair, now_ns: int) -> None:
        """Somebody changed states of a queue pair's EVs: go on with those that there are now."""
        self._now_ns = now_ns
        if qp.requestor is not None:
            self._after_feedback(qp.requestor)

    # --- what queue pairs ask of their owner (QpOwner) ---

    def want_control(self, qp: QueuePair) -> None:
        """A responder has an answer to send."""
        responder = qp.responder
        if responder is not None and not responder.in_ring:
            responder.in_ring = True
            self._control_ring.append(responder)
        self._kicked = True

    def send_event(self, qp: QueuePair, event: SendEvent) -> None:
        """A requestor's scheduling state may change."""
        if qp.requestor is not None:
            self._scheduler.event(qp.requestor, event)
            if event is SendEvent.STOP:
                self._scheduler.wake(qp.requestor.window)
            self._kicked = True

    def connect(self, qp: QueuePair) -> tuple[Peer, SharedWindow, EvSelector]:
        """A queue pair goes to RTR. Raises ValueError where there is no way to its peer."""
        address = qp.attributes.peer_address
        assert address is not None
        config = self.config
        evs = self.profiles.ev_selector(
            config,
            address,
            qp.attributes.ev_profile,
            random.Random(self._rng.getrandbits(64)),
        )
        self._check_bitmap_pool(qp)
        peer = self._peers.get(address)
        if peer is None:
            rng = random.Random(self._rng.getrandbits(64))
            peer = Peer(config, address, self.profiles.reverse_evs(config, address, rng))
        profile = qp.attributes.cc_profile
        window = peer.windows.get(profile)
        if window is None:
            window = SharedWindow(self.profiles.congestion_controller(config, address, profile))
            peer.windows[profile] = window
        if address not in self._peers:
            self._peers[address] = peer
            self._endpoint.announce(peer, self._now_ns)
        peer.queue_pairs.append(qp)
        for plane in range(len(self._ports)):
            up = self._ports[plane].up and bool(peer.planes_up >> plane & 1)
            if not up:
                evs.set_plane_up(plane, False, self._now_ns)
                peer.reverse.set_plane_up(plane, False, self._now_ns)
        self._arm_peer(peer)
        return peer, window, evs

    def connected(self, qp: QueuePair) -> None:
        """A queue pair has its two halves."""
        if self._fan_in is not None and qp.responder is not None:
            qp.responder.set_cwnd_penalty(self._fan_in.penalty)
        self._share_bitmaps()

    def disconnect(self, qp: QueuePair) -> None:
        """A queue pair has no peer any more."""
        peer = qp.peer
        assert peer is not None
        for half in (qp.requestor, qp.responder):
            if half is not None:
                self._timers.disarm(half)
        peer.queue_pairs.remove(qp)
        if not peer.queue_pairs:
            del self._peers[peer.address]
            self._endpoint.forget(peer)
            self._timers.disarm(peer)
            for window in peer.windows.values():
                self._timers.disarm(window)
        self._share_bitmaps(leaving=qp)

    def _arm_peer(self, peer: Peer) -> None:
        due_ns = peer.reverse.next_timer()
        if due_ns is not None:
            self._timers.arm(peer, due_ns)

    # --- dynamic MPR ---

    def _check_bitmap_pool(self, qp: QueuePair) -> None:
        pool = self.config.bitmap_pool_psns
        if pool is None:
            return
        needed = sum(self._least_mpr(other) for other in self._connected()) + self._least_mpr(qp)
        if needed > pool:
            raise ValueError(
                f"bitmap_pool_psns: {pool} cannot hold {needed} PSNs, which the QPs need"
            )

    @staticmethod
    def _least_mpr(qp: QueuePair) -> int:
        attributes = qp.attributes
        return MPR_UNIT_PSNS if attributes.dynamic_mpr else attributes.mpr_dest_psns

    def _connected(self) -> list[QueuePair]:
        return [qp for qp in self.qps.values() if qp.responder is not None]

    def _share_bitmaps(self, leaving: QueuePair | None = None) -> None:
        """Queue pairs with dynamic MPR share what the others leave of the pool."""
        pool = self.config.bitmap_pool_psns
        if pool is None:
            return
        connected = [qp for qp in self._connected() if qp is not leaving]
        dynamic = [qp for qp in connected if qp.attributes.dynamic_mpr]
        if not dynamic:
            return
        left = pool - sum(
            qp.attributes.mpr_dest_psns for qp in connected if not qp.attributes.dynamic_mpr
        )
        share = left // len(dynamic) // MPR_UNIT_PSNS * MPR_UNIT_PSNS
        for qp in dynamic:
            assert qp.responder is not None
            mpr_psns = max(MPR_UNIT_PSNS, min(share, qp.attributes.mpr_dest_psns))
            if mpr_psns != qp.responder.mpr_psns:
                qp.responder.set_mpr(mpr_psns)
