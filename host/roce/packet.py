"""RoCEv2 packets of the RC transport: IBTA volume 1, chapter 9, and annex A17.

Ethernet, IPv6, UDP, BTH, extension headers, payload, ICRC. What RoCE and MRC have in common comes
from `host.wire`; BTH differs in byte 8, which has nothing but the ack request here, and in byte 4,
which has FECN and BECN.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeAlias
from zlib import crc32

from host.wire.below import PLAIN_BYTES, Below, decode_below
from host.wire.constants import (
    AETH_BYTES,
    BTH_BYTES,
    ICRC_BYTES,
    IMMDT_BYTES,
    P_KEY_DEFAULT,
    RETH_BYTES,
    ROCE_V2_UDP_PORT,
    TRANSPORT_VERSION,
)
from host.wire.encoder import FrameTemplate
from host.wire.envelope import Envelope
from host.wire.errors import (
    FieldError,
    IcrcError,
    LengthError,
    NotMrcError,
    TruncatedError,
    UnknownOpcodeError,
)
from host.wire.headers import AETH, RETH, ImmDt
from host.wire.icrc import BTH_VARIANT_OFFSET
from host.wire.packet import Payload


class Opcode(IntEnum):
    """BTH opcodes (IBTA volume 1, table 38; annex A17.9 for the CNP)."""

    RDMA_WRITE_FIRST = 0x06
    RDMA_WRITE_MIDDLE = 0x07
    RDMA_WRITE_LAST = 0x08
    RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09
    RDMA_WRITE_ONLY = 0x0A
    RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    ACKNOWLEDGE = 0x11
    CNP = 0x81


#: Opcodes of writes → what stands behind the BTH: RETH, ImmDt
WRITE_HEADERS: dict[int, tuple[bool, bool]] = {
    Opcode.RDMA_WRITE_FIRST: (True, False),
    Opcode.RDMA_WRITE_MIDDLE: (False, False),
    Opcode.RDMA_WRITE_LAST: (False, False),
    Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE: (False, True),
    Opcode.RDMA_WRITE_ONLY: (True, False),
    Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE: (True, True),
}

#: Opcode, SE M pad tver, P_Key, FECN BECN and destination QP, ack request and PSN
_BTH = Struct("!BBHII")
_FLAG_ACK_REQUEST = 1 << 31
_FLAG_BECN = 1 << 30
_U24 = (1 << 24) - 1
_PAD_MASK = 0x30
_TVER_MASK = 0x0F
#: Behind the BTH of a CNP: reserved, zeros
CNP_RESERVED_BYTES = 16
_PADDING = (b"", b"\0", b"\0\0", b"\0\0\0")
#: Envelopes that a decoder remembers
_CACHE_ENTRIES = 8192


class Bth(NamedTuple):
    """Base transport header; the pad count follows from the payload."""

    opcode: int
    dest_qp: int
    psn: int
    ack_request: bool = False
    becn: bool = False

    def pack(self, pad: int = 0) -> bytes:
        """The header's bytes."""
        return _BTH.pack(
            self.opcode,
            pad << 4,
            P_KEY_DEFAULT,
            self.dest_qp | (_FLAG_BECN if self.becn else 0),
            self.psn | (_FLAG_ACK_REQUEST if self.ack_request else 0),
        )


class Write(NamedTuple):
    """A data packet of an RDMA WRITE."""

    envelope: Envelope
    bth: Bth
    #: Of the whole message; in its first packet only
    reth: RETH | None
    #: In the last packet of a WRITE with immediate
    immdt: ImmDt | None
    payload: Payload


class Ack(NamedTuple):
    """ACK, NAK or RNR NAK."""

    envelope: Envelope
    bth: Bth
    aeth: AETH


class Cnp(NamedTuple):
    """Congestion notification packet."""

    envelope: Envelope
    bth: Bth


Packet: TypeAlias = Write | Ack | Cnp


def write_frame(
    frames: FrameTemplate, bth: Bth, reth: RETH | None, immdt: int | None, payload: Payload
) -> bytes:
    """A data packet, padded; opcode and headers must agree."""
    pad = -len(payload) & 3
    parts: list[Payload] = [bth.pack(pad)]
    if reth is not None:
        parts.append(reth.pack())
    if immdt is not None:
        parts.append(immdt.to_bytes(IMMDT_BYTES, "big"))
    parts += (payload, _PADDING[pad])
    return frames.frame(b"".join(parts))


def ack_frame(frames: FrameTemplate, dest_qp: int, psn: int, aeth: AETH) -> bytes:
    """ACK, NAK or RNR NAK."""
    return frames.frame(Bth(Opcode.ACKNOWLEDGE, dest_qp, psn).pack() + aeth.pack())


