"""Which attributes may, and which must, go with which change of a queue pair's state.

mrc.h lists MRC's own per target state ("mrc_qp_attr_mask"); all of those have defaults, so none
must be given. Of ibverbs' (IBTA volume 1, section 11.2.5.2), the address and the numbers of the
peer must. mrc.h excludes the rest of ibverbs' attributes, some because MRC has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from host.qp.states import QpState
from host.verbs.errors import InvalidArgumentError
from host.verbs.flags import IbvQpAttrMask as Ibv
from host.verbs.flags import QpAttrMask as Mrc
from host.verbs.flags import beyond, names


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """Attributes that may and that must be given."""

    ibv: Ibv
    mrc: Mrc
    required: Ibv


_NOTHING = Ibv(0)
_NONE = AttributeRule(_NOTHING, Mrc(0), _NOTHING)
_TO_INIT = AttributeRule(
    Ibv.PKEY_INDEX | Ibv.ACCESS_FLAGS,
    Mrc.HINT | Mrc.EV_PROFILE_ID | Mrc.CC_PROFILE_ID | Mrc.VENDOR_CFG,
    _NOTHING,
)
#: The examples of the originals also set the requestor's MPR and WriteIMM limit here already
_TO_RTR = AttributeRule(
    Ibv.AV | Ibv.PATH_MTU | Ibv.DEST_QPN | Ibv.RQ_PSN,
    Mrc.MAX_WIMM_DEST | Mrc.MPR_DEST | Mrc.CAP | Mrc.MAX_WIMM | Mrc.MPR | Mrc.VENDOR_CFG,
    Ibv.AV | Ibv.DEST_QPN | Ibv.RQ_PSN,
)
_TO_RTS = AttributeRule(
    Ibv.SQ_PSN,
    Mrc.MAX_WIMM | Mrc.MPR | Mrc.RETRY_CNT | Mrc.TIMEOUT | Mrc.VENDOR_CFG,
    _NOTHING,
)

#: (from, to); pairs that are not here go with no attributes, or are no transition at all
ATTRIBUTE_RULES: dict[tuple[QpState, QpState], AttributeRule] = {
    (QpState.RESET, QpState.INIT): _TO_INIT,
    (QpState.INIT, QpState.INIT): _TO_INIT,
    (QpState.INIT, QpState.RTR): _TO_RTR,
    (QpState.RTR, QpState.RTS): _TO_RTS,
}

#: What mrc.h excludes, and what stands in its place
EXCLUDED: dict[Ibv, str] = {
    Ibv.PORT: "a QP uses all ports",
    Ibv.TIMEOUT: "use QpAttrMask.TIMEOUT",
    Ibv.RETRY_CNT: "use QpAttrMask.RETRY_CNT",
    Ibv.RNR_RETRY: "MRC has no RNR NAKs",
    Ibv.MIN_RNR_TIMER: "MRC has no RNR NAKs",
    Ibv.MAX_QP_RD_ATOMIC: "MRC has no reads and atomics",
    Ibv.MAX_DEST_RD_ATOMIC: "MRC has no reads and atomics",
    Ibv.ALT_PATH: "paths are the EV profile's",
    Ibv.PATH_MIG_STATE: "paths are the EV profile's",
}

ALWAYS = Ibv.STATE | Ibv.CUR_STATE


def check_attributes(old: QpState, new: QpState, ibv: Ibv, mrc: Mrc) -> None:
    """Raises InvalidArgumentError for masks that do not go with a transition."""
    for bit, instead in EXCLUDED.items():
        if bit & ibv:
            raise InvalidArgumentError(f"{names(bit)} is not supported: {instead}")
    rule = ATTRIBUTE_RULES.get((old, new), _NONE)
    change = f"{old.value} → {new.value}"
    if wrong := beyond(ibv, rule.ibv | ALWAYS):
        raise InvalidArgumentError(f"{change}: {names(wrong)} cannot be set here")
    if wrong_mrc := beyond(mrc, rule.mrc):
        raise InvalidArgumentError(f"{change}: {names(wrong_mrc)} cannot be set here")
    if missing := beyond(rule.required, ibv):
        raise InvalidArgumentError(f"{change}: {names(missing)} must be given")
