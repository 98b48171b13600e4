"""What the sender's kernel left for hardware to do, done in software: checksums and segmentation.

Between network namespaces no hardware ever finishes a packet: a TCP or UDP sender hands over
frames with a partial checksum, and up to 64 KiB of payload in one "super-frame". A raw socket with
PACKET_VNET_HDR tells what is missing in a `struct virtio_net_hdr` (virtio 1.2, section 5.1.6); the
functions here turn such a frame into the frames that would be on a wire. Pure functions of bytes.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

VNET_HEADER_BYTES: Final = 10
_VNET_HEADER = struct.Struct("=BBHHHH")  # flags, gso_type, hdr_len, gso_size, csum_start, offset

_F_NEEDS_CSUM: Final = 1
_GSO_NONE: Final = 0
_GSO_TCPV4: Final = 1
_GSO_TCPV6: Final = 4
_GSO_UDP_L4: Final = 5
_GSO_ECN: Final = 0x80

UNFINISHED_MASK: Final = int.from_bytes(b"\x01\xff\x00\x00", sys.byteorder)
"""Mask over the header's first 32-bit word in host order: not 0 = there is something to do."""

_SCTP_CHECKSUM_OFFSET: Final = 8
_UDP_CHECKSUM_OFFSET: Final = 6

_ETHERTYPE_IPV4: Final = 0x0800
_ETHERTYPE_IPV6: Final = 0x86DD
_ETHERTYPES_VLAN: Final = frozenset((0x8100, 0x88A8, 0x9100))
_PROTOCOL_IPIP: Final = 4
_PROTOCOL_IPV6: Final = 41
_IPV6_EXTENSIONS: Final = frozenset((0, 43, 60))  # hop-by-hop, routing (SRH), destination options
_IPV6_FRAGMENT: Final = 44

_TCP_FIN_PSH: Final = 0x09
_TCP_CWR: Final = 0x80


class UnsupportedOffload(ValueError):
    """A super-frame of a kind that cannot be taken apart here."""


def finish(vnet_header: bytes, frame: bytes) -> list[bytes]:
    """Return the frames, checksums complete, that `frame` stands for.

    Args:
        vnet_header: the 10 bytes of `struct virtio_net_hdr` in host byte order.
        frame: the frame as the socket gave it, VLAN tags not yet reinserted.

    Raises:
        UnsupportedOffload: neither TCP nor UDP segmentation, or headers that do not add up.
    """
    flags, gso_type, _, gso_size, start, offset = _VNET_HEADER.unpack(vnet_header)
    kind = gso_type & ~_GSO_ECN
    if kind == _GSO_NONE:
        return [complete_checksum(frame, start, offset) if flags & _F_NEEDS_CSUM else frame]
    if not flags & _F_NEEDS_CSUM or gso_size == 0:
        raise UnsupportedOffload("super-frame without a partial checksum or a segment size")
    if kind in (_GSO_TCPV4, _GSO_TCPV6):
        return _segment_tcp(frame, start, gso_size)
    if kind == _GSO_UDP_L4:
        return _segment_udp(frame, start, gso_size)
    raise UnsupportedOffload(f"super-frame of virtio GSO type {kind}")


def insert_vlan(frame: bytes, tpid: int, tci: int) -> bytes:
    """Put back a VLAN tag that the kernel took out of a frame (IEEE 802.1Q)."""
    return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]


def complete_checksum(frame: bytes, start: int, offset: int) -> bytes:
    """Fill in a checksum whose field holds the sum over the pseudo-header only.

    Args:
        frame: the frame.
        start: where the checksummed part begins; it goes to the frame's end.
        offset: where, from there, the checksum stands. 8 is SCTP's, a CRC32c; all others are
            Internet checksums (RFC 1071).
    """
    at = start + offset
    if offset == _SCTP_CHECKSUM_OFFSET:
        covered = bytearray(frame[start:])
        covered[offset : offset + 4] = bytes(4)
        return frame[:at] + crc32c(bytes(covered)).to_bytes(4, "little") + frame[at + 4 :]
    if at + 2 > len(frame):
        raise UnsupportedOffload(f"checksum at byte {at} of a frame of {len(frame)}")
    return frame[:at] + _checksum(frame[start:]).to_bytes(2, "big") + frame[at + 2 :]


def _checksum(data: bytes) -> int:
    """Return the Internet checksum, 0xFFFF for 0 as UDP demands and TCP allows."""
    # A number's value modulo 0xFFFF is the one's complement sum of its 16-bit digits.
    padded = data if len(data) % 2 == 0 else data + b"\0"
    return 0xFFFF - int.from_bytes(padded, "big") % 0xFFFF


