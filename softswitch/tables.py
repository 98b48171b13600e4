"""Match-action tables and action profiles: the run-time state of a loaded program.

Two faces:

* **control plane** — entries as frozen values with names and integers (`Entry`, `ActionCall`,
  `MemberRef`, …). Byte strings and P4Runtime ids belong to `softswitch.p4runtime`.
* **data plane** — plain dictionaries and lists which the compiled program binds once and reads per
  packet. They are therefore only ever *mutated in place*; see `Table` for their shapes.

Semantics follow the P4Runtime specification 1.4, section 9.1 to 9.3 (the higher priority number
wins) and simple_switch where the specification leaves room (selection: hash modulo the number of
active members, members in the order of their ids).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from softswitch.externs import Meter, MeterKind, MeterRate


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


Compiled = tuple[Any, ...]
"""A compiled entry, as the generated code reads it: `(action number, [counter], [entry], *args)`.

The action number is the place in `Table.action_names`; `NO_ACTION` does nothing and `GROUP` is
followed by a list of compiled members instead of arguments. `counter` (the `[packets, bytes]` list)
is there only if the table has counters; `entry` (the `Entry`) only if it has meters or ageing.
"""
NO_ACTION = -1
GROUP = -2


class Group:
    """A group of an action selector: member id → (weight, watch port or -1), and its size limit."""

    __slots__ = ("max_size", "members")

    def __init__(self, members: Mapping[int, tuple[int, int]], max_size: int = 0) -> None:
        self.members: dict[int, tuple[int, int]] = dict(members)
        self.max_size = max_size

    def __repr__(self) -> str:
        return f"Group({self.members!r}, max_size={self.max_size})"


class ActionProfile:
    """An action profile, or with `is_selector` an action selector, shared by its tables.

    `size` is the largest number of members (for a selector: the sum of weights over all groups too
    is left to the caller). `max_group_size` 0 means no limit but `size`.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        is_selector: bool,
        actions: Mapping[str, ActionSignature],
        max_group_size: int = 0,
    ) -> None:
        self.name = name
        self.size = size
        self.is_selector = is_selector
        self.max_group_size = max_group_size
        self.actions = dict(actions)
        self.members: dict[int, ActionCall] = {}
        self.groups: dict[int, Group] = {}
        self.tables: list[Table] = []
        self._down_ports: set[int] = set()

    def insert_member(self, member_id: int, call: ActionCall) -> None:
        """Raises EntryExists, TableFull, BadAction."""
        if member_id in self.members:
            raise EntryExists(f"{self.name}: member {member_id} is already there")
        if self.size and len(self.members) >= self.size:
            raise TableFull(f"{self.name}: all {self.size} members are taken")
        check_action(self.name, self.actions, call)
        self.members[member_id] = call

    def modify_member(self, member_id: int, call: ActionCall) -> None:
        """Give a member another action; every entry that refers to it follows at once."""
        if member_id not in self.members:
            raise EntryMissing(f"{self.name}: no member {member_id}")
        check_action(self.name, self.actions, call)
        self.members[member_id] = call
        self._changed(members={member_id})

    def delete_member(self, member_id: int) -> None:
        """Raises EntryMissing, or MemberInUse while a group or an entry refers to the member."""
        if member_id not in self.members:
            raise EntryMissing(f"{self.name}: no member {member_id}")
        for group_id, group in self.groups.items():
            if member_id in group.members:
                raise MemberInUse(f"{self.name}: member {member_id} is in group {group_id}")
        for table in self.tables:
            if table.refers_to(MemberRef(member_id)):
                raise MemberInUse(f"{self.name}: member {member_id} is used by table {table.name}")
        del self.members[member_id]

    def insert_group(self, group_id: int, group: Group) -> None:
        """Raises EntryExists, TableFull, BadMember."""
        if group_id in self.groups:
            raise EntryExists(f"{self.name}: group {group_id} is already there")
        self._check_group(group)
        self.groups[group_id] = group
        self._changed(groups={group_id})

    def modify_group(self, group_id: int, group: Group) -> None:
        """Replace a group's members. `max_size` 0 keeps the size it was created with."""
        if group_id not in self.groups:
            raise EntryMissing(f"{self.name}: no group {group_id}")
        if not group.max_size:
            group.max_size = self.groups[group_id].max_size
        self._check_group(group)
        self.groups[group_id] = group
        self._changed(groups={group_id})

    def delete_group(self, group_id: int) -> None:
        """Raises EntryMissing, or MemberInUse while an entry refers to the group."""
        if group_id not in self.groups:
            raise EntryMissing(f"{self.name}: no group {group_id}")
        for table in self.tables:
            if table.refers_to(GroupRef(group_id)):
                raise MemberInUse(f"{self.name}: group {group_id} is used by table {table.name}")
        del self.groups[group_id]

    def set_port_up(self, port: int, up: bool) -> None:
        """Take the members that watch `port` out of selection, or back in."""
        if up == (port not in self._down_ports):
            return
        if up:
            self._down_ports.discard(port)
        else:
            self._down_ports.add(port)
        self._changed(groups=set(self.groups), one_shots=True)

    def port_is_up(self, port: int) -> bool:
        """False for a watch port that was reported down; -1 (no watch port) is always up."""
        return port not in self._down_ports

    def clear(self) -> None:
        """Take out every member and group. The tables must have been emptied before."""
        self.members.clear()
        self.groups.clear()

    def active_members(self, group_id: int) -> list[ActionCall]:
        """The actions of a group to select from: by member id, each as often as its weight."""
        calls: list[ActionCall] = []
        group = self.groups[group_id]
        for member_id in sorted(group.members):
            weight, watch_port = group.members[member_id]
            if self.port_is_up(watch_port):
                calls.extend([self.members[member_id]] * weight)
        return calls

    def _check_group(self, group: Group) -> None:
        if not self.is_selector:
            raise BadMember(f"{self.name}: an action profile without a selector has no groups")
        limit = group.max_size or self.max_group_size or 0
        if self.max_group_size and group.max_size > self.max_group_size:
            raise TableFull(
                f"{self.name}: max_size {group.max_size} is above the limit {self.max_group_size}"
            )
        total = sum(weight for weight, _ in group.members.values())
        if limit and total > limit:
            raise TableFull(f"{self.name}: sum of weights {total} is above the limit {limit}")
        for member_id, (weight, _) in group.members.items():
            if member_id not in self.members:
                raise BadMember(f"{self.name}: no member {member_id}")
            if weight < 1:
                raise BadMember(f"{self.name}: weight {weight} of member {member_id} is below 1")

    def _changed(
        self,
        members: set[int] | None = None,
        groups: set[int] | None = None,
        one_shots: bool = False,
    ) -> None:
        members = members or set()
        changed = set(groups or ())
        changed |= {g for g, group in self.groups.items() if members & group.members.keys()}
        for table in self.tables:
            table.profile_changed(members, changed, one_shots)


