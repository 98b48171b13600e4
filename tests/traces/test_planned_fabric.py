"""The compiled program with the tables that the controller plans: a whole fabric in virtual time.

Every switch of a topology holds its planned entries and runs fabric.p4, in the softswitch and in
the reference interpreter. Frames go from NIC to NIC over the topology's links.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from controller import entries as planned
from controller.plan import SwitchPlan, plan
from p4src import compiled
from softswitch.switch import Switch
from softswitch.tables import ActionCall, Entry, Group, GroupRef, MemberRef, Target
from tests.softswitch.reference_interpreter import Interpreter
from tests.softswitch.reference_switch import ReferenceSwitch
from tests.traces.frames import WRITE_ONLY, mrc
from tests.traces.targets.in_process import PRIORITY_QUEUES, VirtualTimeSwitch, loaded
from topologies.addressing import HostId, ipv6_text, mac_text, nic_mac, switch_mac
from topologies.generate import generate
from topologies.loader import load_topology, ready_topologies
from topologies.model import Fabric, Host, LinkEnd

HOP_LIMIT = 64


def target_of(target: planned.Target) -> Target:
    if isinstance(target, planned.ActionCall):
        return ActionCall(target.action, target.args)
    if isinstance(target, planned.MemberRef):
        return MemberRef(target.member_id)
    assert isinstance(target, planned.GroupRef)
    return GroupRef(target.group_id)


def softswitch(switch_plan: SwitchPlan, ports: list[int]) -> VirtualTimeSwitch:
    switch = Switch(priority_queues=PRIORITY_QUEUES)
    for port in ports:
        switch.add_port(port)
    pipeline = switch.load(loaded("fabric"))
    for entity in switch_plan.entities():
        match entity:
            case planned.TableEntry():
                pipeline.tables[entity.table].insert(
                    Entry(entity.match, target_of(entity.target), entity.priority)
                )
            case planned.Member():
                call = ActionCall(entity.call.action, entity.call.args)
                pipeline.action_profiles[entity.profile].insert_member(entity.member_id, call)
            case planned.Group():
                members = {member: (weight, -1) for member, weight in entity.members}
                pipeline.action_profiles[entity.profile].insert_group(
                    entity.group_id, Group(members)
                )
    return switch


def reference(switch_plan: SwitchPlan, ports: list[int]) -> VirtualTimeSwitch:
    interpreter = Interpreter(compiled("fabric").json_text)
    for entity in switch_plan.entities():
        match entity:
            case planned.TableEntry():
                interpreter.entries[entity.table].append(
                    Entry(entity.match, target_of(entity.target), entity.priority)
                )
            case planned.Member():
                call = ActionCall(entity.call.action, entity.call.args)
                interpreter.members[entity.profile][entity.member_id] = call
            case planned.Group():
                assert all(weight == 1 for _, weight in entity.members)
                interpreter.groups[entity.profile][entity.group_id] = [
                    member for member, _ in entity.members
                ]
    return ReferenceSwitch(interpreter, dict.fromkeys(ports))


class VirtualFabric:
    """All switches of a fabric, and its links."""

    def __init__(
        self, fabric: Fabric, make: Callable[[SwitchPlan, list[int]], VirtualTimeSwitch]
    ) -> None:
        self.fabric = fabric
        self.peers: dict[LinkEnd, LinkEnd] = {}
        self.switches: dict[str, VirtualTimeSwitch] = {}
        for switch_plan in plan(fabric):
            name = switch_plan.switch.name
            ports = list(fabric.ports(switch_plan.switch.id))
            self.switches[name] = make(switch_plan, [port.number for port in ports])
            for port in ports:
                self.peers[LinkEnd(name, port.number)] = port.peer

    def send(self, host: Host, plane: int, frame: bytes) -> tuple[list[str], LinkEnd | None, bytes]:
        """The switches that a frame crosses; where it arrives (None: dropped), and as what."""
        at = LinkEnd(f"p{plane}-t0-{host.id.t0}", host.id.downlink)
        crossed = []
        while at.node in self.switches:
            crossed.append(at.node)
            switch = self.switches[at.node]
            switch.receive(at.port, frame, 0)
            out = switch.transmit(0)
            if not out:
                return crossed, None, b""
            ((port, frame),) = out
            at = self.peers[LinkEnd(at.node, port)]
        return crossed, at, frame


def uplink_frame(fabric: Fabric, host: Host, plane: int) -> Ether:
    """The Ethernet header of a NIC's frame into a plane."""
    t0 = next(
        switch.id for switch in fabric.switches() if switch.name == f"p{plane}-t0-{host.id.t0}"
    )
    return Ether(
        src=mac_text(nic_mac(plane, host.id)), dst=mac_text(switch_mac(t0, host.id.downlink))
    )


