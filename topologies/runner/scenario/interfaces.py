"""The kernel's counters of every interface of a run: they know nothing of who reads and writes.

What one end of a veth link sends is what the other receives. So frames that went into a switch and
did not come out of it are in it, or lost in it, whatever the switch itself says, and also where its
process was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topologies.runner.namespaces import NetworkNamespace

#: Of the calling thread's namespace
_COUNTERS: Final = Path("/proc/thread-self/net/dev")
_LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True)
class InterfaceCounters:
    """Frames and bytes that an interface received and sent.

    `tx_dropped`: frames that it was given and could not send. For some milliseconds after a link
    has lost its carrier nobody is told of these, until the sender learns about the link.
    """

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    tx_dropped: int = 0

    def since(self, before: InterfaceCounters) -> InterfaceCounters:
        """What was counted after an earlier reading."""
        return InterfaceCounters(
            self.rx_packets - before.rx_packets,
            self.rx_bytes - before.rx_bytes,
            self.tx_packets - before.tx_packets,
            self.tx_bytes - before.tx_bytes,
            self.tx_dropped - before.tx_dropped,
        )


#: By node and interface
Interfaces = Mapping[tuple[str, str], InterfaceCounters]


def read_interfaces(namespaces: Mapping[str, NetworkNamespace]) -> Interfaces:
    """Counters of all interfaces in all of a run's namespaces."""
    counters: dict[tuple[str, str], InterfaceCounters] = {}
    for node, namespace in namespaces.items():
        with namespace.entered():
            text = _COUNTERS.read_text()
        for line in text.splitlines()[2:]:
            name, _, numbers = line.partition(":")
            values = numbers.split()
            if name.strip() != _LOOPBACK:
                counters[node, name.strip()] = InterfaceCounters(
                    rx_packets=int(values[1]),
                    rx_bytes=int(values[0]),
                    tx_packets=int(values[9]),
                    tx_bytes=int(values[8]),
                    tx_dropped=int(values[11]),
                )
    return counters


def since(after: Interfaces, before: Interfaces) -> Interfaces:
    """What was counted between two readings."""
    nothing = InterfaceCounters()
    return {key: counters.since(before.get(key, nothing)) for key, counters in after.items()}


def kept_in(node: str, counters: Interfaces) -> int:
    """Frames that went into a node and did not come out."""
    return sum(
        each.rx_packets - each.tx_packets for (where, _), each in counters.items() if where == node
    )


def dropped_at(node: str, counters: Interfaces) -> int:
    """Frames that a node's interfaces could not send."""
    return sum(each.tx_dropped for (where, _), each in counters.items() if where == node)


def sent_by(nodes: Iterable[str], counters: Interfaces) -> int:
    """Frames that nodes sent."""
    wanted = frozenset(nodes)
    return sum(each.tx_packets for (node, _), each in counters.items() if node in wanted)


def received_by(nodes: Iterable[str], counters: Interfaces) -> int:
    """Frames that came to nodes."""
    wanted = frozenset(nodes)
    return sum(each.rx_packets for (node, _), each in counters.items() if node in wanted)
