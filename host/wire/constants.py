"""Opcodes, codes and sizes that MRC 1.0 fixes, under the specification's own names.

What the specification leaves open, and this package therefore chooses, is in `assumptions`.
"""

from __future__ import annotations

from enum import IntEnum

# --- below the transport -------------------------------------------------------------------------

ETHERTYPE_IPV6 = 0x86DD
NEXT_HEADER_UDP = 17
NEXT_HEADER_IPV6 = 41  # IPv6-in-IPv6 (RFC 2473)
NEXT_HEADER_ROUTING = 43  # RFC 8200, section 4.4
ROUTING_TYPE_SRH = 4  # RFC 8754, section 2
IP_VERSION_6 = 6

#: UDP destination port of RoCEv2 (IBTA annex A17), which MRC keeps by default
ROCE_V2_UDP_PORT = 4791

ETHERNET_BYTES = 14
IPV6_BYTES = 40
UDP_BYTES = 8
SRH_FIXED_BYTES = 8
SEGMENT_BYTES = 16

# RFC 3168, section 5
ECN_NOT_ECT = 0
ECN_ECT_1 = 1
ECN_ECT_0 = 2
ECN_CE = 3
ECN_MASK = 3
#: How far left the DSCP stands in the traffic class byte
DSCP_SHIFT = 2

# --- transport -----------------------------------------------------------------------------------

BTH_BYTES = 12
METH_BYTES = 4
TSETH_BYTES = 4
RETH_BYTES = 16
IMMDT_BYTES = 4
AETH_BYTES = 4
SETH_BYTES = 28
CC_STATE_BYTES = 8
NETH_BYTES = 20
PETH_BYTES = 16
ERTH_BYTES = 16
EETH_BYTES = 36
ICRC_BYTES = 4

#: Payloads are padded with zeros to a multiple of this (IBTA, BTH pad count)
PAYLOAD_ALIGNMENT_BYTES = 4

#: Ethernet, outer and inner IPv6, UDP, BTH, METH, TSETH, RETH, ImmDt: the most a packet without an
#: SRH has in front of its payload, and what a switch keeps of a packet that it trims
TRIM_BYTES = (
    ETHERNET_BYTES
    + 2 * IPV6_BYTES
    + UDP_BYTES
    + BTH_BYTES
    + METH_BYTES
    + TSETH_BYTES
    + RETH_BYTES
    + IMMDT_BYTES
)

P_KEY_DEFAULT = 0xFFFF
TRANSPORT_VERSION = 0
#: Destination QP of endpoint requests and responses
ENDPOINT_QP = 0x000002

PSN_BITS = 24
PSN_MODULUS = 1 << PSN_BITS
#: Unit of the MPR field of a SACK
MPR_UNIT_PSNS = 128
#: Unit of `CCState.rcvd_bytes`
RCVD_BYTES_UNIT_BYTES = 256
SACK_BITMAP_BITS = 64

#: TSETH, PETH and ERTH: `ftype` of a header that carries a timestamp
FTYPE_TIMESTAMP = 1


class Opcode(IntEnum):
    """BTH opcodes of MRC 1.0."""

    RDMA_WRITE_FIRST = 0xC6
    RDMA_WRITE_MIDDLE = 0xC7
    RDMA_WRITE_LAST = 0xC8
    RDMA_WRITE_LAST_WITH_IMMEDIATE = 0xC9
    RDMA_WRITE_ONLY = 0xCA
    RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0xCB
    ACKNOWLEDGE = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    RELIABILITY_SACK = 0xDC
    RELIABILITY_NACK = 0xDD
    RELIABILITY_PROBE_REQUEST = 0xDE


WRITE_OPCODES = frozenset(
    {
        Opcode.RDMA_WRITE_FIRST,
        Opcode.RDMA_WRITE_MIDDLE,
        Opcode.RDMA_WRITE_LAST,
        Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE,
        Opcode.RDMA_WRITE_ONLY,
        Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
    }
)
IMMEDIATE_OPCODES = frozenset(
    {Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE, Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE}
)


class SackM(IntEnum):
    """The M field of SETH: what the responder thinks of the path of the packet it acknowledges."""

    NONE = 0
    #: The packet came with ECN CE
    SKIP_ONCE = 1
    #: The responder holds the path bad
    ALWAYS_SKIP = 2


class NackReason(IntEnum):
    """The reason field of NETH."""

    TRIMMED = 1
    TRIMMED_LASTHOP = 2
    NO_BITMAP = 6
    NO_PKT_BUFFER = 7
    NO_RESOURCE = 10
    PSN_OOR_WINDOW = 11
    UNEXP_EVENT = 25


class EndpointOp(IntEnum):
    """The op field of ERTH and EETH."""

    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1
