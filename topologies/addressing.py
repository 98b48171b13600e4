"""The addressing plan: who has which uSID, carrier, entropy value, address and MAC.

Everything is a pure function with an inverse. Addresses are plain integers (128 bits for IPv6,
48 for MACs), so that a full-scale plan is arithmetic; `ipv6_text` and `mac_text` print them.

uSID, 16 bits (RFC 9800 NEXT-C-SID, 32-bit locator block)::

    15   13 12 11 10          0
    | plane | role |   index   |      role 1 T0, 2 T1, 3 host downlink of a T0; 0 never

No uSID is 0, so 0 is what RFC 9800 makes of it: the end of the carrier.

Entropy value, 32 bits::

    31                14 13        3 2     0
    |       zero        |   uplink  | plane |

The plane stands in the lowest bits and each hop's choice above it. The uplink number of a T0 is
the index of the T1 at its far end, so an EV names a path between two hosts and a path names its
EV. Between hosts of one T0 there is one path a plane, and its EV has uplink 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv6Address, IPv6Network

PLANE_BITS = 3
ROLE_BITS = 2
INDEX_BITS = 11
USID_BITS = PLANE_BITS + ROLE_BITS + INDEX_BITS
USID_MASK = (1 << USID_BITS) - 1

BLOCK_BITS = 32
SID_BITS = BLOCK_BITS + USID_BITS
#: uSIDs that fit behind the block in one address
CARRIER_USIDS = (128 - BLOCK_BITS) // USID_BITS

#: Where the plane number starts within a uSID
PLANE_SHIFT_IN_USID = ROLE_BITS + INDEX_BITS

EV_BITS = 32
EV_UPLINK_SHIFT = PLANE_BITS
EV_SPARE_SHIFT = PLANE_BITS + INDEX_BITS

#: T0 prefixes are /64s of a /48, so a T0 index has the 16 bits between
HOST_PREFIX_BITS = 48
T0_PREFIX_BITS = 64

PORT_BITS = 16

MAX_PLANES = 1 << PLANE_BITS
MAX_INDEX = 1 << INDEX_BITS

DEFAULT_LOCATOR_BLOCK = IPv6Network("5f00::/32")
DEFAULT_HOST_PREFIX = IPv6Network("fd4d:5243::/48")

_UNIQUE_LOCAL = IPv6Network("fc00::/7")
# Locally administered, unicast (IEEE 802: second-lowest bit of the first byte set, lowest clear)
_MAC_SWITCH = 0x02
_MAC_NIC = 0x06


class AddressingError(ValueError):
    """A value that the plan cannot hold, or an address that is none of the plan's."""


class Role(IntEnum):
    """What a uSID names. T0 and T1 are switches; a downlink is a port of a T0."""

    T0 = 1
    T1 = 2
    DOWNLINK = 3


def _check(what: str, value: int, limit: int) -> int:
    if not 0 <= value < limit:
        raise AddressingError(f"{what} {value} does not fit: it must be 0..{limit - 1}")
    return value


# --- uSIDs -------------------------------------------------------------------------------------


def encode_usid(plane: int, role: Role, index: int) -> int:
    """The 16-bit uSID of a switch, or of a host downlink of a T0; never 0.

    Raises AddressingError where plane or index does not fit.
    """
    _check("plane", plane, MAX_PLANES)
    _check(f"{role.name} index", index, MAX_INDEX)
    return plane << PLANE_SHIFT_IN_USID | role << INDEX_BITS | index


def decode_usid(usid: int) -> tuple[int, Role, int]:
    """(plane, role, index) of a uSID: the inverse of `encode_usid`.

    Raises AddressingError for what is no uSID of the plan (role 0, more than 16 bits).
    """
    _check("uSID", usid, 1 << USID_BITS)
    role = usid >> INDEX_BITS & (1 << ROLE_BITS) - 1
    if role == 0:
        raise AddressingError(f"uSID {usid:#06x} has role 0, which is never used")
    return usid >> PLANE_SHIFT_IN_USID, Role(role), usid & MAX_INDEX - 1


@dataclass(frozen=True, slots=True, order=True)
class SwitchId:
    """A switch of the fabric, by its place. `role` is T0 or T1."""

    plane: int
    role: Role
    index: int

    @property
    def name(self) -> str:
        """For example p0-t0-1: plane 0, T0 number 1."""
        return f"p{self.plane}-t{self.role - Role.T0}-{self.index}"

    @property
    def usid(self) -> int:
        """The switch's 16-bit uSID."""
        return encode_usid(self.plane, self.role, self.index)

    @property
    def device_id(self) -> int:
        """P4Runtime device id: the uSID, which is unique in the fabric and never 0."""
        return self.usid


