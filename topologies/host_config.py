"""What a host must know of the fabric: its configuration file, as JSON.

Part of it is the same for all hosts of a T0: how to make the address of any other host. That part
is a `RackConfig`, so that a whole fabric's configurations can be listed without repeating it.

The destination address for an EV towards host downlink d of a destination row is::

    base | plane * plane_multiplier | uplink << uplink_shift | d << downlink_shift
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from topologies import addressing
from topologies.addressing import AddressTemplate, EvField, HostId, ipv6_text, mac_text
from topologies.model import Fabric, Host

#: The downlink is the last uSID of every carrier; its index stands in the lowest bits there
_LOCAL_USIDS = 2
_CROSS_T1_USIDS = 4


@dataclass(frozen=True, slots=True)
class Interface:
    """A NIC port: on which plane, by which name in Linux, and the T0 at its far end."""

    plane: int
    name: str
    mac: int
    gateway_mac: int
    switch: str
    switch_port: int
    rate_bps: int | None
    delay_ns: int


@dataclass(frozen=True, slots=True)
class DestinationRow:
    """All hosts of one T0 as destinations: their prefix and the template of their carriers.

    `template` is that of downlink 0.
    """

    t0: int
    prefix: int
    prefix_bits: int
    hosts: int
    template: AddressTemplate
    downlink_shift: int

    def template_of(self, downlink: int) -> AddressTemplate:
        """The template for one host of the row. Raises AddressingError past the last."""
        if not 0 <= downlink < self.hosts:
            raise addressing.AddressingError(
                f"downlink {downlink} does not fit: T0 {self.t0} has 0..{self.hosts - 1}"
            )
        return AddressTemplate(
            self.template.base | downlink << self.downlink_shift,
            self.template.plane_multiplier,
            self.template.uplink_shift,
        )


@dataclass(frozen=True, slots=True)
class RackConfig:
    """What hosts under one T0 have in common."""

    t0: int
    locator_block: str
    udp_port: int
    path_mtu_bytes: int
    interface_mtu_bytes: int
    dscp: dict[str, int]
    planes: int
    uplinks: int
    #: Rules of a GENERATED EV profile towards hosts of other T0s; within the T0 uplink is 0
    ev_fields: tuple[EvField, ...]
    destinations: tuple[DestinationRow, ...]


@dataclass(frozen=True, slots=True)
class HostConfig:
    """A host's whole configuration."""

    name: str
    number: int
    id: HostId
    address: int
    interfaces: tuple[Interface, ...]
    rack: RackConfig

    def destination(self, address: int) -> AddressTemplate:
        """The template towards a host by its address.

        Raises AddressingError where the address is none of the fabric's hosts'.
        """
        for row in self.rack.destinations:
            shift = 128 - row.prefix_bits
            if address >> shift == row.prefix >> shift:
                return row.template_of((address & (1 << shift) - 1) - 1)
        raise addressing.AddressingError(f"{ipv6_text(address)} is not a host's address")


def interface_name(plane: int) -> str:
    """The name of a host's interface to a plane."""
    return f"plane{plane}"


def rack_config(fabric: Fabric, t0: int) -> RackConfig:
    """What all hosts under a T0 need to know."""
    source = HostId(t0, 0)
    rows = []
    for destination in range(fabric.t0_per_plane):
        prefix, prefix_bits = fabric.addresses.t0_prefix(destination)
        usids = _LOCAL_USIDS if destination == t0 else _CROSS_T1_USIDS
        rows.append(
            DestinationRow(
                t0=destination,
                prefix=prefix,
                prefix_bits=prefix_bits,
                hosts=fabric.hosts_per_t0,
                template=fabric.addresses.template(source, HostId(destination, 0)),
                downlink_shift=addressing.usid_shift(usids - 1),
            )
        )
    return RackConfig(
        t0=t0,
        locator_block=str(fabric.addresses.locator_block),
        udp_port=fabric.udp_port,
        path_mtu_bytes=fabric.path_mtu_bytes,
        interface_mtu_bytes=fabric.interface_mtu_bytes,
        dscp=dict(fabric.traffic.items()),
        planes=fabric.planes,
        uplinks=fabric.t1_per_plane,
        ev_fields=addressing.ev_fields(fabric.planes, fabric.t1_per_plane),
        destinations=tuple(rows),
    )


def interfaces(fabric: Fabric, host: Host) -> tuple[Interface, ...]:
    """The NIC's ports, one per plane."""
    found = []
    for plane in range(fabric.planes):
        t0 = addressing.SwitchId(plane, addressing.Role.T0, host.id.t0)
        link = fabric.link(host.name, t0.name)
        found.append(
            Interface(
                plane=plane,
                name=interface_name(plane),
                mac=addressing.nic_mac(plane, host.id),
                gateway_mac=addressing.switch_mac(t0, host.id.downlink),
                switch=t0.name,
                switch_port=host.id.downlink,
                rate_bps=link.rate_bps,
                delay_ns=link.delay_ns,
            )
        )
    return tuple(found)


