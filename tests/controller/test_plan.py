"""The plan: packets that follow the planned tables get where their path says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import fabric_program as p4
from controller.entries import (
    ActionCall,
    Entity,
    Group,
    GroupRef,
    Member,
    MemberRef,
    TableEntry,
)
from controller.plan import SwitchPlan, plan
from topologies.addressing import Role, SwitchId
from topologies.generate import generate
from topologies.loader import load_topology, ready_topologies
from topologies.model import EcnSettings, Fabric, Host, LinkEnd, LoadBalancing

TWO_PLANE = load_topology(ready_topologies()["two-plane"])

fabrics = st.builds(
    generate, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4)
)


class PlannedSwitch:
    """Forwards by a plan's entries, as far as this test needs it: where, not what."""

    def __init__(self, switch_plan: SwitchPlan) -> None:
        self.entities = list(switch_plan.entities())
        self.tables: dict[str, dict[object, TableEntry]] = {}
        self.members: dict[int, int] = {}
        self.groups: dict[int, tuple[int, ...]] = {}
        for entity in self.entities:
            match entity:
                case TableEntry():
                    table = self.tables.setdefault(entity.table, {})
                    assert entity.match not in table, "two entries with one key"
                    table[entity.match] = entity
                case Member():
                    self.members[entity.member_id] = entity.call.args[0]
                case Group():
                    self.groups[entity.group_id] = tuple(id for id, _ in entity.members)

    def call(self, table: p4.Table, key: int) -> ActionCall | None:
        entry = self.tables.get(table.name, {}).get((key,))
        if entry is None:
            return None
        assert isinstance(entry.target, ActionCall)
        return entry.target

    def forward_usid(self, address: int) -> tuple[int, int] | None:
        """(port, new address), or None where the switch drops."""
        if self.call(p4.MY_SID, address >> 80) is None:
            return None
        block, rest = address >> 96, address & (1 << 80) - 1
        address = block << 96 | rest << 16
        call = self.call(p4.NEXT_SID, address >> 80)
        return None if call is None else (call.args[0], address)

    def route(self, address: int) -> list[int]:
        """The ports that longest-prefix routing may choose."""
        best: tuple[int, TableEntry] | None = None
        for match, entry in self.tables[p4.IPV6_ROUTE.name].items():
            assert isinstance(match, tuple) and isinstance(match[0], tuple)
            value, length = match[0]
            if IPv6Address(address) in IPv6Network((value, length)) and (
                best is None or length > best[0]
            ):
                best = (length, entry)
        if best is None:
            return []
        match best[1].target:
            case MemberRef(member_id):
                return [self.members[member_id]]
            case GroupRef(group_id):
                return [self.members[member_id] for member_id in self.groups[group_id]]
            case _:
                raise AssertionError(best)


class PlannedFabric:
    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.switches = {p.switch.name: PlannedSwitch(p) for p in plan(fabric)}
        self.peers = {
            LinkEnd(switch.name, port.number): port.peer
            for switch in fabric.switches()
            for port in fabric.ports(switch.id)
        }

    def send_usid(self, host: Host, plane: int, address: int) -> tuple[list[str], LinkEnd | None]:
        """The switches that a carrier crosses and where it arrives; None where it is dropped."""
        at, crossed = f"p{plane}-t0-{host.id.t0}", list[str]()
        while True:
            crossed.append(at)
            step = self.switches[at].forward_usid(address)
            if step is None:
                return crossed, None
            port, address = step
            peer = self.peers[LinkEnd(at, port)]
            if peer.is_host:
                return crossed, peer
            at = peer.node

    def reach(self, at: str, address: int) -> Counter[str]:
        """Where plain IPv6 may end, over every choice of ECMP; 'dropped' is one of the places."""
        ports = self.switches[at].route(address)
        if not ports:
            return Counter({"dropped": 1})
        ends: Counter[str] = Counter()
        for port in ports:
            peer = self.peers[LinkEnd(at, port)]
            if peer.is_host:
                ends[peer.node] += 1
            else:
                ends.update(self.reach(peer.node, address))
        return ends


@settings(max_examples=25, deadline=None)
@given(fabrics)
def test_every_path_of_every_pair_arrives_over_its_switches(fabric: Fabric) -> None:
    planned = PlannedFabric(fabric)
    for source in fabric.hosts():
        for destination in fabric.hosts():
            for path in fabric.paths(source, destination):
                carrier = fabric.addresses.carrier_of_path(path)
                crossed, end = planned.send_usid(source, path.plane, carrier)
                assert crossed == [switch.name for switch in path.switches]
                assert end == LinkEnd(destination.name, path.plane)


