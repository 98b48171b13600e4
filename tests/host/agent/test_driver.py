"""The driver's order of work, on a NIC that only writes down what it is asked."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from host.agent.driver import PacketPort, RealTimeDriver
from host.nic import Nic
from rawsocket.links import LinkMonitor, LinkState
from rawsocket.losses import Loss
from tests.host.agent.world import SocketPort, run, until


class ScriptedNic:
    """What a `Nic` is to a driver."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.timers: deque[int] = deque()
        self.departures: deque[int] = deque()
        self.frames: deque[list[tuple[int, bytes]]] = deque()

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        self.calls.append(("receive", port, frame))

    def next_timer(self) -> int | None:
        return self.timers[0] if self.timers else None

    def next_departure(self) -> int | None:
        return self.departures[0] if self.departures else None

    def handle_timer(self, now_ns: int) -> None:
        while self.timers and self.timers[0] <= now_ns:
            self.calls.append(("timer", self.timers.popleft()))

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        while self.departures and self.departures[0] <= now_ns:
            self.departures.popleft()
            self.calls.append(("departure", now_ns))
        return self.frames.popleft() if self.frames else []

    def set_port_up(self, port: int, up: bool, now_ns: int) -> None:
        self.calls.append(("link", port, up))

    def kinds(self) -> list[str]:
        return [call[0] for call in self.calls]


class Links:
    """What a `LinkMonitor` is to a driver."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK)
        self.up = {7: True}
        self._news: list[LinkState] | None = []

    def fileno(self) -> int:
        return self._event

    def query(self, ifindex: int) -> LinkState | None:
        return LinkState(ifindex, "x", self.up[ifindex], 0) if ifindex in self.up else None

    def tell(self, news: list[LinkState] | None) -> None:
        self._news = news
        os.eventfd_write(self._event, 1)

    def changes(self) -> list[LinkState] | None:
        os.eventfd_read(self._event)
        return self._news

    def close(self) -> None:
        os.close(self._event)


class World:
    """A driver with one port, and the wire's other end."""

    def __init__(
        self, links: Links | None = None, port_type: type[SocketPort] = SocketPort
    ) -> None:
        self.nic = ScriptedNic()
        near, self.wire = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.port = port_type("plane0", near)
        self.port.ifindex = 7
        self.driver = RealTimeDriver(
            cast(Nic, self.nic),
            {0: cast(PacketPort, self.port)},
            cast(LinkMonitor, links) if links is not None else None,
        )
        self.wire.settimeout(10)

    def close(self) -> None:
        self.driver.close()
        self.wire.close()


def with_world(
    test: Callable[[World], Any],
    links: Links | None = None,
    port_type: type[SocketPort] = SocketPort,
) -> None:
    async def body() -> None:
        world = World(links, port_type)
        try:
            await test(world)
        finally:
            world.close()

    run(body())


def test_what_waits_is_taken_in_before_timers_run() -> None:
    async def test(world: World) -> None:
        world.nic.timers.append(time.monotonic_ns() - 50_000_000)
        # As many as a Unix socket holds
        for number in range(8):
            world.wire.send(b"%d" % number)
        world.driver.start()
        await until(lambda: "timer" in world.nic.kinds())
        assert world.nic.kinds() == ["receive"] * 8 + ["timer"]
        assert [call[2] for call in world.nic.calls[:8]] == [b"%d" % n for n in range(8)]

    with_world(test)


def test_a_timer_wakes_the_driver_and_not_before_its_time() -> None:
    async def test(world: World) -> None:
        world.driver.start()
        await asyncio.sleep(0)
        due_ns = time.monotonic_ns() + 3_000_000
        world.nic.timers.append(due_ns)
        world.driver.kick()
        await until(lambda: not world.nic.timers)
        assert time.monotonic_ns() >= due_ns
        assert world.nic.calls == [("timer", due_ns)]

    with_world(test)


def test_missed_departures_are_made_up_for_but_not_all() -> None:
    async def test(world: World) -> None:
        now_ns = time.monotonic_ns()
        ago = [now_ns - 10_000_000_000, now_ns - 9_000_000_000, now_ns - 20_000, now_ns - 10_000]
        world.nic.departures.extend(ago)
        world.wire.send(b"answer")
        world.driver.start()
        await until(lambda: len(world.nic.calls) == 5)
        kinds, times = world.nic.kinds(), [call[1] for call in world.nic.calls]
        # Those long ago start where the catching up begins, all before anything is taken in
        assert kinds == ["departure"] * 4 + ["receive"]
        assert times[0] == times[1] > ago[1]
        assert times[:4] == sorted(times[:4])

    with_world(test)


