"""Sending and taking in with a window, over a fabric that misbehaves as told."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topologies.runner_fakes import FakeFabric, fake_fabric
from topologies.addressing import HostId, Path
from topologies.model import Fabric
from topologies.runner.check import frames
from topologies.runner.check.exchange import BACK_TO_BACK_PACKETS, MAX_STALLS, Exchange

FABRIC = Fabric("one", planes=1, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=2)
OVER_T1_0 = Path(0, HostId(0, 0), HostId(1, 0), 0)
OVER_T1_1 = Path(0, HostId(0, 0), HostId(1, 0), 1)
LOCAL = Path(0, HostId(0, 0), HostId(0, 1), None)
PATHS = [OVER_T1_0, OVER_T1_1, LOCAL]

#: In these tests a packet arrives within its send, or never
STALL_S = 0.02


def exchange_of(fake: FakeFabric, watched: dict[int, str] | None = None) -> Exchange:
    return Exchange(list(fake.ports.values()), watched or {}, (), STALL_S)


def test_everything_arrives() -> None:
    with fake_fabric(FABRIC) as fake:
        flows = fake.flows(PATHS, 5)
        settled: list[int] = []
        exchange = exchange_of(fake)
        exchange.run(flows, 4, settled.append)
    assert [(flow.sent, flow.whole, flow.missing) for flow in flows] == [(5, 5, 0)] * 3
    assert sum(settled) == 15
    assert (exchange.faults, exchange.stalls, exchange.dead_switches) == ([], 0, [])


class HoldingFabric:
    """Keeps every packet back until the exchange waits, and then lets one go."""

    def __init__(self, fake: FakeFabric) -> None:
        self.held: list[bytes] = []
        self.most = 0
        self._port = fake.ports["h1", 0]
        fake.behaviour = self.hold

    def hold(self, arrival: bytes) -> list[bytes]:
        self.held.append(arrival)
        self.most = max(self.most, len(self.held))
        return []

    def release_one(self) -> None:
        if self.held:
            self._port.put(self.held.pop(0))


@pytest.mark.parametrize("window", [1, 3, BACK_TO_BACK_PACKETS, 100])
def test_no_more_than_the_window_is_in_flight(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_fabric(FABRIC) as fake:
        holding = HoldingFabric(fake)
        flow = fake.flow(LOCAL, 1, 300)
        exchange = exchange_of(fake)
        wait = exchange._wait

        def release_and_wait() -> int:
            holding.release_one()
            return wait()

        monkeypatch.setattr(exchange, "_wait", release_and_wait)
        exchange.run([flow], window)
    assert flow.whole == 300
    assert exchange.stalls == 0
    assert holding.most == window


def test_a_large_window_opens_one_packet_per_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_fabric(FABRIC) as fake:
        holding = HoldingFabric(fake)
        flow = fake.flow(LOCAL, 1, 100)
        exchange = exchange_of(fake)
        wait = exchange._wait
        in_flight = []

        def release_and_wait() -> int:
            in_flight.append(len(holding.held))
            holding.release_one()
            return wait()

        monkeypatch.setattr(exchange, "_wait", release_and_wait)
        exchange.run([flow], 60)
    first = BACK_TO_BACK_PACKETS
    assert in_flight[:40] == [*range(first, 61), *[60] * (40 - 61 + first)]


@given(lost=st.sets(st.integers(0, 11)), trimmed=st.sets(st.integers(0, 11)))
def test_every_packet_is_whole_or_trimmed_or_missing(lost: set[int], trimmed: set[int]) -> None:
    number = -1

    def behaviour(arrival: bytes) -> list[bytes]:
        nonlocal number
        number += 1
        if number in lost:
            return []
        if number in trimmed:
            return [frames.trimmed(arrival, FABRIC.trim.mrc_bytes, FABRIC.traffic.trimmed)]
        return [arrival]

    with fake_fabric(FABRIC, behaviour) as fake:
        flow = fake.flow(LOCAL, 1, 12, payload_bytes=256)
        exchange = Exchange(list(fake.ports.values()), {}, (), 0.001)
        exchange.run([flow], 12)
    assert flow.sent == 12
    assert flow.missing == len(lost)
    assert flow.trimmed_dscp == (
        {FABRIC.traffic.trimmed: len(trimmed - lost)} if trimmed - lost else {}
    )
    assert flow.whole == 12 - len(lost | trimmed)
    assert exchange.stalls == bool(lost)
    assert exchange.faults == []


def flip(arrival: bytes, offset: int) -> bytes:
    return arrival[:offset] + bytes((arrival[offset] ^ 1,)) + arrival[offset + 1 :]


@pytest.mark.parametrize("offset", [0, 21, 30, 60, 100, 140, -1], ids=str)
def test_a_changed_byte_is_a_fault(offset: int) -> None:
    with fake_fabric(FABRIC) as fake:
        flow = fake.flow(OVER_T1_0, 9, 1)
        at = offset % flow.write.frame_bytes
        fake.behaviour = lambda arrival: [flip(arrival, at)]
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert (flow.whole, flow.trimmed, flow.wrong, flow.missing) == (0, 0, 1, 1)
    assert exchange.stalls == 0  # it has arrived, after all
    assert exchange.faults[0].startswith("h2, plane 0: packet 0 of QP 9: byte")
    assert f"byte {at} " in exchange.faults[0]


def test_congestion_experienced_is_counted_and_no_fault() -> None:
    def mark(arrival: bytes) -> list[bytes]:
        return [arrival[:15] + bytes((arrival[15] | 0x30,)) + arrival[16:]]

    with fake_fabric(FABRIC, mark) as fake:
        flow = fake.flow(OVER_T1_0, 1, 3)
        exchange = exchange_of(fake)
        exchange.run([flow], 3)
    assert (flow.whole, flow.marked_ce, exchange.faults) == (3, 3, [])


def test_a_second_copy_is_a_fault() -> None:
    with fake_fabric(FABRIC, lambda arrival: [arrival, arrival]) as fake:
        flow = fake.flow(LOCAL, 1, 1)
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert flow.whole == 1
    assert exchange.faults == ["h1, plane 0: a packet came twice"]


def test_a_packet_at_the_wrong_host_is_a_fault_and_missing() -> None:
    with fake_fabric(FABRIC) as fake:

        def misdeliver(arrival: bytes) -> list[bytes]:
            fake.ports["h3", 0].put(arrival)
            return []

        fake.behaviour = misdeliver
        flow = fake.flow(LOCAL, 4, 1)
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert (flow.whole, flow.missing) == (0, 1)
    assert exchange.faults == ["h3, plane 0: packet 0 of QP 4 was for h1"]


def test_strange_frames_are_faults() -> None:
    with fake_fabric(FABRIC, lambda arrival: [b"\xff" * 60, arrival]) as fake:
        flow = fake.flow(LOCAL, 1, 1)
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert flow.whole == 1
    assert exchange.faults == ["h1, plane 0: a stray frame"]


def test_faults_are_kept_few_and_counted_all() -> None:
    with fake_fabric(FABRIC, lambda arrival: [flip(arrival, 140)]) as fake:
        flow = fake.flow(LOCAL, 1, 50)
        exchange = exchange_of(fake)
        exchange.run([flow], 10)
    assert exchange.fault_count == 50
    assert len(exchange.faults) < 50


def test_a_silent_fabric_is_given_up() -> None:
    with fake_fabric(FABRIC, lambda arrival: []) as fake:
        flows = fake.flows(PATHS, 100)
        settled: list[int] = []
        exchange = exchange_of(fake)
        exchange.run(flows, 2, settled.append)
        assert fake.carried == 2 * MAX_STALLS
    assert exchange.stalls == MAX_STALLS
    assert all(flow.cut_off and flow.missing == 100 for flow in flows)
    assert sum(settled) == 300


def test_a_late_packet_still_counts() -> None:
    late: list[bytes] = []

    def delay_first(arrival: bytes) -> list[bytes]:
        late.append(arrival)
        if len(late) == 1:
            return []
        return [*late, *late][1:3] if len(late) == 2 else [arrival]

    with fake_fabric(FABRIC, delay_first) as fake:
        flow = fake.flow(LOCAL, 1, 2)
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert (flow.whole, flow.missing, exchange.stalls) == (2, 0, 1)


def test_paths_over_a_switch_that_dies_are_given_up_at_once() -> None:
    alive, death = os.pipe()
    try:
        with fake_fabric(FABRIC) as fake:
            number = 0

            def die_at_third(arrival: bytes) -> list[bytes]:
                nonlocal number
                number += 1
                if number == 3:
                    os.write(death, b"x")
                over_dead = frames.key_of(arrival) in lost
                return [] if number >= 3 and over_dead else [arrival]

            flows = fake.flows(PATHS, 10)
            lost = {frames.PacketKey(1, psn) for psn in range(10)}
            fake.behaviour = die_at_third
            exchange = exchange_of(fake, {alive: "p0-t1-0"})
            exchange.run(flows, 2)
    finally:
        os.close(alive)
        os.close(death)
    over_t1_0, over_t1_1, local = flows
    assert exchange.dead_switches == ["p0-t1-0"]
    assert exchange.stalls == 0
    assert over_t1_0.cut_off and over_t1_0.missing > 0
    assert over_t1_1.whole == local.whole == 10


def test_nothing_is_sent_over_a_switch_that_is_dead_already() -> None:
    with fake_fabric(FABRIC) as fake:
        flows = fake.flows(PATHS, 4)
        exchange = Exchange(list(fake.ports.values()), {}, ["p0-t1-1"], STALL_S)
        exchange.run(flows, 2)
    assert [flow.sent for flow in flows] == [4, 0, 4]


def test_a_port_that_cannot_send_is_a_fault() -> None:
    with fake_fabric(FABRIC) as fake:

        def fail(arrival: bytes) -> list[bytes]:
            raise OSError(100, "Network is down")

        fake.behaviour = fail
        flow = fake.flow(LOCAL, 1, 1)
        exchange = exchange_of(fake)
        exchange.run([flow], 1)
    assert exchange.faults == ["h0 cannot send on plane 0: [Errno 100] Network is down"]
    assert flow.missing == 1
