"""P4Info, wrapped once: every object by id and by name.

`Schema.from_p4info` refuses a P4Info that contradicts itself; `binding.check` then ties it to the
loaded program. Label strings ("field 'hdr.ipv6.dst' of table 'Ingress.route'") are made here so
that the write path only formats text when something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.p4data import DataType, compile_type
from softswitch.tables import MatchKind

# p4.config.v1.MatchField.MatchType
_MATCH_KINDS: Mapping[int, MatchKind] = {
    2: MatchKind.EXACT,
    3: MatchKind.LPM,
    4: MatchKind.TERNARY,
    5: MatchKind.RANGE,
    6: MatchKind.OPTIONAL,
}
NEEDS_PRIORITY = frozenset({MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL})
"""Match kinds that make the table's entries carry a priority (section "TableEntry")."""

_MAX_BITWIDTH = 1 << 16


class ActionScope(Enum):
    """Where in a table an action may stand (p4.config.v1.ActionRef.Scope)."""

    TABLE_AND_DEFAULT = 0
    TABLE_ONLY = 1
    DEFAULT_ONLY = 2


class MeterType(Enum):
    """Which meter configurations are acceptable (p4.config.v1.MeterSpec.Type)."""

    TWO_RATE_THREE_COLOR = 0
    SINGLE_RATE_THREE_COLOR = 1
    SINGLE_RATE_TWO_COLOR = 2


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One match field of a table or value set."""

    id: int
    name: str
    kind: MatchKind
    bitwidth: int
    max_value: int
    label: str


@dataclass(frozen=True, slots=True)
class ParamSchema:
    """One action parameter."""

    id: int
    name: str
    bitwidth: int
    label: str


@dataclass(frozen=True, slots=True)
class ActionSchema:
    """An action and its parameters in the order of the P4 program."""

    id: int
    name: str
    alias: str
    params: tuple[ParamSchema, ...]
    param_positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MatchKeySchema:
    """The match fields of a table or value set, found by field id."""

    label: str
    fields: tuple[FieldSchema, ...]
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One table. Ids of what it does not have are 0."""

    id: int
    name: str
    alias: str
    key: MatchKeySchema
    needs_priority: bool
    actions: Mapping[int, tuple[ActionSchema, ActionScope]]
    action_ids: Mapping[str, int]
    const_default_action_id: int
    implementation_id: int
    direct_counter_id: int
    direct_meter: DirectMeterSchema | None
    size: int
    idle_timeout: bool
    is_const: bool


@dataclass(frozen=True, slots=True)
class ActionProfileSchema:
    """An action profile or selector. `actions` are those of its tables, with the widest scope."""

    id: int
    name: str
    alias: str
    table_ids: tuple[int, ...]
    with_selector: bool
    size: int
    max_group_size: int
    sum_of_members: bool
    max_member_weight: int
    actions: Mapping[int, tuple[ActionSchema, ActionScope]]


@dataclass(frozen=True, slots=True)
class CounterSchema:
    """An indirect counter array."""

    id: int
    name: str
    alias: str
    size: int


@dataclass(frozen=True, slots=True)
class DirectCounterSchema:
    """A counter attached to a table's entries."""

    id: int
    name: str
    alias: str
    table_id: int


@dataclass(frozen=True, slots=True)
class MeterSchema:
    """An indirect meter array."""

    id: int
    name: str
    alias: str
    size: int
    type: MeterType


@dataclass(frozen=True, slots=True)
class DirectMeterSchema:
    """A meter attached to a table's entries."""

    id: int
    name: str
    alias: str
    table_id: int
    type: MeterType


@dataclass(frozen=True, slots=True)
class RegisterSchema:
    """A register array and the type of its cells."""

    id: int
    name: str
    alias: str
    size: int
    data_type: DataType


@dataclass(frozen=True, slots=True)
class DigestSchema:
    """A digest and the type of its messages."""

    id: int
    name: str
    alias: str
    data_type: DataType


@dataclass(frozen=True, slots=True)
class ValueSetSchema:
    """A parser value set and what its members match on."""

    id: int
    name: str
    alias: str
    key: MatchKeySchema
    size: int


