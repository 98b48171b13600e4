"""MRC write packets built with scapy, and what becomes of them on their way.

    Ethernet | outer IPv6 (uSID carrier) | inner IPv6 | UDP | BTH | METH | RETH | payload | ICRC

The payload of a write is a keystream of its QP and position, so that a byte that is lost,
changed or at another packet's place shows. Everything a frame should look like on arrival
follows from the path: `arrival` says it byte for byte.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address
from typing import Final

from scapy.contrib.roce import BTH
from scapy.fields import IntField, ShortField, XIntField, XLongField
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from topologies.addressing import Path, mac_text, nic_mac, switch_mac
from topologies.model import Fabric

# MRC 1.0 opcodes of RDMA WRITE
WRITE_FIRST: Final = 0xC6
WRITE_MIDDLE: Final = 0xC7
WRITE_LAST: Final = 0xC8
WRITE_ONLY: Final = 0xCA

NEXT_HEADER_IPV6: Final = 41
HOP_LIMIT: Final = 64
ECT_0: Final = 2  # RFC 3168, section 5
CE: Final = 3

_R_KEY: Final = 0x4D52_4300
_VIRTUAL_ADDRESS: Final = 0x7F00_0000_0000
_PSN_MASK: Final = (1 << 24) - 1

# Offsets within a frame that has no SRH
_OUTER: Final = 14
_PAYLOAD_LENGTH: Final = _OUTER + 4
_NEXT_HEADER: Final = _OUTER + 6
_HOPS: Final = _OUTER + 7
_OUTER_DESTINATION: Final = _OUTER + 24
_INNER: Final = _OUTER + 40
_BTH: Final = _INNER + 40 + 8
_DESTINATION_QP: Final = _BTH + 5
_PSN: Final = _BTH + 9
_HEADERS_END: Final = _BTH + 12 + 4 + 16


class METH(Packet):  # type: ignore[misc]
    """MRC 1.0 message extension header."""

    name = "METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]  # noqa: RUF012


class RETH(Packet):  # type: ignore[misc]
    """RDMA extended transport header; every MRC data packet has one."""

    name = "RETH"
    fields_desc = [  # noqa: RUF012
        XLongField("virtual_address", 0),
        XIntField("r_key", 0),
        IntField("dma_length", 0),
    ]


@dataclass(frozen=True, slots=True, order=True)
class PacketKey:
    """Names a packet of a run: the QP (one per flow) and the packet's number in it."""

    qp: int
    psn: int


@dataclass(frozen=True)
class Write:
    """One RDMA write of `packets` packets on a path, as QP number `qp` with PSNs from 0."""

    fabric: Fabric
    path: Path
    qp: int
    packets: int
    payload_bytes: int

    @property
    def frame_bytes(self) -> int:
        """Size of each of its frames."""
        return _HEADERS_END + self.payload_bytes + 4

    @property
    def trimmed_bytes(self) -> int:
        """Size of a frame once a switch has cut it to its headers."""
        return min(self.frame_bytes, self.fabric.trim.mrc_bytes)

    def opcode(self, number: int) -> int:
        """Of packet `number` of the write."""
        if self.packets == 1:
            return WRITE_ONLY
        if number == 0:
            return WRITE_FIRST
        return WRITE_LAST if number == self.packets - 1 else WRITE_MIDDLE

    @cached_property
    def outer(self) -> bytes:
        """Ethernet and outer IPv6 header of every frame of the write, as its source sends it."""
        fabric, path, plan = self.fabric, self.path, self.fabric.addresses
        nic = nic_mac(path.plane, path.source)
        switch = switch_mac(path.switches[0], path.source.downlink)
        header = IPv6(
            src=str(IPv6Address(plan.host_address(path.source))),
            dst=str(IPv6Address(plan.carrier_of_path(path))),
            fl=path.ev >> 16,
            hlim=HOP_LIMIT,
            tc=fabric.traffic.trimmable << 2 | ECT_0,
            nh=NEXT_HEADER_IPV6,
            plen=self.frame_bytes - _INNER,
        )
        return bytes(Ether(src=mac_text(nic), dst=mac_text(switch)) / header)

    def inner(self, number: int) -> bytes:
        """The inner packet number `number`, ICRC included."""
        fabric, path, plan = self.fabric, self.path, self.fabric.addresses
        packet = (
            IPv6(
                src=str(IPv6Address(plan.host_address(path.source))),
                dst=str(IPv6Address(plan.host_address(path.destination))),
                # The EV's high half; the UDP source port carries its low half
                fl=path.ev >> 16,
                hlim=HOP_LIMIT,
                tc=fabric.traffic.trimmable << 2 | ECT_0,
            )
            / UDP(sport=path.ev & 0xFFFF, dport=fabric.udp_port, chksum=0)
            / BTH(opcode=self.opcode(number), dqpn=self.qp, psn=number & _PSN_MASK, icrc=0)
            / METH(msn=0)
            / RETH(
                virtual_address=_VIRTUAL_ADDRESS + number * self.payload_bytes,
                r_key=_R_KEY,
                dma_length=self.packets * self.payload_bytes,
            )
            / Raw(payload(self.qp, number, self.payload_bytes))
        )
        without_icrc = bytes(packet)[:-4]
        return without_icrc + icrc(without_icrc)

    def frame(self, number: int) -> bytes:
        """Packet `number` as the source NIC sends it."""
        return self.outer + self.inner(number)

    def arrival(self, sent: bytes) -> bytes:
        """What `sent`, a frame of this write, must look like at the destination NIC, untrimmed."""
        path = self.path
        nic = nic_mac(path.plane, path.destination)
        switch = switch_mac(path.switches[-1], path.destination.downlink)
        frame = bytearray(sent)
        frame[0:12] = nic.to_bytes(6) + switch.to_bytes(6)
        frame[_HOPS] -= len(path.switches)
        # Each switch shifts its own uSID out; the last leaves the downlink's at the front
        final = self.fabric.addresses.carrier(path.usids[-1:])
        frame[_OUTER_DESTINATION : _OUTER_DESTINATION + 16] = final.to_bytes(16)
        return bytes(frame)


