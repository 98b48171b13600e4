"""EV profiles: which EVs a queue pair may use, and how it treats them.

Modes and field rules are those of mrc_ctl.h. An EV profile serves queue pairs to any destination;
`EvProfile.universe` makes of it the EVs that lead to one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from enum import Enum
from functools import lru_cache
from math import prod

from host.config import ForwardingMode
from host.paths.ev_set import (
    DEFAULT_ACTIVE_EVS,
    REPORTED_STATES,
    EvSet,
    active_evs_per_plane,
)
from host.paths.oblivious import ObliviousEvSet
from host.paths.probing import ProbeTiming
from host.paths.states import EvState
from host.paths.universe import EvUniverse, hashed_universe, plan_universe, plane_of_ev
from topologies.addressing import EV_BITS, AddressingError, EvField, decode_ev

#: EVs that a profile may hold (`mrc_ctl_device_attr.ev_max_count_profile`)
MAX_EV_COUNT = 1 << 16


class EvMode(Enum):
    """Where the EVs come from (`mrc_ctl_ev_mode`)."""

    #: From the addressing plan; in a fabric that hashes them, at random
    AUTO = "auto"
    #: Each one given
    EXPLICIT = "explicit"
    #: From rules for the fields of an EV
    GENERATED = "generated"


def _check_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name}: {value!r} does not fit: it must be an integer")


@dataclass(frozen=True, slots=True)
class EvFieldRule:
    """A field of generated EVs (`mrc_ctl_ev_field`).

    The field, `width` bits wide, is `init_val` with the bits of a number from `min_val`..`max_val`
    laid over those that are set in `mask`, highest first. Raises ValueError as mrc_ctl.h has it:
    `init_val` and `mask` must fit in the width, `max_val` in as many bits as `mask` has.
    """

    width: int
    init_val: int = 0
    min_val: int = 0
    max_val: int = 0
    mask: int = 0

    def __post_init__(self) -> None:
        for each in dataclass_fields(self):
            _check_integer(each.name, getattr(self, each.name))
        if not 1 <= self.width <= EV_BITS:
            raise ValueError(f"width: {self.width} does not fit: it must be 1..{EV_BITS}")
        for name in ("init_val", "mask"):
            value = getattr(self, name)
            if not 0 <= value < 1 << self.width:
                raise ValueError(
                    f"{name}: {value:#x} does not fit: it must have at most {self.width} bits, "
                    "the field's width"
                )
        bits = self.mask.bit_count()
        if not 0 <= self.max_val < 1 << bits:
            raise ValueError(
                f"max_val: {self.max_val} does not fit: it must have at most {bits} bits, "
                f"as the mask {self.mask:#x} has"
            )
        if not 0 <= self.min_val <= self.max_val:
            raise ValueError(
                f"min_val: {self.min_val} does not fit: it must be 0..{self.max_val}, the max_val"
            )

    @classmethod
    def of_plan(cls, plan_field: EvField) -> EvFieldRule:
        """The rule of a field of the addressing plan (`topologies.addressing.ev_fields`)."""
        return cls(
            plan_field.width, plan_field.init, plan_field.min, plan_field.max, plan_field.mask
        )

    @property
    def count(self) -> int:
        """How many values the field takes."""
        return self.max_val - self.min_val + 1

    def expand(self, number: int) -> int:
        """The field's value for a number from min_val..max_val."""
        value = self.init_val & ~self.mask
        mask = self.mask
        while mask:
            lowest = mask & -mask
            if number & 1:
                value |= lowest
            number >>= 1
            mask ^= lowest
        return value


def expand_evs(rules: tuple[EvFieldRule, ...], ev_count: int | None) -> Iterator[int]:
    """EVs by rules, the fields side by side and the first highest.

    All there are, in ascending order of the fields' numbers, or `ev_count` of them at random, the
    same for the same rules.
    """
    total = prod(rule.count for rule in rules)
    numbers: Iterator[int] | range | list[int] = range(total)
    if ev_count is not None and ev_count < total:
        numbers = sorted(random.Random(0).sample(range(total), ev_count))
    for number in numbers:
        ev = shift = 0
        for rule in reversed(rules):
            number, digit = divmod(number, rule.count)
            ev |= rule.expand(rule.min_val + digit) << shift
            shift += rule.width
        yield ev


