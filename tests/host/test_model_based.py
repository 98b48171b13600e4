"""Any traffic on any network: what must hold.

Hypothesis chooses the messages and the network's faults. Memory must equal what was written and
nothing else may change; each work request completes once; immediates come in the order of posting
and behind the data posted before; no frame leaves outside the windows or on a dead port; and in
the end nothing is left of it all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from host.config import EXPONENTIAL_RETRIES_FOR_EVER, QpDefaults
from host.memory import MemoryRegion
from host.nic import Nic
from host.profiles import PlainProfiles
from host.qp.queue_pair import QueuePair
from host.qp.requestor import Requestor
from host.qp.serial import expand_psn
from host.qp.states import QpState, SendState
from host.qp.work import CompletionQueue, WcStatus, WorkCompletion, WriteRequest
from host.wire import Ack, Sack, Write, decode
from tests.host.network import FABRIC, Faults, Network, pair
from topologies.addressing import ev_universe

CANARY = 0xA5
GUARD_BYTES = 16
UNIVERSE = set(ev_universe(FABRIC.planes, FABRIC.t1_per_plane))


@dataclass(frozen=True)
class Plan:
    """One write of a test: which queue pair, which way, how long, with an immediate or not."""

    qp: int
    forward: bool
    length: int
    imm: bool
    at_ns: int


@dataclass
class Posted:
    """A write that was posted."""

    wr_id: int
    start: int
    data: bytes
    imm: int | None


class Flow:
    """One direction of a queue pair: what was posted, what must be in memory, what completed."""

    def __init__(self, sender: QueuePair, receiver: QueuePair, memory_bytes: int) -> None:
        self.sender = sender
        self.receiver = receiver
        self.memory = bytearray([CANARY]) * memory_bytes
        self.posted: list[Posted] = []
        self.next_start = GUARD_BYTES
        self.sent: list[WorkCompletion] = []
        self.received: list[WorkCompletion] = []
        self.region: MemoryRegion
        self.max_cack = sender.attributes.sq_psn - 1

    def post(self, length: int, imm: bool) -> None:
        number = len(self.posted)
        data = bytes((number * 7 + index * 13 + 1) & 0xFF for index in range(length))
        posted = Posted(number, self.next_start, data, number if imm else None)
        self.next_start += length + GUARD_BYTES
        self.posted.append(posted)
        if imm:
            self.receiver.post_recv(number)
        self.sender.post_write(
            WriteRequest(number, data, self.region.va + posted.start, self.region.rkey, posted.imm)
        )

    def post_if_connected(self, length: int, imm: bool) -> None:
        """As `post`, unless an end is in ERROR: what is posted there is flushed at once."""
        if self.sender.state is self.receiver.state is QpState.RTS:
            self.post(length, imm)

    def expected(self, upto: int | None = None) -> bytearray:
        memory = bytearray([CANARY]) * len(self.memory)
        for posted in self.posted[:upto]:
            memory[posted.start : posted.start + len(posted.data)] = posted.data
        return memory

    def check_barrier(self, completion: WorkCompletion) -> None:
        """An immediate came: everything posted before it has landed."""
        imms = [posted for posted in self.posted if posted.imm is not None]
        if completion.status is not WcStatus.SUCCESS:
            return
        assert completion.imm is not None
        expected = imms[len(self.received)]
        assert completion.imm == expected.imm
        assert completion.byte_len == len(expected.data)
        for posted in self.posted[: expected.wr_id + 1]:
            landed = self.memory[posted.start : posted.start + len(posted.data)]
            assert landed == posted.data


class World:
    """Two NICs and some queue pairs between them."""

    def __init__(
        self,
        network: Network,
        qps: int,
        memory_bytes: int,
        psns: tuple[int, int],
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.a, self.b = network.nics
        self.flows: dict[tuple[int, bool], Flow] = {}
        self.check_mpr = True
        for index in range(qps):
            ends = []
            for nic, psn in ((self.a, psns[0]), (self.b, psns[1])):
                send_cq, recv_cq = nic.create_cq(), nic.create_cq()
                values = {"sq_psn": (psn + index) % 2**24, **(attributes or {})}
                ends.append(nic.create_qp(send_cq, recv_cq, **values))
            near, far = ends
            told = near.endpoint(), far.endpoint()
            near.connect(told[1])
            far.connect(told[0])
            for forward, sender, receiver, nic in (
                (True, near, far, self.b),
                (False, far, near, self.a),
            ):
                flow = Flow(sender, receiver, memory_bytes)
                flow.region = nic.register_memory(flow.memory)
                self.flows[index, forward] = flow
                self._collect(sender.send_cq, flow.sent, None)
                self._collect(receiver.recv_cq, flow.received, flow)
        network.watch = self.check_frame

    def _collect(self, cq: CompletionQueue, into: list[WorkCompletion], flow: Flow | None) -> None:
        def take(cq: CompletionQueue) -> None:
            for completion in cq.poll():
                if flow is not None:
                    flow.check_barrier(completion)
                into.append(completion)
            cq.request_notify(take)

        cq.request_notify(take)

    def flow_of(self, nic: Nic, sender_of_data: bool, dest_qp: int) -> Flow:
        for flow in self.flows.values():
            end = flow.sender if sender_of_data else flow.receiver
            if end.owner is nic and end.attributes.dest_qp == dest_qp:
                return flow
        raise AssertionError(f"a frame to QP {dest_qp:#x}, which is not connected")

    def check_frame(self, nic: Nic, port: int, frame: bytes) -> None:
        """No frame leaves outside MPR, congestion window and active set, or on a dead port."""
        packet = decode(frame)
        envelope = packet.envelope
        assert nic.ports_up() >> port & 1
        assert envelope.ev in UNIVERSE and envelope.ev & 7 == port
        traffic = nic.config.traffic
        if isinstance(packet, Write):
            flow = self.flow_of(nic, True, packet.bth.dest_qp)
            assert flow.sender.state is QpState.RTS
            psn = expand_psn(packet.bth.psn, flow.max_cack)
            if self.check_mpr:
                assert psn <= flow.max_cack + flow.sender.attributes.mpr_psns
            assert envelope.dscp == (
                traffic.trimmable_retx if packet.bth.rtx else traffic.trimmable
            )
            requestor = flow.sender.requestor
            assert requestor is not None
            controller = requestor.controller
            # A call of transmit may send one frame on each port before any is seen here
            burst = len(nic.config.ports) * len(frame)
            if nic.config.ports[port].rate_bps is not None:
                assert controller.inflight_bytes < controller.cwnd_bytes + burst
        elif isinstance(packet, Sack | Ack):
            assert envelope.dscp == traffic.control
            flow = self.flow_of(nic, False, packet.bth.dest_qp)
            cack = expand_psn(packet.bth.psn, flow.max_cack)
            flow.max_cack = max(flow.max_cack, cack)

    def check_done(self) -> None:
        """Everything landed, everything completed once, nothing is left."""
        for flow in self.flows.values():
            assert flow.sender.state is QpState.RTS
            assert flow.memory == flow.expected()
            assert [completion.wr_id for completion in flow.sent] == [
                posted.wr_id for posted in flow.posted
            ]
            assert all(completion.status is WcStatus.SUCCESS for completion in flow.sent)
            assert [completion.imm for completion in flow.received] == [
                posted.imm for posted in flow.posted if posted.imm is not None
            ]
        check_drained(self.network)


def requestor_of(flow: Flow) -> Requestor:
    assert flow.sender.requestor is not None
    return flow.sender.requestor


def check_drained(network: Network) -> None:
    """No timer, no packet, no byte in flight is left in any NIC."""
    # With one end in ERROR, the other may have packets behind a gap that nobody will fill
    network_is_whole = all(
        qp.state is QpState.RTS for nic in network.nics for qp in nic.qps.values()
    )
    for nic in network.nics:
        assert nic.next_timer() is None
        assert len(nic._timers) == 0
        assert not nic._control_ring and not nic._scheduler.ring
        assert len(nic._endpoint) == 0
        for qp in nic.qps.values():
            requestor, responder = qp.requestor, qp.responder
            assert requestor is not None and responder is not None
            assert requestor.send_state is SendState.IDLE
            assert requestor.controller.inflight_bytes == 0
            assert not requestor.window.waiting
            assert not requestor.flight.packets and not requestor.flight.retransmissions
            assert not any(requestor.flight._timers) and not requestor.probes.out()
            assert requestor.flight.solicit is None and requestor.posted == 0
            assert requestor.flight.sacked == 0
            assert not responder.has_control() and responder._held is None
            if qp.state is QpState.ERROR or network_is_whole:
                assert not responder._ends and responder._imms_waiting == 0
                assert responder._ends_bitmap == 0
            assert responder._bitmap == 0 or not network_is_whole


probabilities = st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.3])

faults = st.builds(
    Faults,
    loss=probabilities,
    duplicate=probabilities,
    corrupt=st.sampled_from([0.0, 0.0, 0.02, 0.1]),
    trim=probabilities,
    mark=probabilities,
    delay_ns=st.sampled_from([0, 500, 4000]),
    jitter_ns=st.sampled_from([0, 0, 300, 20_000]),
)

MTU = 64

plans = st.lists(
    st.builds(
        Plan,
        qp=st.integers(0, 3),
        forward=st.booleans(),
        length=st.one_of(
            st.integers(1, 3 * MTU),
            st.sampled_from([1, MTU - 1, MTU, MTU + 1, 40 * MTU, 200 * MTU + 5]),
        ),
        imm=st.booleans(),
        at_ns=st.sampled_from([0, 0, 0, 5_000, 100_000]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plans=plans,
    faults=faults,
    seed=st.integers(0, 2**32),
    qps=st.integers(1, 4),
    psns=st.tuples(
        st.sampled_from([0, 1, 2**24 - 1, 2**24 - 60, 2**23 - 30, 12345]),
        st.sampled_from([0, 2**24 - 3, 2**24 - 100, 777]),
    ),
    mpr=st.sampled_from([128, 128, 256, 4096]),
    max_wimm=st.sampled_from([1, 2, 128]),
    timeout=st.sampled_from([3, 5, 7]),
    linear=st.sampled_from([0, 7]),
    sack_packets=st.sampled_from([1, 4, 16]),
    rate_bps=st.sampled_from([None, 10**9, 100 * 10**9]),
    cwnd_bytes=st.sampled_from([1, 2000, 1 << 20]),
    flaps=st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 3), st.integers(0, 300_000), st.integers(1, 200_000)
        ),
        max_size=3,
    ),
)
def test_whatever_the_network_does(
    plans: list[Plan],
    faults: Faults,
    seed: int,
    qps: int,
    psns: tuple[int, int],
    mpr: int,
    max_wimm: int,
    timeout: int,
    linear: int,
    sack_packets: int,
    rate_bps: int | None,
    cwnd_bytes: int,
    flaps: list[tuple[int, int, int, int]],
) -> None:
    network = pair(
        seed=seed,
        faults=faults,
        profiles=PlainProfiles(cwnd_bytes),
        rate_bps=rate_bps,
        path_mtu_bytes=MTU,
        unlimited_batch=8,
        qp=QpDefaults(
            mpr_psns=mpr,
            max_wimm=max_wimm,
            timeout=timeout,
            linear_retries=linear,
            exponential_retries=EXPONENTIAL_RETRIES_FOR_EVER,
            sack_packets=sack_packets,
        ),
    )
    room = sum(plan.length + GUARD_BYTES for plan in plans) + GUARD_BYTES
    world = World(network, qps, room, psns)
    for plan in plans:
        flow = world.flows[plan.qp % qps, plan.forward]
        network.at(plan.at_ns, partial(flow.post, plan.length, plan.imm))
    for which, port, at_ns, for_ns in flaps:
        network.flap(network.nics[which], port, at_ns, for_ns)
    network.run()
    assert network.next_time() is None
    world.check_done()
    resent = sum(requestor_of(flow).stats.retransmissions for flow in world.flows.values())
    event("some packets were sent again" if resent else "nothing was sent again")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plans=plans,
    faults=faults,
    seed=st.integers(0, 2**32),
    qps=st.integers(1, 3),
    retries=st.sampled_from([(0, 0), (1, 0), (0, 2), (2, 1)]),
    blackout_ns=st.sampled_from([0, 3_000, 30_000, 150_000]),
    one_way=st.booleans(),
)
def test_or_the_queue_pair_is_in_error_with_the_right_status(
    plans: list[Plan],
    faults: Faults,
    seed: int,
    qps: int,
    retries: tuple[int, int],
    blackout_ns: int,
    one_way: bool,
) -> None:
    network = pair(
        seed=seed,
        faults=faults,
        rate_bps=10**10,
        path_mtu_bytes=MTU,
        qp=QpDefaults(
            mpr_psns=128, timeout=4, linear_retries=retries[0], exponential_retries=retries[1]
        ),
    )
    room = sum(plan.length + GUARD_BYTES for plan in plans) + GUARD_BYTES
    world = World(network, qps, room, (2**24 - 9, 5))
    for plan in plans:
        flow = world.flows[plan.qp % qps, plan.forward]
        network.at(plan.at_ns, partial(flow.post_if_connected, plan.length, plan.imm))
    # From then on nothing gets through, one way or both
    network.passes = lambda nic, port, frame: (
        network.now_ns < blackout_ns or (one_way and nic is world.b)
    )
    network.run()
    assert network.next_time() is None

    for flow in world.flows.values():
        # Exactly once each, in the order of posting
        assert [completion.wr_id for completion in flow.sent] == list(range(len(flow.posted)))
        statuses = [completion.status for completion in flow.sent]
        succeeded = statuses.count(WcStatus.SUCCESS)
        assert all(status is WcStatus.SUCCESS for status in statuses[:succeeded])
        bad = statuses[succeeded:]
        if flow.sender.state is QpState.RTS:
            assert not bad
        else:
            assert flow.sender.state is QpState.ERROR
            reasons = [status for status in bad if status is not WcStatus.WR_FLUSH_ERROR]
            assert len(reasons) <= 1
            assert set(reasons) <= {
                WcStatus.RETRY_EXCEEDED_ERROR,  # this end gave up
                WcStatus.REMOTE_OPERATION_ERROR,  # the other end did, and said so
            }
        # What completed has landed; what did not may have; nothing else has changed
        for posted in flow.posted[:succeeded]:
            assert flow.memory[posted.start : posted.start + len(posted.data)] == posted.data
        for is_, was, written in zip(
            flow.memory, bytes([CANARY]) * len(flow.memory), flow.expected(), strict=True
        ):
            assert is_ in (was, written)
        # Each receive completes once, too
        assert (
            sorted(completion.wr_id for completion in flow.received)
            == [posted.wr_id for posted in flow.posted if posted.imm is not None]
            or flow.receiver.state is QpState.RTS
        )
    check_drained(network)


def _until(network: Network, end_ns: int, nic: Nic, port: int, frame: bytes) -> bool:
    return network.now_ns < end_ns


def test_some_end_in_error_and_some_do_not() -> None:
    """That the test above tells the two apart: half of the transfers meet a blackout."""
    states = set()
    for blackout_ns in (30_000, 10**9):
        network = pair(path_mtu_bytes=MTU, rate_bps=10**9, qp=QpDefaults(exponential_retries=0))
        world = World(network, 1, 100 * MTU + 2 * GUARD_BYTES, (1, 1))
        world.flows[0, True].post(100 * MTU, True)
        network.passes = partial(_until, network, blackout_ns)
        network.run()
        (completion,) = world.flows[0, True].sent
        states.add((world.flows[0, True].sender.state, completion.status))
    assert states == {
        (QpState.ERROR, WcStatus.RETRY_EXCEEDED_ERROR),
        (QpState.RTS, WcStatus.SUCCESS),
    }


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plans=plans,
    faults=faults,
    seed=st.integers(0, 2**32),
    changes=st.lists(
        st.tuples(st.integers(0, 200_000), st.booleans(), st.sampled_from([128, 256, 512, 1024])),
        max_size=8,
    ),
)
def test_with_an_mpr_that_changes(
    plans: list[Plan], faults: Faults, seed: int, changes: list[tuple[int, bool, int]]
) -> None:
    network = pair(
        seed=seed,
        faults=faults,
        rate_bps=10**9,
        path_mtu_bytes=MTU,
        qp=QpDefaults(
            mpr_psns=512,
            dynamic_mpr=True,
            timeout=5,
            exponential_retries=EXPONENTIAL_RETRIES_FOR_EVER,
        ),
    )
    room = sum(plan.length + GUARD_BYTES for plan in plans) + GUARD_BYTES
    world = World(network, 1, room, (2**24 - 9, 5))
    world.check_mpr = False
    for plan in plans:
        network.at(plan.at_ns, partial(world.flows[0, plan.forward].post, plan.length, plan.imm))
    for at_ns, forward, mpr_psns in changes:
        responder = world.flows[0, forward].receiver.responder
        assert responder is not None
        network.at(at_ns, partial(responder.set_mpr, mpr_psns))
    network.run()
    world.check_done()
