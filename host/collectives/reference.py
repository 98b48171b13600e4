"""What a collective must come to, computed plainly; and contents that give errors away.

Contents are a function of seed, round, rank and place, so that a rank knows what any other rank
has, and any part of it, without having been told.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from host.collectives.blocks import Blocks
from host.collectives.datatypes import DataType, ReduceOp, Vector
from host.collectives.kinds import Collective

#: Multipliers of SplitMix64, as hash
_A: Final = np.uint64(0xBF58476D1CE4E5B9)
_B: Final = np.uint64(0x94D049BB133111EB)
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1
#: Bits of a float's random integer, all of which its mantissa holds
_FLOAT_BITS: Final = 24


def contents(
    data_type: DataType, count: int, *, seed: int, round_number: int, rank: int, start: int = 0
) -> Vector:
    """`count` elements of a rank from `start` on: all integers, and floats in -1..1."""
    key = (seed * 0x100000001B3 ^ round_number << 32 ^ rank + 1) * _GOLDEN & _MASK
    words: npt.NDArray[np.uint64] = np.arange(start, start + count, dtype=np.uint64)
    words += np.uint64(key)
    words ^= words >> np.uint64(30)
    words *= _A
    words ^= words >> np.uint64(27)
    words *= _B
    words ^= words >> np.uint64(31)
    if data_type is DataType.INT64:
        return words.view(np.int64)
    if data_type is DataType.INT32:
        return (words >> np.uint64(32)).astype(np.uint32).view(np.int32)
    whole = (words >> np.uint64(64 - _FLOAT_BITS)).astype(np.float32)
    return whole / np.float32(1 << _FLOAT_BITS - 1) - np.float32(1)


class Reference:
    """The results of one kind of collective, over and over.

    Sums of floats depend on their order; it is the ring's: of block b, rank b+1 first, rank b
    last. So results are compared bit by bit.
    """

    def __init__(
        self,
        collective: Collective,
        data_type: DataType,
        *,
        size: int,
        count: int,
        reduce_op: ReduceOp = ReduceOp.SUM,
        root: int = 0,
        seed: int = 0,
    ) -> None:
        self.collective = collective
        self.data_type = data_type
        self.size = size
        #: As in `Signature`: of the whole vector
        self.count = count
        self.reduce_op = reduce_op
        self.root = root
        self.seed = seed
        self._blocks = Blocks(count, size, max(1, count))
        #: What is the same for all ranks, of the latest round
        self._latest: tuple[int, Vector] | None = None

    def _of(self, rank: int, round_number: int, start: int, count: int) -> Vector:
        return contents(
            self.data_type,
            count,
            seed=self.seed,
            round_number=round_number,
            rank=rank,
            start=start,
        )

    def mine(self, rank: int, round_number: int) -> Vector:
        """What a rank contributes."""
        if self.collective is Collective.ALL_GATHER:
            blocks = self._blocks
            return self._of(rank, round_number, blocks.start(rank), blocks.length(rank))
        return self._of(rank, round_number, 0, self.count)

    def result(self, rank: int, round_number: int) -> Vector:
        """What a rank must have in the end."""
        blocks = self._blocks
        start, length = blocks.start(rank), blocks.length(rank)
        match self.collective:
            case Collective.ALL_TO_ALL:
                parts = [self._of(each, round_number, start, length) for each in range(self.size)]
                return np.concatenate(parts)
            case Collective.SEND_RECV:
                return self._of((rank - 1) % self.size, round_number, 0, self.count)
            case Collective.REDUCE_SCATTER:
                return self._common(round_number)[start : start + length]
        return self._common(round_number)

    def _common(self, round_number: int) -> Vector:
        if self._latest is None or self._latest[0] != round_number:
            self._latest = round_number, self._compute(round_number)
        return self._latest[1]

    def _compute(self, round_number: int) -> Vector:
        if self.collective is Collective.BROADCAST:
            return self._of(self.root, round_number, 0, self.count)
        parts = []
        for block in range(self.size):
            start, length = self._blocks.start(block), self._blocks.length(block)
            if self.collective is Collective.ALL_GATHER:
                parts.append(self._of(block, round_number, start, length))
                continue
            ranks = [(block + 1 + step) % self.size for step in range(self.size)]
            total = self._of(ranks[0], round_number, start, length)
            for rank in ranks[1:]:
                self.reduce_op.into(total, self._of(rank, round_number, start, length))
            parts.append(total)
        return np.concatenate(parts)


def wrong_elements(got: Vector, expected: Vector) -> int:
    """How many elements differ in any bit."""
    width = f"u{got.itemsize}"
    return int(np.count_nonzero(got.view(width) != expected.view(width)))
