"""Flow control between neighbours: pause frames travel, are obeyed, and save data from loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from reports.record import from_json
from reports.verdict import failures
from sim.loop import EventLoop
from sim.pfc import DATA_PRIORITY, PauseReceiver, PauseSender
from sim.pfc_frame import decode_pause, encode_pause, pause_ns
from sim.record import make_record
from sim.simulation import Simulation
from tests.sim.conftest import RunScenario, Simulate
from topologies.scenario_loader import (
    ScenarioFileError,
    find_scenario,
    load_scenario,
    parse_scenario,
)

#: Three racks of three hosts on one plane; nothing but flow control holds senders back
INCAST = """\
topology:
  planes: 1
  t0_per_plane: 3
  t1_per_plane: 2
  hosts_per_t0: 3
  trimming: {enabled: false}
  links:
    host: {rate: 100Gbps, delay: 500ns}
    fabric: {rate: 100Gbps, delay: 500ns}
  queues:
    host: {data_limit: 1MiB, control_limit: 256KiB}
    fabric: {data_limit: 1MiB, control_limit: 256KiB}
    pfc: {xoff: 60KiB, xon: 30KiB}
endpoint:
  congestion: {controller: none}
  timeout: 8
traffic:
  - incast: {name: incast, to: h0, fan_in: 5, size: 256KiB}
  - transfer: {name: victim, from: h8, to: h1, size: 256KiB}
"""
RATE_BPS = 100 * 10**9


def test_the_frame_is_the_standards() -> None:
    frame = encode_pause(0x02_00_00_00_00_07, {3: 0xFFFF, 5: 0})
    assert len(frame) + 4 == 64
    packet = Ether(frame)
    assert (packet.dst, packet.src, packet.type) == (
        "01:80:c2:00:00:01",
        "02:00:00:00:00:07",
        0x8808,
    )
    pause = packet[MACControlClassBasedFlowControl]
    assert (pause._op_code, pause.c3_enabled, pause.c5_enabled, pause.c0_enabled) == (
        0x0101,
        1,
        1,
        0,
    )
    assert (pause.c3_pause_time, pause.c5_pause_time) == (0xFFFF, 0)
    assert decode_pause(frame) == {3: 0xFFFF, 5: 0}


@pytest.mark.parametrize(
    ("first", "changed"), [(0, b"\x02"), (12, b"\x86\xdd"), (14, b"\x00\x01"), (20, None)]
)
def test_nothing_else_is_a_pause_frame(first: int, changed: bytes | None) -> None:
    frame = encode_pause(1, {3: 1})
    if changed is None:
        assert decode_pause(frame[:first]) is None
    else:
        assert decode_pause(frame[:first] + changed + frame[first + len(changed) :]) is None


class Node:
    """Writes down what it gets and what it is told."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.told: list[tuple[int, int, bool]] = []

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        self.got.append(frame)

    def set_port_paused(self, port: int, paused: bool, now_ns: int) -> None:
        self.told.append((now_ns, port, paused))


def test_a_pause_lasts_for_its_quanta_unless_it_is_renewed_or_ended() -> None:
    loop, node = EventLoop(), Node()
    receiver = PauseReceiver(node, loop, {0: RATE_BPS, 1: RATE_BPS})
    quanta = 1000
    length_ns = pause_ns(quanta, RATE_BPS)
    assert length_ns == 5120
    stop, go = encode_pause(1, {DATA_PRIORITY: quanta}), encode_pause(1, {DATA_PRIORITY: 0})
    other = encode_pause(1, {DATA_PRIORITY + 1: quanta})
    for at_ns, port, frame in (
        (0, 0, stop),
        (10, 1, stop),
        (1000, 1, go),
        (2000, 0, stop),
        (2500, 0, other),
        (2600, 1, go),
        (20_000, 0, b"data" * 20),
    ):
        loop.at(at_ns, receiver.arrive, port, frame)
    loop.run()
    assert node.told == [
        (0, 0, True),
        (10, 1, True),
        (1000, 1, False),
        (2000 + length_ns, 0, False),
    ]
    assert node.got == [b"data" * 20]
    assert receiver.frames == 6
    assert receiver.paused_ns == {0: 2000 + length_ns, 1: 990}


