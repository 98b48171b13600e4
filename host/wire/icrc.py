"""The invariant CRC of RoCEv2 over IPv6 (IBTA annex A17).

CRC-32 (the Ethernet polynomial) over 8 bytes of ones in place of the LRH, then the packet from its
IPv6 header to the last byte before the ICRC, with what may change on the way replaced by ones:
traffic class, flow label, hop limit, UDP checksum, BTH byte 4. With an outer IPv6 header it covers
the inner packet. On the wire the CRC's least significant byte comes first.

CRCs run on: `crc32(b, crc32(a)) == crc32(a + b)`. So the CRC of what is the same in all packets of
a path is computed once and the rest continued from it.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from host.wire.constants import IPV6_BYTES, UDP_BYTES

_ONES = b"\xff"
_LRH = _ONES * 8
_FIRST_WORD = b"\x6f\xff\xff\xff"  # version 6, traffic class and flow label masked
_HOP_LIMIT_OFFSET = 7
_UDP_CHECKSUM_OFFSET = 6
#: Of the byte that is masked
BTH_VARIANT_OFFSET = 4

#: The ICRC's bytes
ICRC = Struct("<I")


def icrc_of_ip_and_udp(headers: bytes) -> int:
    """The CRC up to the BTH: over the IPv6 and UDP header, 48 bytes as they are on the wire."""
    masked = (
        _LRH
        + _FIRST_WORD
        + headers[4:_HOP_LIMIT_OFFSET]
        + _ONES
        + headers[_HOP_LIMIT_OFFSET + 1 : IPV6_BYTES + _UDP_CHECKSUM_OFFSET]
        + _ONES * 2
    )
    return crc32(masked)


def icrc_of_transport(transport: bytes | memoryview, crc: int) -> int:
    """The CRC continued from `icrc_of_ip_and_udp` over BTH and all that is behind it."""
    crc = crc32(bytes(transport[:BTH_VARIANT_OFFSET]) + _ONES, crc)
    return crc32(transport[BTH_VARIANT_OFFSET + 1 :], crc)


def icrc(packet: bytes) -> bytes:
    """The four bytes of the ICRC of a packet that starts at its (inner) IPv6 header.

    `packet` ends before the ICRC; the IPv6 and UDP lengths in it include the ICRC.
    """
    split = IPV6_BYTES + UDP_BYTES
    return ICRC.pack(icrc_of_transport(packet[split:], icrc_of_ip_and_udp(packet[:split])))
