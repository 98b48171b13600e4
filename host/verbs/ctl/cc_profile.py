"""Congestion control profiles: an algorithm and its knobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from host.config import NicConfig
from host.congestion import make_controller
from host.congestion.nscc import NsccConfig
from host.profiles import CcProfile, network_towards
from host.verbs.ctl.attributes import CC_FIELDS, CcProfileAttr
from host.verbs.ctl.flags import CcProfileAttrMask, ProfileState
from host.verbs.ctl.profile import ProfileRules, check_given, check_unused
from host.verbs.errors import InvalidArgumentError, translated

_Mask = CcProfileAttrMask

RULES = ProfileRules(
    kind="CC profile",
    names=CC_FIELDS,
    none=_Mask(0),
    changeable={ProfileState.OFFLINE: _Mask.ALGORITHM | _Mask.CONFIG},
    required=_Mask.ALGORITHM,
)


class CcProfileEntry:
    """One CC profile. `online` is what the NIC uses while it is ONLINE."""

    def __init__(self, number: int, config: NicConfig) -> None:
        self.number = number
        self.state = ProfileState.INIT
        self.online: CcProfile | None = None
        self._config = config
        self._algorithm: str | None = None
        self._knobs: Mapping[str, Any] = {}
        self._vendor_cfg = b""

    @classmethod
    def of_nic(cls, number: int, config: NicConfig, profile: CcProfile) -> CcProfileEntry:
        """A profile that the NIC has already: ONLINE."""
        entry = cls(number, config)
        entry.state = ProfileState.ONLINE
        entry.online = profile
        entry._algorithm = profile.algorithm
        entry._knobs = profile.config
        return entry

    def modify(self, attr: CcProfileAttr, mask: CcProfileAttrMask | None, *, users: int) -> None:
        """mrc_ctl_modify_cc_profile; `users` QPs have it. Raises with nothing changed."""
        mask, target = RULES.checked(self.number, self.state, attr, mask)
        what = f"CC profile {self.number}"
        check_given(what, attr, mask & ~_Mask.ALGORITHM, CC_FIELDS)
        algorithm, knobs = self._algorithm, self._knobs
        if mask & _Mask.ALGORITHM:
            algorithm, knobs = attr.algorithm, {}
        if mask & _Mask.CONFIG:
            assert attr.cc_config is not None
            knobs = knobs_of(attr.cc_config)
        if mask & (_Mask.ALGORITHM | _Mask.CONFIG):
            self._check(what, algorithm, knobs)
        if self.state is ProfileState.ONLINE and target is not self.state:
            check_unused(what, users, "QP(s)")
        self._algorithm, self._knobs, self.state = algorithm, knobs, target
        if mask & _Mask.VENDOR_CFG:
            self._vendor_cfg = attr.vendor_cfg or b""
        if target is ProfileState.INIT:
            self._algorithm, self._knobs, self._vendor_cfg = None, {}, b""
        self.online = CcProfile(algorithm, knobs) if target is ProfileState.ONLINE else None

    def _check(self, what: str, algorithm: str | None, knobs: Mapping[str, Any]) -> None:
        if algorithm is None:
            if knobs:
                raise InvalidArgumentError(f"{what}: cc_config: no algorithm, no knobs")
            return
        with translated():
            make_controller(algorithm, network_towards(self._config, 0), **knobs)

    def query(self, mask: CcProfileAttrMask) -> CcProfileAttr:
        """mrc_ctl_query_cc_profile. `cc_config` is a mapping of what was set."""
        values: dict[str, Any] = {
            "profile_state": self.state,
            "cur_profile_state": self.state,
            "algorithm": self._algorithm,
            "cc_config": dict(self._knobs),
            "vendor_cfg": self._vendor_cfg,
        }
        return CcProfileAttr(
            **{name: values[name] for bit, name in CC_FIELDS.items() if bit & mask}
        )


def knobs_of(config: NsccConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Knobs by name, less those of an `NsccConfig` that are as they always are."""
    if isinstance(config, Mapping):
        return dict(config)
    standard = NsccConfig()
    return {
        field.name: value
        for field in fields(config)
        if (value := getattr(config, field.name)) != getattr(standard, field.name)
    }
