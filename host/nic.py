"""The NIC: ports, queue pairs, memory, timers. Sans-IO: bytes and times in, bytes and times out.

    receive(port, frame, now)      a frame came from the wire; nothing in it ever raises
    transmit(now) → (port, frame)  what may start on the wire now
    next_timer() → time            when transmit or handle_timer has something to do
    handle_timer(now)

Time is an integer in ns and never goes back. After `receive`, `handle_timer`, `set_port_up` and
after posting work, a driver calls `transmit`.

On each port, frames go in this order: endpoint operations, answers of responders, data.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass

from host.config import TIMEOUT_UNIT_NS, ForwardingMode, NicConfig
from host.congestion.network import REFERENCE_RATE_BPS
from host.memory import Access, MemoryRegion, MemoryTable
from host.paths.base import EvEvent, EvSelector
from host.profiles import PlainProfiles, Profiles
from host.qp.endpoint import EndpointOperations, control_route
from host.qp.peer import Peer, Route, SharedWindow
from host.qp.queue_pair import QpAttributes, QueuePair
from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.qp.scheduler import SendScheduler
from host.qp.states import QP_OPERATIONS, Allowed, Operation, QpState, SendEvent
from host.qp.syndrome import Syndrome
from host.qp.timers import Timed, Timers
from host.qp.work import CompletionQueue, WcStatus
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
from topologies.timing import WIRE_OVERHEAD_BYTES

_NS = 10**9
#: Padding and ICRC behind a payload
_TRAILER_BYTES = 7

#: Control frames of endpoint operations that may wait at a port; more are dropped and counted
MAX_PORT_CONTROL_FRAMES = 1024
#: Events that wait for `next_event`; beyond, the oldest are lost
MAX_EVENTS = 1 << 16

#: 0 and 1 are management QPs (IBTA), 2 is MRC's endpoint operations
_FIRST_QP = 0x11
_MAX_QP = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class QpError:
    """A queue pair went to ERROR by itself; `status` as of the completion that says why.

    `syndrome` is the NAK that its responder sent, None where its requestor could not go on.
    """

    qp_num: int
    status: WcStatus
    syndrome: Syndrome | None = None


@dataclass(frozen=True, slots=True)
class QpEvEvent:
    """An EV of a queue pair changed its state."""

    qp_num: int
    event: EvEvent


@dataclass(frozen=True, slots=True)
class CqOverrun:
    """A completion found its queue full; the queue pairs that use it went to ERROR."""

    cq: CompletionQueue


@dataclass(frozen=True, slots=True)
class PortChanged:
    """A local port came up or went down."""

    port: int
    up: bool


@dataclass(frozen=True, slots=True)
class PortStatistics:
    """Frames and their bytes, without preamble, FCS and gap."""

    up: bool
    tx_frames: int
    tx_bytes: int
    rx_frames: int
    rx_bytes: int


class _Port:
    """A port of the NIC."""

    __slots__ = (
        "budget",
        "busy_until_ns",
        "control",
        "enabled",
        "link_up",
        "rate_bps",
        "remainder",
        "rx_bytes",
        "rx_frames",
        "tx_bytes",
        "tx_frames",
        "up",
    )

    def __init__(self, rate_bps: int | None) -> None:
        self.rate_bps = rate_bps
        #: In use: its link is up, and no administrator has disabled it
        self.up = True
        self.link_up = True
        self.enabled = True
        self.busy_until_ns = 0
        #: Part of a ns that the last frame took beyond `busy_until_ns`, times the rate
        self.remainder = 0
        self.budget = 0
        self.control: deque[bytes] = deque()
        self.tx_frames = 0
        self.tx_bytes = 0
        self.rx_frames = 0
        self.rx_bytes = 0


class Nic:
    """A NIC of `NicConfig.ports` ports. `seed` makes its keys, numbers and orders."""

    def __init__(self, config: NicConfig, *, seed: int, profiles: Profiles | None = None) -> None:
        self.config = config
        self.profiles = PlainProfiles() if profiles is None else profiles
        self._rng = random.Random(seed)
        self.memory = MemoryTable(random.Random(self._rng.getrandbits(64)))
        self.qps: dict[int, QueuePair] = {}
        self._peers: dict[int, Peer] = {}
        self._next_qp = _FIRST_QP
        self._ports = [_Port(port.rate_bps) for port in config.ports]
        self._fan_in = self.profiles.fan_in(config)
        self._decoder = Decoder(
            config.address, udp_port=config.udp_port, traffic_classes=config.traffic
        )
        self._trimmed_dscp = config.traffic.trimmed
        self._lasthop_dscp = config.traffic.trimmed_lasthop
        #: An EV means the same cables in both directions
        self._evs_name_paths = config.forwarding is not ForwardingMode.ECMP
        self._timers = Timers()
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
        self._now_ns = 0
        #: New work since `transmit`
        self._kicked = False
        self._overruns: list[CompletionQueue] = []
        self._events: deque[object] = deque(maxlen=MAX_EVENTS)
        #: Frames that came and were not used, by reason
        self.drops: Counter[str] = Counter()

    # --- resources ---

    def create_cq(self, capacity: int = 1 << 16) -> CompletionQueue:
        """A completion queue."""
        cq = CompletionQueue(capacity)
        cq.on_overrun = self._overruns.append
        return cq

    def create_qp(
        self,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue | None = None,
        *,
        max_send_wr: int = 1 << 12,
        max_recv_wr: int = 1 << 12,
        pd: int = 0,
        **attributes: object,
    ) -> QueuePair:
        """A queue pair in RESET. `attributes` are changes to the configuration's defaults.

        Its start PSN (`sq_psn`) is random. Raises ValueError for wrong attributes and when there
        are as many queue pairs as the configuration allows.
        """
        if len(self.qps) >= self.config.max_qps:
            raise ValueError(f"{self.config.name} has {self.config.max_qps} QPs, the most it may")
        defaults = self.config.qp
        values: dict[str, object] = {
            "path_mtu_bytes": self.config.path_mtu_bytes,
            "mpr_psns": defaults.mpr_psns,
            "mpr_dest_psns": defaults.mpr_psns,
            "max_wimm": defaults.max_wimm,
            "max_wimm_dest": defaults.max_wimm,
            "timeout": defaults.timeout,
            "linear_retries": defaults.linear_retries,
            "exponential_retries": defaults.exponential_retries,
            "sack_packets": defaults.sack_packets,
            "sack_delay_ns": defaults.sack_delay_ns,
            "trim_nack": defaults.trim_nack,
            "dynamic_mpr": defaults.dynamic_mpr,
            "sq_psn": self._rng.getrandbits(24),
        }
        values.update(attributes)
        qp = QueuePair(
            self,
            self._next_qp,
            QpAttributes(**values),  # type: ignore[arg-type]
            send_cq,
            send_cq if recv_cq is None else recv_cq,
            max_send_wr=max_send_wr,
            max_recv_wr=max_recv_wr,
            pd=pd,
        )
        self.qps[qp.number] = qp
        while self._next_qp in self.qps:
            self._next_qp = self._next_qp + 1 if self._next_qp < _MAX_QP else _FIRST_QP
        return qp

    def destroy_qp(self, qp: QueuePair) -> None:
        """Reset a queue pair and forget it. Raises ValueError if it is not this NIC's."""
        if self.qps.get(qp.number) is not qp:
            raise ValueError(f"{qp!r} is not a QP of {self.config.name}")
        qp.modify(QpState.RESET)
        del self.qps[qp.number]

    def register_memory(
        self,
        buffer: bytearray | memoryview,
        access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE,
        *,
        va: int | None = None,
        pd: int = 0,
    ) -> MemoryRegion:
        """As `MemoryTable.register`."""
        return self.memory.register(buffer, access, va=va, pd=pd)

    def next_event(self) -> object | None:
        """The oldest event that was not taken yet, or None.

        QpError, QpEvEvent, CqOverrun, PortChanged, and of `qp.endpoint` EndpointResult and
        PeerPortsChanged.
        """
        return self._events.popleft() if self._events else None

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

        scheduler = self._scheduler
        # With all ports down nothing leaves, but queue pairs must learn that they have no path
        while (room or all_down) and scheduler.ring:
            sent = scheduler.next_packet(room, now_ns)
            if sent is None:
                break
            room = self._start(*sent, room, out)
        return out

    def _start(self, number: int, frame: bytes, room: int, out: list[tuple[int, bytes]]) -> int:
        """A frame starts on a port. Returns the ports that still have room."""
        port = self._ports[number]
        size_bytes = len(frame)
        port.tx_frames += 1
        port.tx_bytes += size_bytes
        out.append((number, frame))
        rate_bps = port.rate_bps
        if rate_bps is None:
            port.budget -= 1
            if port.budget:
                return room
            self._kicked = True
            return room & ~(1 << number)
        # A port that was busy till now goes on exactly where the last frame ended
        work = (size_bytes + WIRE_OVERHEAD_BYTES) * 8 * _NS
        if port.busy_until_ns == self._now_ns:
            work -= port.remainder
        duration_ns = -(-work // rate_bps)
        port.remainder = duration_ns * rate_bps - work
        port.busy_until_ns = self._now_ns + duration_ns
        return room & ~(1 << number)

    def _send_on_port(self, number: int, frame: bytes) -> None:
        port = self._ports[number]
        if not port.up or len(port.control) >= MAX_PORT_CONTROL_FRAMES:
            self.drops["control frame at a port that is full or down"] += 1
            return
        port.control.append(frame)
        self._kicked = True

    # --- time ---

    def next_timer(self) -> int | None:
        """Absolute ns when `transmit` or `handle_timer` has something to do; None = nothing."""
        if self._kicked:
            return self._now_ns
        earliest = self._timers.next_timer()
        departure_ns = self.next_departure()
        if departure_ns is not None and (earliest is None or departure_ns < earliest):
            return departure_ns
        return earliest

    def next_departure(self) -> int | None:
        """Absolute ns when a port that is busy may start what waits for it; None = nothing waits.

        A driver that was late may call `transmit` for such times in the past, before anything else,
        so that ports keep their rates.
        """
        earliest: int | None = None
        waiting = bool(self._scheduler.ring or self._control_ring)
        now_ns = self._now_ns
        for port in self._ports:
            busy_until_ns = port.busy_until_ns
            if (
                busy_until_ns > now_ns
                and port.up
                and (waiting or port.control)
                and (earliest is None or busy_until_ns < earliest)
            ):
                earliest = busy_until_ns
        return earliest

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

    def ports_up(self) -> int:
        """Mask of the ports that are up."""
        return sum(1 << number for number, port in enumerate(self._ports) if port.up)

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        """The local link of a port came up or went down: every peer is told."""
        self._ports[port].link_up = up
        self._use_port(port, now_ns)

    def set_port_enabled(self, port: int, enabled: bool, now_ns: int) -> None:
        """Disable a port, as if its link were down, or enable it (mrc_ctl_modify_port)."""
        self._ports[port].enabled = enabled
        self._use_port(port, now_ns)

    def port_enabled(self, port: int) -> bool:
        """Whether no administrator has disabled a port."""
        return self._ports[port].enabled

    def _use_port(self, port: int, now_ns: int) -> None:
        self._now_ns = now_ns
        state = self._ports[port]
        up = state.link_up and state.enabled
        if state.up == up:
            return
        state.up = up
        self._report(PortChanged(port, up))
        state.control.clear()
        self._set_fan_in_rate()
        for peer in self._peers.values():
            self._set_plane(peer, port, now_ns)
        self._endpoint.update_port_status(now_ns)
        self._kicked = True

    def set_port_rate(self, port: int, rate_bps: int | None, now_ns: int) -> None:
        """The port serialises the next frames at another rate. Raises ValueError for no rate."""
        if rate_bps is not None and rate_bps <= 0:
            raise ValueError(f"rate_bps: {rate_bps} does not fit: it must be above 0")
        self._now_ns = now_ns
        state = self._ports[port]
        state.rate_bps = rate_bps
        state.remainder = 0
        self._set_fan_in_rate()
        self._kicked = True

    def _set_fan_in_rate(self) -> None:
        rates = [port.rate_bps for port in self._ports if port.up]
        if self._fan_in is not None and rates:
            self._fan_in.set_rate(sum(rate or REFERENCE_RATE_BPS for rate in rates))

    def _penalise(self) -> None:
        """How many send to this NIC at once has changed."""
        assert self._fan_in is not None
        for qp in self.qps.values():
            if qp.responder is not None:
                qp.responder.set_cwnd_penalty(self._fan_in.penalty)

    def port_rate_bps(self, port: int) -> int | None:
        """The rate of a port at present; None: unlimited."""
        return self._ports[port].rate_bps

    def port_statistics(self, port: int) -> PortStatistics:
        """Counters of a port, since the NIC was made."""
        state = self._ports[port]
        return PortStatistics(
            state.up, state.tx_frames, state.tx_bytes, state.rx_frames, state.rx_bytes
        )

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

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Wake something."""
        self._timers.arm(timed, deadline_ns)

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

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """Memory for a peer's write."""
        return self.memory.remote_write(rkey, va, length, pd)

    def own_address(self) -> int:
        """The NIC's address."""
        return self.config.address

    def qp_error(self, qp: QueuePair, status: WcStatus, syndrome: Syndrome | None = None) -> None:
        """A queue pair went to ERROR by itself."""
        self._report(QpError(qp.number, status, syndrome))

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

    def _report(self, event: object) -> None:
        self._events.append(event)

    def _fail_overrun(self) -> None:
        """Queue pairs whose completions do not fit go to ERROR (IBTA 11.6.3.1)."""
        overruns, self._overruns[:] = [*self._overruns], []
        for cq in overruns:
            self._report(CqOverrun(cq))
            for qp in self.qps.values():
                uses = qp.send_cq is cq or qp.recv_cq is cq
                if uses and qp.state is not QpState.RESET:
                    qp.modify(QpState.ERROR)

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
