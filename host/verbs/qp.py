"""Queue pairs as the user has them: attributes with masks, states, and posting work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from host.qp.base import AnyQueuePair
from host.qp.states import QpState
from host.qp.work import WriteRequest
from host.verbs.attributes import (
    IBV_FIELDS,
    MRC_FIELDS,
    AhAttr,
    IbvQpAttr,
    Local,
    MrcQpAttr,
    QpCapacity,
    QpInitAttr,
    RecvWr,
    SendWr,
    Sge,
)
from host.verbs.errors import (
    InvalidArgumentError,
    MrcError,
    NotSupportedError,
    check_range,
    translated,
)
from host.verbs.exchange import MrInfo, QpInfo
from host.verbs.flags import (
    Access,
    IbvQpAttrMask,
    ProtocolVersion,
    QpAttrMask,
    QpCap,
    SendFlags,
    SendOpsFlags,
    WrOpcode,
    beyond,
    names,
)
from host.verbs.hint import check_vendor_cfg
from host.verbs.qp_attributes import (
    Extras,
    check_given,
    core_of_ibv,
    core_of_mrc,
    ibv_of_core,
    mrc_of_core,
)
from host.verbs.resource import Resource
from host.verbs.transitions import check_attributes
from host.wire.constants import MPR_UNIT_PSNS

if TYPE_CHECKING:
    from host.verbs.context import Context

#: More cannot be told apart by their 16-bit numbers
MAX_WIMM = (1 << 15) - 1
MAX_WR = 1 << 20

_ALL_IBV = IbvQpAttrMask(sum(IBV_FIELDS))
_ALL_MRC = QpAttrMask(sum(MRC_FIELDS))
_SEND_OPS = SendOpsFlags.RDMA_WRITE | SendOpsFlags.RDMA_WRITE_WITH_IMM
_SIGNALED = SendFlags.SIGNALED
_REFUSED_FLAGS = SendFlags.SOLICITED | SendFlags.INLINE
_SEND_FLAGS = SendFlags.FENCE | SendFlags.SIGNALED | _REFUSED_FLAGS


class QueuePair(Resource):
    """A queue pair (mrc_qp), made by `Context.create_qp`. It begins in RESET."""

    __slots__ = (
        "_core",
        "_driver",
        "_extras",
        "_initial",
        "_sends_imm",
        "_sends_write",
        "init_attr",
        "pd",
        "recv_cq",
        "send_cq",
        "sq_sig_all",
    )

    kind = "QP"

    def __init__(self, context: Context, init_attr: QpInitAttr) -> None:
        context.check_open()
        send_cq = init_attr.send_cq
        recv_cq = send_cq if init_attr.recv_cq is None else init_attr.recv_cq
        for used in (init_attr.pd, send_cq, recv_cq):
            used.check_usable_in(context)
        _check_capacity(init_attr.cap)
        if beyond(init_attr.send_ops_flags, _SEND_OPS):
            raise NotSupportedError("send_ops_flags: MRC has RDMA_WRITE and RDMA_WRITE_WITH_IMM")
        if init_attr.protocol_version not in (
            ProtocolVersion.VERSION_0,
            ProtocolVersion.VERSION_1,
        ):
            raise NotSupportedError(
                f"protocol_version: {init_attr.protocol_version!r} does not fit: there is VERSION_1"
            )
        device = context.device
        with translated():
            self._core: AnyQueuePair = device.nic.create_qp(
                send_cq.core,
                recv_cq.core,
                max_send_wr=init_attr.cap.max_send_wr,
                max_recv_wr=init_attr.cap.max_recv_wr,
                pd=init_attr.pd.handle,
            )
        super().__init__(context)
        self.init_attr = init_attr
        self.pd = init_attr.pd
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.sq_sig_all = init_attr.sq_sig_all
        self._sends_write = SendOpsFlags.RDMA_WRITE in init_attr.send_ops_flags
        self._sends_imm = SendOpsFlags.RDMA_WRITE_WITH_IMM in init_attr.send_ops_flags
        self._driver = device.driver
        self._extras = Extras()
        self._initial = self._core.attributes
        for used in (self.pd, send_cq, recv_cq):
            used.acquire(self.kind)
        device.add_qp(self)

    def __repr__(self) -> str:
        return f"QueuePair({self.qp_num:#08x}, {self.state.value})"

    @property
    def qp_num(self) -> int:
        """Its number (mrc_get_qpn)."""
        return self._core.number

    @property
    def qp_context(self) -> Any:
        """What the user gave at its creation."""
        return self.init_attr.qp_context

    @property
    def state(self) -> QpState:
        """The present state."""
        return self._core.state

    # --- attributes ---

    def modify_qp(
        self,
        vattr: IbvQpAttr,
        vattr_mask: IbvQpAttrMask | None = None,
        mrc_attr: MrcQpAttr | None = None,
        mrc_attr_mask: QpAttrMask | None = None,
    ) -> None:
        """mrc_modify_qp: go to a state (`IbvQpAttrMask.STATE`), with attributes on the way.

        A mask that is not given covers all fields that are not None. Which attributes go with
        which transition is in `transitions`; where STATE is not in the mask, the transition is
        from the present state to itself.

        Raises InvalidArgumentError for a transition that there is not, a mask that does not go
        with it, a field of the mask that was not given, and a value out of range; nothing has
        changed then.
        """
        self.check_open()
        ibv = vattr.given() if vattr_mask is None else vattr_mask
        if mrc_attr is None:
            mrc_attr = MrcQpAttr()
        mrc = mrc_attr.given() if mrc_attr_mask is None else mrc_attr_mask
        core = self._core
        old = core.state
        check_given(vattr, ibv, mrc_attr, mrc)
        if ibv & IbvQpAttrMask.CUR_STATE and vattr.cur_qp_state is not old:
            raise InvalidArgumentError(
                f"cur_qp_state: it is {vattr.cur_qp_state}, but the QP is in {old.value}"
            )
        new = vattr.qp_state if ibv & IbvQpAttrMask.STATE else old
        assert new is not None
        check_attributes(old, new, ibv, mrc)
        self._check_values(vattr, ibv, mrc_attr, mrc)
        changes = {**core_of_ibv(vattr, ibv), **core_of_mrc(mrc_attr, mrc)}
        with translated():
            core.modify(new, **changes)
        self._keep(vattr, ibv, mrc_attr, mrc)
        if new is QpState.RESET:
            core.attributes = self._initial
            self._set_extras(Extras())
        self._driver.kick()

    def _check_values(
        self, vattr: IbvQpAttr, ibv: IbvQpAttrMask, mrc_attr: MrcQpAttr, mrc: QpAttrMask
    ) -> None:
        """What the core does not check."""
        config = self.context.device.nic.config
        if ibv & IbvQpAttrMask.PKEY_INDEX and vattr.pkey_index != 0:
            raise InvalidArgumentError(
                f"pkey_index: {vattr.pkey_index} does not fit: there is one P_Key, number 0"
            )
        if ibv & IbvQpAttrMask.ACCESS_FLAGS and vattr.qp_access_flags not in (
            Access.REMOTE_WRITE,
            Access.REMOTE_WRITE | Access.LOCAL_WRITE,
        ):
            raise NotSupportedError(
                f"qp_access_flags: {vattr.qp_access_flags!r} does not fit: it must be "
                "REMOTE_WRITE; regions say what peers may do"
            )
        if ibv & IbvQpAttrMask.PATH_MTU:
            assert vattr.path_mtu is not None
            check_range("path_mtu", vattr.path_mtu, 64, config.path_mtu_bytes)
            if vattr.path_mtu % 4:
                raise InvalidArgumentError(
                    f"path_mtu: {vattr.path_mtu} does not fit: it must be a multiple of 4"
                )
        if mrc & QpAttrMask.HINT and mrc_attr.qp_hint is not None:
            mrc_attr.qp_hint.check_usable_in(self.context)
        if mrc & QpAttrMask.VENDOR_CFG and mrc_attr.vendor_cfg is not None:
            check_vendor_cfg(mrc_attr.vendor_cfg)
        device = self.context.device
        if mrc & QpAttrMask.EV_PROFILE_ID and mrc_attr.ev_profile_id is not None:
            device.check_ev_profile(mrc_attr.ev_profile_id)
        if mrc & QpAttrMask.CC_PROFILE_ID and mrc_attr.cc_profile_id is not None:
            device.check_cc_profile(mrc_attr.cc_profile_id)

    def _keep(
        self, vattr: IbvQpAttr, ibv: IbvQpAttrMask, mrc_attr: MrcQpAttr, mrc: QpAttrMask
    ) -> None:
        """Remember what the core does not."""
        changes: dict[str, Any] = {}
        if ibv & IbvQpAttrMask.ACCESS_FLAGS:
            changes["access"] = vattr.qp_access_flags
        if mrc & QpAttrMask.HINT:
            changes["hint"] = mrc_attr.qp_hint
        if mrc & QpAttrMask.CAP and mrc_attr.cap is not None:
            changes["cap"] = mrc_attr.cap & QpCap.SVC_TIME_DEST_UNSUPPORTED
        if mrc & QpAttrMask.VENDOR_CFG:
            changes["vendor_cfg"] = mrc_attr.vendor_cfg
        if changes:
            self._set_extras(replace(self._extras, **changes))

    def _set_extras(self, extras: Extras) -> None:
        old, self._extras = self._extras, extras
        if extras.hint is not None:
            extras.hint.acquire(self.kind)
        if old.hint is not None:
            old.hint.release(self.kind)

    def query_qp(
        self,
        vattr_mask: IbvQpAttrMask = _ALL_IBV,
        mrc_attr_mask: QpAttrMask = _ALL_MRC,
    ) -> tuple[IbvQpAttr, MrcQpAttr, QpInitAttr]:
        """mrc_query_qp: the attributes of the masks (all by default) as they are now.

        Fields that were not asked for are None; so is the address before RTR. Raises
        InvalidArgumentError for a mask with bits that mrc.h excludes.
        """
        self.check_open()
        if wrong := beyond(vattr_mask, _ALL_IBV):
            raise InvalidArgumentError(f"{names(wrong)} cannot be queried")
        core = self._core
        return (
            ibv_of_core(core.state, core.attributes, self._extras, vattr_mask),
            mrc_of_core(core.attributes, self._extras, mrc_attr_mask),
            self.init_attr,
        )

    # --- connecting ---

    def info(self, regions: Iterable[MrInfo] = ()) -> QpInfo:
        """What the other end must know, for its `connect`; `regions` it may write to go along."""
        self.check_open()
        now = self._core.attributes
        return QpInfo(
            gid=self.context.device.gid,
            qp_num=self.qp_num,
            psn=now.sq_psn,
            mpr=now.mpr_dest_psns // MPR_UNIT_PSNS,
            max_wimm=now.max_wimm_dest,
            path_mtu=now.path_mtu_bytes,
            trim_nack=now.trim_nack,
            dynamic_mpr=now.dynamic_mpr,
            regions=tuple(regions),
        )

    def connect(self, remote: QpInfo, mrc_attr: MrcQpAttr | None = None) -> None:
        """RESET (or INIT) to RTS in three `modify_qp`, with what the other end told.

        Each limit becomes the smaller of both ends'. Of `mrc_attr`, what goes with each transition
        is used there: the profiles and the hint, timeout and retries.
        """
        self.check_open()
        attr = MrcQpAttr() if mrc_attr is None else mrc_attr
        if wrong := beyond(
            attr.given(),
            QpAttrMask.EV_PROFILE_ID
            | QpAttrMask.CC_PROFILE_ID
            | QpAttrMask.HINT
            | QpAttrMask.TIMEOUT
            | QpAttrMask.RETRY_CNT,
        ):
            raise InvalidArgumentError(f"connect: {names(wrong)} cannot be set here")
        now = self._core.attributes
        self.modify_qp(
            IbvQpAttr(QpState.INIT),
            mrc_attr=MrcQpAttr(
                ev_profile_id=attr.ev_profile_id,
                cc_profile_id=attr.cc_profile_id,
                qp_hint=attr.qp_hint,
            ),
        )
        cap = QpCap(0)
        if not remote.trim_nack:
            cap |= QpCap.TRIM_NACK_DEST_UNSUPPORTED
        if now.dynamic_mpr and remote.dynamic_mpr:
            cap |= QpCap.DYNAMIC_MPR
        self.modify_qp(
            IbvQpAttr(
                QpState.RTR,
                ah_attr=AhAttr(remote.gid),
                dest_qp_num=remote.qp_num,
                rq_psn=remote.psn,
                path_mtu=min(now.path_mtu_bytes, remote.path_mtu),
            ),
            mrc_attr=MrcQpAttr(
                mpr=remote.mpr, max_wimm=min(now.max_wimm, remote.max_wimm), cap=cap
            ),
        )
        self.modify_qp(
            IbvQpAttr(QpState.RTS),
            mrc_attr=MrcQpAttr(
                timeout=attr.timeout, linear_cnt=attr.linear_cnt, exp_cnt=attr.exp_cnt
            ),
        )

    # --- work ---

    def post_write(
        self,
        wr_id: int,
        local: Local,
        remote_addr: int,
        rkey: int,
        *,
        send_flags: SendFlags = _SIGNALED,
    ) -> None:
        """Post an RDMA WRITE of a buffer to the peer's virtual address `remote_addr`.

        The buffer is not copied: it must stay as it is until the request completes. A request
        without SIGNALED makes no completion if it succeeds, unless the QP has `sq_sig_all`.

        Raises InvalidArgumentError in the wrong state and for what cannot be sent, NoMemoryError
        when the send queue is full. In ERROR, the request completes as flushed.
        """
        if not self._sends_write:
            raise InvalidArgumentError("the QP was created without RDMA_WRITE")
        self._post(wr_id, local, remote_addr, rkey, None, send_flags)

    def post_write_imm(
        self,
        wr_id: int,
        local: Local,
        remote_addr: int,
        rkey: int,
        imm_data: int,
        *,
        send_flags: SendFlags = _SIGNALED,
    ) -> None:
        """Post an RDMA WRITE with immediate: as `post_write`, and the peer gets a completion.

        It uses up one of the peer's receives, when all that was posted before it has landed.
        """
        if not self._sends_imm:
            raise InvalidArgumentError("the QP was created without RDMA_WRITE_WITH_IMM")
        if not isinstance(imm_data, int):
            raise InvalidArgumentError(f"imm_data: {imm_data!r} does not fit: it must be a number")
        self._post(wr_id, local, remote_addr, rkey, imm_data, send_flags)

    def _post(
        self,
        wr_id: int,
        local: Local,
        remote_addr: int,
        rkey: int,
        imm_data: int | None,
        send_flags: SendFlags,
    ) -> None:
        self.check_open()
        if send_flags is not _SIGNALED:
            _check_send_flags(send_flags)
        data = self._local(local) if isinstance(local, Sge) else local
        signaled = self.sq_sig_all or bool(send_flags & _SIGNALED)
        try:
            self._core.post_write(WriteRequest(wr_id, data, remote_addr, rkey, imm_data, signaled))
        except TypeError as error:
            raise InvalidArgumentError(f"local: {error}") from None
        except (ValueError, RuntimeError):
            with translated():
                raise
        self._driver.kick()

    def _local(self, sge: Sge) -> memoryview:
        mr = sge.mr
        mr.check_usable_in(self.context)
        if mr.pd is not self.pd:
            raise InvalidArgumentError("local: the region belongs to another protection domain")
        return mr.view(sge.offset, sge.length)

    def post_send(self, wrs: SendWr | Iterable[SendWr]) -> None:
        """mrc_post_send: post requests one after another.

        What cannot be posted ends it with the error of `post_write`, whose `bad_wr` is that
        request; the ones before it are posted.
        """
        for wr in (wrs,) if isinstance(wrs, SendWr) else wrs:
            try:
                if wr.opcode is WrOpcode.RDMA_WRITE:
                    self.post_write(
                        wr.wr_id, wr.local, wr.remote_addr, wr.rkey, send_flags=wr.send_flags
                    )
                elif wr.imm_data is None:
                    raise InvalidArgumentError("imm_data: it is missing")
                else:
                    self.post_write_imm(
                        wr.wr_id,
                        wr.local,
                        wr.remote_addr,
                        wr.rkey,
                        wr.imm_data,
                        send_flags=wr.send_flags,
                    )
            except MrcError as error:
                error.bad_wr = wr
                raise

    def post_recv(self, wrs: int | RecvWr | Iterable[RecvWr]) -> None:
        """mrc_post_recv: post receives, or one, given by its `wr_id`.

        Each is used up by one WRITE with immediate of the peer. Errors as of `post_send`.
        """
        self.check_open()
        if isinstance(wrs, int):
            wrs = RecvWr(wrs)
        for wr in (wrs,) if isinstance(wrs, RecvWr) else wrs:
            try:
                with translated():
                    self._core.post_recv(wr.wr_id)
            except MrcError as error:
                error.bad_wr = wr
                raise
        self._driver.kick()

    def _destroy(self) -> None:
        """mrc_destroy_qp: outstanding work leaves no completions."""
        device = self.context.device
        device.nic.destroy_qp(self._core)
        device.remove_qp(self)
        self.context.forget_events(self)
        self._set_extras(Extras())
        for used in (self.pd, self.send_cq, self.recv_cq):
            used.release(self.kind)
        device.driver.kick()

    # --- for the privileged side ---

    @property
    def core(self) -> AnyQueuePair:
        """The NIC's queue pair."""
        return self._core


def _check_capacity(cap: QpCapacity) -> None:
    for name, low, high in (
        ("max_send_wr", 1, MAX_WR),
        ("max_recv_wr", 1, MAX_WR),
        ("max_send_sge", 0, 1),
        ("max_recv_sge", 0, 1),
        ("max_inline_data", 0, 0),
    ):
        check_range(name, getattr(cap, name), low, high)


def _check_send_flags(send_flags: SendFlags) -> None:
    if beyond(send_flags, _SEND_FLAGS):
        raise InvalidArgumentError(f"send_flags: {send_flags!r} has unknown bits")
    if send_flags & SendFlags.SOLICITED:
        raise NotSupportedError("send_flags: the NIC has no solicited events")
    if send_flags & SendFlags.INLINE:
        raise InvalidArgumentError("send_flags: INLINE does not fit: max_inline_data is 0")
