"""Counters of the whole fabric, read at the moments at which rates are sampled.

Only runs that are to be shown along time have one: nothing here is on the way of a packet.
"""

from __future__ import annotations

from typing import Final

from sim.network import Network
from sim.switch_node import MARKED_CE, TRIMMED

#: What `read` gives behind the planes
COUNTERS: Final = ("trimmed", "marked", "lost", "retransmitted", "queued")


class FabricMeter:
    """Reads a network's counters."""

    def __init__(self, network: Network) -> None:
        self._hosts = list(network.hosts.values())
        self._switches = list(network.switches.values())
        self._wires = [wire for pair in network.wires.values() for wire in pair]
        self._planes = network.fabric.planes
        self.columns = self._planes + len(COUNTERS)

    def read(self) -> list[int]:
        """Bytes of data sent by plane, then `COUNTERS`, as of now."""
        values = [0] * self._planes
        retransmitted = 0
        for host in self._hosts:
            for plane, size in enumerate(host.plane_bytes):
                values[plane] += size
            for qp in host.nic.qps.values():
                if qp.requestor is not None:
                    retransmitted += qp.requestor.stats.retransmissions
        trimmed = marked = queued = 0
        lost = sum(sum(wire.lost.values()) for wire in self._wires if wire.lost)
        for switch in self._switches:
            dropped, held = switch.switch.dropped_and_queued()
            queued += held
            lost += dropped + sum(switch.lost.values())
            trimmed += switch.count(TRIMMED)
            marked += switch.count(MARKED_CE)
        return [*values, trimmed, marked, lost, retransmitted, queued]
