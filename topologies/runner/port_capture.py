"""Captures of a whole run: a process in a node's namespace, one pcap file for each interface.

    python -m topologies.runner.port_capture FOLDER NODE INTERFACE…

writes FOLDER/NODE-INTERFACE.pcap until SIGTERM. It ends with exit code 1 where frames are missing
in a file. A file that is there is being written to: what comes from then on is in it.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softswitch.ports.pcap import PcapWriter
from topologies.runner.capture import missed_by, open_tap, read_tap, stop_signals

_BATCH: Final = 256


def capture_file(folder: Path, node: str, interface: str) -> Path:
    """Where the capture of an interface is."""
    return folder / f"{node}-{interface}.pcap"


def capture(folder: Path, node: str, interfaces: Sequence[str]) -> int:
    """Capture until SIGINT or SIGTERM; returns the frames that are missing in the files."""
    # The signal first: whoever sees the files may send it
    with stop_signals() as stop, contextlib.closing(select.epoll()) as poller:
        taps = {each.fileno(): each for each in map(open_tap, interfaces)}
        writers = {
            descriptor: PcapWriter(capture_file(folder, node, interface))
            for descriptor, interface in zip(taps, interfaces, strict=True)
        }
        for descriptor in (stop, *taps):
            poller.register(descriptor, select.EPOLLIN)
        stopping = False
        while not stopping:
            ready = [descriptor for descriptor, _ in poller.poll()]
            stopping = stop in ready
            for descriptor, tap in taps.items():
                # At the end everything that has come is taken in
                limit = sys.maxsize if stopping else _BATCH
                if stopping or descriptor in ready:
                    for frame, time_ns in read_tap(tap, limit):
                        writers[descriptor].write(frame, time_ns)
                    writers[descriptor].flush()
        missing = 0
        for descriptor, tap in taps.items():
            missing += missed_by(tap)
            tap.close()
            writers[descriptor].close()
            missing += writers[descriptor].lost_packets
    return missing


def _main() -> int:
    folder, node, *interfaces = sys.argv[1:]
    missing = capture(Path(folder), node, interfaces)
    if missing:
        print(f"{missing} frames of {node} are missing in its captures", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(_main())
