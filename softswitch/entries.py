"""Table entries as values: matches, actions, members, groups — and what can be wrong with them.

The control plane's vocabulary, by names and integers. Byte strings and P4Runtime ids belong to
`softswitch.p4runtime`. Semantics follow the P4Runtime specification 1.4, sections 9.1 and 9.2 (the
higher priority number wins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from softswitch.externs import Meter, MeterRate


class TableError(Exception):
    """A control-plane request that this table or action profile cannot take."""


class TableFull(TableError):
    """The table, profile or group has no room for another entry."""


class EntryExists(TableError):
    """An entry, member or group with this key is already there."""


class EntryMissing(TableError):
    """No entry, member or group has this key."""


class TableConst(TableError):
    """The entries or the default action are fixed by the program."""


class BadMatch(TableError):
    """The match does not fit the table's key, or the priority is missing or unexpected."""


class BadAction(TableError):
    """The action is not one of the table's, or its arguments do not fit."""


class BadMember(TableError):
    """A member or group that is referred to does not exist, or the profile has no groups."""


class MemberInUse(TableError):
    """The member or group is still referred to by a table entry or a group."""


class MatchKind(Enum):
    """How one key field is compared; the values are the names of BMv2's JSON."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class MatchField:
    """One field of a table's key. `bitwidth` is in bits."""

    name: str
    kind: MatchKind
    bitwidth: int


def key_kind(fields: Iterable[MatchField]) -> MatchKind:
    """How a table with this key is searched: EXACT, LPM, TERNARY (also optional) or RANGE."""
    kinds = {field.kind for field in fields}
    if MatchKind.RANGE in kinds:
        return MatchKind.RANGE
    if kinds & {MatchKind.TERNARY, MatchKind.OPTIONAL}:
        return MatchKind.TERNARY
    return MatchKind.LPM if MatchKind.LPM in kinds else MatchKind.EXACT


MatchValue = int | tuple[int, int] | None
"""One key field of an entry.

EXACT: the value. LPM: (value, prefix length). TERNARY: (value, mask). RANGE: (low, high), both
included. OPTIONAL: the value, or None for any. "Don't care" is LPM (0, 0), TERNARY (0, 0),
RANGE (0, 2**bitwidth - 1), OPTIONAL None.
"""
Match = tuple[MatchValue, ...]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by its full name, with its run-time arguments in the order of its parameters."""

    action: str
    args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A member of the table's action profile."""

    member_id: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A group of the table's action selector."""

    group_id: int


@dataclass(frozen=True, slots=True)
class OneShot:
    """A group that belongs to one entry: (action, weight, watch port or -1) each."""

    members: tuple[tuple[ActionCall, int, int], ...]


Target = ActionCall | MemberRef | GroupRef | OneShot


@dataclass(frozen=True, slots=True)
class ActionSignature:
    """What the control plane must know of an action: full name and parameters (name, bits)."""

    name: str
    params: tuple[tuple[str, int], ...]


class Entry:
    """One table entry.

    `counter_data` is `[packets, bytes]`, counted in place by the data plane; None on a table
    without counters (and, in `Table.modify`, "keep what was counted"). `meter` is the direct
    meter's cell, made by the table from `meter_config`. `last_hit_ns` is kept only where the table
    has ageing.
    """

    __slots__ = (
        "controller_metadata",
        "counter_data",
        "idle_timeout_ns",
        "is_const",
        "last_hit_ns",
        "match",
        "metadata",
        "meter",
        "meter_config",
        "priority",
        "target",
    )

    def __init__(
        self,
        match: Match,
        target: Target,
        priority: int = 0,
        *,
        counter_data: list[int] | None = None,
        meter_config: tuple[MeterRate, ...] | None = None,
        controller_metadata: int = 0,
        metadata: bytes = b"",
        idle_timeout_ns: int = 0,
        is_const: bool = False,
    ) -> None:
        self.match = match
        self.target = target
        self.priority = priority
        self.counter_data = counter_data
        self.meter_config = meter_config
        self.controller_metadata = controller_metadata
        self.metadata = metadata
        self.idle_timeout_ns = idle_timeout_ns
        self.is_const = is_const
        self.last_hit_ns = 0
        self.meter: Meter | None = None

    @property
    def key(self) -> tuple[Match, int]:
        """What makes the entry unique in its table."""
        return (self.match, self.priority)

    def configure_meter(self, rates: Iterable[MeterRate] | None) -> None:
        """Set the direct meter's rates, None for none. Raises BadMatch without a direct meter."""
        if self.meter is None:
            raise BadMatch("the table has no direct meter")
        self.meter_config = None if rates is None else tuple(rates)
        self.meter.configure(self.meter_config or ())

    def __repr__(self) -> str:
        return f"Entry({self.match!r}, {self.target!r}, priority={self.priority})"


