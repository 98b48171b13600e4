"""Captures: nanosecond pcap files, one for each port and direction.

The files are named as simple_switch names them: `<interface>_in.pcap` holds what the switch
received on the interface, `<interface>_out.pcap` what it sent there.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Final

from softswitch.ports.base import PortError

log = logging.getLogger(__name__)

MAGIC_NANOSECONDS: Final = 0xA1B23C4D
LINKTYPE_ETHERNET: Final = 1
SNAP_LENGTH: Final = 65_535

_FILE_HEADER = struct.Struct("=IHHiIII")
_RECORD_HEADER = struct.Struct("=IIII")
_NS_PER_S: Final = 1_000_000_000


class PcapWriter:
    """One capture file (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html).

    A file that can no longer be written (disk full, say) ends the capture, with one line in the log
    and a count of what is missing, never the switch.

    Raises:
        PortError: the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost_packets = 0
        self._broken = False
        try:
            self._file = path.open("wb")
            self._file.write(
                _FILE_HEADER.pack(MAGIC_NANOSECONDS, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET)
            )
            self._file.flush()
        except OSError as error:
            raise PortError(f"capture file {path}: {error.strerror}") from None

    def write(self, frame: bytes, time_ns: int) -> None:
        """Append a frame seen at `time_ns` since the epoch (in virtual time: since the start)."""
        if self._broken:
            self.lost_packets += 1
            return
        size = len(frame)
        kept = frame[:SNAP_LENGTH] if size > SNAP_LENGTH else frame
        seconds, nanoseconds = divmod(time_ns, _NS_PER_S)
        try:
            self._file.write(
                _RECORD_HEADER.pack(seconds & 0xFFFFFFFF, nanoseconds, len(kept), size) + kept
            )
        except OSError as error:
            self._break(error)

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        if not self._broken:
            try:
                self._file.flush()
            except OSError as error:
                self._break(error)

    def close(self) -> None:
        """Write the rest and close the file."""
        try:
            self._file.close()
        except OSError as error:
            if not self._broken:
                self._break(error)

    def _break(self, error: OSError) -> None:
        self._broken = True
        self.lost_packets += 1
        log.error("capture file %s: %s; no more is captured there", self.path, error.strerror)


class PortCapture:
    """The two capture files of one port.

    Args:
        directory: an existing directory.
        interface: the interface's name.
    """

    def __init__(self, directory: Path, interface: str) -> None:
        stem = interface.replace("/", "_")
        self.received = PcapWriter(directory / f"{stem}_in.pcap")
        try:
            self.sent = PcapWriter(directory / f"{stem}_out.pcap")
        except PortError:
            self.received.close()
            raise

    def flush(self) -> None:
        """Flush both files."""
        self.received.flush()
        self.sent.flush()

    def close(self) -> None:
        """Close both files."""
        self.received.close()
        self.sent.close()
