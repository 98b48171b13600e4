"""What the path check sends: a write over every path between every pair of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from topologies.addressing import Path
from topologies.model import Fabric, Host
from topologies.runner.check.exchange import BACK_TO_BACK_PACKETS, STALL_S, Flow, PacketPort
from topologies.runner.check.frames import Write

#: (host name, plane) → its socket
HostPorts = Mapping[tuple[str, int], PacketPort]


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path and the hosts at its ends."""

    source: Host
    destination: Host
    path: Path

    @property
    def name(self) -> str:
        """The nodes on the way, from end to end."""
        middle = (switch.name for switch in self.path.switches)
        return " → ".join((self.source.name, *middle, self.destination.name))


def all_paths(fabric: Fabric) -> Iterator[HostPath]:
    """Every path of data between every ordered pair of hosts."""
    hosts = list(fabric.hosts())
    for source in hosts:
        for destination in hosts:
            if source != destination:
                for path in fabric.paths(source, destination):
                    yield HostPath(source, destination, path)


def safe_window(fabric: Fabric, frame_bytes: int) -> int:
    """So many packets in flight that no port's data limit is met, even if all wait at one port."""
    queues = (fabric.host_queue, fabric.fabric_queue)
    room = min(queue.data_limit_bytes for queue in queues) // frame_bytes
    return max(1, min(BACK_TO_BACK_PACKETS, room - 1))


def stall_time_s(fabric: Fabric, window: int, slowed_bps: int | None = None) -> float:
    """How long a working fabric may deliver nothing: longer than all in flight take on one link.

    `slowed_bps` is the rate of a port that was slowed.
    """
    rates = [link.rate_bps for link in fabric.links()]
    known = [rate for rate in (*rates, slowed_bps) if rate is not None]
    if not known:
        return STALL_S
    frame_bits = 8 * (fabric.path_mtu_bytes + fabric.trim.mrc_bytes)
    return STALL_S + window * frame_bits / min(known)


def path_flows(
    fabric: Fabric, ports: HostPorts, first_qp: int, packets: int
) -> list[tuple[HostPath, Flow]]:
    """One write of `packets` full packets per path; QPs count up from `first_qp`."""
    flows = []
    for qp, host_path in enumerate(all_paths(fabric), first_qp):
        write = Write(fabric, host_path.path, qp, packets, fabric.path_mtu_bytes)
        plane = host_path.path.plane
        source = ports[host_path.source.name, plane]
        destination = ports[host_path.destination.name, plane]
        flows.append((host_path, Flow(write, source, destination)))
    return flows
