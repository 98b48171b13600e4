"""AETH syndromes of transport ACKs and NAKs, and the completion status each one leads to.

The upper three bits say what it is (IBTA volume 1, section 9.7.5.1: 0 ACK, 3 NAK), the lower five
which NAK. The sources give no codes of MRC's own; here are the choices of this repository:

- An ACK has the credit count "invalid" (31), as of a queue pair without end-to-end credits.
- WriteIMM limit exceeded has the first code that IBTA leaves reserved.
- The MSN of an ACK is that of the last message completed, the MSN of a NAK that of the message
  refused; both as in METH, so that the first message of a queue pair is number 0.
"""

from __future__ import annotations

from enum import IntEnum

from host.qp.work import WcStatus

_KIND_SHIFT = 5
_KIND_ACK = 0


class Syndrome(IntEnum):
    """The syndromes sent."""

    ACK = 0x1F
    NAK_INVALID_REQUEST = 0x61
    NAK_REMOTE_ACCESS_ERROR = 0x62
    NAK_REMOTE_OPERATION_ERROR = 0x63
    NAK_WRITE_IMM_LIMIT_EXCEEDED = 0x65


#: IBTA volume 1, table 46 for the first three
STATUS_OF_NAK: dict[int, WcStatus] = {
    Syndrome.NAK_INVALID_REQUEST: WcStatus.REMOTE_INVALID_REQUEST_ERROR,
    Syndrome.NAK_REMOTE_ACCESS_ERROR: WcStatus.REMOTE_ACCESS_ERROR,
    Syndrome.NAK_REMOTE_OPERATION_ERROR: WcStatus.REMOTE_OPERATION_ERROR,
    Syndrome.NAK_WRITE_IMM_LIMIT_EXCEEDED: WcStatus.REMOTE_INVALID_REQUEST_ERROR,
}


def is_ack(syndrome: int) -> bool:
    """Whether a received syndrome acknowledges; its credit count does not matter."""
    return syndrome >> _KIND_SHIFT == _KIND_ACK
