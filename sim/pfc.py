"""Priority-based flow control between neighbours: who asks for a pause, and who obeys.

The traffic manager of a switch knows when an ingress port holds too much; `PauseSender` makes pause
frames of that, which travel back over the link like any other frame. `PauseReceiver` stands between
a wire and a node, takes pause frames out and lets the node stop and go on. NICs obey; they never
ask, because they take in whatever comes.

One class is lossless: data, the lower queue of fabric.p4. It has priority 3, as RoCE mostly has.
Frames bear no VLAN tag; what a frame's priority is, its DSCP says, in the tables of the switch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from sim.loop import EventLoop
from sim.pfc_frame import ETHERTYPE, MAX_QUANTA, decode_pause, encode_pause, pause_ns

#: Of the lossless class, in pause frames
DATA_PRIORITY: Final = 3


class Pausable(Protocol):
    """A node whose ports can stop sending data."""

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        """A frame that is no pause frame is here whole."""
        ...

    def set_port_paused(self, port: int, paused: bool, now_ns: int) -> None:
        """Begin no data on a port, or go on."""
        ...


class PauseReceiver:
    """The pause frames that come to a node.

    Args:
        node: who obeys.
        loop: the clock.
        rates_bps: of each port's link; quanta are times of its bits.

    Attributes:
        frames: pause frames that came, and were obeyed or spoke of other priorities.
        paused_ns: for how long each port was paused so far, pauses that still hold not counted.
    """

    def __init__(self, node: Pausable, loop: EventLoop, rates_bps: Mapping[int, int]) -> None:
        self.frames = 0
        self.paused_ns: dict[int, int] = defaultdict(int)
        self._node = node
        self._loop = loop
        self._rates_bps = dict(rates_bps)
        #: Ports that are paused → since when, until when
        self._since_ns: dict[int, int] = {}
        self._until_ns: dict[int, int] = {}

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        """A frame is here whole."""
        quanta = decode_pause(frame) if frame[12:14] == ETHERTYPE else None
        if quanta is None:
            self._node.arrive(now_ns, port, frame)
            return
        self.frames += 1
        time = quanta.get(DATA_PRIORITY)
        if time is None:
            return
        if not time:
            self.release(port, now_ns)
            return
        if port not in self._since_ns:
            self._since_ns[port] = now_ns
            self._node.set_port_paused(port, True, now_ns)
        until_ns = self._until_ns[port] = now_ns + pause_ns(time, self._rates_bps[port])
        self._loop.at(until_ns, self._expire, port)

    def _expire(self, now_ns: int, port: int, _: object) -> None:
        """A pause is over, unless another was asked for meanwhile."""
        if self._until_ns.get(port) == now_ns:
            self.release(port, now_ns)

    def release(self, port: int, now_ns: int) -> None:
        """The port goes on: it was told to, its time is over, or its link went down."""
        since_ns = self._since_ns.pop(port, None)
        if since_ns is None:
            return
        del self._until_ns[port]
        self.paused_ns[port] += now_ns - since_ns
        self._node.set_port_paused(port, False, now_ns)

    def paused_by_port_ns(self, now_ns: int) -> dict[int, int]:
        """For how long each port was paused that ever was, pauses that still hold included."""
        paused_ns = dict(self.paused_ns)
        for port, since_ns in self._since_ns.items():
            paused_ns[port] = paused_ns.get(port, 0) + now_ns - since_ns
        return paused_ns

    def set_rate(self, port: int, rate_bps: int | None) -> None:
        """The link of a port has another rate: for pauses to come."""
        if rate_bps is not None:
            self._rates_bps[port] = rate_bps


class PauseSender:
    """The pause frames of a switch.

    A pause is renewed at half its time while the buffer has not fallen to XON.

    Args:
        send: sends a frame out of a port before everything else.
        loop: the clock.
        macs: address of each port, the source of its frames.
        rates_bps: of each port's link.
        quanta: what a pause asks for.

    Attributes:
        pauses: pauses that began, not counting those renewed.
    """

    def __init__(
        self,
        send: Callable[[int, bytes, int], None],
        loop: EventLoop,
        macs: Mapping[int, int],
        rates_bps: Mapping[int, int],
        *,
        quanta: int = MAX_QUANTA,
    ) -> None:
        self.pauses = 0
        self._send = send
        self._loop = loop
        self._rates_bps = dict(rates_bps)
        self._quanta = quanta
        self._stop = {
            port: encode_pause(mac, {DATA_PRIORITY: quanta}) for port, mac in macs.items()
        }
        self._go = {port: encode_pause(mac, {DATA_PRIORITY: 0}) for port, mac in macs.items()}
        #: Ports whose peer is to stop → which of all pauses of the port that is
        self._asking: dict[int, int] = {}

    def on_stop(self, port: int, _queue: int, stop: bool, now_ns: int) -> None:
        """The traffic manager wants the peer at a port to stop or to go on."""
        if not stop:
            del self._asking[port]
            self._send(port, self._go[port], now_ns)
            return
        self.pauses += 1
        self._asking[port] = self.pauses
        self._ask(now_ns, port, self.pauses)

    def _ask(self, now_ns: int, port: int, number: int) -> None:
        if self._asking.get(port) != number:
            return
        self._send(port, self._stop[port], now_ns)
        again_ns = now_ns + max(pause_ns(self._quanta, self._rates_bps[port]) // 2, 1)
        self._loop.at(again_ns, self._ask, port, number)

    def link_up(self, port: int, now_ns: int) -> None:
        """A link is up again, and its peer knows of no pause."""
        if port in self._asking:
            self._send(port, self._stop[port], now_ns)

    def set_rate(self, port: int, rate_bps: int | None) -> None:
        """The link of a port has another rate: for pauses to come."""
        if rate_bps is not None:
            self._rates_bps[port] = rate_bps
