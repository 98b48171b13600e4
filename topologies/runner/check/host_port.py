"""A host's NIC port to one plane: a packet socket in the host's namespace."""

from __future__ import annotations

import socket
import struct
from typing import Final

from topologies.runner.errors import RunnerError
from topologies.runner.namespaces import NetworkNamespace

# <linux/if_packet.h>, <linux/if_ether.h>, <asm-generic/socket.h>
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_PACKET_IGNORE_OUTGOING: Final = 23
_ETH_P_ALL: Final = 3
_SO_RCVBUFFORCE: Final = 33

_BUFFER_BYTES: Final = 16 << 20
_MAX_FRAME_BYTES: Final = 65_536


class HostPort:
    """Sends frames, and takes in every frame that arrives. Use it from one thread."""

    def __init__(self, host: str, plane: int, namespace: NetworkNamespace, interface: str) -> None:
        """Open the socket in the host's namespace. Raises RunnerError."""
        self.host = host
        self.plane = plane
        self.sent = 0
        self.received = 0
        self._overflowed = 0
        try:
            with namespace.entered():
                # Protocol 0: it hears nothing until it is bound to the one interface
                self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            except PermissionError:  # rootless: the system's limit holds
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._socket.bind((interface, _ETH_P_ALL))
        except OSError as error:
            raise RunnerError(f"{host}: cannot open {interface}: {error.strerror}") from error

    def fileno(self) -> int:
        """For select: readable when a frame is there."""
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Send one frame. Raises OSError."""
        self._socket.send(frame)
        self.sent += 1

    def receive(self) -> bytes | None:
        """The next frame, None when there is none."""
        try:
            frame = self._socket.recv(_MAX_FRAME_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        self.received += 1
        return frame

    def overflowed(self) -> int:
        """Frames that reached the NIC and found this socket's buffer full."""
        statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self._overflowed += struct.unpack("=II", statistics)[1]
        return self._overflowed

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
