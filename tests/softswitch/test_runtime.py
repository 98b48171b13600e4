"""The real-time loop, with in-process ports (and with interfaces where links matter)."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import rdpcap

from rawsocket.af_packet import AfPacketPort
from softswitch.pipeline import Again, Digest, IngressRequests, IngressResult
from softswitch.ports.base import Loss
from softswitch.ports.in_process import InProcessPort
from softswitch.ports.pcap import PortCapture
from softswitch.runtime import Runtime, format_summary
from softswitch.switch import Switch, SwitchError
from tests.softswitch.namespaces import namespaces, veth
from tests.softswitch.scripted_pipeline import Ingress, scripted, send_to

WAIT_S = 20
"""Only to end a test that would hang otherwise; no verdict depends on it."""


class Bench:
    """A running switch with in-process ports 1 and 2."""

    def __init__(self, ingress: Ingress, captures: Path | None = None, **options: Any) -> None:
        self.runtime = Runtime(Switch(**options))
        self.runtime.switch.install(scripted(ingress))
        self.out: dict[int, queue.Queue[bytes]] = {1: queue.Queue(), 2: queue.Queue()}
        self.ports: dict[int, InProcessPort] = {}
        for number, out in self.out.items():
            port = InProcessPort(f"p{number}", out.put)
            capture = None if captures is None else PortCapture(captures, port.name)
            self.runtime.attach(number, port, capture=capture)
            self.ports[number] = port

    @contextlib.contextmanager
    def running(self) -> Iterator[Bench]:
        loop = threading.Thread(target=self.runtime.run)
        loop.start()
        try:
            yield self
        finally:
            self.runtime.stop()
            loop.join(WAIT_S)
            assert not loop.is_alive()

    def take(self, port: int) -> bytes:
        return self.out[port].get(timeout=WAIT_S)


def across(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
    return send_to(3 - port, frame)


def test_frames_pass() -> None:
    with Bench(across).running() as bench:
        for number in range(200):
            bench.ports[1].inject(b"%d" % number)
        assert [bench.take(2) for _ in range(200)] == [b"%d" % n for n in range(200)]
        bench.ports[2].inject(b"back")
        assert bench.take(1) == b"back"
    stats = bench.runtime.stats()
    assert (stats.received, stats.sent, stats.unaccounted) == (201, 201, 0)
    bench.runtime.close()


def test_a_rate_is_kept_in_real_time_too() -> None:
    """Frames leave not before their time; how late they are is the machine's affair."""
    left_ns: list[int] = []
    with Bench(across).running() as bench:
        runtime = bench.runtime
        bench.ports[2].send = lambda frame: left_ns.append(runtime.now_ns())  # type: ignore[method-assign]
        runtime._senders[2] = bench.ports[2].send
        with runtime.lock:
            runtime.switch.set_port_rate(2, 8_000_000, runtime.now_ns())
        sent_ns = runtime.now_ns()
        for _ in range(10):
            bench.ports[1].inject(bytes(976))
        bench.ports[2].inject(b"done")
        assert bench.take(1) == b"done"
        while len(left_ns) < 10:
            threading.Event().wait(0.001)
    for index, at_ns in enumerate(left_ns, start=1):
        assert at_ns >= sent_ns + index * 1_000_000
    bench.runtime.close()


def test_requests_get_the_lock_at_any_load() -> None:
    """With frames waiting all the time, each batch ends and whoever asked is next."""
    bench = Bench(across)
    flood = b"x" * 100

    def again(frame: bytes) -> None:
        bench.ports[1].inject(frame)

    bench.ports[2].send = again  # type: ignore[method-assign]
    bench.runtime._senders[2] = again
    with bench.running():
        for _ in range(1000):
            bench.ports[1].inject(flood)
        received = []
        for _ in range(20):
            with bench.runtime.lock:
                received.append(bench.runtime.switch.stats().received)
            threading.Event().wait(0.001)
    assert received == sorted(received)
    assert len(set(received)) > 1
    bench.runtime.close()


