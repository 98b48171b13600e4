"""impair.p4: how often it drops and damages, and what damage is. In virtual time, fixed seeds."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from softswitch.switch import Switch
from softswitch.tables import ActionCall, Entry
from tests.traces.targets.in_process import loaded

ETHERNET_BYTES = 14
MAX_FRAME_BYTES = 9216
ALWAYS = 0xFFFFFFFF
DIRECTION = "ImpairIngress.direction"


def threshold(probability: float) -> int:
    """As the program wants it: p * (2^32 - 1)."""
    return round(probability * ALWAYS)


class Impairment:
    """The element between port 0 and port 1. Probabilities by the port packets come in on."""

    def __init__(
        self,
        drop: dict[int, float] | None = None,
        corrupt: dict[int, float] | None = None,
        seed: int = 1,
    ) -> None:
        drop, corrupt = drop or {}, corrupt or {}
        self.switch = Switch(seed=seed)
        for port in (0, 1):
            self.switch.add_port(port)
        self.pipeline = self.switch.load(loaded("impair"))
        for port in drop.keys() | corrupt.keys():
            thresholds = (threshold(drop.get(port, 0)), threshold(corrupt.get(port, 0)))
            self.pipeline.tables[DIRECTION].insert(
                Entry((port,), ActionCall("ImpairIngress.impair", thresholds))
            )

    def send(self, port: int, frame: bytes) -> bytes | None:
        """What comes out on the other port, or None."""
        self.switch.receive(port, frame, 0)
        out = self.switch.transmit(0)
        assert len(out) <= 1
        if not out:
            return None
        assert out[0][0] == port ^ 1
        return out[0][1]

    def counts(self, port: int) -> dict[str, tuple[int, int]]:
        """(packets, bytes) by counter, of what came in on a port; `sent` is of the other."""
        arrays = {name.rpartition(".")[2]: a for name, a in self.pipeline.counters.items()}
        cells = {name: array.read(port) for name, array in arrays.items()}
        cells["sent"] = arrays["sent"].read(port ^ 1)
        return cells


def flipped_bits(sent: bytes, received: bytes) -> list[int]:
    """Positions of the bits that differ, the first bit of the frame being 0."""
    assert len(sent) == len(received)
    difference = int.from_bytes(sent, "big") ^ int.from_bytes(received, "big")
    last = len(sent) * 8 - 1
    return [last - i for i in range(difference.bit_length()) if difference >> i & 1]


def within(count: int, draws: int, probability: float) -> bool:
    """Whether a binomial count lies within 4 standard deviations."""
    deviation = math.sqrt(draws * probability * (1 - probability))
    return abs(count - draws * probability) <= 4 * deviation


def test_unset_directions_pass_everything() -> None:
    impairment = Impairment()
    for port in (0, 1):
        for size in (0, 13, 14, 15, 60, 1500, 9216, 20_000):
            frame = bytes(size)
            assert impairment.send(port, frame) == frame


@pytest.mark.parametrize("port", [0, 1])
def test_drop_always_and_never(port: int) -> None:
    impairment = Impairment(drop={port: 1.0, port ^ 1: 0.0})
    frame = bytes(100)
    for _ in range(500):
        assert impairment.send(port, frame) is None
        assert impairment.send(port ^ 1, frame) == frame
    assert impairment.counts(port) == {
        "received": (500, 50_000),
        "dropped": (500, 50_000),
        "corrupted": (0, 0),
        "sent": (0, 0),
    }
    assert impairment.counts(port ^ 1) == {
        "received": (500, 50_000),
        "dropped": (0, 0),
        "corrupted": (0, 0),
        "sent": (500, 50_000),
    }


@pytest.mark.parametrize("probability", [0.5, 0.1, 0.01])
def test_drop_probability_per_direction(probability: float) -> None:
    draws = 4_000
    impairment = Impairment(drop={0: probability, 1: 1 - probability})
    lost = {0: 0, 1: 0}
    for _ in range(draws):
        for port in (0, 1):
            lost[port] += impairment.send(port, bytes(64)) is None
    assert within(lost[0], draws, probability)
    assert within(lost[1], draws, 1 - probability)
    for port in (0, 1):
        counts = impairment.counts(port)
        assert counts["dropped"] == (lost[port], 64 * lost[port])
        assert counts["sent"][0] == draws - lost[port]


def test_the_same_seed_gives_the_same_losses() -> None:
    def losses(seed: int) -> list[bool]:
        impairment = Impairment(drop={0: 0.5}, seed=seed)
        return [impairment.send(0, bytes(64)) is None for _ in range(200)]

    assert losses(7) == losses(7)
    assert losses(7) != losses(8)


@given(
    st.integers(ETHERNET_BYTES + 1, MAX_FRAME_BYTES), st.sampled_from([0, 1]), st.integers(0, 99)
)
@settings(max_examples=200, deadline=None, derandomize=True)
@example(ETHERNET_BYTES + 1, 0, 0)
@example(MAX_FRAME_BYTES, 1, 0)
@example(16_384, 1, 0)
def test_damage_is_one_bit_behind_the_ethernet_header(size: int, port: int, seed: int) -> None:
    impairment = Impairment(corrupt={port: 1.0}, seed=seed)
    frame = (bytes(range(256)) * 65)[:size]
    received = impairment.send(port, frame)
    assert received is not None
    (bit,) = flipped_bits(frame, received)
    assert bit >= ETHERNET_BYTES * 8
    assert impairment.counts(port) == {
        "received": (1, size),
        "dropped": (0, 0),
        "corrupted": (1, size),
        "sent": (1, size),
    }


def test_damage_reaches_every_bit_equally() -> None:
    """16 bits behind the header, 3,200 packets: each about 200 times."""
    impairment = Impairment(corrupt={0: 1.0})
    frame = bytes(ETHERNET_BYTES + 2)
    hits: Counter[int] = Counter()
    for _ in range(3_200):
        received = impairment.send(0, frame)
        assert received is not None
        (bit,) = flipped_bits(frame, received)
        hits[bit] += 1
    assert sorted(hits) == list(range(ETHERNET_BYTES * 8, (ETHERNET_BYTES + 2) * 8))
    assert all(within(count, 3_200, 1 / 16) for count in hits.values())


@pytest.mark.parametrize("size", [0, 13, 14, 16_385, 20_000])
def test_frames_out_of_reach_are_not_damaged(size: int) -> None:
    impairment = Impairment(corrupt={0: 1.0})
    frame = bytes(size)
    assert impairment.send(0, frame) == frame
    assert impairment.counts(0)["corrupted"] == (0, 0)


def test_both_knobs_together() -> None:
    """A quarter is lost, and half of what is left is damaged."""
    draws = 4_000
    impairment = Impairment(drop={0: 0.25}, corrupt={0: 0.5})
    frame = bytes(100)
    outcomes: Counter[str] = Counter()
    for _ in range(draws):
        received = impairment.send(0, frame)
        if received is None:
            outcomes["lost"] += 1
        else:
            outcomes["damaged" if len(flipped_bits(frame, received)) == 1 else "whole"] += 1
    assert within(outcomes["lost"], draws, 0.25)
    assert within(outcomes["damaged"], draws, 0.75 * 0.5)
    counts = impairment.counts(0)
    assert counts["received"][0] == draws
    assert counts["dropped"][0] == outcomes["lost"]
    assert counts["corrupted"][0] == outcomes["damaged"]
    assert counts["sent"][0] == outcomes["damaged"] + outcomes["whole"]
