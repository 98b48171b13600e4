"""Routes of plain IPv6 follow the links after the convergence time, and where they must only."""

from __future__ import annotations

from controller import fabric_program as p4
from sim.simulation import Simulation
from softswitch.tables import GroupRef, MemberRef
from tests.sim.conftest import SMALL, Simulate

#: One plane of three racks; one EV, so that all data of the flow takes one path
ONE_PATH = (
    SMALL.replace("planes: 2", "planes: 1")
    .replace("t0_per_plane: 2", "t0_per_plane: 3")
    .replace("hosts_per_t0: 2", "hosts_per_t0: 1")
    .replace("to: h2, size: 1MiB", "to: h1, size: 1MiB")
    + """\
endpoint:
  forwarding: ecmp
  timeout: 5
  exponential_retries: 25
  evs: {mode: explicit, evs: [0x1]}
routing: {convergence: 300us}
duration: 5ms
"""
)
CONVERGENCE_NS = 300_000
T0 = {f"p0-t0-{rack}" for rack in range(3)}


def uplink_of_the_flow(simulation: Simulation) -> str:
    """The T1 that the flow's data takes."""
    simulation.loop.run(until_ns=20_000)
    carried = {
        uplink: simulation.network.switches[f"p0-t1-{uplink}"].count("FabricIngress.received")
        for uplink in range(2)
    }
    return f"p0-t1-{max(carried, key=lambda uplink: carried[uplink])}"


def routes(simulation: Simulation, name: str) -> dict[int, tuple[int, ...]]:
    """Ports by rack, as they stand in a switch's tables."""
    node = simulation.network.switches[name]
    pipeline = node.switch.pipeline
    assert pipeline is not None
    profile = pipeline.action_profiles[p4.ECMP]
    racks = {node.fabric.addresses.t0_prefix(rack): rack for rack in range(3)}
    found = {}
    for entry in pipeline.tables[p4.IPV6_ROUTE.name].entries():
        (prefix,) = entry.match
        if prefix not in racks:
            continue
        if isinstance(entry.target, MemberRef):
            calls = [profile.members[entry.target.member_id]]
        else:
            assert isinstance(entry.target, GroupRef)
            calls = profile.active_members(entry.target.group_id)
        found[racks[prefix]] = tuple(call.args[0] for call in calls)
    return found


#: Port 0 of a T0 is its host's; on a T1 ports are racks
PLANNED_T0: dict[int, tuple[int, ...]] = dict.fromkeys(range(3), (1, 2))
PLANNED_T1: dict[int, tuple[int, ...]] = {rack: (rack,) for rack in range(3)}


def planned(name: str) -> dict[int, tuple[int, ...]]:
    if name not in T0:
        return PLANNED_T1
    return {rack: ports for rack, ports in PLANNED_T0.items() if f"p0-t0-{rack}" != name}


def all_routes(simulation: Simulation) -> dict[str, dict[int, tuple[int, ...]]]:
    return {name: routes(simulation, name) for name in simulation.network.switches}


def cut(t1: str, *, rack: int, extra: str = "") -> str:
    return f"faults=[{{link_down: {{name: cut, link: [p0-t0-{rack}, {t1}], at: 30us{extra}}}}}]"


def test_a_flow_stalls_until_routing_has_converged(simulate: Simulate) -> None:
    t1 = uplink_of_the_flow(simulate(base=ONE_PATH))
    for rack in (0, 1):
        simulation = simulate(base=ONE_PATH, changes=[cut(t1, rack=rack)])
        flow = simulation.flows[0]
        simulation.loop.run(until_ns=40_000)
        delivered = flow.delivered_bytes()
        simulation.loop.run(until_ns=30_000 + CONVERGENCE_NS)
        assert flow.delivered_bytes() == delivered < 1 << 20
        result = simulation.run()
        assert result.flows[0].done and result.unaccounted == 0
        # And without routing, never: static means static
        static = simulate(
            base=ONE_PATH, changes=[cut(t1, rack=rack), "routing.convergence=null", "duration=2ms"]
        )
        assert not static.run().flows[0].done
        assert all_routes(static) == {name: planned(name) for name in static.network.switches}