def host_config(fabric: Fabric, host: Host, rack: RackConfig | None = None) -> HostConfig:
    """A host's configuration; `rack` may be given where many hosts of one T0 are asked for."""
    return HostConfig(
        name=host.name,
        number=host.number,
        id=host.id,
        address=fabric.addresses.host_address(host.id),
        interfaces=interfaces(fabric, host),
        rack=rack if rack is not None else rack_config(fabric, host.id.t0),
    )


# --- JSON --------------------------------------------------------------------------------------


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def rack_json(rack: RackConfig) -> dict[str, Any]:
    """The common part of the hosts' files."""
    return {
        "t0": rack.t0,
        "locator_block": rack.locator_block,
        "udp_port": rack.udp_port,
        "path_mtu_bytes": rack.path_mtu_bytes,
        "interface_mtu_bytes": rack.interface_mtu_bytes,
        "dscp": rack.dscp,
        "ev": {
            "planes": rack.planes,
            "uplinks": rack.uplinks,
            "fields": [
                {
                    "name": field.name,
                    "shift": field.shift,
                    "width": field.width,
                    "init": field.init,
                    "min": field.min,
                    "max": field.max,
                    "mask": field.mask,
                }
                for field in rack.ev_fields
            ],
        },
        "destinations": [
            {
                "t0": row.t0,
                "prefix": f"{ipv6_text(row.prefix)}/{row.prefix_bits}",
                "hosts": row.hosts,
                "base": ipv6_text(row.template.base),
                "plane_shifts": _bits(row.template.plane_multiplier),
                "uplink_shift": row.template.uplink_shift,
                "downlink_shift": row.downlink_shift,
            }
            for row in rack.destinations
        ],
    }


def own_json(config: HostConfig) -> dict[str, Any]:
    """The part of the file that is the host's alone."""
    return {
        "name": config.name,
        "number": config.number,
        "t0": config.id.t0,
        "downlink": config.id.downlink,
        "address": ipv6_text(config.address),
        "interfaces": [
            {
                "plane": interface.plane,
                "name": interface.name,
                "mac": mac_text(interface.mac),
                "gateway_mac": mac_text(interface.gateway_mac),
                "switch": interface.switch,
                "switch_port": interface.switch_port,
                "rate_bps": interface.rate_bps,
                "delay_ns": interface.delay_ns,
            }
            for interface in config.interfaces
        ],
    }


def host_json(config: HostConfig) -> dict[str, Any]:
    """A host's whole file."""
    return {**own_json(config), **rack_json(config.rack)}


def _mac(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text.replace(":", "")), "big")


def parse_host_json(text: str) -> HostConfig:
    """The inverse of `host_json`. Raises ValueError for what is no host's configuration."""
    try:
        document = json.loads(text)
        return _host_of_json(document)
    except KeyError as error:
        raise ValueError(f"not a host configuration: {error.args[0]} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a host configuration: {error}") from None


def _host_of_json(document: dict[str, Any]) -> HostConfig:
    rows = []
    for row in document["destinations"]:
        address, _, bits = row["prefix"].partition("/")
        template = AddressTemplate(
            base=int(IPv6Address(row["base"])),
            plane_multiplier=sum(1 << shift for shift in row["plane_shifts"]),
            uplink_shift=row["uplink_shift"],
        )
        rows.append(
            DestinationRow(
                row["t0"],
                int(IPv6Address(address)),
                int(bits),
                row["hosts"],
                template,
                row["downlink_shift"],
            )
        )
    ev = document["ev"]
    rack = RackConfig(
        t0=document["t0"],
        locator_block=document["locator_block"],
        udp_port=document["udp_port"],
        path_mtu_bytes=document["path_mtu_bytes"],
        interface_mtu_bytes=document["interface_mtu_bytes"],
        dscp=document["dscp"],
        planes=ev["planes"],
        uplinks=ev["uplinks"],
        ev_fields=tuple(EvField(**field) for field in ev["fields"]),
        destinations=tuple(rows),
    )
    return HostConfig(
        name=document["name"],
        number=document["number"],
        id=HostId(document["t0"], document["downlink"]),
        address=int(IPv6Address(document["address"])),
        interfaces=tuple(
            Interface(
                plane=interface["plane"],
                name=interface["name"],
                mac=_mac(interface["mac"]),
                gateway_mac=_mac(interface["gateway_mac"]),
                switch=interface["switch"],
                switch_port=interface["switch_port"],
                rate_bps=interface["rate_bps"],
                delay_ns=interface["delay_ns"],
            )
            for interface in document["interfaces"]
        ),
        rack=rack,
    )
