"""Parts of a message: together all of it, in whole packets, none empty."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from host.striping import message_parts


@given(st.integers(1, 1 << 20), st.integers(1, 64), st.integers(1, 1024).map(lambda n: 4 * n))
def test_parts_are_whole_packets_and_together_the_message(
    size_bytes: int, qps: int, path_mtu_bytes: int
) -> None:
    parts = message_parts(size_bytes, qps, path_mtu_bytes)
    assert 1 <= len(parts) <= qps
    assert parts[0][0] == 0
    assert parts[-1][1] == size_bytes
    assert all(start < end for start, end in parts)
    assert all(start % path_mtu_bytes == 0 for start, _ in parts)
    assert [end for _, end in parts[:-1]] == [start for start, _ in parts[1:]]
    packets = [-(-(end - start) // path_mtu_bytes) for start, end in parts]
    assert max(packets) - min(packets) <= 1
