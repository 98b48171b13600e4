"""AETH syndromes that RC has and MRC has not (IBTA volume 1, tables 44 to 46).

ACK and the NAKs that end a queue pair are those of `host.qp.syndrome`.
"""

from __future__ import annotations

from enum import IntEnum

_KIND_SHIFT = 5
_VALUE_MASK = 0x1F


class AethKind(IntEnum):
    """The upper three bits."""

    ACK = 0
    RNR_NAK = 1
    NAK = 3


NAK_PSN_SEQUENCE_ERROR = 0x60


def rnr_nak(timer: int) -> int:
    """The syndrome of an RNR NAK with a timer code."""
    return AethKind.RNR_NAK << _KIND_SHIFT | timer


def kind_of(syndrome: int) -> int:
    """What a syndrome is: an `AethKind`, or a number that means nothing."""
    return syndrome >> _KIND_SHIFT


def value_of(syndrome: int) -> int:
    """The lower five bits: credits, RNR timer code, NAK code."""
    return syndrome & _VALUE_MASK