def test_frames_leave_in_order_alone_and_in_batches() -> None:
    async def test(world: World) -> None:
        frames = [b"%d" % number for number in range(50)]
        world.nic.frames.append([(0, frames[0])])
        world.nic.frames.append([(0, frame) for frame in frames[1:]])
        world.driver.start()
        await asyncio.sleep(0)
        world.driver.kick()
        await until(lambda: world.driver.statistics.frames_out == 50)
        assert [world.wire.recv(100) for _ in frames] == frames

    with_world(test)


def test_a_full_interface_gets_the_rest_later() -> None:
    async def test(world: World) -> None:
        count = 3000
        world.nic.frames.append([(0, bytes(4000)) for _ in range(count)])
        world.driver.start()
        await until(lambda: world.port.backlog > 0)
        world.wire.setblocking(False)
        loop = asyncio.get_running_loop()
        for _ in range(count):
            assert len(await loop.sock_recv(world.wire, 5000)) == 4000
        assert world.port.backlog == 0

    with_world(test)


def test_deferred_calls_run_after_the_nic_and_let_it_work_again() -> None:
    async def test(world: World) -> None:
        calls = world.nic.calls

        def later() -> None:
            calls.append(("deferred",))
            world.nic.timers.append(time.monotonic_ns())

        def dispatch() -> None:
            if world.nic.kinds() == ["receive"]:
                world.driver.defer(later)
                calls.append(("dispatch",))

        world.driver.dispatch = dispatch
        world.wire.send(b"x")
        world.driver.start()
        await until(lambda: "timer" in world.nic.kinds())
        assert world.nic.kinds() == ["receive", "dispatch", "deferred", "timer"]

    with_world(test)


def test_links_that_go_and_come_reach_the_nic() -> None:
    links = Links()

    async def test(world: World) -> None:
        # As it is at the start
        assert world.nic.calls == [("link", 0, True)]
        world.driver.start()
        links.tell([LinkState(8, "other", False, 0), LinkState(7, "x", False, 0)])
        await until(lambda: len(world.nic.calls) == 2)
        links.tell(None)  # news were lost: all are asked about
        await until(lambda: len(world.nic.calls) == 3)
        del links.up[7]
        links.tell(None)
        await until(lambda: len(world.nic.calls) == 4)
        assert [call[2] for call in world.nic.calls] == [True, False, True, False]

    with_world(test, links)


class ReplacedPort(SocketPort):
    """On an interface that may be deleted and made again: `there` is its number now."""

    there: int | None = 7

    def reattach(self) -> bool:
        if self.there is None:
            return False
        self.ifindex = self.there
        return True


def test_an_interface_that_is_made_again_is_attached_to() -> None:
    links = Links()

    async def test(world: World) -> None:
        port = world.port
        assert isinstance(port, ReplacedPort)
        calls = world.nic.calls
        world.driver.start()
        port.there = None
        links.tell([LinkState(7, "plane0", False, 0, gone=True)])
        await until(lambda: len(calls) == 2)
        # What has the name is down at first; another interface is none of ours
        port.there = 9
        links.tell([LinkState(8, "other", True, 0), LinkState(9, "plane0", False, 0)])
        await until(lambda: len(calls) == 3)
        assert port.ifindex == 9
        links.tell([LinkState(9, "plane0", True, 0)])
        await until(lambda: len(calls) == 4)
        # The news of the next time are lost
        port.there = 11
        links.up = {11: True}
        links.tell(None)
        await until(lambda: len(calls) == 5)
        assert port.ifindex == 11
        assert [call[2] for call in calls] == [True, False, False, True, True]

    with_world(test, links, ReplacedPort)


def test_an_error_is_logged_once_and_the_driver_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        def fail() -> None:
            raise RuntimeError("deferred")

        world.driver.start()
        world.driver.defer(fail)
        world.driver.defer(fail)
        world.driver.defer(lambda: world.nic.calls.append(("after",)))
        await until(lambda: "after" in world.nic.kinds())
        assert len(caplog.records) == 1

    with_world(test)


def test_losses_of_ports_add_up_by_reason() -> None:
    async def test(world: World) -> None:
        world.port.losses = [Loss("send_enetdown", 2), Loss("send_enetdown", 1), Loss("other", 1)]
        assert world.driver.losses() == {"send_enetdown": 3, "other": 1}
        world.port.losses = [Loss("other", 4)]
        assert world.driver.losses() == {"send_enetdown": 3, "other": 5}

    with_world(test)