def cnp_frame(frames: FrameTemplate, dest_qp: int) -> bytes:
    """A CNP: PSN 0, BECN set, 16 bytes of zeros (annex A17.9)."""
    return frames.frame(Bth(Opcode.CNP, dest_qp, 0, becn=True).pack() + bytes(CNP_RESERVED_BYTES))


class RoceDecoder:
    """Decodes the frames that come to one NIC; as `host.wire.Decoder`."""

    def __init__(self, own_address: int | None = None, *, udp_port: int = ROCE_V2_UDP_PORT) -> None:
        self._own_address = own_address
        self._udp_port = udp_port
        self._cache: dict[bytes, Below] = {}

    def decode(self, frame: bytes) -> Packet:
        """The packet in a frame (from its Ethernet header on, without FCS). Raises DecodeError.

        A payload is a view of the frame.
        """
        key = frame[:PLAIN_BYTES]
        below = self._cache.get(key)
        if below is None or below.end > len(frame):
            # No DSCP says trimmed: RoCE cannot tell what a shortened packet was
            below = decode_below(frame, self._own_address, self._udp_port, ())
            if below.envelope.outer is not None:
                raise NotMrcError("IPv6", 20, "there is a second IPv6 header behind it")
            if below.envelope.udp.checksum == 0:
                if len(self._cache) >= _CACHE_ENTRIES:
                    self._cache.clear()
                self._cache[key] = below
        envelope, offset, end, _, _, crc = below
        packet = _transport(frame, envelope, offset, end - ICRC_BYTES)
        view = memoryview(frame)
        crc = crc32(frame[offset : offset + BTH_VARIANT_OFFSET] + b"\xff", crc)
        crc = crc32(view[offset + BTH_VARIANT_OFFSET + 1 : end - ICRC_BYTES], crc)
        received = int.from_bytes(frame[end - ICRC_BYTES : end], "little")
        if crc != received:
            raise IcrcError(
                "ICRC", end - ICRC_BYTES, f"is {received:#010x}, the packet's is {crc:#010x}"
            )
        return packet


def _transport(frame: bytes, envelope: Envelope, offset: int, end: int) -> Packet:
    """The packet whose BTH starts at `offset` and whose ICRC starts at `end`."""
    opcode, flags, _, dest_qp, psn = _BTH.unpack_from(frame, offset)
    if flags & _TVER_MASK != TRANSPORT_VERSION:
        raise FieldError(
            "BTH", offset + 1, f"transport version {flags & _TVER_MASK} must be {TRANSPORT_VERSION}"
        )
    bth = Bth(
        opcode,
        dest_qp & _U24,
        psn & _U24,
        psn & _FLAG_ACK_REQUEST != 0,
        dest_qp & _FLAG_BECN != 0,
    )
    headers = WRITE_HEADERS.get(opcode)
    at = offset + BTH_BYTES
    pad = (flags & _PAD_MASK) >> 4
    if headers is not None:
        return _write(frame, envelope, bth, headers, at, end, pad)
    if opcode == Opcode.ACKNOWLEDGE:
        name, size_bytes = "AETH", AETH_BYTES
    elif opcode == Opcode.CNP:
        name, size_bytes = "CNP", CNP_RESERVED_BYTES
    else:
        raise UnknownOpcodeError("BTH", offset, f"opcode {opcode:#04x} is none of these")
    if end - at != size_bytes or pad:
        raise LengthError(name, at, f"{end - at} bytes and {pad} of padding, not {size_bytes}")
    if opcode == Opcode.CNP:
        return Cnp(envelope, bth)
    return Ack(envelope, bth, AETH.unpack(frame, at))


def _write(
    frame: bytes,
    envelope: Envelope,
    bth: Bth,
    headers: tuple[bool, bool],
    at: int,
    end: int,
    pad: int,
) -> Write:
    has_reth, has_immdt = headers
    size_bytes = RETH_BYTES * has_reth + IMMDT_BYTES * has_immdt
    if at + size_bytes > end:
        raise TruncatedError(
            "RETH" if has_reth else "ImmDt", at, f"{size_bytes} bytes needed, {end - at} are there"
        )
    reth = immdt = None
    if has_reth:
        reth = RETH.unpack(frame, at)
        at += RETH_BYTES
    if has_immdt:
        immdt = ImmDt.unpack(frame, at)
        at += IMMDT_BYTES
    if (end - at) & 3 or pad > end - at:
        raise LengthError(
            "BTH", at, f"{end - at} bytes of payload and padding do not go with pad count {pad}"
        )
    return Write(envelope, bth, reth, immdt, memoryview(frame)[at : end - pad])
