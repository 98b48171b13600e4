"""State for P4Info objects that are not in the program.

p4c writes P4Info before it removes what no packet can reach, so a table that is never applied
stands in P4Info and not in the JSON. A client may write and read it all the same: it gets state of
its own here, which no packet sees.
"""

from __future__ import annotations

from softswitch.externs import CounterArray, MeterArray, MeterKind, RegisterArray
from softswitch.p4runtime.schema import (
    ActionProfileSchema,
    ActionSchema,
    CounterSchema,
    MeterSchema,
    RegisterSchema,
    TableSchema,
    ValueSetSchema,
)
from softswitch.tables import (
    ActionCall,
    ActionProfile,
    ActionSignature,
    MatchField,
    Table,
    ValueSet,
)


def make_table(schema: TableSchema, profile: ActionProfile | None) -> Table:
    """A table as P4Info describes it.

    Its default action is NoAction, where that is one of its actions.
    """
    names = [action.name for action, _ in schema.actions.values()]
    table = Table(
        schema.name,
        tuple(MatchField(f.name, f.kind, f.bitwidth) for f in schema.key.fields),
        tuple(_signature(action) for action, _ in schema.actions.values()),
        size=schema.size,
        profile=profile,
        has_counters=bool(schema.direct_counter_id),
        meter_kind=MeterKind.PACKETS if schema.direct_meter else None,
        has_timeout=schema.idle_timeout,
        default=ActionCall("NoAction") if profile is None and "NoAction" in names else None,
    )
    if profile is not None:
        profile.tables.append(table)
    return table


def make_profile(schema: ActionProfileSchema) -> ActionProfile:
    """An action profile or selector as P4Info describes it."""
    return ActionProfile(
        schema.name,
        schema.size,
        is_selector=schema.with_selector,
        actions={action.name: _signature(action) for action, _ in schema.actions.values()},
    )


def make_counter(schema: CounterSchema) -> CounterArray:
    """A counter array of the size in P4Info."""
    return CounterArray(schema.name, schema.size)


def make_meter(schema: MeterSchema) -> MeterArray:
    """A meter array of the size in P4Info."""
    return MeterArray(schema.name, schema.size, MeterKind.PACKETS)


def make_register(schema: RegisterSchema) -> RegisterArray:
    """A register of the size and type in P4Info."""
    (bitwidth,) = schema.data_type.leaf_bitwidths
    return RegisterArray(schema.name, schema.size, bitwidth)


def make_value_set(schema: ValueSetSchema) -> ValueSet:
    """A value set as P4Info describes it."""
    return ValueSet(schema.name, tuple(f.bitwidth for f in schema.key.fields), schema.size)


def _signature(action: ActionSchema) -> ActionSignature:
    return ActionSignature(action.name, tuple((p.name, p.bitwidth) for p in action.params))
