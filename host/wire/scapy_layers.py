"""MRC 1.0 as scapy layers: build and dissect its packets with scapy.

Independent of this package's codec, of which it shares only the constants. Importing the module
registers the layers::

    from host.wire.scapy_layers import *
    from scapy.all import Ether, IPv6, UDP

    below = Ether() / IPv6(dst="5f00:0:800:1000:801:1801::") / IPv6(dst="fd4d:5243:0:1::2")
    below /= UDP(sport=0x1234, chksum=0)
    below / MRC(dqpn=17, psn=1) / METH() / RETH(va=0x1000, dmalen=4) / b"data"

UDP port 4791 stays RoCE v2's: a packet whose opcode is none of MRC's is `scapy.contrib.roce`'s
`BTH`, as before. `MRC` is a layer of its own rather than roce's BTH with other opcodes bound to
it, because roce's cannot hold what MRC adds: rtx, the TSETH bit, pad bytes behind the payload, and
a trimmed packet, which has no ICRC. Fields that both have bear roce's names.

ICRC, pad count and TSETH bit are computed when left None. Give UDP `chksum=0`, or scapy computes
one, which is legal too.
"""

# ruff: noqa: RUF012 (`fields_desc` is scapy's way to say it)

from __future__ import annotations

from struct import pack
from typing import Any
from zlib import crc32

from scapy.contrib import roce
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    Field,
    IntField,
    SignedShortField,
    ThreeBytesField,
    XBitField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_bottom_up, bind_top_down, split_bottom_up

from host.wire.constants import (
    FTYPE_TIMESTAMP,
    IMMEDIATE_OPCODES,
    P_KEY_DEFAULT,
    ROCE_V2_UDP_PORT,
    WRITE_OPCODES,
    EndpointOp,
    NackReason,
    Opcode,
    SackM,
)

__all__ = [
    "AETH",
    "CC_STATE",
    "EETH",
    "ERTH",
    "METH",
    "MRC",
    "NETH",
    "PETH",
    "RETH",
    "SETH",
    "TSETH",
    "ImmDt",
]

_ICRC_BYTES = 4
_OPCODES = {opcode.value: opcode.name for opcode in Opcode}


