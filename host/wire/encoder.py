"""Packets to frames.

`encode` takes any packet. Whoever sends many packets over one path makes a `FrameTemplate` of
their common envelope: what is the same in all of them is then built once, and the ICRC continued
from its CRC.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from zlib import crc32

from host.wire.constants import (
    BTH_BYTES,
    ICRC_BYTES,
    IMMEDIATE_OPCODES,
    IPV6_BYTES,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    P_KEY_DEFAULT,
    PAYLOAD_ALIGNMENT_BYTES,
    UDP_BYTES,
    WRITE_OPCODES,
    Opcode,
)
from host.wire.envelope import Envelope
from host.wire.errors import EncodeError
from host.wire.headers import BTH, METH, RETH, SETH, TSETH, CCState, ImmDt
from host.wire.icrc import BTH_VARIANT_OFFSET, ICRC, icrc_of_ip_and_udp, icrc_of_transport
from host.wire.ip import (
    ethernet_bytes,
    ipv6_bytes,
    srh_bytes,
    udp_bytes,
    udp_checksum,
)
from host.wire.layouts import check
from host.wire.packet import (
    Ack,
    EndpointRequest,
    EndpointResponse,
    Nack,
    Packet,
    Payload,
    Probe,
    Sack,
    Trimmed,
    Write,
)

# The hot packets from BTH byte 5 on; the bytes before it are in a template's starts.
# Destination QP (8 + 16 bits), flags and PSN, then the extension headers.
_WRITE = Struct("!BHIHHQII")
_WRITE_TS = Struct("!BHIHHHHQII")
_SACK = Struct("!BHIHhIHHIBBhQHHI")

_BTH_START = Struct("!BBHB")
_ICRC_PACK = ICRC.pack
_WRITE_BYTES = BTH_VARIANT_OFFSET + 1 + _WRITE.size
_WRITE_TS_BYTES = BTH_VARIANT_OFFSET + 1 + _WRITE_TS.size
_SACK_BYTES = BTH_VARIANT_OFFSET + 1 + _SACK.size

_PADDING = (b"", b"\0", b"\0\0", b"\0\0\0")
_PAD_MASK = PAYLOAD_ALIGNMENT_BYTES - 1
_FLAG_ACK_REQUEST = 0x80000000
_FLAG_RTX = 0x20000000
_FLAG_TS = 0x10000000

#: How many lengths a template remembers; a message has three kinds of packet, seldom more
_MAX_STARTS = 32
_TEMPLATES = 1024


class FrameTemplate:
    """The frames of one envelope: one path, one traffic class.

    Raises EncodeError, here for a value of the envelope and in the methods for one of theirs.
    An envelope with a UDP checksum costs more: each frame's is computed.
    """

    __slots__ = ("_below", "_has_checksum", "_starts", "envelope")

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self._has_checksum = envelope.udp.checksum != 0
        # (length of the transport part, opcode, pad) in one number: the frame up to BTH byte 4,
        # and the ICRC up to there
        self._starts: dict[int, tuple[bytes, int]] = {}
        # The same, up to the BTH, by the length of the transport part
        self._below: dict[int, tuple[bytes, int]] = {0: _below_transport(envelope, 0)}

    def write(
        self,
        opcode: int,
        dest_qp: int,
        psn: int,
        rqmsn: int,
        msn: int,
        va: int,
        r_key: int,
        dma_length: int,
        payload: Payload,
        *,
        tx_timestamp: int | None = None,
        immdt: int | None = None,
        rtx: bool = False,
        ack_request: bool = False,
    ) -> bytes:
        """A data packet; with a TSETH if there is a timestamp. Opcode and `immdt` must agree."""
        payload_bytes = len(payload)
        pad = -payload_bytes & _PAD_MASK
        flags_and_psn = psn
        if ack_request:
            flags_and_psn |= _FLAG_ACK_REQUEST
        if rtx:
            flags_and_psn |= _FLAG_RTX
        try:
            if psn >> 24:
                raise StructError
            if tx_timestamp is None:
                transport_bytes = _WRITE_BYTES + payload_bytes + pad + ICRC_BYTES
                rest = _WRITE.pack(
                    dest_qp >> 16,
                    dest_qp & 0xFFFF,
                    flags_and_psn,
                    rqmsn,
                    msn,
                    va,
                    r_key,
                    dma_length,
                )
            else:
                transport_bytes = _WRITE_TS_BYTES + payload_bytes + pad + ICRC_BYTES
                rest = _WRITE_TS.pack(
                    dest_qp >> 16,
                    dest_qp & 0xFFFF,
                    flags_and_psn | _FLAG_TS,
                    rqmsn,
                    msn,
                    tx_timestamp,
                    1,
                    va,
                    r_key,
                    dma_length,
                )
            if immdt is not None:
                rest += immdt.to_bytes(4, "big")
                transport_bytes += 4
        except (StructError, OverflowError):
            check(BTH(opcode, dest_qp, psn, ack_request, rtx))
            check(METH(rqmsn, msn))
            check(RETH(va, r_key, dma_length))
            if tx_timestamp is not None:
                check(TSETH(tx_timestamp))
            if immdt is not None:
                check(ImmDt(immdt))
            raise
        start, crc = self._starts.get(transport_bytes << 16 | opcode << 8 | pad) or self._start(
            transport_bytes, opcode, pad
        )
        if self._has_checksum:
            return self._with_checksum(start, rest + payload + _PADDING[pad], crc)
        crc = crc32(payload, crc32(rest, crc))
        if pad:
            padding = _PADDING[pad]
            return b"".join((start, rest, payload, padding, _ICRC_PACK(crc32(padding, crc))))
        return b"".join((start, rest, payload, _ICRC_PACK(crc)))

    def sack(self, dest_qp: int, seth: SETH, cc_state: CCState) -> bytes:
        """A reliability SACK; BTH.PSN is its cack_psn."""
        (
            m,
            pr,
            ack_psn_offset,
            entropy,
            spdcid,
            dpdcid,
            cack_psn,
            mpr,
            sack_offset,
            sack_bitmap,
            cc_type,
            cc_flags,
        ) = seth
        tx_timestamp, ooo_count, restore_cwnd, rcv_cwnd_pen, rcvd_bytes = cc_state
        try:
            # What would spill into a neighbour instead of failing in pack
            if (
                cack_psn >> 24
                or m >> 2
                or (cc_type | cc_flags) >> 4
                or ooo_count >> 15
                or rcv_cwnd_pen >> 7
                or rcvd_bytes >> 24
            ):
                raise StructError
            rest = _SACK.pack(
                dest_qp >> 16,
                dest_qp & 0xFFFF,
                cack_psn,
                m << 5 | pr << 1,
                ack_psn_offset,
                entropy,
                spdcid,
                dpdcid,
                cack_psn,
                cc_type << 4 | cc_flags,
                mpr,
                sack_offset,
                sack_bitmap,
                tx_timestamp,
                ooo_count,
                restore_cwnd << 31 | rcv_cwnd_pen << 24 | rcvd_bytes,
            )
        except StructError:
            check(BTH(Opcode.RELIABILITY_SACK, dest_qp, cack_psn))
            check(seth)
            check(cc_state)
            raise
        transport_bytes = _SACK_BYTES + ICRC_BYTES
        start, crc = self._starts.get(
            transport_bytes << 16 | Opcode.RELIABILITY_SACK << 8
        ) or self._start(transport_bytes, Opcode.RELIABILITY_SACK, 0)
        if self._has_checksum:
            return self._with_checksum(start, rest, crc)
        return b"".join((start, rest, _ICRC_PACK(crc32(rest, crc))))

    def frame(self, transport: bytes) -> bytes:
        """The frame around BTH, extension headers and padded payload, ICRC appended.

        For control packets: `template.frame(bth.pack() + neth.pack())`.
        """
        transport_bytes = len(transport) + ICRC_BYTES
        below = self._below.get(transport_bytes)
        if below is None:
            below = _below_transport(self.envelope, transport_bytes)
            if len(self._below) >= _MAX_STARTS:
                self._below.clear()
            self._below[transport_bytes] = below
        icrc = _ICRC_PACK(icrc_of_transport(transport, below[1]))
        frame = b"".join((below[0], transport, icrc))
        return self._checksummed(frame) if self._has_checksum else frame

    def _start(self, transport_bytes: int, opcode: int, pad: int) -> tuple[bytes, int]:
        """The frame up to BTH byte 4, and the ICRC up to there, for the next time too."""
        below, crc = _below_transport(self.envelope, transport_bytes)
        bth = _BTH_START.pack(opcode, pad << 4, P_KEY_DEFAULT, 0)
        start = below + bth, icrc_of_transport(bth, crc)
        if len(self._starts) >= _MAX_STARTS:
            self._starts.clear()
        self._starts[transport_bytes << 16 | opcode << 8 | pad] = start
        return start

    def _with_checksum(self, start: bytes, rest: bytes, crc: int) -> bytes:
        return self._checksummed(start + rest + _ICRC_PACK(crc32(rest, crc)))

    def _checksummed(self, frame: bytes) -> bytes:
        udp_offset = self.envelope.bth_offset - UDP_BYTES
        addresses_offset = udp_offset - IPV6_BYTES + 8
        checksum = udp_checksum(frame[addresses_offset:udp_offset], frame[udp_offset:])
        return frame[: udp_offset + 6] + checksum.to_bytes(2, "big") + frame[udp_offset + 8 :]


def _below_transport(
    envelope: Envelope, transport_bytes: int, bytes_left: int | None = None, checksum: int = 0
) -> tuple[bytes, int]:
    """The frame up to the BTH and the ICRC up to there.

    `transport_bytes` is the length of BTH to ICRC; `bytes_left` how much of it a switch left, if
    it was trimmed: the outermost IPv6 header's length says that, those below keep theirs.
    """
    udp_length = UDP_BYTES + transport_bytes
    left = udp_length if bytes_left is None else UDP_BYTES + bytes_left
    udp = udp_bytes(envelope.udp, udp_length, checksum)
    if envelope.outer is None:
        outer = b""
        inner = ipv6_bytes("IPv6", envelope.inner, left, NEXT_HEADER_UDP)
    else:
        srh = b"" if envelope.srh is None else srh_bytes(envelope.srh)
        inner = ipv6_bytes("inner IPv6", envelope.inner, udp_length, NEXT_HEADER_UDP)
        outer = ipv6_bytes(
            "outer IPv6",
            envelope.outer,
            len(srh) + IPV6_BYTES + left,
            NEXT_HEADER_ROUTING if srh else NEXT_HEADER_IPV6,
        )
        outer += srh
    below = ethernet_bytes(envelope.ethernet) + outer + inner + udp
    return below, icrc_of_ip_and_udp(inner + udp)


@lru_cache(maxsize=_TEMPLATES)
def _template(envelope: Envelope) -> FrameTemplate:
    return FrameTemplate(envelope)


def encode(packet: Packet) -> bytes:
    """The frame of a packet, from its Ethernet header to the ICRC; no FCS.

    Lengths, next headers, pad count, the TSETH-present bit, padding and ICRC follow from the
    packet, and the UDP checksum where it is not 0. Raises EncodeError for what does not fit.
    """
    if isinstance(packet, Trimmed):
        return _trimmed(packet)
    check(packet.bth)
    if isinstance(packet, Write):
        transport = _write_transport(packet)
    else:
        if packet.bth.opcode not in _OPCODES_OF_KIND[type(packet)]:
            raise _wrong_opcode(packet)
        transport = packet.bth.pack()
        for header in packet[2:]:
            check(header)
            transport += header.pack()
    return _template(packet.envelope).frame(transport)


_OPCODES_OF_KIND: dict[type[Packet], frozenset[Opcode]] = {
    Write: WRITE_OPCODES,
    Ack: frozenset({Opcode.ACKNOWLEDGE}),
    Sack: frozenset({Opcode.RELIABILITY_SACK}),
    Nack: frozenset({Opcode.RELIABILITY_NACK}),
    Probe: frozenset({Opcode.RELIABILITY_PROBE_REQUEST}),
    EndpointRequest: frozenset({Opcode.ENDPOINT_REQUEST}),
    EndpointResponse: frozenset({Opcode.ENDPOINT_RESPONSE}),
}


def _wrong_opcode(packet: Packet) -> EncodeError:
    wanted = ", ".join(f"{opcode:#04x}" for opcode in sorted(_OPCODES_OF_KIND[type(packet)]))
    kind = type(packet).__name__
    return EncodeError("BTH", "opcode", f"{packet.bth.opcode:#04x}", f"{wanted} in a {kind}")


def _write_transport(packet: Write) -> bytes:
    _, bth, meth, tseth, reth, immdt, payload = packet
    if bth.opcode not in WRITE_OPCODES:
        raise _wrong_opcode(packet)
    if (immdt is not None) != (bth.opcode in IMMEDIATE_OPCODES):
        wanted = "there" if immdt is None else "None"
        raise EncodeError("ImmDt", "value", immdt, f"{wanted} with opcode {bth.opcode:#04x}")
    pad = -len(payload) & _PAD_MASK
    parts: list[Payload] = [bth.pack(pad, tseth is not None)]
    for header in (meth, tseth, reth, immdt):
        if header is not None:
            check(header)
            parts.append(header.pack())
    parts += (payload, _PADDING[pad])
    return b"".join(parts)


def _trimmed(packet: Trimmed) -> bytes:
    check(packet.bth)
    transport = packet.bth.pack(packet.pad, packet.ts)
    for header in (packet.meth, packet.tseth, packet.reth, packet.immdt):
        if header is not None:
            check(header)
            transport += header.pack()
    transport += packet.rest
    udp = packet.envelope.udp
    transport_bytes = packet.udp_length - UDP_BYTES
    if not BTH_BYTES <= len(transport) < transport_bytes:
        raise EncodeError(
            "UDP", "length", packet.udp_length, f"more than the {len(transport)} bytes left"
        )
    below, _ = _below_transport(packet.envelope, transport_bytes, len(transport), udp.checksum)
    return below + transport