def icrc(inner: bytes) -> bytes:
    """ICRC of an inner packet that ends where the ICRC belongs (IBTA annex A17, over IPv6).

    scapy computes the same, and takes longer for it than for the packet.
    """
    masked = bytearray(inner)
    masked[0] |= 0x0F  # traffic class and flow label
    masked[1:4] = b"\xff\xff\xff"
    masked[7] = 0xFF  # hop limit
    masked[46:48] = b"\xff\xff"  # UDP checksum
    masked[52] = 0xFF  # BTH byte 4
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def trimmed(arrival: bytes, size_bytes: int, dscp: int) -> bytes:
    """A frame of `arrival`'s content after a switch has cut it to `size_bytes`."""
    frame = bytearray(arrival[:size_bytes])
    ecn = frame[_OUTER + 1] >> 4 & 3
    frame[_OUTER] = 6 << 4 | dscp >> 2
    frame[_OUTER + 1] = (dscp & 3) << 6 | ecn << 4 | frame[_OUTER + 1] & 0x0F
    struct.pack_into("!H", frame, _PAYLOAD_LENGTH, size_bytes - _OUTER - 40)
    return bytes(frame)


def payload(qp: int, number: int, size_bytes: int) -> bytes:
    """The payload of a packet: bytes that no other packet of the run has."""
    return hashlib.shake_128(struct.pack("!II", qp, number)).digest(size_bytes)


def key_of(frame: bytes) -> PacketKey | None:
    """Which packet of the run a frame is; None where it is none."""
    if len(frame) < _HEADERS_END or frame[12:14] != b"\x86\xdd":
        return None
    if frame[_NEXT_HEADER] != NEXT_HEADER_IPV6:
        return None
    return PacketKey(
        int.from_bytes(frame[_DESTINATION_QP : _DESTINATION_QP + 3]),
        int.from_bytes(frame[_PSN : _PSN + 3]),
    )


def dscp_of(frame: bytes) -> int:
    """DSCP of the outer header."""
    return int((frame[_OUTER] & 0x0F) << 2 | frame[_OUTER + 1] >> 6)


def ecn_of(frame: bytes) -> int:
    """ECN field of the outer header."""
    return int(frame[_OUTER + 1] >> 4 & 3)


def without_ecn(frame: bytes) -> bytes:
    """The frame with the outer ECN field cleared: a switch may set it to CE."""
    second = frame[_OUTER + 1] & 0xCF
    return frame[: _OUTER + 1] + bytes((second,)) + frame[_OUTER + 2 :]


def first_difference(expected: bytes, found: bytes) -> str:
    """Where two frames differ first, in words."""
    if len(expected) != len(found):
        return f"{len(found)} bytes long instead of {len(expected)}"
    for offset, (want, have) in enumerate(zip(expected, found, strict=True)):
        if want != have:
            return f"byte {offset} is {have:#04x} instead of {want:#04x}"
    return "the same"
