"""Action profiles and action selectors (P4Runtime specification 1.4, section 9.2).

Selection is simple_switch's: hash modulo the number of active members, members in order of their
ids, each as often as its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from softswitch.entries import (
    ActionCall,
    ActionSignature,
    BadMember,
    EntryExists,
    EntryMissing,
    Group,
    GroupRef,
    MemberInUse,
    MemberRef,
    TableFull,
    Target,
    check_action,
)


class ProfileUser(Protocol):
    """What a profile must know of the tables that use it."""

    name: str

    def refers_to(self, target: Target) -> bool:
        """True if an entry, or the default entry, has exactly this target."""
        ...

    def profile_changed(self, members: set[int], groups: set[int], one_shots: bool) -> None:
        """Rebuild what refers to these members and groups of the profile."""
        ...


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
        self.tables: list[ProfileUser] = []
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
