"""Captures, read back with scapy."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from sim.capture import Capture


def test_frames_and_nanoseconds_come_back(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "new")
    frames = [(b"\x01" * 60, 5), (b"\x02" * 4242, 1_234_567_891), (b"\x03" * 9000, 10**10 + 1)]
    for frame, time_ns in frames:
        capture.write("h0-plane1", time_ns, frame)
    capture.write("h1-plane0", 7, b"x")
    capture.close()
    with RawPcapReader(str(tmp_path / "new" / "h0-plane1.pcap")) as reader:
        assert reader.nano
        got = [(data, meta.sec * 10**9 + meta.usec) for data, meta in reader]
    assert got == frames
    assert capture.files == 2


def test_many_frames_need_little_memory_and_stay_in_order(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    for number in range(500):
        capture.write("p0-t0-0-port1", number, number.to_bytes(2, "big") * 300)
    capture.close()
    with RawPcapReader(str(tmp_path / "p0-t0-0-port1.pcap")) as reader:
        numbers = [int.from_bytes(data[:2], "big") for data, _ in reader]
    assert numbers == list(range(500))


def test_an_old_capture_is_replaced(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        capture = Capture(tmp_path)
        capture.write("h0-plane0", 1, content)
        capture.close()
    with RawPcapReader(str(tmp_path / "h0-plane0.pcap")) as reader:
        assert [data for data, _ in reader] == [b"new"]


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        """Takes half of what it is given."""

        def write(self, data: Any, /) -> int:
            view = memoryview(data)
            super().write(view[: len(view) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    capture = Capture(tmp_path)
    capture.write("h0-plane0", 1, b"kept")
    capture.close()
    capture.write("h0-plane0", 2, b"lost")
    monkeypatch.setattr(Path, "open", lambda path, mode: Full(path, mode))
    with pytest.raises(OSError, match="No space left"):
        capture.close()
    monkeypatch.undo()
    with RawPcapReader(str(tmp_path / "h0-plane0.pcap")) as reader:
        assert [data for data, _ in reader] == [b"kept"]
