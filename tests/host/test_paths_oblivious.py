"""Oblivious spraying: nothing that is heard moves an EV; ports and administrators still do."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from host.config import ForwardingMode
from host.paths import EvProfile, EvState
from host.paths.ev_set import EvSet
from host.wire.constants import NackReason, SackM

ALL_PLANES = 0b11


def evs_of(profile: EvProfile) -> EvSet:
    rng = random.Random(1)
    universe = profile.universe(planes=2, uplinks=4, forwarding=ForwardingMode.SRV6, rng=rng)
    return profile.ev_set(universe, rng=rng, timeout_ns=1000)


def hear_everything(evs: EvSet) -> None:
    for now_ns, ev in enumerate(sorted(evs.universe.plane_of)):
        for m in SackM:
            evs.on_sack(ev, m, now_ns)
        for reason in NackReason:
            evs.on_nack(ev, reason, now_ns)
        evs.on_timeout(ev, now_ns, now_ns)


def test_feedback_moves_nothing() -> None:
    evs, adaptive = evs_of(EvProfile(adaptive=False)), evs_of(EvProfile())
    for each in (evs, adaptive):
        hear_everything(each)
    assert adaptive.in_state(EvState.ASSUMED_BAD) and adaptive.events
    assert {evs.state(ev) for ev in evs.universe.plane_of} == {EvState.GOOD}
    assert evs.events == [] and evs.next_timer() is None and evs.marks == 0
    # Every EV has its turn as often as any other
    taken = Counter(evs.select(ALL_PLANES) for _ in range(80))
    assert set(taken.values()) == {10} and len(taken) == 8


def test_ports_and_administrators_still_do() -> None:
    evs = evs_of(EvProfile(adaptive=False))
    evs.set_plane_up(0, False, 5)
    assert {evs.plane_of(evs.select(ALL_PLANES) or 0) for _ in range(20)} == {1}
    evs.deny([ev for ev in evs.universe.plane_of if evs.plane_of(ev) == 1][1:], 6)
    assert len({evs.select(ALL_PLANES) for _ in range(20)}) == 1


def test_the_knob_is_a_boolean() -> None:
    with pytest.raises(ValueError, match="adaptive: 'no' does not fit"):
        EvProfile(adaptive="no")  # type: ignore[arg-type]
