"""Fabric → what every switch must hold.

A switch's plan is a few blocks of rows of plain integers, each block one table and one action;
rows are made while they are read. A fabric of any size is planned switch by switch in the memory
of one switch.

Behaviour of the tables, RFC 8986 and RFC 9800: every switch owns one SID (uN). Behind it a T0
finds its downlinks and the SIDs of its T1s, a T1 the SIDs of its T0s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

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
from topologies.addressing import HostId, Role
from topologies.model import EcnSettings, Fabric, LoadBalancing, Port, Switch, Tier

#: Integers in the order of a block's columns; a prefix is (value, length), a group's members are
#: their ids
Row = tuple[Any, ...]

#: 0 stands for "all" in reads (P4Runtime 1.4, section 12), so ids count from 1
ALL_UPLINKS_GROUP = 1


class BlockKind(Enum):
    """What the rows of a block are."""

    ACTION = "action"
    MEMBER_REF = "member_ref"
    GROUP_REF = "group_ref"
    MEMBER = "member"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one table that call one action, or refer to members or groups; or these themselves.

    `name` is the table's, of MEMBER and GROUP the action profile's. `rows` can be read once.
    """

    kind: BlockKind
    name: str
    action: str
    columns: tuple[p4.Column, ...]
    rows: Iterable[Row]

    def entities(self) -> Iterator[Entity]:
        """The rows one by one; every table of the program has one key field."""
        match self.kind:
            case BlockKind.ACTION:
                for key, *args in self.rows:
                    yield TableEntry(self.name, (key,), ActionCall(self.action, tuple(args)))
            case BlockKind.MEMBER_REF:
                for key, member_id in self.rows:
                    yield TableEntry(self.name, (key,), MemberRef(member_id))
            case BlockKind.GROUP_REF:
                for key, group_id in self.rows:
                    yield TableEntry(self.name, (key,), GroupRef(group_id))
            case BlockKind.MEMBER:
                for member_id, *args in self.rows:
                    yield Member(self.name, member_id, ActionCall(self.action, tuple(args)))
            case BlockKind.GROUP:
                for group_id, member_ids in self.rows:
                    yield Group(self.name, group_id, tuple((id, 1) for id in member_ids))


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """Everything that one switch must hold."""

    fabric: Fabric
    switch: Switch

    def entities(self) -> Iterator[Entity]:
        """All members, groups and entries, in an order in which they can be written."""
        for block in self.blocks():
            yield from block.entities()

    def blocks(self) -> Iterator[Block]:
        """The same as rows, block by block."""
        fabric, switch = self.fabric, self.switch.id
        ports = list(fabric.ports(switch))
        yield from _routes(fabric, self.switch, ports)
        # A T1 has one way to each rack
        sprayed = fabric.load_balancing is LoadBalancing.PACKET and switch.role is Role.T0
        yield _actions(
            p4.SPRAYING, p4.SPRAY, ((dscp,) for _, dscp in fabric.traffic.items() if sprayed)
        )
        yield _actions(p4.MY_SID, p4.UN, [(fabric.addresses.sid(switch.usid),)])
        yield _actions(
            p4.NEXT_SID,
            p4.SID_TO_PORT,
            ((fabric.addresses.sid(port.next_usid), port.number) for port in ports),
        )
        yield _actions(p4.LOCATOR_BLOCK, p4.IN_BLOCK, [(fabric.addresses.block,)])
        yield from _queue_control(fabric, ports)
        yield _actions(
            p4.NEIGHBOR,
            p4.SET_ADDRESSES,
            ((port.number, port.mac, port.peer_mac) for port in ports),
        )


def plan(fabric: Fabric) -> Iterator[SwitchPlan]:
    """The plan of every switch, in the order of the fabric's switches."""
    return (SwitchPlan(fabric, switch) for switch in fabric.switches())


def _actions(table: p4.Table, action: p4.Action, rows: Iterable[Row]) -> Block:
    return Block(BlockKind.ACTION, table.name, action.name, table.keys + action.params, rows)


