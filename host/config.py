"""What a NIC is made of: its ports, addresses and the defaults of its queue pairs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, IPv6Network
from typing import Any

from host.wire.constants import MPR_UNIT_PSNS
from topologies.addressing import DEFAULT_LOCATOR_BLOCK, AddressTemplate, HostId
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES, TrafficClasses

#: 1.024 µs * 2^timeout, timeout 0..24 (mrc-protocol.md, section 3)
TIMEOUT_UNIT_NS = 1024
MAX_TIMEOUT = 24
MAX_LINEAR_RETRIES = 7
#: 25 exponential retries mean: for ever
EXPONENTIAL_RETRIES_FOR_EVER = 25

#: 32 units of 128 PSNs
DEFAULT_MPR_PSNS = 32 * MPR_UNIT_PSNS
MAX_MPR_PSNS = 255 * MPR_UNIT_PSNS

MIN_PATH_MTU_BYTES = 64
MAX_PATH_MTU_BYTES = 9000


class ForwardingMode(Enum):
    """How the fabric finds the way of a packet, and so what the NIC puts in front of it."""

    #: Outer IPv6 header whose destination is a uSID carrier
    SRV6 = "srv6"
    #: No outer header; switches read the EV from flow label and UDP source port (structured EV)
    STEV = "stev"
    #: No outer header; switches hash addresses, flow label and ports
    ECMP = "ecmp"


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A port of the NIC. Its number is that of its plane. `rate_bps` None = unlimited."""

    mac: int
    gateway_mac: int
    rate_bps: int | None = None

    def __post_init__(self) -> None:
        if self.rate_bps is not None and self.rate_bps <= 0:
            raise ValueError(f"rate_bps: {self.rate_bps} does not fit: it must be above 0")


