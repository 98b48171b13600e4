"""Times and rates that follow from the fabric alone: what measurements are compared with."""

from __future__ import annotations

from topologies.addressing import Role, SwitchId
from topologies.model import Fabric, Host
from topologies.settings import TrimSettings

#: Preamble 8, FCS 4 and inter-frame gap 12: what a frame takes on the wire besides itself
WIRE_OVERHEAD_BYTES = 24
_NS_BITS = 8 * 10**9
#: A SACK over IPv6 in IPv6: Ethernet 14, IPv6 2 * 40, UDP 8, BTH 12, SETH 28, CC_STATE 8, ICRC 4
SACK_BYTES = 154
_ICRC_BYTES = 4
_IMMDT_BYTES = 4


def full_frame_bytes(fabric: Fabric) -> int:
    """A full data packet without immediate, as it leaves the NIC (without preamble and FCS)."""
    headers = TrimSettings().mrc_bytes - _IMMDT_BYTES
    return headers + fabric.path_mtu_bytes + _ICRC_BYTES


def payload_share(fabric: Fabric) -> float:
    """The most of a line rate that payload can have: MTU over what a full packet takes."""
    return fabric.path_mtu_bytes / (full_frame_bytes(fabric) + WIRE_OVERHEAD_BYTES)


def line_rate_bps(fabric: Fabric, host: Host) -> int | None:
    """All ports of a host together; None where one has no limit."""
    t0s = [SwitchId(plane, Role.T0, host.id.t0).name for plane in range(fabric.planes)]
    rates = [fabric.link(host.name, t0).rate_bps for t0 in t0s]
    limited = [rate for rate in rates if rate is not None]
    return sum(limited) if len(limited) == len(rates) else None


def base_rtt_ns(fabric: Fabric, source: Host, destination: Host) -> int:
    """A full packet there and its SACK back over the first path, with nothing in the way."""
    path = next(fabric.paths(source, destination))
    total_ns = 0
    for link in fabric.links_of_path(path):
        total_ns += 2 * link.delay_ns
        if link.rate_bps is not None:
            for size in (full_frame_bytes(fabric), SACK_BYTES):
                total_ns += -(-(size + WIRE_OVERHEAD_BYTES) * _NS_BITS // link.rate_bps)
    return total_ns
