"""Multicast groups and clone sessions (section "PacketReplicationEngineEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.codec import decode_uint, encode_uint
from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.state import PipelineState
from softswitch.replication import CloneSession, MulticastGroup, Replica

_MULTICAST = "multicast_group_entry"
_CLONE = "clone_session_entry"
_MAX_PORT = (1 << 9) - 1  # v1model's PortId_t


class ReplicationHandler(EntityHandler):
    """`PacketReplicationEngineEntry`."""

    kind = "packet_replication_engine_entry"

    def __init__(self, state: PipelineState) -> None:
        self._engine = state.replication
        self._deprecated = state.replicas_by_deprecated_field

    # -- writes --------------------------------------------------------------------------

    def insert(self, message: Any) -> Undo:
        """Create a group or session; ids and replicas as the engine allows."""
        engine = self._engine
        if self._which(message) == _MULTICAST:
            group = self._decode_group(message.multicast_group_entry)
            engine.create_group(group)
            self._note(_MULTICAST, group.group_id, message.multicast_group_entry)
            return lambda: engine.delete_group(group.group_id)
        session = self._decode_session(message.clone_session_entry)
        engine.create_session(session)
        self._note(_CLONE, session.session_id, message.clone_session_entry)
        return lambda: engine.delete_session(session.session_id)

    def modify(self, message: Any) -> Undo:
        """Replace a group or session."""
        engine = self._engine
        if self._which(message) == _MULTICAST:
            group = self._decode_group(message.multicast_group_entry)
            old_group = engine.read_group(group.group_id)
            engine.modify_group(group)
            self._note(_MULTICAST, group.group_id, message.multicast_group_entry)
            return lambda: engine.modify_group(old_group)
        session = self._decode_session(message.clone_session_entry)
        old_session = engine.read_session(session.session_id)
        engine.modify_session(session)
        self._note(_CLONE, session.session_id, message.clone_session_entry)
        return lambda: engine.modify_session(old_session)

    def delete(self, message: Any) -> Undo:
        """Remove a group or session; only its id is looked at."""
        engine = self._engine
        if self._which(message) == _MULTICAST:
            group_id = _set(message.multicast_group_entry.multicast_group_id, "multicast_group_id")
            group = engine.read_group(group_id)
            engine.delete_group(group_id)
            return lambda: engine.create_group(group)
        session_id = _set(message.clone_session_entry.session_id, "session_id")
        session = engine.read_session(session_id)
        engine.delete_session(session_id)
        return lambda: engine.create_session(session)

    # -- reads ---------------------------------------------------------------------------

    def read(self, message: Any) -> Iterator[Any]:
        """One group or session, or all of them for id 0."""
        if self._which(message) == _MULTICAST:
            return self._read_groups(message.multicast_group_entry.multicast_group_id)
        return self._read_sessions(message.clone_session_entry.session_id)

    def _read_groups(self, group_id: int) -> Iterator[Any]:
        for group in self._engine.groups():
            if group_id in (0, group.group_id):
                message = p4runtime_pb2.PacketReplicationEngineEntry()
                entry = message.multicast_group_entry
                entry.multicast_group_id = group.group_id
                if group.metadata:
                    entry.metadata = group.metadata
                self._encode_replicas(_MULTICAST, group.group_id, group.replicas, entry)
                yield message

    def _read_sessions(self, session_id: int) -> Iterator[Any]:
        for session in self._engine.sessions():
            if session_id in (0, session.session_id):
                message = p4runtime_pb2.PacketReplicationEngineEntry()
                entry = message.clone_session_entry
                entry.session_id = session.session_id
                entry.class_of_service = session.class_of_service
                entry.packet_length_bytes = session.packet_length_bytes
                self._encode_replicas(_CLONE, session.session_id, session.replicas, entry)
                yield message

    # -- messages ------------------------------------------------------------------------

    def _which(self, message: Any) -> str:
        found: str | None = message.WhichOneof("type")
        if found is None:
            raise invalid(f"{self.kind}: neither a multicast group nor a clone session is set")
        return found

    def _decode_group(self, entry: Any) -> MulticastGroup:
        group_id = _set(entry.multicast_group_id, "multicast_group_id")
        replicas = self._decode_replicas(entry, f"multicast group {group_id}")
        return MulticastGroup(group_id, replicas, entry.metadata)

    def _decode_session(self, entry: Any) -> CloneSession:
        session_id = _set(entry.session_id, "session_id")
        replicas = self._decode_replicas(entry, f"clone session {session_id}")
        return CloneSession(session_id, replicas, entry.class_of_service, entry.packet_length_bytes)

    def _decode_replicas(self, entry: Any, what: str) -> tuple[Replica, ...]:
        replicas = []
        for replica in entry.replicas:
            kind = replica.WhichOneof("port_kind")
            if kind == "port":
                port = decode_uint(replica.port, 32, f"{what}: port")
            elif kind == "egress_port":
                port = replica.egress_port
            else:
                raise invalid(f"{what}: a replica has no port")
            if port > _MAX_PORT:
                raise invalid(f"{what}: port {port}, want 0 to {_MAX_PORT}")
            replicas.append(Replica(port, replica.instance))
        return tuple(replicas)

    def _note(self, kind: str, number: int, entry: Any) -> None:
        """Remember which field the client names ports with, so that it reads what it wrote."""
        if any(r.WhichOneof("port_kind") == "egress_port" for r in entry.replicas):
            self._deprecated.add((kind, number))
        else:
            self._deprecated.discard((kind, number))

    def _encode_replicas(
        self, kind: str, number: int, replicas: tuple[Replica, ...], entry: Any
    ) -> None:
        deprecated = (kind, number) in self._deprecated
        for replica in replicas:
            message = entry.replicas.add(instance=replica.instance)
            if deprecated:
                message.egress_port = replica.egress_port
            else:
                message.port = encode_uint(replica.egress_port)


def _set(number: int, name: str) -> int:
    """An id in a write; 0 is the wildcard of reads and cannot be written."""
    if number == 0:
        raise invalid(f"{name} is not set")
    return number
