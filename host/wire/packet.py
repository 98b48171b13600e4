"""The kinds of packet, decoded. Every kind starts with `envelope` and `bth`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from host.wire.constants import (
    BTH_BYTES,
    ICRC_BYTES,
    IMMDT_BYTES,
    IMMEDIATE_OPCODES,
    METH_BYTES,
    RETH_BYTES,
    TSETH_BYTES,
    UDP_BYTES,
    WRITE_OPCODES,
)
from host.wire.envelope import Envelope
from host.wire.headers import (
    AETH,
    BTH,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    CCState,
    ImmDt,
)

#: Decoding hands out views of the frame, so that placing a payload is its only copy
Payload: TypeAlias = bytes | memoryview


class Write(NamedTuple):
    """A data packet of an RDMA WRITE, with or without immediate."""

    envelope: Envelope
    bth: BTH
    meth: METH
    tseth: TSETH | None
    reth: RETH
    #: There if and only if the opcode says so
    immdt: ImmDt | None
    #: Without its padding
    payload: Payload


class Ack(NamedTuple):
    """Transport ACK or NAK."""

    envelope: Envelope
    bth: BTH
    aeth: AETH


class Sack(NamedTuple):
    """Reliability SACK."""

    envelope: Envelope
    bth: BTH
    seth: SETH
    cc_state: CCState


class Nack(NamedTuple):
    """Reliability NACK."""

    envelope: Envelope
    bth: BTH
    neth: NETH


class Probe(NamedTuple):
    """Reliability probe request."""

    envelope: Envelope
    bth: BTH
    peth: PETH


class EndpointRequest(NamedTuple):
    """Port status update or EV probe."""

    envelope: Envelope
    bth: BTH
    erth: ERTH


class EndpointResponse(NamedTuple):
    """Answer to an endpoint request."""

    envelope: Envelope
    bth: BTH
    eeth: EETH


class Trimmed(NamedTuple):
    """What a switch left of a packet: its DSCP is TRIMMED or TRIMMED_LASTHOP and its end is gone.

    Of the extension headers, those of a data packet that are still whole; None otherwise. Without
    an ICRC none of this is protected. A packet that was no longer than what a switch keeps comes
    whole, as its own kind, and only `envelope.dscp` tells that a queue was full.
    """

    envelope: Envelope
    bth: BTH
    meth: METH | None
    tseth: TSETH | None
    reth: RETH | None
    immdt: ImmDt | None
    #: What is left behind the last whole header
    rest: bytes
    #: Of the whole packet, as its UDP header says
    udp_length: int
    #: BTH's pad count and TSETH-present bit
    pad: int
    ts: bool

    @property
    def original_bytes(self) -> int:
        """The length of the frame before it was trimmed."""
        return self.envelope.bth_offset - UDP_BYTES + self.udp_length

    @property
    def payload_bytes(self) -> int | None:
        """How much payload the whole packet had; None if it was no data packet."""
        if self.bth.opcode not in WRITE_OPCODES:
            return None
        header_bytes = UDP_BYTES + BTH_BYTES + METH_BYTES + RETH_BYTES
        if self.ts:
            header_bytes += TSETH_BYTES
        if self.bth.opcode in IMMEDIATE_OPCODES:
            header_bytes += IMMDT_BYTES
        return self.udp_length - header_bytes - self.pad - ICRC_BYTES


Packet: TypeAlias = Write | Ack | Sack | Nack | Probe | EndpointRequest | EndpointResponse | Trimmed
