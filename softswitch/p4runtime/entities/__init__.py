"""One module a kind of P4 entity.

`handlers` makes the handlers of all kinds for one pipeline state.
"""

from __future__ import annotations

from softswitch.p4runtime.entities.action_profiles import GroupHandler, MemberHandler
from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.entities.counters import CounterHandler, DirectCounterHandler
from softswitch.p4runtime.entities.digest_entries import DigestHandler
from softswitch.p4runtime.entities.externs import ExternHandler
from softswitch.p4runtime.entities.meters import DirectMeterHandler, MeterHandler
from softswitch.p4runtime.entities.registers import RegisterHandler
from softswitch.p4runtime.entities.replication import ReplicationHandler
from softswitch.p4runtime.entities.table_entries import TableEntryHandler
from softswitch.p4runtime.entities.value_sets import ValueSetHandler
from softswitch.p4runtime.state import PipelineState


def handlers(state: PipelineState) -> dict[str, EntityHandler]:
    """Handlers by the name of their field in the `Entity` message."""
    made: list[EntityHandler] = [
        TableEntryHandler(state),
        MemberHandler(state),
        GroupHandler(state),
        CounterHandler(state),
        DirectCounterHandler(state),
        MeterHandler(state),
        DirectMeterHandler(state),
        RegisterHandler(state),
        ReplicationHandler(state),
        ValueSetHandler(state),
        DigestHandler(state),
        ExternHandler(),
    ]
    return {handler.kind: handler for handler in made}


__all__ = ["EntityHandler", "Undo", "handlers"]
