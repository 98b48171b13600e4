"""EV sets, reverse EVs, NSCC and fan-in in NICs, on an adversarial network."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from host.config import EXPONENTIAL_RETRIES_FOR_EVER, ForwardingMode, QpDefaults
from host.congestion.nscc import Nscc
from host.nic import Nic, QpEvEvent
from host.paths import EvEvent, EvMode, EvProfile, EvSet, EvState, ReverseEvSet
from host.profiles import CcProfile, MrcProfiles
from host.qp.states import QpState
from host.qp.work import WriteRequest
from host.wire import Sack, Write, decode
from host.wire.packet import EndpointRequest, Probe
from tests.host.network import FABRIC, Faults, Network, config, pair
from tests.host.test_model_based import GUARD_BYTES, MTU, World, requestor_of
from topologies.addressing import encode_ev

#: There and back through the test network, which delays frames by 1 µs
RTT_NS = 2_000
TIMEOUT_NS = 1024 << 3
FOR_EVER = QpDefaults(timeout=3, exponential_retries=EXPONENTIAL_RETRIES_FOR_EVER)


def world(
    messages: list[int],
    *,
    profiles: MrcProfiles | None = None,
    qps: int = 1,
    both_ways: bool = False,
    **changes: Any,
) -> tuple[Network, World]:
    """Two NICs with queue pairs between them, and messages to be written."""
    changes = {"rate_bps": 10**10, "path_mtu_bytes": MTU, "qp": FOR_EVER, **changes}
    profiles = MrcProfiles(base_rtt_ns=RTT_NS) if profiles is None else profiles
    network = pair(profiles=profiles, **changes)
    room = sum(messages) + GUARD_BYTES * (len(messages) + 1)
    made = World(network, qps, room, (7, 9))
    for number, length in enumerate(messages):
        forward = not both_ways or number % 2 == 0
        made.flows[number % qps, forward].post(length, imm=number % 3 == 0)
    return network, made


def finished(made: World) -> bool:
    return all(len(flow.sent) == len(flow.posted) for flow in made.flows.values())


def check_written(made: World) -> None:
    for flow in made.flows.values():
        assert flow.sender.state is QpState.RTS
        assert flow.memory == flow.expected()
        assert [completion.wr_id for completion in flow.sent] == list(range(len(flow.posted)))


def ev_set(made: World, *, forward: bool = True, qp: int = 0) -> EvSet:
    evs = requestor_of(made.flows[qp, forward]).evs
    assert isinstance(evs, EvSet)
    return evs


def events_of(nic: Nic) -> list[EvEvent]:
    found = []
    while (happened := nic.next_event()) is not None:
        if isinstance(happened, QpEvEvent):
            found.append(happened.event)
    return found


def loses(evs: set[int], sender: Nic, network: Network, until_ns: int) -> None:
    """Frames of one NIC on these EVs do not get through until a time."""

    def passes(nic: Nic, port: int, frame: bytes) -> bool:
        if nic is not sender or network.now_ns >= until_ns:
            return True
        return decode(frame).envelope.ev not in evs

    network.passes = passes


def test_all_paths_are_used_alike() -> None:
    network, made = world([400 * MTU])
    check = network.watch
    used: Counter[int] = Counter()

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        assert check is not None
        check(nic, port, frame)
        packet = decode(frame)
        if isinstance(packet, Write):
            used[packet.envelope.ev] += 1

    network.watch = watch
    network.run()
    check_written(made)
    assert sum(used.values()) == 400
    assert set(used) == {encode_ev(plane, uplink) for plane in range(4) for uplink in range(2)}
    assert max(used.values()) - min(used.values()) <= 2
    assert network.next_time() is None


def test_a_dead_path_is_out_at_its_first_timeout_and_in_again_when_it_is_repaired() -> None:
    profiles = MrcProfiles(base_rtt_ns=RTT_NS, ev_profile=EvProfile(active_evs=4))
    network, made = world([6000 * MTU], profiles=profiles)
    evs = ev_set(made)
    dead = evs.active(2)[0]
    (twin,) = evs.backup(2)
    loses({dead}, made.a, network, until_ns=200_000)
    sent_at: list[int] = []
    check = network.watch

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        assert check is not None
        check(nic, port, frame)
        packet = decode(frame)
        if isinstance(packet, Write) and packet.envelope.ev == dead:
            sent_at.append(network.now_ns)

    network.watch = watch
    network.run(until=lambda: finished(made))
    check_written(made)
    # Nothing is sent on it once the first packet on it is given up, and it goes to the backup set
    assert sent_at and max(sent_at) <= min(sent_at) + TIMEOUT_NS
    assert evs.active(2) == [twin]
    # Background probing goes on when there is nothing to send
    network.run(limit_ns=10**7)
    assert network.next_time() is None
    assert evs.state(dead) is EvState.GOOD and evs.backup(2) == [dead]
    out, back = events_of(made.a)
    assert (out.ev, out.new, out.cause, out.replaced_by) == (dead, "ASSUMED_BAD", "timeout", twin)
    assert (back.ev, back.new, back.cause) == (dead, "GOOD", "probes answered")
    assert back.now_ns >= 200_000
    assert requestor_of(made.flows[0, True]).stats.timeouts <= len(sent_at)


def test_a_path_that_lost_by_chance_is_back_before_another_timeout_is_over() -> None:
    """With no backup, all the while it is out is a share of the rate that is not there."""
    network, made = world([3000 * MTU])
    evs = ev_set(made)
    unlucky = encode_ev(2, 1)
    lost: list[int] = []

    def passes(nic: Nic, port: int, frame: bytes) -> bool:
        if nic is not made.a or lost or network.now_ns < 20_000:
            return True
        packet = decode(frame)
        if isinstance(packet, Write) and packet.envelope.ev == unlucky:
            lost.append(network.now_ns)
        return not lost

    network.passes = passes
    network.run(until=lambda: finished(made))
    check_written(made)
    out, back = events_of(made.a)
    assert (out.ev, out.new, out.replaced_by) == (unlucky, "ASSUMED_BAD", None)
    assert out.now_ns - lost[0] >= TIMEOUT_NS
    assert (back.ev, back.new, back.cause) == (unlucky, "GOOD", "probes answered")
    assert back.now_ns - out.now_ns < TIMEOUT_NS
    assert set(evs.active(2)) == {encode_ev(2, 0), unlucky}


def test_half_the_paths_dead_from_the_start() -> None:
    """Each is out at its first timeout, none twice; the floor is a quarter."""
    network, made = world([2000 * MTU])
    dead = {encode_ev(plane, 1) for plane in range(4)}
    loses(dead, made.a, network, until_ns=10**9)
    network.run(until=lambda: finished(made))
    check_written(made)
    evs = ev_set(made)
    assert set(evs.in_state(EvState.ASSUMED_BAD)) == dead
    assert sorted(evs.active()) == [encode_ev(plane, 0) for plane in range(4)]
    assert sorted(event.ev for event in events_of(made.a)) == sorted(dead)


def test_a_path_that_works_takes_the_place_of_a_dead_one_that_the_floor_keeps() -> None:
    """The good one of two is out for a packet lost by chance when the other dies.

    It has lost some before, so that it must answer 48 probes. That takes longer than the retries of
    a packet on the dead one last.
    """
    dead, good = encode_ev(0, 0), encode_ev(1, 0)
    profiles = MrcProfiles(
        base_rtt_ns=RTT_NS, ev_profile=EvProfile(EvMode.EXPLICIT, evs=(dead, good))
    )
    qp = QpDefaults(timeout=3, linear_retries=2, exponential_retries=1)
    network, made = world([3000 * MTU], profiles=profiles, qp=qp)
    evs = ev_set(made)
    lost_at: list[int] = []

    def passes(nic: Nic, port: int, frame: bytes) -> bool:
        packet = decode(frame)
        if nic is not made.a or not isinstance(packet, Write | Probe):
            return True
        if packet.envelope.ev == dead:
            return len(lost_at) < 5
        if isinstance(packet, Write) and len(lost_at) == evs.counters["PROBES_ANSWERED"] < 5:
            lost_at.append(network.now_ns)
            return False
        return True

    network.passes = passes
    network.run(until=lambda: finished(made))
    check_written(made)
    assert evs.state(dead) is EvState.ASSUMED_BAD and evs.active() == [good]
    *_, out, needed, relieved = events_of(made.a)
    assert (out.ev, out.new, out.cause) == (good, "ASSUMED_BAD", "timeout")
    assert (needed.ev, needed.new) == (good, "GOOD")
    assert needed.cause == "probe answered, one in use is silent"
    assert (relieved.ev, relieved.new, relieved.cause) == (dead, "ASSUMED_BAD", "timeout")
    # Two packets' timeouts, one after the other
    assert relieved.now_ns - lost_at[-1] < 3 * TIMEOUT_NS


def test_a_marked_path_is_passed_over_not_demoted() -> None:
    network, made = world([1000 * MTU], faults=Faults(mark=0.2))
    network.run()
    check_written(made)
    evs = ev_set(made)
    assert evs.marks > 100
    assert 100 < evs.turns_passed_over <= evs.marks
    assert not events_of(made.a)
    assert requestor_of(made.flows[0, True]).stats.retransmissions == 0


def test_with_a_port_down_the_others_carry_everything() -> None:
    network, made = world([3000 * MTU])
    network.flap(made.b, 3, at_ns=20_000, for_ns=10**9)
    sent_at: dict[int, list[int]] = {port: [] for port in range(4)}
    check = network.watch

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        assert check is not None
        check(nic, port, frame)
        if nic is made.a:
            sent_at[port].append(network.now_ns)

    network.watch = watch
    network.run(until=lambda: finished(made))
    check_written(made)
    # Within two RTTs of the port status update, here of the fault
    assert max(sent_at[3]) <= 20_000 + 2 * RTT_NS
    assert max(sent_at[2]) > 30_000
    assert not events_of(made.a)


def test_a_receiver_keeps_its_reverse_evs_known_good_by_probes() -> None:
    network, made = world([3000 * MTU])
    probes: list[int] = []
    check = network.watch

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        assert check is not None
        check(nic, port, frame)
        packet = decode(frame)
        if isinstance(packet, EndpointRequest) and packet.erth.op == 1:
            assert nic is made.b
            probes.append(network.now_ns)

    network.watch = watch
    network.run(until=lambda: finished(made))
    end_ns = network.now_ns
    # One per RTT, give or take what a probe waits for its port
    assert all(later - earlier >= RTT_NS - 500 for earlier, later in pairwise(probes))
    assert end_ns // RTT_NS // 2 <= len(probes) <= end_ns // RTT_NS + 1
    network.run()
    assert network.next_time() is None


def test_a_reverse_ev_that_leads_nowhere_is_replaced() -> None:
    network, made = world([4000 * MTU])
    peer = made.b.peer(made.a.config.address)
    assert peer is not None and isinstance(peer.reverse, ReverseEvSet)
    first = peer.reverse.select(0b0001)
    assert first is not None
    loses({first}, made.b, network, until_ns=10**9)
    network.run(until=lambda: finished(made))
    check_written(made)
    assert peer.reverse.select(0b0001) == first ^ encode_ev(0, 1)
    assert peer.reverse.known_good(0)
    # The SACKs that were lost on it did not cost the data's paths their good name
    assert not ev_set(made).in_state(EvState.ASSUMED_BAD)


def test_the_responder_may_hold_a_path_bad() -> None:
    network, made = world([1000 * MTU])
    responder = made.flows[0, True].receiver.responder
    assert responder is not None
    bad = encode_ev(1, 1)
    responder.bad_evs.add(bad)
    network.run(until=lambda: finished(made))
    first, *later = events_of(made.a)
    assert (first.ev, first.new, first.cause) == (bad, "ASSUMED_BAD", "held bad by the responder")
    # Probes get through: it comes back, is held bad again, and must answer ever more of them
    assert {later_event.ev for later_event in later} <= {bad}
    assert len(later) <= 6


@pytest.mark.parametrize("forwarding", [ForwardingMode.STEV, ForwardingMode.ECMP])
def test_without_srv6_the_ev_is_in_ports_and_flow_label_only(forwarding: ForwardingMode) -> None:
    network, made = world([300 * MTU], forwarding=forwarding)
    evs = ev_set(made)
    seen: set[int] = set()

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        envelope = decode(frame).envelope
        assert envelope.outer is None
        assert envelope.ev & 7 == port
        if nic is made.a and isinstance(decode(frame), Write):
            seen.add(envelope.ev)

    network.watch = watch
    network.run()
    check_written(made)
    assert seen <= set(evs.active())
    if forwarding is ForwardingMode.ECMP:
        assert len({ev >> 16 for ev in seen}) > 50


def test_an_explicit_profile_keeps_to_its_evs() -> None:
    allowed = (encode_ev(0, 1), encode_ev(2, 0))
    profiles = MrcProfiles(
        base_rtt_ns=RTT_NS,
        ev_profile=EvProfile(EvMode.EXPLICIT, evs=allowed),
        cc_profile=CcProfile("fixed-window", {"cwnd_bytes": 5000}),
    )
    network, made = world([100 * MTU], profiles=profiles)
    network.run()
    check_written(made)
    assert set(ev_set(made).universe.evs) == set(allowed)
    assert requestor_of(made.flows[0, True]).controller.cwnd_bytes == 5000


def test_profiles_by_id_and_one_controller_for_all_queue_pairs_to_a_destination() -> None:
    profiles = MrcProfiles(
        base_rtt_ns=RTT_NS,
        ev_profiles={4: EvProfile(active_evs=4)},
        cc_profiles={5: CcProfile(None)},
    )
    network = pair(profiles=profiles, path_mtu_bytes=MTU)
    made = World(network, 2, 100, (1, 1))
    first, second = (requestor_of(made.flows[qp, True]) for qp in (0, 1))
    assert first.controller is second.controller
    assert isinstance(first.controller, Nscc)
    assert first.controller.constants.base_rtt_ns == RTT_NS
    assert first.controller.network.frame_bytes == MTU + 142 + 4
    assert first.evs is not second.evs
    other = World(
        pair(profiles=profiles, path_mtu_bytes=MTU),
        1,
        100,
        (1, 1),
        {"ev_profile": 4, "cc_profile": 5},
    )
    requestor = requestor_of(other.flows[0, True])
    assert isinstance(requestor.evs, EvSet) and len(requestor.evs.active()) == 4
    assert requestor.controller.cwnd_bytes == 1 << 62


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"ev_profile": 9}, "EV profile 9 is not known; there are: none"),
        ({"cc_profile": 9}, "CC profile 9 is not known; there are: 1"),
    ],
)
def test_a_profile_that_is_not_there_is_named(attributes: dict[str, int], message: str) -> None:
    profiles = MrcProfiles(cc_profiles={1: CcProfile()})
    with pytest.raises(ValueError, match=message):
        World(pair(profiles=profiles), 1, 100, (1, 1), attributes)


@pytest.mark.parametrize(("fan_in", "penalties"), [(True, {0, 127 - 63}), (False, {0})])
def test_two_that_send_to_one_are_asked_for_half_their_windows(
    fan_in: bool, penalties: set[int]
) -> None:
    profiles = MrcProfiles(base_rtt_ns=RTT_NS, fan_in=fan_in)
    nics = [
        Nic(
            config(host, rate_bps=10**10, path_mtu_bytes=MTU, qp=FOR_EVER),
            seed=number,
            profiles=profiles,
        )
        for number, host in enumerate(("h0", "h1", "h2"))
    ]
    *senders, receiver = nics
    network = Network(nics)
    # The wires behind the senders are full, so the receiver's ports count as busy
    memory = bytearray(2000 * MTU)
    region = receiver.register_memory(memory)
    queues = []
    for nic in senders:
        near, far = nic.create_qp(nic.create_cq()), receiver.create_qp(receiver.create_cq())
        told = near.endpoint(), far.endpoint()
        near.connect(told[1])
        far.connect(told[0])
        near.post_write(WriteRequest(1, bytes(2000 * MTU), region.va, region.rkey))
        queues.append(near.send_cq)
    seen: set[int] = set()

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        packet = decode(frame)
        if isinstance(packet, Sack):
            seen.add(packet.cc_state.rcv_cwnd_pen)

    network.watch = watch
    network.run()
    assert all(len(queue.poll()) == 1 for queue in queues)
    assert seen == penalties


probabilities = st.sampled_from([0.0, 0.0, 0.01, 0.05])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    messages=st.lists(st.sampled_from([1, MTU, 40 * MTU, 200 * MTU + 5]), min_size=1, max_size=10),
    faults=st.builds(
        Faults,
        loss=probabilities,
        duplicate=probabilities,
        corrupt=probabilities,
        trim=st.sampled_from([0.0, 0.05, 0.3]),
        mark=st.sampled_from([0.0, 0.05, 0.5]),
        jitter_ns=st.sampled_from([0, 300, 5_000]),
    ),
    seed=st.integers(0, 2**32),
    qps=st.integers(1, 3),
    profile=st.builds(
        EvProfile,
        active_evs=st.sampled_from([1, 4, 8]),
        ev_min_active=st.sampled_from([None, 0, 1]),
        denied=st.sampled_from([frozenset[int](), frozenset({encode_ev(1, 0), encode_ev(1, 1)})]),
    ),
    base_rtt_ns=st.sampled_from([0, RTT_NS]),
    flaps=st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 3), st.integers(0, 100_000), st.integers(1, 100_000)
        ),
        max_size=4,
    ),
)
def test_whatever_the_network_does(
    messages: list[int],
    faults: Faults,
    seed: int,
    qps: int,
    profile: EvProfile,
    base_rtt_ns: int,
    flaps: list[tuple[int, int, int, int]],
) -> None:
    network, made = world(
        messages,
        profiles=MrcProfiles(ev_profile=profile, base_rtt_ns=base_rtt_ns),
        qps=qps,
        both_ways=True,
        faults=faults,
        seed=seed,
        rate_bps=10**11,
    )
    check = network.watch

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        assert check is not None
        check(nic, port, frame)
        packet = decode(frame)
        if not isinstance(packet, Write | Probe):
            return
        flow = made.flow_of(nic, True, packet.bth.dest_qp)
        evs = requestor_of(flow).evs
        assert isinstance(evs, EvSet)
        ev = packet.envelope.ev
        allowed = evs.active()
        if isinstance(packet, Probe):
            allowed += evs.in_state(EvState.ASSUMED_BAD)
        assert ev in allowed and ev not in profile.denied

    network.watch = watch
    for which, port, at_ns, for_ns in flaps:
        network.flap(network.nics[which], port, at_ns, for_ns)
    network.run(until=partial(finished, made), limit_ns=10**10)
    check_written(made)
    bad = 0
    for flow in made.flows.values():
        evs = requestor_of(flow).evs
        assert isinstance(evs, EvSet)
        bad += evs.counters["LOST"]
        planes = [len(evs.active(plane)) for plane in range(FABRIC.planes)]
        assert sum(planes) + len(evs.backup()) + len(
            [*evs.in_state(EvState.ASSUMED_BAD), *evs.in_state(EvState.DENIED)]
        ) == len(evs.universe)
    event("some EVs turned bad" if bad else "no EV turned bad")


def test_runs_are_the_same_for_the_same_seed() -> None:
    def run(seed: int) -> list[tuple[int, int, bytes]]:
        network, made = world(
            [300 * MTU] * 3, faults=Faults(loss=0.02, mark=0.1, trim=0.05), seed=seed
        )
        frames: list[tuple[int, int, bytes]] = []
        network.watch = lambda nic, port, frame: frames.append((network.now_ns, port, frame))
        network.run(until=lambda: finished(made))
        return frames

    random.seed(1)
    first = run(3)
    random.seed(2)
    assert run(3) == first
    assert run(4) != first
