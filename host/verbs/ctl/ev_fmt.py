"""EV format profiles: into which fields the EV of a packet is divided."""

from __future__ import annotations

from host.config import ForwardingMode
from host.verbs.ctl.attributes import FMT_FIELDS, EvFmtField, EvFmtProfileAttr
from host.verbs.ctl.flags import EvFmtMode, EvFmtProfileAttrMask, ProfileState
from host.verbs.ctl.profile import ProfileRules, check_given, check_unused
from host.verbs.errors import InvalidArgumentError, NotSupportedError, TooBigError, check_range
from topologies.addressing import EV_BITS

#: The layout of the EV in packets; a fabric that hashes reads flow label and port, as STEV has it
MODE_OF_FORWARDING: dict[ForwardingMode, EvFmtMode] = {
    ForwardingMode.SRV6: EvFmtMode.SRV6,
    ForwardingMode.STEV: EvFmtMode.STEV,
    ForwardingMode.ECMP: EvFmtMode.STEV,
}

_Mask = EvFmtProfileAttrMask

RULES = ProfileRules(
    kind="EV format profile",
    names=FMT_FIELDS,
    none=_Mask(0),
    changeable={ProfileState.OFFLINE: _Mask.MODE | _Mask.OP},
    required=_Mask.MODE,
)


class EvFmtProfile:
    """One EV format profile."""

    def __init__(self, number: int, mode: EvFmtMode) -> None:
        self.number = number
        self.state = ProfileState.INIT
        self.fields: tuple[EvFmtField, ...] = ()
        self.vendor_cfg = b""
        #: The one that the NIC has
        self._nic_mode = mode
        self.mode: EvFmtMode | None = None

    def modify(
        self, attr: EvFmtProfileAttr, mask: EvFmtProfileAttrMask | None, *, users: int
    ) -> None:
        """mrc_ctl_modify_ev_fmt_profile; `users` EV profiles of this format are ONLINE.

        Raises as the original, with nothing changed.
        """
        mask, target = RULES.checked(self.number, self.state, attr, mask)
        what = f"EV format profile {self.number}"
        check_given(what, attr, mask, FMT_FIELDS)
        mode = attr.ev_fmt_mode if mask & _Mask.MODE else self.mode
        if mask & _Mask.MODE and mode != self._nic_mode:
            raise NotSupportedError(
                f"{what}: ev_fmt_mode: {mode!r} does not fit: the NIC has {self._nic_mode!r}"
            )
        fields = self.fields
        if mask & _Mask.OP:
            assert attr.fmt_fields is not None
            fields = attr.fmt_fields
            for field in fields:
                check_range(f"{what}: width", field.width, 1, EV_BITS)
            if (width := sum(field.width for field in fields)) > EV_BITS:
                raise TooBigError(f"{what}: fmt_fields: {width} bits do not fit in {EV_BITS}")
        if target is ProfileState.ONLINE and not fields:
            raise InvalidArgumentError(f"{what}: going to ONLINE needs fmt_fields")
        if self.state is ProfileState.ONLINE and target is not self.state:
            check_unused(what, users, "EV profile(s)")
        self.mode, self.fields, self.state = mode, fields, target
        if mask & _Mask.VENDOR_CFG:
            self.vendor_cfg = attr.vendor_cfg or b""
        if target is ProfileState.INIT:
            self.mode, self.fields, self.vendor_cfg = None, (), b""

    def query(self, mask: EvFmtProfileAttrMask) -> EvFmtProfileAttr:
        """mrc_ctl_query_ev_fmt_profile."""
        values = {
            "profile_state": self.state,
            "cur_profile_state": self.state,
            "ev_fmt_mode": self.mode,
            "fmt_fields": self.fields,
            "vendor_cfg": self.vendor_cfg,
        }
        return EvFmtProfileAttr(
            **{name: values[name] for bit, name in FMT_FIELDS.items() if bit & mask}  # type: ignore[arg-type]
        )
