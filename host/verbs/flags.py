"""Enumerations and flags of mrc.h, and those of ibverbs that MRC uses.

Members bear the names of the originals without their common prefix, and the numbers of the
originals where these are part of the interface (masks and capability bits). Of ibverbs' attribute
mask, the bits that mrc.h excludes are here too, so that they can be refused by name.
"""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import TypeVar

from host.memory import Access
from host.qp.states import QpState
from host.qp.work import WcOpcode, WcStatus

__all__ = [
    "Access",
    "AsyncEventType",
    "DeviceCap",
    "IbvQpAttrMask",
    "PortState",
    "ProtocolVersion",
    "QpAttrMask",
    "QpCap",
    "QpHintAttrMask",
    "QpState",
    "SendFlags",
    "SendOpsFlags",
    "WcOpcode",
    "WcStatus",
    "WrOpcode",
    "beyond",
    "names",
]

_Flags = TypeVar("_Flags", bound=IntFlag)


def beyond(flags: _Flags, allowed: IntFlag) -> _Flags:
    """The flags that are not among those allowed.

    `flags & ~allowed` will not do: it loses the bits that the type has no names for.
    """
    return type(flags)(int(flags) & ~int(allowed))


def names(mask: IntFlag) -> str:
    """The bits of a mask by name, those that have none as a number."""
    told = [f"{type(mask).__name__}.{bit.name}" for bit in mask]
    if unknown := int(mask) & ~sum(int(bit) for bit in mask):
        told.append(f"{unknown:#x}")
    return ", ".join(told)


class ProtocolVersion(IntFlag):
    """mrc_protocol_version; 0 is the provider's default."""

    VERSION_0 = 0
    VERSION_1 = 1 << 0


class DeviceCap(IntFlag):
    """mrc_device_cap."""

    TRIM_NACK = 1 << 0
    DYNAMIC_MPR = 1 << 1
    SVC_TIME = 1 << 2


class QpAttrMask(IntFlag):
    """mrc_qp_attr_mask: which fields of `MrcQpAttr` count."""

    MAX_WIMM = 1 << 0
    MAX_WIMM_DEST = 1 << 1
    MPR = 1 << 2
    MPR_DEST = 1 << 3
    TIMEOUT = 1 << 4
    EV_PROFILE_ID = 1 << 5
    CC_PROFILE_ID = 1 << 6
    HINT = 1 << 7
    RETRY_CNT = 1 << 8
    CAP = 1 << 9
    VENDOR_CFG = 1 << 31


class QpCap(IntFlag):
    """mrc_qp_cap."""

    #: The peer's responder sends no trim NACKs: data goes as NO_TRIM
    TRIM_NACK_DEST_UNSUPPORTED = 1 << 0
    #: Both directions; takes effect where both ends set it
    DYNAMIC_MPR = 1 << 1
    SVC_TIME_DEST_UNSUPPORTED = 1 << 2


class QpHintAttrMask(IntFlag):
    """mrc_qp_hint_attr_mask."""

    NUM_QPS_PER_PEER = 1 << 0
    NUM_SEND_PEERS = 1 << 1
    NUM_REMOTE_RECV_PEERS = 1 << 2
    VENDOR_CFG = 1 << 31


class IbvQpAttrMask(IntFlag):
    """ibv_qp_attr_mask: which fields of `IbvQpAttr` count."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    DEST_QPN = 1 << 20


class SendOpsFlags(IntFlag):
    """ibv_qp_create_send_ops_flags: the two operations that MRC has."""

    RDMA_WRITE = 1 << 0
    RDMA_WRITE_WITH_IMM = 1 << 1


class SendFlags(IntFlag):
    """ibv_send_flags."""

    NONE = 0
    FENCE = 1 << 0
    SIGNALED = 1 << 1
    SOLICITED = 1 << 2
    INLINE = 1 << 3


class WrOpcode(Enum):
    """ibv_wr_opcode: the two that MRC has."""

    RDMA_WRITE = "RDMA_WRITE"
    RDMA_WRITE_WITH_IMM = "RDMA_WRITE_WITH_IMM"


class PortState(Enum):
    """ibv_port_state: the two that a port here can be in."""

    DOWN = "DOWN"
    ACTIVE = "ACTIVE"


class AsyncEventType(Enum):
    """ibv_event_type, as far as the NIC has cause for them, and one of our own."""

    #: A completion found its queue full
    CQ_ERR = "CQ_ERR"
    #: The requestor could not go on (retries, a NAK of the peer's)
    QP_FATAL = "QP_FATAL"
    #: The responder found a request of the peer malformed, or beyond the WriteIMM limit
    QP_REQ_ERR = "QP_REQ_ERR"
    #: The responder found a request of the peer beyond its rights
    QP_ACCESS_ERR = "QP_ACCESS_ERR"
    PORT_ACTIVE = "PORT_ACTIVE"
    PORT_ERR = "PORT_ERR"
    #: Not of ibverbs: a peer's port status update changed the planes used towards it
    PEER_PORTS = "PEER_PORTS"
