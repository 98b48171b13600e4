"""Plans of switches, hosts and whole fabrics, as aligned text or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from controller.columns import columns, counted, entries, switches
from controller.fabric_program import Kind
from controller.plan import Block, BlockKind, SwitchPlan, plan
from controller.text import number_text, prefix_text
from topologies.addressing import ipv6_text, mac_text
from topologies.host_config import HostConfig, host_config, own_json, rack_config, rack_json
from topologies.model import Fabric
from topologies.units import delay_text, rate_text

# --- a switch's plan ---------------------------------------------------------------------------


def _cell(kind: Kind) -> Callable[[Any], Any]:
    if kind is Kind.NUMBER:
        return lambda value: list(value) if isinstance(value, tuple) else value
    if kind is Kind.PREFIX:
        return lambda value: prefix_text(*value)
    return lambda value: number_text(value, kind)


def _rows(block: Block) -> Iterator[list[Any]]:
    cells = [_cell(column.kind) for column in block.columns]
    return ([cell(value) for cell, value in zip(cells, row, strict=True)] for row in block.rows)


def switch_json(switch_plan: SwitchPlan) -> dict[str, Any]:
    """A switch's plan: blocks of rows that share table and action."""
    blocks = []
    for block in switch_plan.blocks():
        rows = list(_rows(block))
        if not rows:
            continue
        profile = block.kind in (BlockKind.MEMBER, BlockKind.GROUP)
        document: dict[str, Any] = {"action_profile" if profile else "table": block.name}
        if block.action:
            document["action"] = block.action
        document["columns"] = [column.name for column in block.columns]
        document["rows"] = rows
        blocks.append(document)
    switch = switch_plan.switch
    return {
        "switch": switch.name,
        "device_id": switch.device_id,
        "sid": number_text(switch_plan.fabric.addresses.sid(switch.id.usid), Kind.SID),
        "entries": blocks,
    }


def switch_text(switch_plan: SwitchPlan) -> Iterator[str]:
    """The same for people."""
    switch = switch_plan.switch
    sid = number_text(switch_plan.fabric.addresses.sid(switch.id.usid), Kind.SID)
    yield f"{switch.name}: device {switch.device_id}, SID {sid}"
    for block in switch_plan.blocks():
        rows = [[str(cell) for cell in row] for row in _rows(block)]
        if rows:
            what = block.action.rpartition(".")[2] or block.kind.value.replace("_ref", "")
            yield ""
            yield f"{block.name} → {what}, {entries(len(rows))}"
            yield from columns([column.name for column in block.columns], rows, "  ")


# --- a host's configuration --------------------------------------------------------------------


def host_text(config: HostConfig) -> Iterator[str]:
    """A host's configuration for people."""
    rack = config.rack
    place = f"downlink {config.id.downlink} of T0 {config.id.t0}"
    yield f"{config.name}: {ipv6_text(config.address)}, {place}"
    yield ""
    yield from columns(
        ["interface", "mac", "gateway_mac", "switch", "port", "rate", "delay"],
        [
            [
                interface.name,
                mac_text(interface.mac),
                mac_text(interface.gateway_mac),
                interface.switch,
                str(interface.switch_port),
                rate_text(interface.rate_bps),
                delay_text(interface.delay_ns),
            ]
            for interface in config.interfaces
        ],
        "  ",
    )
    yield ""
    yield "destination addresses: template | plane << each of plane_shifts | uplink << uplink_shift"
    yield "                                | downlink << downlink_shift"
    yield from columns(
        ["prefix", "hosts", "template", "plane_shifts", "uplink_shift", "downlink_shift"],
        [
            [
                row["prefix"],
                str(row["hosts"]),
                row["base"],
                ",".join(map(str, row["plane_shifts"])),
                "-" if row["uplink_shift"] is None else str(row["uplink_shift"]),
                str(row["downlink_shift"]),
            ]
            for row in rack_json(rack)["destinations"]
        ],
        "  ",
    )
    yield ""
    yield "entropy values"
    yield from columns(
        ["field", "bits", "init", "min", "max", "mask"],
        [
            [
                field.name,
                f"{field.shift + field.width - 1}..{field.shift}",
                str(field.init),
                str(field.min),
                str(field.max),
                f"{field.mask:#x}",
            ]
            for field in rack.ev_fields
        ],
        "  ",
    )
    yield ""
    yield f"dscp: {', '.join(f'{name} {dscp}' for name, dscp in rack.dscp.items())}"
    yield f"udp port {rack.udp_port}, path MTU {rack.path_mtu_bytes} bytes, "\
          f"interface MTU {rack.interface_mtu_bytes} bytes"  # fmt: skip


