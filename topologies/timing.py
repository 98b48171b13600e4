"""Times and rates that follow from the fabric alone: what measurements are compared with."""

from __future__ import annotations

from topologies.addressing import Role, SwitchId
from topologies.model import Fabric, Host, Tier
from topologies.settings import TrimSettings

#: Preamble 8, FCS 4 and inter-frame gap 12: what a frame takes on the wire besides itself
WIRE_OVERHEAD_BYTES = 24
_NS_BITS = 8 * 10**9
#: A SACK over IPv6 in IPv6: Ethernet 14, IPv6 2 * 40, UDP 8, BTH 12, SETH 28, CC_STATE 8, ICRC 4
SACK_BYTES = 154
#: Full frames of a host in a sample of rates: fewer make steps of its curve
_SAMPLE_FRAMES = 40
_SHORTEST_SAMPLE_NS = 1000
_ICRC_BYTES = 4
_IMMDT_BYTES = 4
#: In front of the payload of most RoCE packets: Ethernet 14, IPv6 40, UDP 8, BTH 12
_ROCE_HEADER_BYTES = 74


def full_frame_bytes(fabric: Fabric, *, roce: bool = False) -> int:
    """A full data packet without immediate, as it leaves the NIC (without preamble and FCS).

    Of RoCE one in the middle of a message, without RETH.
    """
    headers = _ROCE_HEADER_BYTES if roce else TrimSettings().mrc_bytes - _IMMDT_BYTES
    return headers + fabric.path_mtu_bytes + _ICRC_BYTES


def payload_share(fabric: Fabric, *, roce: bool = False) -> float:
    """The most of a line rate that payload can have: MTU over what a full packet takes."""
    return fabric.path_mtu_bytes / (full_frame_bytes(fabric, roce=roce) + WIRE_OVERHEAD_BYTES)


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


def furthest_pair(fabric: Fabric) -> tuple[Host, Host]:
    """Two hosts with as many switches between them as any; a fabric of one host has it twice."""
    return fabric.host_of_number(0), fabric.host_of_number(fabric.host_count - 1)


def queueing_ns(fabric: Fabric) -> int:
    """What queues of data add to a packet's way at most, where all is well: one at each switch.

    A queue that marks is kept about where marking begins; one that does not may be full. Each is
    before the slowest link of its tier, and nothing waits for links without a rate.
    """
    source, destination = furthest_pair(fabric)
    tiers = [link.tier for link in fabric.links_of_path(next(fabric.paths(source, destination)))]
    total_ns = 0
    # The first link is the NIC's, whose queue is before the clock starts
    for tier in tiers[1:]:
        rate_bps = _slowest_bps(fabric, tier)
        if rate_bps is not None:
            queue = fabric.host_queue if tier is Tier.HOST else fabric.fabric_queue
            size_bytes = queue.data_limit_bytes if queue.ecn is None else queue.ecn.min_bytes
            total_ns += size_bytes * _NS_BITS // rate_bps
    return total_ns


def _slowest_bps(fabric: Fabric, tier: Tier) -> int | None:
    usual = fabric.host_link if tier is Tier.HOST else fabric.fabric_link
    rates = [usual.rate_bps]
    for name, override in fabric.link_overrides.items():
        if fabric.link(*name.split("--")).tier is tier:
            rates.append(override.rate_bps)
    return min((rate for rate in rates if rate is not None), default=None)


def sample_interval_ns(fabric: Fabric) -> int:
    """How often rates are sampled: about once per base RTT, with some packets in each sample.

    A round number (1, 2 or 5 times a power of ten), no more than the longer of the two.
    """
    source, destination = furthest_pair(fabric)
    wanted_ns = base_rtt_ns(fabric, source, destination)
    rate_bps = line_rate_bps(fabric, source)
    if rate_bps is not None:
        frame_bytes = full_frame_bytes(fabric) + WIRE_OVERHEAD_BYTES
        wanted_ns = max(wanted_ns, _SAMPLE_FRAMES * frame_bytes * _NS_BITS // rate_bps)
    if wanted_ns < _SHORTEST_SAMPLE_NS:
        return _SHORTEST_SAMPLE_NS
    power: int = 10 ** (len(str(wanted_ns)) - 1)
    return next(step * power for step in (5, 2, 1) if step * power <= wanted_ns)
