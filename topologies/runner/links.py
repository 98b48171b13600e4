"""Links: veth pairs whose ends are made right in the namespaces of their nodes."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from topologies.addressing import mac_text
from topologies.runner.errors import RunnerError
from topologies.runner.namespaces import NetworkNamespace

#: Jumbo frames: a 4 KiB payload with every header, and room for an 8 KiB one
LINK_MTU_BYTES: Final = 9216

# <linux/sockios.h>, <linux/ethtool.h>
_SIOCETHTOOL: Final = 0x8946
# Set commands of: checksums (receive, send), scatter-gather, TSO, GSO, GRO
_OFFLOADS: Final = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)


@dataclass(frozen=True, slots=True)
class InterfaceSpec:
    """One end of a link."""

    namespace: NetworkNamespace
    name: str
    #: None: whatever the kernel takes
    mac: int | None


def create_links(links: Iterable[tuple[InterfaceSpec, InterfaceSpec]], mtu_bytes: int) -> None:
    """Make veth pairs, down, with final names and addresses. Raises RunnerError."""
    with IPRoute() as netlink:
        for lower, upper in links:
            try:
                netlink.link(
                    "add",
                    kind="veth",
                    mtu=mtu_bytes,
                    **_attributes(lower),
                    peer={"mtu": mtu_bytes, **_attributes(upper)},
                )
            except NetlinkError as error:
                raise RunnerError(
                    f"cannot make the link {lower.namespace.name}/{lower.name} to "
                    f"{upper.namespace.name}/{upper.name}: {error}"
                ) from error


def _attributes(end: InterfaceSpec) -> dict[str, Any]:
    attributes: dict[str, Any] = {"ifname": end.name, "net_ns_fd": end.namespace.fd}
    if end.mac is not None:
        attributes["address"] = mac_text(end.mac)
    return attributes


def bring_up(namespace: NetworkNamespace) -> None:
    """Turn offloads off on every interface of a namespace, and set it up. Raises RunnerError."""
    with namespace.entered(), IPRoute() as netlink:
        for link in netlink.get_links():
            name = link.get_attr("IFLA_IFNAME")
            try:
                if name != "lo":
                    _turn_offloads_off(name)
                netlink.link("set", index=link["index"], state="up")
            except (NetlinkError, OSError) as error:
                raise RunnerError(f"{namespace.name}: cannot set {name} up: {error}") from error


def set_state(namespace: NetworkNamespace, interface: str, *, up: bool) -> None:
    """Set one interface up or down; its neighbour sees the carrier come or go.

    Raises RunnerError.
    """
    state = "up" if up else "down"
    try:
        with namespace.entered(), IPRoute() as netlink:
            netlink.link("set", index=socket.if_nametoindex(interface), state=state)
    except (NetlinkError, OSError) as error:
        raise RunnerError(f"{namespace.name}: cannot set {interface} {state}: {error}") from error


class _EthtoolValue(ctypes.Structure):
    _fields_ = (("command", ctypes.c_uint32), ("value", ctypes.c_uint32))


def _turn_offloads_off(interface: str) -> None:
    """Have the kernel hand over frames as they are on the wire: no merging, no missing checksum."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in _OFFLOADS:
            setting = _EthtoolValue(command, 0)
            request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(setting))
            fcntl.ioctl(control, _SIOCETHTOOL, request)