@dataclass(frozen=True, slots=True)
class MetadataSchema:
    """One field of a controller packet header."""

    id: int
    name: str
    bitwidth: int
    label: str


class Named(Protocol):
    """What all P4 objects have."""

    @property
    def id(self) -> int:
        """P4Info id."""
        ...

    @property
    def name(self) -> str:
        """Full name."""
        ...


T = TypeVar("T", bound=Named)


class Objects(Generic[T]):
    """All objects of one kind, in P4Info order, found by id or by name."""

    def __init__(self, kind: str, objects: Iterable[T]) -> None:
        self.kind = kind
        self.by_id: dict[int, T] = {}
        self.by_name: dict[str, T] = {}
        for obj in objects:
            self.by_id[obj.id] = obj
            self.by_name[obj.name] = obj

    def get(self, object_id: int) -> T:
        """The object of this id; INVALID_ARGUMENT when P4Info has none."""
        found = self.by_id.get(object_id)
        if found is None:
            raise invalid(
                f"{self.kind} id is not set"
                if object_id == 0
                else f"P4Info has no {self.kind} with id {object_id} (0x{object_id:08x})"
            )
        return found

    def __len__(self) -> int:
        return len(self.by_id)


class Schema:
    """One P4Info message, looked up by id."""

    def __init__(self, p4info: Any) -> None:
        """Wrap a `p4.config.v1.P4Info`.

        INVALID_ARGUMENT or UNIMPLEMENTED naming what is wrong with it.
        """
        self.p4info = p4info
        _check_preambles(p4info)
        actions = {a.preamble.id: _action(a) for a in p4info.actions}
        direct_meters = [_direct_meter(m) for m in p4info.direct_meters]
        direct_counters = [
            DirectCounterSchema(c.preamble.id, c.preamble.name, c.preamble.alias, c.direct_table_id)
            for c in p4info.direct_counters
        ]
        self.actions = Objects("action", actions.values())
        self.direct_meters = Objects("direct meter", direct_meters)
        self.direct_counters = Objects("direct counter", direct_counters)
        self.tables = Objects(
            "table",
            [
                _table(t, self.actions, self.direct_counters, self.direct_meters)
                for t in p4info.tables
            ],
        )
        self.action_profiles = Objects(
            "action profile", [_action_profile(p, self.tables) for p in p4info.action_profiles]
        )
        self.counters = Objects(
            "counter",
            [
                CounterSchema(c.preamble.id, c.preamble.name, c.preamble.alias, c.size)
                for c in p4info.counters
            ],
        )
        self.meters = Objects("meter", [_meter(m) for m in p4info.meters])
        self.registers = Objects(
            "register", [_register(r, p4info.type_info) for r in p4info.registers]
        )
        self.digests = Objects("digest", [_digest(d, p4info.type_info) for d in p4info.digests])
        self.value_sets = Objects("value set", [_value_set(v) for v in p4info.value_sets])
        self.packet_in = _controller_header(p4info, "packet_in")
        self.packet_out = _controller_header(p4info, "packet_out")
        _check_references(self)


# -- P4Info's parts ----------------------------------------------------------------------


def _check_preambles(p4info: Any) -> None:
    """Ids are set and unique, names are unique within their kind (section "ID Allocation")."""
    owner_of_id: dict[int, str] = {}
    for kind in (
        "tables",
        "actions",
        "action_profiles",
        "counters",
        "direct_counters",
        "meters",
        "direct_meters",
        "controller_packet_metadata",
        "value_sets",
        "registers",
        "digests",
    ):
        names: set[str] = set()
        for obj in getattr(p4info, kind):
            preamble = obj.preamble
            where = f"{kind} '{preamble.name}'"
            if preamble.id == 0:
                raise invalid(f"P4Info: {where} has no id")
            if preamble.id in owner_of_id:
                raise invalid(
                    f"P4Info: {where} and {owner_of_id[preamble.id]} have the same id "
                    f"0x{preamble.id:08x}"
                )
            if preamble.name in names:
                raise invalid(f"P4Info: {where} is there twice")
            owner_of_id[preamble.id] = where
            names.add(preamble.name)
    if len(p4info.externs):
        raise unimplemented(
            f"P4Info: extern '{p4info.externs[0].extern_type_name}' is not supported by this switch"
        )


