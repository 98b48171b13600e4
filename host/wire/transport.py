"""Decoding the transport: BTH, extension headers, payload. One function a kind of packet.

A function gets the frame, its envelope, where the BTH starts and where the ICRC does.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from host.wire.constants import (
    BTH_BYTES,
    IMMDT_BYTES,
    IMMEDIATE_OPCODES,
    METH_BYTES,
    RETH_BYTES,
    TRANSPORT_VERSION,
    TSETH_BYTES,
    WRITE_OPCODES,
    Opcode,
)
from host.wire.envelope import Envelope
from host.wire.errors import FieldError, LengthError, TruncatedError, UnknownOpcodeError
from host.wire.headers import (
    AETH,
    BTH,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    CCState,
    ImmDt,
)
from host.wire.layouts import LAYOUTS, Header
from host.wire.packet import (
    Ack,
    EndpointRequest,
    EndpointResponse,
    Nack,
    Packet,
    Probe,
    Sack,
    Trimmed,
    Write,
)

# tuple.__new__ makes a named tuple in half the time of its constructor: no arguments to bind
_new = tuple.__new__

# BTH and the extension headers of the hot packets
_WRITE = Struct("!BBHIIHHQII")
_WRITE_TS = Struct("!BBHIIHHHHQII")
_SACK = Struct("!BBHIIHhIHHIBBhQHHI")

_BTH_FLAGS_OFFSET = 8
_FLAG_TS = 0x10
_PAD_MASK = 0x30
_TVER_MASK = 0x0F


_KindDecoder = Callable[[bytes, Envelope, int, int], Packet]


def decode_whole(frame: bytes, envelope: Envelope, offset: int, end: int) -> Packet:
    """The packet whose BTH starts at `offset` and whose ICRC starts at `end`."""
    decode_kind = _DECODERS[frame[offset]]
    if decode_kind is None or frame[offset + 1] & _TVER_MASK != TRANSPORT_VERSION:
        decode_kind = _kind(frame, offset)
    return decode_kind(frame, envelope, offset, end)


def _kind(frame: bytes, offset: int) -> _KindDecoder:
    """How to decode what is behind this BTH. Raises FieldError if the BTH is none of ours."""
    opcode = frame[offset]
    decode_kind = _DECODERS[opcode]
    if decode_kind is None:
        raise UnknownOpcodeError("BTH", offset, f"opcode {opcode:#04x} is none of MRC's")
    version = frame[offset + 1] & _TVER_MASK
    if version != TRANSPORT_VERSION:
        raise FieldError(
            "BTH", offset + 1, f"transport version {version} must be {TRANSPORT_VERSION}"
        )
    return decode_kind


def _too_short(offset: int, end: int, headers: tuple[type[Header], ...]) -> TruncatedError:
    """Which of the headers behind the BTH is the first that does not end by `end`."""
    offset += BTH_BYTES
    for header in headers:
        layout = LAYOUTS[header]
        if offset + layout.size_bytes > end:
            break
        offset += layout.size_bytes
    return TruncatedError(
        layout.name, offset, f"{layout.size_bytes} bytes are needed, {end - offset} are there"
    )


def _write(frame: bytes, envelope: Envelope, offset: int, end: int) -> Write:
    """A data packet whose BTH starts at `offset` and whose ICRC starts at `end`."""
    opcode = frame[offset]
    immdt: ImmDt | None = None
    tseth: TSETH | None
    if frame[offset + _BTH_FLAGS_OFFSET] & _FLAG_TS:
        payload_offset = offset + _WRITE_TS.size
        if payload_offset > end:
            raise _too_short(offset, end, (METH, TSETH, RETH))
        (
            _,
            flags,
            p_key,
            dest_qp,
            psn,
            rqmsn,
            msn,
            timestamp,
            timestamp_flags,
            va,
            r_key,
            dma_length,
        ) = _WRITE_TS.unpack_from(frame, offset)
        tseth = _new(TSETH, (timestamp, timestamp_flags & 0x8000 != 0, timestamp_flags & 0xF))
    else:
        payload_offset = offset + _WRITE.size
        if payload_offset > end:
            raise _too_short(offset, end, (METH, RETH))
        _, flags, p_key, dest_qp, psn, rqmsn, msn, va, r_key, dma_length = _WRITE.unpack_from(
            frame, offset
        )
        tseth = None
    if opcode in IMMEDIATE_OPCODES:
        if payload_offset + IMMDT_BYTES > end:
            raise _too_short(payload_offset - BTH_BYTES, end, (ImmDt,))
        immdt = ImmDt.unpack(frame, payload_offset)
        payload_offset += IMMDT_BYTES
    pad = (flags & _PAD_MASK) >> 4
    padded_bytes = end - payload_offset
    if padded_bytes & 3 or pad > padded_bytes:
        raise LengthError(
            "BTH",
            offset + 1,
            f"{padded_bytes} bytes of payload and padding do not go with pad count {pad}",
        )
    return _new(
        Write,
        (
            envelope,
            _new(
                BTH,
                (
                    opcode,
                    dest_qp & 0xFFFFFF,
                    psn & 0xFFFFFF,
                    psn & 0x80000000 != 0,
                    psn & 0x20000000 != 0,
                    flags & 0x80 != 0,
                    flags & 0x40 != 0,
                    psn & 0x40000000 != 0,
                    p_key,
                ),
            ),
            _new(METH, (rqmsn, msn)),
            tseth,
            _new(RETH, (va, r_key, dma_length)),
            immdt,
            memoryview(frame)[payload_offset : end - pad],
        ),
    )


def _check_control(frame: bytes, offset: int, end: int, *headers: type[Header]) -> None:
    """A control packet has its headers and nothing else: no payload, no padding, no TSETH."""
    extra_bytes = end - offset - BTH_BYTES - sum(LAYOUTS[h].size_bytes for h in headers)
    if extra_bytes < 0:
        raise _too_short(offset, end, headers)
    if extra_bytes > 0:
        name = LAYOUTS[headers[-1]].name
        raise LengthError(
            name, end - extra_bytes, f"{extra_bytes} bytes follow it, and nothing may"
        )
    if frame[offset + 1] & _PAD_MASK:
        raise FieldError("BTH", offset + 1, "pad count must be 0 where there is no payload")
    if frame[offset + _BTH_FLAGS_OFFSET] & _FLAG_TS:
        raise FieldError(
            "BTH", offset + _BTH_FLAGS_OFFSET, "TSETH present, but this is no data packet"
        )


def _sack(frame: bytes, envelope: Envelope, offset: int, end: int) -> Sack:
    if (
        end - offset != _SACK.size
        or frame[offset + 1] & _PAD_MASK
        or frame[offset + _BTH_FLAGS_OFFSET] & _FLAG_TS
    ):
        _check_control(frame, offset, end, SETH, CCState)
    (
        opcode,
        flags,
        p_key,
        dest_qp,
        psn,
        first,
        ack_psn_offset,
        entropy,
        spdcid,
        dpdcid,
        cack_psn,
        cc,
        mpr,
        sack_offset,
        sack_bitmap,
        tx_timestamp,
        ooo_count,
        last,
    ) = _SACK.unpack_from(frame, offset)
    if first & 0xFF80:
        SETH.unpack(frame, offset + BTH_BYTES)  # says what is wrong
    return _new(
        Sack,
        (
            envelope,
            _new(
                BTH,
                (
                    opcode,
                    dest_qp & 0xFFFFFF,
                    psn & 0xFFFFFF,
                    psn & 0x80000000 != 0,
                    psn & 0x20000000 != 0,
                    flags & 0x80 != 0,
                    flags & 0x40 != 0,
                    psn & 0x40000000 != 0,
                    p_key,
                ),
            ),
            _new(
                SETH,
                (
                    first >> 5 & 3,
                    first & 2 != 0,
                    ack_psn_offset,
                    entropy,
                    spdcid,
                    dpdcid,
                    cack_psn & 0xFFFFFF,
                    mpr,
                    sack_offset,
                    sack_bitmap,
                    cc >> 4,
                    cc & 0xF,
                ),
            ),
            _new(
                CCState,
                (
                    tx_timestamp,
                    ooo_count & 0x7FFF,
                    last & 0x80000000 != 0,
                    last >> 24 & 0x7F,
                    last & 0xFFFFFF,
                ),
            ),
        ),
    )


def _ack(frame: bytes, envelope: Envelope, offset: int, end: int) -> Ack:
    _check_control(frame, offset, end, AETH)
    bth = BTH.unpack(frame, offset)
    return Ack(envelope, bth, AETH.unpack(frame, offset + BTH_BYTES))


def _nack(frame: bytes, envelope: Envelope, offset: int, end: int) -> Nack:
    _check_control(frame, offset, end, NETH)
    bth = BTH.unpack(frame, offset)
    return Nack(envelope, bth, NETH.unpack(frame, offset + BTH_BYTES))


def _probe(frame: bytes, envelope: Envelope, offset: int, end: int) -> Probe:
    _check_control(frame, offset, end, PETH)
    bth = BTH.unpack(frame, offset)
    return Probe(envelope, bth, PETH.unpack(frame, offset + BTH_BYTES))


def _endpoint_request(frame: bytes, envelope: Envelope, offset: int, end: int) -> EndpointRequest:
    _check_control(frame, offset, end, ERTH)
    bth = BTH.unpack(frame, offset)
    return EndpointRequest(envelope, bth, ERTH.unpack(frame, offset + BTH_BYTES))


def _endpoint_response(frame: bytes, envelope: Envelope, offset: int, end: int) -> EndpointResponse:
    _check_control(frame, offset, end, EETH)
    bth = BTH.unpack(frame, offset)
    return EndpointResponse(envelope, bth, EETH.unpack(frame, offset + BTH_BYTES))


def decode_trimmed(
    frame: bytes, envelope: Envelope, offset: int, end: int, udp_length: int
) -> Trimmed:
    """What is left, up to `end`, of a packet whose end a switch cut off.

    The BTH at least must be whole; there is no ICRC to say whether any of it is right.
    """
    if offset + BTH_BYTES > end:
        raise TruncatedError(
            "BTH", offset, f"{BTH_BYTES} bytes are needed, the switch left {end - offset}"
        )
    _kind(frame, offset)
    bth = BTH.unpack(frame, offset)
    pad = (frame[offset + 1] & _PAD_MASK) >> 4
    ts = frame[offset + _BTH_FLAGS_OFFSET] & _FLAG_TS != 0
    at = offset + BTH_BYTES
    meth: METH | None = None
    tseth: TSETH | None = None
    reth: RETH | None = None
    immdt: ImmDt | None = None
    if bth.opcode in WRITE_OPCODES and at + METH_BYTES <= end:
        meth = METH.unpack(frame, at)
        at += METH_BYTES
        if ts and at + TSETH_BYTES <= end:
            tseth = TSETH.unpack(frame, at)
            at += TSETH_BYTES
        if ts == (tseth is not None) and at + RETH_BYTES <= end:
            reth = RETH.unpack(frame, at)
            at += RETH_BYTES
            if bth.opcode in IMMEDIATE_OPCODES and at + IMMDT_BYTES <= end:
                immdt = ImmDt.unpack(frame, at)
                at += IMMDT_BYTES
    return Trimmed(envelope, bth, meth, tseth, reth, immdt, frame[at:end], udp_length, pad, ts)


_DECODERS: list[_KindDecoder | None] = [None] * 256
for _opcode in WRITE_OPCODES:
    _DECODERS[_opcode] = _write
_DECODERS[Opcode.ACKNOWLEDGE] = _ack
_DECODERS[Opcode.ENDPOINT_REQUEST] = _endpoint_request
_DECODERS[Opcode.ENDPOINT_RESPONSE] = _endpoint_response
_DECODERS[Opcode.RELIABILITY_SACK] = _sack
_DECODERS[Opcode.RELIABILITY_NACK] = _nack
_DECODERS[Opcode.RELIABILITY_PROBE_REQUEST] = _probe
