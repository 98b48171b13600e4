"""Ring collectives: reduce-scatter, all-gather, and all-reduce, which is one after the other.

Every rank sends to the next and receives from the one before. Of n ranks, with blocks b modulo n:

    reduce-scatter, step s = 0..n-2:  rank r sends block r-s-1 and receives block r-s-2, to which it
                                      adds its own; after the last, block r of rank r is whole
    all-gather, step t = 0..n-2:      rank r sends block r-t and receives block r-t-1

Blocks travel in chunks; a chunk goes on to its next step as soon as it is there, whatever the
others do.

In the reduce-scatter a chunk lands in staging memory: `depth` places (chunk number modulo depth)
for each step. It is reduced where it is and sent on from there. When that is acknowledged in all
steps, the rank before gets credit for the chunk `depth` further on. Chunk c waits for nobody's
chunk beyond c, so this cannot come to a deadlock.

In the all-gather a chunk lands in the result, and is sent on from there. No memory that is being
sent is ever written: what a rank sends of its own in place is copied first.
"""

from __future__ import annotations

from host.collectives.blocks import Blocks
from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.group import Group
from host.collectives.link import Incoming, Outgoing
from host.collectives.messages import Landing, Signature
from host.collectives.operation import Operation, check_indices
from host.collectives.transport import overlap