class _IcrcField(Field):  # type: ignore[misc]
    """Four bytes at the end of the packet, least significant first; not there if trimmed."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, "<I")

    def getfield(self, pkt: MRC, s: bytes) -> tuple[bytes, int | None]:
        if pkt.trimmed:
            return s, None
        return s[:-_ICRC_BYTES], int.from_bytes(s[-_ICRC_BYTES:], "little")

    def addfield(self, pkt: MRC, s: bytes, val: int | None) -> bytes:
        return s  # MRC.post_build appends it

    def i2repr(self, pkt: MRC, x: int | None) -> str:
        return "None" if x is None else f"{x:#010x}"


class _Layer(Packet):  # type: ignore[misc]
    """A scapy layer of MRC."""

    def _mrc(self) -> MRC | None:
        layer = self
        while layer is not None and not isinstance(layer, MRC):
            layer = layer.underlayer
        return layer


class MRC(_Layer):
    """BTH, ICRC and padding of MRC."""

    name = "MRC"
    fields_desc = [
        ByteEnumField("opcode", Opcode.RDMA_WRITE_ONLY, _OPCODES),
        BitField("solicited", 0, 1),
        BitField("migreq", 0, 1),
        BitField("padcount", None, 2),
        BitField("version", 0, 4),
        XShortField("pkey", P_KEY_DEFAULT),
        XByteField("variant", 0),
        XBitField("dqpn", 0, 24),
        BitField("ackreq", 0, 1),
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", None, 1),
        BitField("reserved", 0, 4),
        BitField("psn", 0, 24),
        _IcrcField("icrc"),
    ]

    #: Dissected: its end is missing. Built: leave padding and ICRC away.
    trimmed = False

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *args: Any, **kargs: Any) -> Any:
        """Leave the opcodes of RoCE to scapy.contrib.roce."""
        return cls if not _pkt or _pkt[0] in _OPCODES else roce.BTH

    def copy(self) -> MRC:
        """A copy that remembers whether it was trimmed."""
        clone: MRC = super().copy()
        clone.trimmed = self.trimmed
        return clone

    def clone_with(self, *args: Any, **kargs: Any) -> MRC:
        """The same, when scapy takes a packet apart to send it."""
        clone: MRC = super().clone_with(*args, **kargs)
        clone.trimmed = self.trimmed
        return clone

    def pre_dissect(self, s: bytes) -> bytes:
        """See whether the UDP header promises more than there is."""
        udp = self.underlayer
        self.trimmed = isinstance(udp, UDP) and udp.len is not None and udp.len - 8 > len(s)
        return s

    def do_dissect(self, s: bytes) -> bytes:
        """Take ICRC and padding away from the end."""
        payload: bytes = super().do_dissect(s)
        self.raw_packet_cache = None  # scapy counts from the end, as if the ICRC stood in front
        if self.padcount and not self.trimmed:
            payload = payload[: -self.padcount]
        return payload

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The first extension header of the opcode."""
        layer: type[Packet] = _FIRST.get(self.opcode, Raw)
        return layer

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Set pad count and TSETH bit if they are None, append padding and ICRC."""
        padcount = self.padcount
        if padcount is None:
            padcount = -len(pay) % 4
            pkt = pkt[:1] + bytes([pkt[1] | padcount << 4]) + pkt[2:]
        if self.ts is None and self.haslayer(TSETH):
            pkt = pkt[:8] + bytes([pkt[8] | 0x10]) + pkt[9:]
        if self.trimmed:
            return pkt + pay
        transport = pkt + pay + bytes(padcount)
        icrc = self.icrc if self.icrc is not None else self._compute_icrc(transport)
        return transport + icrc.to_bytes(_ICRC_BYTES, "little")

    def icrc_is_right(self) -> bool | None:
        """Of a dissected packet; None if it was trimmed."""
        if self.trimmed:
            return None
        udp = self.underlayer
        transport = bytes(udp.original)[8 : udp.len]
        return bool(self.icrc == self._compute_icrc(transport[:-_ICRC_BYTES]))

    def _compute_icrc(self, transport: bytes) -> int:
        """IBTA annex A17, for IPv6: masked IPv6 and UDP header, masked BTH, all behind it."""
        udp = self.underlayer
        ip = udp.underlayer if isinstance(udp, UDP) else None
        if not isinstance(ip, IPv6):
            return 0
        length = 8 + len(transport) + _ICRC_BYTES
        address_bytes = IPv6(src=ip.src, dst=ip.dst).build()[8:40]
        masked = b"".join(
            (
                b"\xff" * 8,  # LRH
                b"\x6f\xff\xff\xff",
                pack("!HBB", length if ip.plen is None else ip.plen, 17, 0xFF),
                address_bytes,
                pack("!HHHH", udp.sport, udp.dport, length if udp.len is None else udp.len, 0xFFFF),
                transport[:4],
                b"\xff",
                transport[5:],
            )
        )
        return crc32(masked)


class _Extension(_Layer):
    """An extension header; what follows it depends on the opcode and the TSETH bit."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The next extension header, or the payload."""
        mrc = self._mrc()
        layer: type[Packet] = Raw if mrc is None else self._next(mrc)
        return layer

    def _next(self, mrc: MRC) -> type[Packet]:
        layer: type[Packet] = Raw
        return layer


class METH(_Extension):
    """Message numbers."""

    name = "METH"
    fields_desc = [BitField("rqmsn", 0, 16), BitField("msn", 0, 16)]

    def _next(self, mrc: MRC) -> type[Packet]:
        return TSETH if mrc.ts else RETH


class TSETH(_Extension):
    """Timestamp."""

    name = "TSETH"
    fields_desc = [
        BitField("tx_timestamp", 0, 16),
        BitField("tsr", 0, 1),
        BitField("reserved", 0, 11),
        BitField("ftype", FTYPE_TIMESTAMP, 4),
    ]

    def _next(self, mrc: MRC) -> type[Packet]:
        return RETH


