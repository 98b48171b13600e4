"""Any traffic on any network: what must hold of RoCE.

Memory must equal what was written, and nothing else may change; each work request completes once,
in the order of posting, as do immediates; and in the end nothing is left of it all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from host.congestion.dcqcn import DcqcnConfig
from host.qp.states import QpState
from host.qp.work import WcStatus, WriteRequest
from host.roce import RoceConfig, RoceNic
from host.roce.config import ROCE_QP_DEFAULTS
from host.roce.queue_pair import RoceQueuePair
from tests.host.network import Faults, Network, config

CANARY = 0xA5
GUARD_BYTES = 8
#: Retries that never run out on the networks here; a timeout beyond any delay
QP = replace(ROCE_QP_DEFAULTS, timeout=6, linear_retries=7, sack_packets=3)
MTU = 64


class World:
    """Two NICs and some queue pairs that write both ways."""

    def __init__(self, faults: Faults, seed: int, qps: int, rate_bps: int | None) -> None:
        roce = RoceConfig(dcqcn=DcqcnConfig(rate_timer_ns=5_000, alpha_timer_ns=5_000))
        changes: dict[str, Any] = {} if rate_bps is None else {"rate_bps": rate_bps}
        self.nics = [
            RoceNic(config(host, path_mtu_bytes=MTU, qp=QP, **changes), seed=seed, roce=roce)
            for host in ("h0", "h2")
        ]
        self.network = Network(cast(Any, self.nics), seed=seed, faults=faults)
        self.flows: list[Flow] = []
        for _ in range(qps):
            ends = [nic.create_qp(nic.create_cq(), nic.create_cq()) for nic in self.nics]
            ends[0].connect(ends[1].endpoint())
            ends[1].connect(ends[0].endpoint())
            self.flows += [Flow(self.nics[1], *ends), Flow(self.nics[0], *reversed(ends))]


class Flow:
    """One direction of a queue pair."""

    def __init__(self, nic: RoceNic, sender: RoceQueuePair, receiver: RoceQueuePair) -> None:
        self.sender, self.receiver = sender, receiver
        self.memory = bytearray([CANARY]) * 65536
        self.expected = bytearray(self.memory)
        self.region = nic.register_memory(self.memory)
        self.next = GUARD_BYTES
        self.posted: list[int | None] = []

    def post(self, length: int, imm: bool, with_receive: bool) -> None:
        number = len(self.posted)
        data = bytes((number * 7 + index * 13 + 1) & 0xFF for index in range(length))
        self.posted.append(number if imm else None)
        if imm and with_receive:
            self.receiver.post_recv(number)
        self.expected[self.next : self.next + length] = data
        self.sender.post_write(
            WriteRequest(
                number, data, self.region.va + self.next, self.region.rkey, number if imm else None
            )
        )
        self.next += length + GUARD_BYTES

    def done(self) -> bool:
        return len(self.sender.send_cq) >= len(self.posted)

    def check(self) -> None:
        assert self.memory == self.expected
        sent = self.sender.send_cq.poll()
        assert [each.wr_id for each in sent] == [*range(len(self.posted))]
        assert {each.status for each in sent} <= {WcStatus.SUCCESS}
        received = self.receiver.recv_cq.poll()
        assert [each.imm for each in received] == [imm for imm in self.posted if imm is not None]


FAULTS = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.01, 0.1, 0.2]),
    duplicate=st.sampled_from([0.0, 0.1]),
    corrupt=st.sampled_from([0.0, 0.05]),
    mark=st.sampled_from([0.0, 0.3]),
    jitter_ns=st.sampled_from([0, 300, 3000]),
)
MESSAGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 700), st.booleans(), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    faults=FAULTS,
    messages=MESSAGES,
    seed=st.integers(0, 1000),
    rate_bps=st.sampled_from([None, 10**9]),
)
def test_any_traffic(
    faults: Faults,
    messages: list[tuple[int, int, bool, bool]],
    seed: int,
    rate_bps: int | None,
) -> None:
    world = World(faults, seed, 3, rate_bps)
    late: list[tuple[Flow, int]] = []
    for number, length, imm, with_receive in messages:
        flow = world.flows[number]
        # Receives stay in order: once one is late, all are
        with_receive = with_receive and flow not in [each for each, _ in late]
        flow.post(length, imm, with_receive)
        if imm and not with_receive:
            late.append((flow, len(flow.posted) - 1))
    for delay, (flow, number) in enumerate(late):
        world.network.at(
            20_000 + 5_000 * delay,
            lambda flow=flow, number=number: flow.receiver.post_recv(number),  # type: ignore[misc]
        )
    failed = False

    def over() -> bool:
        return all(flow.done() for flow in world.flows)

    world.network.run(until=over)
    failed = any(flow.sender.state is QpState.ERROR for flow in world.flows)
    if failed:
        # Seven retries of one PSN can all be lost, where one frame in three is
        assert faults.loss + faults.corrupt >= 0.1
        event("retries ran out")
        return
    for flow in world.flows:
        flow.check()
    for nic in world.nics:
        for qp in nic.qps.values():
            assert qp.requestor is not None and qp.requestor.posted == 0
    resent = sum(
        qp.requestor.stats.retransmissions
        for nic in world.nics
        for qp in nic.qps.values()
        if qp.requestor is not None
    )
    if faults.loss == faults.corrupt == faults.jitter_ns == 0 and not late:
        assert resent == 0
    event("sent again" if resent else "all at once")


@pytest.mark.parametrize("seed", range(3))
def test_a_long_transfer_under_loss(seed: int) -> None:
    world = World(Faults(loss=0.02, jitter_ns=50), seed, 1, 10**9)
    for _ in range(12):
        world.flows[0].post(5000, imm=True, with_receive=True)
    world.network.run(until=world.flows[0].done)
    world.flows[0].check()
    requestor = world.flows[0].sender.requestor
    responder = world.flows[0].receiver.responder
    assert requestor is not None and responder is not None
    # Each payload was placed once, and whatever came beyond that was not
    assert responder.stats.payload_bytes == 12 * 5000
    assert responder.stats.packets == 12 * -(-5000 // MTU)
    assert requestor.stats.packets == responder.stats.packets + requestor.stats.retransmissions
    assert requestor.stats.retransmissions > 0
