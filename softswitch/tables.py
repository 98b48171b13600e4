"""Match-action tables: the run-time state of a loaded program that packets are looked up in.

Two faces. The control plane's: entries as frozen values with names and integers (`entries`). The
data plane's: plain dictionaries and lists which the compiled program binds once and reads per
packet; they are therefore only ever *mutated in place*, see `Table` for their shapes.

The names of `entries`, `action_profiles` and `value_sets` can be imported from here too.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from typing import Any

from softswitch.action_profiles import ActionProfile
from softswitch.entries import (
    ActionCall,
    ActionSignature,
    BadAction,
    BadMatch,
    BadMember,
    Entry,
    EntryExists,
    EntryMissing,
    Group,
    GroupRef,
    Match,
    MatchField,
    MatchKind,
    MatchValue,
    MemberInUse,
    MemberRef,
    OneShot,
    TableConst,
    TableError,
    TableFull,
    Target,
    check_action,
    field_mask,
    key_kind,
    key_shifts,
    match_problem,
)
from softswitch.externs import Meter, MeterKind
from softswitch.value_sets import ValueSet

__all__ = [
    "GROUP",
    "NO_ACTION",
    "ActionCall",
    "ActionProfile",
    "ActionSignature",
    "BadAction",
    "BadMatch",
    "BadMember",
    "Compiled",
    "Entry",
    "EntryExists",
    "EntryMissing",
    "Group",
    "GroupRef",
    "Match",
    "MatchField",
    "MatchKind",
    "MatchValue",
    "MemberInUse",
    "MemberRef",
    "OneShot",
    "Table",
    "TableConst",
    "TableError",
    "TableFull",
    "Target",
    "ValueSet",
    "check_action",
    "key_kind",
]

Compiled = tuple[Any, ...]
"""A compiled entry, as the generated code reads it: `(action number, [counter], [entry], *args)`.

The action number is the place in `Table.action_names`; `NO_ACTION` does nothing and `GROUP` is
followed by a list of compiled members instead of arguments. `counter` (the `[packets, bytes]` list)
is there only if the table has counters; `entry` (the `Entry`) only if it has meters or ageing.
"""
NO_ACTION = -1
GROUP = -2


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
        self._shifts = key_shifts(fields)
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
            problem = match_problem(field, value)
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
            compared = field_mask(field, item)
            first = item[0] if isinstance(item, tuple) else (item or 0)
            mask |= compared << shift
            value |= (first & compared) << shift
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
            mask = field_mask(field, item)
            first = item[0] if isinstance(item, tuple) else (item or 0)
            if value & mask != first & mask:
                return -1
            if field.kind is MatchKind.LPM:
                assert isinstance(item, tuple)
                length = item[1]
        return length


def _exact_key(match: Match) -> int | tuple[int, ...]:
    values = tuple(v for v in match if isinstance(v, int))
    assert len(values) == len(match)
    return values[0] if len(values) == 1 else values
