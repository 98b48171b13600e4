"""A rank's way to one other: queue pairs ("lanes"), mailboxes, and the data streams upon them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from host.collectives.messages import (
    CREDIT_OFFSET,
    MAX_INDEX,
    READY_OFFSET,
    SEQUENCES,
    Immediate,
    Kind,
    Landing,
    Signature,
    decode_ready,
    encode_ready,
)
from host.collectives.transport import Qp

if TYPE_CHECKING:
    from host.collectives.group import Group

#: Chunks that may be on their way to a peer; the rest waits here
MAX_POSTED_CHUNKS: Final = 64
#: Work requests of a queue pair, each way: for the chunks, and READY, CREDIT and ABORT among them
MAX_WR: Final = 2 * MAX_POSTED_CHUNKS

_CREDIT_BYTE: Final = b"\0"


class Link:
    """The way to a peer and back.

    Attributes:
        lanes: queue pairs; chunk i goes on lane i modulo their number. All else goes on the first.
        mailbox: where this peer writes READY and ABORT to.
        remote_mailbox: where this rank writes them to, at the peer.
    """

    __slots__ = (
        "_group",
        "_in_sequence",
        "_out_sequence",
        "_ready",
        "incoming",
        "lanes",
        "mailbox",
        "outgoing",
        "peer",
        "remote_mailbox",
    )

    def __init__(
        self,
        group: Group,
        peer: int,
        lanes: Sequence[Qp],
        mailbox: memoryview,
        remote_mailbox: Landing,
    ) -> None:
        self._group = group
        self.peer = peer
        self.lanes = tuple(lanes)
        self.mailbox = mailbox
        self.remote_mailbox = remote_mailbox
        self.outgoing: Outgoing | None = None
        self.incoming: Incoming | None = None
        self._out_sequence = 0
        self._in_sequence = 0
        #: A READY of an operation that has not begun here: its sequence
        self._ready: int | None = None
        for lane in self.lanes:
            for _ in range(MAX_WR):
                lane.post_recv(0)

    # --- streams ---

    def open_outgoing(self, outgoing: Outgoing) -> int:
        """An operation has data for the peer. Returns the stream's sequence."""
        assert self.outgoing is None
        sequence = self._out_sequence
        self._out_sequence = (sequence + 1) % SEQUENCES
        self.outgoing = outgoing
        return sequence

    def open_incoming(self, incoming: Incoming) -> int:
        """An operation expects data of the peer. Returns the stream's sequence."""
        assert self.incoming is None
        sequence = self._in_sequence
        self._in_sequence = (sequence + 1) % SEQUENCES
        self.incoming = incoming
        return sequence

    def take_early_ready(self, outgoing: Outgoing) -> None:
        """The peer may have begun before this rank did."""
        sequence, self._ready = self._ready, None
        if sequence is not None:
            self._got_ready(sequence)

    # --- messages ---

    def control(self, imm: Immediate, contents: bytes, offset: int) -> None:
        """Write to the peer's mailbox, and signal it."""
        addr, rkey = self.remote_mailbox
        wr_id = self._group.posted(None, 0)
        self.lanes[0].post_write_imm(wr_id, contents, addr + offset, rkey, imm.encode())

    def received(self, imm: Immediate) -> str | None:
        """A signal came. Returns what is wrong with it, if something is."""
        if imm.kind is Kind.DATA:
            incoming = self.incoming
            if incoming is None or incoming.sequence != imm.sequence:
                return f"chunk {imm.number} of stream {imm.sequence}, for which nothing is ready"
            return incoming.received(imm.number)
        if imm.kind is Kind.READY:
            return self._got_ready(imm.sequence)
        outgoing = self.outgoing
        # A credit may come when all is sent
        if outgoing is not None and outgoing.sequence == imm.sequence:
            outgoing.credit(imm.number)
        return None

    def _got_ready(self, sequence: int) -> str | None:
        outgoing = self.outgoing
        if outgoing is None:
            if sequence != self._out_sequence or self._ready is not None:
                return f"READY of stream {sequence}, expected {self._out_sequence}"
            self._ready = sequence
            return None
        if sequence == outgoing.sequence:
            return outgoing.ready(*decode_ready(self.mailbox))
        if sequence != self._out_sequence:
            return f"READY of stream {sequence}, expected {outgoing.sequence}"
        # The peer has all of this operation and goes on; here, completions are still to come
        self._ready = sequence
        return None


def ignore(_: int) -> None:
    """For streams of which nobody needs to know what is sent, or what came."""


