"""The structures of mrc_ctl.h as frozen dataclasses.

A field that is None was not given; in what a query returns, it was not asked for. Ports count from
1, and in masks of ports bit N stands for port N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from ipaddress import IPv6Address
from typing import Any, Protocol, TypeVar

from host.congestion.nscc import NsccConfig
from host.paths import EvFieldRule
from host.verbs.ctl.flags import (
    CcProfileAttrMask,
    CtlOptCap,
    EvFmtMode,
    EvFmtProfileAttrMask,
    EvMode,
    EvOpFlags,
    EvOpType,
    EvProfileAttrMask,
    EvState,
    PortAdminState,
    ProfileState,
)

_Mask = TypeVar("_Mask", bound=IntFlag)


@dataclass(frozen=True, slots=True)
class CtlDeviceAttr:
    """mrc_ctl_device_attr; `algorithms` are the names of the congestion controllers."""

    ev_max_fmt_profiles: int
    ev_max_profiles: int
    ev_max_count: int
    ev_free_count: int
    ev_max_count_profile: int
    ev_count_align: int
    ev_max_width: int
    ev_fmt_mode_mask: EvFmtMode
    ev_mode_mask: EvMode
    #: 0: no limit
    ev_op_max_entries: int
    cc_max_profiles: int
    algorithms: tuple[str, ...]
    phy_port_mask: int
    opt_attr: CtlOptCap


@dataclass(frozen=True, slots=True)
class PortCtlAttr:
    """mrc_ctl_port_attr."""

    port_admin_state: PortAdminState


@dataclass(frozen=True, slots=True, order=True)
class Ev:
    """mrc_ctl_ev: an EV and the port that it leaves on.

    `val` is the 32-bit entropy value in every mode; with SRv6 the NIC makes the carrier from it and
    the destination.
    """

    val: int
    port: int


#: MRC_CTL_EV_UNPOPULATED: what an explicit profile's array begins with
EV_UNPOPULATED = Ev(0, 0)


@dataclass(frozen=True, slots=True)
class EvFmtField:
    """mrc_ctl_ev_fmt_field: `width` in bits."""

    width: int


@dataclass(frozen=True, slots=True)
class EvFmtProfileAttr:
    """mrc_ctl_ev_fmt_profile_attr. `fmt_fields` given is MODIFY_FIELDS."""

    profile_state: ProfileState | None = None
    cur_profile_state: ProfileState | None = None
    ev_fmt_mode: EvFmtMode | None = None
    fmt_fields: tuple[EvFmtField, ...] | None = None
    vendor_cfg: bytes | None = None


@dataclass(frozen=True, slots=True)
class EvOpEntry:
    """mrc_ctl_ev_op_entry. What each operation reads and fills in is as there."""

    ev: Ev
    ev_new: Ev = EV_UNPOPULATED
    state: EvState = EvState.GOOD
    flags: EvOpFlags = EvOpFlags.NONE


@dataclass(frozen=True, slots=True)
class EvOp:
    """The operation on EVs of an EV profile: `ev_op` of mrc_ctl_ev_profile_attr."""

    op: EvOpType
    entries: tuple[EvOpEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class EvProfileAttr:
    """mrc_ctl_ev_profile_attr. `fields` given is EV_FIELDS_OP with MODIFY_FIELDS."""

    profile_state: ProfileState | None = None
    cur_profile_state: ProfileState | None = None
    ev_mode: EvMode | None = None
    ev_fmt_profile_id: int | None = None
    ev_count: int | None = None
    ev_min_active: int | None = None
    ev_event_mask: EvState | None = None
    ev_op: EvOp | None = None
    fields: tuple[EvFieldRule, ...] | None = None
    vendor_cfg: bytes | None = None


@dataclass(frozen=True, slots=True)
class CcProfileAttr:
    """mrc_ctl_cc_profile_attr.

    `algorithm` None, with ALGORITHM in the mask, is no congestion control. `cc_config` holds the
    controller's knobs: an `NsccConfig` (mrc_ctl_cc_nscc_cfg) or a mapping by name.
    """

    profile_state: ProfileState | None = None
    cur_profile_state: ProfileState | None = None
    algorithm: str | None = None
    cc_config: NsccConfig | Mapping[str, Any] | None = None
    vendor_cfg: bytes | None = None


@dataclass(frozen=True, slots=True)
class EvEvent:
    """mrc_ctl_ev_event.

    `drop_count` events were lost between the one before and this. Which queue pair's EV it is
    (`qp_num`), when (`now_ns`) and why (`cause`), the original does not tell.
    """

    profile_id: int
    ev: Ev
    state: EvState
    drop_count: int
    qp_num: int
    now_ns: int
    cause: str


@dataclass(frozen=True, slots=True)
class EpReq:
    """mrc_ctl_ep_req: a probe, or a port status update, for one destination.

    `carrier` is the outer destination address where it is not that of the EV: so a self-probe, to
    the NIC's own address, goes by a switch and back (`Control.self_probe`). `port_status` is the
    mask of ports that an update says are up.
    """

    req_id: int
    dgid: IPv6Address
    req_ev: Ev
    carrier: IPv6Address | None = None
    port_status: int | None = None


@dataclass(frozen=True, slots=True)
class EpRsp:
    """mrc_ctl_ep_rsp. `rtt` in ns; `adj_svc_time`: it is without the responder's own time."""

    req_id: int
    port: int
    rtt: int
    adj_svc_time: bool = False


