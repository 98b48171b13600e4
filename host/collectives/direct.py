"""Collectives whose data lands where it belongs: all-to-all, send and receive, broadcast."""

from __future__ import annotations

from host.collectives.blocks import Blocks
from host.collectives.datatypes import DataType
from host.collectives.group import Group
from host.collectives.link import Outgoing, ignore
from host.collectives.messages import Signature
from host.collectives.operation import Operation, check_indices
from host.collectives.transport import overlap


class AllToAll(Operation):
    """Block p of every rank r goes to rank p, as its block r.

    All at once; rank r begins with rank r+1, so that not all send to one. In place, what is to be
    sent is copied first, for blocks of others land upon it.
    """

    def __init__(
        self,
        group: Group,
        signature: Signature,
        data_type: DataType,
        blocks: Blocks,
        mine: memoryview,
        result: memoryview,
    ) -> None:
        super().__init__(group, signature, data_type)
        self._blocks = blocks
        self._mine = mine
        self._result = result
        check_indices(blocks.most_chunks)

    def _begin(self) -> None:
        blocks, rank, size = self._blocks, self.group.rank, self.group.size
        if not blocks.count:
            return
        element_bytes = self.data_type.size_bytes
        in_place = overlap(self._mine, self._result)
        mine = memoryview(bytes(self._mine)) if in_place and size > 1 else self._mine
        if not in_place:
            begin = blocks.start(rank) * element_bytes
            end = begin + blocks.length(rank) * element_bytes
            self._result[begin:end] = mine[begin:end]
        if size == 1:
            return
        landing = self._register(self._result)
        others = [(rank + shift) % size for shift in range(1, size)]
        for peer in others:
            self._receive_from(peer, blocks.chunks(peer), ignore, landing)
        for peer in others:
            outgoing = self._send_to(peer, ignore)
            for chunk in range(blocks.chunks(peer)):
                start, length = blocks.span(peer, chunk)
                contents = mine[start * element_bytes : (start + length) * element_bytes]
                there, _ = blocks.span(rank, chunk)
                outgoing.push(0, chunk, chunk, contents, there * element_bytes, 0)


class SendReceive(Operation):
    """Send to a rank, receive from one, or both; a rank may be its own."""

    def __init__(
        self,
        group: Group,
        signature: Signature,
        data_type: DataType,
        blocks: Blocks,
        mine: memoryview | None,
        result: memoryview | None,
        *,
        to: int | None,
        source: int | None,
    ) -> None:
        super().__init__(group, signature, data_type)
        self._blocks = blocks
        self._mine = mine
        self._result = result
        self._to = to
        self._source = source
        check_indices(blocks.most_chunks)

    def _begin(self) -> None:
        blocks = self._blocks
        if not blocks.count:
            return
        rank = self.group.rank
        mine, result = self._mine, self._result
        if self._to == self._source == rank:
            assert mine is not None and result is not None
            result[:] = mine
            return
        if result is not None:
            assert self._source is not None
            landing = self._register(result)
            self._receive_from(self._source, blocks.chunks(0), ignore, landing)
        if mine is not None:
            assert self._to is not None
            element_bytes = self.data_type.size_bytes
            outgoing = self._send_to(self._to, ignore)
            for chunk in range(blocks.chunks(0)):
                start, length = blocks.span(0, chunk)
                begin = start * element_bytes
                contents = mine[begin : begin + length * element_bytes]
                outgoing.push(0, chunk, chunk, contents, begin, 0)


class Broadcast(Operation):
    """The root's vector to all, in a chain: root, root+1, ... Every chunk goes on at once."""

    def __init__(
        self,
        group: Group,
        signature: Signature,
        data_type: DataType,
        blocks: Blocks,
        mine: memoryview | None,
        result: memoryview,
        *,
        root: int,
    ) -> None:
        super().__init__(group, signature, data_type)
        self._blocks = blocks
        self._mine = mine
        self._result = result
        self._root = root
        self._to_next: Outgoing | None = None
        check_indices(blocks.most_chunks)

    def _begin(self) -> None:
        blocks, rank, size = self._blocks, self.group.rank, self.group.size
        if not blocks.count:
            return
        chunks = blocks.chunks(0)
        place = (rank - self._root) % size
        if place < size - 1:
            self._to_next = self._send_to((rank + 1) % size, ignore)
        if place:
            landing = self._register(self._result)
            self._receive_from((rank - 1) % size, chunks, self._arrived, landing)
            return
        assert self._mine is not None
        if not overlap(self._mine, self._result):
            self._result[:] = self._mine
        for chunk in range(chunks):
            self._arrived(chunk)

    def _arrived(self, chunk: int) -> None:
        """A chunk is in this rank's memory."""
        if self._to_next is None:
            return
        start, length = self._blocks.span(0, chunk)
        element_bytes = self.data_type.size_bytes
        begin = start * element_bytes
        contents = self._result[begin : begin + length * element_bytes]
        self._to_next.push(0, chunk, chunk, contents, begin, 0)