_SWITCH_NAME = re.compile(r"p(0|[1-9]\d*)-t([01])-(0|[1-9]\d*)")
_HOST_NAME = re.compile(r"h(0|[1-9]\d*)")


def switch_id_of_device(device_id: int) -> SwitchId:
    """The inverse of `SwitchId.device_id`; raises AddressingError for other numbers."""
    plane, role, index = decode_usid(device_id)
    if role is Role.DOWNLINK:
        raise AddressingError(f"device id {device_id:#06x} is a host downlink's uSID, no switch's")
    return SwitchId(plane, role, index)


def parse_switch_name(name: str) -> SwitchId:
    """The inverse of `SwitchId.name`; raises AddressingError for other names."""
    match = _SWITCH_NAME.fullmatch(name)
    if match is None:
        raise AddressingError(
            f"{name!r} is not the name of a switch; write for example p0-t0-1 "
            "(plane 0, T0 number 1)"
        )
    plane, tier, index = (int(group) for group in match.groups())
    _check(f"{name}: plane", plane, MAX_PLANES)
    _check(f"{name}: index", index, MAX_INDEX)
    return SwitchId(plane, Role(tier + Role.T0), index)


def is_host_name(name: str) -> bool:
    """Whether a node is a host, of names that are a host's or a switch's."""
    return name.startswith("h")


def parse_host_name(name: str) -> int:
    """The number of a host by its name: h3 → 3. Raises AddressingError for other names."""
    match = _HOST_NAME.fullmatch(name)
    if match is None:
        raise AddressingError(f"{name!r} is not the name of a host; write for example h3")
    return int(match[1])


@dataclass(frozen=True, slots=True, order=True)
class HostId:
    """A NIC by its place: downlink number `downlink` of T0 number `t0`, the same on every plane."""

    t0: int
    downlink: int


# --- entropy values and paths ------------------------------------------------------------------


def encode_ev(plane: int, uplink: int) -> int:
    """The 32-bit entropy value of a plane and the T0 uplink (= T1 index) taken there."""
    _check("plane", plane, MAX_PLANES)
    _check("uplink", uplink, MAX_INDEX)
    return uplink << EV_UPLINK_SHIFT | plane


def decode_ev(ev: int) -> tuple[int, int]:
    """(plane, uplink) of an entropy value: the inverse of `encode_ev`.

    Raises AddressingError where bits above the uplink are set: such a value names no path.
    """
    _check("entropy value", ev, 1 << EV_BITS)
    if ev >> EV_SPARE_SHIFT:
        raise AddressingError(
            f"entropy value {ev:#010x} names no path: bits {EV_SPARE_SHIFT} and up must be 0"
        )
    return ev & MAX_PLANES - 1, ev >> EV_UPLINK_SHIFT


@dataclass(frozen=True, slots=True)
class EvField:
    """A field of the entropy value under the rules of a GENERATED EV profile (mrc_ctl.h).

    `width` in bits; the field's value is `init` with a number from `min`..`max` laid over the bits
    of `mask`. `shift` says where the field starts in the 32-bit EV.
    """

    name: str
    width: int
    init: int
    min: int
    max: int
    mask: int
    shift: int

    @property
    def fixed(self) -> bool:
        """Whether nothing of the field is generated."""
        return self.mask == 0


def ev_fields(planes: int, uplinks: int) -> tuple[EvField, ...]:
    """The EV's layout for a fabric of so many planes and T0 uplinks, highest bits first.

    A GENERATED profile with these rules yields exactly the EVs of the fabric's paths. Between
    hosts of one T0 take `uplinks` = 1.
    """
    _check("number of planes less one:", planes - 1, MAX_PLANES)
    _check("number of uplinks less one:", uplinks - 1, MAX_INDEX)
    spare_bits = EV_BITS - EV_SPARE_SHIFT
    return (
        EvField("spare", spare_bits, 0, 0, 0, 0, EV_SPARE_SHIFT),
        EvField("uplink", INDEX_BITS, 0, 0, uplinks - 1, MAX_INDEX - 1, EV_UPLINK_SHIFT),
        EvField("plane", PLANE_BITS, 0, 0, planes - 1, MAX_PLANES - 1, 0),
    )