def _bitwidth(width: int, label: str) -> int:
    """A declared width; translated types that travel as strings have none and are refused here."""
    if width == 0:
        raise unimplemented(
            f"P4Info: {label} has no bitwidth (string translation is not supported)"
        )
    if not 0 < width <= _MAX_BITWIDTH:
        raise invalid(f"P4Info: {label}: bitwidth {width} is out of range")
    return width


def _positions(ids: Iterable[int], label: str) -> dict[int, int]:
    """Position of each id in the declaration."""
    positions: dict[int, int] = {}
    for position, object_id in enumerate(ids):
        if object_id == 0 or object_id in positions:
            raise invalid(f"P4Info: {label}: id {object_id} is 0 or there twice")
        positions[object_id] = position
    return positions


def _enum(cls: Callable[[int], Any], value: int, label: str) -> Any:
    """A member of one of this module's enums; UNIMPLEMENTED for values of later API versions."""
    try:
        return cls(value)
    except ValueError:
        raise unimplemented(f"P4Info: {label}: unknown value {value}") from None


def _match_key(fields: Any, label: str) -> MatchKeySchema:
    """Match fields in P4Info order, which is the order of the P4 program's key."""
    schemas = []
    for field in fields:
        name = field.name or f"#{field.id}"
        field_label = f"field '{name}' of {label}"
        if field.WhichOneof("match") == "other_match_type" or field.match_type not in _MATCH_KINDS:
            raise unimplemented(
                f"P4Info: {field_label}: match type '{field.other_match_type or field.match_type}'"
            )
        width = _bitwidth(field.bitwidth, field_label)
        schemas.append(
            FieldSchema(
                id=field.id,
                name=field.name,
                kind=_MATCH_KINDS[field.match_type],
                bitwidth=width,
                max_value=(1 << width) - 1,
                label=field_label,
            )
        )
    return MatchKeySchema(label, tuple(schemas), _positions((f.id for f in fields), label))


def _action(action: Any) -> ActionSchema:
    preamble = action.preamble
    label = f"action '{preamble.name}'"
    params = []
    for param in action.params:
        param_label = f"parameter '{param.name}' of {label}"
        params.append(
            ParamSchema(param.id, param.name, _bitwidth(param.bitwidth, param_label), param_label)
        )
    return ActionSchema(
        preamble.id,
        preamble.name,
        preamble.alias,
        tuple(params),
        _positions((p.id for p in params), label),
    )


def _table(
    table: Any,
    actions: Objects[ActionSchema],
    direct_counters: Objects[DirectCounterSchema],
    direct_meters: Objects[DirectMeterSchema],
) -> TableSchema:
    preamble = table.preamble
    label = f"table '{preamble.name}'"
    key = _match_key(table.match_fields, label)
    refs: dict[int, tuple[ActionSchema, ActionScope]] = {}
    for ref in table.action_refs:
        if ref.id not in actions.by_id:
            raise invalid(f"P4Info: {label} refers to action 0x{ref.id:08x}, which does not exist")
        refs[ref.id] = (actions.by_id[ref.id], _enum(ActionScope, ref.scope, label))
    counter_id = 0
    meter = None
    for resource_id in table.direct_resource_ids:
        if resource_id in direct_counters.by_id:
            counter_id = resource_id
        elif resource_id in direct_meters.by_id:
            meter = direct_meters.by_id[resource_id]
        else:
            raise invalid(
                f"P4Info: {label} refers to direct resource 0x{resource_id:08x}, "
                "which does not exist"
            )
    return TableSchema(
        id=preamble.id,
        name=preamble.name,
        alias=preamble.alias,
        key=key,
        needs_priority=any(f.kind in NEEDS_PRIORITY for f in key.fields),
        actions=refs,
        action_ids={schema.name: action_id for action_id, (schema, _) in refs.items()},
        const_default_action_id=table.const_default_action_id,
        implementation_id=table.implementation_id,
        direct_counter_id=counter_id,
        direct_meter=meter,
        size=table.size,
        idle_timeout=table.idle_timeout_behavior != 0,
        is_const=table.is_const_table,
    )


