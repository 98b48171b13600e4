"""The tie between a P4Info and the loaded program: checked once, then used by every request.

P4Info and BMv2 JSON come from the same compiler run but are sent separately; `Binding` refuses a
pair that does not belong together, naming the first object that differs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from softswitch.externs import CounterArray, MeterArray, RegisterArray
from softswitch.p4runtime.errors import P4RuntimeError, invalid
from softswitch.p4runtime.match import MatchCodec
from softswitch.p4runtime.schema import (
    ActionProfileSchema,
    ActionSchema,
    Named,
    Schema,
    TableSchema,
)
from softswitch.p4runtime.unreachable import (
    make_counter,
    make_meter,
    make_profile,
    make_register,
    make_table,
    make_value_set,
)
from softswitch.pipeline import DigestInfo, Pipeline
from softswitch.tables import (
    ActionCall,
    ActionProfile,
    ActionSignature,
    EntryMissing,
    Table,
    ValueSet,
)

_ANONYMOUS_IN_P4INFO = re.compile(r"digest_\d+")
_ANONYMOUS_IN_PROGRAM = re.compile(r"tuple_\d+")
S = TypeVar("S")
N = TypeVar("N", bound=Named)


class BoundTable:
    """A table of P4Info and its state in the pipeline."""

    __slots__ = ("label", "match", "profile", "schema", "table")

    def __init__(self, schema: TableSchema, table: Table, profile: BoundProfile | None) -> None:
        self.schema = schema
        self.table = table
        self.profile = profile
        self.label = schema.key.label
        self.match = MatchCodec(schema.key, tuple(field.kind for field in table.fields))


class BoundProfile:
    """An action profile of P4Info and its state in the pipeline.

    `one_shots` counts the table entries with an action set of their own: a selector's tables are
    programmed either with those or with members and groups, never with both (section "One Shot
    Action Selector Programming").
    """

    __slots__ = ("label", "one_shots", "profile", "schema")

    def __init__(self, schema: ActionProfileSchema, profile: ActionProfile) -> None:
        self.schema = schema
        self.profile = profile
        self.label = f"action profile '{schema.name}'"
        self.one_shots = 0


class Binding:
    """Every P4Info object with its state, found by P4Info id."""

    def __init__(self, schema: Schema, pipeline: Pipeline) -> None:
        """Raises INVALID_ARGUMENT naming the first difference between P4Info and program."""
        self.schema = schema
        self.pipeline = pipeline
        _check_same_program(schema, pipeline)
        self.profiles: dict[int, BoundProfile] = {}
        for profile in schema.action_profiles.by_id.values():
            state = _state(pipeline.action_profiles, profile, make_profile)
            if state.is_selector != profile.with_selector:
                raise _mismatch(
                    f"action profile '{profile.name}' has a selector in only one of the two"
                )
            self.profiles[profile.id] = BoundProfile(profile, state)
        self.tables: dict[int, BoundTable] = {}
        for table in schema.tables.by_id.values():
            self.tables[table.id] = self._bind_table(table)
        self.counters: dict[int, CounterArray] = {}
        for counter in schema.counters.by_id.values():
            counters = _state(pipeline.counters, counter, make_counter)
            _same_size("counter", counter.name, counter.size, counters.size)
            self.counters[counter.id] = counters
        self.meters: dict[int, MeterArray] = {}
        for meter in schema.meters.by_id.values():
            meters = _state(pipeline.meters, meter, make_meter)
            _same_size("meter", meter.name, meter.size, meters.size)
            self.meters[meter.id] = meters
        self.registers: dict[int, RegisterArray] = {}
        for register in schema.registers.by_id.values():
            registers = _state(pipeline.registers, register, make_register)
            _same_size("register", register.name, register.size, registers.size)
            if register.data_type.leaf_bitwidths != (registers.bitwidth,):
                raise _mismatch(
                    f"register '{register.name}' has cells of another width in the program"
                )
            self.registers[register.id] = registers
        self.value_sets: dict[int, tuple[ValueSet, MatchCodec]] = {}
        for value_set in schema.value_sets.by_id.values():
            members = _state(pipeline.value_sets, value_set, make_value_set)
            if tuple(f.bitwidth for f in value_set.key.fields) != members.widths:
                raise _mismatch(
                    f"value set '{value_set.name}' matches on other fields in the program"
                )
            # The parser takes exact values and (value, mask) pairs, whatever the kind.
            kinds = tuple(field.kind for field in value_set.key.fields)
            self.value_sets[value_set.id] = (members, MatchCodec(value_set.key, kinds))
        self.digest_ids = _digest_ids(schema, pipeline)

    def table(self, table_id: int) -> BoundTable:
        """INVALID_ARGUMENT when P4Info has no such table."""
        found = self.tables.get(table_id)
        if found is None:
            self.schema.tables.get(table_id)
            raise AssertionError("schema and binding hold the same tables")
        return found

    def profile(self, profile_id: int) -> BoundProfile:
        """INVALID_ARGUMENT when P4Info has no such action profile."""
        return self.profiles[self.schema.action_profiles.get(profile_id).id]

    def _bind_table(self, schema: TableSchema) -> BoundTable:
        label = schema.key.label
        profile = self.profiles.get(schema.implementation_id)
        table = self.pipeline.tables.get(schema.name)
        if table is None:
            return BoundTable(
                schema, make_table(schema, profile.profile if profile else None), profile
            )
        ours = tuple(f.bitwidth for f in schema.key.fields)
        theirs = tuple(f.bitwidth for f in table.fields)
        if ours != theirs:
            raise _mismatch(
                f"{label} has key widths {list(ours)} in P4Info, {list(theirs)} in the program"
            )
        for action, _ in schema.actions.values():
            signature = table.actions.get(action.name)
            if signature is None:
                raise _mismatch(f"{label} has no action '{action.name}' in the program")
            _same_params(action, signature)
        _know_all_actions(schema, table)
        if (profile.profile.name if profile else None) != table.action_profile:
            raise _mismatch(f"{label} is implemented by '{table.action_profile}' in the program")
        if bool(schema.direct_counter_id) != table.has_counters:
            raise _mismatch(f"{label} has a direct counter in only one of the two")
        if (schema.direct_meter is not None) != table.has_meters:
            raise _mismatch(f"{label} has a direct meter in only one of the two")
        # p4c gives a table with initial entries the size of their number in the JSON, and does not
        # say there whether they are const; what P4Info promises the client is right.
        table.size = max(table.size, schema.size) if table.size else 0
        if not schema.is_const:
            table.const_entries = False
            for entry in table.entries():
                entry.is_const = False
        return BoundTable(schema, table, profile)


def _state(states: Mapping[str, S], schema: N, make: Callable[[N], S]) -> S:
    """The program's state of a P4Info object, or some of its own when the compiler removed it."""
    found = states.get(schema.name)
    return make(schema) if found is None else found


def _check_same_program(schema: Schema, pipeline: Pipeline) -> None:
    """All that the program has is in P4Info, and some of P4Info is in the program.

    What P4Info has and the program has not was removed by the compiler (`unreachable`).
    """
    found_any = any(_ANONYMOUS_IN_PROGRAM.fullmatch(name) for name in pipeline.digests)
    kinds: list[tuple[str, Mapping[str, Any], Mapping[str, object]]] = [
        ("table", schema.tables.by_name, pipeline.tables),
        ("action profile", schema.action_profiles.by_name, pipeline.action_profiles),
        ("counter", schema.counters.by_name, pipeline.counters),
        ("meter", schema.meters.by_name, pipeline.meters),
        ("register", schema.registers.by_name, pipeline.registers),
        ("value set", schema.value_sets.by_name, pipeline.value_sets),
        ("digest", schema.digests.by_name, pipeline.digests),
    ]
    for kind, ours, theirs in kinds:
        found_any = found_any or not ours.keys().isdisjoint(theirs)
        for name, state in theirs.items():
            if name not in ours and not _made_by_compiler(name, state):
                raise _mismatch(f"P4Info has no {kind} '{name}'")
    wanted = [(kind, name) for kind, ours, _ in kinds for name in ours]
    if wanted and not found_any:
        kind, name = wanted[0]
        raise _mismatch(f"the program has no {kind} '{name}', nor anything else of P4Info")


def _made_by_compiler(name: str, state: object) -> bool:
    """Names that p4c makes up: tables of statements and of switches over values, tuple types."""
    if isinstance(state, Table):
        return not state.fields or re.fullmatch(r"switch_\d+_table", name) is not None
    return isinstance(state, DigestInfo) and _ANONYMOUS_IN_PROGRAM.fullmatch(name) is not None


def _digest_ids(schema: Schema, pipeline: Pipeline) -> dict[str, int]:
    """P4Info ids by the names of the program.

    A digest of an unnamed type is called digest_N in P4Info and tuple_N in the JSON; such ones
    are tied by their order.
    """
    pairs = [(d, d.name) for d in schema.digests.by_id.values() if d.name in pipeline.digests]
    nameless = (
        d
        for d in schema.digests.by_id.values()
        if d.name not in pipeline.digests and _ANONYMOUS_IN_P4INFO.fullmatch(d.name)
    )
    tuples = (
        name
        for name in pipeline.digests
        if name not in schema.digests.by_name and _ANONYMOUS_IN_PROGRAM.fullmatch(name)
    )
    pairs += zip(nameless, tuples, strict=False)
    ids = {}
    for digest, name in pairs:
        widths = tuple(width for _, width in pipeline.digests[name].fields)
        if digest.data_type.leaf_bitwidths != widths:
            raise _mismatch(f"digest '{digest.name}' has other fields in the program")
        ids[name] = digest.id
    return ids


def _know_all_actions(schema: TableSchema, table: Table) -> None:
    """What the program's own entries do can be told to a client."""
    entries = list(table.entries())
    with contextlib.suppress(EntryMissing):
        entries.append(table.default)
    for entry in entries:
        target = entry.target
        if isinstance(target, ActionCall) and target.action not in schema.action_ids:
            raise _mismatch(f"{schema.key.label} has no action '{target.action}' in P4Info")


def _same_size(kind: str, name: str, ours: int, theirs: int) -> None:
    if ours != theirs:
        raise _mismatch(f"{kind} '{name}' has size {ours} in P4Info, {theirs} in the program")


def _same_params(action: ActionSchema, signature: ActionSignature) -> None:
    ours = [param.bitwidth for param in action.params]
    theirs = [width for _, width in signature.params]
    if ours != theirs:
        raise _mismatch(
            f"action '{action.name}' has parameter widths {ours} in P4Info, {theirs} in the program"
        )


def _mismatch(what: str) -> P4RuntimeError:
    return invalid(f"P4Info and p4_device_config do not belong together: {what}")
