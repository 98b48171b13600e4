"""Packet replication engine: multicast groups and clone sessions (P4Runtime 1.4, section 9.5).

State only, by number; the switch asks it where copies go. Copies of one packet come in order of
(instance, port), the order in which BMv2 makes them. What protobuf says about a replica beyond
port and instance (its port's byte form, say) stays with the P4Runtime server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

MAX_GROUP_ID: Final = 0xFFFF
"""`standard_metadata.mcast_grp` has 16 bits; group 0 means "no multicast"."""

MAX_SESSION_ID: Final = 0x7FFF
"""simple_switch keeps clone session ids in 15 bits."""


class ReplicationError(Exception):
    """Base of this module's errors; the message names the group or session."""


class ReplicationExists(ReplicationError):
    """Created twice."""


class ReplicationMissing(ReplicationError):
    """Not there."""


class ReplicationInvalid(ReplicationError):
    """An id, replica or length that cannot be."""


class ReplicationFull(ReplicationError):
    """No room for another group."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy: the port it goes to and its `standard_metadata.egress_rid`."""

    egress_port: int
    instance: int = 0


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A group of replicas, selected by `standard_metadata.mcast_grp`."""

    group_id: int
    replicas: tuple[Replica, ...] = ()
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where clones of one session go.

    `packet_length_bytes` cuts every clone to that many bytes, 0 = whole. `class_of_service` is the
    priority class of the clone (queue number in the traffic manager).
    """

    session_id: int
    replicas: tuple[Replica, ...] = ()
    class_of_service: int = 0
    packet_length_bytes: int = 0


class _HasReplicas(Protocol):
    @property
    def replicas(self) -> tuple[Replica, ...]: ...


_Thing = TypeVar("_Thing", bound=_HasReplicas)


class ReplicationEngine:
    """All multicast groups and clone sessions of one switch.

    Args:
        max_groups: how many multicast groups there may be (simple_switch_grpc: 4096).
    """

    def __init__(self, *, max_groups: int = 4096) -> None:
        self.max_groups = max_groups
        self._groups: dict[int, MulticastGroup] = {}
        self._sessions: dict[int, CloneSession] = {}
        # What the packet path reads: replicas sorted once, when written.
        self._group_ports: dict[int, tuple[tuple[int, int], ...]] = {}
        self._session_ports: dict[int, tuple[tuple[int, int], ...]] = {}

    # -- multicast groups ------------------------------------------------------------------

    def create_group(self, group: MulticastGroup) -> None:
        """Add a group. Raises ReplicationExists, ReplicationInvalid, ReplicationFull."""
        _check_group(group)
        if group.group_id in self._groups:
            raise ReplicationExists(f"multicast group {group.group_id} exists already")
        if len(self._groups) >= self.max_groups:
            raise ReplicationFull(
                f"multicast group {group.group_id}: this switch holds {self.max_groups} groups "
                "(--max-mc-groups)"
            )
        self._set_group(group)

    def modify_group(self, group: MulticastGroup) -> None:
        """Replace a group's replicas. Raises ReplicationMissing, ReplicationInvalid."""
        _check_group(group)
        self.read_group(group.group_id)
        self._set_group(group)

    def delete_group(self, group_id: int) -> None:
        """Remove a group. Raises ReplicationMissing."""
        self.read_group(group_id)
        del self._groups[group_id]
        del self._group_ports[group_id]

    def read_group(self, group_id: int) -> MulticastGroup:
        """Return one group. Raises ReplicationMissing."""
        try:
            return self._groups[group_id]
        except KeyError:
            raise ReplicationMissing(f"multicast group {group_id} does not exist") from None

    def groups(self) -> Iterator[MulticastGroup]:
        """All groups, in order of creation."""
        return iter(tuple(self._groups.values()))

    # -- clone sessions --------------------------------------------------------------------

    def create_session(self, session: CloneSession) -> None:
        """Add a clone session. Raises ReplicationExists, ReplicationInvalid."""
        _check_session(session)
        if session.session_id in self._sessions:
            raise ReplicationExists(f"clone session {session.session_id} exists already")
        self._set_session(session)

    def modify_session(self, session: CloneSession) -> None:
        """Replace a clone session. Raises ReplicationMissing, ReplicationInvalid."""
        _check_session(session)
        self.read_session(session.session_id)
        self._set_session(session)

    def delete_session(self, session_id: int) -> None:
        """Remove a clone session. Raises ReplicationMissing."""
        self.read_session(session_id)
        del self._sessions[session_id]
        del self._session_ports[session_id]

    def read_session(self, session_id: int) -> CloneSession:
        """Return one clone session. Raises ReplicationMissing."""
        try:
            return self._sessions[session_id]
        except KeyError:
            raise ReplicationMissing(f"clone session {session_id} does not exist") from None

    def sessions(self) -> Iterator[CloneSession]:
        """All clone sessions, in order of creation."""
        return iter(tuple(self._sessions.values()))

    # -- packet path -----------------------------------------------------------------------

    def group_copies(self, group_id: int) -> tuple[tuple[int, int], ...]:
        """Return the (instance, port) of every copy; () for a group that does not exist."""
        return self._group_ports.get(group_id, ())

    def session_copies(self, session_id: int) -> tuple[tuple[int, int], ...]:
        """Return the (instance, port) of every clone; () for a session that does not exist."""
        return self._session_ports.get(session_id, ())

    def clear(self) -> None:
        """Forget everything, as when a new program is loaded."""
        self._groups.clear()
        self._sessions.clear()
        self._group_ports.clear()
        self._session_ports.clear()

    def _set_group(self, group: MulticastGroup) -> None:
        self._groups[group.group_id] = group
        self._group_ports[group.group_id] = _copies(group)

    def _set_session(self, session: CloneSession) -> None:
        self._sessions[session.session_id] = session
        self._session_ports[session.session_id] = _copies(session)


def _copies(thing: _Thing) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((replica.instance, replica.egress_port) for replica in thing.replicas))


def _check_group(group: MulticastGroup) -> None:
    if not 1 <= group.group_id <= MAX_GROUP_ID:
        raise ReplicationInvalid(f"multicast group {group.group_id}: ids are 1 to {MAX_GROUP_ID}")
    _check_replicas(f"multicast group {group.group_id}", group.replicas)


def _check_session(session: CloneSession) -> None:
    name = f"clone session {session.session_id}"
    # Session 0 is the wildcard of P4Runtime reads and never configured there, but a program may
    # clone to it and simple_switch lets it be set, so it is no error here.
    if not 0 <= session.session_id <= MAX_SESSION_ID:
        raise ReplicationInvalid(f"{name}: ids are 0 to {MAX_SESSION_ID}")
    if session.packet_length_bytes < 0:
        raise ReplicationInvalid(f"{name}: packet length {session.packet_length_bytes} is negative")
    if session.class_of_service < 0:
        raise ReplicationInvalid(f"{name}: class of service {session.class_of_service} is negative")
    _check_replicas(name, session.replicas)


def _check_replicas(name: str, replicas: tuple[Replica, ...]) -> None:
    seen: set[Replica] = set()
    for replica in replicas:
        if replica.egress_port < 0:
            raise ReplicationInvalid(f"{name}: egress port {replica.egress_port} is negative")
        if not 0 <= replica.instance <= 0xFFFF:
            raise ReplicationInvalid(
                f"{name}: instance {replica.instance} does not fit in 16 bits (egress_rid)"
            )
        if replica in seen:
            raise ReplicationInvalid(
                f"{name}: port {replica.egress_port} instance {replica.instance} is given twice"
            )
        seen.add(replica)