@dataclass(frozen=True, slots=True)
class QpDefaults:
    """Attributes that a queue pair has unless it is told otherwise.

    `timeout` and the retries as in `mrc_qp_attr`: a packet is first given 1.024 µs * 2^timeout,
    `linear_retries` more such intervals, then `exponential_retries` doubling ones.
    """

    mpr_psns: int = DEFAULT_MPR_PSNS
    max_wimm: int = 128
    timeout: int = 5
    linear_retries: int = 7
    exponential_retries: int = 13
    #: Whether this NIC answers trimmed packets with NACKs
    trim_nack: bool = True
    dynamic_mpr: bool = False
    #: A SACK at least every so many packets, and so long after a packet
    sack_packets: int = 4
    sack_delay_ns: int = 1000

    def __post_init__(self) -> None:
        check_mpr("mpr_psns", self.mpr_psns)
        for name, low, high in (
            ("max_wimm", 1, (1 << 15) - 1),
            ("timeout", 0, MAX_TIMEOUT),
            ("linear_retries", 0, MAX_LINEAR_RETRIES),
            ("exponential_retries", 0, EXPONENTIAL_RETRIES_FOR_EVER),
            ("sack_packets", 1, MPR_UNIT_PSNS // 2),
            ("sack_delay_ns", 0, 1_000_000),
        ):
            check_range(name, getattr(self, name), low, high)


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raises ValueError where a number is not in low..high."""
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} does not fit: it must be {low}..{high}")


def check_mpr(name: str, value: int) -> None:
    """Raises ValueError where a number of PSNs is no MPR."""
    check_range(name, value, MPR_UNIT_PSNS, MAX_MPR_PSNS)
    if value % MPR_UNIT_PSNS:
        raise ValueError(f"{name}: {value} does not fit: it must be a multiple of {MPR_UNIT_PSNS}")


@dataclass(frozen=True, slots=True)
class DestinationRow:
    """The hosts of one T0 as destinations: their prefix, and how to make their carriers.

    `template` is that of downlink 0; host number d (address: prefix + d + 1) has d in the bits from
    `downlink_shift` on.
    """

    prefix: IPv6Network
    hosts: int
    template: AddressTemplate
    downlink_shift: int


@dataclass(frozen=True, slots=True)
class NicConfig:
    """A NIC. Port number = plane number.

    Raises ValueError, naming the field, for what cannot be.
    """

    name: str
    #: The NIC's own address (inner IPv6 header), the same on all planes
    address: int
    ports: tuple[PortConfig, ...]
    #: Its T0 and downlink, the same on every plane
    id: HostId = field(default=HostId(0, 0))
    destinations: tuple[DestinationRow, ...] = ()
    #: Uplinks of a T0, and so paths a plane to hosts of other T0s
    uplinks: int = 1
    locator_block: IPv6Network = DEFAULT_LOCATOR_BLOCK
    traffic: TrafficClasses = DEFAULT_TRAFFIC_CLASSES
    udp_port: int = 4791
    path_mtu_bytes: int = 4096
    forwarding: ForwardingMode = ForwardingMode.SRV6
    qp: QpDefaults = field(default_factory=QpDefaults)
    #: PSNs that all responders of the NIC may track together; queue pairs with dynamic MPR share
    #: what there is. None: no limit
    bitmap_pool_psns: int | None = None
    #: Frames that a port without a rate may start in one call of `Nic.transmit`
    unlimited_batch: int = 64
    max_qps: int = 1 << 16

    def __post_init__(self) -> None:
        check_range("number of ports", len(self.ports), 1, 8)
        check_range("path_mtu_bytes", self.path_mtu_bytes, MIN_PATH_MTU_BYTES, MAX_PATH_MTU_BYTES)
        check_range("udp_port", self.udp_port, 1, 65535)
        check_range("unlimited_batch", self.unlimited_batch, 1, 1 << 20)
        if self.path_mtu_bytes % 4:
            raise ValueError(
                f"path_mtu_bytes: {self.path_mtu_bytes} does not fit: it must be a multiple of 4"
            )
        if self.bitmap_pool_psns is not None and self.bitmap_pool_psns < MPR_UNIT_PSNS:
            raise ValueError(
                f"bitmap_pool_psns: {self.bitmap_pool_psns} does not fit: "
                f"it must be at least {MPR_UNIT_PSNS}"
            )

    def template(self, address: int) -> AddressTemplate | None:
        """The carrier template towards a host; None for an address that is none of the fabric's."""
        for row in self.destinations:
            prefix = int(row.prefix.network_address)
            downlink = address - prefix - 1
            if 0 <= downlink < row.hosts:
                return AddressTemplate(
                    row.template.base | downlink << row.downlink_shift,
                    row.template.plane_multiplier,
                    row.template.uplink_shift,
                )
        return None

    def uplinks_towards(self, address: int) -> int:
        """How many paths a plane has to a host: 1 within the T0."""
        template = self.template(address)
        if template is not None and template.uplink_shift is None:
            return 1
        return self.uplinks

    @classmethod
    def from_host_json(cls, text: str, **changes: Any) -> NicConfig:
        """The NIC of a host's configuration file (`topologies.host_config`).

        `changes` are fields that the file does not have or that are to differ. Raises ValueError,
        naming what is missing or wrong.
        """
        try:
            document = json.loads(text)
            return cls(**{**_fields_of_host(document), **changes})
        except KeyError as error:
            raise ValueError(f"not a host configuration: {error.args[0]} is missing") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a host configuration: {error}") from None


def _fields_of_host(document: dict[str, Any]) -> dict[str, Any]:
    interfaces = sorted(document["interfaces"], key=lambda interface: int(interface["plane"]))
    planes = [interface["plane"] for interface in interfaces]
    if planes != list(range(len(planes))):
        raise ValueError(f"interfaces: planes are {planes}, they must be numbered from 0")
    return {
        "name": document["name"],
        "address": int(IPv6Address(document["address"])),
        "id": HostId(document["t0"], document["downlink"]),
        "ports": tuple(
            PortConfig(_mac(port["mac"]), _mac(port["gateway_mac"]), port["rate_bps"])
            for port in interfaces
        ),
        "destinations": tuple(
            DestinationRow(
                prefix=IPv6Network(row["prefix"]),
                hosts=row["hosts"],
                template=AddressTemplate(
                    base=int(IPv6Address(row["base"])),
                    plane_multiplier=sum(1 << shift for shift in row["plane_shifts"]),
                    uplink_shift=row["uplink_shift"],
                ),
                downlink_shift=row["downlink_shift"],
            )
            for row in document["destinations"]
        ),
        "uplinks": document["ev"]["uplinks"],
        "locator_block": IPv6Network(document["locator_block"]),
        "traffic": TrafficClasses(**document["dscp"]),
        "udp_port": document["udp_port"],
        "path_mtu_bytes": document["path_mtu_bytes"],
    }


def _mac(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text.replace(":", "")), "big")