def test_exactly_the_routes_over_the_link_change_and_come_back(simulate: Simulate) -> None:
    change = cut("p0-t1-1", rack=2, extra=", for: 1ms")
    simulation = simulate(base=ONE_PATH, changes=[change, "stop=duration"])
    simulation.loop.run(until_ns=30_000 + CONVERGENCE_NS - 1)
    before = {name: planned(name) for name in simulation.network.switches}
    assert all_routes(simulation) == before
    simulation.loop.run(until_ns=30_000 + CONVERGENCE_NS)
    now = all_routes(simulation)
    assert now["p0-t0-2"] == {0: (1,), 1: (1,)}
    assert now["p0-t0-0"] == {1: (1, 2), 2: (1,)}
    assert now["p0-t0-1"] == {0: (1, 2), 2: (1,)}
    assert now["p0-t1-0"] == PLANNED_T1
    assert now["p0-t1-1"] == {0: (0,), 1: (1,)}
    simulation.loop.run(until_ns=1_030_000 + CONVERGENCE_NS)
    assert all_routes(simulation) == before
    for node in simulation.network.switches.values():
        assert node.switch.pipeline is not None
        groups = node.switch.pipeline.action_profiles[p4.ECMP].groups
        assert len(groups) == (1 if node.name in T0 else 0)


def test_a_rack_that_nothing_reaches_has_no_route(simulate: Simulate) -> None:
    change = 'faults=[{link_down: {link: [p0-t0-1, "p0-t1-*"], at: 30us, for: 1ms}}]'
    simulation = simulate(base=ONE_PATH, changes=[change])
    simulation.loop.run(until_ns=31_000 + CONVERGENCE_NS)
    assert routes(simulation, "p0-t0-0") == {2: (1, 2)}
    assert routes(simulation, "p0-t0-1") == {}
    result = simulation.run()
    assert result.lost["no route"] > 0
    assert result.flows[0].done and result.unaccounted == 0


def test_links_of_one_moment_are_seen_together_and_others_in_their_order(
    simulate: Simulate,
) -> None:
    change = (
        "faults=[{link_down: {link: [p0-t0-1, p0-t1-0], at: 30us}},"
        " {link_down: {link: [p0-t0-1, p0-t1-1], at: 130us}},"
        " {link_down: {link: [p0-t0-2, p0-t1-1], at: 130us}}]"
    )
    simulation = simulate(base=ONE_PATH, changes=[change, "stop=duration"])
    seen = []
    for now_us in (329, 330, 429, 430):
        simulation.loop.run(until_ns=now_us * 1000)
        seen.append(routes(simulation, "p0-t0-0"))
    assert seen[0] == {1: (1, 2), 2: (1, 2)}
    assert seen[1] == seen[2] == {1: (2,), 2: (1, 2)}
    assert seen[3] == {2: (1,)}


def test_a_switch_that_swallows_everything_is_routed_round(simulate: Simulate) -> None:
    change = "faults=[{switch_dead: {switch: p0-t1-0, at: 30us, for: 1ms}}]"
    simulation = simulate(base=ONE_PATH, changes=[change, "stop=duration"])
    simulation.loop.run(until_ns=30_000 + CONVERGENCE_NS)
    assert routes(simulation, "p0-t0-0") == {1: (2,), 2: (2,)}
    simulation.loop.run(until_ns=1_030_000 + CONVERGENCE_NS)
    assert routes(simulation, "p0-t0-0") == {1: (1, 2), 2: (1, 2)}


def test_a_switch_that_boots_begins_with_the_plan(simulate: Simulate) -> None:
    change = (
        "faults=[{link_down: {link: [p0-t0-1, p0-t1-0], at: 10us}},"
        " {switch_reboot: {switch: p0-t0-0, at: 20us, for: 1ms}}]"
    )
    simulation = simulate(base=ONE_PATH, changes=[change, "stop=duration"])
    simulation.loop.run(until_ns=1_020_000)
    assert routes(simulation, "p0-t0-0") == planned("p0-t0-0")
    simulation.loop.run(until_ns=1_020_000 + CONVERGENCE_NS)
    assert routes(simulation, "p0-t0-0") == {1: (2,), 2: (1, 2)}