def ev_universe(planes: int, uplinks: int) -> Iterable[int]:
    """Every EV that `ev_fields` describes, plane by plane."""
    return (encode_ev(plane, uplink) for plane in range(planes) for uplink in range(uplinks))


@dataclass(frozen=True, slots=True)
class Path:
    """A way through one plane from the NIC `source` to the NIC `destination`.

    `uplink` is the index of the T1 on it; None where it turns round at the T0. A path from a T0
    over a T1 back to the same T0 is a self-probe's: data between hosts of one T0 never takes it.
    """

    plane: int
    source: HostId
    destination: HostId
    uplink: int | None

    def __post_init__(self) -> None:
        _check("plane", self.plane, MAX_PLANES)
        if self.uplink is not None:
            _check("uplink", self.uplink, MAX_INDEX)
        elif self.source.t0 != self.destination.t0:
            raise AddressingError(
                f"a path from T0 {self.source.t0} to T0 {self.destination.t0} needs an uplink"
            )

    @property
    def ev(self) -> int:
        """The entropy value that names this path between its two hosts."""
        return encode_ev(self.plane, self.uplink or 0)

    @property
    def switches(self) -> tuple[SwitchId, ...]:
        """The switches on the way, in order."""
        first = SwitchId(self.plane, Role.T0, self.source.t0)
        if self.uplink is None:
            return (first,)
        return (
            first,
            SwitchId(self.plane, Role.T1, self.uplink),
            SwitchId(self.plane, Role.T0, self.destination.t0),
        )

    @property
    def usids(self) -> tuple[int, ...]:
        """The uSIDs of the carrier, in order; the last is the destination's downlink."""
        downlink = encode_usid(self.plane, Role.DOWNLINK, self.destination.downlink)
        return (*(switch.usid for switch in self.switches), downlink)


def path_of_ev(ev: int, source: HostId, destination: HostId) -> Path:
    """The path of a data packet with this EV between two NICs.

    Raises AddressingError for an EV that names no path; between hosts of one T0 that is every
    EV whose uplink is not 0.
    """
    plane, uplink = decode_ev(ev)
    if source.t0 != destination.t0:
        return Path(plane, source, destination, uplink)
    if uplink:
        raise AddressingError(
            f"entropy value {ev:#010x} has uplink {uplink}, but hosts of one T0 "
            "have one path a plane, and its uplink is 0"
        )
    return Path(plane, source, destination, None)


def path_of_switches(switches: Sequence[SwitchId], source: HostId, destination: HostId) -> Path:
    """The inverse of `Path.switches`; raises AddressingError for what is no path between these."""
    if not switches:
        raise AddressingError("a path crosses at least one switch")
    uplink = switches[1].index if len(switches) > 1 else None
    path = Path(switches[0].plane, source, destination, uplink)
    if path.switches != tuple(switches):
        names = ", ".join(switch.name for switch in switches)
        raise AddressingError(f"{names}: not a path from T0 {source.t0} to T0 {destination.t0}")
    return path


# --- carriers and templates --------------------------------------------------------------------


def usid_shift(position: int) -> int:
    """How far left uSID number `position` (0 is next to act) of a carrier stands."""
    _check("position in the carrier", position, CARRIER_USIDS)
    return 128 - BLOCK_BITS - USID_BITS * (position + 1)


@dataclass(frozen=True, slots=True)
class AddressTemplate:
    """A destination address with plane and uplink left open; an EV fills them in.

    The plane number goes into every uSID, the uplink number into the T1's:
    `base | plane * plane_multiplier | uplink << uplink_shift`. `uplink_shift` is None within a T0.
    """

    base: int
    plane_multiplier: int
    uplink_shift: int | None

    def address(self, ev: int) -> int:
        """The outer destination address for an EV. Raises AddressingError as `decode_ev` does."""
        plane, uplink = decode_ev(ev)
        address = self.base | plane * self.plane_multiplier
        if self.uplink_shift is not None:
            return address | uplink << self.uplink_shift
        if uplink:
            raise AddressingError(f"entropy value {ev:#010x} has an uplink, the template has none")
        return address

    def ev(self, address: int) -> int:
        """The EV that leads to an address: the inverse of `address`.

        Raises AddressingError for an address that no EV leads to.
        """
        lowest = self.plane_multiplier & -self.plane_multiplier
        plane = address // lowest & MAX_PLANES - 1
        uplink = 0 if self.uplink_shift is None else address >> self.uplink_shift & MAX_INDEX - 1
        ev = encode_ev(plane, uplink)
        if self.address(ev) != address:
            raise AddressingError(
                f"{ipv6_text(address)} does not come from the template {ipv6_text(self.base)}"
            )
        return ev


