"""A network namespace with one veth pair a port: a switch on one end, the test on the other."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType

from topologies.runner.links import InterfaceSpec, bring_up, create_links
from topologies.runner.namespaces import NetworkNamespace

ETH_P_ALL = 0x0003
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER_BYTES = 64 << 20
MTU_BYTES = 9216


def switch_interface(port: int) -> str:
    """Name of the end of a port's veth pair that the switch has."""
    return f"sw{port}"


class Bench:
    """Ports of a switch, as Linux interfaces in an anonymous namespace. A context manager.

    The switch takes `switch_interface(port)`; `send` and `frames` are the far ends. Nothing but
    what is sent here crosses the links: the kernel's IPv6 is off in the namespace.
    """

    def __init__(self, ports: Iterable[int], mtu_bytes: int = MTU_BYTES) -> None:
        self.ports = tuple(ports)
        self._mtu_bytes = mtu_bytes
        self._stack = ExitStack()
        self._sockets: dict[int, socket.socket] = {}
        self._frames: dict[int, list[bytes]] = {port: [] for port in self.ports}

    def __enter__(self) -> Bench:
        self.namespace = self._stack.enter_context(NetworkNamespace("bench"))
        create_links(
            [
                (
                    InterfaceSpec(
                        self.namespace, switch_interface(port), 0x020000000000 | port << 8
                    ),
                    InterfaceSpec(self.namespace, f"far{port}", 0x020000000001 | port << 8),
                )
                for port in self.ports
            ],
            self._mtu_bytes,
        )
        bring_up(self.namespace)
        with self.namespace.entered():
            for port in self.ports:
                far = socket.socket(
                    socket.AF_PACKET,
                    socket.SOCK_RAW | socket.SOCK_NONBLOCK,
                    socket.htons(ETH_P_ALL),
                )
                self._stack.enter_context(far)
                far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
                far.bind((f"far{port}", ETH_P_ALL))
                self._sockets[port] = far
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def send(self, port: int, frame: bytes) -> None:
        """Put a frame on a port's link."""
        self._sockets[port].send(frame)

    def collect(self, timeout_s: float) -> bool:
        """Take in what has arrived; if nothing has, wait for it. False if nothing came in time."""
        readable, _, _ = select.select(list(self._sockets.values()), [], [], timeout_s)
        by_socket = {far: port for port, far in self._sockets.items()}
        for far in readable:
            while True:
                try:
                    frame, address = far.recvfrom(65536)
                except BlockingIOError:
                    break
                if address[2] != socket.PACKET_OUTGOING:  # not what we sent ourselves
                    self._frames[by_socket[far]].append(frame)
        return bool(readable)

    def collect_until(self, count: int, deadline_s: float) -> bool:
        """Take frames in until there are `count` in all. False if they did not come in time."""
        end = time.monotonic() + deadline_s
        while sum(len(frames) for frames in self._frames.values()) < count:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.collect(left)
        return True

    def take(self) -> dict[int, list[bytes]]:
        """All frames that arrived since the last call, by the port they left."""
        while self.collect(0):
            pass
        frames, self._frames = self._frames, {port: [] for port in self.ports}
        return frames


def interface_options(ports: Sequence[int]) -> list[str]:
    """`-i port@interface` for every port, as simple_switch_grpc and softswitch take it."""
    return [option for port in ports for option in ("-i", f"{port}@{switch_interface(port)}")]
