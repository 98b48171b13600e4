"""The one path of a RoCE queue pair: its port, flow label and UDP source port.

Two ends choose theirs as Linux does (`rdma_calc_flow_label`, `rdma_flow_label_to_udp_sport`): the
numbers of both queue pairs make a flow label, and that a source port from 49152 on. Switches hash
both with the addresses (RFC 6438), and so a queue pair keeps to one path.
"""

from __future__ import annotations

from zlib import crc32

from host.config import NicConfig
from host.wire import FrameTemplate
from host.wire.constants import DSCP_SHIFT, ECN_ECT_0, ECN_NOT_ECT
from host.wire.envelope import Envelope, Ethernet, Ipv6, Udp

_FLOW_LABEL_MASK = 0xFFFFF
_FIRST_SOURCE_PORT = 0xC000


def flow_label(own_qp: int, peer_qp: int) -> int:
    """The IPv6 flow label of packets from one queue pair to another."""
    product = own_qp * peer_qp
    product ^= product >> 20
    product ^= product >> 40
    return product & _FLOW_LABEL_MASK


def udp_source_port(label: int) -> int:
    """The UDP source port that goes with a flow label: its 20 bits folded into 14."""
    return _FIRST_SOURCE_PORT | (label & 0x3FFF) ^ (label >> 14)


def plane_of(config: NicConfig, peer_address: int, own_qp: int, peer_qp: int) -> int:
    """The port that a queue pair has for good: a hash of its ends, as a bond of ports has it."""
    ends = config.address.to_bytes(16, "big") + peer_address.to_bytes(16, "big")
    ends += own_qp.to_bytes(4, "big") + peer_qp.to_bytes(4, "big")
    return crc32(ends) % len(config.ports)


class RocePath:
    """Frames of a queue pair by class, and the port that they leave on.

    Data is ECN-capable and not trimmable, since nobody could tell what a trimmed packet was. ACKs
    and NAKs travel in the class of the data, as the traffic class of a queue pair is one; CNPs in
    that of control.
    """

    __slots__ = ("answers", "cnps", "data", "port")

    def __init__(self, config: NicConfig, peer_address: int, own_qp: int, peer_qp: int) -> None:
        self.port = plane_of(config, peer_address, own_qp, peer_qp)
        label = flow_label(own_qp, peer_qp)
        port = config.ports[self.port]

        def frames(dscp: int, ecn: int) -> FrameTemplate:
            return FrameTemplate(
                Envelope(
                    ethernet=Ethernet(port.gateway_mac, port.mac),
                    outer=None,
                    inner=Ipv6(config.address, peer_address, dscp << DSCP_SHIFT | ecn, label),
                    udp=Udp(udp_source_port(label), config.udp_port),
                )
            )

        self.data = frames(config.traffic.no_trim, ECN_ECT_0)
        self.answers = frames(config.traffic.no_trim, ECN_NOT_ECT)
        self.cnps = frames(config.traffic.control, ECN_NOT_ECT)
