"""Captures, read back with scapy."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader, rdpcap

from softswitch.ports.base import PortError
from softswitch.ports.pcap import PcapWriter, PortCapture


def test_scapy_reads_frames_and_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    writer = PcapWriter(path)
    frames = [bytes([n]) * (60 + n * 1000) for n in range(10)]
    start_ns = 1_700_000_000_123_456_789
    for index, frame in enumerate(frames):
        writer.write(frame, start_ns + index)
    writer.close()
    with RawPcapReader(str(path)) as reader:
        assert not isinstance(reader, RawPcapNgReader)
        assert (reader.nano, reader.linktype) == (True, 1)
        read = list(reader)
    assert [data for data, _ in read] == frames
    for index, (data, meta) in enumerate(read):
        assert meta.sec * 10**9 + meta.usec == start_ns + index
        assert meta.wirelen == len(data)
    assert len(rdpcap(str(path))) == 10


def test_flush_makes_everything_readable_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    writer = PcapWriter(path)
    assert len(rdpcap(str(path))) == 0
    writer.write(bytes(60), 0)
    writer.flush()
    assert len(rdpcap(str(path))) == 1
    writer.close()


def test_very_long_frames_are_cut_and_say_so(tmp_path: Path) -> None:
    writer = PcapWriter(tmp_path / "x.pcap")
    writer.write(bytes(70_000), 0)
    writer.close()
    with RawPcapReader(str(tmp_path / "x.pcap")) as reader:
        data, meta = next(iter(reader))
    assert (len(data), meta.wirelen) == (65_535, 70_000)


def test_a_port_has_a_file_for_each_direction(tmp_path: Path) -> None:
    capture = PortCapture(tmp_path, "veth1")
    capture.received.write(b"\1" * 60, 0)
    capture.sent.write(b"\2" * 60, 0)
    capture.flush()
    capture.close()
    assert bytes(rdpcap(str(tmp_path / "veth1_in.pcap"))[0]) == b"\1" * 60
    assert bytes(rdpcap(str(tmp_path / "veth1_out.pcap"))[0]) == b"\2" * 60


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PortError, match=r"veth1_in\.pcap: No such file"):
        PortCapture(tmp_path / "no", "veth1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_ends_the_capture_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.pcap"
    writer = PcapWriter(path)
    writer._file.close()
    writer._file = Path("/dev/full").open("wb")  # noqa: SIM115
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            writer.write(bytes(9000), 0)
            writer.flush()
        writer.close()
    assert writer.lost_packets > 90
    assert [record.message for record in caplog.records] == [
        f"capture file {path}: No space left on device; no more is captured there"
    ]