class Table:
    """One match-action table.

    Data-plane structures, bound by the generated code and mutated in place only:

    * `exact`: all-exact tables. Key (the integer of a single field, else the tuple of fields) →
      compiled entry.
    * `prefixes`: one LPM field, the others exact. List of (mask, `dict.get`), longest prefix first;
      key is all fields packed into one integer, first field in the most significant bits.
    * `masks`: with a ternary or optional field. List of (mask, `dict.get`, highest priority in it),
      highest first; the dictionary yields (priority, compiled entry) for the packed key & mask.
    * `ranges`: with a range field. List of (mask, value, ((shift, field mask, low, high), …),
      compiled entry), highest priority first; the packed key as above.
    * `default_cell`: list with exactly one compiled entry, that of the default action.
    """

    def __init__(
        self,
        name: str,
        fields: tuple[MatchField, ...],
        actions: tuple[ActionSignature, ...],
        *,
        size: int = 0,
        profile: ActionProfile | None = None,
        has_counters: bool = False,
        meter_kind: MeterKind | None = None,
        has_timeout: bool = False,
        default: ActionCall | None = None,
        const_default: bool = False,
    ) -> None:
        self.name = name
        self.fields = fields
        self.actions: dict[str, ActionSignature] = {a.name: a for a in actions}
        self.action_names: tuple[str, ...] = tuple(a.name for a in actions)
        self.size = size
        self.profile = profile
        self.has_counters = has_counters
        self.meter_kind = meter_kind
        self.has_timeout = has_timeout
        self.const_entries = False
        self.const_default = const_default
        self.kind = key_kind(fields)
        self.needs_priority = self.kind in (MatchKind.TERNARY, MatchKind.RANGE)

        self.exact: dict[int | tuple[int, ...], Compiled] = {}
        self.prefixes: list[tuple[int, Callable[[int], Compiled | None]]] = []
        self.masks: list[tuple[int, Callable[[int], tuple[int, Compiled] | None], int]] = []
        self.ranges: list[
            tuple[int, int, tuple[tuple[int, int, int, int], ...], Compiled, int]
        ] = []
        self.default_cell: list[Compiled] = []

        self._number = {name: number for number, name in enumerate(self.action_names)}
        self._with_entry = meter_kind is not None or has_timeout
        self._entries: dict[tuple[Match, int], Entry] = {}
        self._by_mask: dict[int, dict[int, Any]] = {}
        self._tops: dict[int, int] = {}  # ternary: highest priority of each mask
        # Ternary: entries with the same mask and value, which differ in priority only.
        self._same: dict[tuple[int, int], list[Entry]] = {}
        self._users: dict[MemberRef | GroupRef, set[tuple[Match, int]]] = {}
        self._groups: dict[int, list[Compiled]] = {}
        self._one_shots: dict[tuple[Match, int], list[Compiled]] = {}
        self._shifts = _shifts(fields)
        self._initial_default = default
        self._default: Entry | None = None
        self.reset_default()

    # ---- what it is ------------------------------------------------------------------------

    @property
    def action_profile(self) -> str | None:
        """Name of the action profile that implements the table, if any."""
        return None if self.profile is None else self.profile.name

    @property
    def has_meters(self) -> bool:
        """True if the table has a direct meter."""
        return self.meter_kind is not None

    def __len__(self) -> int:
        return len(self._entries)

    # ---- control plane ---------------------------------------------------------------------

    def insert(self, entry: Entry) -> None:
        """Raises TableConst, BadMatch, BadAction, BadMember, EntryExists, TableFull."""
        self._check_mutable()
        self.insert_const(entry)

    def insert_const(self, entry: Entry) -> None:
        """As `insert`, but also on a table whose entries are const (the loader's way in)."""
        self._check_match(entry.match, entry.priority)
        self._check_target(entry.target)
        if entry.key in self._entries:
            raise EntryExists(f"{self.name}: an entry for {self.describe(entry.match)} exists")
        if self.size and len(self._entries) >= self.size:
            raise TableFull(f"{self.name}: all {self.size} entries are taken")
        self._check_meter(entry)
        if self.has_counters and entry.counter_data is None:
            entry.counter_data = [0, 0]
        if self.meter_kind is not None:
            entry.meter = Meter(self.meter_kind)
            entry.meter.configure(entry.meter_config or ())
        self._entries[entry.key] = entry
        self._link(entry)

    def modify(self, entry: Entry) -> None:
        """Replace the entry with the same match and priority; counters are kept unless given."""
        self._check_mutable()
        self._check_match(entry.match, entry.priority)
        old = self.get(entry.match, entry.priority)
        self._check_target(entry.target)
        self._check_meter(entry)
        if self.has_counters:
            counted = old.counter_data if old.counter_data is not None else [0, 0]
            if entry.counter_data is not None:
                counted[:] = entry.counter_data
            entry.counter_data = counted
        entry.meter = old.meter
        if entry.meter is not None and entry.meter_config is not None:
            entry.meter.configure(entry.meter_config)
        elif entry.meter is not None:
            entry.meter_config = old.meter_config
        entry.last_hit_ns = old.last_hit_ns
        self._one_shots.pop(entry.key, None)
        self._entries[entry.key] = entry
        self._unlink(old)
        self._link(entry)

    def delete(self, match: Match, priority: int = 0) -> None:
        """Raises TableConst, BadMatch, EntryMissing."""
        self._check_mutable()
        self._check_match(match, priority)
        entry = self.get(match, priority)
        del self._entries[entry.key]
        self._unlink(entry)
        self._one_shots.pop(entry.key, None)

    def get(self, match: Match, priority: int = 0) -> Entry:
        """The entry itself (not a copy), so that its counters can be read. Raises EntryMissing."""
        entry = self._entries.get((match, priority))
        if entry is None:
            raise EntryMissing(f"{self.name}: no entry for {self.describe(match)}")
        return entry

    def entries(self) -> Iterator[Entry]:
        """All entries but the default one, in the order of their insertion."""
        return iter(tuple(self._entries.values()))

    @property
    def default(self) -> Entry:
        """The default entry (match `()`); raises EntryMissing if the table has none."""
        if self._default is None:
            raise EntryMissing(f"{self.name}: no default action")
        return self._default

    def set_default(self, target: Target) -> None:
        """Raises TableConst if the program fixed the default action; BadAction, BadMember."""
        if self.const_default:
            raise TableConst(f"{self.name}: the default action is const")
        self._check_target(target)
        self._set_default(target)

    def reset_default(self) -> None:
        """Back to the default action that the program gave."""
        self._set_default(self._initial_default)

    def clear(self) -> None:
        """Take out every entry, const ones too, and go back to the program's default action."""
        self._entries.clear()
        self._by_mask.clear()
        self._tops.clear()
        self._same.clear()
        self._users.clear()
        self._one_shots.clear()
        self._groups.clear()
        self.exact.clear()
        self.prefixes.clear()
        self.masks.clear()
        self.ranges.clear()
        self.reset_default()

    def describe(self, match: Match) -> str:
        """A match in words, for messages."""
        parts = []
        for field, value in zip(self.fields, match, strict=False):
            if isinstance(value, tuple):
                sep = {MatchKind.LPM: "/", MatchKind.TERNARY: " &&& "}.get(field.kind, "..")
                low, high = value
                shown = f"{low:#x}{sep}{high}" if sep == "/" else f"{low:#x}{sep}{high:#x}"
            else:
                shown = "any" if value is None else f"{value:#x}"
            parts.append(f"{field.name} = {shown}")
        return ", ".join(parts) or "(no key)"

    def lookup(self, key: tuple[int, ...]) -> Entry | None:
        """The entry that a packet with these key field values hits, or None for a miss.

        For tools and tests; packets go through the structures above. Does not count.
        """
        best: Entry | None = None
        best_rank = (-1, -1)
        for entry in self._entries.values():
            length = self._matches(entry.match, key)
            rank = (entry.priority, length)
            if length >= 0 and rank > best_rank:
                best, best_rank = entry, rank
        return best

    # ---- used by ActionProfile ---------------------------------------------------------------

    def refers_to(self, target: Target) -> bool:
        """True if an entry, or the default entry, has exactly this target."""
        if self._default is not None and self._default.target == target:
            return True
        return isinstance(target, MemberRef | GroupRef) and bool(self._users.get(target))

    def profile_changed(self, members: set[int], groups: set[int], one_shots: bool) -> None:
        """Rebuild what refers to these members and groups of the profile."""
        assert self.profile is not None
        for group_id in groups:
            compiled = self._groups.get(group_id)
            if compiled is not None:
                compiled[:] = [self._member(c) for c in self.profile.active_members(group_id)]
        for member_id in members:
            for key in tuple(self._users.get(MemberRef(member_id), ())):
                entry = self._entries[key]
                self._unlink(entry)
                self._link(entry)
        if one_shots:
            for key, compiled in self._one_shots.items():
                target = self._entries[key].target
                assert isinstance(target, OneShot)
                compiled[:] = self._one_shot_members(target)
        if self._default is not None and isinstance(self._default.target, MemberRef):
            self.default_cell[:] = [self._compile(self._default)]

    # ---- checks ------------------------------------------------------------------------------

    def _check_mutable(self) -> None:
        if self.const_entries:
            raise TableConst(f"{self.name}: the entries are const")

    def _check_match(self, match: Match, priority: int) -> None:
        if len(match) != len(self.fields):
            raise BadMatch(
                f"{self.name}: {len(match)} match fields given, the key has {len(self.fields)}"
            )
        if not self.fields:
            raise BadMatch(f"{self.name}: a table without a key has a default action only")
        for field, value in zip(self.fields, match, strict=True):
            problem = _match_problem(field, value)
            if problem:
                raise BadMatch(f"{self.name}: {field.name}: {problem}")
        if self.needs_priority and priority <= 0:
            raise BadMatch(f"{self.name}: priority {priority}: must be above 0")
        if not self.needs_priority and priority != 0:
            raise BadMatch(f"{self.name}: priority {priority}: exact and LPM keys have none (0)")

    def _check_target(self, target: Target) -> None:
        if isinstance(target, ActionCall):
            if self.profile is not None:
                raise BadAction(f"{self.name}: needs a member, group or action set")
            check_action(self.name, self.actions, target)
            return
        if self.profile is None:
            raise BadMember(f"{self.name}: the table has no action profile")
        if isinstance(target, MemberRef):
            if target.member_id not in self.profile.members:
                raise BadMember(f"{self.name}: no member {target.member_id}")
        elif isinstance(target, GroupRef):
            if target.group_id not in self.profile.groups:
                raise BadMember(f"{self.name}: no group {target.group_id}")
        else:
            if not self.profile.is_selector:
                raise BadMember(f"{self.name}: an action set needs an action selector")
            for call, weight, _ in target.members:
                check_action(self.name, self.actions, call)
                if weight < 1:
                    raise BadMember(f"{self.name}: weight {weight} of {call.action} is below 1")

    def _check_meter(self, entry: Entry) -> None:
        if entry.meter_config is not None and self.meter_kind is None:
            raise BadMatch(f"{self.name}: the table has no direct meter")
        if entry.counter_data is not None and not self.has_counters:
            raise BadMatch(f"{self.name}: the table has no direct counter")

    # ---- compiled form -----------------------------------------------------------------------

    def _set_default(self, target: Target | None) -> None:
        if target is None:
            self._default = None
            padding: tuple[Any, ...] = (None,) * (self.has_counters + self._with_entry)
            self.default_cell[:] = [(NO_ACTION, *padding)]
            return
        self._default = Entry((), target, counter_data=[0, 0] if self.has_counters else None)
        self.default_cell[:] = [self._compile(self._default)]

    def _compile(self, entry: Entry) -> Compiled:
        cells: list[Any] = []
        if self.has_counters:
            cells.append(entry.counter_data)
        if self._with_entry:
            cells.append(entry)
        target = entry.target
        if isinstance(target, GroupRef):
            assert self.profile is not None
            group_id = target.group_id
            if group_id not in self._groups:
                calls = self.profile.active_members(group_id)
                self._groups[group_id] = [self._member(call) for call in calls]
            return (GROUP, *cells, self._groups[group_id])
        if isinstance(target, OneShot):
            members = self._one_shots.setdefault(entry.key, [])
            members[:] = self._one_shot_members(target)
            return (GROUP, *cells, members)
        if isinstance(target, MemberRef):
            assert self.profile is not None
            target = self.profile.members[target.member_id]
        return (self._number[target.action], *cells, *target.args)

    def _member(self, call: ActionCall) -> Compiled:
        # Counter and entry cells are the table entry's; the generated code has read them before.
        padding: tuple[Any, ...] = (None,) * (self.has_counters + self._with_entry)
        return (self._number[call.action], *padding, *call.args)

    def _one_shot_members(self, target: OneShot) -> list[Compiled]:
        assert self.profile is not None
        up = self.profile.port_is_up
        return [
            member
            for call, weight, watch_port in target.members
            if up(watch_port)
            for member in [self._member(call)] * weight
        ]

    def _link(self, entry: Entry) -> None:
        """Put an entry into the data-plane structures."""
        if isinstance(entry.target, MemberRef | GroupRef):
            self._users.setdefault(entry.target, set()).add(entry.key)
        compiled = self._compile(entry)
        if self.kind is MatchKind.EXACT:
            self.exact[_exact_key(entry.match)] = compiled
            return
        mask, value, ranges = self._packed(entry.match)
        if self.kind is MatchKind.RANGE:
            insort(
                self.ranges,
                (mask, value, ranges, compiled, entry.priority),
                key=lambda item: -item[4],
            )
        elif self.kind is MatchKind.LPM:
            self._link_prefix(mask, value, compiled)
        else:
            self._same.setdefault((mask, value), []).append(entry)
            self._link_ternary(mask, value)

    def _unlink(self, entry: Entry) -> None:
        """Take an entry out of the data-plane structures."""
        if isinstance(entry.target, MemberRef | GroupRef):
            users = self._users[entry.target]
            users.discard(entry.key)
            if not users:
                del self._users[entry.target]
        if self.kind is MatchKind.EXACT:
            self.exact.pop(_exact_key(entry.match), None)
            return
        mask, value, ranges = self._packed(entry.match)
        if self.kind is MatchKind.RANGE:
            key = (mask, value, ranges, entry.priority)
            self.ranges[:] = [item for item in self.ranges if (*item[:3], item[4]) != key]
        elif self.kind is MatchKind.LPM:
            group = self._by_mask[mask]
            del group[value]
            if not group:
                del self._by_mask[mask]
                self.prefixes[:] = [item for item in self.prefixes if item[0] != mask]
        else:
            same = self._same[mask, value]
            same.remove(entry)
            if not same:
                del self._same[mask, value]
            self._link_ternary(mask, value)

    def _link_prefix(self, mask: int, value: int, compiled: Compiled) -> None:
        group = self._by_mask.get(mask)
        if group is None:
            group = self._by_mask[mask] = {}
            masks = sorted(self._by_mask, reverse=True)
            self.prefixes[:] = [(m, self._by_mask[m].get) for m in masks]
        group[value] = compiled

    def _link_ternary(self, mask: int, value: int) -> None:
        """Bring one masked value up to date: the entry with the highest priority stands there."""
        group = self._by_mask.setdefault(mask, {})
        before = group.get(value, (0, None))[0]
        same = self._same.get((mask, value))
        if same:
            best = max(same, key=lambda entry: entry.priority)
            group[value] = (best.priority, self._compile(best))
        else:
            del group[value]
        top = self._tops.get(mask, 0)
        after = group.get(value, (0, None))[0]
        if after > top:
            self._tops[mask] = after
        elif before == top and after < top:
            self._tops[mask] = max((priority for priority, _ in group.values()), default=0)
        if not group:
            del self._by_mask[mask], self._tops[mask]
        if self._tops.get(mask, 0) != top:
            order = sorted(self._tops.items(), key=lambda item: -item[1])
            self.masks[:] = [(m, self._by_mask[m].get, priority) for m, priority in order]

    def _packed(self, match: Match) -> tuple[int, int, tuple[tuple[int, int, int, int], ...]]:
        mask = value = 0
        ranges: list[tuple[int, int, int, int]] = []
        for field, item, shift in zip(self.fields, match, self._shifts, strict=True):
            full = (1 << field.bitwidth) - 1
            if field.kind is MatchKind.RANGE:
                assert isinstance(item, tuple)
                if item != (0, full):
                    ranges.append((shift, full, item[0], item[1]))
                continue
            field_mask = _field_mask(field, item)
            first = item[0] if isinstance(item, tuple) else (item or 0)
            mask |= field_mask << shift
            value |= (first & field_mask) << shift
        return mask, value, tuple(ranges)

    def _matches(self, match: Match, key: tuple[int, ...]) -> int:
        """Length of the matching prefix (0 without LPM field), or -1 for no match."""
        length = 0
        for field, item, value in zip(self.fields, match, key, strict=True):
            if field.kind is MatchKind.RANGE:
                assert isinstance(item, tuple)
                if not item[0] <= value <= item[1]:
                    return -1
                continue
            mask = _field_mask(field, item)
            first = item[0] if isinstance(item, tuple) else (item or 0)
            if value & mask != first & mask:
                return -1
            if field.kind is MatchKind.LPM:
                assert isinstance(item, tuple)
                length = item[1]
        return length