def test_packet_out_and_packet_in_and_digest() -> None:
    def ingress(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        if port == 510:
            return send_to(1, frame)
        requests = IngressRequests(digest=Digest("learn", (port,)))
        return 510, 0, 0, len(frame), (frame,), requests

    packets_in: queue.Queue[bytes] = queue.Queue()
    digests: queue.Queue[Any] = queue.Queue()
    with Bench(ingress, cpu_port=510).running() as bench:

        def take(frame: bytes) -> bool:
            packets_in.put(frame)
            return True

        bench.runtime.set_callbacks(take, lambda *told: digests.put(told))
        bench.runtime.packet_out(b"from the controller")
        assert bench.take(1) == b"from the controller"
        bench.ports[2].inject(b"to the controller")
        assert packets_in.get(timeout=WAIT_S) == b"to the controller"
        assert digests.get(timeout=WAIT_S) == ("learn", (2,))
        assert bench.runtime.has_port(510)
        assert bench.runtime.has_port(1)
        assert not bench.runtime.has_port(7)
    bench.runtime.close()


def test_captures(tmp_path: Path) -> None:
    before_s = time.time()
    with Bench(across, captures=tmp_path).running() as bench:
        bench.ports[1].inject(b"\1" * 60)
        bench.take(2)
        bench.ports[2].inject(b"\2" * 60)
        bench.take(1)
    bench.runtime.close()
    for name, frame in (
        ("p1_in", b"\1" * 60),
        ("p2_out", b"\1" * 60),
        ("p2_in", b"\2" * 60),
        ("p1_out", b"\2" * 60),
    ):
        (captured,) = rdpcap(str(tmp_path / f"{name}.pcap"))
        assert bytes(captured) == frame
        assert before_s - 1 < captured.time < time.time() + 1


def test_frames_are_dumped_as_far_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(Switch(), dump_bytes=2)
    runtime.switch.install(scripted(across))
    out: queue.Queue[bytes] = queue.Queue()
    ports = {number: InProcessPort(f"p{number}", out.put) for number in (1, 2)}
    for number, port in ports.items():
        runtime.attach(number, port)
    loop = threading.Thread(target=runtime.run)
    with caplog.at_level(logging.INFO):
        loop.start()
        ports[1].inject(b"\xab\xcd\xef")
        out.get(timeout=WAIT_S)
        runtime.stop()
        loop.join(WAIT_S)
    assert [record.message for record in caplog.records if "bytes" in record.message] == [
        "received on port 1: 3 bytes: abcd",
        "sent on port 2: 3 bytes: abcd",
    ]
    runtime.close()


def test_switching_a_port_off_and_on() -> None:
    with Bench(across).running() as bench:
        with bench.runtime.lock:
            bench.runtime.set_port_enabled(2, False)
        bench.ports[1].inject(b"lost")
        bench.ports[1].inject(b"lost")
        while True:
            with bench.runtime.lock:
                if bench.runtime.stats().dropped == {"port_down": 2}:
                    break
            threading.Event().wait(0.001)
        with bench.runtime.lock:
            bench.runtime.set_port_enabled(2, True)
        bench.ports[1].inject(b"kept")
        assert bench.take(2) == b"kept"
    with pytest.raises(SwitchError, match="port 9 does not exist or is no interface"):
        bench.runtime.set_port_enabled(9, True)
    bench.runtime.close()


def test_errors_of_handlers_are_logged_once_and_do_not_end_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(across)
    taken = bench.out[2].put

    def fail_first(frame: bytes) -> None:
        if frame == b"bad":
            raise RuntimeError("sending went wrong")
        taken(frame)

    bench.runtime._senders[2] = fail_first
    with bench.running():
        for frame in (b"bad", b"bad", b"bad"):
            bench.ports[1].inject(frame)
            bench.ports[2].inject(b"still there")
            assert bench.take(1) == b"still there"
        bench.ports[1].inject(b"good")
        assert bench.take(2) == b"good"
    stats = bench.runtime.stats()
    assert stats.dropped == {"driver_error": 3}
    assert stats.unaccounted == 0
    assert sum("sending went wrong" in record.message for record in caplog.records) == 1
    bench.runtime.close()


class SlowInterface(InProcessPort):
    """Keeps what it is to send."""

    def __init__(self) -> None:
        super().__init__("slow", lambda frame: None)
        self.kept: list[bytes] = []
        self.losses: list[Loss] = []
        self.open = False
        self.sent = threading.Event()

    @property
    def backlog(self) -> int:
        return len(self.kept)

    def send(self, frame: bytes) -> None:
        self.kept.append(frame)

    def retry(self) -> None:
        if self.open:
            self.kept.clear()
            self.sent.set()

    def take_losses(self, *, poll: bool) -> list[Loss]:
        losses, self.losses = self.losses, []
        return losses


def test_what_a_driver_holds_or_loses_is_accounted_for() -> None:
    runtime = Runtime(Switch())
    runtime.switch.install(scripted(across))
    source, slow = InProcessPort("p1", lambda frame: None), SlowInterface()
    runtime.attach(1, source)
    runtime.attach(2, slow)
    loop = threading.Thread(target=runtime.run)
    loop.start()
    for _ in range(3):
        source.inject(b"frame")
    while slow.backlog < 3:
        threading.Event().wait(0.001)
    with runtime.lock:
        stats = runtime.stats()
    assert (stats.received, stats.sent, stats.queued, stats.unaccounted) == (3, 0, 3, 0)
    slow.open = True  # nothing wakes the loop but its own retrying
    assert slow.sent.wait(WAIT_S)
    runtime.stop()
    loop.join(WAIT_S)
    slow.losses = [Loss("send_enobufs", 1, 5), Loss("socket_overflow", 4, before=True)]
    stats = runtime.stats()
    assert (stats.received, stats.sent, stats.queued, stats.unaccounted) == (7, 2, 0, 0)
    assert format_summary(stats) == (
        "received=7 copies=0 sent=2 queued=0 dropped=5 (send_enobufs=1 socket_overflow=4)"
    )
    runtime.close()


def test_stop_before_run_and_from_a_handler() -> None:
    runtime = Runtime(Switch())
    event = os.eventfd(1)
    runtime.watch(event, runtime.stop)
    runtime.run()  # ends by itself
    runtime.unwatch(event)
    os.close(event)
    runtime.run()  # stopped already
    runtime.close()


@pytest.mark.netns
def test_interfaces_going_down_away_and_coming_back() -> None:
    def wait_for(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            with runtime.lock:
                if condition():
                    return
            assert time.monotonic() < deadline
            threading.Event().wait(0.001)

    def pass_one(frame: bytes) -> None:
        """Retried, because the two ends of a pair do not come up at the same moment."""
        for _ in range(WAIT_S * 10):
            with contextlib.suppress(OSError):
                left.send(frame)
            if select.select([right], [], [], 0.1)[0]:
                assert right.recv(65536) == frame
                return
        raise AssertionError("nothing came through")

    with namespaces("s", "h") as (middle, host):
        for number in (1, 2):
            veth(middle, f"sw{number}", host, f"h{number}")
        switch = Switch()
        runtime = Runtime(switch)
        switch.install(scripted(across))

        def run() -> None:
            with middle.inside():
                runtime.run()

        with middle.inside():
            for number in (1, 2):
                runtime.attach(number, AfPacketPort(f"sw{number}"))
        loop = threading.Thread(target=run)
        loop.start()
        try:
            left: socket.socket = host.raw_socket("h1")
            right: socket.socket = host.raw_socket("h2")
            pass_one(b"\xff" * 12 + b"\x88\xb5first")
            host.ip("link", "set", "h2", "down")
            wait_for(lambda: not switch.port_is_up(2))
            left.send(b"\xff" * 12 + b"\x88\xb5nobody")
            wait_for(lambda: switch.stats().dropped.get("port_down") == 1)
            host.ip("link", "set", "h2", "up")
            wait_for(lambda: switch.port_is_up(2))
            right.close()
            right = host.raw_socket("h2")
            pass_one(b"\xff" * 12 + b"\x88\xb5second")
            right.close()
            middle.ip("link", "del", "sw2")
            wait_for(lambda: not switch.port_is_up(2))
            veth(middle, "sw2", host, "h2")
            wait_for(lambda: switch.port_is_up(2))
            right = host.raw_socket("h2")
            pass_one(b"\xff" * 12 + b"\x88\xb5third")
        finally:
            runtime.stop()
            loop.join(WAIT_S)
            left.close()
            right.close()
        assert runtime.stats().unaccounted == 0
        runtime.close()


@pytest.mark.netns
def test_an_interface_that_is_down_at_the_start_is_a_port_that_is_down() -> None:
    with namespaces("s") as (middle,):
        middle.ip("link", "add", "sw1", "type", "veth", "peer", "name", "sw2")
        runtime = Runtime(Switch())
        with middle.inside():
            runtime.attach(1, AfPacketPort("sw1"))
        assert not runtime.switch.port_is_up(1)
        assert runtime.interfaces() == {1: "sw1"}
        runtime.close()
