"""How elements are cut: into blocks, one for each rank, and blocks into chunks."""

from __future__ import annotations

#: A block is cut into about so many chunks, so that steps of a ring overlap
_CHUNKS_PER_BLOCK = 8
#: ... of at least and at most so many bytes
MIN_CHUNK_BYTES = 16 << 10
MAX_CHUNK_BYTES = 64 << 10
_ALIGN_BYTES = 4096
#: Of a reduction, so much is on its way between two ranks: about two BDPs of 800 Gb/s and 5 µs, for
#: a chunk is in the window from its sending until its place is known to be free
DEFAULT_WINDOW_BYTES = 1 << 20
_MIN_DEPTH = 8


def default_chunk_bytes(block_bytes: int) -> int:
    """The chunk for blocks of a size, where the user names none.

    Smaller chunks are sooner on to the next rank; larger ones cost fewer messages.
    """
    eighth = -(-block_bytes // _CHUNKS_PER_BLOCK)
    aligned = -(-eighth // _ALIGN_BYTES) * _ALIGN_BYTES
    return min(max(aligned, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)


def default_depth(chunk_bytes: int) -> int:
    """Chunks of a reduction in each step, where the user names no number."""
    return max(_MIN_DEPTH, DEFAULT_WINDOW_BYTES // chunk_bytes)


class Blocks:
    """`count` elements in `number` blocks, the first ones one element longer where it must be.

    Every block has chunks of `chunk` elements, the last one what is left. An empty block has none.
    """

    __slots__ = ("_long", "_short", "chunk", "count", "most_chunks", "number")

    def __init__(self, count: int, number: int, chunk: int) -> None:
        self.count = count
        self.number = number
        self.chunk = chunk
        self._short, self._long = divmod(count, number)
        #: Chunks of the longest block
        self.most_chunks = self.chunks(0)

    def start(self, block: int) -> int:
        """Its first element."""
        return block * self._short + min(block, self._long)

    def length(self, block: int) -> int:
        """Its elements."""
        return self._short + (block < self._long)

    def chunks(self, block: int) -> int:
        """How many chunks it has."""
        return -(-self.length(block) // self.chunk)

    def span(self, block: int, chunk: int) -> tuple[int, int]:
        """First element and length of a chunk."""
        offset = chunk * self.chunk
        return self.start(block) + offset, min(self.chunk, self.length(block) - offset)