def test_a_pause_is_renewed_until_it_is_over() -> None:
    loop = EventLoop()
    sent: list[tuple[int, int, int]] = []

    def send(port: int, frame: bytes, now_ns: int) -> None:
        quanta = decode_pause(frame)
        assert quanta is not None
        sent.append((now_ns, port, quanta[DATA_PRIORITY]))

    sender = PauseSender(send, loop, {4: 9}, {4: RATE_BPS}, quanta=1000)
    loop.at(100, lambda now_ns, *_: sender.on_stop(4, 0, True, now_ns))
    loop.at(6000, lambda now_ns, *_: sender.on_stop(4, 0, False, now_ns))
    loop.run()
    assert sent == [(100, 4, 1000), (2660, 4, 1000), (5220, 4, 1000), (6000, 4, 0)]
    assert sender.pauses == 1
    sender.link_up(4, 7000)
    assert len(sent) == 4


def test_an_incast_loses_nothing_and_a_victim_pays(run_scenario: RunScenario) -> None:
    paused = run_scenario(base=INCAST)
    assert paused.failures == [] and paused.unaccounted == 0
    assert paused.lost == {} and paused.total["retransmissions"] == 0
    totals = paused.pauses
    assert totals is not None and totals.pauses > 10
    assert totals.frames >= 2 * totals.pauses
    assert totals.hosts_paused_ns > 0 and totals.switches_paused_ns > 0
    assert 0 < totals.frames_received <= totals.frames
    of_hosts = [each for each in totals.ports if each.node.startswith("h")]
    assert sum(each.paused_ns for each in of_hosts) == totals.hosts_paused_ns
    assert sum(each.paused_ns for each in totals.ports) == (
        totals.hosts_paused_ns + totals.switches_paused_ns
    )
    assert [each.paused_ns for each in totals.ports] == sorted(
        (each.paused_ns for each in totals.ports), reverse=True
    )
    # The victim's own NIC is held up
    assert "h8" in {each.node for each in of_hosts}
    # Headroom was needed, and was enough
    assert totals.peak_buffer_bytes > 60 * 1024
    # Alone, the victim shares nothing but an uplink or two with anybody
    alone = run_scenario(
        base=INCAST, changes=["traffic[0].incast.fan_in=1", "traffic[0].incast.size=4KiB"]
    )
    assert paused.flow("victim").goodput_bps < 0.6 * alone.flow("victim").goodput_bps


def test_pauses_stand_in_the_record() -> None:
    simulation = Simulation(parse_scenario(INCAST, "incast"), along_time=True)
    result = simulation.run()
    record = make_record(simulation, result)
    assert record.pauses is not None and result.pauses is not None
    assert record.pauses.frames_sent == result.pauses.frames
    assert record.pauses.frames_received == result.pauses.frames_received
    assert record.pauses.ports[0].paused_ns == result.pauses.ports[0].paused_ns
    assert from_json(json.loads(json.dumps(record.to_json()))) == record


def test_the_ready_scenario_shows_who_pays() -> None:
    """It expects itself that the victim suffers; without pauses and the incast it does not."""
    path = find_scenario("eight-plane-incast-pfc")
    scenario = load_scenario(path)
    result = Simulation(scenario).run()
    assert failures(scenario, result) == []
    alone = load_scenario(path, changes=["traffic[0].incast.size=4KiB"])
    result = Simulation(alone).run()
    assert result.pauses is not None and result.pauses.pauses == 0
    told = failures(alone, result)
    assert any(line.startswith("victim: goodput is 97") for line in told)


def test_without_it_the_same_buffers_lose(run_scenario: RunScenario) -> None:
    changes = ["topology.queues.pfc=null", "topology.queues.host.data_limit=120KiB"]
    result = run_scenario(base=INCAST, changes=changes)
    assert result.pauses is None
    assert result.lost["data queue full"] > 0 and result.unaccounted == 0


