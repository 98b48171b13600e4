"""The user's API of the NIC, after mrc.h; `host.verbs.ctl` is the privileged side.

`docs/api.md` has it call by call.
"""

from host.memory import Access
from host.qp.states import QpState
from host.qp.work import WcOpcode, WcStatus, WorkCompletion
from host.verbs.attributes import (
    AhAttr,
    ContextAttr,
    DeviceAttr,
    IbvQpAttr,
    MrcQpAttr,
    PortAttr,
    QpCapacity,
    QpHintAttr,
    QpInitAttr,
    RecvWr,
    SendWr,
    Sge,
    Versions,
    api_version,
)
from host.verbs.context import Context
from host.verbs.cq import CompChannel, Cq
from host.verbs.device import Device, Driver, query_version
from host.verbs.errors import (
    BusyError,
    ClosedError,
    InvalidArgumentError,
    MrcError,
    NoMemoryError,
    NotFoundError,
    NotPermittedError,
    NotSupportedError,
    TimedOutError,
    TooBigError,
    TryAgainError,
)
from host.verbs.events import AsyncEvent
from host.verbs.exchange import MrInfo, QpInfo
from host.verbs.flags import (
    AsyncEventType,
    DeviceCap,
    IbvQpAttrMask,
    PortState,
    ProtocolVersion,
    QpAttrMask,
    QpCap,
    QpHintAttrMask,
    SendFlags,
    SendOpsFlags,
    WrOpcode,
)
from host.verbs.hint import QpHint
from host.verbs.memory import Mr
from host.verbs.pd import Pd
from host.verbs.qp import QueuePair

__all__ = [
    "Access",
    "AhAttr",
    "AsyncEvent",
    "AsyncEventType",
    "BusyError",
    "ClosedError",
    "CompChannel",
    "Context",
    "ContextAttr",
    "Cq",
    "Device",
    "DeviceAttr",
    "DeviceCap",
    "Driver",
    "IbvQpAttr",
    "IbvQpAttrMask",
    "InvalidArgumentError",
    "Mr",
    "MrInfo",
    "MrcError",
    "MrcQpAttr",
    "NoMemoryError",
    "NotFoundError",
    "NotPermittedError",
    "NotSupportedError",
    "Pd",
    "PortAttr",
    "PortState",
    "ProtocolVersion",
    "QpAttrMask",
    "QpCap",
    "QpCapacity",
    "QpHint",
    "QpHintAttr",
    "QpHintAttrMask",
    "QpInfo",
    "QpInitAttr",
    "QpState",
    "QueuePair",
    "RecvWr",
    "SendFlags",
    "SendOpsFlags",
    "SendWr",
    "Sge",
    "TimedOutError",
    "TooBigError",
    "TryAgainError",
    "Versions",
    "WcOpcode",
    "WcStatus",
    "WorkCompletion",
    "WrOpcode",
    "api_version",
    "query_version",
]
