"""Real time: carries frames between a NIC and its interfaces, and wakes it in time.

The ports, a timer with the clock's resolution and the link monitor are watched by an epoll of the
driver's own. That epoll is the one descriptor that asyncio watches, so a burst costs asyncio one
wake-up: a *slice* goes round the driver's loop until nothing is left to do, or until others must
have their turn.

What waits in the sockets is taken in before any timer runs. A process that did not get the CPU for
some time then finds the acknowledgements that came meanwhile, not timeouts.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from host.nic import Nic
from rawsocket.links import LinkMonitor
from rawsocket.losses import Loss
from rawsocket.timerfd import Timer

log = logging.getLogger(__name__)

#: Frames taken from a port at a time
BATCH_FRAMES: Final = 32
#: Fewer frames are not worth being sorted by port
_LEAST_BATCH_FRAMES: Final = 4
#: Batches taken before the NIC's timers and answers have their turn
_MAX_BATCHES: Final = 4
#: A slice ends after so long, so that control connections have their turn
SLICE_NS: Final = 5_000_000
#: Waits shorter than this are not worth a system call to sleep
_SPIN_NS: Final = 20_000
#: A port that was woken too late sends what it missed, but not more than in so long
_CATCH_UP_NS: Final = 4_000_000
#: An interface that takes no frames is tried again after so long
_RETRY_NS: Final = 1_000_000
#: How often the kernel is asked what it has lost
_LOSS_POLL_NS: Final = 200_000_000
_MAX_REPORTED_ERRORS: Final = 64


class PacketPort(Protocol):
    """An interface as the driver uses it: `rawsocket.af_packet.AfPacketPort`, or a test's."""

    @property
    def name(self) -> str:
        """The interface's name."""
        ...

    @property
    def ifindex(self) -> int:
        """The interface's number, by which the link monitor knows it."""
        ...

    @property
    def backlog(self) -> int:
        """Frames taken by `send` that wait for the interface to accept them."""
        ...

    def fileno(self) -> int:
        """Readable when `receive` has something to return."""
        ...

    def receive(self, limit: int) -> list[bytes]:
        """Up to `limit` frames that wait, oldest first."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a frame or keep it in the backlog; what fails is a loss."""
        ...

    def send_batch(self, frames: Sequence[bytes]) -> None:
        """As `send` of each in turn."""
        ...

    def retry(self) -> None:
        """Try to send the backlog."""
        ...

    def link_down(self) -> None:
        """Give up the backlog."""
        ...

    def take_losses(self, *, poll: bool) -> list[Loss]:
        """The losses since the last call; `poll` asks the kernel for its counters too."""
        ...

    def reattach(self) -> bool:
        """Go over to the interface that has the name now; False if there is none."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(slots=True)
class DriverStatistics:
    """What the driver did: how it worked, not what the NIC did."""

    slices: int = 0
    rounds: int = 0
    frames_in: int = 0
    frames_out: int = 0
    #: How late the process woke up for a timer, at the worst, since that was last asked
    worst_lateness_ns: int = 0


class RealTimeDriver:
    """A `host.verbs.Driver` over packet sockets. Times are those of CLOCK_MONOTONIC.

    `ports` by number (= plane) are closed with it. `links` tells of interfaces that come up and go
    down; without it they are up.
    """

    def __init__(
        self, nic: Nic, ports: Mapping[int, PacketPort], links: LinkMonitor | None = None
    ) -> None:
        self.nic = nic
        self.statistics = DriverStatistics()
        #: Called after the NIC has worked; hands its events out (`Device.dispatch`)
        self.dispatch: Callable[[], object] = lambda: None
        #: Called with (port, frame) of each frame that is about to be sent, and the time
        self.on_send: Callable[[Sequence[tuple[int, bytes]], int], None] | None = None
        self._ports = dict(ports)
        self._by_descriptor = {port.fileno(): number for number, port in ports.items()}
        self._links = links
        self._losses: Counter[str] = Counter()
        self._deferred: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_slice = False
        self._scheduled = False
        #: There may be something to send that no timer tells of
        self._asked = False
        self._next_loss_poll_ns = 0
        self._timer_due_ns = 0
        self._errors: set[str] = set()
        self._timer = Timer()
        self._epoll = select.epoll()
        self._epoll.register(self._timer.descriptor, select.EPOLLIN)
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, select.EPOLLIN)
        if links is not None:
            self._epoll.register(links.fileno(), select.EPOLLIN)
            self._query_links()

    # --- Driver ---

    def now_ns(self) -> int:
        """The present time."""
        return time.monotonic_ns()

    def kick(self) -> None:
        """There may be something to send: a slice follows soon."""
        self._asked = True
        if self._in_slice or self._scheduled or self._loop is None:
            return
        self._scheduled = True
        self._loop.call_soon(self._run_slice)

    def defer(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the NIC is not at work, and let it work again afterwards.

        Faster than asyncio's `call_soon`: what a completion calls for is done in the same slice.
        """
        self._deferred.append(callback)
        self.kick()

    # --- life ---

    def start(self) -> None:
        """Begin to carry frames; within a running asyncio loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._run_slice)
        self.kick()

    def close(self) -> None:
        """Stop, and close all ports."""
        if self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._loop = None
        for port in self._ports.values():
            port.close()
        if self._links is not None:
            self._links.close()
        self._timer.close()
        self._epoll.close()

    def losses(self) -> dict[str, int]:
        """Frames that interfaces lost, by reason (see `rawsocket.af_packet`)."""
        self._take_losses(poll=True)
        return dict(self._losses)

    # --- work ---

    def _run_slice(self) -> None:
        """Work until there is nothing to do now, or time is up; then set the timer."""
        self._scheduled = False
        if self._loop is None or self._in_slice:
            return
        self._in_slice = True
        self.statistics.slices += 1
        try:
            end_ns = time.monotonic_ns() + SLICE_NS
            while self._round() and time.monotonic_ns() < end_ns:
                pass
        except Exception as error:
            self._report(error)
        finally:
            self._in_slice = False
        self._set_timer()

    def _round(self) -> bool:
        """Once around: receive, timers, transmit, callbacks. False: there was nothing to do."""
        nic = self.nic
        clock = time.monotonic_ns
        self.statistics.rounds += 1
        self._catch_up(clock())
        received = self._receive()
        deferred = self._deferred
        now_ns = clock()
        due_ns = nic.next_timer()
        asked, self._asked = self._asked, False
        if due_ns is None or due_ns > now_ns:
            if not received and not deferred and not asked:
                if now_ns >= self._next_loss_poll_ns:
                    self._next_loss_poll_ns = now_ns + _LOSS_POLL_NS
                    self._take_losses(poll=True)
                return due_ns is not None and due_ns < now_ns + _SPIN_NS
        else:
            nic.handle_timer(now_ns)
        self._transmit(now_ns)
        self.dispatch()
        for _ in range(len(deferred)):
            deferred.popleft()()
        return True

    def _catch_up(self, now_ns: int) -> None:
        """Start the frames that should have started while the process waited for its turn.

        Otherwise a port that has a rate would lose all the time by which it is woken too late.
        """
        oldest_ns = now_ns - _CATCH_UP_NS
        while (due_ns := self.nic.next_departure()) is not None and due_ns < now_ns:
            if due_ns >= oldest_ns:
                self._transmit(due_ns)
                continue
            # Longer ago than is made up for: go on from where that begins
            self._transmit(oldest_ns)

    def _receive(self) -> bool:
        """Take in what waits, within limits. False: nothing did."""
        received = False
        for _ in range(_MAX_BATCHES):
            more = False
            for descriptor, _ in self._epoll.poll(0):
                number = self._by_descriptor.get(descriptor)
                if number is not None:
                    frames = self._ports[number].receive(BATCH_FRAMES)
                    received = received or bool(frames)
                    more = more or len(frames) == BATCH_FRAMES
                    self.statistics.frames_in += len(frames)
                    receive = self.nic.receive
                    now_ns = time.monotonic_ns()
                    for frame in frames:
                        receive(number, frame, now_ns)
                elif descriptor == self._timer.descriptor:
                    self._timer.clear()
                    late_ns = time.monotonic_ns() - self._timer_due_ns
                    if late_ns > self.statistics.worst_lateness_ns:
                        self.statistics.worst_lateness_ns = late_ns
                else:
                    self._read_links()
            if not more:
                break
        return received

    def _transmit(self, now_ns: int) -> None:
        frames = self.nic.transmit(now_ns)
        ports = self._ports
        self.statistics.frames_out += len(frames)
        if frames and self.on_send is not None:
            # Not `now_ns`: what a port missed is sent as if it were earlier
            self.on_send(frames, time.monotonic_ns())
        if len(frames) < _LEAST_BATCH_FRAMES:
            for number, frame in frames:
                ports[number].send(frame)
            return
        batches: dict[int, list[bytes]] = {number: [] for number in ports}
        for number, frame in frames:
            batches[number].append(frame)
        for number, batch in batches.items():
            if batch:
                ports[number].send_batch(batch)

    def _set_timer(self) -> None:
        due_ns = self.nic.next_timer()
        for port in self._ports.values():
            if port.backlog:
                port.retry()
                retry_ns = time.monotonic_ns() + _RETRY_NS
                if port.backlog and (due_ns is None or retry_ns < due_ns):
                    due_ns = retry_ns
        if self._deferred or self._asked:
            due_ns = time.monotonic_ns()
        if due_ns is not None:
            # Not in the past, from which lateness could not be told; 0 would disarm the timer
            due_ns = self._timer_due_ns = max(due_ns, time.monotonic_ns())
            self._timer.set(due_ns)

    # --- links ---

    def _query_links(self) -> None:
        """Ask about every interface: at the start, and when news were lost."""
        assert self._links is not None
        for number, port in self._ports.items():
            state = self._links.query(port.ifindex)
            if state is None and port.reattach():
                self._tell_reattached(port)
                state = self._links.query(port.ifindex)
            self._set_link(number, state is not None and state.up)

    def _read_links(self) -> None:
        assert self._links is not None
        states = self._links.changes()
        if states is None:
            self._query_links()
            return
        for state in states:
            for number, port in self._ports.items():
                if port.ifindex == state.ifindex:
                    self._set_link(number, state.up)
                elif state.name == port.name and not state.gone and port.reattach():
                    self._tell_reattached(port)
                    self._set_link(number, state.up)

    @staticmethod
    def _tell_reattached(port: PacketPort) -> None:
        log.warning("interface %s was deleted and made again; attached to the new one", port.name)

    def _set_link(self, number: int, up: bool) -> None:
        self.nic.set_port_up(number, up, time.monotonic_ns())
        if not up:
            self._ports[number].link_down()

    # --- small things ---

    def _take_losses(self, *, poll: bool) -> None:
        for port in self._ports.values():
            for loss in port.take_losses(poll=poll):
                self._losses[loss.reason] += loss.packets

    def _report(self, error: Exception) -> None:
        kind = f"{type(error).__name__}: {error}"
        if kind not in self._errors and len(self._errors) < _MAX_REPORTED_ERRORS:
            self._errors.add(kind)
            log.error("%s (further ones of this kind are not logged)", kind, exc_info=error)