@settings(max_examples=15, deadline=None)
@given(fabrics)
def test_self_probes_come_back(fabric: Fabric) -> None:
    planned = PlannedFabric(fabric)
    for host in fabric.hosts():
        for plane in range(fabric.planes):
            home = LinkEnd(host.name, plane)
            _, end = planned.send_usid(host, plane, fabric.addresses.t0_probe(plane, host.id))
            assert end == home
            for uplink in range(fabric.t1_per_plane):
                probe = fabric.addresses.t1_probe(plane, host.id, uplink)
                crossed, end = planned.send_usid(host, plane, probe)
                assert (crossed[1], end) == (f"p{plane}-t1-{uplink}", home)


@settings(max_examples=15, deadline=None)
@given(fabrics)
def test_plain_ipv6_arrives_over_every_uplink(fabric: Fabric) -> None:
    planned = PlannedFabric(fabric)
    for source in fabric.hosts():
        for destination in fabric.hosts():
            address = fabric.addresses.host_address(destination.id)
            ends = planned.reach(f"p0-t0-{source.id.t0}", address)
            ways = 1 if source.id.t0 == destination.id.t0 else fabric.t1_per_plane
            assert ends == {destination.name: ways}


def test_addresses_that_no_host_has_do_not_go_round() -> None:
    planned = PlannedFabric(TWO_PLANE)
    nobody = TWO_PLANE.addresses.t0_prefix(1)[0] | 200
    assert planned.reach("p0-t0-0", nobody) == {"dropped": TWO_PLANE.t1_per_plane}
    assert planned.reach("p0-t0-1", nobody) == {"dropped": 1}
    assert planned.reach("p0-t0-0", int(IPv6Address("2001:db8::1"))) == {"dropped": 1}


def test_a_carrier_of_another_plane_is_dropped() -> None:
    planned = PlannedFabric(TWO_PLANE)
    host, other = TWO_PLANE.host("h0"), TWO_PLANE.host("h2")
    path = next(path for path in TWO_PLANE.paths(host, other) if path.plane == 1)
    carrier = TWO_PLANE.addresses.carrier_of_path(path)
    assert planned.send_usid(host, 0, carrier) == (["p0-t0-0"], None)


def entities_of(fabric: Fabric, name: str) -> list[Entity]:
    return list(SwitchPlan(fabric, fabric.switch(name)).entities())


def calls(entities: list[Entity], table: p4.Table) -> dict[int, ActionCall]:
    found = {}
    for entity in entities:
        if isinstance(entity, TableEntry) and entity.table == table.name:
            assert isinstance(entity.target, ActionCall)
            (key,) = entity.match
            assert isinstance(key, int)
            found[key] = entity.target
    return found


def test_queue_control_of_a_t0() -> None:
    entities = entities_of(TWO_PLANE, "p0-t0-0")
    assert calls(entities, p4.PORT_QUEUE) == {
        0: ActionCall(p4.SET_LIMITS.name, (65536, 65536, 16)),
        1: ActionCall(p4.SET_LIMITS.name, (65536, 65536, 16)),
        2: ActionCall(p4.SET_LIMITS.name, (65536, 65536, 12)),
        3: ActionCall(p4.SET_LIMITS.name, (65536, 65536, 12)),
    }
    assert calls(entities, p4.ECN_MARKING) == {
        2: ActionCall(p4.SET_MARKING.name, (16384, 49152, 65535)),
        3: ActionCall(p4.SET_MARKING.name, (16384, 49152, 65535)),
    }
    assert calls(entities, p4.TRIM_SIZE) == {
        41: ActionCall(p4.KEEP.name, (142,)),
        17: ActionCall(p4.KEEP.name, (102,)),
    }
    assert {dscp: call.action for dscp, call in calls(entities, p4.TRAFFIC_CLASS).items()} == {
        46: p4.SET_CONTROL.name,
        12: p4.SET_CONTROL.name,
        16: p4.SET_CONTROL.name,
        4: p4.SET_TRIMMABLE.name,
        8: p4.SET_TRIMMABLE.name,
        0: p4.SET_NO_TRIM.name,
    }


def test_a_t1_trims_and_marks_on_every_port() -> None:
    entities = entities_of(TWO_PLANE, "p1-t1-0")
    assert set(calls(entities, p4.ECN_MARKING)) == {0, 1}
    assert {call.args[2] for call in calls(entities, p4.PORT_QUEUE).values()} == {12}


