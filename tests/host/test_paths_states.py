"""The state table, line by line, and that an EvSet does what it says."""

from __future__ import annotations

import random

import pytest

from host.paths.ev_set import EvSet
from host.paths.probing import ProbeTiming
from host.paths.states import (
    SIGNAL_OF_M,
    SIGNAL_OF_NACK,
    TRANSITIONS,
    Action,
    EvState,
    Signal,
)
from host.paths.universe import plan_universe
from host.wire.constants import NackReason, SackM

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED

#: mrc-protocol.md, section 3, in its own order: state, signal → state, action
LINES = [
    # SACK M=1 or NACK TRIMMED → SKIP
    (GOOD, Signal.CONGESTED, SKIP, Action.NONE),
    # A further mark on an EV already in SKIP changes nothing
    (SKIP, Signal.CONGESTED, SKIP, Action.NONE),
    (BAD, Signal.CONGESTED, BAD, Action.NONE),
    (DENIED, Signal.CONGESTED, DENIED, Action.NONE),
    # Loss inferred by timeout, or M=2 → ASSUMED_BAD, and a backup EV takes its place
    (GOOD, Signal.LOST, BAD, Action.DEMOTE),
    (SKIP, Signal.LOST, BAD, Action.DEMOTE),
    (BAD, Signal.LOST, BAD, Action.NONE),
    (DENIED, Signal.LOST, DENIED, Action.NONE),
    (GOOD, Signal.HELD_BAD, BAD, Action.DEMOTE),
    (SKIP, Signal.HELD_BAD, BAD, Action.DEMOTE),
    (BAD, Signal.HELD_BAD, BAD, Action.NONE),
    (DENIED, Signal.HELD_BAD, DENIED, Action.NONE),
    # The first SKIP EV met is set back to GOOD but passed over for this packet
    (GOOD, Signal.TURN, GOOD, Action.USE),
    (SKIP, Signal.TURN, GOOD, Action.PASS_OVER),
    (BAD, Signal.TURN, BAD, Action.NONE),
    (DENIED, Signal.TURN, DENIED, Action.NONE),
    # Probes answered (several in a row) → GOOD
    (GOOD, Signal.PROBES_ANSWERED, GOOD, Action.NONE),
    (SKIP, Signal.PROBES_ANSWERED, SKIP, Action.NONE),
    (BAD, Signal.PROBES_ANSWERED, GOOD, Action.ADMIT),
    (DENIED, Signal.PROBES_ANSWERED, DENIED, Action.NONE),
    # Our choice: an EV that answers takes the place of one that the floor keeps
    (GOOD, Signal.NEEDED, GOOD, Action.NONE),
    (SKIP, Signal.NEEDED, SKIP, Action.NONE),
    (BAD, Signal.NEEDED, GOOD, Action.ADMIT),
    (DENIED, Signal.NEEDED, DENIED, Action.NONE),
    # DENIED (administrative)
    (GOOD, Signal.DENY, DENIED, Action.REMOVE),
    (SKIP, Signal.DENY, DENIED, Action.REMOVE),
    (BAD, Signal.DENY, DENIED, Action.REMOVE),
    (DENIED, Signal.DENY, DENIED, Action.NONE),
    (GOOD, Signal.ALLOW, GOOD, Action.NONE),
    (SKIP, Signal.ALLOW, SKIP, Action.NONE),
    (BAD, Signal.ALLOW, GOOD, Action.ADMIT),
    (DENIED, Signal.ALLOW, GOOD, Action.ADMIT),
]


def test_the_table_is_the_specification_s() -> None:
    lines = {(state, signal): (new, action) for state, signal, new, action in LINES}
    table = {
        (state, signal): entry
        for state, row in TRANSITIONS.items()
        for signal, entry in row.items()
    }
    assert table == lines
    assert len(table) == len(EvState) * len(Signal)


