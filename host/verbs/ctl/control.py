"""The calls of mrc_ctl.h, for contexts opened with `net_admin`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from host.config import ForwardingMode
from host.congestion import algorithms
from host.nic import Nic
from host.paths import EvFieldRule
from host.paths import EvState as PathsState
from host.paths.profile import MAX_EV_COUNT
from host.qp.endpoint import EndpointResult
from host.verbs.attributes import Versions
from host.verbs.cq import CompChannel
from host.verbs.ctl.attributes import (
    CC_FIELDS,
    EV_FIELDS,
    FMT_FIELDS,
    CcProfileAttr,
    CtlDeviceAttr,
    EpReq,
    Ev,
    EvFmtField,
    EvFmtProfileAttr,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
    PortCtlAttr,
)
from host.verbs.ctl.endpoint import EpBatch, mask_of_planes, send_batch
from host.verbs.ctl.ev_events import EvEventCq
from host.verbs.ctl.ev_fmt import MODE_OF_FORWARDING
from host.verbs.ctl.flags import (
    CcProfileAttrMask,
    CtlOptCap,
    EpOpType,
    EvFmtProfileAttrMask,
    EvMode,
    EvOpType,
    EvProfileAttrMask,
    EvState,
    PortAdminState,
    PortAttrMask,
)
from host.verbs.ctl.table import (
    MAX_CC_PROFILES,
    MAX_EV_PROFILES,
    MAX_EVS,
    MAX_FMT_PROFILES,
    ProfileTable,
    ev_states_of,
)
from host.verbs.errors import (
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    check_range,
)
from topologies.addressing import EV_BITS, AddressPlan, encode_ev, ev_fields

if TYPE_CHECKING:
    from host.verbs.context import Context
    from host.verbs.qp import QueuePair

_ALL_FMT = EvFmtProfileAttrMask(sum(FMT_FIELDS))
_ALL_EV = EvProfileAttrMask(sum(EV_FIELDS)) & ~EvProfileAttrMask.EV_OP
_ALL_CC = CcProfileAttrMask(sum(CC_FIELDS))


class Control:
    """What a controller may do with a device: `Context.ctl`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._batches: list[EpBatch] = []
        device = context.device
        self._unsubscribe = device.events.subscribe(EndpointResult, self._resolve)

    def close(self) -> None:
        """The context ends: nobody waits for responses any more."""
        self._unsubscribe()
        self._batches.clear()

    @property
    def _nic(self) -> Nic:
        self.context.check_open()
        return self.context.device.mrc_nic

    @property
    def _table(self) -> ProfileTable:
        self.context.check_open()
        return self.context.device.profile_table

    # --- the device ---

    @staticmethod
    def query_version() -> Versions:
        """mrc_ctl_query_version."""
        return Versions()

    def query_device(self) -> CtlDeviceAttr:
        """mrc_ctl_query_device."""
        config = self._nic.config
        return CtlDeviceAttr(
            ev_max_fmt_profiles=MAX_FMT_PROFILES,
            ev_max_profiles=MAX_EV_PROFILES,
            ev_max_count=MAX_EVS,
            ev_free_count=self._table.free_evs(),
            ev_max_count_profile=MAX_EV_COUNT,
            ev_count_align=1,
            ev_max_width=EV_BITS,
            ev_fmt_mode_mask=MODE_OF_FORWARDING[config.forwarding],
            ev_mode_mask=EvMode.AUTO | EvMode.EXP | EvMode.GEN,
            ev_op_max_entries=0,
            cc_max_profiles=MAX_CC_PROFILES,
            algorithms=algorithms(),
            phy_port_mask=mask_of_planes((1 << len(config.ports)) - 1),
            opt_attr=CtlOptCap.EV_EVENT
            | CtlOptCap.EV_EVENT_PRECISE_DROP_CNT
            | CtlOptCap.EP_OP_EV_PROBE,
        )

    # --- ports ---

    def _port(self, port_num: int) -> int:
        check_range("port_num", port_num, 1, len(self._nic.config.ports))
        return port_num - 1

    def query_port(
        self, port_num: int, attr_mask: PortAttrMask = PortAttrMask.ADMIN_STATE
    ) -> PortCtlAttr:
        """mrc_ctl_query_port: whether a port is enabled (`Device.query_port`: whether it is up)."""
        port = self._port(port_num)
        _check_port_mask(attr_mask)
        return PortCtlAttr(PortAdminState(self._nic.port_enabled(port)))

    def modify_port(
        self,
        port_num: int,
        attr: PortCtlAttr,
        attr_mask: PortAttrMask = PortAttrMask.ADMIN_STATE,
    ) -> None:
        """mrc_ctl_modify_port: disable or enable a port. Peers are told as of a link that fails."""
        port = self._port(port_num)
        _check_port_mask(attr_mask)
        driver = self.context.device.driver
        enabled = attr.port_admin_state is PortAdminState.ENABLED
        self._nic.set_port_enabled(port, enabled, driver.now_ns())
        driver.kick()

    def query_peer_ports(self, gid: IPv6Address) -> int:
        """The mask of ports that a peer's port status update says are up. Not in mrc_ctl.h.

        Raises NotFoundError for an address that no QP is connected with.
        """
        self.context.device.dispatch()
        peer = self._nic.peer(int(gid))
        if peer is None:
            raise NotFoundError(f"gid: {gid}: no QP is connected with it")
        return mask_of_planes(peer.planes_up)

    # --- EV format profiles ---

    def modify_ev_fmt_profile(
        self,
        ev_fmt_profile_id: int,
        attr: EvFmtProfileAttr,
        attr_mask: EvFmtProfileAttrMask | None = None,
    ) -> None:
        """mrc_ctl_modify_ev_fmt_profile. Without a mask, what is not None counts."""
        table = self._table
        profile = table.fmt(ev_fmt_profile_id)
        table.check_room("EV format", profile.state)
        profile.modify(attr, attr_mask, users=table.online_of_fmt(ev_fmt_profile_id))
        table.keep_fmt(profile)

    def query_ev_fmt_profile(
        self, ev_fmt_profile_id: int, attr_mask: EvFmtProfileAttrMask = _ALL_FMT
    ) -> EvFmtProfileAttr:
        """mrc_ctl_query_ev_fmt_profile."""
        return self._table.fmt(ev_fmt_profile_id).query(attr_mask)

    # --- EV profiles ---

    def modify_ev_profile(
        self,
        ev_profile_id: int,
        attr: EvProfileAttr,
        attr_mask: EvProfileAttrMask | None = None,
    ) -> None:
        """mrc_ctl_modify_ev_profile. Without a mask, what is not None counts."""
        table = self._table
        entry = table.ev(ev_profile_id)
        table.check_room("EV", entry.state)
        try:
            entry.modify(
                attr,
                attr_mask,
                fmt=table.fmt,
                free=table.free_evs(),
                users=len(table.qps_of_ev_profile(ev_profile_id)),
            )
        finally:
            # Operations on EVs end with the first entry that fails; those before it are done
            table.keep_ev(entry)
        self.context.device.driver.kick()

    def query_ev_profile(
        self,
        ev_profile_id: int,
        attr_mask: EvProfileAttrMask = _ALL_EV,
        ev_op: EvOp | None = None,
    ) -> EvProfileAttr:
        """mrc_ctl_query_ev_profile; `ev_op` is the query of EVs, with EV_OP in the mask."""
        return self._table.ev(ev_profile_id).query(attr_mask, ev_op)

    def query_ev_array(self, ev_profile_id: int) -> tuple[Ev, ...]:
        """The EVs of a profile (EV_OP_QUERY_EV_ARRAY)."""
        return tuple(self._table.ev(ev_profile_id).array.evs)

    def query_ev_state(self, ev_profile_id: int, evs: Iterable[Ev]) -> tuple[EvState, ...]:
        """The states of EVs of a profile (EV_OP_QUERY_EV_STATE).

        An EV is ASSUMED_BAD where any QP with the profile holds it so; SKIP counts as GOOD.
        """
        op = EvOp(EvOpType.QUERY_EV_STATE, tuple(EvOpEntry(ev) for ev in evs))
        return tuple(entry.state for entry in self._table.ev(ev_profile_id).query_op(op).entries)

    def modify_ev_state(self, ev_profile_id: int, evs: Iterable[Ev], state: EvState) -> None:
        """Set the states of EVs of a profile (EV_OP_MODIFY_EV_STATE).

        DENIED is the denylist: it holds for QPs that are connected and those that will be, until
        GOOD takes it back. ASSUMED_BAD holds for those that are, until probes find the EV good.
        """
        entries = tuple(EvOpEntry(ev, state=state) for ev in evs)
        self.modify_ev_profile(
            ev_profile_id, EvProfileAttr(ev_op=EvOp(EvOpType.MODIFY_EV_STATE, entries))
        )

    def query_qp_ev_states(self, qp: QueuePair) -> dict[int, PathsState]:
        """The states of one QP's EVs, SKIP among them. Not in mrc_ctl.h.

        Empty before RTR, and where the NIC's path selection has no states. QPs of all contexts of
        the device may be asked for.
        """
        self.context.check_open()
        qp.check_open()
        if qp.context.device is not self.context.device:
            raise InvalidArgumentError("qp: it belongs to another device")
        # A NIC has queue pairs of one transport only
        return ev_states_of(self._nic.qps[qp.qp_num])

    def plan_format(self) -> tuple[EvFmtField, ...]:
        """The layout of the fabric's EVs, for an EV format profile. Not in mrc_ctl.h."""
        return tuple(EvFmtField(rule.width) for rule in self.plan_fields())

    def plan_fields(self) -> tuple[EvFieldRule, ...]:
        """The fields that generate the EVs of all the fabric's paths. Not in mrc_ctl.h."""
        config = self._nic.config
        return tuple(map(EvFieldRule.of_plan, ev_fields(len(config.ports), config.uplinks)))

    # --- CC profiles ---

    def modify_cc_profile(
        self,
        cc_profile_id: int,
        attr: CcProfileAttr,
        attr_mask: CcProfileAttrMask | None = None,
    ) -> None:
        """mrc_ctl_modify_cc_profile. Without a mask, what is not None counts."""
        if cc_profile_id == 0:
            raise InvalidArgumentError("CC profile 0: it is the NIC's default and stays as it is")
        table = self._table
        entry = table.cc(cc_profile_id)
        table.check_room("CC", entry.state)
        entry.modify(attr, attr_mask, users=len(table.qps_of_cc_profile(cc_profile_id)))
        table.keep_cc(entry)

    def query_cc_profile(
        self, cc_profile_id: int, attr_mask: CcProfileAttrMask = _ALL_CC
    ) -> CcProfileAttr:
        """mrc_ctl_query_cc_profile."""
        return self._table.cc(cc_profile_id).query(attr_mask)

    # --- EV events ---

    def create_ev_event_cq(
        self, cqe: int, cq_context: Any = None, channel: CompChannel | None = None
    ) -> EvEventCq:
        """mrc_ctl_create_ev_event_cq."""
        return EvEventCq(self.context, self._table, cqe, cq_context, channel)

    # --- endpoint requests ---

    def ep_batch_send(
        self,
        req_tc: int | None,
        op_type: EpOpType,
        reqs: Sequence[EpReq],
        rsp_timeout: int,
    ) -> EpBatch:
        """mrc_ctl_ep_batch_send_wait, without the waiting: the batch tells when it is done.

        `req_tc` is the DSCP of the requests (None: that of control), `rsp_timeout` in ns. Raises
        InvalidArgumentError, and nothing was sent; TryAgainError when too many requests are
        unanswered, and some may have been sent.
        """
        self.context.check_open()
        return send_batch(self.context, req_tc, op_type, reqs, rsp_timeout, self._batches.append)

    def self_probe(self, req_id: int, port_num: int, uplink: int | None = None) -> EpReq:
        """A request that probes the way to the T0 and back, or to the T1 at `uplink` and back.

        Its RTT is that of the way there and back, once. Needs SRv6.
        """
        config = self._nic.config
        if config.forwarding is not ForwardingMode.SRV6:
            raise NotSupportedError("self-probes need SRv6")
        plane = self._port(port_num)
        plan = AddressPlan(locator_block=config.locator_block)
        if uplink is None:
            carrier = plan.t0_probe(plane, config.id)
        else:
            check_range("uplink", uplink, 0, config.uplinks - 1)
            carrier = plan.t1_probe(plane, config.id, uplink)
        ev = Ev(encode_ev(plane, uplink or 0), port_num)
        return EpReq(req_id, IPv6Address(config.address), ev, IPv6Address(carrier))

    def _resolve(self, result: EndpointResult) -> None:
        for batch in self._batches:
            batch.resolve(result)
        self._batches = [batch for batch in self._batches if batch.waiting]


def _check_port_mask(attr_mask: PortAttrMask) -> None:
    if attr_mask != PortAttrMask.ADMIN_STATE:
        raise InvalidArgumentError(f"attr_mask: {attr_mask!r} does not fit: it must be ADMIN_STATE")
