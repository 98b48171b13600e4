"""The frame of priority-based flow control: IEEE 802.1Q-2022, clause 36, and 802.3-2022, annex 31D.

A MAC control frame to the address that bridges never forward, with the opcode 0x0101, a vector of
the priorities it speaks of, and for each of the eight a time in quanta of 512 bit times. Time 0
lets the priority go on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

DESTINATION: Final = bytes.fromhex("0180c2000001")
ETHERTYPE: Final = b"\x88\x08"
OPCODE: Final = 0x0101
PRIORITIES: Final = 8
QUANTUM_BITS: Final = 512
MAX_QUANTA: Final = 0xFFFF
#: The shortest Ethernet frame, without its FCS
FRAME_BYTES: Final = 60

_BODY = struct.Struct("!HH8H")
_BODY_AT: Final = 14


def encode_pause(source_mac: int, quanta: Mapping[int, int]) -> bytes:
    """The frame that pauses each priority of `quanta` for so many quanta."""
    vector = 0
    times = [0] * PRIORITIES
    for priority, time in quanta.items():
        vector |= 1 << priority
        times[priority] = time
    head = DESTINATION + source_mac.to_bytes(6, "big") + ETHERTYPE
    return (head + _BODY.pack(OPCODE, vector, *times)).ljust(FRAME_BYTES, b"\0")


def decode_pause(frame: bytes) -> dict[int, int] | None:
    """Quanta by priority, of the priorities it speaks of; None for any other frame."""
    if (
        frame[12:_BODY_AT] != ETHERTYPE
        or frame[:6] != DESTINATION
        or len(frame) < _BODY_AT + _BODY.size
    ):
        return None
    opcode, vector, *times = _BODY.unpack_from(frame, _BODY_AT)
    if opcode != OPCODE:
        return None
    return {priority: times[priority] for priority in range(PRIORITIES) if vector >> priority & 1}


def pause_ns(quanta: int, rate_bps: int) -> int:
    """How long so many quanta are at a link rate."""
    return -(-quanta * QUANTUM_BITS * 10**9 // rate_bps)