class ValueSet:
    """A parser value set: members set by the control plane, matched in a select.

    `widths` are the bit widths of the key fields, in the order of the select. A member is a `Match`
    over them: exact values, or (value, mask) pairs. The generated parser reads `packed`, the list
    of (mask, value) over the fields packed into one integer.
    """

    def __init__(self, name: str, widths: tuple[int, ...], size: int = 0) -> None:
        self.name = name
        self.widths = widths
        self.size = size
        self.fields = tuple(
            MatchField(f"key{i}", MatchKind.EXACT, width) for i, width in enumerate(widths)
        )
        self.members: tuple[Match, ...] = ()
        self.packed: list[tuple[int, int]] = []
        self._shifts = _shifts(self.fields)

    def set_members(self, members: Iterable[Match]) -> None:
        """Replace all members. Raises BadMatch, TableFull."""
        new = tuple(members)
        if self.size and len(new) > self.size:
            raise TableFull(f"{self.name}: {len(new)} members, room for {self.size}")
        packed = []
        for match in new:
            if len(match) != len(self.widths):
                raise BadMatch(f"{self.name}: {len(match)} fields, the key has {len(self.widths)}")
            mask = value = 0
            for field, item, shift in zip(self.fields, match, self._shifts, strict=True):
                full = (1 << field.bitwidth) - 1
                first, field_mask = item if isinstance(item, tuple) else (item, full)
                if first is None:
                    first = field_mask = 0
                if not (0 <= first <= full and 0 <= field_mask <= full):
                    raise BadMatch(f"{self.name}: {first:#x}: does not fit {field.bitwidth} bits")
                mask |= field_mask << shift
                value |= (first & field_mask) << shift
            packed.append((mask, value))
        self.members = new
        self.packed[:] = packed


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


def _shifts(fields: tuple[MatchField, ...]) -> tuple[int, ...]:
    shifts = []
    left = sum(field.bitwidth for field in fields)
    for field in fields:
        left -= field.bitwidth
        shifts.append(left)
    return tuple(shifts)


def _exact_key(match: Match) -> int | tuple[int, ...]:
    values = tuple(v for v in match if isinstance(v, int))
    assert len(values) == len(match)
    return values[0] if len(values) == 1 else values


def _field_mask(field: MatchField, value: MatchValue) -> int:
    full = (1 << field.bitwidth) - 1
    if field.kind is MatchKind.LPM:
        assert isinstance(value, tuple)
        return full ^ (full >> value[1])
    if field.kind is MatchKind.TERNARY:
        assert isinstance(value, tuple)
        return value[1]
    return 0 if value is None else full


def _match_problem(field: MatchField, value: MatchValue) -> str | None:
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
