"""The fabric on which MRC and RoCE are laid side by side: one plane, as RoCE has no other.

MRC: what does not fit in 100 packets is trimmed, and no port is paused. RoCE: ports that face hosts
mark too, and PFC pauses ports long before queues are full, so nothing is dropped.
"""

from __future__ import annotations

from typing import Final

from experiments.simulate import Document, bps, size

#: A full frame: 4 KiB of payload with its headers
PACKET_BYTES: Final = 4242
_ECN: Final[Document] = {
    "min": size(25 * PACKET_BYTES),
    "max": size(75 * PACKET_BYTES),
    "probability": 1.0,
}
_PFC: Final[Document] = {"xoff": size(150 * PACKET_BYTES), "xon": size(100 * PACKET_BYTES)}
_MRC_QUEUE_PACKETS: Final = 100
#: More than all ports may hold together before PFC has paused them
_ROCE_QUEUE_PACKETS: Final = 4000
_ROCE_PACKETS_PER_PORT: Final = 200


def one_plane(
    transport: str,
    line_bps: int,
    *,
    racks: int,
    uplinks: int,
    hosts_per_rack: int,
    control_limit: str = "256KiB",
) -> Document:
    """The topology for a transport (mrc or roce); every link has the same rate."""
    packets = _MRC_QUEUE_PACKETS
    if transport == "roce":
        packets = max(_ROCE_QUEUE_PACKETS, _ROCE_PACKETS_PER_PORT * (uplinks + hosts_per_rack))
    queue: Document = {"data_limit": size(packets * PACKET_BYTES), "control_limit": control_limit}
    marking: Document = {**queue, "ecn": _ECN}
    queues: Document = {"host": queue, "fabric": marking}
    if transport == "roce":
        queues = {"host": marking, "fabric": marking, "pfc": _PFC}
    link = {"rate": bps(line_bps), "delay": "500ns"}
    return {
        "planes": 1,
        "t0_per_plane": racks,
        "t1_per_plane": uplinks,
        "hosts_per_t0": hosts_per_rack,
        "links": {"host": link, "fabric": link},
        "queues": queues,
    }
