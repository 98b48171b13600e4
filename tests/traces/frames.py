"""The words in which trace files describe frames: scapy's layers and a few of our own.

A description is a scapy expression, e.g. `Ether()/IPv6(dst="5f00:0:801:1001::")/payload(64)`. Scapy
fills in what follows from the rest (lengths, next headers) and is at the same time the independent
word on how such a frame looks.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

with warnings.catch_warnings():  # scapy imports ciphers that its own dependency calls old
    warnings.simplefilter("ignore")
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import (
        IPv6,
        IPv6ExtHdrDestOpt,
        IPv6ExtHdrHopByHop,
        IPv6ExtHdrRouting,
        IPv6ExtHdrSegmentRouting,
    )
    from scapy.layers.l2 import ARP, Ether
    from scapy.packet import Packet, Raw

ETHERNET_BYTES = 14
IPV6_BYTES = 40

# MRC opcodes: docs/wire-format.md
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = (
    0xC6,
    0xC7,
    0xC8,
    0xC9,
    0xCA,
    0xCB,
)


class FrameError(ValueError):
    """A description that is not an expression, or does not describe a frame."""


def payload(size: int) -> Raw:
    """`size` bytes, each telling its place: 00 01 02 …"""
    return Raw((bytes(range(256)) * (size // 256 + 1))[:size])


def octets(text: str) -> Raw:
    """Bytes given in hexadecimal; blanks do not count."""
    return Raw(bytes.fromhex(text))


def first(size: int, frame: Packet) -> Raw:
    """The first `size` bytes of a frame: what trimming leaves."""
    return Raw(bytes(frame)[:size])


def mrc(opcode: int, *, psn: int = 0, size: int = 0, qp: int = 0x11) -> Packet:
    """UDP and an MRC write of `size` payload bytes: BTH METH TSETH RETH [ImmDt] payload ICRC."""
    meth = bytes.fromhex("0000 0007")
    tseth = bytes.fromhex("1234 0001")
    reth = bytes.fromhex("0000 7f00 1000 0000  0000 0abc") + size.to_bytes(4, "big")
    immediate = bytes.fromhex("cafe f00d") if opcode in (WRITE_LAST_IMM, WRITE_ONLY_IMM) else b""
    udp = UDP(sport=0xC001, dport=4791, chksum=0)
    bth = BTH(opcode=opcode, pkey=0xFFFF, dqpn=qp, psn=psn)
    return udp / bth / Raw(meth + tseth + reth + immediate + bytes(payload(size)))


VOCABULARY: Mapping[str, Any] = {
    "ARP": ARP,
    "BTH": BTH,
    "DestOpt": IPv6ExtHdrDestOpt,
    "Ether": Ether,
    "HopByHop": IPv6ExtHdrHopByHop,
    "IP": IP,
    "IPv6": IPv6,
    "Raw": Raw,
    "Routing": IPv6ExtHdrRouting,
    "SRH": IPv6ExtHdrSegmentRouting,
    "TCP": TCP,
    "UDP": UDP,
    "WRITE_FIRST": WRITE_FIRST,
    "WRITE_LAST": WRITE_LAST,
    "WRITE_LAST_IMM": WRITE_LAST_IMM,
    "WRITE_MIDDLE": WRITE_MIDDLE,
    "WRITE_ONLY": WRITE_ONLY,
    "WRITE_ONLY_IMM": WRITE_ONLY_IMM,
    "first": first,
    "mrc": mrc,
    "octets": octets,
    "payload": payload,
}


def describe(text: str, names: Mapping[str, Packet]) -> Packet:
    """Evaluate a description; `names` are the trace's own definitions.

    Raises:
        FrameError: with the text and what is wrong about it.
    """
    try:
        tree = ast.parse(text, mode="eval")
        value = eval(
            compile(tree, "<frame>", "eval"),
            {"__builtins__": {}, **VOCABULARY, **{k: v.copy() for k, v in names.items()}},
        )
    except Exception as error:
        raise FrameError(f"{text!r}: {type(error).__name__}: {error}") from error
    if not isinstance(value, Packet):
        raise FrameError(f"{text!r}: is a {type(value).__name__}, not a frame")
    return value


def build(text: str, names: Mapping[str, Packet]) -> bytes:
    """The bytes of a described frame; raises FrameError."""
    packet = describe(text, names)
    try:
        return bytes(packet)
    except Exception as error:
        raise FrameError(f"{text!r}: {type(error).__name__}: {error}") from error
