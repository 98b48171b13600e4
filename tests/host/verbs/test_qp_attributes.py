"""modify_qp and query_qp: states, masks, ranges."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

import pytest

from host.profiles import PlainProfiles
from host.verbs import (
    Access,
    AhAttr,
    ClosedError,
    IbvQpAttr,
    IbvQpAttrMask,
    InvalidArgumentError,
    MrcError,
    MrcQpAttr,
    NotSupportedError,
    ProtocolVersion,
    QpAttrMask,
    QpCap,
    QpCapacity,
    QpInitAttr,
    QpState,
    QueuePair,
    SendOpsFlags,
)
from host.verbs.transitions import ATTRIBUTE_RULES, EXCLUDED
from tests.host.verbs.world import World, connected

PEER = AhAttr(IPv6Address("fd4d:5243:0:1::1"))
TO_RTR = IbvQpAttr(QpState.RTR, ah_attr=PEER, dest_qp_num=5, rq_psn=7)


def at(state: QpState) -> QueuePair:
    """A queue pair in a state."""
    qp = World().near.qp
    steps = {
        QpState.INIT: [IbvQpAttr(QpState.INIT)],
        QpState.RTR: [IbvQpAttr(QpState.INIT), TO_RTR],
        QpState.RTS: [IbvQpAttr(QpState.INIT), TO_RTR, IbvQpAttr(QpState.RTS)],
        QpState.ERROR: [IbvQpAttr(QpState.ERROR)],
    }
    for step in steps.get(state, ()):
        qp.modify_qp(step)
    assert qp.state is state
    return qp


def given(state: QpState, **ibv: Any) -> IbvQpAttr:
    return replace(TO_RTR if state is QpState.RTR else IbvQpAttr(state), **ibv)


class TestStates:
    def test_the_way_up_with_masks_as_in_c(self) -> None:
        world = World()
        qp = world.near.qp
        qp.modify_qp(
            IbvQpAttr(QpState.INIT, pkey_index=0, qp_access_flags=Access.REMOTE_WRITE),
            IbvQpAttrMask.STATE | IbvQpAttrMask.PKEY_INDEX | IbvQpAttrMask.ACCESS_FLAGS,
            MrcQpAttr(ev_profile_id=0, cc_profile_id=0),
            QpAttrMask.EV_PROFILE_ID | QpAttrMask.CC_PROFILE_ID | QpAttrMask.HINT,
        )
        qp.modify_qp(
            TO_RTR,
            IbvQpAttrMask.STATE | IbvQpAttrMask.AV | IbvQpAttrMask.DEST_QPN | IbvQpAttrMask.RQ_PSN,
            MrcQpAttr(mpr_dest=8, max_wimm_dest=64, cap=QpCap.DYNAMIC_MPR),
            QpAttrMask.MPR_DEST | QpAttrMask.MAX_WIMM_DEST | QpAttrMask.CAP,
        )
        qp.modify_qp(
            IbvQpAttr(QpState.RTS, sq_psn=9),
            IbvQpAttrMask.STATE | IbvQpAttrMask.SQ_PSN,
            MrcQpAttr(mpr=4, max_wimm=32, timeout=8, linear_cnt=7, exp_cnt=25),
            QpAttrMask.MPR | QpAttrMask.MAX_WIMM | QpAttrMask.TIMEOUT | QpAttrMask.RETRY_CNT,
        )
        assert qp.state is QpState.RTS
        assert world.near.driver.kicks == 3
        ibv, mrc, init = qp.query_qp()
        assert ibv == IbvQpAttr(
            qp_state=QpState.RTS,
            cur_qp_state=QpState.RTS,
            path_mtu=4096,
            rq_psn=7,
            sq_psn=9,
            dest_qp_num=5,
            qp_access_flags=Access.REMOTE_WRITE,
            pkey_index=0,
            ah_attr=PEER,
        )
        assert mrc == MrcQpAttr(
            mpr=4,
            mpr_dest=8,
            max_wimm=32,
            max_wimm_dest=64,
            timeout=8,
            ev_profile_id=0,
            cc_profile_id=0,
            linear_cnt=7,
            exp_cnt=25,
            qp_hint=None,
            cap=QpCap.DYNAMIC_MPR,
            vendor_cfg=b"",
        )
        assert init is qp.init_attr
        assert "RTS" in repr(qp)

    @pytest.mark.parametrize("old", QpState)
    @pytest.mark.parametrize("new", QpState)
    def test_every_pair(self, old: QpState, new: QpState) -> None:
        qp = at(old)
        allowed = new in (QpState.RESET, QpState.ERROR) or (old, new) in (
            *ATTRIBUTE_RULES,
            (QpState.RTS, QpState.RTS),
        )
        if allowed:
            qp.modify_qp(given(new) if old is QpState.INIT else IbvQpAttr(new))
            assert qp.state is new
        else:
            with pytest.raises(InvalidArgumentError, match=f"cannot go to {new.value}|→"):
                qp.modify_qp(IbvQpAttr(new))
            assert qp.state is old

    def test_without_a_state_it_is_the_present_one(self) -> None:
        qp = at(QpState.INIT)
        qp.modify_qp(IbvQpAttr(), mrc_attr=MrcQpAttr(vendor_cfg=b"v"))
        assert qp.state is QpState.INIT
        assert qp.query_qp()[1].vendor_cfg == b"v"
        with pytest.raises(InvalidArgumentError, match="RTS → RTS"):
            at(QpState.RTS).modify_qp(IbvQpAttr(), mrc_attr=MrcQpAttr(timeout=3))

    def test_the_present_state_can_be_asserted(self) -> None:
        with pytest.raises(InvalidArgumentError, match="cur_qp_state"):
            at(QpState.INIT).modify_qp(IbvQpAttr(QpState.RESET, cur_qp_state=QpState.RTS))
        at(QpState.INIT).modify_qp(IbvQpAttr(QpState.RESET, cur_qp_state=QpState.INIT))

    def test_a_reset_brings_back_what_was_at_the_beginning(self) -> None:
        qp = World().near.qp
        before = qp.query_qp()
        qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(vendor_cfg=b"x"))
        qp.modify_qp(TO_RTR, mrc_attr=MrcQpAttr(mpr=3, cap=QpCap(7)))
        assert qp.query_qp()[1].cap == QpCap(7)
        qp.modify_qp(IbvQpAttr(QpState.RESET))
        assert qp.query_qp() == before

    def test_a_destroyed_one(self) -> None:
        qp = at(QpState.RTS)
        qp.close()
        assert qp.closed
        for call in (
            lambda: qp.modify_qp(IbvQpAttr(QpState.RESET)),
            qp.query_qp,
            qp.info,
            lambda: qp.post_write(1, b"x", 0, 0),
            lambda: qp.post_recv(1),
        ):
            with pytest.raises(ClosedError, match="QP"):
                call()


class TestMasks:
    @pytest.mark.parametrize("bit", EXCLUDED)
    def test_what_mrc_excludes(self, bit: IbvQpAttrMask) -> None:
        with pytest.raises(InvalidArgumentError, match=str(bit.name)):
            World().near.qp.modify_qp(IbvQpAttr(QpState.INIT), IbvQpAttrMask.STATE | bit)

    @pytest.mark.parametrize("bit", [1 << 6, 1 << 25])
    def test_unknown_bits(self, bit: int) -> None:
        qp = World().near.qp
        with pytest.raises(InvalidArgumentError, match=f"{bit:#x}"):
            qp.modify_qp(IbvQpAttr(QpState.INIT), IbvQpAttrMask(bit | 1))
        with pytest.raises(InvalidArgumentError, match=f"{bit:#x}"):
            qp.query_qp(IbvQpAttrMask(bit))

    @pytest.mark.parametrize(
        ("state", "ibv", "mrc", "name"),
        [
            (QpState.INIT, {"sq_psn": 1}, {}, "SQ_PSN"),
            (QpState.INIT, {"ah_attr": PEER}, {}, "AV"),
            (QpState.INIT, {}, {"timeout": 1}, "TIMEOUT"),
            (QpState.RTR, {"sq_psn": 1}, {}, "SQ_PSN"),
            (QpState.RTR, {"pkey_index": 0}, {}, "PKEY_INDEX"),
            (QpState.RTR, {}, {"ev_profile_id": 0}, "EV_PROFILE_ID"),
            (QpState.RTR, {}, {"linear_cnt": 1, "exp_cnt": 1}, "RETRY_CNT"),
            (QpState.RTS, {"rq_psn": 1}, {}, "RQ_PSN"),
            (QpState.RTS, {"path_mtu": 256}, {}, "PATH_MTU"),
            (QpState.RTS, {}, {"cap": QpCap(0)}, "CAP"),
            (QpState.RTS, {}, {"mpr_dest": 1}, "MPR_DEST"),
            (QpState.RESET, {"pkey_index": 0}, {}, "PKEY_INDEX"),
            (QpState.ERROR, {}, {"vendor_cfg": b""}, "VENDOR_CFG"),
        ],
    )
    def test_attributes_out_of_place(
        self, state: QpState, ibv: dict[str, Any], mrc: dict[str, Any], name: str
    ) -> None:
        before = {QpState.INIT: QpState.RESET, QpState.RTR: QpState.INIT, QpState.RTS: QpState.RTR}
        qp = at(before.get(state, QpState.INIT))
        old = qp.query_qp()
        with pytest.raises(InvalidArgumentError, match=rf"\.{name} cannot be set here"):
            qp.modify_qp(given(state, **ibv), mrc_attr=MrcQpAttr(**mrc))
        assert qp.query_qp() == old

    @pytest.mark.parametrize("name", ["ah_attr", "dest_qp_num", "rq_psn"])
    def test_what_rtr_needs(self, name: str) -> None:
        qp = at(QpState.INIT)
        with pytest.raises(InvalidArgumentError, match="must be given"):
            qp.modify_qp(replace(TO_RTR, **{name: None}))
        assert qp.state is QpState.INIT

    def test_in_the_mask_but_not_given(self) -> None:
        qp = World().near.qp
        with pytest.raises(InvalidArgumentError, match="qp_state: it is in the mask"):
            qp.modify_qp(IbvQpAttr(), IbvQpAttrMask.STATE)
        with pytest.raises(InvalidArgumentError, match="ev_profile_id: it is in the mask"):
            qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr_mask=QpAttrMask.EV_PROFILE_ID)
        qp = at(QpState.RTR)
        with pytest.raises(InvalidArgumentError, match="exp_cnt: it is in the mask"):
            qp.modify_qp(IbvQpAttr(QpState.RTS), mrc_attr=MrcQpAttr(linear_cnt=1))

    def test_given_but_not_in_the_mask(self) -> None:
        qp = World().near.qp
        qp.modify_qp(IbvQpAttr(QpState.INIT, sq_psn=5), IbvQpAttrMask.STATE)
        assert qp.state is QpState.INIT

    def test_a_query_answers_what_was_asked(self) -> None:
        qp = at(QpState.INIT)
        ibv, mrc, _ = qp.query_qp(IbvQpAttrMask.STATE, QpAttrMask.RETRY_CNT)
        assert ibv == IbvQpAttr(QpState.INIT)
        assert mrc == MrcQpAttr(linear_cnt=7, exp_cnt=13)


class TestValues:
    @pytest.mark.parametrize(
        ("state", "ibv", "mrc", "name"),
        [
            (QpState.INIT, {"pkey_index": 1}, {}, "pkey_index"),
            (QpState.INIT, {}, {"vendor_cfg": bytes(129)}, "vendor_cfg"),
            (QpState.INIT, {}, {"ev_profile_id": -1}, "ev_profile_id"),
            (QpState.INIT, {}, {"ev_profile_id": 4}, "EV profile 4 is not ONLINE"),
            (QpState.INIT, {}, {"cc_profile_id": 4}, "CC profile 4 is not ONLINE"),
            (QpState.INIT, {}, {"cc_profile_id": 1 << 64}, "cc_profile_id"),
            (QpState.RTR, {"path_mtu": 60}, {}, "path_mtu"),
            (QpState.RTR, {"path_mtu": 4100}, {}, "path_mtu"),
            (QpState.RTR, {"path_mtu": 66}, {}, "multiple of 4"),
            (QpState.RTR, {"dest_qp_num": 1 << 24}, {}, "dest_qp"),
            (QpState.RTR, {"rq_psn": -1}, {}, "rq_psn"),
            (QpState.RTR, {"rq_psn": "1"}, {}, "rq_psn: '1'"),
            (QpState.RTR, {"ah_attr": AhAttr(IPv6Address("::1"))}, {}, "none of the hosts"),
            (QpState.RTR, {}, {"mpr_dest": 0}, "mpr_dest"),
            (QpState.RTR, {}, {"mpr": 256}, "mpr"),
            (QpState.RTR, {}, {"max_wimm_dest": 0}, "max_wimm_dest"),
            (QpState.RTR, {}, {"max_wimm": 1 << 15}, "max_wimm"),
            (QpState.RTR, {}, {"cap": QpCap(8)}, "cap"),
            (QpState.RTS, {"sq_psn": 1 << 24}, {}, "sq_psn"),
            (QpState.RTS, {}, {"timeout": 25}, "timeout"),
            (QpState.RTS, {}, {"timeout": True}, "timeout: True"),
            (QpState.RTS, {}, {"linear_cnt": 8, "exp_cnt": 0}, "linear_retries"),
            (QpState.RTS, {}, {"linear_cnt": 7, "exp_cnt": 26}, "exponential_retries"),
        ],
    )
    def test_out_of_range(
        self, state: QpState, ibv: dict[str, Any], mrc: dict[str, Any], name: str
    ) -> None:
        before = {QpState.INIT: QpState.RESET, QpState.RTR: QpState.INIT, QpState.RTS: QpState.RTR}
        qp = at(before[state])
        old = qp.query_qp()
        with pytest.raises(InvalidArgumentError, match=name):
            qp.modify_qp(given(state, **ibv), mrc_attr=MrcQpAttr(**mrc))
        assert qp.query_qp() == old

    @pytest.mark.parametrize("access", [Access.NONE, Access.LOCAL_WRITE, Access(6)])
    def test_a_qp_takes_remote_writes(self, access: Access) -> None:
        with pytest.raises(NotSupportedError, match="qp_access_flags"):
            World().near.qp.modify_qp(IbvQpAttr(QpState.INIT, qp_access_flags=access))

    def test_trim_nacks_of_the_peer(self) -> None:
        qp = at(QpState.INIT)
        qp.modify_qp(TO_RTR, mrc_attr=MrcQpAttr(cap=QpCap.TRIM_NACK_DEST_UNSUPPORTED))
        assert qp.core.attributes.trim_nack_dest is False
        assert qp.query_qp()[1].cap is QpCap.TRIM_NACK_DEST_UNSUPPORTED

    def test_other_policies_know_their_own_profiles(self) -> None:
        qp = World(profiles=PlainProfiles).near.qp
        qp.modify_qp(IbvQpAttr(QpState.INIT), mrc_attr=MrcQpAttr(ev_profile_id=77))
        assert qp.query_qp()[1].ev_profile_id == 77


class TestCreation:
    @pytest.mark.parametrize(
        "cap",
        [
            QpCapacity(max_send_wr=0),
            QpCapacity(max_recv_wr=(1 << 20) + 1),
            QpCapacity(max_send_sge=2),
            QpCapacity(max_inline_data=1),
        ],
    )
    def test_capacities(self, cap: QpCapacity) -> None:
        near = World().near
        with pytest.raises(InvalidArgumentError, match="max_"):
            near.context.create_qp(QpInitAttr(near.pd, near.cq, cap=cap))
        assert len(near.device.nic.qps) == 1

    @pytest.mark.parametrize(
        "changes",
        [{"send_ops_flags": SendOpsFlags(4)}, {"protocol_version": ProtocolVersion(2)}],
    )
    def test_what_mrc_does_not_have(self, changes: dict[str, Any]) -> None:
        near = World().near
        with pytest.raises(NotSupportedError):
            near.context.create_qp(QpInitAttr(near.pd, near.cq, **changes))

    def test_closed_parts(self) -> None:
        near = World().near
        pd = near.context.alloc_pd()
        pd.close()
        with pytest.raises(ClosedError, match="protection domain"):
            near.context.create_qp(QpInitAttr(pd, near.cq))

    def test_the_users_own(self) -> None:
        near = World().near
        qp = near.context.create_qp(QpInitAttr(near.pd, near.cq, qp_context="mine"))
        assert qp.qp_context == "mine"
        assert qp.qp_num != near.qp.qp_num


class TestConnect:
    def test_limits_are_the_smaller_ones(self) -> None:
        world = World()
        told = replace(
            world.far.qp.info(), path_mtu=1024, mpr=2, max_wimm=5, trim_nack=False, dynamic_mpr=True
        )
        world.near.qp.connect(told, MrcQpAttr(timeout=6, linear_cnt=1, exp_cnt=2))
        ibv, mrc, _ = world.near.qp.query_qp()
        assert (ibv.qp_state, ibv.path_mtu, ibv.dest_qp_num) == (QpState.RTS, 1024, told.qp_num)
        assert (mrc.mpr, mrc.max_wimm, mrc.cap) == (2, 5, QpCap.TRIM_NACK_DEST_UNSUPPORTED)
        assert (mrc.timeout, mrc.linear_cnt, mrc.exp_cnt) == (6, 1, 2)

    def test_only_from_the_beginning(self) -> None:
        world = connected()
        with pytest.raises(InvalidArgumentError, match="RTS cannot go to INIT"):
            world.near.qp.connect(world.far.qp.info())

    def test_what_the_other_end_decides(self) -> None:
        world = World()
        with pytest.raises(InvalidArgumentError, match="MPR cannot be set"):
            world.near.qp.connect(world.far.qp.info(), MrcQpAttr(mpr=3))
        assert world.near.qp.state is QpState.RESET

    def test_nobody_there(self) -> None:
        world = World()
        told = replace(world.far.qp.info(), gid=IPv6Address("2001:db8::1"))
        with pytest.raises(MrcError, match="none of the hosts"):
            world.near.qp.connect(told)