def member_id(port: int) -> int:
    """The member of the action selector that sends to a port."""
    return port + 1


def _routes(fabric: Fabric, switch: Switch, ports: list[Port]) -> Iterator[Block]:
    """Plain IPv6: hosts of the own T0 one by one, all else by the prefix of its T0.

    A T0 spreads what goes to other T0s over all uplinks. Its own prefix is not routed as a whole:
    an address in it that no host has is dropped here, not sent round.
    """
    key = p4.IPV6_ROUTE.keys
    member_column, group_column = p4.Column("member_id"), p4.Column("group_id")
    prefixes = [fabric.addresses.t0_prefix(t0) for t0 in range(fabric.t0_per_plane)]
    yield Block(
        BlockKind.MEMBER,
        p4.ECMP,
        p4.ROUTE_TO_PORT.name,
        (member_column, *p4.ROUTE_TO_PORT.params),
        ((member_id(port.number), port.number) for port in ports),
    )
    if switch.id.role is Role.T1:
        yield Block(
            BlockKind.MEMBER_REF,
            p4.IPV6_ROUTE.name,
            "",
            (*key, member_column),
            ((prefix, member_id(t0)) for t0, prefix in enumerate(prefixes)),
        )
        return
    uplinks = tuple(member_id(port.number) for port in ports if port.tier is Tier.FABRIC)
    yield Block(
        BlockKind.GROUP,
        p4.ECMP,
        "",
        (group_column, p4.Column("member_ids")),
        [(ALL_UPLINKS_GROUP, uplinks)],
    )
    t0 = switch.id.index
    yield Block(
        BlockKind.MEMBER_REF,
        p4.IPV6_ROUTE.name,
        "",
        (*key, member_column),
        (
            ((fabric.addresses.host_address(HostId(t0, downlink)), 128), member_id(downlink))
            for downlink in range(fabric.hosts_per_t0)
        ),
    )
    yield Block(
        BlockKind.GROUP_REF,
        p4.IPV6_ROUTE.name,
        "",
        (*key, group_column),
        ((prefix, ALL_UPLINKS_GROUP) for other, prefix in enumerate(prefixes) if other != t0),
    )


def _queue_control(fabric: Fabric, ports: list[Port]) -> Iterator[Block]:
    traffic, trim = fabric.traffic, fabric.trim
    data = traffic.trimmable_class if trim.enabled else ()
    never = (traffic.no_trim,) if trim.enabled else (traffic.no_trim, *traffic.trimmable_class)
    yield _actions(p4.TRAFFIC_CLASS, p4.SET_CONTROL, ((dscp,) for dscp in traffic.control_class))
    yield _actions(p4.TRAFFIC_CLASS, p4.SET_TRIMMABLE, ((dscp,) for dscp in data))
    yield _actions(p4.TRAFFIC_CLASS, p4.SET_NO_TRIM, ((dscp,) for dscp in never))
    yield _actions(
        p4.PORT_QUEUE,
        p4.SET_LIMITS,
        (
            (
                port.number,
                port.queue.data_limit_bytes,
                port.queue.control_limit_bytes,
                traffic.trimmed_lasthop if port.tier is Tier.HOST else traffic.trimmed,
            )
            for port in ports
        ),
    )
    yield _actions(
        p4.TRIM_SIZE,
        p4.KEEP,
        [(p4.PROTOCOL_IPV6, trim.mrc_bytes), (p4.PROTOCOL_UDP, trim.udp_bytes)],
    )
    yield _actions(
        p4.ECN_MARKING,
        p4.SET_MARKING,
        ((port.number, *_marking(port.queue.ecn)) for port in ports if port.queue.ecn is not None),
    )


def _marking(ecn: EcnSettings) -> tuple[int, int, int]:
    probability = min(round(ecn.probability * p4.PROBABILITY_ONE), p4.PROBABILITY_MAX)
    return ecn.min_bytes, ecn.max_bytes, probability
