"""The heap of timers, and serial numbers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from host.qp.serial import MSN_HALF, PSN_HALF, expand_msn, expand_psn
from host.qp.timers import Timers


class Thing:
    def __init__(self) -> None:
        self.armed_ns: int | None = None

    def next_deadline(self) -> int | None:
        return None

    def handle_timer(self, now_ns: int) -> None:
        raise AssertionError("Timers calls nobody")


def test_the_earliest_deadline_wins() -> None:
    timers, thing = Timers(), Thing()
    timers.arm(thing, 100)
    timers.arm(thing, 200)
    assert timers.next_timer() == 100
    timers.arm(thing, 50)
    assert timers.next_timer() == 50 and len(timers) == 1
    assert timers.pop_due(49) is None
    assert timers.pop_due(50) is thing
    assert timers.pop_due(10**9) is None and timers.next_timer() is None and len(timers) == 0


def test_disarmed_is_never_woken() -> None:
    timers, one, two = Timers(), Thing(), Thing()
    timers.arm(one, 5)
    timers.arm(two, 6)
    timers.disarm(one)
    timers.disarm(one)
    assert timers.next_timer() == 6
    assert timers.pop_due(10) is two and timers.pop_due(10) is None


def test_entries_that_were_overtaken_do_not_pile_up() -> None:
    timers = Timers()
    things = [Thing() for _ in range(10)]
    rng = random.Random(1)
    for now_ns in range(20_000):
        thing = rng.choice(things)
        timers.arm(thing, now_ns + 10**9)
        timers.arm(thing, now_ns + rng.randrange(100))
        while timers.pop_due(now_ns + 1) is not None:
            pass
        assert len(timers._heap) <= 2 * len(things) + 65


@given(near=st.integers(0, 2**40), offset=st.integers(-PSN_HALF, PSN_HALF - 1))
def test_a_psn_is_found_near_its_window(near: int, offset: int) -> None:
    assert expand_psn((near + offset) % 2**24, near) == near + offset


@given(near=st.integers(0, 2**40), offset=st.integers(-MSN_HALF, MSN_HALF - 1))
def test_an_msn_is_found_whether_it_has_16_bits_or_24(near: int, offset: int) -> None:
    assert expand_msn((near + offset) % 2**16, near) == near + offset
    assert expand_msn((near + offset) % 2**24, near) == near + offset
