"""Traces as captures and back; tshark and scapy read what we write."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from scapy.utils import RawPcapNgReader, wrpcap

from tests.traces.__main__ import main
from tests.traces.captures import (
    Captured,
    CaptureError,
    as_trace,
    frames_of,
    read_pcap,
    read_pcapng,
    write_pcapng,
)
from tests.traces.format import Trace, read, read_all

TRACES = read_all()


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_pcapng_holds_all_of_a_trace(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    frames = list(frames_of(trace))
    write_pcapng(path, trace.ports, frames)
    assert read_pcapng(path) == [captured for captured, _ in frames]
    with RawPcapNgReader(str(path)) as reader:  # somebody else's eyes
        by_scapy = [data for data, _ in reader]
    assert by_scapy == [captured.frame for captured, _ in frames]


@pytest.mark.tshark
def test_tshark_shows_port_direction_and_comment(tmp_path: Path) -> None:
    trace = next(trace for trace in TRACES if trace.name == "usid")
    path = tmp_path / "usid.pcapng"
    write_pcapng(path, trace.ports, frames_of(trace))
    tshark = shutil.which("tshark")
    assert tshark is not None
    columns = ("frame.interface_name", "frame.packet_flags_direction", "frame.comment", "frame.len")
    output = subprocess.run(
        [tshark, "-r", path, "-T", "fields", *(f"-e{column}" for column in columns)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split("\t") for line in output.splitlines()]
    expected = [
        [
            f"port {captured.port}",
            "0x00000001" if captured.inbound else "0x00000002",
            comment,
            str(len(captured.frame)),
        ]
        for captured, comment in frames_of(trace)
    ]
    assert rows == expected


def test_a_capture_becomes_a_trace(tmp_path: Path) -> None:
    """With the counters filled in it is read, and says what the first one said."""
    trace = next(trace for trace in TRACES if trace.name == "srh")
    path = tmp_path / "srh.pcapng"
    write_pcapng(path, trace.ports, frames_of(trace))
    text = as_trace(read_pcapng(path))
    text = text.replace("COUNTER[INDEX]", "dropped_not_ipv6[1]").replace("COUNTER", "sent_data")
    copy = tmp_path / "copy.trace"
    copy.write_text(text)
    again = read(copy)
    assert [(s.port, s.at_ns, s.frame) for s in again.steps] == [
        (s.port, s.at_ns, s.frame) for s in trace.steps
    ]
    assert [[(o.port, o.frame) for o in s.outs] for s in again.steps] == [
        [(o.port, o.frame) for o in s.outs] for s in trace.steps
    ]


def test_classic_pcap_of_one_port(tmp_path: Path) -> None:
    path = tmp_path / "veth1_in.pcap"
    wrpcap(str(path), [b"\x01" * 60, b"\x02" * 60], linktype=1)
    first, second = read_pcap(path, 4, inbound=True)
    assert (first.port, first.inbound, first.frame) == (4, True, b"\x01" * 60)
    assert second.frame == b"\x02" * 60


@pytest.mark.parametrize("reader", [read_pcapng, lambda path: read_pcap(path, 1, inbound=True)])
@pytest.mark.parametrize("content", [b"", b"no capture at all", b"\x0a\x0d\x0d\x0a"])
def test_other_files_are_refused(reader, content: bytes, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=f"{path}: is no pcap"):
        reader(path)


def test_files_cut_short_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    write_pcapng(path, [1], [(Captured(1, True, 0, bytes(60)), "one")])
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CaptureError, match="impossible length"):
        read_pcapng(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Whatever is in a file, what comes of it is frames or a CaptureError."""
    path = tmp_path / "damaged.pcapng"
    write_pcapng(path, [1, 2], [(Captured(2, True, 5, bytes(20)), "one")])
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(CaptureError):
            read_pcapng(path)


def test_commands(tmp_path: Path) -> None:
    path = tmp_path / "usid.pcapng"
    assert CliRunner().invoke(main, ["pcap", "usid", str(path)]).exit_code == 0
    back = CliRunner().invoke(main, ["from-pcap", str(path)])
    assert back.exit_code == 0
    assert back.output.startswith("ports 1 2 3 4\npacket 1 at 0ns: octets(")
    missing = CliRunner().invoke(main, ["from-pcap", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "none: No such file or directory" in missing.output
    wrong = CliRunner().invoke(main, ["from-pcap", f"1:sideways={path}"])
    assert wrong.exit_code == 2
    assert "must be FILE, PORT:in=FILE or PORT:out=FILE" in wrong.output
