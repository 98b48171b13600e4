"""EVs of profiles and QPs: replacing, states, the denylist, events."""

from __future__ import annotations

import pytest

from host.paths import EvSet
from host.paths import EvState as PathsState
from host.verbs import (
    BusyError,
    ClosedError,
    InvalidArgumentError,
    NotFoundError,
    QpInitAttr,
)
from host.verbs.ctl import (
    Control,
    Ev,
    EvMode,
    EvOp,
    EvOpEntry,
    EvOpFlags,
    EvOpType,
    EvProfileAttr,
    EvProfileAttrMask,
    EvState,
    ProfileState,
)
from host.wire import Write, decode
from tests.host.verbs.test_ctl_profiles import (
    FMT,
    UNIVERSE,
    connect,
    explicit,
    generated,
    online_format,
)
from tests.host.verbs.world import World, mrc_qp

OFFLINE, ONLINE = ProfileState.OFFLINE, ProfileState.ONLINE
NONE = Ev(0, 0)
PROFILE = 1


@pytest.fixture
def world() -> World:
    world = World()
    online_format(world.near.context.ctl)
    return world


@pytest.fixture
def ctl(world: World) -> Control:
    return world.near.context.ctl


def replace_evs(ctl: Control, *entries: EvOpEntry) -> None:
    ctl.modify_ev_profile(PROFILE, EvProfileAttr(ev_op=EvOp(EvOpType.REPLACE_EV, entries)))


