"""Finishing what senders leave to hardware, against scapy's idea of right packets."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from rawsocket.offload import (
    UNFINISHED_MASK,
    UnsupportedOffload,
    complete_checksum,
    crc32c,
    finish,
    insert_vlan,
)

TCPV4, UDPV4, TCPV6, UDP_L4, ECN = 1, 3, 4, 5, 0x80


def header(
    flags: int = 0, gso_type: int = 0, gso_size: int = 0, start: int = 0, offset: int = 0
) -> bytes:
    return struct.pack("=BBHHHH", flags, gso_type, 0, gso_size, start, offset)


def one_complement_sum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def pseudo_sum(source: bytes, destination: bytes, protocol: int, length: int) -> int:
    return one_complement_sum(source + destination + struct.pack("!II", length, protocol))


def unfinished(packet: Packet, layer: type[Packet], protocol: int) -> tuple[bytes, int]:
    """Return a packet as a kernel hands it over, with where its transport header begins."""
    built = Ether(bytes(packet))
    transport = built[layer]
    start = len(bytes(built)) - len(bytes(transport))
    network = transport.underlayer
    while not isinstance(network, IP | IPv6):
        network = network.underlayer
    raw = bytes(network)
    if isinstance(network, IP):
        addresses = raw[12:16], raw[16:20]
    else:
        final = raw[24:40]
        if IPv6ExtHdrSegmentRouting in network:
            final = raw[48:64]  # the last segment stands first in the list
        addresses = raw[8:24], final
    partial = pseudo_sum(*addresses, protocol, len(bytes(transport)))
    frame = bytearray(bytes(built))
    at = start + (16 if layer is TCP else 6)
    frame[at : at + 2] = partial.to_bytes(2, "big")
    return bytes(frame), start


def assert_right(frame: bytes) -> None:
    again = Ether(frame)
    for layer in (IP, TCP, UDP):
        if layer in again:
            del again[layer].chksum
    if IP in again:
        del again[IP].len
    if IPv6 in again:
        del again[IPv6].plen
    assert bytes(again) == frame


ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4 = IP(src="10.0.0.1", dst="10.0.0.2", id=0xFFFF)
V6 = IPv6(src="fd00::1", dst="fd00::2", fl=0x12345)


@given(st.binary(max_size=200), st.sampled_from([V4, V6]), st.sampled_from([TCP, UDP]))
def test_checksum_completion(payload: bytes, network: Packet, layer: type[Packet]) -> None:
    packet = ETHERNET / network / layer(sport=1000, dport=2000) / Raw(payload)
    frame, start = unfinished(packet, layer, 6 if layer is TCP else 17)
    offset = 16 if layer is TCP else 6
    (done,) = finish(header(flags=1, start=start, offset=offset), frame)
    # A sum of 0 is written as 0xFFFF, in TCP as in UDP; scapy writes 0 in TCP.
    if done[start + offset : start + offset + 2] != b"\xff\xff":
        assert_right(done)


def test_checksum_zero_is_written_as_all_ones() -> None:
    # Data that sum up to 0xFFFF with the field that holds the pseudo-header's sum.
    frame = bytes(14) + b"\x12\x34" + b"\xed\xcb" + bytes(4)
    assert complete_checksum(frame, 14, 0)[14:16] == b"\xff\xff"


def test_nothing_to_do() -> None:
    assert finish(header(), b"frame") == [b"frame"]
    assert finish(header(flags=2), b"frame") == [b"frame"]  # checksum known to be good
    word = int.from_bytes(header(flags=2)[:4], "little" if UNFINISHED_MASK == 0xFF01 else "big")
    assert word & UNFINISHED_MASK == 0


def test_sctp_has_a_crc() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4's polynomial
    frame = bytes(34) + b"\x11" * 8 + b"\xaa" * 4 + b"\x22" * 8
    done = complete_checksum(frame, 34, 8)
    expected = crc32c(b"\x11" * 8 + bytes(4) + b"\x22" * 8)
    assert done[42:46] == expected.to_bytes(4, "little")
    assert done[:42] + done[46:] == frame[:42] + frame[46:]


@pytest.mark.parametrize(
    "network",
    [
        V4,
        V6,
        Dot1Q(vlan=5) / V4,
        IP(src="1.1.1.1", dst="2.2.2.2", id=7) / V4,
        V6 / IPv6(src="fd01::1", dst="fd01::2"),
        V6 / IPv6ExtHdrSegmentRouting(addresses=["fd00::9"]),
    ],
    ids=["v4", "v6", "vlan", "ipip", "ip6ip6", "srv6"],
)
@pytest.mark.parametrize("size", [1448, 1449, 8000, 60_001])
def test_tcp_segmentation(network: Packet, size: int) -> None:
    payload = os.urandom(size)
    transport = TCP(sport=1, dport=2, seq=0xFFFFFF00, flags="FPAC", options=[("NOP", None)] * 4)
    frame, start = unfinished(ETHERNET / network / transport / Raw(payload), TCP, 6)
    gso_type = (TCPV4 if isinstance(network.lastlayer(), IP) else TCPV6) | ECN
    segments = finish(header(1, gso_type, 1448, start, 16), frame)
    assert len(segments) == -(-size // 1448)
    parsed = [Ether(segment) for segment in segments]
    assert b"".join(bytes(each[TCP].payload) for each in parsed) == payload
    for index, (segment, each) in enumerate(zip(segments, parsed, strict=True)):
        assert each[TCP].seq == (0xFFFFFF00 + index * 1448) & 0xFFFFFFFF
        last, first = index == len(segments) - 1, index == 0
        assert ("F" in each[TCP].flags, "P" in each[TCP].flags) == (last, last)
        assert ("C" in each[TCP].flags) == first
        assert len(segment) == start + 24 + len(each[TCP].payload)
        layers = [layer for layer in (each.getlayer(IP, 1), each.getlayer(IP, 2)) if layer]
        for layer in layers:
            assert layer.id == (7 + index if layer.src == "1.1.1.1" else (0xFFFF + index) & 0xFFFF)
        if IPv6ExtHdrSegmentRouting not in each:  # scapy's pseudo-header has the wrong end
            assert_right(segment)
        else:
            assert each[IPv6].plen == len(segment) - 54


def test_srv6_segments_have_the_checksum_of_the_final_destination() -> None:
    network = V6 / IPv6ExtHdrSegmentRouting(addresses=["fd00::9"])
    frame, start = unfinished(ETHERNET / network / TCP() / Raw(bytes(3000)), TCP, 6)
    for segment in finish(header(1, TCPV6, 1000, start, 16), frame):
        transport = segment[start:]
        pseudo = struct.pack("!16s16sII", segment[22:38], segment[62:78], len(transport), 6)
        assert one_complement_sum(pseudo + transport) == 0xFFFF


@pytest.mark.parametrize("network", [V4, V6], ids=["v4", "v6"])
def test_udp_segmentation(network: Packet) -> None:
    payload = os.urandom(5001)
    frame, start = unfinished(ETHERNET / network / UDP(sport=1, dport=2) / Raw(payload), UDP, 17)
    segments = finish(header(1, UDP_L4, 1000, start, 6), frame)
    assert [len(segment) - start - 8 for segment in segments] == [1000] * 5 + [1]
    assert b"".join(segment[start + 8 :] for segment in segments) == payload
    for segment in segments:
        assert Ether(segment)[UDP].len == len(segment) - start
        assert_right(segment)


@pytest.mark.parametrize(
    ("vnet", "frame"),
    [
        (header(1, UDPV4, 1000, 34, 6), bytes(100)),
        (header(0, TCPV4, 1000, 34, 16), bytes(100)),
        (header(1, TCPV4, 0, 34, 16), bytes(100)),
        (header(1, TCPV4, 1000, 34, 16), bytes(40)),
        (header(1, TCPV4, 1000, 34, 16), bytes(100)),
        (header(1, TCPV4, 1000, 34, 16), bytes(46) + b"\x50" + bytes(100)),
        (header(1, UDP_L4, 1000, 34, 6), bytes(40)),
        (header(1, 0, 0, 34, 16), bytes(40)),
    ],
    ids=["ufo", "no-csum", "no-size", "short", "offset", "ethertype", "udp", "csum"],
)
def test_what_cannot_be_finished_is_refused(vnet: bytes, frame: bytes) -> None:
    with pytest.raises(UnsupportedOffload):
        finish(vnet, frame)


@given(
    st.binary(min_size=10, max_size=10),
    st.binary(min_size=14, max_size=300),
)
def test_no_metadata_and_no_frame_do_more_than_refuse(vnet: bytes, frame: bytes) -> None:
    try:
        frames = finish(vnet, frame)
    except (UnsupportedOffload, struct.error, IndexError):
        return
    assert frames


def test_vlan_insertion() -> None:
    tagged = Ether(insert_vlan(bytes(ETHERNET / V4), 0x8100, 0x6007))
    assert (tagged[Dot1Q].vlan, tagged[Dot1Q].prio, tagged[IP].dst) == (7, 3, "10.0.0.2")
