"""EV profiles as controllers make them, and the operations on their EVs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from host.config import NicConfig
from host.paths import EvMode as PathsMode
from host.paths import EvProfile
from host.verbs.ctl.attributes import (
    EV_FIELDS,
    EV_UNPOPULATED,
    Ev,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
)
from host.verbs.ctl.ev_array import EvArray
from host.verbs.ctl.ev_fmt import EvFmtProfile
from host.verbs.ctl.ev_settings import EvSettings, generated
from host.verbs.ctl.flags import EvMode, EvOpType, EvProfileAttrMask, EvState, ProfileState
from host.verbs.ctl.profile import ProfileRules, check_given, check_unused
from host.verbs.errors import InvalidArgumentError, translated
from host.verbs.flags import beyond

_INIT, _OFFLINE, _ONLINE = ProfileState
_Mask = EvProfileAttrMask
_EVENTS = EvState.GOOD | EvState.ASSUMED_BAD
_SETTABLE = (EvState.GOOD, EvState.ASSUMED_BAD, EvState.DENIED)

RULES = ProfileRules(
    kind="EV profile",
    names=EV_FIELDS,
    none=_Mask(0),
    changeable={
        _OFFLINE: _Mask.MODE
        | _Mask.FMT_ID
        | _Mask.COUNT
        | _Mask.MIN_ACTIVE
        | _Mask.EVENT_MASK
        | _Mask.EV_OP
        | _Mask.EV_FIELDS_OP,
        # The originals' own example changes the event mask of an ONLINE profile, so it is allowed
        # although EV_PROFILE_MODIFY_ONLINE is not advertised
        _ONLINE: _Mask.EV_OP | _Mask.EVENT_MASK,
    },
    required=_Mask.MODE,
)

_CTL_MODES: dict[PathsMode, EvMode] = {
    PathsMode.AUTO: EvMode.AUTO,
    PathsMode.EXPLICIT: EvMode.EXP,
    PathsMode.GENERATED: EvMode.GEN,
}


class EvProfileEntry:
    """One EV profile.

    `online` is what the NIC uses while it is ONLINE. `live(ev, state)` carries an administrator's
    change of a state to the queue pairs that have the profile; `observed(ev)` asks them what they
    hold of an EV.
    """

    def __init__(
        self,
        number: int,
        config: NicConfig,
        *,
        live: Callable[[int, EvState], None],
        observed: Callable[[int], EvState],
    ) -> None:
        self.number = number
        self.state = _INIT
        self.online: EvProfile | None = None
        self.event_mask = EvState(0)
        self._what = f"EV profile {number}"
        self._config = config
        self._live = live
        self._observed = observed
        self._vendor_cfg = b""
        self.settings = EvSettings(self._what)
        self.array = EvArray(self._what, config, ())

    def adopt(self, profile: EvProfile) -> None:
        """Be a profile that the NIC has already: ONLINE."""
        self.state = _ONLINE
        self.online = profile
        values = generated(profile.fields, profile.ev_count) if profile.fields else profile.evs
        self.settings = EvSettings(
            self._what,
            _CTL_MODES[profile.mode],
            count=len(values),
            fields=profile.fields,
            min_active=profile.ev_min_active,
        )
        if profile.mode is PathsMode.AUTO:
            self.array = self.settings.array(self._config, 0)
        else:
            self.array = EvArray.of_values(self._what, self._config, values)
        self.array.denied |= profile.denied

    # --- attributes ---

    def modify(
        self,
        attr: EvProfileAttr,
        mask: EvProfileAttrMask | None,
        *,
        fmt: Callable[[int], EvFmtProfile],
        free: int,
        users: int,
    ) -> None:
        """mrc_ctl_modify_ev_profile.

        `fmt` finds format profiles, `free` EVs are left on the device, `users` QPs have the
        profile. Raises with nothing changed, but for operations on EVs of a profile that keeps its
        state, which end with the first entry that fails.
        """
        mask, target = RULES.checked(self.number, self.state, attr, mask)
        self._check(attr, mask, target, users)
        settings, array, online = self.settings, self.array, self.online
        if self.state is not _ONLINE and target is not _INIT:
            settings = settings.changed(attr, mask, fmt)
            if settings.makes_other_evs(self.settings):
                array = settings.array(self._config, free + self.listed)
        if (self.state, target) == (_OFFLINE, _ONLINE):
            if mask & _Mask.EV_OP:
                # EVs that are missing may come with the same call
                assert attr.ev_op is not None
                array = array.copy()
                self._operate(attr.ev_op, array, settings)
                mask ^= _Mask.EV_OP
            online = self._made(settings, array, fmt)
        elif target is not _ONLINE:
            online = None
        if target is _INIT:
            settings = EvSettings(self._what)
            array = EvArray(self._what, self._config, ())
            self._vendor_cfg, self.event_mask = b"", EvState(0)
        self.settings, self.array, self.online = settings, array, online
        self.state = target
        if mask & _Mask.EVENT_MASK:
            assert attr.ev_event_mask is not None
            self.event_mask = attr.ev_event_mask
        if mask & _Mask.VENDOR_CFG:
            assert attr.vendor_cfg is not None
            self._vendor_cfg = attr.vendor_cfg
        if mask & _Mask.EV_OP:
            assert attr.ev_op is not None
            try:
                self._operate(attr.ev_op, array, settings)
            finally:
                if self.online is not None:
                    self.online = replace(self.online, denied=frozenset(array.denied))

    def _check(
        self, attr: EvProfileAttr, mask: EvProfileAttrMask, target: ProfileState, users: int
    ) -> None:
        what = self._what
        check_given(what, attr, mask, EV_FIELDS)
        if mask & _Mask.EV_OP and mask & _Mask.EV_FIELDS_OP:
            raise InvalidArgumentError(f"{what}: EV_OP and EV_FIELDS_OP exclude one another")
        if self.number == 0 and target is not self.state:
            raise InvalidArgumentError(f"{what}: it is the NIC's default and stays ONLINE")
        if (self.state, target) == (_ONLINE, _OFFLINE):
            check_unused(what, users, "QP(s)")
        if mask & _Mask.EVENT_MASK:
            assert attr.ev_event_mask is not None
            if beyond(attr.ev_event_mask, _EVENTS):
                raise InvalidArgumentError(
                    f"{what}: ev_event_mask: {attr.ev_event_mask!r} does not fit: "
                    "it may have GOOD and ASSUMED_BAD"
                )

    def _made(
        self, settings: EvSettings, array: EvArray, fmt: Callable[[int], EvFmtProfile]
    ) -> EvProfile:
        """What the NIC is to use. Raises InvalidArgumentError where that cannot be."""
        what = self._what
        if settings.fmt_fields is not None and fmt(settings.fmt_id).state is not _ONLINE:
            raise InvalidArgumentError(f"{what}: EV format profile {settings.fmt_id} is not ONLINE")
        if array.unpopulated:
            raise InvalidArgumentError(f"{what}: {array.unpopulated} of its EVs are unpopulated")
        auto = settings.mode is EvMode.AUTO
        config = self._config
        with translated():
            # The array is what counts: those of a generated profile are given as EVs too
            made = EvProfile(
                mode=PathsMode.AUTO if auto else PathsMode.EXPLICIT,
                evs=() if auto else tuple(array.pairs()),
                ev_min_active=settings.min_active,
                denied=frozenset(array.denied),
            )
            # Raises for EVs that lead nowhere, which is better known now than at a connection
            made.universe(
                planes=len(config.ports),
                uplinks=config.uplinks,
                forwarding=config.forwarding,
                rng=random.Random(0),
            )
        return made

    @property
    def listed(self) -> int:
        """How many EVs take up room on the device; those of AUTO do not."""
        return 0 if self.settings.mode is EvMode.AUTO else len(self.array)

    # --- operations on EVs ---

    def _operate(self, op: EvOp, array: EvArray, settings: EvSettings) -> None:
        """Change EVs, entry by entry."""
        what = self._what
        if op.op not in (EvOpType.REPLACE_EV, EvOpType.MODIFY_EV_STATE):
            raise InvalidArgumentError(f"{what}: {op.op.value} is for query_ev_profile")
        for entry in op.entries:
            if op.op is EvOpType.REPLACE_EV:
                if settings.mode is not EvMode.EXP:
                    raise InvalidArgumentError(f"{what}: REPLACE_EV is for explicit profiles")
                if self.state is _ONLINE:
                    raise InvalidArgumentError(f"{what}: REPLACE_EV needs it OFFLINE")
                array.replace(entry)
            else:
                if entry.state not in _SETTABLE:
                    raise InvalidArgumentError(
                        f"{what}: state: {entry.state!r} does not fit: it must be GOOD, "
                        "ASSUMED_BAD or DENIED"
                    )
                array.deny(entry.ev, entry.state is EvState.DENIED)
                self._live(entry.ev.val, entry.state)

    def query_op(self, op: EvOp) -> EvOp:
        """A query of EVs, with its entries filled in. Raises InvalidArgumentError for others."""
        if self.state is _INIT:
            raise InvalidArgumentError(f"{self._what}: it is INIT and has no EVs")
        array = self.array
        if op.op is EvOpType.QUERY_EV_ARRAY:
            entries = [EvOpEntry(ev, state=self._state(ev)) for ev in array.evs]
        elif op.op is EvOpType.QUERY_EV_STATE:
            for entry in op.entries:
                array.place_of(entry.ev)
            entries = [replace(entry, state=self._state(entry.ev)) for entry in op.entries]
        else:
            raise InvalidArgumentError(f"{self._what}: {op.op.value} is not a query")
        return replace(op, entries=tuple(entries))

    def _state(self, ev: Ev) -> EvState:
        if ev == EV_UNPOPULATED:
            return EvState.UNKNOWN
        return EvState.DENIED if ev.val in self.array.denied else self._observed(ev.val)

    def query(self, mask: EvProfileAttrMask, op: EvOp | None = None) -> EvProfileAttr:
        """mrc_ctl_query_ev_profile."""
        values: dict[str, Any] = {
            "profile_state": self.state,
            "cur_profile_state": self.state,
            "ev_mode": self.settings.mode,
            "ev_fmt_profile_id": self.settings.fmt_id,
            "ev_count": len(self.array),
            "ev_min_active": self.settings.min_active,
            "ev_event_mask": self.event_mask,
            "fields": self.settings.fields,
            "vendor_cfg": self._vendor_cfg,
        }
        names = {name for bit, name in EV_FIELDS.items() if bit & mask}
        if "ev_op" in names:
            if op is None:
                raise InvalidArgumentError(f"{self._what}: ev_op: it is in the mask, but missing")
            if "fields" in names:
                raise InvalidArgumentError(
                    f"{self._what}: EV_OP and EV_FIELDS_OP exclude one another"
                )
            values["ev_op"] = self.query_op(op)
        return EvProfileAttr(**{name: values[name] for name in names})
