"""Serial numbers: short fields on the wire, numbers without an end inside.

PSN (24 bits), MSN and RQMSN (16 bits) wrap on the wire. Inside the core they never do: the first
PSN of a queue pair is its start PSN, and a field is expanded next to a number that is near it.
"""

from __future__ import annotations

PSN_MASK = (1 << 24) - 1
PSN_HALF = 1 << 23
MSN_MASK = (1 << 16) - 1
MSN_HALF = 1 << 15
#: The MSN of a transport ACK has 24 bits, that of a request 16: the low 16 are compared
AETH_MSN_MASK = (1 << 24) - 1


def expand_psn(psn: int, near: int) -> int:
    """The number whose low 24 bits are `psn` and which is in near - 2^23 .. near + 2^23 - 1."""
    return near + ((psn - near + PSN_HALF & PSN_MASK) - PSN_HALF)


def expand_msn(msn: int, near: int) -> int:
    """The number whose low 16 bits are those of `msn`, in near - 2^15 .. near + 2^15 - 1."""
    return near + ((msn - near + MSN_HALF & MSN_MASK) - MSN_HALF)
