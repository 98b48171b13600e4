"""scapy's RoCE layer as an independent reader, whatever other layers are bound to the UDP port."""

from typing import Any

from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP


def bth_of(packet: Any) -> Any:
    """What `scapy.contrib.roce` makes of the payload of a packet's UDP, in place."""
    udp = packet[UDP]
    bth = BTH(bytes(udp.payload))
    udp.remove_payload()
    udp.add_payload(bth)
    return bth
