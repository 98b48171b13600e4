"""`TableAction` messages: what an entry points to (section "Action Specification")."""

from __future__ import annotations

from typing import Any

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.actions import decode_action, encode_action
from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.entities.selector_members import (
    check_weight,
    decode_watch_port,
    encode_watch_port,
    uses_numeric_watch,
)
from softswitch.p4runtime.errors import invalid, not_found
from softswitch.tables import ActionCall, GroupRef, MemberRef, OneShot, Target


class TargetCodec:
    """`TableAction` ↔ `Target`."""

    def __init__(self, access: SwitchAccess) -> None:
        self._access = access

    def decode(self, bound: BoundTable, message: Any, *, is_default: bool = False) -> Target:
        """What an entry points to; the kind must be the one the table is made for."""
        kind = message.WhichOneof("type")
        profile = bound.profile
        if profile is None:
            if kind != "action":
                raise invalid(f"{bound.label} is a direct table: want an action, found {kind}")
            return decode_action(
                message.action, bound.schema.actions, bound.label, is_default=is_default
            )
        if kind == "action_profile_member_id":
            member_id = message.action_profile_member_id
            if member_id not in profile.profile.members:
                raise not_found(f"{profile.label} has no member {member_id}")
            self._check_style(bound, one_shot=False)
            return MemberRef(member_id)
        if kind == "action_profile_group_id":
            group_id = message.action_profile_group_id
            if not profile.schema.with_selector:
                raise invalid(f"{bound.label}: {profile.label} has no selector and so no groups")
            if group_id not in profile.profile.groups:
                raise not_found(f"{profile.label} has no group {group_id}")
            self._check_style(bound, one_shot=False)
            return GroupRef(group_id)
        if kind == "action_profile_action_set" and profile.schema.with_selector:
            self._check_style(bound, one_shot=True)
            return self._decode_one_shot(bound, message.action_profile_action_set)
        wanted = "a member, group or action set" if profile.schema.with_selector else "a member"
        raise invalid(
            f"{bound.label} is implemented by {profile.label}: want {wanted}, found {kind}"
        )

    def _check_style(self, bound: BoundTable, *, one_shot: bool) -> None:
        """A selector's tables use action sets or members and groups, not both."""
        profile = bound.profile
        assert profile is not None
        if one_shot and profile.profile.members:
            raise invalid(f"{profile.label} has members: action sets cannot be used beside them")
        if not one_shot and profile.one_shots:
            raise invalid(f"{profile.label} is programmed with action sets: members cannot be used")

    def _decode_one_shot(self, bound: BoundTable, message: Any) -> OneShot:
        """Section "One Shot Action Selector Programming"."""
        profile = bound.profile
        assert profile is not None
        schema = profile.schema
        members = []
        for item in message.action_profile_actions:
            call = decode_action(item.action, schema.actions, bound.label)
            check_weight(item.weight, schema.sum_of_members, schema.max_member_weight, bound.label)
            members.append((call, item.weight, decode_watch_port(item, self._access, bound.label)))
        total = len(members) if schema.sum_of_members else sum(weight for _, weight, _ in members)
        if schema.max_group_size and total > schema.max_group_size:
            raise invalid(
                f"{bound.label}: action set of size {total}, want at most {schema.max_group_size}"
            )
        return OneShot(tuple(members))

    def encode(
        self, bound: BoundTable, target: Target, message: Any, *, numeric_watch: bool
    ) -> None:
        """Fill in a TableAction; `numeric_watch` names watch ports by the deprecated field."""
        if isinstance(target, ActionCall):
            schema, _ = bound.schema.actions[bound.schema.action_ids[target.action]]
            encode_action(target, schema, message.action)
        elif isinstance(target, MemberRef):
            message.action_profile_member_id = target.member_id
        elif isinstance(target, GroupRef):
            message.action_profile_group_id = target.group_id
        else:
            assert bound.profile is not None
            actions = bound.schema
            action_set = message.action_profile_action_set
            action_set.SetInParent()  # a set without actions is still a set
            for call, weight, watch_port in target.members:
                item = action_set.action_profile_actions.add(weight=weight)
                encode_action(
                    call, actions.actions[actions.action_ids[call.action]][0], item.action
                )
                encode_watch_port(watch_port, item, deprecated=numeric_watch)


def has_numeric_watch(message: Any) -> bool:
    """Whether a TableEntry's action set uses the deprecated field `watch`."""
    if message.action.WhichOneof("type") != "action_profile_action_set":
        return False
    return uses_numeric_watch(message.action.action_profile_action_set.action_profile_actions)
