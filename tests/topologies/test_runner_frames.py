"""Packets of the path check: what is sent and what must arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from tests.roce import bth_of
from topologies.addressing import HostId, Path
from topologies.model import Fabric
from topologies.runner.check import frames
from topologies.runner.check.frames import METH, RETH, PacketKey, Write

FABRIC = Fabric("two", planes=2, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=2)
CROSS = Path(1, HostId(0, 0), HostId(1, 1), 1)
LOCAL = Path(0, HostId(1, 0), HostId(1, 1), None)

# By hand: plane 1, T0 0 | T1 1 | T0 1 | downlink 1, and what is left of it at the NIC
CROSS_CARRIER = "5f00:0:2800:3001:2801:3801::"
CROSS_FINAL = "5f00:0:3801::"


def write(path: Path = CROSS, packets: int = 3, payload_bytes: int = 4096) -> Write:
    return Write(FABRIC, path, 7, packets, payload_bytes)


def test_a_frame_has_every_layer_of_an_mrc_write() -> None:
    packet = Ether(write().frame(1))
    outer, inner = packet[IPv6], packet[IPv6].payload
    assert (packet.src, packet.dst) == ("06:01:00:00:00:00", "02:00:28:00:00:00")
    assert (outer.nh, outer.dst, outer.hlim) == (41, CROSS_CARRIER, 64)
    assert (outer.src, outer.tc) == ("fd4d:5243::1", FABRIC.traffic.trimmable << 2 | 2)
    assert outer.plen == len(packet) - 14 - 40
    assert (inner.src, inner.dst) == ("fd4d:5243::1", "fd4d:5243:0:1::2")
    assert (inner[UDP].dport, inner[UDP].chksum, inner[UDP].sport) == (4791, 0, CROSS.ev)
    assert outer.fl == inner.fl == 0
    bth = bth_of(packet)
    assert (bth.opcode, bth.dqpn, bth.psn, bth.pkey) == (0xC7, 7, 1, 0xFFFF)
    meth = METH(bytes(bth.payload))
    assert (meth.rqmsn, meth.msn) == (0, 0)
    reth = RETH(bytes(meth.payload))
    assert reth.dma_length == 3 * 4096
    assert bytes(reth.payload) == frames.payload(7, 1, 4096)


@pytest.mark.parametrize(("path", "number"), [(CROSS, 0), (CROSS, 2), (LOCAL, 1)])
def test_the_icrc_is_what_scapy_computes(path: Path, number: int) -> None:
    frame = write(path).frame(number)
    inner = IPv6(frame[54:])
    bth_of(inner).icrc = None
    assert bytes(inner) == frame[54:]


@pytest.mark.parametrize(
    ("packets", "opcodes"), [(1, [0xCA]), (2, [0xC6, 0xC8]), (4, [0xC6, 0xC7, 0xC7, 0xC8])]
)
def test_opcodes_say_where_in_the_write_a_packet_stands(packets: int, opcodes: list[int]) -> None:
    of_write = write(packets=packets)
    assert [of_write.opcode(number) for number in range(packets)] == opcodes


def test_the_virtual_address_advances_by_the_payload() -> None:
    of_write = write(payload_bytes=1024)
    addresses = [
        RETH(
            bytes(METH(bytes(bth_of(Ether(of_write.frame(number))).payload)).payload)
        ).virtual_address
        for number in range(3)
    ]
    assert [address - addresses[0] for address in addresses] == [0, 1024, 2048]


def test_the_entropy_value_rides_in_source_port_and_flow_label() -> None:
    packet = Ether(Write(FABRIC, Path(1, HostId(0, 0), HostId(1, 0), 1), 1, 1, 64).frame(0))
    assert packet[UDP].sport == 1 << 3 | 1


@pytest.mark.parametrize(
    ("path", "hops", "final", "source", "destination"),
    [
        (CROSS, 3, CROSS_FINAL, "02:00:28:01:00:01", "06:01:00:01:00:01"),
        (LOCAL, 1, "5f00:0:1801::", "02:00:08:01:00:01", "06:00:00:01:00:01"),
    ],
)
def test_arrival_is_the_sent_frame_after_its_switches(
    path: Path, hops: int, final: str, source: str, destination: str
) -> None:
    of_write = write(path)
    sent = of_write.frame(0)
    arrived = of_write.arrival(sent)
    packet = Ether(arrived)
    assert packet[IPv6].hlim == 64 - hops
    assert packet[IPv6].dst == final
    assert packet.src == source
    assert packet.dst == destination
    # Nothing else changes
    assert arrived[54:] == sent[54:]
    assert arrived[12:21] == sent[12:21]
    assert arrived[22:38] == sent[22:38]


def test_trimming_keeps_headers_and_says_so() -> None:
    of_write = write()
    whole = of_write.arrival(of_write.frame(0))
    cut = frames.trimmed(whole, of_write.trimmed_bytes, 16)
    assert len(cut) == of_write.trimmed_bytes == FABRIC.trim.mrc_bytes
    packet = Ether(cut)
    assert packet[IPv6].tc == 16 << 2 | 2
    assert packet[IPv6].plen == len(cut) - 54
    # The inner lengths tell the first size
    assert packet[IPv6].payload.plen == len(whole) - 54 - 40
    assert frames.key_of(cut) == frames.key_of(whole) == PacketKey(7, 0)
    assert cut[20:] == whole[20 : len(cut)]


def test_a_frame_that_is_shorter_than_the_trim_size_keeps_its_size() -> None:
    of_write = write(payload_bytes=1)
    assert of_write.trimmed_bytes == of_write.frame_bytes < FABRIC.trim.mrc_bytes
    assert len(of_write.frame(0)) == of_write.frame_bytes


@given(st.integers(0, 63), st.integers(0, 3))
def test_dscp_and_ecn_are_read_where_they_are_written(dscp: int, ecn: int) -> None:
    of_write = write(packets=1, payload_bytes=8)
    frame = bytearray(frames.trimmed(of_write.frame(0), of_write.trimmed_bytes, dscp))
    frame[15] = frame[15] & 0xCF | ecn << 4
    assert frames.dscp_of(bytes(frame)) == dscp
    assert frames.ecn_of(bytes(frame)) == ecn
    assert frames.ecn_of(frames.without_ecn(bytes(frame))) == 0
    assert frames.dscp_of(frames.without_ecn(bytes(frame))) == dscp


def test_payloads_tell_packets_apart() -> None:
    payloads = {frames.payload(qp, number, 256) for qp in range(20) for number in range(20)}
    assert len(payloads) == 400


@given(st.binary(max_size=200))
def test_no_bytes_upset_the_reader(frame: bytes) -> None:
    key = frames.key_of(frame)
    assert key is None or len(frame) >= 134


def test_first_difference_names_the_byte() -> None:
    assert frames.first_difference(b"abc", b"abd") == "byte 2 is 0x64 instead of 0x63"
    assert frames.first_difference(b"abc", b"ab") == "2 bytes long instead of 3"
