"""Captures: a nanosecond pcap file for each port, of what it received and what it sent.

A received frame bears the time of its last bit, and so does one that a switch sent; one that a NIC
sent bears the time of its first. Many ports, few open files: what a port saw is kept in memory up
to a limit and then appended to its file.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

MAGIC_NANOSECONDS: Final = 0xA1B23C4D
LINKTYPE_ETHERNET: Final = 1
SNAP_LENGTH: Final = 65_535
_FILE_HEADER = struct.Struct("<IHHiIII")
_RECORD_HEADER = struct.Struct("<IIII")
_NS_PER_S: Final = 1_000_000_000
_BUFFER_BYTES: Final = 1 << 16


class Capture:
    """The capture files of a run, in one folder: `<port>.pcap`, for ports that saw a frame.

    Raises OSError where the folder cannot be made or a file cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._buffers: dict[str, bytearray] = {}
        self._begun: set[str] = set()

    def write(self, port: str, time_ns: int, frame: bytes) -> None:
        """Append a frame to a port's file."""
        buffer = self._buffers.get(port)
        if buffer is None:
            buffer = self._buffers[port] = bytearray()
        size = len(frame)
        seconds, nanoseconds = divmod(time_ns, _NS_PER_S)
        # In one piece: a run may be interrupted anywhere
        buffer += (
            _RECORD_HEADER.pack(seconds, nanoseconds, min(size, SNAP_LENGTH), size)
            + frame[:SNAP_LENGTH]
        )
        if len(buffer) > _BUFFER_BYTES:
            self._flush(port, buffer)

    def _flush(self, port: str, buffer: bytearray) -> None:
        path = self.directory / f"{port}.pcap"
        if port not in self._begun:
            self._begun.add(port)
            path.write_bytes(
                _FILE_HEADER.pack(MAGIC_NANOSECONDS, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET)
            )
        whole_bytes = path.stat().st_size
        try:
            with path.open("ab") as file:
                file.write(buffer)
        except OSError:
            # Half a record would be a broken capture
            with suppress(OSError):
                os.truncate(path, whole_bytes)
            raise
        buffer.clear()

    def close(self) -> None:
        """Write out what is left. Ports may be written to afterwards all the same."""
        for port, buffer in self._buffers.items():
            if buffer:
                self._flush(port, buffer)

    @property
    def files(self) -> int:
        """How many ports saw a frame."""
        return len(self._buffers)