class Group:
    """A group of an action selector: member id → (weight, watch port or -1), and its size limit."""

    __slots__ = ("max_size", "members")

    def __init__(self, members: Mapping[int, tuple[int, int]], max_size: int = 0) -> None:
        self.members: dict[int, tuple[int, int]] = dict(members)
        self.max_size = max_size

    def __repr__(self) -> str:
        return f"Group({self.members!r}, max_size={self.max_size})"


def check_action(where: str, actions: Mapping[str, ActionSignature], call: ActionCall) -> None:
    """Raise BadAction unless `call` names one of `actions` with arguments that fit."""
    signature = actions.get(call.action)
    if signature is None:
        known = ", ".join(actions)
        raise BadAction(f"{where}: action {call.action}: not one of {known}")
    if len(call.args) != len(signature.params):
        raise BadAction(
            f"{where}: action {call.action}: {len(call.args)} arguments given, "
            f"{len(signature.params)} expected"
        )
    for (name, bits), value in zip(signature.params, call.args, strict=True):
        if not 0 <= value < 1 << bits:
            raise BadAction(
                f"{where}: action {call.action}: {name} = {value:#x}: does not fit {bits} bits"
            )


def key_shifts(fields: tuple[MatchField, ...]) -> tuple[int, ...]:
    """Bits to shift each field by, so that all make one integer, the first field on top."""
    shifts = []
    left = sum(field.bitwidth for field in fields)
    for field in fields:
        left -= field.bitwidth
        shifts.append(left)
    return tuple(shifts)


def field_mask(field: MatchField, value: MatchValue) -> int:
    """The bits of a field that an entry compares (not for RANGE)."""
    full = (1 << field.bitwidth) - 1
    if field.kind is MatchKind.LPM:
        assert isinstance(value, tuple)
        return full ^ (full >> value[1])
    if field.kind is MatchKind.TERNARY:
        assert isinstance(value, tuple)
        return value[1]
    return 0 if value is None else full


def match_problem(field: MatchField, value: MatchValue) -> str | None:
    """What is wrong with one field of a match, None if nothing is."""
    full = (1 << field.bitwidth) - 1
    if field.kind is MatchKind.OPTIONAL and value is None:
        return None
    if field.kind in (MatchKind.EXACT, MatchKind.OPTIONAL):
        if not isinstance(value, int):
            return f"{value!r}: one integer is expected"
        return None if 0 <= value <= full else f"{value:#x}: does not fit {field.bitwidth} bits"
    if not isinstance(value, tuple):
        return f"{value!r}: a pair is expected for a {field.kind.value} match"
    first, second = value
    if not 0 <= first <= full:
        return f"{first:#x}: does not fit {field.bitwidth} bits"
    if field.kind is MatchKind.LPM:
        if not 0 <= second <= field.bitwidth:
            return f"prefix length {second}: must be 0 to {field.bitwidth}"
        return (
            f"{first:#x}/{second}: bits beyond the prefix are set"
            if first & (full >> second)
            else None
        )
    if not 0 <= second <= full:
        return f"{second:#x}: does not fit {field.bitwidth} bits"
    if field.kind is MatchKind.TERNARY:
        return (
            f"{first:#x} &&& {second:#x}: bits outside the mask are set"
            if (first & ~second)
            else None
        )
    return f"{first:#x}..{second:#x}: the range is empty" if first > second else None
