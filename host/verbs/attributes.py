"""The structures of mrc.h, and those of ibverbs that it uses, as frozen dataclasses.

A field that is None is one that was not given (or, in what a query returns, not asked for). Units
are those of the originals: MPR in 128 PSNs, timeouts as exponents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, TypeAlias

from host.qp.states import QpState
from host.verbs.flags import (
    Access,
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

if TYPE_CHECKING:
    from host.verbs.cq import Cq
    from host.verbs.hint import QpHint
    from host.verbs.memory import Mr
    from host.verbs.pd import Pd

#: MRC_MAX_VENDOR_CFG_SIZE
MAX_VENDOR_CFG_BYTES = 128

Gid: TypeAlias = IPv6Address


def api_version(major: int, minor: int, sub_minor: int) -> int:
    """MRC_API_VER: a version as one number."""
    return major << 24 | minor << 16 | sub_minor


API_CURRENT_VERSION = api_version(1, 0, 1)
API_LAST_SUPPORTED_VERSION = api_version(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Versions:
    """What mrc_query_version and mrc_ctl_query_version return."""

    current: int = API_CURRENT_VERSION
    last_supported: int = API_LAST_SUPPORTED_VERSION
    vendor: int = api_version(1, 0, 0)
    last_supported_vendor: int = api_version(1, 0, 0)


@dataclass(frozen=True, slots=True)
class ContextAttr:
    """mrc_context_attr, and the privilege that mrc_ctl.h asks of the process (CAP_NET_ADMIN).

    Version 0: the latest.
    """

    mrc_api_version_used: int = 0
    mrc_vendor_api_version_used: int = 0
    net_admin: bool = False


@dataclass(frozen=True, slots=True)
class DeviceAttr:
    """mrc_device_attr. MPRs are in units of 128 PSNs."""

    mrc_protocol_version: ProtocolVersion
    max_wimm: int
    max_wimm_dest: int
    max_mpr: int
    mpr_resolution: int
    max_qp_hint: int
    cap: DeviceCap


@dataclass(frozen=True, slots=True)
class PortAttr:
    """Of ibv_port_attr, what a port here has. `rate_bps` None: unlimited."""

    state: PortState
    rate_bps: int | None
    max_mtu_bytes: int


@dataclass(frozen=True, slots=True)
class QpCapacity:
    """ibv_qp_cap. There is one SGE a request, and nothing inline: a `bytes` cannot change."""

    max_send_wr: int = 1 << 12
    max_recv_wr: int = 1 << 12
    max_send_sge: int = 1
    max_recv_sge: int = 0
    max_inline_data: int = 0


@dataclass(frozen=True, slots=True)
class QpInitAttr:
    """mrc_qp_init_attr. `recv_cq` None: the same as `send_cq`."""

    pd: Pd
    send_cq: Cq
    recv_cq: Cq | None = None
    cap: QpCapacity = field(default_factory=QpCapacity)
    sq_sig_all: bool = False
    send_ops_flags: SendOpsFlags = SendOpsFlags.RDMA_WRITE | SendOpsFlags.RDMA_WRITE_WITH_IMM
    protocol_version: ProtocolVersion = ProtocolVersion.VERSION_0
    qp_context: Any = None


@dataclass(frozen=True, slots=True)
class AhAttr:
    """ibv_ah_attr: the address of the peer's NIC. The source is the NIC's own."""

    dgid: Gid


@dataclass(frozen=True, slots=True)
class IbvQpAttr:
    """ibv_qp_attr, without what mrc.h excludes. `path_mtu` is in bytes."""

    qp_state: QpState | None = None
    cur_qp_state: QpState | None = None
    path_mtu: int | None = None
    rq_psn: int | None = None
    sq_psn: int | None = None
    dest_qp_num: int | None = None
    qp_access_flags: Access | None = None
    pkey_index: int | None = None
    ah_attr: AhAttr | None = None

    def given(self) -> IbvQpAttrMask:
        """The mask of the fields that are not None."""
        mask = IbvQpAttrMask(0)
        for bit, names in IBV_FIELDS.items():
            if any(getattr(self, name) is not None for name in names):
                mask |= bit
        return mask


IBV_FIELDS: dict[IbvQpAttrMask, tuple[str, ...]] = {
    IbvQpAttrMask.STATE: ("qp_state",),
    IbvQpAttrMask.CUR_STATE: ("cur_qp_state",),
    IbvQpAttrMask.ACCESS_FLAGS: ("qp_access_flags",),
    IbvQpAttrMask.PKEY_INDEX: ("pkey_index",),
    IbvQpAttrMask.AV: ("ah_attr",),
    IbvQpAttrMask.PATH_MTU: ("path_mtu",),
    IbvQpAttrMask.RQ_PSN: ("rq_psn",),
    IbvQpAttrMask.SQ_PSN: ("sq_psn",),
    IbvQpAttrMask.DEST_QPN: ("dest_qp_num",),
}


@dataclass(frozen=True, slots=True)
class MrcQpAttr:
    """mrc_qp_attr, flat.

    MPRs in units of 128 PSNs, 1..255; `timeout` 0..24 for 1.024 µs * 2^timeout; `linear_cnt` 0..7;
    `exp_cnt` 0..25, where 25 is for ever; profile id 0 is the NIC's default. `qp_hint` takes one
    field more than the others: with HINT in the mask, None takes the hint away.
    """

    mpr: int | None = None
    mpr_dest: int | None = None
    max_wimm: int | None = None
    max_wimm_dest: int | None = None
    timeout: int | None = None
    ev_profile_id: int | None = None
    cc_profile_id: int | None = None
    linear_cnt: int | None = None
    exp_cnt: int | None = None
    qp_hint: QpHint | None = None
    cap: QpCap | None = None
    vendor_cfg: bytes | None = None

    def given(self) -> QpAttrMask:
        """The mask of the fields that are not None."""
        mask = QpAttrMask(0)
        for bit, names in MRC_FIELDS.items():
            if any(getattr(self, name) is not None for name in names):
                mask |= bit
        return mask


MRC_FIELDS: dict[QpAttrMask, tuple[str, ...]] = {
    QpAttrMask.MAX_WIMM: ("max_wimm",),
    QpAttrMask.MAX_WIMM_DEST: ("max_wimm_dest",),
    QpAttrMask.MPR: ("mpr",),
    QpAttrMask.MPR_DEST: ("mpr_dest",),
    QpAttrMask.TIMEOUT: ("timeout",),
    QpAttrMask.EV_PROFILE_ID: ("ev_profile_id",),
    QpAttrMask.CC_PROFILE_ID: ("cc_profile_id",),
    QpAttrMask.HINT: ("qp_hint",),
    QpAttrMask.RETRY_CNT: ("linear_cnt", "exp_cnt"),
    QpAttrMask.CAP: ("cap",),
    QpAttrMask.VENDOR_CFG: ("vendor_cfg",),
}


@dataclass(frozen=True, slots=True)
class QpHintAttr:
    """mrc_qp_hint_attr: the traffic that is to be expected."""

    num_qps_per_peer: int | None = None
    num_send_peers: int | None = None
    num_remote_recv_peers: int | None = None
    vendor_cfg: bytes | None = None


HINT_FIELDS: dict[QpHintAttrMask, str] = {
    QpHintAttrMask.NUM_QPS_PER_PEER: "num_qps_per_peer",
    QpHintAttrMask.NUM_SEND_PEERS: "num_send_peers",
    QpHintAttrMask.NUM_REMOTE_RECV_PEERS: "num_remote_recv_peers",
    QpHintAttrMask.VENDOR_CFG: "vendor_cfg",
}


@dataclass(frozen=True, slots=True)
class Sge:
    """ibv_sge: `length` bytes (None: the rest) from `offset` in a registered region."""

    mr: Mr
    offset: int = 0
    length: int | None = None


#: What can be sent: a registered region's bytes, or any contiguous buffer
Local: TypeAlias = "Sge | bytes | bytearray | memoryview"


@dataclass(frozen=True, slots=True)
class SendWr:
    """ibv_send_wr."""

    wr_id: int
    local: Local
    remote_addr: int
    rkey: int
    opcode: WrOpcode = WrOpcode.RDMA_WRITE
    imm_data: int | None = None
    send_flags: SendFlags = SendFlags.NONE


@dataclass(frozen=True, slots=True)
class RecvWr:
    """ibv_recv_wr: it has no buffer, because WRITE with immediate says itself where it goes."""

    wr_id: int
