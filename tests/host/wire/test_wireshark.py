"""The Wireshark dissector on captures of our own packets."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from host.wire import Opcode, Write, decode, encode, trim
from host.wire.layouts import LAYOUTS, VALUES
from tests.host.wire.test_vectors import HEADERS
from tests.host.wire.vectors import ALL, WHOLE, Vector

pytestmark = pytest.mark.tshark

DISSECTOR = Path(__file__).parents[3] / "docs" / "wireshark" / "mrc.lua"

#: Every field of every header, as Wireshark names it
FIELDS = [
    f"mrc.{header}.{field.name}"
    for header, kind in HEADERS.items()
    for field in LAYOUTS[kind].fields
    if field.kind in VALUES or field.name in {"pad", "ts"}
]
GENERATED = [
    "mrc.ev",
    "mrc.carrier.usid",
    "mrc.payload",
    "mrc.rest",
    "mrc.trimmed",
    "mrc.original_length",
    "mrc.icrc.good",
    "mrc.seth.probe_id",
    "mrc.seth.ack_psn",
    "_ws.col.Info",
    "_ws.col.Protocol",
    "_ws.expert.message",
]


def write_pcap(path: Path, frames: Sequence[bytes], snaplen: int = 65535) -> None:
    """A capture file of Ethernet frames, one a microsecond."""
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snaplen, 1)]
    for microseconds, frame in enumerate(frames):
        captured = frame[:snaplen]
        records.append(struct.pack("<IIII", 0, microseconds, len(captured), len(frame)) + captured)
    path.write_bytes(b"".join(records))


def tshark(capture: Path, *options: str) -> str:
    result = subprocess.run(
        ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    problems = [line for line in result.stderr.splitlines() if "Running as user" not in line]
    assert problems == []
    return result.stdout


def fields_of(capture: Path, *options: str) -> list[dict[str, str]]:
    """What tshark found in each frame; absent fields are left out."""
    names = [*FIELDS, *GENERATED]
    columns = [option for name in names for option in ("-e", name)]
    out = tshark(capture, "-T", "fields", "-E", "separator=\t", *columns, *options)
    return [
        {name: value for name, value in zip(names, line.split("\t"), strict=True) if value}
        for line in out.splitlines()
    ]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    capture = tmp_path_factory.mktemp("wireshark") / "vectors.pcap"
    write_pcap(capture, [vector.frame for vector in ALL])
    return dict(zip((vector.name for vector in ALL), fields_of(capture), strict=True))


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_shows_the_values(vector: Vector, vectors: dict[str, dict[str, str]]) -> None:
    shown = {name: int(value, 0) for name, value in vectors[vector.name].items() if name in FIELDS}
    assert shown == {
        f"mrc.{header}.{field}": value
        for header, values in vector.transport.items()
        for field, value in values.items()
    }


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_shows_what_follows_from_them(vector: Vector, vectors: dict[str, dict[str, str]]) -> None:
    shown = vectors[vector.name]
    packet = decode(vector.frame)
    assert shown["_ws.col.Protocol"] == "MRC"
    assert shown["_ws.col.Info"].startswith(Opcode(packet.bth.opcode).name + " ")
    assert int(shown["mrc.ev"], 0) == packet.envelope.ev
    assert shown["mrc.trimmed"] == ("1" if vector.trimmed else "0")
    left = vector.rest if vector.trimmed else vector.payload
    shown_left = shown.get("mrc.payload", "") + shown.get("mrc.rest", "")
    assert bytes.fromhex(shown_left) == (left or b"")
    messages = shown.get("_ws.expert.message", "")
    if vector.trimmed:
        assert "mrc.icrc.good" not in shown
        original = int(shown["mrc.original_length"]) + packet.envelope.bth_offset
        assert original == vector.original_bytes
        assert "Trimmed by a switch" in messages
        assert "[trimmed]" in shown["_ws.col.Info"]
    else:
        assert shown["mrc.icrc.good"] == "1"
        assert "mrc.original_length" not in shown
        assert "Trimmed" not in messages
    assert "Bad invariant CRC" not in messages
    assert "ends within a header" not in messages


def test_shows_the_path(vectors: dict[str, dict[str, str]]) -> None:
    usids = vectors["rdma_write_first"]["mrc.carrier.usid"].split(",")
    assert [int(usid, 0) for usid in usids] == [0xA812, 0xB246, 0xA856, 0xB878]
    assert "mrc.carrier.usid" not in vectors["plain_ipv6"]


def test_shows_what_a_sack_means(vectors: dict[str, dict[str, str]]) -> None:
    sack = vectors["reliability_sack"]
    assert int(sack["mrc.seth.ack_psn"]) == 0x654321 - 1234
    assert "mrc.seth.probe_id" not in sack
    answer = vectors["reliability_sack_probe_response"]
    assert int(answer["mrc.seth.probe_id"], 0) == 0x4344
    assert "mrc.seth.ack_psn" not in answer
    assert "M=SKIP_ONCE" in sack["_ws.col.Info"]
    assert "TRIMMED" in vectors["reliability_nack"]["_ws.col.Info"]
    assert " rtx" in vectors["rdma_write_middle"]["_ws.col.Info"]


def test_says_when_an_icrc_is_wrong(tmp_path: Path) -> None:
    corrupted = []
    for vector in WHOLE:
        frame = bytearray(vector.frame)
        frame[-6] ^= 0x40
        corrupted.append(bytes(frame))
    write_pcap(tmp_path / "corrupted.pcap", [*corrupted, WHOLE[0].frame])
    *bad, good = fields_of(tmp_path / "corrupted.pcap")
    assert len(bad) == len(WHOLE)
    for shown in bad:
        assert shown["mrc.icrc.good"] == "0"
        assert "Bad invariant CRC" in shown["_ws.expert.message"]
    assert good["mrc.icrc.good"] == "1"
    found = tshark(tmp_path / "corrupted.pcap", "-Y", "mrc.icrc.bad")
    assert len(found.splitlines()) == len(WHOLE)
    unchecked = fields_of(tmp_path / "corrupted.pcap", "-o", "mrc.check_icrc:FALSE")
    assert all("mrc.icrc.good" not in shown for shown in unchecked)


def _long_write() -> bytes:
    packet = decode(next(v for v in WHOLE if v.name == "rdma_write_first").frame)
    assert isinstance(packet, Write)
    return encode(packet._replace(payload=bytes(500)))


def test_tells_trimmed_from_broken(tmp_path: Path) -> None:
    whole = _long_write()
    frames = [
        trim(whole, 12),
        trim(whole, 16),
        trim(whole, 4),  # cut, but its DSCP does not say so
        trim(whole, 12, 110),  # within the BTH
    ]
    write_pcap(tmp_path / "cut.pcap", frames)
    trimmed, lasthop, broken, headless = fields_of(tmp_path / "cut.pcap")
    assert (trimmed["mrc.trimmed"], lasthop["mrc.trimmed"]) == ("1", "1")
    assert broken["mrc.trimmed"] == "0"
    assert "does not say trimmed" in broken["_ws.expert.message"]
    assert headless["mrc.trimmed"] == "1"
    assert "mrc.bth.psn" not in headless
    other = fields_of(tmp_path / "cut.pcap", "-o", "mrc.trimmed_dscp:4")
    assert [shown["mrc.trimmed"] for shown in other] == ["0", "1", "1", "0"]


def test_a_capture_that_keeps_only_the_start_of_packets(tmp_path: Path) -> None:
    write_pcap(tmp_path / "short.pcap", [_long_write(), trim(_long_write(), 12)], snaplen=138)
    whole, trimmed = fields_of(tmp_path / "short.pcap")
    assert whole["mrc.trimmed"] == "0"
    assert trimmed["mrc.trimmed"] == "1"
    for shown in (whole, trimmed):
        assert int(shown["mrc.reth.dma_length"]) == 0x2C2D2E2F
        assert "mrc.icrc.good" not in shown
        assert "ends within a header" not in shown["_ws.expert.message"]


def test_other_opcodes_stay_roce(tmp_path: Path) -> None:
    frame = bytearray(next(v for v in WHOLE if v.name == "plain_ipv6").frame)
    frame[62] = 0x11  # RC ACKNOWLEDGE
    write_pcap(tmp_path / "roce.pcap", [bytes(frame)])
    (shown,) = fields_of(tmp_path / "roce.pcap")
    assert shown["_ws.col.Protocol"] == "RRoCE"
    assert not any(name.startswith("mrc.") for name in shown)


def test_another_port(tmp_path: Path) -> None:
    packet = decode(_long_write())
    envelope = packet.envelope
    moved = replace(envelope, udp=envelope.udp._replace(dst_port=4800))
    write_pcap(tmp_path / "port.pcap", [encode(packet._replace(envelope=moved))])
    (shown,) = fields_of(tmp_path / "port.pcap", "-o", "mrc.port:4800")
    assert shown["mrc.icrc.good"] == "1"


def test_survives_truncation_anywhere(tmp_path: Path) -> None:
    frames = [
        vector.frame[:size]
        for vector in ALL
        for size in range(vector_start(vector), len(vector.frame))
    ]
    write_pcap(tmp_path / "truncated.pcap", frames)
    shown = fields_of(tmp_path / "truncated.pcap")
    assert len(shown) == len(frames)
    assert not [values for values in shown if "Lua" in values.get("_ws.expert.message", "")]


def vector_start(vector: Vector) -> int:
    """The length of a frame that ends with its UDP header."""
    return decode(vector.frame).envelope.bth_offset


def test_the_filters_of_the_readme_are_filters(tmp_path: Path) -> None:
    readme = (DISSECTOR.parent / "README.md").read_text()
    filters = re.findall(r"^\| [a-z][a-z ]+ \| `(mrc[^`]+)` \|$", readme, re.MULTILINE)
    assert len(filters) >= 5
    write_pcap(tmp_path / "one.pcap", [ALL[0].frame])
    for display_filter in filters:
        tshark(tmp_path / "one.pcap", "-Y", display_filter)  # an unknown field makes it fail
