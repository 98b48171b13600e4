"""The arbitration state machine against the rules of the specification, without gRPC."""

from __future__ import annotations

import pytest

from softswitch.p4runtime.arbitration import (
    MAX_ROLES,
    TRANSITIONS,
    Advisory,
    Arbitration,
    ArbitrationUpdate,
    Audience,
    Outcome,
    Rank,
    Standing,
    election_id_of,
    format_election_id,
)
from softswitch.p4runtime.errors import Code, P4RuntimeError

DEVICE = 7


@pytest.fixture
def arbitration() -> Arbitration:
    return Arbitration(DEVICE)


def ask(
    arbitration: Arbitration, stream: str, election_id: int | None, role: str = ""
) -> dict[object, Code]:
    """Send an update; who was told what."""
    return told(arbitration.update(stream, ArbitrationUpdate(DEVICE, role, election_id)))


def told(outcome: Outcome) -> dict[object, Code]:
    advisories = [*outcome.at_once]
    if outcome.to_primary is not None:
        advisories.append(outcome.to_primary)
    streams = [advisory.stream for advisory in advisories]
    assert len(streams) == len(set(streams)), "nobody is told twice"
    return {advisory.stream: advisory.status for advisory in advisories}


def test_every_transition_is_in_the_table() -> None:
    assert set(TRANSITIONS) == {(standing, rank) for standing in Standing for rank in Rank}
    for (_, rank), (standing, _) in TRANSITIONS.items():
        assert (standing is Standing.PRIMARY) == (rank is Rank.HIGHEST)
    # Everybody hears of every change of the primary (section "Client Arbitration Notifications").
    for (before, _), (after, audience) in TRANSITIONS.items():
        if Standing.PRIMARY in (before, after):
            assert audience is Audience.ALL


def test_first_client_is_primary(arbitration: Arbitration) -> None:
    outcome = arbitration.update("a", ArbitrationUpdate(DEVICE, "", 5))
    assert outcome.to_primary == Advisory("a", "", 5, Code.OK)
    assert outcome.at_once == ()
    assert arbitration.is_primary("", 5)
    assert arbitration.is_primary_stream("a")
    assert list(arbitration.primary_streams()) == ["a"]


