"""Messages that several queue pairs write together: which part each of them has."""

from __future__ import annotations


def message_parts(size_bytes: int, qps: int, path_mtu_bytes: int) -> list[tuple[int, int]]:
    """First byte and end of each queue pair's part: whole packets, none empty.

    There are fewer than `qps` where a message has fewer packets.
    """
    packets = -(-size_bytes // path_mtu_bytes)
    count = min(qps, packets)
    starts = [packets * number // count * path_mtu_bytes for number in range(count)]
    return list(zip(starts, [*starts[1:], size_bytes], strict=True))
