"""Carrying forwarding state from one pipeline to another, for RECONCILE_AND_COMMIT.

Everything a client could read from the old pipeline is written to the new one, so whatever the new
P4Info does not accept (an id that is gone, a field that became narrower) is found by the same
checks that a client's write meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.entities import EntityHandler
from softswitch.p4runtime.errors import error_of, invalid
from softswitch.p4runtime.state import PipelineState


def carry_over(
    state: PipelineState, old: Mapping[str, EntityHandler], new: Mapping[str, EntityHandler]
) -> None:
    """Write to `new` what can be read from `old`.

    INVALID_ARGUMENT names the first entity that does not fit.

    `state` is that of `old`: default entries that nobody wrote are left to the new program.

    `new` must be fresh: it is left half written when this raises.
    """
    table_entry = p4runtime_pb2.TableEntry
    _forget_initial_entries(new["table_entry"])
    for kind, request in (
        ("action_profile_member", p4runtime_pb2.ActionProfileMember()),
        ("action_profile_group", p4runtime_pb2.ActionProfileGroup()),
    ):
        for message in old[kind].read(request):
            _write(new[kind].insert, message)
    everything = table_entry()
    everything.counter_data.SetInParent()
    everything.meter_config.SetInParent()
    for message in old["table_entry"].read(everything):
        if message.is_const:
            continue  # comes with the new program
        _write(new["table_entry"].insert, message)
    everything.is_default_action = True
    for message in old["table_entry"].read(everything):
        if message.table_id in state.modified_defaults:
            _write(new["table_entry"].modify, message)
    _carry_replication(old, new)
    for kind, request in (
        ("counter_entry", p4runtime_pb2.CounterEntry()),
        ("meter_entry", p4runtime_pb2.MeterEntry()),
        ("register_entry", p4runtime_pb2.RegisterEntry()),
        ("value_set_entry", p4runtime_pb2.ValueSetEntry()),
    ):
        for message in old[kind].read(request):
            _write(new[kind].modify, message)
    for message in old["digest_entry"].read(p4runtime_pb2.DigestEntry()):
        _write(new["digest_entry"].insert, message)


def _carry_replication(old: Mapping[str, EntityHandler], new: Mapping[str, EntityHandler]) -> None:
    kind = "packet_replication_engine_entry"
    groups = p4runtime_pb2.PacketReplicationEngineEntry()
    groups.multicast_group_entry.SetInParent()
    sessions = p4runtime_pb2.PacketReplicationEngineEntry()
    sessions.clone_session_entry.SetInParent()
    for request in (groups, sessions):
        for message in old[kind].read(request):
            _write(new[kind].insert, message)


def _forget_initial_entries(tables: EntityHandler) -> None:
    """A preinitialised table's entries are the client's from the start.

    It has deleted or changed them at will.
    """
    for message in list(tables.read(p4runtime_pb2.TableEntry())):
        if not message.is_const:
            tables.delete(message)


def _write(write: Any, message: Any) -> None:
    """One write, whose failure means that the state cannot be preserved."""
    try:
        write(message)
    except Exception as exception:
        error = error_of(exception)
        if error is None:
            raise
        raise invalid(
            f"the forwarding state does not fit the new config: {error.message}"
        ) from None