@dataclass(frozen=True, slots=True)
class AddressPlan:
    """What a fabric chooses of the plan: the locator block and the prefix of host addresses."""

    locator_block: IPv6Network = DEFAULT_LOCATOR_BLOCK
    host_prefix: IPv6Network = DEFAULT_HOST_PREFIX

    def __post_init__(self) -> None:
        if self.locator_block.prefixlen != BLOCK_BITS:
            raise AddressingError(
                f"locator block {self.locator_block} must be a /{BLOCK_BITS}, as 5f00::/32"
            )
        if self.host_prefix.prefixlen != HOST_PREFIX_BITS or not self.host_prefix.subnet_of(
            _UNIQUE_LOCAL
        ):
            raise AddressingError(
                f"host prefix {self.host_prefix} must be a unique local /{HOST_PREFIX_BITS}, "
                "as fd4d:5243::/48"
            )
        if self.locator_block.overlaps(self.host_prefix):
            raise AddressingError(
                f"locator block {self.locator_block} and host prefix {self.host_prefix} overlap"
            )

    @property
    def block(self) -> int:
        """The locator block as a 32-bit number."""
        return int(self.locator_block.network_address) >> 128 - BLOCK_BITS

    def sid(self, usid: int) -> int:
        """Block and uSID, 48 bits: the key that switches look up."""
        return self.block << USID_BITS | usid

    def usid_of_sid(self, sid: int) -> int:
        """The inverse of `sid`; raises AddressingError for a SID of another block."""
        if sid >> USID_BITS != self.block:
            raise AddressingError(f"SID {sid:#x} is not of the locator block {self.locator_block}")
        return sid & USID_MASK

    def carrier(self, usids: Sequence[int]) -> int:
        """The IPv6 address of one to six uSIDs. Raises AddressingError for 0 or too many."""
        if not 1 <= len(usids) <= CARRIER_USIDS:
            raise AddressingError(
                f"{len(usids)} uSIDs do not fit: a carrier holds 1..{CARRIER_USIDS}"
            )
        address = self.block << 128 - BLOCK_BITS
        for position, usid in enumerate(usids):
            if not 0 < usid <= USID_MASK:
                raise AddressingError(f"uSID {usid} does not fit: it must be 1..{USID_MASK}")
            address |= usid << usid_shift(position)
        return address

    def usids_of_carrier(self, address: int) -> tuple[int, ...]:
        """The inverse of `carrier`; raises AddressingError for an address that is none."""
        if address >> 128 - BLOCK_BITS != self.block:
            raise AddressingError(f"{ipv6_text(address)} is not in {self.locator_block}")
        usids = [address >> usid_shift(position) & USID_MASK for position in range(CARRIER_USIDS)]
        while usids and usids[-1] == 0:
            usids.pop()
        if not usids or 0 in usids:
            raise AddressingError(f"{ipv6_text(address)} is not a uSID carrier: a uSID in it is 0")
        return tuple(usids)

    def carrier_of_path(self, path: Path) -> int:
        """locator:T0src:T1:T0dst:downlink; locator:T0:downlink where the path turns at the T0."""
        return self.carrier(path.usids)

    def path_of_carrier(self, address: int, source: HostId) -> Path:
        """The path of a whole carrier that `source` sends: the inverse of `carrier_of_path`.

        Raises AddressingError for a carrier that is no path of this source.
        """
        usids = self.usids_of_carrier(address)
        hops = [decode_usid(usid) for usid in usids]
        roles = tuple(role for _, role, _ in hops)
        uplink: int | None
        if roles == (Role.T0, Role.DOWNLINK):
            uplink = None
        elif roles == (Role.T0, Role.T1, Role.T0, Role.DOWNLINK):
            uplink = hops[1][2]
        else:
            steps = ", ".join(role.name for role in roles)
            raise AddressingError(f"{ipv6_text(address)} is not a path: its uSIDs are {steps}")
        plane, _, first_t0 = hops[0]
        if first_t0 != source.t0 or any(hop[0] != plane for hop in hops):
            raise AddressingError(
                f"{ipv6_text(address)} is not a path from T0 {source.t0}: "
                "another T0 comes first, or its uSIDs are of several planes"
            )
        return Path(plane, source, HostId(hops[-2][2], hops[-1][2]), uplink)

    def t0_probe(self, plane: int, host: HostId) -> int:
        """The carrier of a self-probe to the T0 and back: locator:T0:own downlink."""
        return self.carrier_of_path(Path(plane, host, host, None))

    def t1_probe(self, plane: int, host: HostId, uplink: int) -> int:
        """The carrier of a self-probe to a T1 and back: locator:T0:T1:T0:own downlink."""
        return self.carrier_of_path(Path(plane, host, host, uplink))

    def template(self, source: HostId, destination: HostId) -> AddressTemplate:
        """What `source` makes its destination addresses towards `destination` from."""
        local = source.t0 == destination.t0
        base = Path(0, source, destination, None if local else 0)
        shifts = [usid_shift(position) + PLANE_SHIFT_IN_USID for position in range(len(base.usids))]
        return AddressTemplate(
            base=self.carrier_of_path(base),
            plane_multiplier=sum(1 << shift for shift in shifts),
            uplink_shift=None if local else usid_shift(1),
        )

    # --- host addresses ---

    def t0_prefix(self, t0: int) -> tuple[int, int]:
        """(address, prefix length) that holds every host of a T0."""
        _check("T0 index", t0, MAX_INDEX)
        return int(self.host_prefix.network_address) | t0 << 128 - T0_PREFIX_BITS, T0_PREFIX_BITS

    def host_address(self, host: HostId) -> int:
        """The NIC's own address, the same on all planes: T0 prefix, then downlink + 1.

        The all-zero interface identifier stays free: it is the subnet-router anycast address
        (RFC 4291, section 2.6.1).
        """
        _check("downlink", host.downlink, MAX_INDEX)
        return self.t0_prefix(host.t0)[0] | host.downlink + 1

    def host_of_address(self, address: int) -> HostId:
        """The inverse of `host_address`; raises AddressingError for what is no host's address."""
        prefix = int(self.host_prefix.network_address)
        t0 = address - prefix >> 128 - T0_PREFIX_BITS
        downlink = (address & (1 << 128 - T0_PREFIX_BITS) - 1) - 1
        if not (0 <= t0 < MAX_INDEX and 0 <= downlink < MAX_INDEX):
            raise AddressingError(f"{ipv6_text(address)} is not a host's address")
        return HostId(t0, downlink)


