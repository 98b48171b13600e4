"""Bursts into a slowed port: more packets than its queue holds, in flight at once.

Part of a burst comes out whole and part of it trimmed, and nothing is lost: that is what the
fabric does instead of dropping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from topologies.addressing import Path, Role, SwitchId
from topologies.model import Fabric, Host
from topologies.runner.check.exchange import Flow
from topologies.runner.check.frames import Write
from topologies.runner.check.paths import HostPorts

#: A slowed port needs so long for a full queue
DRAIN_S: Final = 0.5
#: ... or is so many times slower than the slowest link, where that is slower still
_SLOWER_THAN_ANY: Final = 4
#: The burst as a whole, in queues' worth
_BURST_QUEUES: Final = 4
#: However deep the queues
_MAX_BURST_PACKETS: Final = 2000


@dataclass(frozen=True, slots=True)
class Burst:
    """Writes of several senders that meet at port `port` of `switch`."""

    switch: SwitchId
    port: int
    #: The node at the far end of the port
    towards: str
    paths: tuple[Path, ...]
    queue_bytes: int
    #: What the port is slowed to; every other port on the way is faster
    rate_bps: int
    #: What the switch sets on the packets it trims there
    trimmed_dscp: int

    def sizes(self, frame_bytes: int, safe_window: int) -> tuple[int, int]:
        """(packets in flight, packets in total): more than this queue holds.

        While this queue is full, no more than `safe_window` are elsewhere: only here is trimmed.
        """
        queue_packets = max(1, self.queue_bytes // frame_bytes)
        total = max(_BURST_QUEUES * queue_packets, queue_packets + 2 * safe_window)
        return queue_packets + safe_window, min(total, _MAX_BURST_PACKETS)


def bursts(fabric: Fabric) -> Iterator[Burst]:
    """An incast into the last host's port on plane 0, and a burst into an uplink of plane 0."""
    hosts = list(fabric.hosts())
    last = hosts[-1]
    to_last = tuple(_first_path(fabric, host, last) for host in hosts[:-1])
    if to_last:
        yield Burst(
            switch=SwitchId(0, Role.T0, last.id.t0),
            port=last.id.downlink,
            towards=last.name,
            paths=to_last,
            queue_bytes=fabric.host_queue.data_limit_bytes,
            rate_bps=_slow_rate_bps(fabric, fabric.host_queue.data_limit_bytes),
            trimmed_dscp=fabric.traffic.trimmed_lasthop,
        )
    if fabric.t0_per_plane > 1:
        below = [host for host in hosts if host.id.t0 == 0]
        yield Burst(
            switch=SwitchId(0, Role.T0, 0),
            port=fabric.uplink_port(0),
            towards=SwitchId(0, Role.T1, 0).name,
            paths=tuple(_first_path(fabric, host, last) for host in below),
            queue_bytes=fabric.fabric_queue.data_limit_bytes,
            rate_bps=_slow_rate_bps(fabric, fabric.fabric_queue.data_limit_bytes),
            trimmed_dscp=fabric.traffic.trimmed,
        )


def _slow_rate_bps(fabric: Fabric, queue_bytes: int) -> int:
    """Slow enough for a queue to build up, and slower than any link; two digits, to read well."""
    rates = [link.rate_bps / _SLOWER_THAN_ANY for link in fabric.links() if link.rate_bps]
    rate_bps = int(min([queue_bytes * 8 / DRAIN_S, *rates]))
    return max(1, round(rate_bps, 2 - len(str(rate_bps))))


def _first_path(fabric: Fabric, source: Host, destination: Host) -> Path:
    """Over plane 0 and, where there is a choice, its first T1."""
    return next(fabric.paths(source, destination))


def burst_flows(
    fabric: Fabric, burst: Burst, ports: HostPorts, first_qp: int, packets: int
) -> list[Flow]:
    """One write per sender, `packets` in total, built ahead; QPs count up from `first_qp`."""
    flows = []
    senders = len(burst.paths)
    for number, path in enumerate(burst.paths):
        share = packets // senders + (number < packets % senders)
        if share:
            write = Write(fabric, path, first_qp + number, share, fabric.path_mtu_bytes)
            source = ports[fabric.host_at(path.source).name, path.plane]
            destination = ports[fabric.host_at(path.destination).name, path.plane]
            flow = Flow(write, source, destination)
            flow.prepare()
            flows.append(flow)
    return flows