# --- a whole fabric's plan ---------------------------------------------------------------------


def fabric_json_lines(fabric: Fabric, done: Callable[[], None]) -> Iterator[str]:
    """A whole plan, one JSON document a line: switches, then T0 by T0 what its hosts share.

    Lines are objects of one member: {"switch": …}, {"rack": …} or {"host": …}. A host's file is
    its own line and its rack's together. `done` is called after each switch and each rack.
    """
    for switch_plan in plan(fabric):
        yield json.dumps({"switch": switch_json(switch_plan)}, separators=(",", ":"))
        done()
    for t0 in range(fabric.t0_per_plane):
        rack = rack_config(fabric, t0)
        yield json.dumps({"rack": rack_json(rack)}, separators=(",", ":"))
        for downlink in range(fabric.hosts_per_t0):
            host = fabric.host_of_number(t0 * fabric.hosts_per_t0 + downlink)
            own = own_json(host_config(fabric, host, rack))
            yield json.dumps({"host": own}, separators=(",", ":"))
        done()


#: From so many switches on, the summary has one line per plane and tier
_LISTED_SWITCHES = 64


def fabric_text(fabric: Fabric, done: Callable[[], None]) -> Iterator[str]:
    """How many entries each table of each switch has; every entry is made and counted.

    `done` is called after each switch.
    """
    yield (
        f"{fabric.name}: {counted(fabric.planes, 'plane')}, {fabric.t0_per_plane} T0 and "
        f"{fabric.t1_per_plane} T1 in each, {counted(fabric.hosts_per_t0, 'host')} per T0: "
        f"{switches(fabric.switch_count)}, {counted(fabric.host_count, 'host')}, "
        f"{counted(fabric.link_count, 'link')}"
    )
    listed = fabric.switch_count <= _LISTED_SWITCHES
    counts: dict[str, Counter[str]] = {}
    members: Counter[str] = Counter()
    for switch_plan in plan(fabric):
        id = switch_plan.switch.id
        name = id.name if listed else f"plane {id.plane}, {id.role.name}"
        members[name] += 1
        count = counts.setdefault(name, Counter())
        for block in switch_plan.blocks():
            count[f"{block.name} {block.kind.value}"
                  if block.kind in (BlockKind.MEMBER, BlockKind.GROUP)
                  else block.name] += sum(1 for _ in block.rows)  # fmt: skip
        done()
    tables = list(dict.fromkeys(table for count in counts.values() for table in count))
    heads = [table.rpartition(".")[2] for table in tables]
    yield ""
    yield from columns(
        ["switch", *([] if listed else ["switches"]), *heads, "entries"],
        [
            [
                name,
                *([] if listed else [str(members[name])]),
                *(str(count[table]) for table in tables),
                str(sum(count.values())),
            ]
            for name, count in counts.items()
        ],
    )
    yield ""
    yield f"{sum(sum(count.values()) for count in counts.values())} entries in all"
    if listed:
        yield ""
        yield from columns(
            ["host", "address", "t0", "downlink"],
            (
                [host.name, ipv6_text(fabric.addresses.host_address(host.id)),
                 str(host.id.t0), str(host.id.downlink)]
                for host in fabric.hosts()
            ),
        )  # fmt: skip
