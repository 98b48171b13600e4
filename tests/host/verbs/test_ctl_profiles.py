"""Profiles of all kinds: their states, their attributes, who may have them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from host.config import ForwardingMode
from host.congestion.nscc import ALGORITHM, Nscc, NsccConfig
from host.paths import EvProfile, EvSet
from host.profiles import CcProfile, MrcProfiles, PlainProfiles
from host.verbs import (
    BusyError,
    ClosedError,
    IbvQpAttr,
    InvalidArgumentError,
    MrcQpAttr,
    NoMemoryError,
    NotSupportedError,
    QpState,
    TooBigError,
)
from host.verbs.ctl import (
    CcProfileAttr,
    CcProfileAttrMask,
    Control,
    CtlOptCap,
    Ev,
    EvField,
    EvFmtField,
    EvFmtMode,
    EvFmtProfileAttr,
    EvFmtProfileAttrMask,
    EvMode,
    EvOp,
    EvOpEntry,
    EvOpType,
    EvProfileAttr,
    EvProfileAttrMask,
    EvState,
    ProfileState,
)
from host.verbs.ctl.profile import PROFILE_TRANSITIONS
from tests.host.network import FABRIC
from tests.host.verbs.world import World, mrc_qp
from topologies.addressing import encode_ev, ev_universe

INIT, OFFLINE, ONLINE = ProfileState
FMT = 13
UNIVERSE = [Ev(ev, ev % 8 + 1) for ev in ev_universe(FABRIC.planes, FABRIC.t1_per_plane)]


def online_format(ctl: Control, number: int = FMT) -> None:
    ctl.modify_ev_fmt_profile(
        number,
        EvFmtProfileAttr(
            OFFLINE,
            ev_fmt_mode=ctl.query_device().ev_fmt_mode_mask,
            fmt_fields=ctl.plan_format(),
        ),
    )
    ctl.modify_ev_fmt_profile(number, EvFmtProfileAttr(ONLINE))


def generated(ctl: Control, number: int, **attributes: Any) -> None:
    values: dict[str, Any] = {
        "ev_mode": EvMode.GEN,
        "ev_fmt_profile_id": FMT,
        "ev_count": len(UNIVERSE),
        "fields": ctl.plan_fields(),
        **attributes,
    }
    ctl.modify_ev_profile(number, EvProfileAttr(OFFLINE, **values))
    ctl.modify_ev_profile(number, EvProfileAttr(ONLINE))


def explicit(ctl: Control, number: int, evs: list[Ev], **attributes: Any) -> None:
    ctl.modify_ev_profile(
        number,
        EvProfileAttr(
            OFFLINE,
            ev_mode=EvMode.EXP,
            ev_fmt_profile_id=FMT,
            ev_count=len(evs),
            **attributes,
        ),
    )
    entries = tuple(EvOpEntry(Ev(0, 0), ev) for ev in evs)
    ctl.modify_ev_profile(number, EvProfileAttr(ev_op=EvOp(EvOpType.REPLACE_EV, entries)))
    ctl.modify_ev_profile(number, EvProfileAttr(ONLINE))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def ctl(world: World) -> Control:
    return world.near.context.ctl


def connect(world: World, **attributes: Any) -> None:
    told = world.near.qp.info()
    world.near.qp.connect(world.far.qp.info(), MrcQpAttr(**attributes))
    world.far.qp.connect(told)


class TestDevice:
    def test_query(self, ctl: Control) -> None:
        attr = ctl.query_device()
        assert attr.ev_fmt_mode_mask is EvFmtMode.SRV6
        assert attr.ev_mode_mask == EvMode.AUTO | EvMode.EXP | EvMode.GEN
        assert attr.phy_port_mask == 0b11110
        assert attr.opt_attr == (
            CtlOptCap.EV_EVENT | CtlOptCap.EV_EVENT_PRECISE_DROP_CNT | CtlOptCap.EP_OP_EV_PROBE
        )
        assert ALGORITHM in attr.algorithms
        assert (attr.ev_max_width, attr.ev_count_align) == (32, 1)

    @pytest.mark.parametrize(
        ("forwarding", "mode"),
        [(ForwardingMode.STEV, EvFmtMode.STEV), (ForwardingMode.ECMP, EvFmtMode.STEV)],
    )
    def test_modes(self, forwarding: ForwardingMode, mode: EvFmtMode) -> None:
        ctl = World(forwarding=forwarding).near.context.ctl
        assert ctl.query_device().ev_fmt_mode_mask is mode

    def test_evs_are_counted(self, ctl: Control) -> None:
        free = ctl.query_device().ev_free_count
        online_format(ctl)
        generated(ctl, 1)
        assert ctl.query_device().ev_free_count == free - len(UNIVERSE)

    def test_query_version(self, ctl: Control) -> None:
        assert ctl.query_version().current >= ctl.query_version().last_supported

    def test_other_policies(self) -> None:
        ctl = World(profiles=PlainProfiles).near.context.ctl
        with pytest.raises(NotSupportedError, match="PlainProfiles"):
            ctl.query_ev_profile(0)

    def test_in_a_closed_context(self, world: World, ctl: Control) -> None:
        world.near.context.close()
        for call in (
            ctl.query_device,
            lambda: ctl.query_ev_profile(0),
            lambda: ctl.modify_cc_profile(1, CcProfileAttr()),
            lambda: ctl.query_port(1),
            lambda: ctl.create_ev_event_cq(1),
        ):
            with pytest.raises(ClosedError):
                call()


class TestStates:
    """The states are those of all kinds; CC profiles need the least to pass through them."""

    def at(self, ctl: Control, state: ProfileState) -> None:
        if state is not INIT:
            ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))
        if state is ONLINE:
            ctl.modify_cc_profile(1, CcProfileAttr(ONLINE))

    @pytest.mark.parametrize("old", ProfileState)
    @pytest.mark.parametrize("new", ProfileState)
    def test_every_pair(self, ctl: Control, old: ProfileState, new: ProfileState) -> None:
        self.at(ctl, old)
        algorithm = ALGORITHM if old is INIT else None
        change = CcProfileAttr(new, algorithm=algorithm)
        if new in PROFILE_TRANSITIONS[old]:
            ctl.modify_cc_profile(1, change)
            assert ctl.query_cc_profile(1).profile_state is new
        else:
            with pytest.raises(InvalidArgumentError, match=f"cannot go to {new.value}"):
                ctl.modify_cc_profile(1, change)
            assert ctl.query_cc_profile(1).profile_state is old

    def test_the_present_state_can_be_asserted(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="cur_profile_state"):
            ctl.modify_cc_profile(
                1, CcProfileAttr(OFFLINE, cur_profile_state=ONLINE, algorithm=None)
            )
        ctl.modify_cc_profile(
            1, CcProfileAttr(OFFLINE, cur_profile_state=INIT, algorithm=ALGORITHM)
        )

    def test_masks(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="profile_state: it is in the mask"):
            ctl.modify_cc_profile(1, CcProfileAttr(), CcProfileAttrMask.STATE)
        with pytest.raises(InvalidArgumentError, match="0x10000"):
            ctl.modify_cc_profile(1, CcProfileAttr(), CcProfileAttrMask(0x10000))
        with pytest.raises(InvalidArgumentError, match="CONFIG cannot be set while INIT"):
            ctl.modify_cc_profile(1, CcProfileAttr(cc_config={}))
        with pytest.raises(InvalidArgumentError, match=r"needs CcProfileAttrMask\.ALGORITHM"):
            ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE))
        with pytest.raises(InvalidArgumentError, match="vendor_cfg"):
            ctl.modify_cc_profile(
                1, CcProfileAttr(OFFLINE, algorithm=ALGORITHM, vendor_cfg=bytes(129))
            )
        ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm=ALGORITHM, vendor_cfg=b"v"))
        asked = ctl.query_cc_profile(1, CcProfileAttrMask.VENDOR_CFG)
        assert asked == CcProfileAttr(vendor_cfg=b"v")

    @pytest.mark.parametrize("number", [-1, 1 << 64])
    def test_numbers(self, ctl: Control, number: int) -> None:
        for query in (ctl.query_cc_profile, ctl.query_ev_profile, ctl.query_ev_fmt_profile):
            with pytest.raises(InvalidArgumentError, match="profile_id"):
                query(number)

    def test_as_many_as_there_may_be(self, ctl: Control, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("host.verbs.ctl.table.MAX_CC_PROFILES", 2)
        ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))
        with pytest.raises(NoMemoryError, match="2 CC profiles"):
            ctl.modify_cc_profile(2, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))
        ctl.modify_cc_profile(1, CcProfileAttr(INIT))
        ctl.modify_cc_profile(2, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))


class TestCcProfiles:
    def test_nscc_with_its_knobs(self, world: World, ctl: Control) -> None:
        ctl.modify_cc_profile(7, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))
        ctl.modify_cc_profile(
            7, CcProfileAttr(ONLINE, cc_config=NsccConfig(max_cwnd=50_000, qa_gate=2, eta=100.0))
        )
        knobs = {"max_cwnd": 50_000, "qa_gate": 2, "eta": 100.0}
        assert ctl.query_cc_profile(7).cc_config == knobs
        connect(world, cc_profile_id=7)
        requestor = world.near.qp.core.requestor
        assert requestor is not None
        controller = requestor.window.controller
        assert isinstance(controller, Nscc)
        assert controller.constants.max_cwnd_bytes == 50_000
        assert world.near.qp.query_qp()[1].cc_profile_id == 7

    def test_another_algorithm_and_none(self, world: World, ctl: Control) -> None:
        ctl.modify_cc_profile(
            1, CcProfileAttr(OFFLINE, algorithm="fixed-window", cc_config={"cwnd_bytes": 9000})
        )
        ctl.modify_cc_profile(1, CcProfileAttr(ONLINE))
        mask = CcProfileAttrMask.STATE | CcProfileAttrMask.ALGORITHM
        ctl.modify_cc_profile(2, CcProfileAttr(OFFLINE), mask)
        ctl.modify_cc_profile(2, CcProfileAttr(ONLINE))
        assert ctl.query_cc_profile(2).algorithm is None
        connect(world, cc_profile_id=1)
        requestor = world.near.qp.core.requestor
        assert requestor is not None and requestor.window.controller.cwnd_bytes == 9000

    @pytest.mark.parametrize(
        ("algorithm", "config", "words"),
        [
            ("reno", {}, "reno"),
            (ALGORITHM, {"speed": 1}, "speed"),
            (ALGORITHM, {"gamma": 2}, "gamma"),
            ("fixed-window", {"cwnd_bytes": 0}, "cwnd_bytes"),
        ],
    )
    def test_what_is_refused(
        self, ctl: Control, algorithm: str, config: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=words):
            ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm=algorithm, cc_config=config))
        assert ctl.query_cc_profile(1).profile_state is INIT

    def test_knobs_without_an_algorithm(self, ctl: Control) -> None:
        mask = CcProfileAttrMask.STATE | CcProfileAttrMask.ALGORITHM | CcProfileAttrMask.CONFIG
        with pytest.raises(InvalidArgumentError, match="no algorithm"):
            ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, cc_config={"eta": 1}), mask)

    def test_online_it_stays_as_it_is(self, world: World, ctl: Control) -> None:
        ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm=ALGORITHM))
        ctl.modify_cc_profile(1, CcProfileAttr(ONLINE))
        with pytest.raises(InvalidArgumentError, match="CONFIG cannot be set while ONLINE"):
            ctl.modify_cc_profile(1, CcProfileAttr(cc_config={}))
        connect(world, cc_profile_id=1)
        with pytest.raises(BusyError, match="1 QP") as caught:
            ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE))
        assert caught.value.errno == errno.EBUSY

    def test_after_a_change_a_connection_begins_with_a_new_window(
        self, world: World, ctl: Control
    ) -> None:
        def set_to(cwnd_bytes: int) -> None:
            config = {"cwnd_bytes": cwnd_bytes}
            ctl.modify_cc_profile(1, CcProfileAttr(ONLINE, cc_config=config))

        ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE, algorithm="fixed-window"))
        set_to(5000)
        connect(world, cc_profile_id=1)
        # Another QP keeps the peer
        near = world.near
        other = near.context.create_qp(near.qp.init_attr)
        other.connect(world.far.qp.info())
        near.qp.modify_qp(IbvQpAttr(QpState.RESET))
        ctl.modify_cc_profile(1, CcProfileAttr(OFFLINE))
        set_to(6000)
        near.qp.connect(world.far.qp.info(), MrcQpAttr(cc_profile_id=1))
        requestor = near.qp.core.requestor
        assert requestor is not None and requestor.window.controller.cwnd_bytes == 6000

    def test_the_default(self, ctl: Control) -> None:
        assert ctl.query_cc_profile(0).profile_state is ONLINE
        with pytest.raises(InvalidArgumentError, match="default"):
            ctl.modify_cc_profile(0, CcProfileAttr(OFFLINE))


class TestFormats:
    def test_life(self, ctl: Control) -> None:
        online_format(ctl)
        attr = ctl.query_ev_fmt_profile(FMT)
        assert attr.profile_state is ONLINE and attr.ev_fmt_mode is EvFmtMode.SRV6
        assert attr.fmt_fields == (EvFmtField(18), EvFmtField(11), EvFmtField(3))
        asked = ctl.query_ev_fmt_profile(FMT, EvFmtProfileAttrMask.MODE)
        assert asked == EvFmtProfileAttr(ev_fmt_mode=EvFmtMode.SRV6)
        ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE))
        ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(fmt_fields=(EvFmtField(32),)))
        ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(INIT))
        assert ctl.query_ev_fmt_profile(FMT).fmt_fields == ()

    def test_what_is_refused(self, ctl: Control) -> None:
        with pytest.raises(NotSupportedError, match="ev_fmt_mode"):
            ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE, ev_fmt_mode=EvFmtMode.UDP))
        with pytest.raises(InvalidArgumentError, match="MODE"):
            ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE))
        ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE, ev_fmt_mode=EvFmtMode.SRV6))
        with pytest.raises(InvalidArgumentError, match="needs fmt_fields"):
            ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(ONLINE))
        for fields, error in (
            ((EvFmtField(0),), InvalidArgumentError),
            ((EvFmtField(33),), InvalidArgumentError),
            ((EvFmtField(30), EvFmtField(3)), TooBigError),
        ):
            with pytest.raises(error):
                ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(fmt_fields=fields))
        assert ctl.query_ev_fmt_profile(FMT).fmt_fields == ()

    def test_in_use(self, ctl: Control) -> None:
        online_format(ctl)
        generated(ctl, 1)
        with pytest.raises(BusyError, match="1 EV profile"):
            ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE))
        with pytest.raises(InvalidArgumentError, match="cannot be set while ONLINE"):
            ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(fmt_fields=(EvFmtField(32),)))
        ctl.modify_ev_profile(1, EvProfileAttr(OFFLINE))
        ctl.modify_ev_fmt_profile(FMT, EvFmtProfileAttr(OFFLINE))
        with pytest.raises(InvalidArgumentError, match="EV format profile 13 is not ONLINE"):
            ctl.modify_ev_profile(1, EvProfileAttr(ONLINE))


class TestEvProfiles:
    def test_generated(self, world: World, ctl: Control) -> None:
        online_format(ctl)
        generated(ctl, 5, ev_min_active=3, ev_event_mask=EvState.GOOD)
        attr = ctl.query_ev_profile(5)
        assert attr.profile_state is ONLINE and attr.ev_mode is EvMode.GEN
        assert (attr.ev_fmt_profile_id, attr.ev_count, attr.ev_min_active) == (FMT, 8, 3)
        assert attr.ev_event_mask is EvState.GOOD
        assert attr.fields == ctl.plan_fields()
        assert sorted(ctl.query_ev_array(5)) == sorted(UNIVERSE)
        connect(world, ev_profile_id=5)
        evs = mrc_qp(world.near.qp).evs
        assert isinstance(evs, EvSet)
        assert sorted(evs.universe.evs) == sorted(ev.val for ev in UNIVERSE)

    def test_towards_a_host_with_fewer_paths(self) -> None:
        world = World(hosts=("h0", "h1"))
        ctl = world.near.context.ctl
        online_format(ctl)
        generated(ctl, 5, ev_min_active=7)
        connect(world, ev_profile_id=5)
        evs = mrc_qp(world.near.qp).evs
        assert isinstance(evs, EvSet)
        assert len(evs.universe) == FABRIC.planes
        # All four must remain
        ctl.modify_ev_state(5, UNIVERSE[:1], EvState.ASSUMED_BAD)
        assert len(evs.active()) == FABRIC.planes

    def test_a_part_of_the_paths(self, ctl: Control) -> None:
        online_format(ctl)
        spare, uplink, plane = ctl.plan_fields()
        one_plane = EvField(plane.width, init_val=2)
        generated(ctl, 1, fields=(spare, uplink, one_plane), ev_count=100)
        assert [ev.val for ev in ctl.query_ev_array(1)] == [encode_ev(2, 0), encode_ev(2, 1)]
        assert ctl.query_ev_profile(1).ev_count == 2

    def test_narrow_fields_are_filled_up_with_zeros(self, ctl: Control) -> None:
        online_format(ctl)
        fields = (EvField(1), EvField(2, max_val=1, mask=1), EvField(3, init_val=1))
        generated(ctl, 1, fields=fields)
        assert [ev.val for ev in ctl.query_ev_array(1)] == [encode_ev(1, 0), encode_ev(1, 1)]
        generated(ctl, 2, fields=(EvField(1),), ev_count=1)
        assert ctl.query_ev_array(2) == (Ev(0, 1),)

    def test_explicit(self, world: World, ctl: Control) -> None:
        online_format(ctl)
        explicit(ctl, 9, UNIVERSE[2:6])
        assert ctl.query_ev_array(9) == tuple(UNIVERSE[2:6])
        connect(world, ev_profile_id=9)
        evs = mrc_qp(world.near.qp).evs
        assert isinstance(evs, EvSet)
        assert sorted(evs.universe.evs) == sorted(ev.val for ev in UNIVERSE[2:6])

    def test_auto(self, world: World, ctl: Control) -> None:
        ctl.modify_ev_profile(3, EvProfileAttr(OFFLINE, ev_mode=EvMode.AUTO))
        ctl.modify_ev_profile(3, EvProfileAttr(ONLINE))
        assert sorted(ctl.query_ev_array(3)) == sorted(UNIVERSE)
        connect(world, ev_profile_id=3)

    def test_online_in_one_call_with_its_evs(self, ctl: Control) -> None:
        online_format(ctl)
        ctl.modify_ev_profile(
            1,
            EvProfileAttr(OFFLINE, ev_mode=EvMode.EXP, ev_fmt_profile_id=FMT, ev_count=1),
        )
        entry = EvOpEntry(Ev(0, 0), UNIVERSE[0])
        ctl.modify_ev_profile(1, EvProfileAttr(ONLINE, ev_op=EvOp(EvOpType.REPLACE_EV, (entry,))))
        assert ctl.query_ev_array(1) == (UNIVERSE[0],)

    def test_what_modes_need(self, ctl: Control) -> None:
        online_format(ctl)

        def make(**attributes: Any) -> None:
            ctl.modify_ev_profile(1, EvProfileAttr(OFFLINE, **attributes))

        plan = ctl.plan_fields()
        for attributes, words in (
            ({}, "needs EvProfileAttrMask.MODE"),
            ({"ev_mode": EvMode(3)}, "ev_mode"),
            ({"ev_mode": EvMode.GEN}, "ev_fmt_profile_id"),
            ({"ev_mode": EvMode.GEN, "ev_fmt_profile_id": 99}, "profile 99 is INIT"),
            ({"ev_mode": EvMode.GEN, "ev_fmt_profile_id": FMT}, "ev_count"),
            ({"ev_mode": EvMode.GEN, "ev_fmt_profile_id": FMT, "ev_count": 8}, "fields"),
            ({"ev_mode": EvMode.EXP, "ev_fmt_profile_id": FMT, "ev_count": 0}, "ev_count"),
            ({"ev_mode": EvMode.AUTO, "ev_count": 4}, "ev_count"),
            ({"ev_mode": EvMode.AUTO, "ev_event_mask": EvState.DENIED}, "ev_event_mask"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                make(**attributes)
        listed = {"ev_fmt_profile_id": FMT, "ev_count": 8}
        with pytest.raises(NotSupportedError, match="fields"):
            make(ev_mode=EvMode.EXP, fields=plan, **listed)
        with pytest.raises(TooBigError, match="4 do not fit"):
            make(ev_mode=EvMode.GEN, fields=(*plan, EvField(1)), **listed)
        with pytest.raises(InvalidArgumentError, match=r"fields\[1\]: width 12"):
            make(ev_mode=EvMode.GEN, fields=(plan[0], EvField(12)), **listed)
        with pytest.raises(TooBigError, match="ev_count"):
            make(ev_mode=EvMode.EXP, ev_fmt_profile_id=FMT, ev_count=(1 << 16) + 1)
        with pytest.raises(InvalidArgumentError, match="ev_min_active"):
            make(ev_mode=EvMode.GEN, fields=plan, ev_min_active=9, **listed)
        assert ctl.query_ev_profile(1).profile_state is INIT
        assert ctl.query_ev_array(1) == ()

    def test_when_the_device_is_full(self, ctl: Control, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("host.verbs.ctl.table.MAX_EVS", 10)
        online_format(ctl)
        generated(ctl, 1)
        with pytest.raises(TooBigError, match="2 EVs left"):
            generated(ctl, 2)
        assert ctl.query_device().ev_free_count == 2

    def test_evs_that_lead_nowhere(self, ctl: Control) -> None:
        online_format(ctl)
        spare, uplink, plane = ctl.plan_fields()
        for fields in (
            (EvField(spare.width, init_val=1), uplink, plane),
            (spare, uplink, EvField(3, init_val=7)),
        ):
            with pytest.raises(InvalidArgumentError):
                generated(ctl, 1, fields=fields, ev_count=2)
            ctl.modify_ev_profile(1, EvProfileAttr(INIT))

    def test_both_operations_at_once(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="exclude one another"):
            ctl.modify_ev_profile(
                1,
                EvProfileAttr(
                    OFFLINE,
                    ev_mode=EvMode.AUTO,
                    fields=(),
                    ev_op=EvOp(EvOpType.QUERY_EV_ARRAY),
                ),
            )
        with pytest.raises(InvalidArgumentError, match="exclude one another"):
            ctl.query_ev_profile(
                0,
                EvProfileAttrMask.EV_OP | EvProfileAttrMask.EV_FIELDS_OP,
                EvOp(EvOpType.QUERY_EV_ARRAY),
            )

    def test_in_use(self, world: World, ctl: Control) -> None:
        online_format(ctl)
        generated(ctl, 1)
        connect(world, ev_profile_id=1)
        with pytest.raises(BusyError, match="1 QP"):
            ctl.modify_ev_profile(1, EvProfileAttr(OFFLINE))
        world.near.qp.modify_qp(IbvQpAttr(QpState.RESET))
        ctl.modify_ev_profile(1, EvProfileAttr(OFFLINE))
        with pytest.raises(InvalidArgumentError, match="EV profile 1 is not ONLINE"):
            world.near.qp.connect(world.far.qp.info(), MrcQpAttr(ev_profile_id=1))
        ctl.modify_ev_profile(1, EvProfileAttr(INIT))
        assert ctl.query_ev_array(1) == ()

    def test_online_most_things_stay(self, ctl: Control) -> None:
        online_format(ctl)
        generated(ctl, 1)
        for attr in (
            EvProfileAttr(ev_min_active=1),
            EvProfileAttr(ev_count=4),
            EvProfileAttr(fields=ctl.plan_fields()),
        ):
            with pytest.raises(InvalidArgumentError, match="cannot be set while ONLINE"):
                ctl.modify_ev_profile(1, attr)
        ctl.modify_ev_profile(1, EvProfileAttr(ev_event_mask=EvState.ASSUMED_BAD))
        assert ctl.query_ev_profile(1).ev_event_mask is EvState.ASSUMED_BAD

    def test_those_of_the_nic(self) -> None:
        def profiles() -> MrcProfiles:
            return MrcProfiles(
                ev_profiles={4: EvProfile(ev_min_active=2, denied=frozenset({0}))},
                cc_profiles={6: CcProfile("fixed-window", {"cwnd_bytes": 5000})},
            )

        ctl = World(profiles=profiles).near.context.ctl
        attr = ctl.query_ev_profile(4)
        assert (attr.profile_state, attr.ev_mode, attr.ev_min_active) == (ONLINE, EvMode.AUTO, 2)
        assert ctl.query_ev_state(4, [Ev(0, 1)]) == (EvState.DENIED,)
        assert ctl.query_cc_profile(6).algorithm == "fixed-window"
        assert ctl.query_ev_profile(0).ev_mode is EvMode.AUTO
        with pytest.raises(InvalidArgumentError, match="default"):
            ctl.modify_ev_profile(0, EvProfileAttr(OFFLINE))

    @pytest.mark.parametrize("forwarding", [ForwardingMode.STEV, ForwardingMode.ECMP])
    def test_without_srv6(self, forwarding: ForwardingMode) -> None:
        world = World(forwarding=forwarding)
        ctl = world.near.context.ctl
        online_format(ctl)
        evs = UNIVERSE[:4]
        if forwarding is ForwardingMode.ECMP:
            # The fabric hashes: any number leaves on any port
            evs = [Ev(0xDEAD_BEEF, 1), Ev(0x1234_5678, 4)]
        explicit(ctl, 1, evs)
        connect(world, ev_profile_id=1)
        memory, mr = world.far.region(10_000)
        world.near.qp.post_write(1, b"x" * 10_000, mr.addr, mr.rkey)
        world.run(lambda: len(world.near.cq) > 0)
        assert memory == b"x" * 10_000