class Attributes(Protocol):
    """Attributes of a profile of any kind."""

    @property
    def profile_state(self) -> ProfileState | None:
        """The state to go to."""
        ...

    @property
    def cur_profile_state(self) -> ProfileState | None:
        """The state that it is in, for the user to assert."""
        ...

    @property
    def vendor_cfg(self) -> bytes | None:
        """What means something to a vendor."""
        ...


FMT_FIELDS: dict[EvFmtProfileAttrMask, str] = {
    EvFmtProfileAttrMask.STATE: "profile_state",
    EvFmtProfileAttrMask.CUR_STATE: "cur_profile_state",
    EvFmtProfileAttrMask.MODE: "ev_fmt_mode",
    EvFmtProfileAttrMask.OP: "fmt_fields",
    EvFmtProfileAttrMask.VENDOR_CFG: "vendor_cfg",
}
EV_FIELDS: dict[EvProfileAttrMask, str] = {
    EvProfileAttrMask.STATE: "profile_state",
    EvProfileAttrMask.CUR_STATE: "cur_profile_state",
    EvProfileAttrMask.MODE: "ev_mode",
    EvProfileAttrMask.FMT_ID: "ev_fmt_profile_id",
    EvProfileAttrMask.COUNT: "ev_count",
    EvProfileAttrMask.MIN_ACTIVE: "ev_min_active",
    EvProfileAttrMask.EVENT_MASK: "ev_event_mask",
    EvProfileAttrMask.EV_OP: "ev_op",
    EvProfileAttrMask.EV_FIELDS_OP: "fields",
    EvProfileAttrMask.VENDOR_CFG: "vendor_cfg",
}
CC_FIELDS: dict[CcProfileAttrMask, str] = {
    CcProfileAttrMask.STATE: "profile_state",
    CcProfileAttrMask.CUR_STATE: "cur_profile_state",
    CcProfileAttrMask.ALGORITHM: "algorithm",
    CcProfileAttrMask.CONFIG: "cc_config",
    CcProfileAttrMask.VENDOR_CFG: "vendor_cfg",
}


def given(attributes: object, names: Mapping[_Mask, str], none: _Mask) -> _Mask:
    """The mask of the attributes that are not None; `none` is the empty mask."""
    mask = none
    for bit, name in names.items():
        if getattr(attributes, name) is not None:
            mask |= bit
    return mask
