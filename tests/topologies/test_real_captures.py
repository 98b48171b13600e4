"""Captures of a real run (`mrc-topology pcap`) as tshark and scapy see them: nothing malformed,
every ICRC right. Wireshark's own dissector neither knows MRC's opcodes nor checks an ICRC; ours
(Lua, in tshark) and scapy.contrib.roce do, and neither shares code with the endpoint."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from scapy.layers.inet6 import IPv6

from host.wire import Opcode, decode
from tests.roce import bth_of
from tests.topologies.live_runner import live_runner
from tests.topologies.runner_command import REPOSITORY, TIMEOUT_S, read_until
from tests.traces.captures import read_pcap

pytestmark = [pytest.mark.netns, pytest.mark.tshark]

DISSECTOR = REPOSITORY / "docs" / "wireshark" / "mrc.lua"
NODES = ("h0", "h1", "p0-t0-1", "p0-t1-0")
MESSAGE_BYTES = 1 << 19

#: What a run like this one has at least
OPCODES = {
    Opcode.RDMA_WRITE_FIRST,
    Opcode.RDMA_WRITE_MIDDLE,
    Opcode.RDMA_WRITE_LAST,
    Opcode.RELIABILITY_SACK,
    Opcode.RELIABILITY_NACK,
    Opcode.ENDPOINT_REQUEST,
    Opcode.ENDPOINT_RESPONSE,
}

#: Wireshark's own, of a packet whose payload a switch took while its headers say the old length
TRIMMED_REMARKS = {
    "IPv6 payload length exceeds framing length",
    "Bad length value",
    "Trimmed by a switch",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame as tshark shows it."""

    protocol: str
    opcode: int
    trimmed: bool
    icrc_good: bool | None
    remarks: tuple[str, ...]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One of each node: probes, a write whose last link is so slow that it is trimmed, and a
    host's port that goes down and comes back."""
    folder = tmp_path_factory.mktemp("captures")
    files = {node: folder / f"{node}.pcap" for node in NODES}
    with live_runner() as runner:
        runner.bring_up()
        processes = [runner.start("pcap", node, "-o", str(path)) for node, path in files.items()]
        for process in processes:
            read_until(process, "Ctrl-C ends it")
        runner.do("link", "h1", "p0-t0-1", "rate", "10Mbps")
        with runner.transfer("h0", "h1", MESSAGE_BYTES) as transfer:
            transfer.post(1)
            assert transfer.wait(1) == ["SUCCESS"]
            assert transfer.is_whole()
            runner.do("link", "h0", "p0-t0-0", "down")
            runner.do("link", "h0", "p0-t0-0", "up")
        runner.wait_for_all_paths("h0", "h1")
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            assert process.wait(TIMEOUT_S) == 0
    yield files


def tshark(path: Path, *options: str) -> list[list[str]]:
    """Columns of every frame."""
    result = subprocess.run(
        ["tshark", "-r", str(path), *options, "-T", "fields"],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    problems = [line for line in result.stderr.splitlines() if "Running as user" not in line]
    assert problems == []
    return [line.split("\t") for line in result.stdout.splitlines()]


#: RoCE v2 over IPv6 has no UDP checksum: the ICRC covers more
QUIET = ("-o", "udp.ignore_ipv6_zero_checksum:TRUE")
REMARKS = ("-e", "_ws.expert.message", "-E", "aggregator=|")


def by_wireshark(path: Path) -> list[Shown]:
    """Without our dissector. Whether a packet is trimmed is then in its DSCP only."""
    fields = ("_ws.col.Protocol", "infiniband.bth.opcode", "ipv6.tclass.dscp")
    columns = [option for field in fields for option in ("-e", field)]
    return [
        Shown(protocol, int(opcode), dscp.split("|")[0] in ("12", "16"), None, _remarks(remarks))
        for protocol, opcode, dscp, remarks in tshark(path, *QUIET, *columns, *REMARKS)
    ]


@cache
def by_our_dissector(path: Path) -> list[Shown]:
    fields = ("_ws.col.Protocol", "mrc.bth.opcode", "mrc.trimmed", "mrc.icrc.good")
    columns = [option for field in fields for option in ("-e", field)]
    lua = ("-X", f"lua_script:{DISSECTOR}")
    return [
        Shown(
            protocol,
            int(opcode, 0),
            trimmed == "1",
            None if not good else good == "1",
            _remarks(remarks),
        )
        for protocol, opcode, trimmed, good, remarks in tshark(
            path, *lua, *QUIET, *columns, *REMARKS
        )
    ]


def _remarks(column: str) -> tuple[str, ...]:
    return tuple(each for each in column.split("|") if each)


def unexpected(shown: Shown) -> list[str]:
    return [
        remark
        for remark in shown.remarks
        if not (shown.trimmed and remark.startswith(tuple(TRIMMED_REMARKS)))
    ]


@pytest.mark.parametrize("node", NODES)
def test_nothing_is_malformed(captures: dict[str, Path], node: str) -> None:
    plain, ours = by_wireshark(captures[node]), by_our_dissector(captures[node])
    assert len(plain) == len(ours) > 100
    assert {shown.protocol for shown in plain} == {"RRoCE"}
    assert {shown.protocol for shown in ours} == {"MRC"}
    for shown in (*plain, *ours):
        assert unexpected(shown) == [], shown
    assert [(each.opcode, each.trimmed) for each in plain] == [
        (each.opcode, each.trimmed) for each in ours
    ]
    if node != "p0-t1-0":  # the others' packets go over both T1s
        assert {shown.opcode for shown in ours} >= OPCODES
    # Trimmed by the last switch: nobody before it has seen a trimmed packet
    assert any(shown.trimmed for shown in ours) == (node in ("h1", "p0-t0-1"))


@pytest.mark.parametrize("node", NODES)
def test_every_icrc_is_right(captures: dict[str, Path], node: str) -> None:
    shown = by_our_dissector(captures[node])
    assert {each.icrc_good for each in shown if not each.trimmed} == {True}
    assert {each.icrc_good for each in shown if each.trimmed} <= {None}


def test_scapy_agrees_on_the_icrc(captures: dict[str, Path]) -> None:
    """As received, behind all switches. Some of each opcode: scapy takes its time."""
    checked: Counter[int] = Counter()
    seen: set[int] = set()
    for captured in read_pcap(captures["h1"], 0, inbound=True):
        inner = captured.frame[decode(captured.frame).envelope.bth_offset - 48 :]
        ipv6 = IPv6(inner)
        opcode = inner[48]
        seen.add(opcode)
        if ipv6.plen > len(inner) - 40 or checked[opcode] >= 20:  # trimmed, or known
            continue
        assert bth_of(ipv6).compute_icrc(b"") == inner[-4:]
        checked[opcode] += 1
    assert set(checked) == seen >= OPCODES
