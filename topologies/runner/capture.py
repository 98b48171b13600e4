"""Capturing what crosses a node's interfaces, from outside the run.

Packet sockets of our own and not tcpdump: they work without root, where tcpdump gives up, and the
files have nanoseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Final

from softswitch.ports.base import PortError
from softswitch.ports.pcap import PcapWriter
from topologies.runner.enter import enter_network
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunRecord

# <linux/if_packet.h>, <linux/if_ether.h>, <asm-generic/socket.h>
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_ETH_P_ALL: Final = 3
_SO_RCVBUFFORCE: Final = 33
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@ll")

_BUFFER_BYTES: Final = 32 << 20
_MAX_FRAME_BYTES: Final = 65_536
#: Taken from one interface before the others have their turn
_BATCH: Final = 256


class Capture:
    """Writes frames of a node's interfaces, both directions, into one pcap file.

    What a switch forwards shows twice where both its interfaces are captured.
    """

    def __init__(self, run: RunRecord, node: str, port: str | None, path: Path) -> None:
        """Make the file and open the sockets. Moves this process into the node's namespace.

        Raises UsageError for an unknown node or port, RunnerError for what cannot be opened.
        """
        self.packets = 0
        try:
            self._run = os.pidfd_open(run.state.pid)
        except OSError:
            raise RunnerError(f"{run.state.run_id} has just ended") from None
        enter_network(run, node)
        self.interfaces = _choose(node, port)
        try:
            self._writer = PcapWriter(path)
        except PortError as error:
            raise RunnerError(str(error)) from None
        try:
            self._sockets = {each.fileno(): each for each in map(open_tap, self.interfaces)}
        except OSError as error:
            raise RunnerError(f"{node}: cannot capture: {error.strerror}") from None

    def work(self, count: int | None) -> None:
        """Capture until SIGINT or SIGTERM, the end of the run, or `count` packets."""
        with stop_signals() as stop, contextlib.closing(select.epoll()) as poller:
            for descriptor in (stop, self._run, *self._sockets):
                poller.register(descriptor, select.EPOLLIN)
            while True:
                ready = [descriptor for descriptor, _ in poller.poll()]
                for descriptor in ready:
                    if descriptor in self._sockets:
                        self._take(self._sockets[descriptor], count)
                self._writer.flush()
                if stop in ready or self._run in ready or self.packets == count:
                    return

    def _take(self, source: socket.socket, count: int | None) -> None:
        limit = _BATCH if count is None else min(_BATCH, count - self.packets)
        for frame, time_ns in read_tap(source, limit):
            self._writer.write(frame, time_ns)
            self.packets += 1

    def close(self) -> int:
        """Close file and sockets; returns the packets that are missing in the file."""
        missed = 0
        for each in self._sockets.values():
            missed += missed_by(each)
            each.close()
        self._writer.close()
        os.close(self._run)
        return missed + self._writer.lost_packets


def _choose(node: str, port: str | None) -> Sequence[str]:
    there = [name for _, name in socket.if_nameindex() if name != "lo"]
    if port is None:
        return there
    wanted = f"{'plane' if node.startswith('h') else 'port'}{port}" if port.isdecimal() else port
    if wanted in there:
        return [wanted]
    near = get_close_matches(wanted, there, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(there)}"
    raise UsageError(f"{node} has no port {port!r}; {hint}")


def open_tap(interface: str) -> socket.socket:
    """A packet socket that sees what an interface sends and receives. Raises OSError."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:  # rootless: the system's limit holds
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    made.bind((interface, _ETH_P_ALL))
    return made


def read_tap(tap: socket.socket, limit: int) -> Iterator[tuple[bytes, int]]:
    """At most so many frames that wait in a tap, each with the time of day that it came at."""
    for _ in range(limit):
        try:
            frame, ancillary, _, _ = tap.recvmsg(
                _MAX_FRAME_BYTES, socket.CMSG_SPACE(_TIMESPEC.size), socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except OSError:  # the interface went down; it may come back
            continue
        time_ns = time.time_ns()
        for _, kind, data in ancillary:
            if kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                time_ns = seconds * 1_000_000_000 + nanoseconds
        yield frame, time_ns


def missed_by(tap: socket.socket) -> int:
    """Frames that a tap had no room for, since this was last asked."""
    statistics = tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    return int(struct.unpack("=II", statistics)[1])


@contextlib.contextmanager
def stop_signals() -> Iterator[int]:
    """A descriptor that is readable once a signal asked to end."""
    event = os.eventfd(0, os.EFD_CLOEXEC)

    def stop(_number: int, _frame: FrameType | None) -> None:
        os.eventfd_write(event, 1)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(event)
