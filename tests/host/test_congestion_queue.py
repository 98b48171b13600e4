"""NSCC flows at one bottleneck, packet by packet: convergence, fairness, utilisation.

A queue with a rate, a limit beyond which packets are trimmed, and ECN marking between two
thresholds (none on a last hop). Trimmed packets, SACKs and NACKs wait for nothing. Everything is
deterministic: no clock but the simulation's, no randomness but the seed's.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from host.congestion import Network, make_controller
from host.congestion.fan_in import FanIn

FRAME = 4242
TRIMMED = 142
RATE_BPS = 100 * 10**9
#: Serialisation of a frame at the bottleneck, rounded up
FRAME_NS = -(-FRAME * 8 * 10**9 // RATE_BPS)


@dataclass
class Bottleneck:
    """The queue. Sizes in bytes; None: no marking."""

    limit: int
    mark_from: int | None = None
    mark_to: int | None = None
    free_ns: int = 0

    def occupancy(self, now_ns: int) -> int:
        return max(self.free_ns - now_ns, 0) * RATE_BPS // 8 // 10**9

    def admit(self, now_ns: int, rng: random.Random) -> tuple[int, bool] | None:
        """(departure time, marked); None: trimmed."""
        occupancy = self.occupancy(now_ns)
        if occupancy + FRAME > self.limit:
            return None
        self.free_ns = max(self.free_ns, now_ns) + FRAME_NS
        marked = False
        if self.mark_from is not None and self.mark_to is not None:
            beyond = (occupancy - self.mark_from) / (self.mark_to - self.mark_from)
            marked = rng.random() < beyond
        return self.free_ns, marked


class Flow:
    """A sender with a controller that always has data, at no more than the link's rate."""

    def __init__(self, network: Network, start_ns: int, stop_ns: int, **knobs: float) -> None:
        self.controller = make_controller("uet-1.0-nscc", network, **knobs)
        self.start_ns = start_ns
        self.stop_ns = stop_ns
        self.free_ns = start_ns
        self.delivered: list[int] = []
        self.trims: list[int] = []
        self.penalty = 0
        #: Time between packets at least, if it is held back by something else
        self.pace_ns = FRAME_NS

    def rate_share(self, from_ns: int, to_ns: int) -> float:
        """Of the bottleneck's rate, in a time."""
        packets = sum(from_ns <= now_ns < to_ns for now_ns in self.delivered)
        return packets * FRAME_NS / (to_ns - from_ns)


