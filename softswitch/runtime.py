"""Real time: one event loop for a switch, its ports and its timers.

The loop sleeps in epoll until a port has frames, a frame's last bit has left (a timer with
nanosecond resolution) or somebody asks for something. It takes frames in batches; the lock that
guards the switch is free between batches and goes to whoever waited longest, so control-plane
requests get their turn at any load.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rawsocket.af_packet import AfPacketPort
from rawsocket.links import LinkMonitor, LinkState
from rawsocket.timerfd import Timer
from softswitch.fair_lock import FairLock
from softswitch.pipeline import Pipeline
from softswitch.ports.base import Loss, PortDriver
from softswitch.ports.pcap import PortCapture
from softswitch.program import Program
from softswitch.replication import ReplicationEngine
from softswitch.switch import Switch, SwitchError, SwitchStats

log = logging.getLogger(__name__)

BATCH_FRAMES: Final = 32
"""Frames taken from one port while the lock is held: about a millisecond of work."""

DRIVER_ERROR: Final = "driver_error"
"""Reason of a loss: a port's driver raised an exception it should have counted itself."""

_TICK_NS: Final = 100_000_000
"""How often kernel counters are read and captures flushed."""

_RETRY_S: Final = 0.001
_SPIN_NS: Final = 20_000
"""Waits shorter than this are not worth a system call to sleep."""


@dataclass(slots=True)
class _Attached:
    """A port's driver and what keeps it up or down."""

    number: int
    driver: PortDriver
    capture: PortCapture | None
    enabled: bool = True
    link_up: bool = True


