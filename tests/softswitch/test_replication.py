"""Multicast groups and clone sessions."""

from __future__ import annotations

from typing import Any

import pytest

from softswitch.replication import (
    CloneSession,
    MulticastGroup,
    Replica,
    ReplicationEngine,
    ReplicationError,
    ReplicationExists,
    ReplicationFull,
    ReplicationInvalid,
    ReplicationMissing,
)

REPLICAS = (Replica(3, 1), Replica(1, 1), Replica(2, 0))


def test_groups() -> None:
    engine = ReplicationEngine()
    assert engine.group_copies(1) == ()
    group = MulticastGroup(1, REPLICAS, b"mine")
    engine.create_group(group)
    assert engine.read_group(1) == group
    assert engine.group_copies(1) == ((0, 2), (1, 1), (1, 3))
    engine.modify_group(MulticastGroup(1, (Replica(9),)))
    assert engine.group_copies(1) == ((0, 9),)
    engine.create_group(MulticastGroup(2))
    assert [each.group_id for each in engine.groups()] == [1, 2]
    engine.delete_group(1)
    assert engine.group_copies(1) == ()


def test_sessions() -> None:
    engine = ReplicationEngine()
    session = CloneSession(7, REPLICAS, class_of_service=1, packet_length_bytes=64)
    engine.create_session(session)
    assert engine.read_session(7) == session
    assert engine.session_copies(7) == ((0, 2), (1, 1), (1, 3))
    engine.modify_session(CloneSession(7))
    assert engine.session_copies(7) == ()
    assert list(engine.sessions()) == [CloneSession(7)]
    engine.delete_session(7)
    engine.create_session(session)
    engine.create_group(MulticastGroup(1))
    engine.clear()
    assert (list(engine.sessions()), list(engine.groups())) == ([], [])
    assert engine.session_copies(7) == ()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.create_group(MulticastGroup(1)), ReplicationExists, "group 1 exists"),
        (lambda e: e.create_group(MulticastGroup(2)), ReplicationFull, "holds 1 groups"),
        (lambda e: e.create_group(MulticastGroup(0)), ReplicationInvalid, "ids are 1 to 65535"),
        (lambda e: e.create_group(MulticastGroup(65536)), ReplicationInvalid, "ids are 1"),
        (lambda e: e.modify_group(MulticastGroup(5)), ReplicationMissing, "group 5 does not"),
        (lambda e: e.delete_group(5), ReplicationMissing, "group 5 does not"),
        (lambda e: e.read_group(5), ReplicationMissing, "group 5 does not"),
        (
            lambda e: e.modify_group(MulticastGroup(1, (Replica(1), Replica(1)))),
            ReplicationInvalid,
            "port 1 instance 0 is given twice",
        ),
        (
            lambda e: e.modify_group(MulticastGroup(1, (Replica(1, 65536),))),
            ReplicationInvalid,
            "instance 65536",
        ),
        (
            lambda e: e.modify_group(MulticastGroup(1, (Replica(-1),))),
            ReplicationInvalid,
            "egress port -1",
        ),
        (lambda e: e.create_session(CloneSession(1)), ReplicationExists, "session 1 exists"),
        (lambda e: e.create_session(CloneSession(32768)), ReplicationInvalid, "0 to 32767"),
        (
            lambda e: e.create_session(CloneSession(2, packet_length_bytes=-1)),
            ReplicationInvalid,
            "packet length -1",
        ),
        (
            lambda e: e.create_session(CloneSession(2, class_of_service=-1)),
            ReplicationInvalid,
            "class of service -1",
        ),
        (lambda e: e.modify_session(CloneSession(5)), ReplicationMissing, "session 5 does not"),
        (lambda e: e.delete_session(5), ReplicationMissing, "session 5 does not"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, error: type[ReplicationError], words: str) -> None:
    engine = ReplicationEngine(max_groups=1)
    engine.create_group(MulticastGroup(1))
    engine.create_session(CloneSession(1))
    with pytest.raises(error, match=words):
        call(engine)
    assert list(engine.groups()) == [MulticastGroup(1)]
    assert list(engine.sessions()) == [CloneSession(1)]
