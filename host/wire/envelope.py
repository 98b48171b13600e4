"""What is in front of the BTH: Ethernet, outer IPv6 with its carrier, SRH, inner IPv6, UDP.

Addresses are integers, as in `topologies.addressing`: 128 bits for IPv6, 48 for MACs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from host.wire.assumptions import ev_of_packet, flow_label_of_ev, udp_source_port_of_ev
from host.wire.constants import (
    DSCP_SHIFT,
    ECN_MASK,
    ETHERNET_BYTES,
    IPV6_BYTES,
    ROCE_V2_UDP_PORT,
    SEGMENT_BYTES,
    SRH_FIXED_BYTES,
    UDP_BYTES,
)

DEFAULT_HOP_LIMIT = 64


class Ethernet(NamedTuple):
    """Source and destination MAC."""

    dst: int
    src: int


class Ipv6(NamedTuple):
    """An IPv6 header without what follows from the packet (payload length, next header)."""

    src: int
    dst: int
    traffic_class: int = 0
    flow_label: int = 0
    hop_limit: int = DEFAULT_HOP_LIMIT

    @property
    def dscp(self) -> int:
        """The upper six bits of the traffic class."""
        return self.traffic_class >> DSCP_SHIFT

    @property
    def ecn(self) -> int:
        """The lower two bits of the traffic class."""
        return self.traffic_class & ECN_MASK


class Srh(NamedTuple):
    """A segment routing header (RFC 8754) without what follows from the packet.

    `segments` are in the order of the wire: number 0 is the last to be visited.
    """

    segments: tuple[int, ...]
    segments_left: int
    flags: int = 0
    tag: int = 0
    #: The TLVs behind the segments, a multiple of 8 bytes
    tlvs: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Length on the wire."""
        return SRH_FIXED_BYTES + SEGMENT_BYTES * len(self.segments) + len(self.tlvs)


class Udp(NamedTuple):
    """A UDP header without its length.

    A `checksum` other than 0 asks `encode` to compute it: the value is the wire's, as decoded.
    """

    src_port: int
    dst_port: int = ROCE_V2_UDP_PORT
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything in front of the BTH.

    `outer` is None in a plain packet: forwarding mode ECMP, or a last switch that decapsulates.
    """

    ethernet: Ethernet
    outer: Ipv6 | None
    inner: Ipv6
    udp: Udp
    srh: Srh | None = None

    #: Of the outermost IPv6 header: what switches read and write
    dscp: int = field(init=False, compare=False, repr=False)
    ecn: int = field(init=False, compare=False, repr=False)
    #: The EV that the packet says it travels on
    ev: int = field(init=False, compare=False, repr=False)
    #: Where in the frame the BTH starts
    bth_offset: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.srh is not None and self.outer is None:
            raise ValueError("an SRH needs an outer IPv6 header in front of it")
        outermost = self.inner if self.outer is None else self.outer
        size_bytes = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES
        if self.outer is not None:
            size_bytes += IPV6_BYTES
        if self.srh is not None:
            size_bytes += self.srh.size_bytes
        derived = {
            "dscp": outermost.dscp,
            "ecn": outermost.ecn,
            "ev": ev_of_packet(self.inner.flow_label, self.udp.src_port),
            "bth_offset": size_bytes,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def over_path(
        cls,
        *,
        dst_mac: int,
        src_mac: int,
        carrier: int | None,
        dst: int,
        src: int,
        ev: int,
        dscp: int,
        ecn: int = 0,
        srh: Srh | None = None,
        hop_limit: int = DEFAULT_HOP_LIMIT,
        udp_port: int = ROCE_V2_UDP_PORT,
    ) -> Envelope:
        """The envelope of packets between two NICs that travel on one EV in one traffic class.

        `carrier` is the outer destination address (`AddressTemplate.address`), or None for a plain
        packet. Both IPv6 headers get the traffic class, the flow label and the hop limit; the
        outer source address is the NIC's, like the inner one.
        """
        inner = Ipv6(src, dst, dscp << DSCP_SHIFT | ecn, flow_label_of_ev(ev), hop_limit)
        return cls(
            ethernet=Ethernet(dst_mac, src_mac),
            outer=None if carrier is None else inner._replace(dst=carrier),
            inner=inner,
            udp=Udp(udp_source_port_of_ev(ev), udp_port),
            srh=srh,
        )