class RETH(_Extension):
    """Where the payload goes."""

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]

    def _next(self, mrc: MRC) -> type[Packet]:
        return ImmDt if mrc.opcode in IMMEDIATE_OPCODES else Raw


class ImmDt(_Extension):
    """Immediate data."""

    name = "ImmDt"
    fields_desc = [XIntField("value", 0)]


class AETH(_Extension):
    """Transport acknowledgement."""

    name = "AETH"
    fields_desc = [XByteField("syndrome", 0), BitField("msn", 0, 24)]


class SETH(_Extension):
    """Reliability SACK."""

    name = "SETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitEnumField("m", 0, 2, {m.value: m.name for m in SackM}),
        BitField("reserved1", 0, 3),
        BitField("pr", 0, 1),
        BitField("reserved2", 0, 1),
        SignedShortField("ack_psn_offset", 0),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("reserved3", 0),
        ThreeBytesField("cack_psn", 0),
        BitField("cc_type", 0, 4),
        BitField("cc_flags", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 0),
        XLongField("sack_bitmap", 0),
    ]

    def _next(self, mrc: MRC) -> type[Packet]:
        return CC_STATE


class CC_STATE(_Extension):
    """What the congestion controller learns from a SACK."""

    name = "CC_STATE"
    fields_desc = [
        BitField("tx_timestamp", 0, 16),
        BitField("reserved", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        BitField("rcvd_bytes", 0, 24),
    ]


class NETH(_Extension):
    """Reliability NACK."""

    name = "NETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved1", 0, 7),
        ByteEnumField("reason", 0, {reason.value: reason.name for reason in NackReason}),
        XByteField("vendor", 0),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("reserved2", 0),
        ThreeBytesField("nack_psn", 0),
        BitField("cc_type", 0, 4),
        BitField("cc_flags", 0, 4),
        ByteField("reserved3", 0),
        BitField("tx_timestamp", 0, 16),
    ]


class PETH(_Extension):
    """Reliability probe request."""

    name = "PETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved1", 0, 15),
        XByteField("vendor", 0),
        XShortField("probe_id", 0),
        BitField("reserved2", 0, 16),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        BitField("tx_timestamp", 0, 16),
        BitField("tsr", 0, 1),
        BitField("reserved3", 0, 11),
        BitField("ftype", FTYPE_TIMESTAMP, 4),
    ]


class ERTH(_Extension):
    """Endpoint request."""

    name = "ERTH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved1", 0, 5),
        BitEnumField("op", 0, 2, {op.value: op.name for op in EndpointOp}),
        BitField("reserved2", 0, 8),
        XByteField("vendor", 0),
        XIntField("port_status_mask", 0),
        BitField("reserved3", 0, 32),
        BitField("tx_timestamp", 0, 16),
        BitField("tsr", 0, 1),
        BitField("reserved4", 0, 11),
        BitField("ftype", FTYPE_TIMESTAMP, 4),
    ]


class EETH(_Extension):
    """Endpoint response."""

    name = "EETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved1", 0, 3),
        BitEnumField("op", 0, 2, {op.value: op.name for op in EndpointOp}),
        BitField("reserved2", 0, 2),
        BitField("reserved3", 0, 208),
        BitField("tx_timestamp", 0, 16),
        BitField("reserved4", 0, 48),
    ]


_FIRST: dict[int, type[Packet]] = {
    **dict.fromkeys(WRITE_OPCODES, METH),
    Opcode.ACKNOWLEDGE: AETH,
    Opcode.ENDPOINT_REQUEST: ERTH,
    Opcode.ENDPOINT_RESPONSE: EETH,
    Opcode.RELIABILITY_SACK: SETH,
    Opcode.RELIABILITY_NACK: NETH,
    Opcode.RELIABILITY_PROBE_REQUEST: PETH,
}

# The port is roce's; MRC.dispatch_hook gives back what is not ours
split_bottom_up(UDP, roce.BTH, dport=ROCE_V2_UDP_PORT)
bind_bottom_up(UDP, MRC, dport=ROCE_V2_UDP_PORT)
bind_top_down(UDP, MRC, dport=ROCE_V2_UDP_PORT)
