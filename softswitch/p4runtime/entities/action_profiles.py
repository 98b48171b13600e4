"""Action profile members and groups (section "ActionProfileMember & ActionProfileGroup")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.actions import decode_action, encode_action
from softswitch.p4runtime.binding import BoundProfile
from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.entities.selector_members import (
    check_weight,
    decode_watch_port,
    encode_watch_port,
    uses_numeric_watch,
)
from softswitch.p4runtime.errors import exhausted, invalid, not_found
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import ActionCall, Group


class _ProfileHandler(EntityHandler):
    """What members and groups share."""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._binding = state.binding

    def _profiles(self, profile_id: int) -> list[BoundProfile]:
        """One profile, or all of them for id 0."""
        if profile_id == 0:
            return list(self._binding.profiles.values())
        return [self._binding.profile(profile_id)]

    def _writable(self, profile: BoundProfile) -> None:
        """Members and groups cannot be added beside action sets."""
        if profile.one_shots:
            raise invalid(
                f"{profile.label} is programmed with action sets: members and groups cannot be used"
            )


class MemberHandler(_ProfileHandler):
    """`ActionProfileMember`."""

    kind = "action_profile_member"

    def insert(self, message: Any) -> Undo:
        """Add a member; RESOURCE_EXHAUSTED when the profile is full."""
        profile, member_id, call = self._decode(message)
        self._writable(profile)
        profile.profile.insert_member(member_id, call)
        return lambda: profile.profile.delete_member(member_id)

    def modify(self, message: Any) -> Undo:
        """Give a member another action; entries and groups that use it follow."""
        profile, member_id, call = self._decode(message)
        before = self._existing(profile, member_id)
        profile.profile.modify_member(member_id, call)
        return lambda: profile.profile.modify_member(member_id, before)

    def delete(self, message: Any) -> Undo:
        """Take a member out; FAILED_PRECONDITION while a group or an entry uses it."""
        profile = self._binding.profile(message.action_profile_id)
        member_id: int = message.member_id
        before = self._existing(profile, member_id)
        profile.profile.delete_member(member_id)
        return lambda: profile.profile.insert_member(member_id, before)

    def read(self, message: Any) -> Iterator[Any]:
        """All members, those of one profile, or one."""
        profiles = self._profiles(message.action_profile_id)
        return self._read(profiles, message.member_id)

    def _read(self, profiles: list[BoundProfile], member_id: int) -> Iterator[Any]:
        for profile in profiles:
            actions = {schema.name: schema for schema, _ in profile.schema.actions.values()}
            for found_id, call in list(profile.profile.members.items()):
                if member_id not in (0, found_id):
                    continue
                message = p4runtime_pb2.ActionProfileMember(
                    action_profile_id=profile.schema.id, member_id=found_id
                )
                encode_action(call, actions[call.action], message.action)
                yield message

    def _decode(self, message: Any) -> tuple[BoundProfile, int, ActionCall]:
        profile = self._binding.profile(message.action_profile_id)
        if message.member_id == 0:
            raise invalid(f"{profile.label}: member_id is not set")
        if not message.HasField("action"):
            raise invalid(f"{profile.label}: member {message.member_id} has no action")
        call = decode_action(message.action, profile.schema.actions, profile.label)
        return profile, message.member_id, call

    def _existing(self, profile: BoundProfile, member_id: int) -> ActionCall:
        call = profile.profile.members.get(member_id)
        if call is None:
            raise not_found(f"{profile.label} has no member {member_id}")
        return call


class GroupHandler(_ProfileHandler):
    """`ActionProfileGroup`."""

    kind = "action_profile_group"

    def insert(self, message: Any) -> Undo:
        """Add a group of members that exist."""
        profile, group_id, group = self._decode(message)
        self._writable(profile)
        self._check_sizes(profile, group_id, group, message.max_size)
        profile.profile.insert_group(group_id, group)
        self._remember(profile, message)
        return lambda: self._remove(profile, group_id)

    def modify(self, message: Any) -> Undo:
        """Replace a group's members; its max_size must not change."""
        profile, group_id, group = self._decode(message)
        before = self._existing(profile, group_id)
        max_size = self._state.group_max_sizes.get((profile.schema.id, group_id), 0)
        if message.max_size != max_size:
            raise invalid(
                f"{profile.label}: group {group_id} was created with max_size {max_size}, "
                f"it cannot become {message.max_size}"
            )
        self._check_sizes(profile, group_id, group, max_size)
        watches_before = self._deprecated_watches(profile, group_id)
        profile.profile.modify_group(group_id, group)
        self._remember(profile, message)

        def undo() -> None:
            profile.profile.modify_group(group_id, before)
            self._set_deprecated_watches(profile, group_id, watches_before)

        return undo

    def delete(self, message: Any) -> Undo:
        """Take a group out; FAILED_PRECONDITION while an entry uses it."""
        profile = self._binding.profile(message.action_profile_id)
        group_id: int = message.group_id
        before = self._existing(profile, group_id)
        max_size = self._state.group_max_sizes.get((profile.schema.id, group_id), 0)
        watches_before = self._deprecated_watches(profile, group_id)
        profile.profile.delete_group(group_id)
        self._forget(profile, group_id)

        def undo() -> None:
            profile.profile.insert_group(group_id, before)
            self._state.group_max_sizes[profile.schema.id, group_id] = max_size
            self._set_deprecated_watches(profile, group_id, watches_before)

        return undo

    def read(self, message: Any) -> Iterator[Any]:
        """All groups, those of one selector, or one."""
        profiles = self._profiles(message.action_profile_id)
        return self._read(profiles, message.group_id)

    def _read(self, profiles: list[BoundProfile], group_id: int) -> Iterator[Any]:
        for profile in profiles:
            for found_id, group in list(profile.profile.groups.items()):
                if group_id not in (0, found_id):
                    continue
                message = p4runtime_pb2.ActionProfileGroup(
                    action_profile_id=profile.schema.id,
                    group_id=found_id,
                    max_size=self._state.group_max_sizes.get((profile.schema.id, found_id), 0),
                )
                deprecated = self._deprecated_watches(profile, found_id)
                for member_id, (weight, watch_port) in group.members.items():
                    member = message.members.add(member_id=member_id, weight=weight)
                    encode_watch_port(watch_port, member, deprecated=deprecated)
                yield message

    # -- checks --------------------------------------------------------------------------

    def _decode(self, message: Any) -> tuple[BoundProfile, int, Group]:
        profile = self._binding.profile(message.action_profile_id)
        if not profile.schema.with_selector:
            raise invalid(f"{profile.label} has no selector and so no groups")
        group_id: int = message.group_id
        if group_id == 0:
            raise invalid(f"{profile.label}: group_id is not set")
        where = f"{profile.label}: group {group_id}"
        members: dict[int, tuple[int, int]] = {}
        for member in message.members:
            if member.member_id in members:
                raise invalid(f"{where}: member {member.member_id} is given twice, use its weight")
            if member.member_id not in profile.profile.members:
                raise not_found(f"{where}: member {member.member_id} does not exist")
            check_weight(
                member.weight,
                profile.schema.sum_of_members,
                profile.schema.max_member_weight,
                where,
            )
            watch_port = decode_watch_port(member, self._state.access, where)
            members[member.member_id] = (member.weight, watch_port)
        return profile, group_id, Group(members)

    def _check_sizes(
        self, profile: BoundProfile, group_id: int, group: Group, max_size: int
    ) -> None:
        """Section "Rules on Setting max_size"; 0 stands for the selector's own limit.

        Sizes are counted in weights or in members, as P4Info says.
        """
        schema = profile.schema
        where = f"{profile.label}: group {group_id}"
        limit = schema.max_group_size
        if max_size < 0 or (limit and max_size > limit):
            wanted = f"0 to {limit}" if limit else "0 or more"
            raise invalid(f"{where}: max_size {max_size}, want {wanted}")
        size = _size(group, schema.sum_of_members)
        if (max_size or limit) and size > (max_size or limit):
            raise exhausted(f"{where}: size {size}, room for {max_size or limit}")
        if not schema.size:
            return
        others = (g for i, g in profile.profile.groups.items() if i != group_id)
        total = size + sum(_size(g, schema.sum_of_members) for g in others)
        if total > schema.size:
            raise exhausted(
                f"{where}: all groups together have size {total}, room for {schema.size}"
            )

    # -- what is kept beside the group ---------------------------------------------------

    def _existing(self, profile: BoundProfile, group_id: int) -> Group:
        group = profile.profile.groups.get(group_id)
        if group is None:
            raise not_found(f"{profile.label} has no group {group_id}")
        return group

    def _remember(self, profile: BoundProfile, message: Any) -> None:
        self._state.group_max_sizes[profile.schema.id, message.group_id] = message.max_size
        self._set_deprecated_watches(profile, message.group_id, uses_numeric_watch(message.members))

    def _remove(self, profile: BoundProfile, group_id: int) -> None:
        profile.profile.delete_group(group_id)
        self._forget(profile, group_id)

    def _forget(self, profile: BoundProfile, group_id: int) -> None:
        self._state.group_max_sizes.pop((profile.schema.id, group_id), None)
        self._set_deprecated_watches(profile, group_id, False)

    def _deprecated_watches(self, profile: BoundProfile, group_id: int) -> bool:
        return (profile.schema.id, group_id) in self._state.watches_by_deprecated_field

    def _set_deprecated_watches(self, profile: BoundProfile, group_id: int, used: bool) -> None:
        key = (profile.schema.id, group_id)
        if used:
            self._state.watches_by_deprecated_field.add(key)
        else:
            self._state.watches_by_deprecated_field.discard(key)


def _size(group: Group, sum_of_members: bool) -> int:
    """How much a group counts against max_group_size and size."""
    if sum_of_members:
        return len(group.members)
    return sum(weight for weight, _ in group.members.values())