class Ring(Operation):
    """A reduce-scatter (if `reduce_op`), an all-gather (if `gather`), or both.

    `mine` are the elements to contribute and `result` those that come of it: whole vectors of
    `blocks`, or this rank's block where only one is contributed or wanted.
    """

    def __init__(
        self,
        group: Group,
        signature: Signature,
        data_type: DataType,
        blocks: Blocks,
        mine: memoryview,
        result: memoryview,
        *,
        reduce_op: ReduceOp | None,
        gather: bool,
    ) -> None:
        super().__init__(group, signature, data_type)
        self._size = group.size
        self._rank = group.rank
        self._next = (group.rank + 1) % group.size
        self._previous = (group.rank - 1) % group.size
        self._blocks = blocks
        self._mine = mine
        self._result = result
        self._reduce_op = reduce_op
        self._gather = gather
        self._element_bytes = data_type.size_bytes
        self._reduce_steps = group.size - 1 if reduce_op is not None else 0
        self._steps = self._reduce_steps + (group.size - 1 if gather else 0)
        #: Chunks of the longest block: index of a chunk in a step = step * width + chunk
        self._width = blocks.most_chunks
        check_indices(self._steps * self._width)
        self._depth = min(signature.depth, self._width)
        self._chunk_bytes = blocks.chunk * self._element_bytes
        self._to_next: Outgoing
        self._from_previous: Incoming
        #: Of each chunk number, steps whose place in staging memory is still used
        self._staged_left: list[int] = []
        self._staged_done = 0
        self._granted = signature.depth
        self._staging = memoryview(b"")
        self._bounce: memoryview | None = None

    # --- blocks ---

    def _received_block(self, step: int) -> int:
        """The block that comes in a step; it is the one that is sent in the step after it."""
        if step < self._reduce_steps:
            return (self._rank - step - 2) % self._size
        return (self._rank - (step - self._reduce_steps) - 1) % self._size

    def _sent_block(self, step: int) -> int:
        if self._reduce_steps and step < self._reduce_steps:
            return (self._rank - step - 1) % self._size
        return (self._rank - (step - self._reduce_steps)) % self._size

    def _bytes(self, view: memoryview, block: int, chunk: int, *, first: int = 0) -> memoryview:
        """A chunk in a vector that begins at element `first`."""
        start, length = self._blocks.span(block, chunk)
        begin = (start - first) * self._element_bytes
        return view[begin : begin + length * self._element_bytes]

    def _own(self, block: int, chunk: int) -> memoryview:
        """A chunk of what this rank contributes to a reduction."""
        return self._bytes(self._mine, block, chunk)

    def _of_result(self, block: int, chunk: int) -> memoryview:
        if self._gather:
            return self._bytes(self._result, block, chunk)
        return self._bytes(self._result, block, chunk, first=self._blocks.start(self._rank))

    def _place(self, chunk: int, step: int) -> int:
        """Where a chunk of a step lands in the staging memory; the same on all ranks."""
        return (chunk % self._depth * self._reduce_steps + step) * self._chunk_bytes

    # --- running ---

    def _begin(self) -> None:
        if self._blocks.count == 0:
            return
        if self._size == 1:
            self._copy_own()
            return
        landings: list[Landing] = []
        if self._reduce_steps:
            # A byte array: its contents are of no interest before they are written
            self._staging = memoryview(bytearray(self._staging_bytes()))
            landings.append(self._register(self._staging))
            self._staged_left = [
                sum(
                    chunk < self._blocks.chunks(self._received_block(step))
                    for step in range(self._reduce_steps)
                )
                for chunk in range(self._width)
            ]
            if overlap(self._mine, self._result):
                self._bounce = memoryview(bytearray(self._depth * self._chunk_bytes))
        else:
            self._copy_own()
        if self._gather:
            landings.append(self._register(self._result))
        expected = sum(
            self._blocks.chunks(self._received_block(step)) for step in range(self._steps)
        )
        self._to_next = self._send_to(self._next, self._sent)
        self._from_previous = self._receive_from(self._previous, expected, self._arrived, *landings)
        if self._reduce_steps:
            # A number that no step has needs no place
            self._count_staged()
        first = self._sent_block(0)
        chunks = self._blocks.chunks(first)
        for chunk in range(min(chunks, self._depth) if self._reduce_steps else chunks):
            self._inject(chunk)

    def _staging_bytes(self) -> int:
        return self._depth * self._reduce_steps * self._chunk_bytes

    def _copy_own(self) -> None:
        """This rank's block is in the result from the beginning."""
        begin = self._blocks.start(self._rank) * self._element_bytes
        target = self._result[begin : begin + self._mine.nbytes]
        if not overlap(target, self._mine):
            target[:] = self._mine

    def _inject(self, chunk: int) -> None:
        """Send a chunk of what is this rank's own, the first of its steps."""
        block = self._sent_block(0)
        if not self._reduce_steps:
            self._send(0, chunk, self._of_result(block, chunk))
            return
        contents = self._own(block, chunk)
        if self._bounce is not None:
            # It will be overwritten while it may still be sent again
            begin = chunk % self._depth * self._chunk_bytes
            copy = self._bounce[begin : begin + contents.nbytes]
            copy[:] = contents
            contents = copy
        self._send(0, chunk, contents)

    def _send(self, step: int, chunk: int, contents: memoryview) -> None:
        index = step * self._width + chunk
        if step < self._reduce_steps:
            self._to_next.push_windowed(step, chunk, index, contents, self._place(chunk, step))
            return
        start, _ = self._blocks.span(self._sent_block(step), chunk)
        landing = 1 if self._reduce_steps else 0
        self._to_next.push(step, chunk, index, contents, start * self._element_bytes, landing)

    def _arrived(self, index: int) -> None:
        step, chunk = divmod(index, self._width)
        block = self._received_block(step)
        if step >= self._reduce_steps:
            if step + 1 < self._steps:
                self._send(step + 1, chunk, self._of_result(block, chunk))
            return
        assert self._reduce_op is not None
        own = self._own(block, chunk)
        begin = self._place(chunk, step)
        staged = self._staging[begin : begin + own.nbytes]
        vector = self.data_type.vector
        if step + 1 < self._reduce_steps:
            self._reduce_op.into(vector(staged), vector(own))
            self._send(step + 1, chunk, staged)
            return
        whole = self._of_result(block, chunk)
        self._reduce_op.into(vector(staged), vector(own), vector(whole))
        self._unstage(chunk)
        if self._gather:
            self._send(step + 1, chunk, whole)

    def _sent(self, index: int) -> None:
        step, chunk = divmod(index, self._width)
        if step >= self._reduce_steps:
            return
        if step:
            self._unstage(chunk)
        elif chunk + self._depth < self._blocks.chunks(self._sent_block(0)):
            self._inject(chunk + self._depth)

    def _unstage(self, chunk: int) -> None:
        """A place in staging memory is free: what was there was reduced and has left."""
        self._staged_left[chunk] -= 1
        if not self._staged_left[chunk]:
            self._count_staged()

    def _count_staged(self) -> None:
        done, left = self._staged_done, self._staged_left
        while done < self._width and not left[done]:
            done += 1
        self._staged_done = done
        limit = min(done + self._depth, self._width)
        # Several together, but never so many that the other has none to go on with
        if limit - self._granted >= min(max(1, self._depth // 4), self._width - self._granted) > 0:
            self._granted = limit
            self._from_previous.grant(limit)
