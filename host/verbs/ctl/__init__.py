"""The privileged side, after mrc_ctl.h: profiles, EV states and events, probes, ports."""

from host.paths import EvFieldRule as EvField
from host.verbs.ctl.attributes import (
    EV_UNPOPULATED,
    CcProfileAttr,
    CtlDeviceAttr,
    EpReq,
    EpRsp,
    Ev,
    EvEvent,
    EvFmtField,
    EvFmtProfileAttr,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
    PortCtlAttr,
)
from host.verbs.ctl.control import Control
from host.verbs.ctl.endpoint import EpBatch
from host.verbs.ctl.ev_events import EvEventCq
from host.verbs.ctl.flags import (
    CcProfileAttrMask,
    CtlOptCap,
    EpOpType,
    EvFmtMode,
    EvFmtProfileAttrMask,
    EvMode,
    EvOpFlags,
    EvOpType,
    EvProfileAttrMask,
    EvState,
    PortAdminState,
    PortAttrMask,
    ProfileState,
)

__all__ = [
    "EV_UNPOPULATED",
    "CcProfileAttr",
    "CcProfileAttrMask",
    "Control",
    "CtlDeviceAttr",
    "CtlOptCap",
    "EpBatch",
    "EpOpType",
    "EpReq",
    "EpRsp",
    "Ev",
    "EvEvent",
    "EvEventCq",
    "EvField",
    "EvFmtField",
    "EvFmtMode",
    "EvFmtProfileAttr",
    "EvFmtProfileAttrMask",
    "EvMode",
    "EvOp",
    "EvOpEntry",
    "EvOpFlags",
    "EvOpType",
    "EvProfileAttr",
    "EvProfileAttrMask",
    "EvState",
    "PortAdminState",
    "PortAttrMask",
    "PortCtlAttr",
    "ProfileState",
]
