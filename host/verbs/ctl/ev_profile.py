"""EV profiles as controllers make them, and the operations on their EVs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod
from typing import Any

from host.config import ForwardingMode, NicConfig
from host.paths import EvFieldRule, EvProfile
from host.paths import EvMode as PathsMode
from host.paths.profile import MAX_EV_COUNT, expand_evs
from host.paths.universe import plane_of_ev
from host.verbs.ctl.attributes import (
    EV_FIELDS,
    EV_UNPOPULATED,
    Ev,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
)
from host.verbs.ctl.ev_fmt import EvFmtProfile
from host.verbs.ctl.flags import (
    EvMode,
    EvOpFlags,
    EvOpType,
    EvProfileAttrMask,
    EvState,
    ProfileState,
)
from host.verbs.ctl.profile import ProfileRules, check_given, check_unused
from host.verbs.errors import (
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    TooBigError,
    check_range,
    translated,
)
from host.verbs.flags import beyond
from topologies.addressing import EV_BITS, decode_ev, ev_universe

_Mask = EvProfileAttrMask
_EVENTS = EvState.GOOD | EvState.ASSUMED_BAD
_SETTABLE = (EvState.GOOD, EvState.ASSUMED_BAD, EvState.DENIED)

RULES = ProfileRules(
    kind="EV profile",
    names=EV_FIELDS,
    none=_Mask(0),
    changeable={
        ProfileState.OFFLINE: _Mask.MODE
        | _Mask.FMT_ID
        | _Mask.COUNT
        | _Mask.MIN_ACTIVE
        | _Mask.EVENT_MASK
        | _Mask.EV_OP
        | _Mask.EV_FIELDS_OP,
        # The originals' own example changes the event mask of an ONLINE profile, so it is allowed
        # although EV_PROFILE_MODIFY_ONLINE is not advertised
        ProfileState.ONLINE: _Mask.EV_OP | _Mask.EVENT_MASK,
    },
    required=_Mask.MODE,
)

_PATHS_MODES: dict[EvMode, PathsMode] = {
    EvMode.AUTO: PathsMode.AUTO,
    EvMode.EXP: PathsMode.EXPLICIT,
    EvMode.GEN: PathsMode.GENERATED,
}
_CTL_MODES = {paths: ctl for ctl, paths in _PATHS_MODES.items()}


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
        self.state = ProfileState.INIT
        self.online: EvProfile | None = None
        self.mode: EvMode | None = None
        self.fmt_id = 0
        self.event_mask = EvState(0)
        self._config = config
        self._live = live
        self._observed = observed
        self._count = 0
        self._min_active: int | None = None
        self._array: list[Ev] = []
        #: Where in the array an EV stands, by its value: EVs are distinct
        self._index: dict[int, int] = {}
        self._fields: tuple[EvFieldRule, ...] = ()
        self._fmt: EvFmtProfile | None = None
        self._denied: set[int] = set()
        self._vendor_cfg = b""

    @property
    def has_fmt(self) -> bool:
        """Whether it has an EV format profile, as all but AUTO do."""
        return self._fmt is not None

    @property
    def listed(self) -> list[Ev]:
        """The EVs that take up room; AUTO has none."""
        return self._array

    @property
    def _what(self) -> str:
        return f"EV profile {self.number}"

    @property
    def _hashed(self) -> bool:
        return self._config.forwarding is ForwardingMode.ECMP

    @classmethod
    def of_nic(
        cls,
        number: int,
        config: NicConfig,
        profile: EvProfile,
        *,
        live: Callable[[int, EvState], None],
        observed: Callable[[int], EvState],
    ) -> EvProfileEntry:
        """A profile that the NIC has already: ONLINE."""
        entry = cls(number, config, live=live, observed=observed)
        entry.state = ProfileState.ONLINE
        entry.online = profile
        entry.mode = _CTL_MODES[profile.mode]
        entry._fields = profile.fields
        entry._min_active = profile.ev_min_active
        entry._denied = set(profile.denied)
        entry._fill(
            entry._generated(profile.fields, profile.ev_count)
            if profile.fields
            else [ev if isinstance(ev, tuple) else (ev, None) for ev in profile.evs]
        )
        return entry

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
        profile. Raises with nothing changed, but for EV operations, which end with the first entry
        that fails.
        """
        mask, target = RULES.checked(self.number, self.state, attr, mask)
        what = self._what
        check_given(what, attr, mask, EV_FIELDS)
        if mask & _Mask.EV_OP and mask & _Mask.EV_FIELDS_OP:
            raise InvalidArgumentError(f"{what}: EV_OP and EV_FIELDS_OP exclude one another")
        if self.number == 0 and target is not self.state:
            raise InvalidArgumentError(f"{what}: it is the NIC's default and stays ONLINE")
        if self.state is ProfileState.ONLINE and target is ProfileState.OFFLINE:
            check_unused(what, users, "QP(s)")
        if mask & _Mask.EVENT_MASK:
            assert attr.ev_event_mask is not None
            if beyond(attr.ev_event_mask, _EVENTS):
                raise InvalidArgumentError(
                    f"{what}: ev_event_mask: {attr.ev_event_mask!r} does not fit: "
                    "it may have GOOD and ASSUMED_BAD"
                )
        undo = self._saved()
        try:
            if self.state is not ProfileState.ONLINE and target is not ProfileState.INIT:
                self._configure(attr, mask, fmt, free)
            if mask & _Mask.EVENT_MASK:
                assert attr.ev_event_mask is not None
                self.event_mask = attr.ev_event_mask
            if target is ProfileState.ONLINE and self.state is ProfileState.OFFLINE:
                if mask & _Mask.EV_OP:
                    # Unpopulated entries may be filled in the same call
                    assert attr.ev_op is not None
                    self._operate(attr.ev_op, modify=True)
                    mask &= ~_Mask.EV_OP
                self.online = self._made()
        except BaseException:
            self._restore(undo)
            raise
        self.state = target
        if mask & _Mask.VENDOR_CFG:
            self._vendor_cfg = attr.vendor_cfg or b""
        if target is not ProfileState.ONLINE:
            self.online = None
        if target is ProfileState.INIT:
            self._clear()
        if mask & _Mask.EV_OP:
            assert attr.ev_op is not None
            self._operate(attr.ev_op, modify=True)

    def _saved(self) -> dict[str, Any]:
        saved = dict(self.__dict__)
        for name in ("_array", "_index", "_denied"):
            saved[name] = saved[name].copy()
        return saved

    def _restore(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)

    def _clear(self) -> None:
        self.mode = None
        self.fmt_id = 0
        self.event_mask = EvState(0)
        self._count = 0
        self._min_active = None
        self._array, self._index = [], {}
        self._fields, self._fmt = (), None
        self._denied = set()
        self._vendor_cfg = b""

    def _configure(
        self,
        attr: EvProfileAttr,
        mask: EvProfileAttrMask,
        fmt: Callable[[int], EvFmtProfile],
        free: int,
    ) -> None:
        what = self._what
        old = (self.mode, self._count, self._fields, self.fmt_id)
        if mask & _Mask.MODE:
            if attr.ev_mode not in _PATHS_MODES:
                raise InvalidArgumentError(
                    f"{what}: ev_mode: {attr.ev_mode!r} does not fit: it must be one of "
                    "AUTO, EXP, GEN"
                )
            self.mode = attr.ev_mode
        mode = self.mode
        if mask & _Mask.FMT_ID:
            assert attr.ev_fmt_profile_id is not None
            self.fmt_id = attr.ev_fmt_profile_id
            self._fmt = fmt(self.fmt_id)
        if mask & _Mask.COUNT:
            assert attr.ev_count is not None
            if mode is EvMode.AUTO:
                raise InvalidArgumentError(f"{what}: ev_count: with AUTO the NIC counts")
            if attr.ev_count > MAX_EV_COUNT:
                raise TooBigError(
                    f"{what}: ev_count: {attr.ev_count} does not fit: a profile holds "
                    f"{MAX_EV_COUNT} EVs"
                )
            check_range(f"{what}: ev_count", attr.ev_count, 1, MAX_EV_COUNT)
            self._count = attr.ev_count
        if mask & _Mask.EV_FIELDS_OP:
            assert attr.fields is not None
            self._fields = attr.fields
        if mode is not EvMode.AUTO:
            self._check_listed(old[0] is None)
        if (mode, self._count, self._fields, self.fmt_id) != old:
            if max(self._count - len(self._array), 0) > free:
                raise TooBigError(
                    f"{what}: ev_count: {self._count} does not fit: the device has {free} EVs left"
                )
            self._denied = set()
            if mode is EvMode.GEN:
                self._fill(self._generated(self._padded(), self._count))
                self._count = len(self._array)
            elif mode is EvMode.EXP:
                self._array = [EV_UNPOPULATED] * self._count
                self._index = {}
            else:
                self._array, self._index = [], {}
        if mask & _Mask.MIN_ACTIVE:
            assert attr.ev_min_active is not None
            most = self._count if mode is not EvMode.AUTO else MAX_EV_COUNT
            check_range(f"{what}: ev_min_active", attr.ev_min_active, 0, most)
            self._min_active = attr.ev_min_active

    def _check_listed(self, first: bool) -> None:
        """Of EXP and GEN: the format, count and fields that they need."""
        what = self._what
        fmt = self._fmt
        if fmt is None:
            raise InvalidArgumentError(f"{what}: {self.mode!r} needs ev_fmt_profile_id")
        if fmt.state is ProfileState.INIT:
            raise InvalidArgumentError(f"{what}: EV format profile {fmt.number} is INIT")
        if not self._count:
            raise InvalidArgumentError(f"{what}: {self.mode!r} needs ev_count")
        if self.mode is EvMode.EXP:
            if self._fields:
                raise NotSupportedError(
                    f"{what}: fields: the EVs of an explicit profile are whole, not expanded"
                )
            return
        if not self._fields:
            raise InvalidArgumentError(f"{what}: {self.mode!r} needs fields")
        if len(self._fields) > len(fmt.fields):
            raise TooBigError(
                f"{what}: fields: {len(self._fields)} do not fit: the format has {len(fmt.fields)}"
            )
        for number, (rule, field) in enumerate(zip(self._fields, fmt.fields, strict=False)):
            if rule.width > field.width:
                raise InvalidArgumentError(
                    f"{what}: fields[{number}]: width {rule.width} does not fit: "
                    f"the format has {field.width} bits there"
                )

    def _padded(self) -> tuple[EvFieldRule, ...]:
        """The fields as wide as the format's; what a field lacks is zero above it."""
        assert self._fmt is not None
        rules = list(self._fields)
        fields = self._fmt.fields
        rules += [EvFieldRule(field.width) for field in fields[len(rules) :]]
        with translated():
            return tuple(
                replace(rule, width=field.width) for rule, field in zip(rules, fields, strict=True)
            )

    def _generated(
        self, rules: tuple[EvFieldRule, ...], count: int | None
    ) -> Iterable[tuple[int, int | None]]:
        total = prod(rule.count for rule in rules)
        return [(ev, None) for ev in expand_evs(rules, None if count == total else count)]

    def _fill(self, evs: Iterable[tuple[int, int | None]]) -> None:
        """Make the array of EVs, and planes where these are known."""
        planes = len(self._config.ports)
        self._array = []
        for number, (ev, plane) in enumerate(evs):
            if plane is None:
                plane = number % planes if self._hashed else plane_of_ev(ev)
            self._array.append(Ev(ev, plane + 1))
        self._index = {ev.val: number for number, ev in enumerate(self._array)}
        self._count = len(self._array)

    def _made(self) -> EvProfile:
        """What the NIC is to use. Raises InvalidArgumentError where that cannot be."""
        what = self._what
        assert self.mode is not None
        if self._fmt is not None and self._fmt.state is not ProfileState.ONLINE:
            raise InvalidArgumentError(f"{what}: EV format profile {self.fmt_id} is not ONLINE")
        if empty := self._array.count(EV_UNPOPULATED):
            raise InvalidArgumentError(f"{what}: {empty} of its EVs are unpopulated")
        # The array is what counts: a generated profile is given to the NIC as its EVs
        evs = tuple((ev.val, ev.port - 1) for ev in self._array)
        with translated():
            made = EvProfile(
                mode=PathsMode.AUTO if self.mode is EvMode.AUTO else PathsMode.EXPLICIT,
                evs=evs,
                ev_min_active=self._min_active,
                denied=frozenset(self._denied),
            )
            made.universe(
                planes=len(self._config.ports),
                uplinks=self._config.uplinks,
                forwarding=self._config.forwarding,
                rng=random.Random(0),
            )
        return made

    # --- operations on EVs ---

    def array(self) -> list[Ev]:
        """The EVs. Of AUTO those of the fabric's paths; none where the fabric hashes EVs."""
        if self.mode is not EvMode.AUTO or self._hashed:
            return [*self._array]
        config = self._config
        return [
            Ev(ev, plane_of_ev(ev) + 1) for ev in ev_universe(len(config.ports), config.uplinks)
        ]

    def _known(self, ev: Ev) -> Ev:
        place = self._index.get(ev.val)
        known = ev in self.array() if place is None else self._array[place] == ev
        if not known or ev == EV_UNPOPULATED:
            raise NotFoundError(f"{self._what}: EV {ev.val:#010x} at port {ev.port} is not in it")
        return ev

    def _operate(self, op: EvOp, *, modify: bool) -> tuple[EvOpEntry, ...]:
        """Do an operation, entry by entry; returns the entries as it leaves them."""
        what = self._what
        if self.state is ProfileState.INIT and self.mode is None:
            raise InvalidArgumentError(f"{what}: it is INIT and has no EVs")
        if op.op is EvOpType.QUERY_EV_ARRAY:
            return tuple(EvOpEntry(ev, state=self.ev_state(ev)) for ev in self.array())
        if op.op is EvOpType.QUERY_EV_STATE:
            return tuple(
                replace(entry, state=self.ev_state(self._known(entry.ev))) for entry in op.entries
            )
        if not modify:
            raise InvalidArgumentError(f"{what}: {op.op.value} is not a query")
        for entry in op.entries:
            if op.op is EvOpType.REPLACE_EV:
                self._replace(entry)
            else:
                self._set_state(self._known(entry.ev), entry.state)
        return op.entries

    def refresh(self) -> None:
        """Let `online` follow the denylist."""
        if self.online is not None and self.online.denied != self._denied:
            self.online = replace(self.online, denied=frozenset(self._denied))

    def query_op(self, op: EvOp) -> EvOp:
        """An operation that only reads."""
        return replace(op, entries=self._operate(op, modify=False))

    def ev_state(self, ev: Ev) -> EvState:
        """The state of an EV: DENIED, or what the queue pairs hold of it."""
        if ev == EV_UNPOPULATED:
            return EvState.UNKNOWN
        if ev.val in self._denied:
            return EvState.DENIED
        return self._observed(ev.val)

    def _set_state(self, ev: Ev, state: EvState) -> None:
        if state not in _SETTABLE:
            raise InvalidArgumentError(
                f"{self._what}: state: {state!r} does not fit: it must be GOOD, ASSUMED_BAD "
                "or DENIED"
            )
        if state is EvState.DENIED:
            self._denied.add(ev.val)
        else:
            self._denied.discard(ev.val)
        self._live(ev.val, state)

    def _replace(self, entry: EvOpEntry) -> None:
        what = self._what
        if self.mode is not EvMode.EXP:
            raise InvalidArgumentError(f"{what}: REPLACE_EV is for explicit profiles")
        if self.state is ProfileState.ONLINE:
            raise InvalidArgumentError(f"{what}: REPLACE_EV needs it OFFLINE")
        new = entry.ev_new
        if new == EV_UNPOPULATED:
            raise InvalidArgumentError(f"{what}: ev_new: it is missing")
        self._check_ev(new)
        if entry.state not in (EvState.GOOD, EvState.DENIED):
            raise InvalidArgumentError(
                f"{what}: state: {entry.state!r} does not fit: a new EV is GOOD or DENIED"
            )
        in_its_own_place = entry.ev != EV_UNPOPULATED and entry.ev.val == new.val
        if new.val in self._index and not in_its_own_place:
            raise InvalidArgumentError(
                f"{what}: ev_new: EV {new.val:#010x} is there already; EVs must be distinct"
            )
        if entry.ev == EV_UNPOPULATED:
            if entry.flags & EvOpFlags.ALL_COPIES and self._array.count(EV_UNPOPULATED) > 1:
                raise InvalidArgumentError(
                    f"{what}: ALL_COPIES would put one EV in several places; EVs must be distinct"
                )
            place = self._first_unpopulated()
        else:
            place = self._index.pop(self._known(entry.ev).val)
            self._denied.discard(entry.ev.val)
        self._array[place] = new
        self._index[new.val] = place
        if entry.state is EvState.DENIED:
            self._denied.add(new.val)

    def _first_unpopulated(self) -> int:
        # Places are filled in order, so the one behind the populated ones is most often it
        guess = len(self._index)
        if guess < len(self._array) and self._array[guess] == EV_UNPOPULATED:
            return guess
        try:
            return self._array.index(EV_UNPOPULATED)
        except ValueError:
            raise NotFoundError(f"{self._what}: none of its EVs is unpopulated") from None

    def _check_ev(self, ev: Ev) -> None:
        what = self._what
        check_range(f"{what}: ev_new: val", ev.val, 0, (1 << EV_BITS) - 1)
        check_range(f"{what}: ev_new: port", ev.port, 1, len(self._config.ports))
        if self._hashed:
            return
        with translated():
            plane, uplink = decode_ev(ev.val)
        if plane != ev.port - 1:
            raise InvalidArgumentError(
                f"{what}: ev_new: EV {ev.val:#010x} leaves on port {plane + 1}, not {ev.port}"
            )
        if uplink >= self._config.uplinks:
            raise InvalidArgumentError(
                f"{what}: ev_new: EV {ev.val:#010x} names uplink {uplink}, "
                f"but a T0 has {self._config.uplinks}"
            )

    def query(self, mask: EvProfileAttrMask, op: EvOp | None = None) -> EvProfileAttr:
        """mrc_ctl_query_ev_profile."""
        values: dict[str, Any] = {
            "profile_state": self.state,
            "cur_profile_state": self.state,
            "ev_mode": self.mode,
            "ev_fmt_profile_id": self.fmt_id,
            "ev_count": len(self.array()),
            "ev_min_active": self._min_active,
            "ev_event_mask": self.event_mask,
            "fields": self._fields,
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