class Runtime:
    """Runs a switch in real time. Also what the P4Runtime server sees of it (`SwitchAccess`).

    Args:
        switch: with no ports yet but the CPU port; time 0 of it is now.
        dump_bytes: log so many bytes of every frame received and sent, 0 = none.
    """

    def __init__(self, switch: Switch, *, dump_bytes: int = 0) -> None:
        self.switch = switch
        self.lock = FairLock()
        self._dump_bytes = dump_bytes
        self._start_ns = time.monotonic_ns()
        # Captures carry the time of day; a clock set meanwhile does not make them jump.
        self._epoch_ns = time.time_ns() - self._start_ns
        self._attached: dict[int, _Attached] = {}
        self._senders: dict[int, Callable[[bytes], None]] = {}
        self._handlers: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._timer = Timer()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._links: LinkMonitor | None = None
        self._stopping = False
        self._tick_at_ns = 0
        self._errors: set[str] = set()
        self.watch(self._timer.descriptor, self._timer.clear)
        self.watch(self._wake, self._clear_wake)

    # -- SwitchAccess ----------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline | None:
        """The loaded program's state."""
        return self.switch.pipeline

    @property
    def replication(self) -> ReplicationEngine:
        """Multicast groups and clone sessions."""
        return self.switch.replication

    def build(self, program: Program) -> Pipeline:
        """Compile a program without running it; the lock need not be held."""
        return Pipeline(program, seed=self.switch.seed, drop_port=self.switch.drop_port)

    def install(self, pipeline: Pipeline) -> None:
        """Let a pipeline take over; the lock is held."""
        self.switch.install(pipeline)

    def has_port(self, port: int) -> bool:
        """Whether the switch has this port, up or down."""
        return port in self.switch.ports

    def packet_out(self, frame: bytes) -> None:
        """Take in a frame from the controller; the lock is not held."""
        with self.lock:
            self.switch.packet_out(frame, self.now_ns())
        self.wake()

    def now_ns(self) -> int:
        """Nanoseconds since the start."""
        return time.monotonic_ns() - self._start_ns

    def set_callbacks(
        self,
        packet_in: Callable[[bytes], bool] | None,
        digest: Callable[[str, tuple[int, ...]], None] | None,
    ) -> None:
        """Say where packet-ins and digests go."""
        self.switch.on_packet_in = packet_in
        self.switch.on_digest = digest

    # -- ports -----------------------------------------------------------------------------

    def attach(
        self,
        number: int,
        driver: PortDriver,
        *,
        capture: PortCapture | None = None,
        rate_bps: int | None = None,
        depth_packets: int | None = None,
        depth_bytes: int | None = None,
    ) -> None:
        """Add a port to the switch, served by `driver`; both are closed with the runtime.

        Before `run`, or with the lock held.

        Raises:
            SwitchError, TrafficManagerError: as `Switch.add_port`.
        """
        self.switch.add_port(
            number, rate_bps=rate_bps, depth_packets=depth_packets, depth_bytes=depth_bytes
        )
        attached = _Attached(number, driver, capture)
        self._attached[number] = attached
        self._senders[number] = self._sender(attached)
        self.watch(driver.fileno(), lambda: self._receive(attached))
        if isinstance(driver, AfPacketPort):
            if self._links is None:
                self._links = LinkMonitor()
                self.watch(self._links.fileno(), self._read_links)
            state = self._links.query(driver.ifindex)
            if state is not None:
                driver.count_interface_dropped(state.rx_dropped)
            self._set_link(attached, state is not None and state.up)

    def set_port_enabled(self, number: int, enabled: bool) -> None:
        """Switch a port on or off by hand; it is up when it is on and its link is up."""
        attached = self._attached.get(number)
        if attached is None:
            raise SwitchError(f"port {number} does not exist or is no interface")
        attached.enabled = enabled
        self._apply_state(attached)

    def interfaces(self) -> Mapping[int, str]:
        """Names of the attached interfaces by port number."""
        return {number: attached.driver.name for number, attached in self._attached.items()}

    def stats(self) -> SwitchStats:
        """Return the switch's counters, what is in the drivers' hands included; lock held."""
        for attached in self._attached.values():
            self._take_losses(attached, poll=True)
        stats = self.switch.stats()
        waiting = sum(attached.driver.backlog for attached in self._attached.values())
        return replace(stats, sent=stats.sent - waiting, queued=stats.queued + waiting)

    # -- the loop --------------------------------------------------------------------------

    def watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        """Call `handler`, without the lock, whenever `descriptor` is readable."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def watch_writable(self, descriptor: int, wanted: bool) -> None:
        """Call the handler of a watched descriptor when it is writable as well, or no more."""
        events = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching; before the descriptor is closed."""
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)

    def wake(self) -> None:
        """Make the loop look around now; from any thread or signal handler."""
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Make `run` return soon; from any thread or signal handler."""
        self._stopping = True
        self.wake()

    def run(self) -> None:
        """Serve ports and timers until `stop`.

        Whatever goes wrong with one frame or one request is logged once per kind; the loop goes on.
        """
        poll = self._epoll.poll
        handlers = self._handlers
        timeout_s = 0.0
        while not self._stopping:
            for descriptor, _ in poll(timeout_s):
                handler = handlers.get(descriptor)
                if handler is not None:
                    try:
                        handler()
                    except Exception as error:
                        self._report(error)
            timeout_s = self._look_around()

    def close(self) -> None:
        """Close ports, captures and everything else; after `run`."""
        for attached in self._attached.values():
            attached.driver.close()
            if attached.capture is not None:
                attached.capture.close()
        if self._links is not None:
            self._links.close()
        self._epoll.close()
        self._timer.close()
        os.close(self._wake)

    def _look_around(self) -> float:
        """Send what is due, do what is periodic; return how long to sleep, in seconds."""
        with self.lock:
            now_ns = self.now_ns()
            try:
                self._transmit(now_ns)
                backlog = self._retry()
                if now_ns >= self._tick_at_ns:
                    self._tick_at_ns = now_ns + _TICK_NS
                    self._tick()
            except Exception as error:
                self._report(error)
                backlog = False
            timer_ns = self.switch.next_timer()
        timeout_s = _RETRY_S if backlog else _TICK_NS / 1e9
        if timer_ns is not None:
            if timer_ns - self.now_ns() < _SPIN_NS:
                return 0.0
            self._timer.set(self._start_ns + timer_ns)
        return timeout_s

    def _receive(self, attached: _Attached) -> None:
        frames = attached.driver.receive(BATCH_FRAMES)
        if not frames:
            return
        number, start_ns = attached.number, self._start_ns
        receive, clock = self.switch.receive, time.monotonic_ns
        if attached.capture is not None or self._dump_bytes:
            self._show(attached, "received on", frames)
        with self.lock:
            for frame in frames:
                try:
                    receive(number, frame, clock() - start_ns)
                except Exception as error:
                    self._report(error)
            self._transmit(clock() - start_ns)

    def _transmit(self, now_ns: int) -> None:
        senders = self._senders
        for port, frame in self.switch.transmit(now_ns):
            try:
                senders[port](frame)
            except Exception as error:
                self.switch.count_lost(port, Loss(DRIVER_ERROR, 1, len(frame)))
                self._report(error)

    def _sender(self, attached: _Attached) -> Callable[[bytes], None]:
        send = attached.driver.send
        if attached.capture is None and not self._dump_bytes:
            return send

        def show_and_send(frame: bytes) -> None:
            self._show(attached, "sent on", [frame])
            send(frame)

        return show_and_send

    def _show(self, attached: _Attached, what: str, frames: list[bytes]) -> None:
        """Capture and dump frames as asked for."""
        if attached.capture is not None:
            capture = attached.capture
            writer = capture.sent if what == "sent on" else capture.received
            time_ns = time.monotonic_ns() + self._epoch_ns
            for frame in frames:
                writer.write(frame, time_ns)
        if self._dump_bytes:
            for frame in frames:
                shown = frame[: self._dump_bytes].hex()
                log.info("%s port %d: %d bytes: %s", what, attached.number, len(frame), shown)

    def _retry(self) -> bool:
        """Offer backlogs to their interfaces again; True if some remain."""
        remain = False
        for attached in self._attached.values():
            if attached.driver.backlog:
                attached.driver.retry()
                remain = remain or attached.driver.backlog > 0
        return remain

    def _tick(self) -> None:
        for attached in self._attached.values():
            driver = attached.driver
            if self._links is not None and isinstance(driver, AfPacketPort):
                state = self._links.query(driver.ifindex)
                if state is not None:
                    driver.count_interface_dropped(state.rx_dropped)
            self._take_losses(attached, poll=True)
            if attached.capture is not None:
                attached.capture.flush()

    def _take_losses(self, attached: _Attached, *, poll: bool) -> None:
        for loss in attached.driver.take_losses(poll=poll):
            self.switch.count_lost(attached.number, loss)

    # -- links -----------------------------------------------------------------------------

    def _read_links(self) -> None:
        assert self._links is not None
        states = self._links.changes()
        with self.lock:
            if states is None:
                self._query_links()
            else:
                for state in states:
                    self._link_changed(state)

    def _query_links(self) -> None:
        """News were lost: ask about every interface."""
        assert self._links is not None
        for attached in self._attached.values():
            if isinstance(attached.driver, AfPacketPort):
                state = self._links.query(attached.driver.ifindex)
                self._set_link(attached, state is not None and state.up)

    def _link_changed(self, state: LinkState) -> None:
        for attached in self._attached.values():
            driver = attached.driver
            if not isinstance(driver, AfPacketPort):
                continue
            if state.ifindex == driver.ifindex:
                # An interface that was renamed or moved to another namespace stays ours by index;
                # one that is gone may come back under its name.
                self._set_link(attached, state.up)
            elif state.name == driver.name and not state.gone and driver.reattach():
                log.warning("interface %s is back; attached again", driver.name)
                driver.count_interface_dropped(state.rx_dropped)
                self._set_link(attached, state.up)

    def _set_link(self, attached: _Attached, up: bool) -> None:
        if attached.link_up != up:
            attached.link_up = up
            self._apply_state(attached)

    def _apply_state(self, attached: _Attached) -> None:
        up = attached.enabled and attached.link_up
        if self.switch.port_is_up(attached.number) != up:
            log.info(
                "port %d (%s) is %s", attached.number, attached.driver.name, "up" if up else "down"
            )
            self.switch.set_port_up(attached.number, up, self.now_ns())
            if not up:
                attached.driver.link_down()

    # -- small things ----------------------------------------------------------------------

    def _clear_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _report(self, error: Exception) -> None:
        kind = f"{type(error).__name__}: {error}"
        if kind not in self._errors and len(self._errors) < 64:
            self._errors.add(kind)
            log.error("%s (further ones of this kind are not logged)", kind, exc_info=error)


def format_summary(stats: SwitchStats) -> str:
    """Return the one-line account of a run."""
    reasons = " ".join(f"{reason}={packets}" for reason, packets in sorted(stats.dropped.items()))
    return (
        f"received={stats.received} copies={stats.copies} sent={stats.sent} "
        f"queued={stats.queued} dropped={sum(stats.dropped.values())}"
        + (f" ({reasons})" if reasons else "")
    )
