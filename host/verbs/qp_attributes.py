"""Attributes of a queue pair: from those of ibverbs and mrc.h to the NIC's, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from ipaddress import IPv6Address
from typing import Any

from host.qp.base import QpAttributes
from host.qp.states import QpState
from host.verbs.attributes import IBV_FIELDS, MRC_FIELDS, AhAttr, IbvQpAttr, MrcQpAttr
from host.verbs.errors import InvalidArgumentError, check_range
from host.verbs.flags import Access, IbvQpAttrMask, QpAttrMask, QpCap, beyond
from host.verbs.hint import QpHint
from host.wire.constants import MPR_UNIT_PSNS

MAX_MPR = 255

_CAPS = QpCap(sum(QpCap))

#: Attributes that are the same number on both sides: (bit, theirs, the NIC's)
_IBV_NUMBERS = (
    (IbvQpAttrMask.PATH_MTU, "path_mtu", "path_mtu_bytes"),
    (IbvQpAttrMask.DEST_QPN, "dest_qp_num", "dest_qp"),
    (IbvQpAttrMask.RQ_PSN, "rq_psn", "rq_psn"),
    (IbvQpAttrMask.SQ_PSN, "sq_psn", "sq_psn"),
)
_MRC_NUMBERS = (
    (QpAttrMask.MAX_WIMM, "max_wimm", "max_wimm"),
    (QpAttrMask.MAX_WIMM_DEST, "max_wimm_dest", "max_wimm_dest"),
    (QpAttrMask.TIMEOUT, "timeout", "timeout"),
    (QpAttrMask.RETRY_CNT, "linear_cnt", "linear_retries"),
    (QpAttrMask.RETRY_CNT, "exp_cnt", "exponential_retries"),
)
#: ... in units of 128 PSNs there
_MRC_MPRS = (
    (QpAttrMask.MPR, "mpr", "mpr_psns"),
    (QpAttrMask.MPR_DEST, "mpr_dest", "mpr_dest_psns"),
)
#: ... of which 0 there is None here
_MRC_PROFILES = (
    (QpAttrMask.EV_PROFILE_ID, "ev_profile_id", "ev_profile"),
    (QpAttrMask.CC_PROFILE_ID, "cc_profile_id", "cc_profile"),
)


@dataclass(frozen=True, slots=True)
class Extras:
    """Attributes that the NIC does not have: kept for queries."""

    access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE
    cap: QpCap = QpCap(0)  # noqa: RUF009
    hint: QpHint | None = None
    vendor_cfg: bytes = b""


def check_given(vattr: IbvQpAttr, ibv: IbvQpAttrMask, mrc_attr: MrcQpAttr, mrc: QpAttrMask) -> None:
    """Raises InvalidArgumentError for a field in a mask that was not given."""
    named = [(name, getattr(vattr, name)) for name in names_of(IBV_FIELDS, ibv)]
    # No hint is a hint, too
    mrc_names = names_of(MRC_FIELDS, QpAttrMask(int(mrc) & ~int(QpAttrMask.HINT)))
    named += [(name, getattr(mrc_attr, name)) for name in mrc_names]
    for name, value in named:
        if value is None:
            raise InvalidArgumentError(f"{name}: it is in the mask, but was not given")


def names_of(fields: Mapping[Any, tuple[str, ...]], mask: IntFlag) -> list[str]:
    """The names of the fields of a mask."""
    return [name for bit, names in fields.items() if bit & mask for name in names]


def _number(attr: IbvQpAttr | MrcQpAttr, name: str) -> int:
    """A field that must be a number; the core checks its range."""
    value = getattr(attr, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(f"{name}: {value!r} does not fit: it must be an integer")
    return value


def core_of_ibv(attr: IbvQpAttr, mask: IbvQpAttrMask) -> dict[str, Any]:
    """The NIC's attributes for those of ibverbs. Raises InvalidArgumentError for no numbers."""
    changes: dict[str, Any] = {}
    if mask & IbvQpAttrMask.AV:
        assert attr.ah_attr is not None
        changes["peer_address"] = int(attr.ah_attr.dgid)
    for bit, theirs, ours in _IBV_NUMBERS:
        if mask & bit:
            changes[ours] = _number(attr, theirs)
    return changes


def core_of_mrc(attr: MrcQpAttr, mask: QpAttrMask) -> dict[str, Any]:
    """The NIC's attributes for those of mrc.h. Raises InvalidArgumentError."""
    changes: dict[str, Any] = {}
    for bit, theirs, ours in _MRC_MPRS:
        if mask & bit:
            mpr = _number(attr, theirs)
            check_range(theirs, mpr, 1, MAX_MPR)
            changes[ours] = mpr * MPR_UNIT_PSNS
    for bit, theirs, ours in _MRC_NUMBERS:
        if mask & bit:
            changes[ours] = _number(attr, theirs)
    for bit, theirs, ours in _MRC_PROFILES:
        if mask & bit:
            changes[ours] = _number(attr, theirs) or None
    if mask & QpAttrMask.CAP:
        assert attr.cap is not None
        if beyond(attr.cap, _CAPS):
            raise InvalidArgumentError(f"cap: {attr.cap!r} has unknown bits")
        changes["trim_nack_dest"] = not attr.cap & QpCap.TRIM_NACK_DEST_UNSUPPORTED
        changes["dynamic_mpr"] = bool(attr.cap & QpCap.DYNAMIC_MPR)
    return changes


def ibv_of_core(
    state: QpState, now: QpAttributes, extras: Extras, mask: IbvQpAttrMask
) -> IbvQpAttr:
    """What a query of ibverbs' attributes answers."""
    peer = now.peer_address
    values: dict[str, Any] = {theirs: getattr(now, ours) for _, theirs, ours in _IBV_NUMBERS}
    values |= {
        "qp_state": state,
        "cur_qp_state": state,
        "qp_access_flags": extras.access,
        "pkey_index": 0,
        "ah_attr": None if peer is None else AhAttr(IPv6Address(peer)),
    }
    return IbvQpAttr(**{name: values[name] for name in names_of(IBV_FIELDS, mask)})


def mrc_of_core(now: QpAttributes, extras: Extras, mask: QpAttrMask) -> MrcQpAttr:
    """What a query of mrc.h's attributes answers."""
    values: dict[str, Any] = {theirs: getattr(now, ours) for _, theirs, ours in _MRC_NUMBERS}
    for _, theirs, ours in _MRC_MPRS:
        values[theirs] = getattr(now, ours) // MPR_UNIT_PSNS
    for _, theirs, ours in _MRC_PROFILES:
        values[theirs] = getattr(now, ours) or 0
    cap = extras.cap
    if not now.trim_nack_dest:
        cap |= QpCap.TRIM_NACK_DEST_UNSUPPORTED
    if now.dynamic_mpr:
        cap |= QpCap.DYNAMIC_MPR
    values |= {"cap": cap, "qp_hint": extras.hint, "vendor_cfg": extras.vendor_cfg}
    return MrcQpAttr(**{name: values[name] for name in names_of(MRC_FIELDS, mask)})
