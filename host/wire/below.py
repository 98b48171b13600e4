"""Decoding what is below the transport: everything up to the BTH."""

from __future__ import annotations

from typing import NamedTuple

from host.wire.constants import (
    BTH_BYTES,
    ETHERNET_BYTES,
    ETHERTYPE_IPV6,
    ICRC_BYTES,
    IP_VERSION_6,
    IPV6_BYTES,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    ROUTING_TYPE_SRH,
    SEGMENT_BYTES,
    SRH_FIXED_BYTES,
    UDP_BYTES,
)
from host.wire.envelope import Envelope, Ethernet, Ipv6, Srh, Udp
from host.wire.errors import (
    FieldError,
    LengthError,
    NotMrcError,
    TruncatedError,
    UdpChecksumError,
    WrongDestinationError,
)
from host.wire.icrc import icrc_of_ip_and_udp
from host.wire.ip import IPV6, SRH, UDP, udp_checksum_is_right

#: Of a frame without an outer header, up to the BTH; and of one with, but without an SRH
PLAIN_BYTES = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES
ENCAPSULATED_BYTES = PLAIN_BYTES + IPV6_BYTES
#: Of the outermost IPv6 header, in the frame
NEXT_HEADER_OFFSET = ETHERNET_BYTES + 6

_UDP_MIN_BYTES = UDP_BYTES + BTH_BYTES + ICRC_BYTES


class Below(NamedTuple):
    """What is below the transport, checked."""

    envelope: Envelope
    bth_offset: int
    #: Of the packet in the frame; behind it there may be Ethernet padding
    end: int
    udp_length: int
    trimmed: bool
    #: Continued over the transport part
    icrc: int


def decode_below(
    frame: bytes, own_address: int | None, udp_port: int, trimmed_dscps: tuple[int, ...]
) -> Below:
    """Everything up to the BTH, checked in the order of the wire. Raises a DecodeError."""
    _need(frame, "Ethernet", 0, ETHERNET_BYTES)
    ethertype = int.from_bytes(frame[12:14], "big")
    if ethertype != ETHERTYPE_IPV6:
        raise NotMrcError("Ethernet", 12, f"EtherType {ethertype:#06x} is not IPv6's, 0x86dd")

    offset = ETHERNET_BYTES
    _need(frame, "IPv6", offset, offset + IPV6_BYTES)
    plain = frame[NEXT_HEADER_OFFSET] == NEXT_HEADER_UDP
    outermost_name = "IPv6" if plain else "outer IPv6"
    outermost, payload_length, next_header = _ipv6(frame, outermost_name, offset)
    end = offset + IPV6_BYTES + payload_length
    srh = None
    if plain:
        outer, inner, inner_name, inner_offset = None, outermost, "IPv6", offset
    else:
        outer, inner_name = outermost, "inner IPv6"
        inner_offset = offset + IPV6_BYTES
        if next_header == NEXT_HEADER_ROUTING:
            srh, next_header = _srh(frame, inner_offset)
            inner_offset += srh.size_bytes
        if next_header != NEXT_HEADER_IPV6:
            at = NEXT_HEADER_OFFSET if srh is None else ETHERNET_BYTES + IPV6_BYTES
            raise NotMrcError(
                outermost_name if srh is None else "SRH",
                at,
                f"next header {next_header} is neither IPv6, {NEXT_HEADER_IPV6}, nor "
                f"{f'a routing header, {NEXT_HEADER_ROUTING}' if srh is None else 'UDP'}",
            )
    least_bytes = inner_offset + IPV6_BYTES + UDP_BYTES - offset - IPV6_BYTES
    if payload_length < least_bytes:
        raise LengthError(
            outermost_name,
            offset + 4,
            f"payload length {payload_length} is less than the {least_bytes} bytes of headers",
        )
    if end > len(frame):
        raise TruncatedError(
            outermost_name,
            offset,
            f"payload length {payload_length} reaches to byte {end}, "
            f"the frame has {len(frame)} bytes",
        )
    if not plain:
        inner, payload_length, next_header = _ipv6(frame, inner_name, inner_offset)
        if next_header != NEXT_HEADER_UDP:
            raise NotMrcError(
                inner_name,
                inner_offset + 6,
                f"next header {next_header} is not UDP, {NEXT_HEADER_UDP}",
            )
    if own_address is not None and inner.dst != own_address:
        raise WrongDestinationError(
            inner_name, inner_offset + 24, "the destination address is another NIC's"
        )

    udp_offset = inner_offset + IPV6_BYTES
    src_port, dst_port, udp_length, checksum = UDP.unpack_from(frame, udp_offset)
    if dst_port != udp_port:
        raise NotMrcError("UDP", udp_offset + 2, f"destination port {dst_port} is not {udp_port}")
    if udp_length < _UDP_MIN_BYTES:
        raise LengthError(
            "UDP",
            udp_offset + 4,
            f"length {udp_length} has no room for BTH and ICRC, {_UDP_MIN_BYTES}",
        )
    if not plain and payload_length != udp_length:
        raise LengthError(
            inner_name,
            inner_offset + 4,
            f"payload length {payload_length} is not the UDP length, {udp_length}",
        )
    missing_bytes = udp_offset + udp_length - end
    trimmed = missing_bytes > 0
    if missing_bytes < 0:
        raise LengthError(
            "UDP",
            udp_offset + 4,
            f"length {udp_length} is {-missing_bytes} bytes less than what there is",
        )
    if trimmed and outermost.dscp not in trimmed_dscps:
        raise TruncatedError(
            "UDP",
            udp_offset,
            f"length {udp_length} promises {missing_bytes} bytes more than there are, "
            f"and DSCP {outermost.dscp} does not say trimmed",
        )
    if checksum and not trimmed:
        addresses = frame[inner_offset + 8 : udp_offset]
        if not udp_checksum_is_right(addresses, frame[udp_offset:end]):
            raise UdpChecksumError("UDP", udp_offset + 6, f"{checksum:#06x} is wrong")
    envelope = Envelope(
        Ethernet(int.from_bytes(frame[:6], "big"), int.from_bytes(frame[6:12], "big")),
        outer,
        inner,
        Udp(src_port, dst_port, checksum),
        srh,
    )
    bth_offset = udp_offset + UDP_BYTES
    icrc = icrc_of_ip_and_udp(frame[inner_offset:bth_offset])
    return Below(envelope, bth_offset, end, udp_length, trimmed, icrc)