def test_too_little_headroom_loses_and_says_so(run_scenario: RunScenario) -> None:
    result = run_scenario(base=INCAST, changes=["topology.queues.pfc.headroom=4KiB"])
    assert result.lost["ingress buffer full"] > 0
    assert set(result.lost) == {"ingress buffer full"} and result.unaccounted == 0
    assert all(flow.done for flow in result.flows)


def test_control_is_never_paused(simulate: Simulate) -> None:
    traffic = (
        "traffic=[{transfer: {name: there, from: h8, to: h1, size: 256KiB}},"
        " {transfer: {name: back, from: h1, to: h8, size: 256KiB}}]"
    )
    simulation = simulate(base=INCAST, changes=[traffic])
    there, back = simulation.flows
    host = simulation.network.hosts["h8"]
    simulation.loop.run(until_ns=10_000)
    host.set_port_paused(0, True, simulation.loop.now_ns)
    simulation.loop.run(until_ns=20_000)
    sent = host.plane_bytes[0]
    assert 0 < sent < 256 * 1024
    # Its answers leave, so what is written to it is done long before it may send again
    simulation.loop.run(until_ns=100_000)
    assert back.is_done and not there.is_done
    assert host.plane_bytes[0] == sent
    host.set_port_paused(0, False, simulation.loop.now_ns)
    assert simulation.run().flow("there").done


def test_pause_frames_stand_in_captures(simulate: Simulate, tmp_path: Path) -> None:
    simulation = simulate(base=INCAST, pcap=tmp_path)
    result = simulation.run()
    assert result.pauses is not None
    seen = 0
    for path in tmp_path.glob("h*.pcap"):
        with RawPcapReader(str(path)) as reader:
            seen += sum(decode_pause(data) is not None for data, _ in reader)
    receivers = [host.pause_receiver for host in simulation.network.hosts.values()]
    assert 0 < seen == sum(each.frames for each in receivers if each)
    delay_ns = 500
    sent, got = (
        [
            meta.sec * 10**9 + meta.usec
            for data, meta in RawPcapReader(str(tmp_path / f"{port}.pcap"))
            if decode_pause(data) is not None
        ]
        for port in ("p0-t0-1-port0", "h3-plane0")
    )
    assert sent and got == [time_ns + delay_ns for time_ns in sent][: len(got)]


@pytest.mark.parametrize(
    "fault",
    [
        "link_down: {link: [p0-t0-1, p0-t1-0], at: 20us, for: 40us}",
        "link_down: {host: h0, at: 20us, for: 40us}",
        "switch_reboot: {switch: p0-t1-1, at: 20us, for: 40us}",
        "switch_dead: {switch: p0-t1-1, at: 20us, for: 40us}",
        "loss: {tier: fabric, probability: 0.05}",
        "corruption: {tier: host, probability: 0.05}",
        "slow_link: {host: h0, rate: 20Gbps, at: 20us, for: 40us}",
    ],
)
def test_books_balance_and_nobody_is_paused_for_ever(run_scenario: RunScenario, fault: str) -> None:
    result = run_scenario(f"faults:\n  - {fault}\n", base=INCAST, changes=["endpoint.timeout=6"])
    assert result.unaccounted == 0
    assert all(flow.done for flow in result.flows)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("topology.queues.host.data_limit=400KiB", "queues.host.data_limit: 409600 bytes are full"),
        ("topology.queues.fabric.data_limit=90KiB", "queues.fabric.data_limit: 92160 bytes"),
        ("topology.links.fabric.rate=null", "links.fabric has no rate"),
        ("topology.queues.pfc.xon=61KiB", r"xon \(62464 bytes\) is above xoff"),
        ("topology.queues.pfc.xoff=12", "12 is not a size"),
    ],
)
def test_settings_that_cannot_be(simulate: Simulate, change: str, words: str) -> None:
    with pytest.raises(ScenarioFileError, match=words):
        simulate(base=INCAST, changes=[change])
