"""The bytes of Ethernet, IPv6, SRH and UDP headers, and the UDP checksum over IPv6."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from host.wire.constants import (
    ETHERTYPE_IPV6,
    IP_VERSION_6,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_UDP,
    ROUTING_TYPE_SRH,
    SEGMENT_BYTES,
    SRH_FIXED_BYTES,
)
from host.wire.envelope import Ethernet, Ipv6, Srh, Udp
from host.wire.errors import EncodeError

#: Version, traffic class and flow label; payload length; next header; hop limit; addresses
IPV6 = Struct("!IHBB16s16s")
UDP = Struct("!HHHH")
#: Next header, length in 8 bytes without the first 8, type, segments left, last entry, flags, tag
SRH = Struct("!BBBBBBH")

_MAC_BYTES = 6
_ADDRESS_BYTES = 16
_SRH_MAX_BYTES = SRH_FIXED_BYTES + 0xFF * 8
_UDP_CHECKSUM_OFFSET = 6


def _field(header: str, field: str, value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise EncodeError(header, field, value, f"0..{(1 << bits) - 1}")
    return value


def _bytes(header: str, field: str, value: int, size_bytes: int) -> bytes:
    return _field(header, field, value, 8 * size_bytes).to_bytes(size_bytes, "big")


def ethernet_bytes(ethernet: Ethernet) -> bytes:
    """The 14 bytes of the header. Raises EncodeError."""
    return (
        _bytes("Ethernet", "dst", ethernet.dst, _MAC_BYTES)
        + _bytes("Ethernet", "src", ethernet.src, _MAC_BYTES)
        + ETHERTYPE_IPV6.to_bytes(2, "big")
    )


def ipv6_bytes(name: str, ipv6: Ipv6, payload_length: int, next_header: int) -> bytes:
    """The 40 bytes of the header; `name` is what errors call it. Raises EncodeError."""
    return IPV6.pack(
        IP_VERSION_6 << 28
        | _field(name, "traffic_class", ipv6.traffic_class, 8) << 20
        | _field(name, "flow_label", ipv6.flow_label, 20),
        _field(name, "payload_length", payload_length, 16),
        next_header,
        _field(name, "hop_limit", ipv6.hop_limit, 8),
        _bytes(name, "src", ipv6.src, _ADDRESS_BYTES),
        _bytes(name, "dst", ipv6.dst, _ADDRESS_BYTES),
    )


def srh_bytes(srh: Srh) -> bytes:
    """The bytes of an SRH in front of an IPv6 header (RFC 8754, section 2). Raises EncodeError."""
    last_entry = len(srh.segments) - 1
    if last_entry < 0:
        raise EncodeError("SRH", "segments", srh.segments, "one segment or more")
    if not 0 <= srh.segments_left <= last_entry + 1:
        raise EncodeError("SRH", "segments_left", srh.segments_left, f"0..{last_entry + 1}")
    if len(srh.tlvs) % 8 or srh.size_bytes > _SRH_MAX_BYTES:
        raise EncodeError(
            "SRH", "tlvs", f"{len(srh.tlvs)} bytes", "a multiple of 8 that fits behind the segments"
        )
    fixed = SRH.pack(
        NEXT_HEADER_IPV6,
        (srh.size_bytes - SRH_FIXED_BYTES) // 8,
        ROUTING_TYPE_SRH,
        srh.segments_left,
        last_entry,
        _field("SRH", "flags", srh.flags, 8),
        _field("SRH", "tag", srh.tag, 16),
    )
    segments = (_bytes("SRH", "segments", address, SEGMENT_BYTES) for address in srh.segments)
    return fixed + b"".join(segments) + srh.tlvs


def udp_bytes(udp: Udp, length: int, checksum: int) -> bytes:
    """The 8 bytes of the header. Raises EncodeError."""
    try:
        return UDP.pack(udp.src_port, udp.dst_port, length, checksum)
    except StructError:
        for field, value in (*udp._asdict().items(), ("length", length)):
            _field("UDP", field, value, 16)
        raise


def _ones_complement_sum(addresses: bytes, datagram: bytes) -> int:
    # 2^16 is 1 modulo 2^16 - 1, so the remainder of a number is the sum of its 16-bit words
    total = int.from_bytes(addresses, "big") + len(datagram) + NEXT_HEADER_UDP
    if len(datagram) % 2:
        datagram += b"\0"
    return (total + int.from_bytes(datagram, "big")) % 0xFFFF


def udp_checksum(addresses: bytes, datagram: bytes) -> int:
    """The checksum of a UDP datagram (RFC 8200, section 8.1), never 0.

    `addresses` are the IPv6 source and destination address as they are on the wire; `datagram` is
    the UDP header, whatever its checksum field says, and the payload.
    """
    cleared = datagram[:_UDP_CHECKSUM_OFFSET] + b"\0\0" + datagram[_UDP_CHECKSUM_OFFSET + 2 :]
    return 0xFFFF - _ones_complement_sum(addresses, cleared)


def udp_checksum_is_right(addresses: bytes, datagram: bytes) -> bool:
    """Whether a datagram with a checksum other than 0 has the right one."""
    return _ones_complement_sum(addresses, datagram) == 0
