"""A channel adapter: ports and their pacing, queue pairs, memory, timers, events; no transport.

A transport derives from `ChannelAdapter` and says what goes on the wire: `host.nic.Nic` is MRC,
`host.roce.RoceNic` is RoCEv2. Sans-IO: bytes and times in, bytes and times out.

    receive(port, frame, now)      a frame came from the wire; nothing in it ever raises
    transmit(now) → (port, frame)  what may start on the wire now
    next_timer() → time            when transmit or handle_timer has something to do
    handle_timer(now)

Time is an integer in ns and never goes back. After `receive`, `handle_timer`, `set_port_up` and
after posting work, a driver calls `transmit`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from host.config import NicConfig
from host.memory import Access, MemoryRegion, MemoryTable
from host.qp.base import BaseQueuePair, QpAttributes, QpMake
from host.qp.states import QpState
from host.qp.syndrome import Syndrome
from host.qp.timers import Timed, Timers
from host.qp.work import CompletionQueue, WcStatus
from topologies.timing import WIRE_OVERHEAD_BYTES

_NS = 10**9

#: Control frames that may wait at a port; more are dropped and counted
MAX_PORT_CONTROL_FRAMES = 1024
#: Events that wait for `next_event`; beyond, the oldest are lost
MAX_EVENTS = 1 << 16

#: 0 and 1 are management QPs (IBTA), 2 is MRC's endpoint operations
FIRST_QP = 0x11
MAX_QP = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class QpError:
    """A queue pair went to ERROR by itself; `status` as of the completion that says why.

    `syndrome` is the NAK that its responder sent, None where its requestor could not go on.
    """

    qp_num: int
    status: WcStatus
    syndrome: Syndrome | None = None


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


class Port:
    """A port of the NIC, as those who send through it see it."""

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


QP = TypeVar("QP", bound=BaseQueuePair[Any, Any, Any])


class ChannelAdapter(ABC, Generic[QP]):
    """What all transports share. `seed` makes keys, numbers and orders."""

    def __init__(self, config: NicConfig, *, seed: int) -> None:
        self.config = config
        self._rng = random.Random(seed)
        self.memory = MemoryTable(random.Random(self._rng.getrandbits(64)))
        self.qps: dict[int, QP] = {}
        self._next_qp = FIRST_QP
        self._ports = [Port(port.rate_bps) for port in config.ports]
        #: Frames in all `Port.control`
        self._control_frames = 0
        #: Mask of the ports that may start no data at present
        self._paused = 0
        self._timers = Timers()
        self._now_ns = 0
        #: New work since `transmit`
        self._kicked = False
        self._overruns: list[CompletionQueue] = []
        self._events: deque[object] = deque(maxlen=MAX_EVENTS)
        #: Frames that came and were not used, by reason
        self.drops: Counter[str] = Counter()

    # --- what a transport does ---

    @abstractmethod
    def _new_qp(self, make: QpMake) -> QP:
        """A queue pair of the transport's own."""

    @abstractmethod
    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """A frame came in on a port. Whatever is in it, this does not raise."""

    @abstractmethod
    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """(port, frame) of all that may start on the wire now, at most one a port with a rate."""

    @abstractmethod
    def handle_timer(self, now_ns: int) -> None:
        """Time has come."""

    @abstractmethod
    def _waits(self) -> int:
        """Mask of the ports that there may be something to send on, beside control frames."""

    @abstractmethod
    def _port_changed(self, port: int, now_ns: int) -> None:
        """A port came up or went down."""

    def _rates_changed(self) -> None:
        """Ports are up or down, or have other rates."""

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
    ) -> QP:
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
        qp = self._new_qp(
            QpMake(
                number=self._next_qp,
                attributes=QpAttributes(**values),  # type: ignore[arg-type]
                send_cq=send_cq,
                recv_cq=send_cq if recv_cq is None else recv_cq,
                max_send_wr=max_send_wr,
                max_recv_wr=max_recv_wr,
                pd=pd,
            )
        )
        self.qps[qp.number] = qp
        while self._next_qp in self.qps:
            self._next_qp = self._next_qp + 1 if self._next_qp < MAX_QP else FIRST_QP
        return qp

    def destroy_qp(self, qp: QP) -> None:
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

        QpError, CqOverrun, PortChanged; and of a `host.nic.Nic` QpEvEvent, EndpointResult and
        PeerPortsChanged.
        """
        return self._events.popleft() if self._events else None

    # --- the wire ---

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
        self._control_frames += 1
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
        waits = self._waits()
        if not waits and not self._control_frames:
            return None
        earliest: int | None = None
        now_ns = self._now_ns
        for number, port in enumerate(self._ports):
            busy_until_ns = port.busy_until_ns
            if (
                busy_until_ns > now_ns
                and port.up
                and (earliest is None or busy_until_ns < earliest)
                and (waits >> number & 1 or port.control)
            ):
                earliest = busy_until_ns
        return earliest

    # --- ports ---

    def ports_up(self) -> int:
        """Mask of the ports that are up."""
        return sum(1 << number for number, port in enumerate(self._ports) if port.up)

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        """The local link of a port came up or went down."""
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
        self._control_frames -= len(state.control)
        state.control.clear()
        self._rates_changed()
        self._port_changed(port, now_ns)
        self._kicked = True

    def set_port_rate(self, port: int, rate_bps: int | None, now_ns: int) -> None:
        """The port serialises the next frames at another rate. Raises ValueError for no rate."""
        if rate_bps is not None and rate_bps <= 0:
            raise ValueError(f"rate_bps: {rate_bps} does not fit: it must be above 0")
        self._now_ns = now_ns
        state = self._ports[port]
        state.rate_bps = rate_bps
        state.remainder = 0
        self._rates_changed()
        self._kicked = True

    def set_port_paused(self, port: int, paused: bool, now_ns: int) -> None:
        """Start no data on a port, or go on (IEEE 802.1Q-2022, clause 36); control goes on."""
        self._now_ns = now_ns
        if paused:
            self._paused |= 1 << port
        else:
            self._paused &= ~(1 << port)
            self._kicked = True

    def port_rate_bps(self, port: int) -> int | None:
        """The rate of a port at present; None: unlimited."""
        return self._ports[port].rate_bps

    def port_statistics(self, port: int) -> PortStatistics:
        """Counters of a port, since the NIC was made."""
        state = self._ports[port]
        return PortStatistics(
            state.up, state.tx_frames, state.tx_bytes, state.rx_frames, state.rx_bytes
        )

    # --- what queue pairs ask of their owner ---

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Wake something."""
        self._timers.arm(timed, deadline_ns)

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """Memory for a peer's write."""
        return self.memory.remote_write(rkey, va, length, pd)

    def own_address(self) -> int:
        """The NIC's address."""
        return self.config.address

    def qp_error(self, qp: QP, status: WcStatus, syndrome: Syndrome | None = None) -> None:
        """A queue pair went to ERROR by itself."""
        self._report(QpError(qp.number, status, syndrome))

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