class Outgoing:
    """The chunks that one operation sends to one rank.

    A chunk is pushed when its contents are there; it is posted when the peer is ready for it and
    the queue pair has room. A windowed one also needs its place in the peer's staging memory: its
    chunk number must be below the peer's credit. `sent` is called with the index of a chunk whose
    memory is free again.
    """

    __slots__ = (
        "_free",
        "_group",
        "_landings",
        "_limit",
        "_link",
        "_sent",
        "_signature",
        "_windowed",
        "posted",
        "sequence",
    )

    def __init__(
        self, group: Group, link: Link, signature: Signature, sent: Callable[[int], None]
    ) -> None:
        self._group = group
        self._link = link
        self._signature = signature
        self._sent = sent
        self._landings: tuple[Landing, ...] | None = None
        #: Chunks below this number have a place in the peer's staging memory
        self._limit = signature.depth
        #: (chunk, step, index, contents, where from the landing's start), the least first
        self._windowed: list[tuple[int, int, int, memoryview, int]] = []
        self._free: list[tuple[int, int, int, memoryview, int, int]] = []
        #: Chunks that are on their way
        self.posted = 0
        self.sequence = link.open_outgoing(self)
        link.take_early_ready(self)

    @property
    def idle(self) -> bool:
        """Nothing waits, nothing is on its way."""
        return not (self.posted or self._windowed or self._free)

    def push(
        self, step: int, chunk: int, index: int, contents: memoryview, offset: int, landing: int
    ) -> None:
        """Send a chunk when it may be. Of several, that of the lowest number goes first."""
        heapq.heappush(self._free, (chunk, step, index, contents, offset, landing))
        self._pump()

    def push_windowed(
        self, step: int, chunk: int, index: int, contents: memoryview, offset: int
    ) -> None:
        """The same for a chunk that goes to the peer's staging memory, landing 0."""
        heapq.heappush(self._windowed, (chunk, step, index, contents, offset))
        self._pump()

    def ready(self, signature: Signature, landings: tuple[Landing, ...]) -> str | None:
        """The peer is ready. Returns what is wrong with it, if something is."""
        if signature != self._signature:
            self._group.mismatch(self._link.peer, self._signature, signature)
            return None
        if self._landings is not None:
            return f"READY of stream {self.sequence}, twice"
        self._landings = landings
        self._pump()
        return None

    def credit(self, limit: int) -> None:
        """The peer has room for chunks below `limit`."""
        self._limit = max(self._limit, limit)
        self._pump()

    def close(self) -> None:
        """The operation is over; of what is on its way it need not know."""
        self._sent = ignore

    def completed(self, index: int) -> None:
        """A chunk is acknowledged."""
        self.posted -= 1
        self._sent(index)
        self._pump()

    def _pump(self) -> None:
        landings = self._landings
        if landings is None or self._group.failure is not None:
            return
        link = self._link
        windowed, free = self._windowed, self._free
        room = MAX_POSTED_CHUNKS - self.posted
        while room > 0:
            if windowed and windowed[0][0] < self._limit and not (free and free[0] < windowed[0]):
                _, _, index, contents, offset = heapq.heappop(windowed)
                addr, rkey = landings[0]
            elif free:
                _, _, index, contents, offset, landing = heapq.heappop(free)
                addr, rkey = landings[landing]
            else:
                return
            self.posted += 1
            room -= 1
            link.lanes[index % len(link.lanes)].post_write_imm(
                self._group.posted(self, index),
                contents,
                addr + offset,
                rkey,
                Immediate(Kind.DATA, self.sequence, index).encode(),
            )


class Incoming:
    """The chunks that one operation expects of one rank, `expected` in all.

    `arrived` is called with the index of each; then it is in memory.
    """

    __slots__ = ("_arrived", "_link", "_seen", "left", "sequence")

    def __init__(self, link: Link, expected: int, arrived: Callable[[int], None]) -> None:
        self._link = link
        self._arrived = arrived
        self._seen: set[int] = set()
        self.left = expected
        self.sequence = link.open_incoming(self)

    def announce(self, signature: Signature, landings: tuple[Landing, ...]) -> None:
        """Tell the peer that it may write."""
        self._link.control(
            Immediate(Kind.READY, self.sequence, 0), encode_ready(signature, landings), READY_OFFSET
        )

    def grant(self, limit: int) -> None:
        """Tell the peer that there is room for chunks below `limit`."""
        assert limit < MAX_INDEX
        self._link.control(
            Immediate(Kind.CREDIT, self.sequence, limit), _CREDIT_BYTE, CREDIT_OFFSET
        )

    def close(self) -> None:
        """The operation is over."""
        self._arrived = ignore

    def received(self, index: int) -> str | None:
        """A chunk came. Returns what is wrong with it, if something is."""
        if index in self._seen or not self.left:
            return f"chunk {index} of stream {self.sequence} came twice"
        self._seen.add(index)
        self.left -= 1
        self._arrived(index)
        return None