def inner(fabric: Fabric, source: HostId, destination: HostId) -> IPv6:
    addresses = fabric.addresses
    return IPv6(
        src=ipv6_text(addresses.host_address(source)),
        dst=ipv6_text(addresses.host_address(destination)),
        hlim=HOP_LIMIT,
        tc=fabric.traffic.trimmable << 2,
    ) / mrc(WRITE_ONLY, size=fabric.path_mtu_bytes)


FABRICS = {
    "two-plane": load_topology(ready_topologies()["two-plane"]),
    "three planes, uneven": generate(3, 2, 3, 2),
}
MAKERS = {"softswitch": softswitch, "reference": reference}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", FABRICS)
def test_a_write_arrives_over_every_path(name: str, maker: str) -> None:
    fabric = FABRICS[name]
    virtual = VirtualFabric(fabric, MAKERS[maker])
    hosts = list(fabric.hosts())
    paths = 0
    for source in hosts[:3]:  # those of one T0 and one of the next, to all
        for destination in hosts:
            if source == destination:
                continue
            for path in fabric.paths(source, destination):
                outer = IPv6(
                    src=ipv6_text(fabric.addresses.host_address(source.id)),
                    dst=ipv6_text(fabric.addresses.carrier_of_path(path)),
                    hlim=HOP_LIMIT,
                    tc=fabric.traffic.trimmable << 2,
                )
                payload = inner(fabric, source.id, destination.id)
                frame = bytes(uplink_frame(fabric, source, path.plane) / outer / payload)
                crossed, end, arrived = virtual.send(source, path.plane, frame)
                assert crossed == [switch.name for switch in path.switches]
                assert end == LinkEnd(destination.name, path.plane)
                packet = Ether(arrived)
                last = path.switches[-1]
                assert packet.dst == mac_text(nic_mac(path.plane, destination.id))
                assert packet.src == mac_text(switch_mac(last, destination.id.downlink))
                assert packet[IPv6].hlim == HOP_LIMIT - len(crossed)
                left = fabric.addresses.usids_of_carrier(int.from_bytes(arrived[38:54], "big"))
                assert left == (path.usids[-1],)  # the downlink's uSID is what a NIC sees
                assert arrived[54:] == bytes(payload)
                paths += 1
    assert paths > 0


@pytest.mark.parametrize("maker", MAKERS)
def test_plain_ipv6_and_self_probes_arrive(maker: str) -> None:
    fabric = FABRICS["two-plane"]
    virtual = VirtualFabric(fabric, MAKERS[maker])
    source, *others = fabric.hosts()
    for plane in range(fabric.planes):
        for destination in others:
            frame = bytes(
                uplink_frame(fabric, source, plane) / inner(fabric, source.id, destination.id)
            )
            _, end, arrived = virtual.send(source, plane, frame)
            assert end == LinkEnd(destination.name, plane)
            assert arrived[38:54] == frame[38:54]
        probes = [
            fabric.addresses.t0_probe(plane, source.id),
            *(
                fabric.addresses.t1_probe(plane, source.id, uplink)
                for uplink in range(fabric.t1_per_plane)
            ),
        ]
        for carrier, hops in zip(probes, [1] + [3] * fabric.t1_per_plane, strict=True):
            packet = IPv6(
                src=ipv6_text(fabric.addresses.host_address(source.id)),
                dst=ipv6_text(carrier),
                hlim=HOP_LIMIT,
                nh=59,
            )
            frame = bytes(uplink_frame(fabric, source, plane) / packet)
            crossed, end, arrived = virtual.send(source, plane, frame)
            assert end == LinkEnd(source.name, plane)
            assert len(crossed) == hops
            assert Ether(arrived)[IPv6].hlim == HOP_LIMIT - hops