@pytest.mark.parametrize(
    ("probability", "expected"), [(0.0, 0), (0.5, 32768), (1.0, 65535), (1 / 65536, 1)]
)
def test_probability_counts_in_65536ths(probability: float, expected: int) -> None:
    queue = replace(TWO_PLANE.fabric_queue, ecn=EcnSettings(1, 2, probability))
    fabric = replace(TWO_PLANE, fabric_queue=queue)
    marking = calls(entities_of(fabric, "p0-t1-0"), p4.ECN_MARKING)
    assert marking[0].args == (1, 2, expected)


def test_without_trimming_everything_else_stays() -> None:
    fabric = replace(TWO_PLANE, trim=replace(TWO_PLANE.trim, enabled=False))
    before = {e.key: e.value for e in entities_of(TWO_PLANE, "p0-t0-0")}
    after = {e.key: e.value for e in entities_of(fabric, "p0-t0-0")}
    assert before.keys() == after.keys()
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("table", p4.TRAFFIC_CLASS.name, (dscp,), 0) for dscp in (4, 8)}
    for key in changed:
        assert after[key] == ActionCall(p4.SET_NO_TRIM.name, ())


def test_without_ecn_there_is_no_marking() -> None:
    queue = replace(TWO_PLANE.fabric_queue, ecn=None)
    fabric = replace(TWO_PLANE, fabric_queue=queue)
    assert calls(entities_of(fabric, "p0-t1-0"), p4.ECN_MARKING) == {}


def test_marking_towards_hosts_where_it_is_asked_for() -> None:
    queue = replace(TWO_PLANE.host_queue, ecn=EcnSettings(1, 2))
    fabric = replace(TWO_PLANE, host_queue=queue)
    marking = calls(entities_of(fabric, "p0-t0-0"), p4.ECN_MARKING)
    assert {port: call.args[0] for port, call in marking.items()} == {
        0: 1, 1: 1, 2: 16384, 3: 16384,
    }  # fmt: skip


def test_t0s_spray_every_class_where_they_balance_by_packet() -> None:
    fabric = replace(TWO_PLANE, load_balancing=LoadBalancing.PACKET)
    spraying = calls(entities_of(fabric, "p0-t0-0"), p4.SPRAYING)
    assert spraying == dict.fromkeys((46, 12, 16, 4, 8, 0), ActionCall(p4.SPRAY.name, ()))
    assert calls(entities_of(fabric, "p0-t1-0"), p4.SPRAYING) == {}
    before, after = (set(map(repr, entities_of(each, "p0-t0-0"))) for each in (TWO_PLANE, fabric))
    assert before < after and len(after - before) == len(spraying)


def test_neighbors_are_the_two_ends_of_the_link() -> None:
    for switch in TWO_PLANE.switches():
        neighbors = calls(entities_of(TWO_PLANE, switch.name), p4.NEIGHBOR)
        for port in TWO_PLANE.ports(switch.id):
            assert neighbors[port.number].args == (port.mac, port.peer_mac)


@given(fabrics)
@settings(max_examples=15, deadline=None)
def test_rows_and_entities_are_the_same_number(fabric: Fabric) -> None:
    for switch_plan in plan(fabric):
        rows = sum(len(list(block.rows)) for block in switch_plan.blocks())
        assert rows == len(list(switch_plan.entities()))


def test_ids_are_never_the_wildcard() -> None:
    for entity in entities_of(TWO_PLANE, "p0-t0-0"):
        match entity:
            case Member():
                assert entity.member_id > 0
            case Group():
                assert entity.group_id > 0


def test_full_scale_switches_by_count() -> None:
    fabric = load_topology(ready_topologies()["paper-scale"])
    t0 = Counter(
        entity.table if isinstance(entity, TableEntry) else type(entity).__name__
        for entity in SwitchPlan(fabric, fabric.switch("p7-t0-511")).entities()
    )
    assert t0["Member"] == 512
    assert t0[p4.NEXT_SID.name] == 512
    assert t0[p4.IPV6_ROUTE.name] == 256 + 511
    assert t0[p4.ECN_MARKING.name] == 256
    t1 = Counter(
        entity.table if isinstance(entity, TableEntry) else type(entity).__name__
        for entity in SwitchPlan(fabric, fabric.switch("p7-t1-255")).entities()
    )
    assert (t1["Group"], t1[p4.NEXT_SID.name], t1[p4.IPV6_ROUTE.name]) == (0, 512, 512)


def test_own_sid_is_the_switch_s() -> None:
    switch = SwitchId(1, Role.T1, 1)
    own = calls(entities_of(TWO_PLANE, switch.name), p4.MY_SID)
    assert own == {TWO_PLANE.addresses.sid(switch.usid): ActionCall(p4.UN.name, ())}
