"""Each fault does what it says, for as long as it says, and counts what it costs."""

from __future__ import annotations

import pytest

from host.nic import Nic
from tests.sim.conftest import SMALL, RunScenario, Simulate

LONG = SMALL.replace("size: 1MiB", "size: 8MiB")


def test_a_link_that_is_cut_loses_what_is_on_it_and_what_is_sent_into_it(
    run_scenario: RunScenario,
) -> None:
    extra = "faults:\n  - link_down: {name: cut, link: [p0-t0-0, p0-t1-1], at: 50us, for: 50us}\n"
    result = run_scenario(extra, base=LONG)
    cut = result.fault("cut")
    assert result.failures == []
    assert 0 < cut.lost == result.lost["link down"]
    assert cut.last_packet_ns is not None and 0 <= cut.last_packet_ns < 50_000
    assert cut.packets_sent > 0


def test_a_dead_switch_keeps_its_links_up(run_scenario: RunScenario) -> None:
    extra = "faults:\n  - switch_dead: {name: dead, switch: p0-t1-1, at: 50us, for: 50us}\n"
    result = run_scenario(extra, base=LONG)
    assert result.failures == []
    assert result.fault("dead").lost == result.lost["switch dead"] > 0
    assert "link down" not in result.lost
    assert result.nic_events == {}


def test_a_nic_hears_of_its_own_ports_only(simulate: Simulate) -> None:
    extra = "faults:\n  - port_down: {name: port, host: h2, plane: 1, at: 50us}\n"
    simulation = simulate(extra, base=LONG)
    simulation.loop.run(until_ns=55_000)
    assert simulation.network.hosts["h2"].nic.ports_up() == 0b01
    assert simulation.network.hosts["h0"].nic.ports_up() == 0b11
    assert not simulation.network.switches["p1-t0-1"].switch.port_is_up(0)


def test_a_reboot_brings_the_tables_back(simulate: Simulate) -> None:
    extra = "faults:\n  - switch_reboot: {name: boot, switch: p0-t0-1, at: 50us, for: 20us}\n"
    simulation = simulate(extra, base=LONG)
    node = simulation.network.switches["p0-t0-1"]
    before = node.switch.pipeline
    assert before is not None
    simulation.loop.run(until_ns=60_000)
    assert simulation.network.hosts["h2"].nic.ports_up() == 0b10
    result = simulation.run()
    after = node.switch.pipeline
    assert after is not None and after is not before
    sizes = [
        {name: len(list(t.entries())) for name, t in p.tables.items()} for p in (before, after)
    ]
    assert sizes[0] == sizes[1]
    assert simulation.network.hosts["h2"].nic.ports_up() == 0b11
    assert result.flows[0].done and result.unaccounted == 0
    # Plane 0 carries data again
    carried = sum(after.counters["FabricEgress.sent_data"].packets)
    assert carried > 0


def test_overlapping_faults_hold_a_link_down_until_the_last_is_over(simulate: Simulate) -> None:
    extra = """\
faults:
  - link_down: {link: [p0-t0-0, p0-t1-1], at: 10us, for: 20us}
  - link_down: {switch: p0-t1-1, at: 20us, for: 20us}
"""
    simulation = simulate(extra, base=LONG)
    switch = simulation.network.switches["p0-t0-0"].switch
    wire = simulation.network.wires["p0-t0-0--p0-t1-1"][0]
    states = []
    for now_ns in (9_999, 10_000, 29_000, 31_000, 39_000, 40_000):
        simulation.loop.run(until_ns=now_ns)
        states.append((switch.port_is_up(3), wire.up))
    assert [up for up, _ in states] == [True, False, False, False, False, True]
    assert [up for _, up in states] == [True, False, False, False, False, True]


@pytest.mark.parametrize("direction", ["up", "down", "both"])
def test_loss_has_a_direction(simulate: Simulate, direction: str) -> None:
    extra = (
        f"faults:\n  - loss: {{name: loss, tier: fabric, probability: 0.05, "
        f"direction: {direction}}}\n"
    )
    simulation = simulate(extra)
    result = simulation.run()
    lost = [0, 0]
    for link in simulation.network.links.values():
        if link.tier.value == "fabric":
            for index, wire in enumerate(simulation.network.wires[link.name]):
                lost[index] += wire.lost["random loss"]
    assert (lost[0] > 0) == (direction in ("up", "both"))
    assert (lost[1] > 0) == (direction in ("down", "both"))
    assert result.fault("loss").lost == sum(lost)


def test_loss_on_a_path_touches_no_other(simulate: Simulate) -> None:
    extra = """\
faults:
  - loss: {name: loss, path: {from: h0, to: h2, plane: 1, uplink: 1}, probability: 1.0}
"""
    simulation = simulate(extra, changes=["endpoint.timeout=3"])
    result = simulation.run()
    source = simulation.network.hosts["h0"]
    lost = [wire.lost["random loss"] for wire in source.wires]
    assert lost[0] == 0 < lost[1]
    # All data on that path is lost, first transmissions and repeats alike, and probes with it
    effect = result.fault("loss")
    assert effect.lost == lost[1]
    assert 0 < effect.packets_sent <= effect.lost
    assert result.flows[0].done


def test_a_slow_link_is_slow_and_recovers(simulate: Simulate) -> None:
    extra = "faults:\n  - slow_link: {name: slow, host: h0, rate: 10Gbps, at: 20us, for: 100us}\n"
    simulation = simulate(extra, base=LONG, changes=["measure.interval=1us"])
    simulation.run()
    delivered = simulation.meter.delivered()

    def rate_bps(start_us: int, end_us: int) -> float:
        return (delivered[end_us] - delivered[start_us]) * 8e6 / (end_us - start_us)

    assert rate_bps(8, 18) > 150e9
    assert 15e9 < rate_bps(60, 120) < 25e9
    assert rate_bps(200, 250) > 150e9


def test_delay_delays(run_scenario: RunScenario) -> None:
    small = ["traffic[0].transfer.size=4KiB"]
    plain = run_scenario(changes=small).flows[0].completion_ns
    extra = "faults:\n  - delay: {tier: fabric, extra: 10us, direction: up}\n"
    slow = run_scenario(extra, changes=small).flows[0].completion_ns
    assert plain is not None and slow is not None
    # Once for the data and once for its answer
    assert slow - plain == 20_000


def test_ports_that_change_at_once_are_told_in_the_right_order(simulate: Simulate) -> None:
    """Their updates bear one timestamp and overtake each other on different planes."""
    extra = """\
faults:
  - link_down: {link: [h2, "p[0-2]-t0-1"], at: 20us, for: 20us}
"""
    simulation = simulate(extra, base=LONG, changes=["topology.planes=4"])
    address = simulation.network.hosts["h2"].config.address
    told = []
    for now_ns in (30_000, 60_000):
        simulation.loop.run(until_ns=now_ns)
        nic = simulation.network.hosts["h0"].nic
        assert isinstance(nic, Nic)
        peer = nic.peer(address)
        assert peer is not None
        told.append(peer.planes_up)
    assert told == [0b1000, 0b1111]
