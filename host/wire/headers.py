"""The transport headers of MRC 1.0: values, layouts, and their bytes.

Each header is a named tuple with the specification's names; `layouts` has the specification's
tables of them. `pack` expects values that fit (`layouts.check`), `unpack` a header that is whole.
All fields are big-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from host.wire.constants import FTYPE_TIMESTAMP, P_KEY_DEFAULT
from host.wire.errors import FieldError

# tuple.__new__ makes a named tuple in half the time of its constructor: no arguments to bind
_new = tuple.__new__

#: The first nine bits of every reliability and endpoint header are type and next, both 0
_TYPE_AND_NEXT_MASK = 0xFF80


def _check_type_and_next(first_word: int, header: str, offset: int) -> None:
    if first_word & _TYPE_AND_NEXT_MASK:
        raise FieldError(
            header,
            offset,
            f"type {first_word >> 12} and next {first_word >> 7 & 0x1F} must both be 0",
        )


_BTH = Struct("!BBHII")
_METH = Struct("!HH")
_TSETH = Struct("!HH")
_RETH = Struct("!QII")
_IMMDT = Struct("!I")
_AETH = Struct("!I")
_SETH = Struct("!HhIHHIBBhQ")
_CC_STATE = Struct("!HHI")
_NETH = Struct("!HBBIHHIBBH")
_PETH = Struct("!HBBHHHHHH")
_ERTH = Struct("!HBBIIHH")
_EETH = Struct("!H26xH6x")


class BTH(NamedTuple):
    """Base transport header, in front of every packet.

    pad count, transport version and the TSETH-present bit are not among the values: the first and
    the last follow from the packet, and the version is 0. Byte 4 is reserved, changes on the way
    and is sent as 0.
    """

    opcode: int
    dest_qp: int
    #: The packet's own in requests; `cack_psn` in a SACK; in a NACK that of the packet which caused
    #: it; 0 in a probe request; the request id in its low 16 bits for endpoint operations
    psn: int
    ack_request: bool = False
    #: A retransmission
    rtx: bool = False
    #: Solicited event
    se: bool = False
    m: bool = False
    r: bool = False
    p_key: int = P_KEY_DEFAULT

    def pack(self, pad: int = 0, ts: bool = False) -> bytes:
        """The header's bytes, with the pad count and whether a TSETH follows."""
        return _BTH.pack(
            self.opcode,
            self.se << 7 | self.m << 6 | pad << 4,
            self.p_key,
            self.dest_qp,
            (self.ack_request << 7 | self.r << 6 | self.rtx << 5 | ts << 4) << 24 | self.psn,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> BTH:
        """The header at a byte of a frame; what `pack` derives is left to the caller."""
        opcode, flags, p_key, dest_qp, psn = _BTH.unpack_from(frame, offset)
        return _new(
            cls,
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
        )


class METH(NamedTuple):
    """Message numbers, in every data packet."""

    #: Counts WRITEs with immediate; the same in all packets of one
    rqmsn: int
    #: Counts messages, from 0
    msn: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _METH.pack(*self)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> METH:
        """The header at a byte of a frame."""
        return _new(cls, _METH.unpack_from(frame, offset))


class TSETH(NamedTuple):
    """Timestamp of a data packet; there if BTH's ts bit is set."""

    #: In units of `assumptions.TIMESTAMP_UNIT_NS`
    tx_timestamp: int
    tsr: bool = False
    ftype: int = FTYPE_TIMESTAMP

    def pack(self) -> bytes:
        """The header's bytes."""
        return _TSETH.pack(self.tx_timestamp, self.tsr << 15 | self.ftype)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> TSETH:
        """The header at a byte of a frame."""
        tx_timestamp, rest = _TSETH.unpack_from(frame, offset)
        return _new(cls, (tx_timestamp, rest & 0x8000 != 0, rest & 0xF))


class RETH(NamedTuple):
    """Where the payload goes, in every data packet."""

    #: Of this packet's payload: advances by the path MTU from packet to packet
    va: int
    r_key: int
    #: Bytes of the whole message
    dma_length: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _RETH.pack(*self)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> RETH:
        """The header at a byte of a frame."""
        return _new(cls, _RETH.unpack_from(frame, offset))


class ImmDt(NamedTuple):
    """Immediate data, in the last packet of a WRITE with immediate."""

    value: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _IMMDT.pack(self.value)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> ImmDt:
        """The header at a byte of a frame."""
        return _new(cls, _IMMDT.unpack_from(frame, offset))


class AETH(NamedTuple):
    """Transport acknowledgement."""

    syndrome: int
    msn: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _AETH.pack(self.syndrome << 24 | self.msn)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> AETH:
        """The header at a byte of a frame."""
        (word,) = _AETH.unpack_from(frame, offset)
        return _new(cls, (word >> 24, word & 0xFFFFFF))


class SETH(NamedTuple):
    """Reliability SACK."""

    #: A `SackM`; 3 has no meaning yet
    m: int
    #: Whether this answers a probe request
    pr: bool
    #: PSN acknowledged = cack_psn + this; see `probe_id` where pr is set
    ack_psn_offset: int
    #: The EV of the packet that drew this SACK
    entropy: int
    #: Source context: low 16 bits of the source QP
    spdcid: int
    #: Destination context
    dpdcid: int
    cack_psn: int
    #: In units of MPR_UNIT_PSNS
    mpr: int
    #: First PSN of the bitmap = cack_psn + this
    sack_offset: int
    #: On the wire's terms; read it with `assumptions.psns_of_sack`
    sack_bitmap: int
    cc_type: int = 0
    cc_flags: int = 0

    @property
    def probe_id(self) -> int:
        """The probe id that a SACK with `pr` reflects, in the place of `ack_psn_offset`."""
        return self.ack_psn_offset & 0xFFFF

    def pack(self) -> bytes:
        """The header's bytes."""
        return _SETH.pack(
            self.m << 5 | self.pr << 1,
            self.ack_psn_offset,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            self.cack_psn,
            self.cc_type << 4 | self.cc_flags,
            self.mpr,
            self.sack_offset,
            self.sack_bitmap,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> SETH:
        """The header at a byte of a frame. Raises FieldError where type or next is not 0."""
        first, ack_psn_offset, entropy, spdcid, dpdcid, cack_psn, cc, mpr, sack_offset, bitmap = (
            _SETH.unpack_from(frame, offset)
        )
        if first & _TYPE_AND_NEXT_MASK:
            _check_type_and_next(first, "SETH", offset)
        return _new(
            cls,
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
                bitmap,
                cc >> 4,
                cc & 0xF,
            ),
        )


class CCState(NamedTuple):
    """CC_STATE: what the congestion controller learns from a SACK."""

    #: Reflected from the packet that drew this SACK
    tx_timestamp: int
    ooo_count: int
    restore_cwnd: bool
    #: 0..127, scales the window down; 127: one packet per RTT
    rcv_cwnd_pen: int
    #: Cumulative, in units of RCVD_BYTES_UNIT_BYTES, wraps
    rcvd_bytes: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _CC_STATE.pack(
            self.tx_timestamp,
            self.ooo_count,
            self.restore_cwnd << 31 | self.rcv_cwnd_pen << 24 | self.rcvd_bytes,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> CCState:
        """The header at a byte of a frame."""
        tx_timestamp, ooo_count, rest = _CC_STATE.unpack_from(frame, offset)
        return _new(
            cls,
            (
                tx_timestamp,
                ooo_count & 0x7FFF,
                rest & 0x80000000 != 0,
                rest >> 24 & 0x7F,
                rest & 0xFFFFFF,
            ),
        )


class NETH(NamedTuple):
    """Reliability NACK."""

    #: A `NackReason`
    reason: int
    #: The EV of the packet that drew this NACK
    entropy: int
    spdcid: int
    dpdcid: int
    nack_psn: int
    #: Reflected from the packet that drew this NACK
    tx_timestamp: int
    vendor: int = 0
    cc_type: int = 0
    cc_flags: int = 0

    def pack(self) -> bytes:
        """The header's bytes."""
        return _NETH.pack(
            0,
            self.reason,
            self.vendor,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            self.nack_psn,
            self.cc_type << 4 | self.cc_flags,
            0,
            self.tx_timestamp,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> NETH:
        """The header at a byte of a frame. Raises FieldError where type or next is not 0."""
        first, reason, vendor, entropy, spdcid, dpdcid, nack_psn, cc, _, tx_timestamp = (
            _NETH.unpack_from(frame, offset)
        )
        _check_type_and_next(first, "NETH", offset)
        return _new(
            cls,
            (
                reason,
                entropy,
                spdcid,
                dpdcid,
                nack_psn & 0xFFFFFF,
                tx_timestamp,
                vendor,
                cc >> 4,
                cc & 0xF,
            ),
        )


class PETH(NamedTuple):
    """Reliability probe request."""

    probe_id: int
    spdcid: int
    dpdcid: int
    tx_timestamp: int
    tsr: bool = False
    ftype: int = FTYPE_TIMESTAMP
    vendor: int = 0

    def pack(self) -> bytes:
        """The header's bytes."""
        return _PETH.pack(
            0,
            0,
            self.vendor,
            self.probe_id,
            0,
            self.spdcid,
            self.dpdcid,
            self.tx_timestamp,
            self.tsr << 15 | self.ftype,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> PETH:
        """The header at a byte of a frame. Raises FieldError where type or next is not 0."""
        first, _, vendor, probe_id, _, spdcid, dpdcid, tx_timestamp, last = _PETH.unpack_from(
            frame, offset
        )
        _check_type_and_next(first, "PETH", offset)
        return _new(
            cls,
            (probe_id, spdcid, dpdcid, tx_timestamp, last & 0x8000 != 0, last & 0xF, vendor),
        )


class ERTH(NamedTuple):
    """Endpoint request: port status update or EV probe."""

    #: An `EndpointOp`
    op: int
    #: One bit a local port, 1 = up; see `assumptions.port_status_mask`
    port_status_mask: int
    tx_timestamp: int
    tsr: bool = False
    ftype: int = FTYPE_TIMESTAMP
    vendor: int = 0

    def pack(self) -> bytes:
        """The header's bytes."""
        return _ERTH.pack(
            self.op,
            0,
            self.vendor,
            self.port_status_mask,
            0,
            self.tx_timestamp,
            self.tsr << 15 | self.ftype,
        )

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> ERTH:
        """The header at a byte of a frame. Raises FieldError where type or next is not 0."""
        first, _, vendor, mask, _, tx_timestamp, last = _ERTH.unpack_from(frame, offset)
        _check_type_and_next(first, "ERTH", offset)
        return _new(cls, (first & 3, mask, tx_timestamp, last & 0x8000 != 0, last & 0xF, vendor))


class EETH(NamedTuple):
    """Endpoint response."""

    #: An `EndpointOp`, that of the request
    op: int
    #: Reflected from the request
    tx_timestamp: int

    def pack(self) -> bytes:
        """The header's bytes."""
        return _EETH.pack(self.op << 2, self.tx_timestamp)

    @classmethod
    def unpack(cls, frame: bytes, offset: int) -> EETH:
        """The header at a byte of a frame. Raises FieldError where type or next is not 0."""
        first, tx_timestamp = _EETH.unpack_from(frame, offset)
        _check_type_and_next(first, "EETH", offset)
        return _new(cls, (first >> 2 & 3, tx_timestamp))