def _action_profile(profile: Any, tables: Objects[TableSchema]) -> ActionProfileSchema:
    preamble = profile.preamble
    label = f"action profile '{preamble.name}'"
    actions: dict[int, tuple[ActionSchema, ActionScope]] = {}
    for table_id in profile.table_ids:
        if table_id not in tables.by_id:
            raise invalid(f"P4Info: {label} refers to table 0x{table_id:08x}, which does not exist")
        actions.update(tables.by_id[table_id].actions)
    return ActionProfileSchema(
        id=preamble.id,
        name=preamble.name,
        alias=preamble.alias,
        table_ids=tuple(profile.table_ids),
        with_selector=profile.with_selector,
        size=profile.size,
        max_group_size=profile.max_group_size,
        sum_of_members=profile.WhichOneof("selector_size_semantics") == "sum_of_members",
        max_member_weight=profile.sum_of_members.max_member_weight,
        actions=actions,
    )


def _meter(meter: Any) -> MeterSchema:
    preamble = meter.preamble
    meter_type = _enum(MeterType, meter.spec.type, f"meter '{preamble.name}'")
    return MeterSchema(preamble.id, preamble.name, preamble.alias, meter.size, meter_type)


def _direct_meter(meter: Any) -> DirectMeterSchema:
    preamble = meter.preamble
    meter_type = _enum(MeterType, meter.spec.type, f"direct meter '{preamble.name}'")
    return DirectMeterSchema(
        preamble.id, preamble.name, preamble.alias, meter.direct_table_id, meter_type
    )


def _register(register: Any, type_info: Any) -> RegisterSchema:
    preamble = register.preamble
    data_type = compile_type(register.type_spec, type_info, f"register '{preamble.name}'")
    if len(data_type.leaf_bitwidths) != 1:
        raise unimplemented(f"register '{preamble.name}': only cells of one value are supported")
    return RegisterSchema(preamble.id, preamble.name, preamble.alias, register.size, data_type)


def _digest(digest: Any, type_info: Any) -> DigestSchema:
    preamble = digest.preamble
    data_type = compile_type(digest.type_spec, type_info, f"digest '{preamble.name}'")
    return DigestSchema(preamble.id, preamble.name, preamble.alias, data_type)


def _value_set(value_set: Any) -> ValueSetSchema:
    preamble = value_set.preamble
    key = _match_key(value_set.match, f"value set '{preamble.name}'")
    return ValueSetSchema(preamble.id, preamble.name, preamble.alias, key, value_set.size)


def _controller_header(p4info: Any, name: str) -> tuple[MetadataSchema, ...]:
    """Fields of the packet_in or packet_out header; none when the program has no such header."""
    for header in p4info.controller_packet_metadata:
        if header.preamble.name == name:
            fields = []
            for metadata in header.metadata:
                label = f"metadata '{metadata.name}' of {name}"
                width = _bitwidth(metadata.bitwidth, label)
                fields.append(MetadataSchema(metadata.id, metadata.name, width, label))
            _positions((f.id for f in fields), name)
            return tuple(fields)
    return ()


def _check_references(schema: Schema) -> None:
    """Ids that point from one object to another do so in both directions."""
    for table in schema.tables.by_id.values():
        if table.implementation_id and table.implementation_id not in schema.action_profiles.by_id:
            raise invalid(
                f"P4Info: table '{table.name}' is implemented by 0x{table.implementation_id:08x}, "
                "which is no action profile"
            )
        if table.const_default_action_id and table.const_default_action_id not in table.actions:
            raise invalid(
                f"P4Info: the const default action of table '{table.name}' is none of its actions"
            )
    attached = [(c.name, c.table_id) for c in schema.direct_counters.by_id.values()]
    attached += [(m.name, m.table_id) for m in schema.direct_meters.by_id.values()]
    for name, table_id in attached:
        if table_id not in schema.tables.by_id:
            raise invalid(f"P4Info: '{name}' is attached to a table that does not exist")
