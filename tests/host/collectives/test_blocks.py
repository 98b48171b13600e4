"""How vectors are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from host.collectives.blocks import (
    MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    Blocks,
    default_chunk_bytes,
)


@given(st.integers(0, 200), st.integers(1, 9), st.integers(1, 50))
def test_chunks_cover_every_element_once_and_in_order(count: int, number: int, chunk: int) -> None:
    blocks = Blocks(count, number, chunk)
    spans = [
        blocks.span(block, each) for block in range(number) for each in range(blocks.chunks(block))
    ]
    covered = [element for start, length in spans for element in range(start, start + length)]
    assert covered == list(range(count))
    assert all(0 < length <= chunk for _, length in spans)
    lengths = [blocks.length(block) for block in range(number)]
    assert max(lengths) - min(lengths) <= 1
    assert blocks.most_chunks == max(blocks.chunks(block) for block in range(number))


@given(st.integers(0, 1 << 30))
def test_default_chunks_are_whole_pages_within_bounds(block_bytes: int) -> None:
    chunk = default_chunk_bytes(block_bytes)
    assert MIN_CHUNK_BYTES <= chunk <= MAX_CHUNK_BYTES
    assert chunk % 4096 == 0