class TestReplacing:
    def make(self, ctl: Control, count: int = 3) -> None:
        ctl.modify_ev_profile(
            PROFILE,
            EvProfileAttr(OFFLINE, ev_mode=EvMode.EXP, ev_fmt_profile_id=FMT, ev_count=count),
        )

    def test_from_nothing(self, ctl: Control) -> None:
        self.make(ctl)
        assert ctl.query_ev_array(PROFILE) == (NONE,) * 3
        asked = ctl.query_ev_profile(
            PROFILE, EvProfileAttrMask.EV_OP, EvOp(EvOpType.QUERY_EV_ARRAY)
        )
        assert asked.ev_op is not None
        assert asked.ev_op.entries == (EvOpEntry(NONE, state=EvState.UNKNOWN),) * 3
        with pytest.raises(InvalidArgumentError, match="3 of its EVs are unpopulated"):
            ctl.modify_ev_profile(PROFILE, EvProfileAttr(ONLINE))
        replace_evs(ctl, *(EvOpEntry(NONE, ev) for ev in UNIVERSE[:3]))
        replace_evs(ctl, EvOpEntry(UNIVERSE[1], UNIVERSE[5], EvState.DENIED))
        assert ctl.query_ev_array(PROFILE) == (UNIVERSE[0], UNIVERSE[5], UNIVERSE[2])
        ctl.modify_ev_profile(PROFILE, EvProfileAttr(ONLINE))
        states = ctl.query_ev_state(PROFILE, [UNIVERSE[0], UNIVERSE[5]])
        assert states == (EvState.GOOD, EvState.DENIED)

    def test_an_ev_takes_its_own_place(self, ctl: Control) -> None:
        self.make(ctl, 1)
        replace_evs(ctl, EvOpEntry(NONE, UNIVERSE[0], EvState.DENIED))
        replace_evs(ctl, EvOpEntry(UNIVERSE[0], UNIVERSE[0]))
        assert ctl.query_ev_state(PROFILE, [UNIVERSE[0]]) == (EvState.GOOD,)

    def test_what_is_refused(self, ctl: Control) -> None:
        self.make(ctl)
        replace_evs(ctl, EvOpEntry(NONE, UNIVERSE[0]))
        first = UNIVERSE[0]
        for entry, words in (
            (EvOpEntry(NONE, NONE), "ev_new: it is missing"),
            (EvOpEntry(NONE, first), "there already"),
            (EvOpEntry(NONE, Ev(1 << 32, 1)), "val"),
            (EvOpEntry(NONE, Ev(first.val, 5)), "port"),
            (EvOpEntry(NONE, Ev(first.val, 2)), "leaves on port 1, not 2"),
            (EvOpEntry(NONE, Ev(2 << 3, 1)), "uplink: 2 does not fit"),
            (EvOpEntry(NONE, Ev(1 << 20, 1)), "names no path"),
            (EvOpEntry(NONE, UNIVERSE[1], EvState.ASSUMED_BAD), "state"),
            (EvOpEntry(NONE, UNIVERSE[1], flags=EvOpFlags.ALL_COPIES), "ALL_COPIES"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                replace_evs(ctl, entry)
        with pytest.raises(NotFoundError):
            replace_evs(ctl, EvOpEntry(UNIVERSE[3], UNIVERSE[4]))
        assert ctl.query_ev_array(PROFILE) == (first, NONE, NONE)

    def test_no_more_room(self, ctl: Control) -> None:
        self.make(ctl, 1)
        replace_evs(ctl, EvOpEntry(NONE, UNIVERSE[0]))
        with pytest.raises(NotFoundError, match="none of its EVs is unpopulated"):
            replace_evs(ctl, EvOpEntry(NONE, UNIVERSE[1]))

    def test_entries_before_the_one_that_fails_are_done(self, ctl: Control) -> None:
        self.make(ctl)
        with pytest.raises(InvalidArgumentError, match="there already"):
            replace_evs(
                ctl,
                EvOpEntry(NONE, UNIVERSE[0]),
                EvOpEntry(NONE, UNIVERSE[0]),
                EvOpEntry(NONE, UNIVERSE[1]),
            )
        assert ctl.query_ev_array(PROFILE) == (UNIVERSE[0], NONE, NONE)

    def test_only_explicit_ones_and_only_offline(self, ctl: Control) -> None:
        explicit(ctl, PROFILE, UNIVERSE[:2])
        with pytest.raises(InvalidArgumentError, match="OFFLINE"):
            replace_evs(ctl, EvOpEntry(UNIVERSE[0], UNIVERSE[3]))
        generated(ctl, 2)
        ctl.modify_ev_profile(2, EvProfileAttr(OFFLINE))
        with pytest.raises(InvalidArgumentError, match="explicit"):
            ctl.modify_ev_profile(
                2,
                EvProfileAttr(
                    ev_op=EvOp(EvOpType.REPLACE_EV, (EvOpEntry(UNIVERSE[0], UNIVERSE[1]),))
                ),
            )

    def test_a_hole_in_the_middle_is_found(self, ctl: Control) -> None:
        self.make(ctl, 2)
        replace_evs(ctl, *(EvOpEntry(NONE, ev) for ev in UNIVERSE[:2]))
        ctl.modify_ev_profile(PROFILE, EvProfileAttr(ev_count=3))
        assert ctl.query_ev_array(PROFILE) == (NONE,) * 3


class TestStates:
    def test_of_what_is_not_there(self, ctl: Control) -> None:
        generated(ctl, PROFILE)
        for ev in (Ev(1 << 20, 1), Ev(UNIVERSE[0].val, 2), NONE):
            with pytest.raises(NotFoundError, match="is not in it"):
                ctl.query_ev_state(PROFILE, [ev])
            with pytest.raises(NotFoundError):
                ctl.modify_ev_state(PROFILE, [ev], EvState.DENIED)

    def test_states_that_cannot_be_set(self, ctl: Control) -> None:
        generated(ctl, PROFILE)
        for state in (EvState.UNKNOWN, EvState(0), EvState.GOOD | EvState.DENIED):
            with pytest.raises(InvalidArgumentError, match="state"):
                ctl.modify_ev_state(PROFILE, UNIVERSE[:1], state)

    def test_operations_in_the_wrong_place(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="INIT and has no EVs"):
            ctl.query_ev_state(77, UNIVERSE[:1])
        generated(ctl, PROFILE)
        mask = EvProfileAttrMask.EV_OP
        with pytest.raises(InvalidArgumentError, match="is not a query"):
            ctl.query_ev_profile(
                PROFILE, mask, EvOp(EvOpType.MODIFY_EV_STATE, (EvOpEntry(UNIVERSE[0]),))
            )
        with pytest.raises(InvalidArgumentError, match="missing"):
            ctl.query_ev_profile(PROFILE, mask)
        with pytest.raises(InvalidArgumentError, match="QUERY_EV_ARRAY is for query_ev_profile"):
            ctl.modify_ev_profile(PROFILE, EvProfileAttr(ev_op=EvOp(EvOpType.QUERY_EV_ARRAY)))

    @pytest.mark.parametrize("number", [0, PROFILE])
    def test_the_denylist(self, world: World, ctl: Control, number: int) -> None:
        if number:
            generated(ctl, number)
        used: set[int] = set()

        def watch(nic: object, port: int, frame: bytes) -> None:
            packet = decode(frame)
            if isinstance(packet, Write):
                used.add(packet.envelope.ev)

        world.network.watch = watch
        # Of a QP that is not connected yet
        ctl.modify_ev_state(number, UNIVERSE[:1], EvState.DENIED)
        connect(world, ev_profile_id=number)
        # ... and of one that is
        kicks = world.near.driver.kicks
        ctl.modify_ev_state(number, UNIVERSE[1:2], EvState.DENIED)
        assert world.near.driver.kicks > kicks
        assert ctl.query_ev_state(number, UNIVERSE[:3]) == (
            EvState.DENIED,
            EvState.DENIED,
            EvState.GOOD,
        )
        _, mr = world.far.region(1 << 18)
        world.near.qp.post_write(1, bytes(1 << 18), mr.addr, mr.rkey)
        world.run(lambda: len(world.near.cq) > 0)
        assert used == {ev.val for ev in UNIVERSE[2:]}

        ctl.modify_ev_state(number, UNIVERSE[:2], EvState.GOOD)
        assert set(ctl.query_ev_state(number, UNIVERSE)) == {EvState.GOOD}
        world.near.qp.post_write(2, bytes(1 << 18), mr.addr, mr.rkey)
        world.run(lambda: len(world.near.cq) > 1)
        assert used == {ev.val for ev in UNIVERSE}

    def test_what_queue_pairs_hold(self, world: World, ctl: Control) -> None:
        generated(ctl, PROFILE)
        connect(world, ev_profile_id=PROFILE)
        qp = world.near.qp
        evs = mrc_qp(qp).evs
        assert isinstance(evs, EvSet)
        evs.on_sack(UNIVERSE[0].val, 1, 0)
        ctl.modify_ev_state(PROFILE, UNIVERSE[1:2], EvState.ASSUMED_BAD)
        assert ctl.query_ev_state(PROFILE, UNIVERSE[:3]) == (
            EvState.GOOD,
            EvState.ASSUMED_BAD,
            EvState.GOOD,
        )
        states = ctl.query_qp_ev_states(qp)
        assert len(states) == len(UNIVERSE)
        assert states[UNIVERSE[0].val] is PathsState.SKIP
        assert states[UNIVERSE[1].val] is PathsState.ASSUMED_BAD
        # Probes find that there is nothing wrong with it
        world.run(for_ns=10**8)
        assert set(ctl.query_ev_state(PROFILE, UNIVERSE)) == {EvState.GOOD}

    def test_states_of_queue_pairs_that_have_none(self, world: World, ctl: Control) -> None:
        assert ctl.query_qp_ev_states(world.near.qp) == {}
        with pytest.raises(InvalidArgumentError, match="another device"):
            ctl.query_qp_ev_states(world.far.qp)
        world.near.qp.close()
        with pytest.raises(ClosedError):
            ctl.query_qp_ev_states(world.near.qp)

    def test_other_profiles_do_not_mind(self, world: World, ctl: Control) -> None:
        generated(ctl, PROFILE)
        generated(ctl, 2)
        connect(world, ev_profile_id=2)
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.DENIED)
        assert ctl.query_ev_state(2, UNIVERSE[:1]) == (EvState.GOOD,)
        assert set(ctl.query_qp_ev_states(world.near.qp).values()) == {PathsState.GOOD}


class TestEvents:
    def make(self, world: World, mask: EvState) -> None:
        generated(world.near.context.ctl, PROFILE, ev_event_mask=mask)
        connect(world, ev_profile_id=PROFILE)

    def test_what_happens_to_an_ev(self, world: World, ctl: Control) -> None:
        self.make(world, EvState.GOOD | EvState.ASSUMED_BAD)
        cq = ctl.create_ev_event_cq(16)
        world.run(for_ns=10**6)
        began_ns = world.network.now_ns
        ctl.modify_ev_state(PROFILE, UNIVERSE[3:4], EvState.ASSUMED_BAD)
        (bad,) = cq.poll_ev_event()
        assert (bad.profile_id, bad.ev, bad.state) == (
            PROFILE,
            UNIVERSE[3],
            EvState.ASSUMED_BAD,
        )
        assert (bad.drop_count, bad.qp_num, bad.now_ns) == (0, world.near.qp.qp_num, began_ns)
        assert bad.cause == "administrative"
        world.run(for_ns=10**8)
        (good,) = cq.poll_ev_event(10)
        assert (good.ev, good.state, good.cause) == (
            UNIVERSE[3],
            EvState.GOOD,
            "probes answered",
        )
        assert good.now_ns > began_ns

    @pytest.mark.parametrize("mask", [EvState(0), EvState.GOOD])
    def test_the_mask(self, world: World, ctl: Control, mask: EvState) -> None:
        self.make(world, mask)
        cq = ctl.create_ev_event_cq(16)
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.ASSUMED_BAD)
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.DENIED)
        assert cq.poll_ev_event() == []
        ctl.modify_ev_profile(
            PROFILE, EvProfileAttr(ev_event_mask=EvState.GOOD | EvState.ASSUMED_BAD)
        )
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.GOOD)
        assert [event.state for event in cq.poll_ev_event()] == [EvState.GOOD]

    def test_what_does_not_fit_is_counted(self, world: World, ctl: Control) -> None:
        self.make(world, EvState.ASSUMED_BAD)
        cq = ctl.create_ev_event_cq(1)
        for ev in UNIVERSE[:3]:
            ctl.modify_ev_state(PROFILE, [ev], EvState.ASSUMED_BAD)
        assert [event.ev for event in cq.poll_ev_event()] == UNIVERSE[:1]
        ctl.modify_ev_state(PROFILE, UNIVERSE[4:5], EvState.ASSUMED_BAD)
        (event,) = cq.poll_ev_event()
        assert (event.ev, event.drop_count) == (UNIVERSE[4], 2)
        ctl.modify_ev_state(PROFILE, UNIVERSE[5:6], EvState.ASSUMED_BAD)
        assert [event.drop_count for event in cq.poll_ev_event()] == [0]

    def test_all_watchers_get_them(self, world: World, ctl: Control) -> None:
        self.make(world, EvState.ASSUMED_BAD)
        queues = [ctl.create_ev_event_cq(4), ctl.create_ev_event_cq(4)]
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.ASSUMED_BAD)
        assert [len(cq.poll_ev_event()) for cq in queues] == [1, 1]
        queues[0].close()
        ctl.modify_ev_state(PROFILE, UNIVERSE[1:2], EvState.ASSUMED_BAD)
        assert len(queues[1].poll_ev_event()) == 1
        with pytest.raises(ClosedError, match="EV event CQ"):
            queues[0].poll_ev_event()

    def test_through_a_channel(self, world: World, ctl: Control) -> None:
        self.make(world, EvState.ASSUMED_BAD)
        channel = world.near.context.create_comp_channel()
        cq = ctl.create_ev_event_cq(4, "mine", channel)
        assert cq.cq_context == "mine"
        cq.req_notify_cq()
        for ev in UNIVERSE[:2]:
            ctl.modify_ev_state(PROFILE, [ev], EvState.ASSUMED_BAD)
        assert channel.get_cq_event() is cq
        assert channel.get_cq_event() is None
        with pytest.raises(BusyError):
            cq.close()
        cq.ack_cq_events()
        assert len(cq) == 2
        cq.close()
        channel.close()

    def test_misuse(self, ctl: Control) -> None:
        with pytest.raises(InvalidArgumentError, match="cqe"):
            ctl.create_ev_event_cq(0)
        with pytest.raises(InvalidArgumentError, match="num_entries"):
            ctl.create_ev_event_cq(1).poll_ev_event(-1)

    def test_events_of_a_queue_pair_that_is_gone(self, world: World, ctl: Control) -> None:
        self.make(world, EvState.ASSUMED_BAD)
        cq = ctl.create_ev_event_cq(4)
        near = world.near
        ctl.modify_ev_state(PROFILE, UNIVERSE[:1], EvState.ASSUMED_BAD)
        near.qp.close()
        assert cq.poll_ev_event() == []
        near.context.create_qp(QpInitAttr(near.pd, near.cq))
