"""Network namespaces and veth pairs for tests, made and removed by the test itself."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from rawsocket.links import LinkMonitor

_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 3
_numbers = itertools.count()


class Namespace:
    """One network namespace, held by a file descriptor; without IPv6, so that it is silent."""

    def __init__(self, label: str) -> None:
        self.name = f"t{os.getpid()}n{next(_numbers)}{label}"
        ip("netns", "add", self.name)
        self._descriptor = os.open(f"/run/netns/{self.name}", os.O_RDONLY | os.O_CLOEXEC)
        with self.inside():
            for scope in ("all", "default"):
                Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")
        self.ip("link", "set", "lo", "up")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is in the namespace; sockets made meanwhile stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(self._descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            yield
        finally:
            libc.setns(before, _CLONE_NEWNET)
            os.close(before)

    def ip(self, *arguments: str) -> None:
        """Run iproute2 in the namespace."""
        ip("-n", self.name, *arguments)

    def command(self, *arguments: str) -> list[str]:
        """Return a command line that runs in the namespace."""
        return ["ip", "netns", "exec", self.name, *arguments]

    def wait_until_up(self, interface: str) -> None:
        """Wait for the kernel to notice the carrier; before, it drops what is sent."""
        with self.inside():
            monitor = LinkMonitor()
            index = socket.if_nametoindex(interface)
        deadline = time.monotonic() + 30
        while not ((state := monitor.query(index)) and state.up):
            assert time.monotonic() < deadline, f"{interface} does not come up"
            time.sleep(0.001)
        monitor.close()

    def raw_socket(self, interface: str) -> socket.socket:
        """Return a raw socket on an interface that hears and sends whole frames."""
        with self.inside():
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            raw.bind((interface, _ETH_P_ALL))
        raw.settimeout(10)
        return raw

    def close(self) -> None:
        """Remove the namespace and every interface in it."""
        os.close(self._descriptor)
        ip("netns", "del", self.name)


@contextlib.contextmanager
def namespaces(*labels: str) -> Iterator[list[Namespace]]:
    """Namespaces for the time of a with block."""
    made: list[Namespace] = []
    try:
        for label in labels:
            made.append(Namespace(label))
        yield made
    finally:
        for namespace in made:
            namespace.close()


def veth(
    one: Namespace, one_name: str, other: Namespace, other_name: str, *, mtu: int = 9500
) -> None:
    """Join two namespaces by a veth pair, both ends up and able to send."""
    one.ip(
        *("link", "add", one_name, "mtu", str(mtu), "type", "veth"),
        *("peer", "name", other_name, "mtu", str(mtu), "netns", other.name),
    )
    one.ip("link", "set", one_name, "up")
    other.ip("link", "set", other_name, "up")
    one.wait_until_up(one_name)
    other.wait_until_up(other_name)


def ip(*arguments: str) -> None:
    """Run iproute2; what it complains about becomes the exception's text."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
