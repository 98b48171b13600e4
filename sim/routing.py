"""Routing of plain IPv6 that converges: some time after a failure, routes go round it.

The tables that the controller writes are static, and stay so for SRv6, whose paths the endpoint
chooses. Baselines with ECMP are used to a routing protocol under them. Here is what one comes to,
without its messages: `convergence_ns` after a link or a switch went down or came up, every switch
has the next hops that reach each rack over the links that there were then. All switches change at
once.

Routes go up once and down once, as in a Clos fabric with one AS number for all its T1s (RFC 7938,
section 5.2): a T1 without its link to a rack has no route to it, and no T0 sends there by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller import fabric_program as p4
from controller.plan import ALL_UPLINKS_GROUP, member_id
from sim.network import Network
from sim.switch_node import SwitchNode
from softswitch.tables import Entry, Group, GroupRef, MemberRef
from topologies.addressing import Role, SwitchId
from topologies.model import Tier, link_name

#: Group of a rack that not all uplinks reach: this and the rack's number
_FIRST_RACK_GROUP = ALL_UPLINKS_GROUP + 1


@dataclass(slots=True)
class _Routes:
    """What routing wrote into a switch since it booted: ports by rack, of those not as planned."""

    boots: int
    changed: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Routing:
    """Routing of a whole network.

    Attributes:
        rewritten: entries that were changed so far, on all switches.
    """

    def __init__(self, network: Network, convergence_ns: int) -> None:
        self.rewritten = 0
        self._network = network
        self._convergence_ns = convergence_ns
        self._links = [link for link in network.links.values() if link.tier is Tier.FABRIC]
        self._usable = frozenset(link.name for link in self._links)
        self._routes: dict[str, _Routes] = {}
        self._touched = False

    def changed(self) -> None:
        """Links or switches changed; call it as often as anything does."""
        if not self._touched:
            self._touched = True
            self._network.loop.touched.append(self)

    def settle(self, now_ns: int) -> None:
        """Everything of this time has happened: switches will know in a while."""
        self._touched = False
        usable = frozenset(link.name for link in self._links if self._works(link.name))
        if usable != self._usable:
            self._usable = usable
            loop = self._network.loop
            loop.at(now_ns + self._convergence_ns, self._converge, usable)

    def _works(self, name: str) -> bool:
        """Whether both ends of a link would hear each other.

        A switch that swallows everything swallows the protocol's messages too.
        """
        network = self._network
        link = network.links[name]
        return network.wires[name][0].up and all(
            network.switches[end.node].alive for end in (link.lower, link.upper)
        )

    def _converge(self, _now_ns: int, usable: frozenset[str], _: object) -> None:
        for node in self._network.switches.values():
            self._reroute(node, usable)

    def _reroute(self, node: SwitchNode, usable: frozenset[str]) -> None:
        """Bring a switch's routes to all racks up to date."""
        routes = self._routes.get(node.name)
        if routes is None or routes.boots != node.boots:
            routes = self._routes[node.name] = _Routes(node.boots)
        switch = node.place.id
        for rack in range(node.fabric.t0_per_plane):
            if switch.role is Role.T0 and switch.index == rack:
                continue
            planned, ports = self._next_hops(switch, rack, usable)
            if ports == routes.changed.get(rack, planned):
                continue
            self._rewrite(node, rack, ports, planned, routes.changed.get(rack, planned))
            self.rewritten += 1
            if ports == planned:
                del routes.changed[rack]
            else:
                routes.changed[rack] = ports

    def _next_hops(
        self, switch: SwitchId, rack: int, usable: frozenset[str]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ports towards a rack: those planned, and those that reach it."""
        fabric, plane = self._network.fabric, switch.plane
        rack_t0 = SwitchId(plane, Role.T0, rack).name
        if switch.role is Role.T1:
            reaches = link_name(rack_t0, switch.name) in usable
            return (rack,), (rack,) if reaches else ()
        uplinks = range(fabric.t1_per_plane)
        t1s = [SwitchId(plane, Role.T1, uplink).name for uplink in uplinks]
        there = [
            link_name(switch.name, t1) in usable and link_name(rack_t0, t1) in usable for t1 in t1s
        ]
        planned = tuple(map(fabric.uplink_port, uplinks))
        return planned, tuple(port for port, reaches in zip(planned, there, strict=True) if reaches)

    @staticmethod
    def _rewrite(
        node: SwitchNode,
        rack: int,
        ports: tuple[int, ...],
        planned: tuple[int, ...],
        before: tuple[int, ...],
    ) -> None:
        """Change the route to one rack, and its group."""
        pipeline = node.switch.pipeline
        assert pipeline is not None
        table = pipeline.tables[p4.IPV6_ROUTE.name]
        profile = pipeline.action_profiles[p4.ECMP]
        match = (node.fabric.addresses.t0_prefix(rack),)
        own_group = _FIRST_RACK_GROUP + rack
        had_own_group = before != planned and bool(before)
        target: GroupRef | MemberRef
        if node.place.id.role is Role.T1:
            target = MemberRef(member_id(rack))
            had_own_group = False
        elif ports == planned:
            target = GroupRef(ALL_UPLINKS_GROUP)
        else:
            target = GroupRef(own_group)
            group = Group({member_id(port): (1, -1) for port in ports})
            if had_own_group and ports:
                profile.modify_group(own_group, group)
                return
            if ports:
                profile.insert_group(own_group, group)
        if not ports:
            table.delete(match)
        elif before:
            table.modify(Entry(match, target))
        else:
            table.insert(Entry(match, target))
        if had_own_group:
            profile.delete_group(own_group)
