"""What a switch does to a packet that meets a full queue, for tests and for tools.

The fabric's own switches do it in P4 (`p4src/include/queue_control.p4`).
"""

from __future__ import annotations

from host.wire.constants import (
    DSCP_SHIFT,
    ETHERNET_BYTES,
    IPV6_BYTES,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    SRH_FIXED_BYTES,
    TRIM_BYTES,
)

_FIRST_WORD_BYTES = 4
_LENGTH = slice(ETHERNET_BYTES + 4, ETHERNET_BYTES + 6)
_DSCP_IN_FIRST_WORD = 20 + DSCP_SHIFT


def trim(frame: bytes, dscp: int, keep_bytes: int | None = None) -> bytes:
    """An MRC frame cut to `keep_bytes`, with the outermost header's DSCP and length adapted.

    `keep_bytes` None: all headers there can be, of a frame of this encapsulation. A frame that is
    no longer than that only gets the DSCP.
    """
    if keep_bytes is None:
        keep_bytes = TRIM_BYTES
        next_header = frame[ETHERNET_BYTES + 6]
        if next_header == NEXT_HEADER_UDP:
            keep_bytes -= IPV6_BYTES
        elif next_header == NEXT_HEADER_ROUTING:
            keep_bytes += SRH_FIXED_BYTES + 8 * frame[ETHERNET_BYTES + IPV6_BYTES + 1]
    left = bytearray(frame[:keep_bytes])
    first_word = int.from_bytes(left[ETHERNET_BYTES : ETHERNET_BYTES + _FIRST_WORD_BYTES], "big")
    first_word &= ~(0x3F << _DSCP_IN_FIRST_WORD)
    first_word |= dscp << _DSCP_IN_FIRST_WORD
    left[ETHERNET_BYTES : ETHERNET_BYTES + _FIRST_WORD_BYTES] = first_word.to_bytes(4, "big")
    if len(left) < len(frame):
        left[_LENGTH] = (len(left) - ETHERNET_BYTES - IPV6_BYTES).to_bytes(2, "big")
    return bytes(left)
