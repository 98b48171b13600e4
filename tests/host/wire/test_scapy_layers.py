"""The scapy layers against the vectors, both ways, and their place beside scapy.contrib.roce."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.contrib import roce
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from host.wire import BTH, METH, RETH, TSETH, Write, decode, scapy_layers
from host.wire.constants import Opcode
from tests.host.wire.vectors import ALL, TRIMMED, WHOLE, Vector

LAYERS: dict[str, Any] = {
    "bth": scapy_layers.MRC,
    "meth": scapy_layers.METH,
    "tseth": scapy_layers.TSETH,
    "reth": scapy_layers.RETH,
    "immdt": scapy_layers.ImmDt,
    "aeth": scapy_layers.AETH,
    "seth": scapy_layers.SETH,
    "cc_state": scapy_layers.CC_STATE,
    "neth": scapy_layers.NETH,
    "peth": scapy_layers.PETH,
    "erth": scapy_layers.ERTH,
    "eeth": scapy_layers.EETH,
}
#: Where scapy.contrib.roce has a name already, the layers use that
ROCE_NAMES = {
    "se": "solicited",
    "m": "migreq",
    "pad": "padcount",
    "p_key": "pkey",
    "dest_qp": "dqpn",
    "ack_request": "ackreq",
    "r_key": "rkey",
    "dma_length": "dmalen",
}


def _scapy_name(header: str, field: str) -> str:
    return field if header == "seth" else ROCE_NAMES.get(field, field)


def _below(vector: Vector) -> ScapyPacket:
    """Ethernet to UDP as a user of scapy would write them."""
    below = vector.below

    def ipv6(values: dict[str, Any]) -> ScapyPacket:
        return IPv6(
            src=values["src"],
            dst=values["dst"],
            tc=int(values["traffic_class"], 0),
            fl=int(values["flow_label"], 0),
            hlim=values["hop_limit"],
        )

    packet = Ether(dst=below["ethernet"]["dst"], src=below["ethernet"]["src"])
    if "outer" in below:
        packet /= ipv6(below["outer"])
    if "srh" in below:
        srh = below["srh"]
        packet /= IPv6ExtHdrSegmentRouting(
            addresses=srh["segments"],
            segleft=srh["segments_left"],
            lastentry=len(srh["segments"]) - 1,
            tag=int(srh["tag"], 0),
        )
    # None makes scapy compute the checksum
    checksum = int(below["udp"]["checksum"], 0) or None
    udp = UDP(sport=int(below["udp"]["src_port"], 0), dport=below["udp"]["dst_port"])
    udp.chksum = None if checksum else 0
    return packet / ipv6(below["inner"]) / udp


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_dissects_to_the_values(vector: Vector) -> None:
    packet = Ether(vector.frame)
    names = {layer: name for name, layer in LAYERS.items()}
    assert [names[layer] for layer in packet.layers() if layer in names] == list(vector.transport)
    for header, values in vector.transport.items():
        layer = packet[LAYERS[header]]
        for field, value in values.items():
            assert layer.getfieldval(_scapy_name(header, field)) == value, (header, field)
    left = vector.rest if vector.trimmed else vector.payload
    assert (bytes(packet[Raw]) if Raw in packet else b"") == (left or b"")
    assert packet[scapy_layers.MRC].trimmed is vector.trimmed


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_dissecting_and_building_gives_the_same_bytes(vector: Vector) -> None:
    assert bytes(Ether(vector.frame)) == vector.frame
    assert bytes(Ether(vector.frame).copy()) == vector.frame


@pytest.mark.parametrize("vector", WHOLE, ids=lambda vector: vector.name)
def test_builds_the_frame_from_the_values(vector: Vector) -> None:
    packet = _below(vector)
    for header, values in vector.transport.items():
        # Left to the layer: pad count and TSETH bit; ICRC and lengths are not in the values
        given = {
            k: v for k, v in values.items() if (header, k) not in {("bth", "pad"), ("bth", "ts")}
        }
        packet /= LAYERS[header](**{_scapy_name(header, k): v for k, v in given.items()})
    if vector.payload is not None:
        packet /= vector.payload
    assert bytes(packet) == vector.frame


@pytest.mark.parametrize("vector", WHOLE, ids=lambda vector: vector.name)
def test_tells_a_right_icrc_from_a_wrong_one(vector: Vector) -> None:
    assert Ether(vector.frame)[scapy_layers.MRC].icrc_is_right() is True
    corrupted = bytearray(vector.frame)
    corrupted[-5] ^= 0x10
    assert Ether(bytes(corrupted))[scapy_layers.MRC].icrc_is_right() is False


@pytest.mark.parametrize("vector", TRIMMED, ids=lambda vector: vector.name)
def test_a_trimmed_packet_has_no_icrc(vector: Vector) -> None:
    assert Ether(vector.frame)[scapy_layers.MRC].icrc_is_right() is None


def test_a_given_icrc_is_kept() -> None:
    packet = Ether(WHOLE[0].frame)
    packet[scapy_layers.MRC].icrc = 0x01020304
    assert bytes(packet) == WHOLE[0].frame[:-4] + bytes([4, 3, 2, 1])


def test_other_opcodes_stay_roce() -> None:
    frame = bytes(
        Ether(dst="06:00:00:00:00:01", src="06:00:00:00:00:02")
        / IPv6(src="fd00::1", dst="fd00::2")
        / UDP(sport=49152, dport=4791, chksum=0)
        / roce.BTH(opcode=roce.opcode("RC", "ACKNOWLEDGE")[0], dqpn=3, psn=4)
        / roce.AETH(msn=5)
    )
    packet = Ether(frame)
    assert packet[roce.BTH].psn == 4
    assert packet[roce.AETH].msn == 5
    assert scapy_layers.MRC not in packet


def test_opcode_names() -> None:
    assert scapy_layers.MRC(opcode="RELIABILITY_SACK").opcode == Opcode.RELIABILITY_SACK


def test_what_a_user_builds_decodes() -> None:
    packet = Ether(dst="06:00:00:00:00:01", src="06:00:00:00:00:02")
    packet /= IPv6(src="fd4d:5243::1", dst="5f00:0:800:1000:801:1801::")
    packet /= IPv6(src="fd4d:5243::1", dst="fd4d:5243:0:1::2") / UDP(sport=0x1234, chksum=0)
    packet /= scapy_layers.MRC(dqpn=17, psn=1) / scapy_layers.METH(msn=2)
    packet /= scapy_layers.TSETH(tx_timestamp=3)
    packet /= scapy_layers.RETH(va=0x1000, dmalen=5) / b"datum"
    decoded = decode(bytes(packet))
    assert isinstance(decoded, Write)
    assert decoded.bth == BTH(Opcode.RDMA_WRITE_ONLY, 17, 1)
    assert decoded.meth == METH(0, 2)
    assert decoded.tseth == TSETH(3)
    assert decoded.reth == RETH(0x1000, 0, 5)
    assert decoded.payload == b"datum"