def test_lower_id_is_backup_and_only_it_is_told(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    assert ask(arbitration, "b", 4) == {"b": Code.ALREADY_EXISTS}
    assert not arbitration.is_primary("", 4)
    assert arbitration.is_primary("", 5)


def test_higher_id_takes_over_and_all_are_told(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 4)
    outcome = arbitration.update("c", ArbitrationUpdate(DEVICE, "", 6))
    assert {a.stream for a in outcome.at_once} == {"a", "b"}
    assert outcome.to_primary == Advisory("c", "", 6, Code.OK)
    assert told(outcome) == {"a": Code.ALREADY_EXISTS, "b": Code.ALREADY_EXISTS, "c": Code.OK}
    assert not arbitration.is_primary("", 5)
    assert arbitration.is_primary("", 6)


def test_unset_election_id_is_never_primary(arbitration: Arbitration) -> None:
    outcome = arbitration.update("a", ArbitrationUpdate(DEVICE, "", None))
    # Nobody was primary yet, so the election id of the advisory is unset.
    assert outcome == Outcome(at_once=(Advisory("a", "", None, Code.NOT_FOUND),))
    assert not arbitration.is_primary("", None)
    assert ask(arbitration, "b", 0) == {"a": Code.ALREADY_EXISTS, "b": Code.OK}
    # Any number of clients may leave it unset.
    assert ask(arbitration, "c", None) == {"c": Code.ALREADY_EXISTS}


def test_zero_is_an_election_id(arbitration: Arbitration) -> None:
    assert ask(arbitration, "a", 0) == {"a": Code.OK}
    assert arbitration.is_primary("", 0)


def test_primary_downgrades_itself(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 3)
    assert ask(arbitration, "a", 4) == {"a": Code.NOT_FOUND, "b": Code.NOT_FOUND}
    assert not arbitration.is_primary("", 5)
    assert not arbitration.is_primary("", 4)
    # The highest id ever seen still counts.
    outcome = arbitration.update("b", ArbitrationUpdate(DEVICE, "", 3))
    assert outcome.at_once == (Advisory("b", "", 5, Code.NOT_FOUND),)
    assert ask(arbitration, "b", 5) == {"a": Code.ALREADY_EXISTS, "b": Code.OK}


def test_primary_disconnects(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 3)
    assert told(arbitration.disconnect("a")) == {"b": Code.NOT_FOUND}
    assert not arbitration.is_primary("", 5)
    assert list(arbitration.primary_streams()) == []
    # "greater than or equal to election_id_past": the same controller comes back with its id.
    assert ask(arbitration, "a2", 4) == {"a2": Code.NOT_FOUND}
    assert ask(arbitration, "a3", 5)["a3"] is Code.OK


def test_backup_disconnects_silently(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 3)
    assert arbitration.disconnect("b") == Outcome()
    assert arbitration.disconnect("nobody") == Outcome()


def test_confirming_oneself_tells_all(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 3)
    outcome = arbitration.update("a", ArbitrationUpdate(DEVICE, "", 5))
    assert told(outcome) == {"a": Code.OK, "b": Code.ALREADY_EXISTS}
    assert not outcome.is_new_primary
    assert arbitration.update("b", ArbitrationUpdate(DEVICE, "", 6)).is_new_primary


def test_roles_are_independent(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    assert not arbitration.knows_role("routes")
    assert ask(arbitration, "b", 5, role="routes") == {"b": Code.OK}
    assert arbitration.knows_role("routes")
    assert arbitration.is_primary("routes", 5)
    assert set(arbitration.primary_streams()) == {"a", "b"}
    arbitration.disconnect("b")
    assert arbitration.knows_role("routes")
    assert not arbitration.is_primary("routes", 5)
    assert arbitration.is_primary("", 5)


@pytest.mark.parametrize(
    ("known", "request_", "code"),
    [
        # rules 1.1 to 1.4
        (None, ArbitrationUpdate(DEVICE + 1, "", 1), Code.NOT_FOUND),
        (None, ArbitrationUpdate(DEVICE, "", 100), Code.INVALID_ARGUMENT),
        (None, ArbitrationUpdate(DEVICE, "", 1, has_role_config=True), Code.INVALID_ARGUMENT),
        # rules 2.1 to 2.4
        (1, ArbitrationUpdate(DEVICE + 1, "", 1), Code.FAILED_PRECONDITION),
        (1, ArbitrationUpdate(DEVICE, "other", 1), Code.FAILED_PRECONDITION),
        (1, ArbitrationUpdate(DEVICE, "", 1, has_role_config=True), Code.INVALID_ARGUMENT),
        (1, ArbitrationUpdate(DEVICE, "", 100), Code.INVALID_ARGUMENT),
    ],
)
def test_updates_that_end_the_stream(
    arbitration: Arbitration, known: int | None, request_: ArbitrationUpdate, code: Code
) -> None:
    ask(arbitration, "primary", 100)
    if known is not None:
        ask(arbitration, "me", known)
    with pytest.raises(P4RuntimeError) as raised:
        arbitration.update("me", request_)
    assert raised.value.code is code
    # A refused update changes nothing.
    assert arbitration.is_primary("", 100)
    assert not arbitration.knows_role("other")


def test_same_id_twice_from_the_same_client_is_fine(arbitration: Arbitration) -> None:
    ask(arbitration, "a", 5)
    ask(arbitration, "b", 3)
    assert ask(arbitration, "b", 3) == {"b": Code.ALREADY_EXISTS}


def test_too_many_streams() -> None:
    arbitration = Arbitration(DEVICE, max_streams_per_role=2)
    ask(arbitration, "a", 1)
    ask(arbitration, "b", 2)
    with pytest.raises(P4RuntimeError) as raised:
        ask(arbitration, "c", 3)
    assert raised.value.code is Code.RESOURCE_EXHAUSTED
    arbitration.disconnect("a")
    assert ask(arbitration, "c", 3)["c"] is Code.OK


def test_too_many_roles(arbitration: Arbitration) -> None:
    for number in range(1, MAX_ROLES):  # the default role is one of them
        ask(arbitration, "stream", 1, role=f"role{number}")
        arbitration.disconnect("stream")
    with pytest.raises(P4RuntimeError) as raised:
        ask(arbitration, "stream", 1, role="one more")
    assert raised.value.code is Code.RESOURCE_EXHAUSTED
    assert ask(arbitration, "stream", 1, role="role1") == {"stream": Code.OK}


def test_election_ids_have_128_bits(arbitration: Arbitration) -> None:
    low = election_id_of(0, 2**64 - 1)
    high = election_id_of(1, 0)
    ask(arbitration, "a", low)
    assert ask(arbitration, "b", high)["b"] is Code.OK
    assert format_election_id(high) == "(1, 0)"
    assert format_election_id(low) == f"(0, {2**64 - 1})"
    assert format_election_id(None) == "unset"
