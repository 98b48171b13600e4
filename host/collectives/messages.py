"""What ranks tell each other: the immediates of their WriteIMMs, and the contents of mailboxes.

Everything is a WRITE with immediate. A chunk of data and its signal are one message, so that the
signal costs no packet; MRC delivers the immediate when the data of that message, and of all before
it on the queue pair, has landed.

    bits 31-30   kind
    bits 29-22   sequence: counts the operations that send data this way, modulo 256
    bits 21-0    DATA: number of the chunk; CREDIT: first chunk that must wait

READY and ABORT have more to say, and write it to the receiver's mailbox for this sender.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from host.qp.work import WcStatus

_KIND_SHIFT: Final = 30
_SEQUENCE_SHIFT: Final = 22
SEQUENCES: Final = 256
#: Chunks that one operation may send to one rank
MAX_INDEX: Final = 1 << _SEQUENCE_SHIFT

_SIGNATURE = struct.Struct(">BBBxHHHxxQQ")
_LANDING = struct.Struct(">QI")
_ABORT = struct.Struct(">BBHH")

MAX_LANDINGS: Final = 2
_READY_BYTES: Final = _SIGNATURE.size + MAX_LANDINGS * _LANDING.size
#: A mailbox: READY, ABORT, and a byte that CREDIT writes, for a message has at least one
READY_OFFSET: Final = 0
ABORT_OFFSET: Final = 64
CREDIT_OFFSET: Final = 80
MAILBOX_BYTES: Final = 96


class Kind(IntEnum):
    """What a WriteIMM is."""

    #: A chunk of an operation
    DATA = 0
    #: The receiver has begun the operation: this is what it is, and where data may go
    READY = 1
    #: More of the receiver's staging memory is free
    CREDIT = 2
    #: The group has failed
    ABORT = 3


class Immediate(NamedTuple):
    """The 32 bits, taken apart."""

    kind: Kind
    sequence: int
    number: int

    def encode(self) -> int:
        """As they travel."""
        return self.kind << _KIND_SHIFT | self.sequence << _SEQUENCE_SHIFT | self.number

    @classmethod
    def decode(cls, imm: int) -> Immediate:
        """The inverse of `encode`; any 32 bits mean something."""
        return cls(
            Kind(imm >> _KIND_SHIFT),
            imm >> _SEQUENCE_SHIFT & SEQUENCES - 1,
            imm & MAX_INDEX - 1,
        )


class Landing(NamedTuple):
    """Where data of an operation may be written."""

    addr: int
    rkey: int


@dataclass(frozen=True, slots=True)
class Signature:
    """What both ends of a way must agree on: code of the collective, types by number, sizes.

    `count` and `chunk` in elements, `depth` in chunks; `root` 0 where there is none.
    """

    collective: int
    data_type: int
    reduce_op: int
    size: int
    root: int
    depth: int
    count: int
    chunk: int

    def encode(self) -> bytes:
        """As it travels."""
        return _SIGNATURE.pack(
            self.collective, self.data_type, self.reduce_op,
            self.size, self.root, self.depth, self.count, self.chunk,
        )  # fmt: skip


def encode_ready(signature: Signature, landings: tuple[Landing, ...]) -> bytes:
    """The contents of a READY."""
    assert 1 <= len(landings) <= MAX_LANDINGS
    filled = landings + (Landing(0, 0),) * (MAX_LANDINGS - len(landings))
    return signature.encode() + b"".join(_LANDING.pack(*landing) for landing in filled)


def decode_ready(mailbox: memoryview) -> tuple[Signature, tuple[Landing, ...]]:
    """The inverse, from the receiver's mailbox."""
    told = mailbox[READY_OFFSET : READY_OFFSET + _READY_BYTES]
    signature = Signature(*_SIGNATURE.unpack_from(told))
    first = _SIGNATURE.size
    return signature, tuple(
        Landing(*_LANDING.unpack_from(told, first + number * _LANDING.size))
        for number in range(MAX_LANDINGS)
    )


class Reason(Enum):
    """Why a group failed."""

    QP_ERROR = "its queue pair ended"
    MISMATCH = "the two run different collectives"
    PROTOCOL = "a message came that cannot be"
    ABORTED = "the application aborted"


_REASONS: Final = tuple(Reason)
_STATUSES: Final = tuple(WcStatus)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a group failed: what rank `rank` saw of rank `peer`.

    `status` is the completion status that the queue pair ended with. `detail` is known where it
    happened, not to the ranks that were told.
    """

    reason: Reason
    rank: int
    peer: int
    status: WcStatus | None = None
    detail: str = ""

    def __str__(self) -> str:
        if self.reason is Reason.ABORTED:
            return f"rank {self.rank}: {self.reason.value}"
        text = f"rank {self.rank}, of rank {self.peer}: {self.reason.value}"
        if self.status is not None:
            text += f", {self.status.value}"
        return f"{text}: {self.detail}" if self.detail else text

    def encode(self) -> bytes:
        """The contents of an ABORT."""
        status = len(_STATUSES) if self.status is None else _STATUSES.index(self.status)
        return _ABORT.pack(_REASONS.index(self.reason), status, self.rank, self.peer)

    @classmethod
    def decode(cls, mailbox: memoryview) -> Failure:
        """The inverse, from the receiver's mailbox."""
        reason, status, rank, peer = _ABORT.unpack_from(mailbox, ABORT_OFFSET)
        return cls(
            _REASONS[reason] if reason < len(_REASONS) else Reason.PROTOCOL,
            rank,
            peer,
            _STATUSES[status] if status < len(_STATUSES) else None,
        )
