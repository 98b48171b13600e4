"""The specification's header tables: every field in the order of the wire, big-endian.

`headers` is these tables made fast; here they can be read against the specification line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from host.wire.errors import EncodeError
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

Header: TypeAlias = (
    BTH | METH | TSETH | RETH | ImmDt | AETH | SETH | CCState | NETH | PETH | ERTH | EETH
)


class Kind(Enum):
    """What a field is to the header's named tuple."""

    UNSIGNED = auto()
    SIGNED = auto()  # two's complement
    FLAG = auto()
    RESERVED = auto()  # sent as 0, not looked at
    ZERO = auto()  # must be 0
    DERIVED = auto()  # follows from the packet's other parts


#: Kinds that are values of the named tuple
VALUES = (Kind.UNSIGNED, Kind.SIGNED, Kind.FLAG)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header."""

    name: str
    bits: int
    kind: Kind = Kind.UNSIGNED

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest value that fit."""
        if self.kind is Kind.SIGNED:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """A header's name in the specification, and its fields."""

    name: str
    fields: tuple[Field, ...]

    @property
    def size_bytes(self) -> int:
        """The header's length."""
        return sum(field.bits for field in self.fields) // 8


def _reserved(bits: int) -> Field:
    return Field("reserved", bits, Kind.RESERVED)


def _flag(name: str) -> Field:
    return Field(name, 1, Kind.FLAG)


#: The first nine bits of every reliability and endpoint header
_TYPE_AND_NEXT = (Field("type", 4, Kind.ZERO), Field("next", 5, Kind.ZERO))

LAYOUTS: dict[type[Header], Layout] = {
    BTH: Layout(
        "BTH",
        (
            Field("opcode", 8),
            _flag("se"),
            _flag("m"),
            Field("pad", 2, Kind.DERIVED),
            Field("tver", 4, Kind.ZERO),
            Field("p_key", 16),
            Field("variant", 8, Kind.RESERVED),
            Field("dest_qp", 24),
            _flag("ack_request"),
            _flag("r"),
            _flag("rtx"),
            Field("ts", 1, Kind.DERIVED),
            _reserved(4),
            Field("psn", 24),
        ),
    ),
    METH: Layout("METH", (Field("rqmsn", 16), Field("msn", 16))),
    TSETH: Layout(
        "TSETH", (Field("tx_timestamp", 16), _flag("tsr"), _reserved(11), Field("ftype", 4))
    ),
    RETH: Layout("RETH", (Field("va", 64), Field("r_key", 32), Field("dma_length", 32))),
    ImmDt: Layout("ImmDt", (Field("value", 32),)),
    AETH: Layout("AETH", (Field("syndrome", 8), Field("msn", 24))),
    SETH: Layout(
        "SETH",
        (
            *_TYPE_AND_NEXT,
            Field("m", 2),
            _reserved(3),
            _flag("pr"),
            _reserved(1),
            Field("ack_psn_offset", 16, Kind.SIGNED),
            Field("entropy", 32),
            Field("spdcid", 16),
            Field("dpdcid", 16),
            _reserved(8),
            Field("cack_psn", 24),
            Field("cc_type", 4),
            Field("cc_flags", 4),
            Field("mpr", 8),
            Field("sack_offset", 16, Kind.SIGNED),
            Field("sack_bitmap", 64),
        ),
    ),
    CCState: Layout(
        "CC_STATE",
        (
            Field("tx_timestamp", 16),
            _reserved(1),
            Field("ooo_count", 15),
            _flag("restore_cwnd"),
            Field("rcv_cwnd_pen", 7),
            Field("rcvd_bytes", 24),
        ),
    ),
    NETH: Layout(
        "NETH",
        (
            *_TYPE_AND_NEXT,
            _reserved(7),
            Field("reason", 8),
            Field("vendor", 8),
            Field("entropy", 32),
            Field("spdcid", 16),
            Field("dpdcid", 16),
            _reserved(8),
            Field("nack_psn", 24),
            Field("cc_type", 4),
            Field("cc_flags", 4),
            _reserved(8),
            Field("tx_timestamp", 16),
        ),
    ),
    PETH: Layout(
        "PETH",
        (
            *_TYPE_AND_NEXT,
            _reserved(15),
            Field("vendor", 8),
            Field("probe_id", 16),
            _reserved(16),
            Field("spdcid", 16),
            Field("dpdcid", 16),
            Field("tx_timestamp", 16),
            _flag("tsr"),
            _reserved(11),
            Field("ftype", 4),
        ),
    ),
    ERTH: Layout(
        "ERTH",
        (
            *_TYPE_AND_NEXT,
            _reserved(5),
            Field("op", 2),
            _reserved(8),
            Field("vendor", 8),
            Field("port_status_mask", 32),
            _reserved(32),
            Field("tx_timestamp", 16),
            _flag("tsr"),
            _reserved(11),
            Field("ftype", 4),
        ),
    ),
    EETH: Layout(
        "EETH",
        (
            *_TYPE_AND_NEXT,
            _reserved(3),
            Field("op", 2),
            _reserved(2),
            _reserved(208),
            Field("tx_timestamp", 16),
            _reserved(48),
        ),
    ),
}


_CHECKS: dict[type[Header], tuple[tuple[str, int, int], ...]] = {
    header: tuple((f.name, *f.limits) for f in layout.fields if f.kind in VALUES)
    for header, layout in LAYOUTS.items()
}


def check(header: Header) -> None:
    """Raise EncodeError for the first value that does not fit its field."""
    for name, low, high in _CHECKS[type(header)]:
        value = getattr(header, name)
        if not (isinstance(value, int) and low <= value <= high):
            raise EncodeError(LAYOUTS[type(header)].name, name, value, f"{low}..{high}")