def test_what_never_blames_the_ev() -> None:
    """TRIMMED_LASTHOP and the resource NACKs never blame the EV."""
    blaming = {reason for reason, signal in SIGNAL_OF_NACK.items() if signal is not None}
    assert blaming == {NackReason.TRIMMED}
    assert set(SIGNAL_OF_NACK) == set(NackReason)
    assert SIGNAL_OF_M == {
        SackM.NONE: None,
        SackM.SKIP_ONCE: Signal.CONGESTED,
        SackM.ALWAYS_SKIP: Signal.HELD_BAD,
    }


TIMING = ProbeTiming(interval_ns=1000, gap_ns=10, answers=1)


def ev_set() -> EvSet:
    return EvSet(
        plan_universe(2, 4), rng=random.Random(3), active_evs=4, timing=TIMING, ev_min_active=0
    )


def bring_to(evs: EvSet, ev: int, state: EvState) -> None:
    if state is SKIP:
        evs.on_sack(ev, SackM.SKIP_ONCE, 0)
    elif state is BAD:
        evs.on_sack(ev, SackM.ALWAYS_SKIP, 0)
    elif state is DENIED:
        evs.deny([ev], 0)
    assert evs.state(ev) is state


def answer_probe(evs: EvSet, ev: int) -> None:
    """Let a probe of the EV be answered; without one out, an answer means nothing."""
    probed = evs.next_probe(1000)
    assert probed in (None, ev)
    evs.on_probe_answer(ev, 1001)


def take_turns(evs: EvSet, ev: int) -> None:
    for _ in range(4):
        evs.select(0b11)


@pytest.mark.parametrize(
    ("state", "signal", "new"),
    [(state, signal, new) for state, signal, new, _ in LINES],
    ids=lambda value: value.name,
)
@pytest.mark.parametrize("how", ["sack", "nack"])
def test_an_ev_set_follows_the_table(
    state: EvState, signal: Signal, new: EvState, how: str
) -> None:
    evs = ev_set()
    ev = evs.active(1)[0]
    bring_to(evs, ev, state)
    events = len(evs.events)
    if signal is Signal.CONGESTED:
        if how == "sack":
            evs.on_sack(ev, SackM.SKIP_ONCE, 5)
        else:
            evs.on_nack(ev, NackReason.TRIMMED, 5)
    elif signal is Signal.LOST:
        evs.on_timeout(ev, 1, 5)
    elif signal is Signal.HELD_BAD:
        evs.on_sack(ev, SackM.ALWAYS_SKIP, 5)
    elif signal is Signal.TURN:
        take_turns(evs, ev)
    elif signal is Signal.PROBES_ANSWERED:
        answer_probe(evs, ev)
    elif signal is Signal.NEEDED:
        # Only of one that is being probed; how it comes about: test_paths_ev_set, TestFloor
        evs._signal(ev, Signal.NEEDED, 5)
    elif signal is Signal.DENY:
        evs.deny([ev], 5)
    else:
        evs.allow([ev], 5)
    assert evs.state(ev) is new
    # Whatever goes to SKIP or comes back from it is no event
    if new not in (state, SKIP) and (state, new) != (SKIP, GOOD):
        (event,) = evs.events[events:]
        assert (event.ev, event.old, event.new) == (ev, state.value, new.value)
        assert event.cause
    else:
        assert len(evs.events) == events


@pytest.mark.parametrize("state", [GOOD, SKIP, BAD, DENIED])
@pytest.mark.parametrize(
    "reason", [reason for reason, signal in SIGNAL_OF_NACK.items() if signal is None]
)
def test_no_state_changes_for_what_is_not_the_path_s_fault(
    state: EvState, reason: NackReason
) -> None:
    evs = ev_set()
    ev = evs.active(0)[0]
    bring_to(evs, ev, state)
    evs.on_nack(ev, reason, 5)
    evs.on_sack(ev, SackM.NONE, 5)
    evs.on_sack(ev, 3, 5)  # no value of M
    assert evs.state(ev) is state