# --- MAC addresses -----------------------------------------------------------------------------


def switch_mac(switch: SwitchId, port: int) -> int:
    """The MAC of a switch port: 02:00, the switch's uSID, the port number."""
    _check("port", port, 1 << PORT_BITS)
    return _MAC_SWITCH << 40 | switch.usid << PORT_BITS | port


def nic_mac(plane: int, host: HostId) -> int:
    """The MAC of a NIC's port to a plane: 06, the plane, T0 index, downlink number."""
    _check("plane", plane, MAX_PLANES)
    _check("T0 index", host.t0, MAX_INDEX)
    _check("downlink", host.downlink, MAX_INDEX)
    return _MAC_NIC << 40 | plane << 32 | host.t0 << 16 | host.downlink


def port_of_switch_mac(mac: int) -> tuple[SwitchId, int]:
    """The inverse of `switch_mac`; raises AddressingError for other addresses."""
    if mac >> 32 != _MAC_SWITCH << 8:
        raise AddressingError(f"{mac_text(mac)} is not the address of a switch port")
    return switch_id_of_device(mac >> PORT_BITS & USID_MASK), mac & (1 << PORT_BITS) - 1


def port_of_nic_mac(mac: int) -> tuple[int, HostId]:
    """(plane, host) of a NIC's MAC: the inverse of `nic_mac`; raises AddressingError for others."""
    plane, t0, downlink = mac >> 32 & 0xFF, mac >> 16 & 0xFFFF, mac & 0xFFFF
    if mac >> 40 != _MAC_NIC or plane >= MAX_PLANES or max(t0, downlink) >= MAX_INDEX:
        raise AddressingError(f"{mac_text(mac)} is not the address of a NIC")
    return plane, HostId(t0, downlink)


def ipv6_text(address: int) -> str:
    """An IPv6 address as RFC 5952 writes it."""
    return str(IPv6Address(address))


def mac_text(mac: int) -> str:
    """A MAC address as 02:00:08:00:00:01."""
    return mac.to_bytes(6, "big").hex(":")
