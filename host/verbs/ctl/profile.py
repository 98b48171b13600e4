"""What profiles of all kinds have in common: the states, and which attribute may change in which.

INIT → OFFLINE → ONLINE → OFFLINE → INIT (mrc_ctl.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Generic, TypeVar

from host.verbs.ctl.attributes import Attributes, given
from host.verbs.ctl.flags import ProfileState
from host.verbs.errors import BusyError, InvalidArgumentError
from host.verbs.flags import beyond, names
from host.verbs.hint import check_vendor_cfg

Mask = TypeVar("Mask", bound=IntFlag)

_INIT, _OFFLINE, _ONLINE = ProfileState

#: state → the states that may follow
PROFILE_TRANSITIONS: dict[ProfileState, frozenset[ProfileState]] = {
    _INIT: frozenset({_OFFLINE}),
    _OFFLINE: frozenset({_ONLINE, _INIT}),
    _ONLINE: frozenset({_OFFLINE}),
}


@dataclass(frozen=True, slots=True)
class ProfileRules(Generic[Mask]):
    """Of one kind of profile: its name, the attributes by mask, and which may be set when.

    `changeable` has, by the state in which a call ends, what it may set; `required` what the way
    from INIT to OFFLINE needs. STATE, CUR_STATE and VENDOR_CFG are in all masks.
    """

    kind: str
    names: Mapping[Mask, str]
    none: Mask
    changeable: Mapping[ProfileState, Mask]
    required: Mask

    def checked(
        self, number: int, state: ProfileState, attr: Attributes, mask: Mask | None
    ) -> tuple[Mask, ProfileState]:
        """The mask (None: that of all that was given) and the state to go to.

        Raises InvalidArgumentError where they do not fit the profile's state.
        """
        what = f"{self.kind} {number}"
        if mask is None:
            mask = given(attr, self.names, self.none)
        by_name = {name: bit for bit, name in self.names.items()}
        state_bit, current_bit = by_name["profile_state"], by_name["cur_profile_state"]
        if mask & current_bit and attr.cur_profile_state is not state:
            raise InvalidArgumentError(
                f"{what}: cur_profile_state: it is {attr.cur_profile_state}, "
                f"but the profile is {state.value}"
            )
        target = state
        if mask & state_bit:
            if attr.profile_state is None:
                raise InvalidArgumentError(
                    f"{what}: profile_state: it is in the mask, but was not given"
                )
            target = attr.profile_state
            if target not in PROFILE_TRANSITIONS[state]:
                allowed = ", ".join(
                    other.value for other in ProfileState if other in PROFILE_TRANSITIONS[state]
                )
                raise InvalidArgumentError(
                    f"{what}: it is {state.value} and cannot go to {target.value}; "
                    f"it can go to: {allowed}"
                )
        vendor_bit = by_name["vendor_cfg"]
        always = state_bit | current_bit | vendor_bit
        # On its way to ONLINE a profile may still be given what it may be given OFFLINE
        allowed_mask = self.changeable.get(
            _OFFLINE if (state, target) == (_OFFLINE, _ONLINE) else target, self.none
        )
        if (state, target) == (_ONLINE, _OFFLINE):
            allowed_mask = self.none
        if wrong := beyond(mask, allowed_mask | always):
            listed = names(wrong)
            raise InvalidArgumentError(f"{what}: {listed} cannot be set while {state.value}")
        if state is _INIT and target is _OFFLINE and (missing := beyond(self.required, mask)):
            listed = names(missing)
            raise InvalidArgumentError(f"{what}: going to OFFLINE needs {listed}")
        if mask & vendor_bit:
            check_vendor_cfg(attr.vendor_cfg)
        return mask, target


def check_given(what: str, attr: object, mask: Mask, names: Mapping[Mask, str]) -> None:
    """Raises InvalidArgumentError for an attribute of the mask that was not given."""
    for bit, name in names.items():
        if bit & mask and getattr(attr, name) is None:
            raise InvalidArgumentError(f"{what}: {name}: it is in the mask, but was not given")


def check_unused(what: str, users: int, kind: str) -> None:
    """Raises BusyError for a profile that others use."""
    if users:
        raise BusyError(f"{what}: {users} {kind} still use(s) it")