def _segment_tcp(frame: bytes, start: int, gso_size: int) -> list[bytes]:
    """Cut TCP (RFC 9293) into segments of `gso_size` bytes of payload."""
    if start + 20 > len(frame):
        raise UnsupportedOffload("super-frame shorter than its TCP header")
    header_end = start + (frame[start + 12] >> 4) * 4
    if not start + 20 <= header_end < len(frame):
        raise UnsupportedOffload("super-frame with a bad TCP data offset")
    (sequence,) = struct.unpack_from("!I", frame, start + 4)
    flags = frame[start + 13]
    segments = []
    starts = range(header_end, len(frame), gso_size)
    for index, at in enumerate(starts):
        payload = frame[at : at + gso_size]
        headers = bytearray(frame[:header_end])
        struct.pack_into("!I", headers, start + 4, (sequence + at - header_end) & 0xFFFFFFFF)
        kept = flags
        if index != len(starts) - 1:
            kept &= ~_TCP_FIN_PSH
        if index:
            kept &= ~_TCP_CWR  # the first segment alone tells (RFC 3168, section 6.1.2)
        headers[start + 13] = kept
        segments.append(_close_segment(headers, payload, start, 16, len(frame), index))
    return segments


def _segment_udp(frame: bytes, start: int, gso_size: int) -> list[bytes]:
    """Cut UDP into datagrams of `gso_size` bytes of payload each (UDP_SEGMENT)."""
    header_end = start + 8
    if header_end >= len(frame):
        raise UnsupportedOffload("super-frame shorter than its UDP header")
    segments = []
    for index, at in enumerate(range(header_end, len(frame), gso_size)):
        payload = frame[at : at + gso_size]
        headers = bytearray(frame[:header_end])
        struct.pack_into("!H", headers, start + 4, 8 + len(payload))
        segments.append(
            _close_segment(headers, payload, start, _UDP_CHECKSUM_OFFSET, len(frame), index)
        )
    return segments


def _close_segment(
    headers: bytearray, payload: bytes, start: int, offset: int, total: int, index: int
) -> bytes:
    """Adapt a segment's IP headers to its length and number, and complete its checksum."""
    _adapt_ip(headers, start, len(headers) + len(payload), index)
    # The partial checksum is the pseudo-header's sum with the length of the whole super-frame.
    (pseudo,) = struct.unpack_from("!H", headers, start + offset)
    length = len(headers) + len(payload) - start
    pseudo = (pseudo - (total - start) + length) % 0xFFFF
    struct.pack_into("!H", headers, start + offset, pseudo)
    return complete_checksum(bytes(headers) + payload, start, offset)


def _adapt_ip(headers: bytearray, transport: int, size: int, index: int) -> None:
    """Set length, identification and checksum of every IP header in front of `transport`."""
    at = 12
    (kind,) = struct.unpack_from("!H", headers, at)
    while kind in _ETHERTYPES_VLAN:
        at += 4
        (kind,) = struct.unpack_from("!H", headers, at)
    at += 2
    if kind == _ETHERTYPE_IPV4:
        version = _PROTOCOL_IPIP
    elif kind == _ETHERTYPE_IPV6:
        version = _PROTOCOL_IPV6
    else:
        raise UnsupportedOffload(f"super-frame of ethertype {kind:#06x}")
    while at < transport:
        if version == _PROTOCOL_IPIP:
            end = at + (headers[at] & 0x0F) * 4
            if end > transport:
                break
            (identification,) = struct.unpack_from("!H", headers, at + 4)
            struct.pack_into("!HH", headers, at + 2, size - at, (identification + index) & 0xFFFF)
            struct.pack_into("!H", headers, at + 10, 0)
            struct.pack_into("!H", headers, at + 10, _header_checksum(headers[at:end]))
            version = headers[at + 9]
            at = end
        elif version == _PROTOCOL_IPV6:
            if at + 40 > transport:
                break
            struct.pack_into("!H", headers, at + 4, size - at - 40)
            version = headers[at + 6]
            at += 40
        elif version in _IPV6_EXTENSIONS:
            version, at = headers[at], at + 8 + headers[at + 1] * 8
        elif version == _IPV6_FRAGMENT:
            version, at = headers[at], at + 8
        else:
            raise UnsupportedOffload(f"super-frame with IP protocol {version} as a tunnel")
    if at != transport:
        raise UnsupportedOffload("super-frame whose headers do not end at its transport header")


def _header_checksum(header: bytearray) -> int:
    """Return an IPv4 header's checksum; 0xFFFF and 0 are both right, 0 is what kernels write."""
    return _checksum(bytes(header)) % 0xFFFF


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    """Return the CRC32c of RFC 9260, appendix A."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _CRC32C_TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
