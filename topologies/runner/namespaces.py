"""Anonymous network namespaces.

A namespace has no name in the file system: the runner holds it by a file descriptor, and the
kernel takes it away, with its interfaces and its half of every link, when the last descriptor
and the last process in it are gone. So there is nothing to clean up after a runner that was
killed, and no name on which two runs could collide. Another process of the same user reaches
the namespace through /proc/PID/fd/N (that is what `mrc-topology exec` does).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from topologies.runner import kernel
from topologies.runner.errors import RunnerError

_OWN_NETWORK = "/proc/thread-self/ns/net"
_IPV6_SETTINGS = Path("/proc/sys/net/ipv6/conf")


def _open_own() -> int:
    return os.open(_OWN_NETWORK, os.O_RDONLY | os.O_CLOEXEC)


class NetworkNamespace:
    """A network namespace of a node; `fd` holds it until `close`."""

    def __init__(self, name: str) -> None:
        """Make a new, silent namespace. `name` is for messages. Raises RunnerError."""
        self.name = name
        home = _open_own()
        try:
            kernel.unshare(kernel.CLONE_NEWNET)
            try:
                self.fd = _open_own()
                _silence()
            finally:
                kernel.setns(home, kernel.CLONE_NEWNET)
        except OSError as error:
            raise RunnerError(f"{name}: cannot make a network namespace: {error}") from error
        finally:
            os.close(home)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is in the namespace; sockets and processes made there stay in it."""
        home = _open_own()
        try:
            kernel.setns(self.fd, kernel.CLONE_NEWNET)
            try:
                yield
            finally:
                kernel.setns(home, kernel.CLONE_NEWNET)
        finally:
            os.close(home)

    def close(self) -> None:
        """Let go of the namespace; the kernel removes it when no process is left in it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> NetworkNamespace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _silence() -> None:
    """Turn the kernel's own IPv6 off for every interface that will be made here.

    Frames are sent and taken in on packet sockets. With IPv6 on, router solicitations, duplicate
    address detection and multicast reports would cross the fabric and show in its counters, and
    the kernel would answer our UDP packets with ICMPv6 errors.
    """
    for scope in ("all", "default"):
        setting = _IPV6_SETTINGS / scope / "disable_ipv6"
        if setting.exists():  # a kernel without IPv6 is silent already
            setting.write_text("1")
