"""A host in virtual time: `host.nic.Nic` between its wires, and a tally of what it sent where."""

from __future__ import annotations

import json
from collections.abc import Callable
from heapq import heappush
from typing import Any, Final

from host.adapter import ChannelAdapter
from host.config import NicConfig
from host.nic import Nic
from host.profiles import Profiles
from host.roce import RoceConfig, RoceNic
from sim.loop import EventLoop
from sim.pfc import PauseReceiver
from sim.wire import Wire
from topologies.addressing import Path
from topologies.host_config import RackConfig, host_config, host_json
from topologies.model import Fabric, Host
from topologies.seeds import seed_of
from topologies.timing import WIRE_OVERHEAD_BYTES

#: Offsets in a frame with an outer header: next header, destination address, BTH opcode
_NEXT_HEADER: Final = 20
_IN_IPV6: Final = 41
_CARRIER: Final = slice(38, 54)
_OPCODE: Final = 102
#: ... and without one: flow label, destination address, UDP source port, BTH opcode
_PLAIN_OPCODE: Final = 62
#: MRC's opcodes of writes, and without their upper bits those of RC
_FIRST_WRITE, _LAST_WRITE = 0xC6, 0xCB
_RC_FIRST_WRITE, _RC_LAST_WRITE = 0x06, 0x0B

#: Calls of `Nic.transmit` at one time before time is taken to stand still
_MAX_TRANSMITS: Final = 100_000


class Tally:
    """Data frames that a host sent on one path: how many, their bytes, and when the last.

    `path` is for whoever asks what path that is, to remember the answer.
    """

    __slots__ = ("frames", "last_ns", "path", "size_bytes")

    def __init__(self) -> None:
        self.frames = 0
        self.size_bytes = 0
        self.last_ns = -1
        self.path: Path | None = None


class HostNode:
    """A host.

    Attributes:
        nic: its NIC.
        wires: the wire out of each port.
        sent: data frames sent, by path: the outer destination address, or flow label, address and
            UDP source port of frames without an outer header.
        plane_bytes: bytes of data frames sent, by port.
        pause_receiver: flow control; None without it.
    """

    def __init__(
        self,
        fabric: Fabric,
        host: Host,
        loop: EventLoop,
        run_seed: int,
        *,
        rack: RackConfig | None = None,
        profiles: Profiles | None = None,
        roce: RoceConfig | None = None,
        changes: dict[str, Any] | None = None,
    ) -> None:
        self.name = host.name
        self.host = host
        text = json.dumps(host_json(host_config(fabric, host, rack)))
        config = NicConfig.from_host_json(text, **(changes or {}))
        self.config = config
        seed = seed_of(run_seed, f"host {host.name}")
        self.nic: ChannelAdapter[Any]
        if roce is None:
            self.nic = Nic(config, seed=seed, profiles=profiles)
        else:
            self.nic = RoceNic(config, seed=seed, roce=roce)
        self.wires: list[Wire] = []
        self.sent: dict[bytes, Tally] = {}
        self.plane_bytes = [0] * len(config.ports)
        self.sent_frames = 0
        self.received_frames = 0
        self.rates_bps = [port.rate_bps for port in config.ports]
        self._notices: list[Callable[[int], None]] = []
        self._durations: list[dict[int, int]] = [{} for _ in config.ports]
        self._loop = loop
        self._heap = loop.heap
        self._number = loop.number
        self._scheduled: set[int] = set()
        self._touched = False
        self._down = [0] * len(config.ports)
        self.pause_receiver: PauseReceiver | None = None
        if fabric.pfc is not None:
            rates = {port: rate for port, rate in enumerate(self.rates_bps) if rate is not None}
            self.pause_receiver = PauseReceiver(self, loop, rates)

    # --- frames ---

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        """A frame is here whole."""
        self.received_frames += 1
        self.nic.receive(port, frame, now_ns)
        if not self._touched:
            self._touched = True
            self._loop.touched.append(self)

    def touch(self) -> None:
        """Work was posted, or something else changed: send what may be sent, at the present."""
        if not self._touched:
            self._touched = True
            self._loop.touched.append(self)

    def notice(self, act: Callable[[int], None]) -> None:
        """Let the application act before the host settles."""
        self._notices.append(act)
        self.touch()

    def _wake(self, now_ns: int, _a: object, _b: object) -> None:
        self._scheduled.discard(now_ns)
        self.nic.handle_timer(now_ns)
        if not self._touched:
            self._touched = True
            self._loop.touched.append(self)

    def settle(self, now_ns: int) -> None:
        """Everything of this time has happened: the application and the NIC act on it."""
        self._touched = False
        nic = self.nic
        for _ in range(_MAX_TRANSMITS):
            if self._notices:
                notices, self._notices = self._notices, []
                for act in notices:
                    act(now_ns)
            for port, frame in nic.transmit(now_ns):
                self._send(port, frame, now_ns)
            due_ns = nic.next_timer()
            if due_ns is None:
                return
            if due_ns > now_ns:
                if due_ns not in self._scheduled:
                    self._scheduled.add(due_ns)
                    heappush(self._heap, (due_ns, self._number(), self._wake, None, None))
                return
            nic.handle_timer(now_ns)
        raise RuntimeError(f"{self.name}: the NIC has something to do at {now_ns} ns for ever")

    def _send(self, port: int, frame: bytes, now_ns: int) -> None:
        size = len(frame)
        self.sent_frames += 1
        if frame[_NEXT_HEADER] == _IN_IPV6:
            if _FIRST_WRITE <= frame[_OPCODE] <= _LAST_WRITE:
                path = frame[_CARRIER]
                tally = self.sent.get(path)
                if tally is None:
                    tally = self.sent[path] = Tally()
                tally.frames += 1
                tally.size_bytes += size
                tally.last_ns = now_ns
                self.plane_bytes[port] += size
        elif (
            _FIRST_WRITE <= frame[_PLAIN_OPCODE] <= _LAST_WRITE
            or _RC_FIRST_WRITE <= frame[_PLAIN_OPCODE] <= _RC_LAST_WRITE
        ):
            self.plane_bytes[port] += size
        durations = self._durations[port]
        duration_ns = durations.get(size)
        if duration_ns is None:
            duration_ns = durations[size] = self._duration_ns(port, size)
        self.wires[port].send(now_ns + duration_ns, frame)

    def _duration_ns(self, port: int, size_bytes: int) -> int:
        rate_bps = self.rates_bps[port]
        if rate_bps is None:
            return 0
        return -(-(size_bytes + WIRE_OVERHEAD_BYTES) * 8 * 10**9 // rate_bps)

    def set_port_paused(self, port: int, paused: bool, now_ns: int) -> None:
        """The switch at a port asks for no data, or for data again."""
        self.nic.set_port_paused(port, paused, now_ns)
        self.touch()

    # --- faults ---

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        """The link at a port came up or went down; it is up when no fault holds it down."""
        self._down[port] += -1 if up else 1
        if self._down[port] and self.pause_receiver is not None:
            self.pause_receiver.release(port, now_ns)
        self.nic.set_port_up(port, not self._down[port], now_ns)
        self.touch()

    def set_port_rate(self, port: int, rate_bps: int | None, now_ns: int) -> None:
        """The link of a port has another rate from now on."""
        self.nic.set_port_rate(port, rate_bps, now_ns)
        self.rates_bps[port] = rate_bps
        self._durations[port].clear()
        if self.pause_receiver is not None:
            self.pause_receiver.set_rate(port, rate_bps)
        self.touch()
