"""What a switch holds, in the words of the P4 program: names and integers, no wire format."""

from __future__ import annotations

from dataclasses import dataclass

#: EXACT: the value. LPM: (value, prefix length). TERNARY: (value, mask). RANGE: (low, high).
#: OPTIONAL: the value, or None for any.
MatchValue = int | tuple[int, int] | None
Match = tuple[MatchValue, ...]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by its full name, with arguments in the order of its parameters."""

    action: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A member of the table's action profile, by id."""

    member_id: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A group of the table's action selector, by id."""

    group_id: int


@dataclass(frozen=True, slots=True)
class OneShot:
    """An action set of one entry's own: (action, weight) pairs. The plan has none of these."""

    members: tuple[tuple[ActionCall, int], ...]


Target = ActionCall | MemberRef | GroupRef | OneShot


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry of a table; `match` in the order of the table's key fields."""

    table: str
    match: Match
    target: Target
    priority: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it this entry and no other."""
        return ("table", self.table, self.match, self.priority)

    @property
    def value(self) -> object:
        """What a second entry of the same key would change."""
        return self.target


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an action profile."""

    profile: str
    member_id: int
    call: ActionCall

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it this member and no other."""
        return ("member", self.profile, self.member_id)

    @property
    def value(self) -> object:
        """What a second member of the same key would change."""
        return self.call


@dataclass(frozen=True, slots=True)
class Group:
    """A group of an action selector: (member id, weight) pairs by ascending id."""

    profile: str
    group_id: int
    members: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it this group and no other."""
        return ("group", self.profile, self.group_id)

    @property
    def value(self) -> object:
        """What a second group of the same key would change."""
        return self.members


Entity = TableEntry | Member | Group
