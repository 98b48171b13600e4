"""What an EV profile is configured with, apart from its EVs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from host.config import ForwardingMode, NicConfig
from host.paths import EvFieldRule
from host.paths.profile import MAX_EV_COUNT, expand_evs
from host.verbs.ctl.attributes import EV_UNPOPULATED, EvFmtField, EvProfileAttr
from host.verbs.ctl.ev_array import EvArray
from host.verbs.ctl.ev_fmt import EvFmtProfile
from host.verbs.ctl.flags import EvMode, EvProfileAttrMask, ProfileState
from host.verbs.errors import (
    InvalidArgumentError,
    NotSupportedError,
    TooBigError,
    check_range,
    translated,
)
from topologies.addressing import ev_universe

_Mask = EvProfileAttrMask


@dataclass(frozen=True, slots=True)
class EvSettings:
    """Mode, format, fields and counts. `what` is for messages.

    `fmt_fields` are those of the format as they were when it was last looked at; None: no format.
    """

    what: str
    mode: EvMode | None = None
    fmt_id: int = 0
    fmt_fields: tuple[EvFmtField, ...] | None = None
    count: int = 0
    fields: tuple[EvFieldRule, ...] = ()
    min_active: int | None = None

    def changed(
        self, attr: EvProfileAttr, mask: EvProfileAttrMask, fmt: Callable[[int], EvFmtProfile]
    ) -> EvSettings:
        """With the attributes of a mask; `fmt` finds format profiles. Raises as the original."""
        what = self.what
        new = self
        if mask & _Mask.MODE:
            if attr.ev_mode not in (EvMode.AUTO, EvMode.EXP, EvMode.GEN):
                raise InvalidArgumentError(
                    f"{what}: ev_mode: {attr.ev_mode!r} does not fit: it must be AUTO, EXP or GEN"
                )
            new = replace(new, mode=attr.ev_mode)
        if mask & _Mask.FMT_ID:
            assert attr.ev_fmt_profile_id is not None
            new = replace(new, fmt_id=attr.ev_fmt_profile_id, fmt_fields=())
        if mask & _Mask.COUNT:
            assert attr.ev_count is not None
            if attr.ev_count > MAX_EV_COUNT:
                raise TooBigError(
                    f"{what}: ev_count: {attr.ev_count} does not fit: "
                    f"a profile holds {MAX_EV_COUNT} EVs"
                )
            check_range(f"{what}: ev_count", attr.ev_count, 1, MAX_EV_COUNT)
            new = replace(new, count=attr.ev_count)
        if mask & _Mask.EV_FIELDS_OP:
            assert attr.fields is not None
            new = replace(new, fields=attr.fields)
        if mask & _Mask.MIN_ACTIVE:
            new = replace(new, min_active=attr.ev_min_active)
        if new.fmt_fields is not None:
            profile = fmt(new.fmt_id)
            if profile.state is ProfileState.INIT:
                raise InvalidArgumentError(f"{what}: EV format profile {new.fmt_id} is INIT")
            new = replace(new, fmt_fields=profile.fields)
        new._check()
        return new

    def _check(self) -> None:
        """Raises for what does not go together."""
        what, mode = self.what, self.mode
        most = MAX_EV_COUNT if mode is EvMode.AUTO else self.count
        if mode is EvMode.AUTO:
            if self.count:
                raise InvalidArgumentError(f"{what}: ev_count: with AUTO the NIC counts")
        elif self.fmt_fields is None:
            raise InvalidArgumentError(f"{what}: {mode!r} needs ev_fmt_profile_id")
        elif not self.count:
            raise InvalidArgumentError(f"{what}: {mode!r} needs ev_count")
        if mode is EvMode.GEN:
            self._check_fields()
        elif self.fields:
            raise NotSupportedError(f"{what}: fields: only those of GEN profiles are expanded")
        if self.min_active is not None:
            check_range(f"{what}: ev_min_active", self.min_active, 0, most)

    def _check_fields(self) -> None:
        what, fmt_fields = self.what, self.fmt_fields or ()
        if not self.fields:
            raise InvalidArgumentError(f"{what}: {self.mode!r} needs fields")
        if len(self.fields) > len(fmt_fields):
            raise TooBigError(
                f"{what}: fields: {len(self.fields)} do not fit: the format has {len(fmt_fields)}"
            )
        for number, (rule, field) in enumerate(zip(self.fields, fmt_fields, strict=False)):
            if rule.width > field.width:
                raise InvalidArgumentError(
                    f"{what}: fields[{number}]: width {rule.width} does not fit: "
                    f"the format has {field.width} bits there"
                )

    def makes_other_evs(self, old: EvSettings) -> bool:
        """Whether the EVs of these settings differ from those of others."""
        return replace(self, min_active=old.min_active) != old

    def array(self, config: NicConfig, free: int) -> EvArray:
        """The EVs that a profile with these settings begins with.

        Raises TooBigError where they are more than `free`.
        """
        what = self.what
        if self.mode is EvMode.AUTO:
            hashed = config.forwarding is ForwardingMode.ECMP
            plan = ev_universe(len(config.ports), config.uplinks)
            return EvArray.of_values(what, config, () if hashed else plan)
        if self.count > free:
            raise TooBigError(
                f"{what}: ev_count: {self.count} does not fit: the device has {free} EVs left"
            )
        if self.mode is EvMode.EXP:
            return EvArray(what, config, [EV_UNPOPULATED] * self.count)
        return EvArray.of_values(what, config, generated(self._wide_fields(), self.count))

    def _wide_fields(self) -> tuple[EvFieldRule, ...]:
        """The fields as wide as the format's: what they lack is zero, above and behind."""
        fmt_fields = self.fmt_fields or ()
        with translated():
            return tuple(
                replace(self.fields[number], width=field.width)
                if number < len(self.fields)
                else EvFieldRule(field.width)
                for number, field in enumerate(fmt_fields)
            )


def generated(fields: tuple[EvFieldRule, ...], count: int | None) -> list[int]:
    """`count` of the EVs that fields yield (None: all); all in order where there are no more."""
    total = prod(rule.count for rule in fields)
    return [*expand_evs(fields, None if count is None or count >= total else count)]