@dataclass(frozen=True, slots=True)
class EvProfile:
    """An EV profile (`mrc_ctl_ev_profile_attr`). Raises ValueError, naming the field.

    `evs` are the EVs of an EXPLICIT profile; one may be given as (EV, plane) where the fabric
    hashes EVs, so that they do not name a plane. `fields` are the rules of a GENERATED one, whose
    widths add up to at most 32 bits; `ev_count` takes so many of the EVs that they yield.
    """

    mode: EvMode = EvMode.AUTO
    evs: tuple[int | tuple[int, int], ...] = ()
    fields: tuple[EvFieldRule, ...] = ()
    ev_count: int | None = None
    #: Number of active EVs below which none is demoted; None: a quarter
    ev_min_active: int | None = None
    #: What the active set should have, and the backup set may have (None: the rest)
    active_evs: int = DEFAULT_ACTIVE_EVS
    backup_evs: int | None = None
    #: Denylist: EVs that are DENIED from the start
    denied: frozenset[int] = frozenset()
    #: Transitions to these states are reported
    ev_event_mask: frozenset[EvState] = field(default=REPORTED_STATES)
    #: None: from the local ACK timeout of the queue pair (`ProbeTiming.of_timeout`)
    probe_interval_ns: int | None = None
    probe_gap_ns: int | None = None
    #: Probes answered in a row that make an EV GOOD
    probe_answers: int = 3
    #: False: states of EVs never change by what is heard of them (`ObliviousEvSet`)
    adaptive: bool = True

    def __post_init__(self) -> None:
        for ev in self.evs:
            for part in ev if isinstance(ev, tuple) and len(ev) == 2 else (ev,):
                _check_integer("evs", part)
        for ev in self.denied:
            _check_integer("denied", ev)
        if not isinstance(self.adaptive, bool):
            raise ValueError(f"adaptive: {self.adaptive!r} does not fit: it must be true or false")
        for name, mode in (("evs", EvMode.EXPLICIT), ("fields", EvMode.GENERATED)):
            given = bool(getattr(self, name))
            if given != (self.mode is mode):
                is_missing = "is missing, but" if not given else "is given, but only"
                raise ValueError(f"{name}: {is_missing} mode {mode.value} has it")
        if sum(rule.width for rule in self.fields) > EV_BITS:
            raise ValueError(f"fields: their widths add up to more than {EV_BITS} bits")
        count = len(self.evs) if self.evs else prod(rule.count for rule in self.fields)
        if self.ev_count is None and count > MAX_EV_COUNT:
            raise ValueError(
                f"{'evs' if self.evs else 'fields'}: {count} EVs are more than {MAX_EV_COUNT}; "
                "set ev_count to use a part of them"
            )
        for name, least in (
            ("ev_count", 1),
            ("ev_min_active", 0),
            ("active_evs", 1),
            ("backup_evs", 0),
            ("probe_interval_ns", 1),
            ("probe_gap_ns", 1),
            ("probe_answers", 1),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            _check_integer(name, value)
            if value < least:
                raise ValueError(f"{name}: {value} does not fit: it must be at least {least}")
        if self.ev_count is not None and self.ev_count > MAX_EV_COUNT:
            raise ValueError(
                f"ev_count: {self.ev_count} does not fit: it must be at most {MAX_EV_COUNT}"
            )

    def universe(
        self, *, planes: int, uplinks: int, forwarding: ForwardingMode, rng: random.Random
    ) -> EvUniverse:
        """The EVs that lead to a destination with so many paths a plane.

        Of the EVs given or generated, those that name no path to it are left out (between hosts of
        one T0, all whose uplink is not 0). Where the fabric hashes EVs, each one leads there.
        Raises ValueError where nothing is left.
        """
        hashed = forwarding is ForwardingMode.ECMP
        if self.mode is not EvMode.AUTO:
            return _listed_universe(self, planes, uplinks, hashed)
        if not hashed:
            return plan_universe(planes, uplinks)
        evs = self.ev_count or 2 * self.active_evs
        return hashed_universe(planes, max(evs // planes, 1), rng)

    def ev_set(self, universe: EvUniverse, *, rng: random.Random, timeout_ns: int) -> EvSet:
        """The EVs of one queue pair; `timeout_ns` is its local ACK timeout.

        Towards a destination with fewer paths, `ev_min_active` is all of them at most.
        """
        least = self.ev_min_active
        if least is not None:
            planes = sum(1 for evs in universe.by_plane if evs)
            least = min(least, planes * active_evs_per_plane(universe, self.active_evs))
        timing = ProbeTiming.of_timeout(timeout_ns, self.probe_answers)
        kind = EvSet if self.adaptive else ObliviousEvSet
        return kind(
            universe,
            rng=rng,
            active_evs=self.active_evs,
            ev_min_active=least,
            backup_evs=self.backup_evs,
            timing=ProbeTiming(
                self.probe_interval_ns or timing.interval_ns,
                self.probe_gap_ns or timing.gap_ns,
                self.probe_answers,
            ),
            denied=self.denied,
            event_mask=self.ev_event_mask,
        )


@lru_cache(maxsize=256)
def _listed_universe(profile: EvProfile, planes: int, uplinks: int, hashed: bool) -> EvUniverse:
    """The universe of an EXPLICIT or GENERATED profile, shared by its queue pairs."""
    evs: list[tuple[int, int]] = []
    listed: Iterator[int | tuple[int, int]] = (
        iter(profile.evs[: profile.ev_count])
        if profile.evs
        else expand_evs(profile.fields, profile.ev_count)
    )
    for entry in listed:
        ev, plane = entry if isinstance(entry, tuple) else (entry, None)
        if hashed:
            # Nothing in the EV says where it leaves: spread them evenly
            evs.append((ev, len(evs) % planes if plane is None else plane))
            continue
        if plane is not None and plane != plane_of_ev(ev):
            raise ValueError(
                f"evs: EV {ev:#010x} is of plane {plane_of_ev(ev)}, not {plane}: "
                "with this forwarding mode the EV names its plane"
            )
        try:
            _, uplink = decode_ev(ev)
        except AddressingError as error:
            raise ValueError(f"{'evs' if profile.evs else 'fields'}: {error}") from None
        if uplink < uplinks:
            evs.append((ev, plane_of_ev(ev)))
    if not evs:
        raise ValueError(
            f"{'evs' if profile.evs else 'fields'}: none of the EVs names a path to the peer "
            f"({planes} planes, {uplinks} uplinks)"
        )
    return EvUniverse(planes, evs)
