"""No frame makes a pipeline fail: random bytes, and real packets cut short or changed."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softswitch.pipeline_support import PROGRAMS, Bench, bench

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.json"))

ETHERNET = bytes(range(12))
IPV4 = (
    bytes.fromhex("4500002400070000401100000a0000010a000002")
    + bytes.fromhex("03e807d000100000")
    + b"payload!"
)
SEEDS: dict[str, list[bytes]] = {
    "parsing": [
        ETHERNET + b"\x81\0\0\1\x81\0\0\1\x08\0" + IPV4,
        ETHERNET + b"\x08\0\x47" + IPV4[1:9] + b"\xfa" + IPV4[10:20] + bytes(8) + b"\1\x10ab",
        *(
            ETHERNET + kind + bytes(12)
            for kind in (b"\x90\0", b"\x91\2", b"\x92\0", b"\x93\0", b"\x94\0")
        ),
    ],
    "stacks": [bytes([op, 1, 2, 3]) + bytes(range(6)) + b"\1\2\2\3\4\5\3\6\0" for op in range(17)],
    "matching": [bytes([which]) + bytes(10) + b"\xee\5" for which in range(13)],
    "stateful": [IPV4],
    "requests": [bytes([what, 3, 0, 9]) + b"payload" for what in range(17)],
}


@cache
def prepared(name: str) -> Bench:
    own = bench(name)
    own.sessions = {session: [session] for session in range(8)}
    own.groups = {group: [(group, group)] for group in range(8)}
    return own


def carry(name: str, frame: bytes, port: int) -> None:
    """Send; every result must be well formed."""
    for out, sent in prepared(name).send(frame, port):
        assert 0 <= out < 512
        assert isinstance(sent, bytes)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80, deadline=None)
@given(frame=st.binary(max_size=200), port=st.integers(0, 511))
def test_random_bytes(name: str, frame: bytes, port: int) -> None:
    carry(name, frame, port)


@pytest.mark.parametrize("name", sorted(SEEDS))
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_changed_packets(name: str, data: st.DataObject) -> None:
    frame = bytearray(data.draw(st.sampled_from(SEEDS[name])))
    for at, value in data.draw(
        st.dictionaries(st.integers(0, len(frame) - 1), st.integers(0, 255), max_size=3)
    ).items():
        frame[at] = value
    length = data.draw(st.integers(0, len(frame)) | st.just(len(frame)))
    carry(name, bytes(frame[:length]), 1)


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_every_length(name: str) -> None:
    for seed in SEEDS[name]:
        for length in range(len(seed) + 1):
            carry(name, seed[:length], 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_jumbo_frame(name: str) -> None:
    carry(name, bytes(9216), 1)
    carry(name, b"\xff" * 9216, 1)