@dataclass
class World:
    """Senders, the bottleneck, and the time that everything else takes."""

    queue: Bottleneck
    flows: list[Flow]
    base_rtt_ns: int
    seed: int = 0
    #: At the destination of all flows
    fan_in: FanIn | None = None
    #: What a packet takes longer or shorter than another there: paths are not all the same
    jitter_ns: int = 0
    largest_occupancy: int = 0
    events: list[tuple[int, int, Callable[[int], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.numbers = count()
        self.ready: deque[Flow] = deque()

    def at(self, time_ns: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self.events, (time_ns, next(self.numbers), what))

    def run(self, until_ns: int) -> None:
        for flow in self.flows:
            self.at(flow.start_ns, lambda now_ns, flow=flow: self.send(flow, now_ns))  # type: ignore[misc]
        while self.events and self.events[0][0] <= until_ns:
            now_ns, _, what = heapq.heappop(self.events)
            what(now_ns)

    def send(self, flow: Flow, now_ns: int) -> None:
        """As many packets as window and link let."""
        controller = flow.controller
        if not flow.start_ns <= now_ns < flow.stop_ns or now_ns < flow.free_ns:
            return
        if controller.inflight_bytes >= controller.cwnd_bytes:
            return
        controller.inflight_bytes += FRAME
        flow.free_ns = now_ns + flow.pace_ns
        self.at(flow.free_ns, lambda later_ns: self.send(flow, later_ns))
        # Half of what is not serialisation there, and half back
        there_ns = (self.base_rtt_ns - FRAME_NS) // 2 + self.rng.randrange(self.jitter_ns + 1)
        self.at(now_ns + there_ns, lambda later_ns: self.arrive(flow, now_ns, later_ns))

    def arrive(self, flow: Flow, sent_ns: int, now_ns: int) -> None:
        admitted = self.queue.admit(now_ns, self.rng)
        self.largest_occupancy = max(self.largest_occupancy, self.queue.occupancy(now_ns))
        if admitted is None:
            self.at(now_ns, lambda later_ns: self.deliver(flow, sent_ns, None, later_ns))
            return
        departs_ns, marked = admitted
        self.at(departs_ns, lambda later_ns: self.deliver(flow, sent_ns, marked, later_ns))

    def deliver(self, flow: Flow, sent_ns: int, marked: bool | None, now_ns: int) -> None:
        """A packet reaches its destination; `marked` None: trimmed."""
        penalty = 0
        if self.fan_in is not None:
            size = FRAME if marked is not None else TRIMMED
            self.fan_in.on_data(self.flows.index(flow), size, now_ns)
            penalty = self.fan_in.penalty
        back_ns = self.base_rtt_ns - FRAME_NS - (self.base_rtt_ns - FRAME_NS) // 2
        if marked is None:
            self.at(now_ns + back_ns, lambda later_ns: self.trimmed(flow, later_ns))
            return
        flow.delivered.append(now_ns)
        self.at(
            now_ns + back_ns,
            lambda later_ns: self.sacked(flow, sent_ns, marked, penalty, later_ns),
        )

    def sacked(self, flow: Flow, sent_ns: int, marked: bool, penalty: int, now_ns: int) -> None:
        flow.controller.inflight_bytes -= FRAME
        if penalty != flow.penalty:
            flow.penalty = penalty
            flow.controller.on_peer_penalty(penalty, not penalty, now_ns)
        flow.controller.on_ack(FRAME, marked, now_ns - sent_ns, now_ns)
        self.send(flow, now_ns)

    def trimmed(self, flow: Flow, now_ns: int) -> None:
        flow.trims.append(now_ns)
        flow.controller.inflight_bytes -= FRAME
        flow.controller.on_trim(FRAME, self.queue.mark_from is None, now_ns)
        self.send(flow, now_ns)


def jain(shares: list[float]) -> float:
    """Jain's fairness index."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


BASE_RTT_NS = 5_400
NETWORK = Network(BASE_RTT_NS, RATE_BPS, FRAME, 4096)
MS = 10**6
FOR_EVER = 10**15
BASE_RTT_NS = 5_400
NETWORK = Network(BASE_RTT_NS, RATE_BPS, FRAME, 4096)
TARGET_NS = BASE_RTT_NS * 3 // 4
MS = 1_000_000
FOR_EVER = 10**15
#: 100 full packets, marking from 25 to 75
DEEP = 100 * FRAME
#: A port of the last hop: no marking
SHALLOW = 25 * FRAME


def fabric_port() -> Bottleneck:
    return Bottleneck(DEEP, DEEP // 4, DEEP * 3 // 4)


def flows(starts_ns: list[int], stop_ns: int = FOR_EVER, **knobs: float) -> list[Flow]:
    return [Flow(NETWORK, start_ns, stop_ns, **knobs) for start_ns in starts_ns]


def shares(world: World, from_ns: int, to_ns: int) -> list[float]:
    return [flow.rate_share(from_ns, to_ns) for flow in world.flows]


def test_one_flow_alone_fills_the_link_and_no_queue() -> None:
    world = World(fabric_port(), flows([0]), BASE_RTT_NS)
    world.run(MS)
    assert shares(world, MS // 10, MS) == [pytest.approx(1.0, abs=0.01)]
    assert world.largest_occupancy < 2 * FRAME
    assert world.flows[0].controller.cwnd_bytes == int(1.5 * NETWORK.bdp_bytes(BASE_RTT_NS))


@pytest.mark.parametrize("jitter_ns", [0, 1000])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_flows_at_one_bottleneck_converge_to_a_fair_share(jitter_ns: int, seed: int) -> None:
    """The second comes when the first has the whole link and its largest window."""
    world = World(fabric_port(), flows([0, MS // 5]), BASE_RTT_NS, seed=seed, jitter_ns=jitter_ns)
    world.run(2 * MS)
    alone = shares(world, MS // 10, MS // 5)
    assert alone == [pytest.approx(1.0, abs=0.01), 0.0]
    # 18 base RTTs after the second came, and for ever
    for from_ns in range(3 * MS // 10, 7 * MS // 4, MS // 4):
        both = shares(world, from_ns, from_ns + MS // 4)
        assert sum(both) >= 0.98
        assert jain(both) >= 0.97
    assert jain(shares(world, MS // 2, 2 * MS)) >= 0.99
    assert not any(flow.trims for flow in world.flows)


def test_the_standing_queue_is_about_the_target_and_ecn_keeps_it_there() -> None:
    world = World(fabric_port(), flows([0] * 7), BASE_RTT_NS, jitter_ns=1000)
    world.run(2 * MS)
    late = shares(world, MS, 2 * MS)
    assert sum(late) >= 0.98 and jain(late) >= 0.99
    # Marking begins at a delay of 8.5 µs, above the target of 4 µs: between the two windows grow
    delay_ns = world.queue.occupancy(2 * MS) * 8 * 10**9 // RATE_BPS
    assert TARGET_NS / 2 < delay_ns < 4 * TARGET_NS
    decreases = [flow.controller.stats.decreases for flow in world.flows]  # type: ignore[attr-defined]
    assert all(decreases)
    late_trims = [now_ns for flow in world.flows for now_ns in flow.trims if now_ns > MS]
    assert not late_trims


def test_when_one_leaves_the_others_take_what_it_had() -> None:
    world = World(
        fabric_port(), [*flows([0]), *flows([0], stop_ns=MS)], BASE_RTT_NS, jitter_ns=1000
    )
    world.run(2 * MS)
    assert jain(shares(world, MS // 2, MS)) >= 0.98
    assert shares(world, MS + 10 * BASE_RTT_NS, 2 * MS)[0] >= 0.98


def test_an_incast_at_the_last_hop_is_fair_when_the_destination_says_how_many_there_are() -> None:
    """No ECN there: delay, trimming and the penalty in SACKs are all there is."""
    fan_in = FanIn(RATE_BPS, 8_192)
    world = World(Bottleneck(SHALLOW), flows([0] * 7), BASE_RTT_NS, fan_in=fan_in, jitter_ns=1000)
    world.run(2 * MS)
    assert jain(shares(world, 0, 2 * MS)) >= 0.99
    assert sum(shares(world, MS // 4, 2 * MS)) >= 0.97
    late = shares(world, MS, 2 * MS)
    assert sum(late) >= 0.99 and jain(late) >= 0.999
    # The first windows meet a full queue; after that nothing is trimmed any more
    assert all(flow.trims for flow in world.flows)
    assert max(now_ns for flow in world.flows for now_ns in flow.trims) < MS // 4


def test_without_the_penalty_trimming_alone_keeps_the_link_full_but_is_less_fair() -> None:
    world = World(Bottleneck(SHALLOW), flows([0] * 7), BASE_RTT_NS, jitter_ns=1000)
    world.run(2 * MS)
    late = shares(world, MS, 2 * MS)
    assert sum(late) >= 0.99
    assert 0.9 <= jain(late) <= 0.995
    assert sum(len(flow.trims) for flow in world.flows) > 1000


def test_a_source_that_is_held_back_elsewhere_leaves_its_share_to_the_others() -> None:
    world = World(
        Bottleneck(SHALLOW),
        flows([0] * 3),
        BASE_RTT_NS,
        fan_in=FanIn(RATE_BPS, 8_192),
        jitter_ns=1000,
    )
    world.flows[0].pace_ns = 20 * FRAME_NS
    world.run(2 * MS)
    slow, *others = shares(world, MS, 2 * MS)
    assert slow == pytest.approx(0.05, abs=0.01)
    assert sum(others) >= 0.9
    assert jain(others) >= 0.99