def _need(frame: bytes, header: str, offset: int, end: int) -> None:
    if len(frame) < end:
        raise TruncatedError(
            header,
            offset,
            f"{end - offset} bytes are needed, {max(len(frame) - offset, 0)} are there",
        )


def _ipv6(frame: bytes, name: str, offset: int) -> tuple[Ipv6, int, int]:
    """(header, payload length, next header) of an IPv6 header that is all there."""
    first_word, payload_length, next_header, hop_limit, src, dst = IPV6.unpack_from(frame, offset)
    version = first_word >> 28
    if version != IP_VERSION_6:
        raise FieldError(name, offset, f"version {version} must be {IP_VERSION_6}")
    header = Ipv6(
        src=int.from_bytes(src, "big"),
        dst=int.from_bytes(dst, "big"),
        traffic_class=first_word >> 20 & 0xFF,
        flow_label=first_word & 0xFFFFF,
        hop_limit=hop_limit,
    )
    return header, payload_length, next_header


def _srh(frame: bytes, offset: int) -> tuple[Srh, int]:
    """(SRH, next header); RFC 8754, section 2."""
    _need(frame, "SRH", offset, offset + SRH_FIXED_BYTES)
    next_header, ext_len, routing_type, segments_left, last_entry, flags, tag = SRH.unpack_from(
        frame, offset
    )
    if routing_type != ROUTING_TYPE_SRH:
        raise NotMrcError(
            "SRH", offset + 2, f"routing type {routing_type} is not the SRH's, {ROUTING_TYPE_SRH}"
        )
    segments_offset = offset + SRH_FIXED_BYTES
    end = segments_offset + 8 * ext_len
    tlvs_offset = segments_offset + SEGMENT_BYTES * (last_entry + 1)
    if tlvs_offset > end:
        raise LengthError(
            "SRH", offset + 1, f"length {ext_len} has no room for {last_entry + 1} segments"
        )
    if segments_left > last_entry + 1:
        raise FieldError(
            "SRH", offset + 3, f"segments left {segments_left} is more than {last_entry + 1}"
        )
    _need(frame, "SRH", offset, end)
    segments = tuple(
        int.from_bytes(frame[at : at + SEGMENT_BYTES], "big")
        for at in range(segments_offset, tlvs_offset, SEGMENT_BYTES)
    )
    return Srh(segments, segments_left, flags, tag, frame[tlvs_offset:end]), next_header
