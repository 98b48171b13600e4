"""MRC 1.0 on the wire: packets to frames and back. docs/wire-format.md describes the formats.

`decode` and `encode` are the whole of it for one packet; a NIC has a `Decoder`, and a
`FrameTemplate` for each path and traffic class it sends on. `scapy_layers` has the same formats
for scapy and is not imported here.
"""

from host.wire.constants import EndpointOp, NackReason, Opcode, SackM
from host.wire.decoder import Decoder, decode
from host.wire.encoder import FrameTemplate, encode
from host.wire.envelope import Envelope, Ethernet, Ipv6, Srh, Udp
from host.wire.errors import (
    DecodeError,
    EncodeError,
    FieldError,
    IcrcError,
    LengthError,
    NotMrcError,
    TruncatedError,
    UdpChecksumError,
    UnknownOpcodeError,
    WrongDestinationError,
)
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
from host.wire.packet import (
    Ack,
    EndpointRequest,
    EndpointResponse,
    Nack,
    Packet,
    Payload,
    Probe,
    Sack,
    Trimmed,
    Write,
)
from host.wire.trim import trim

__all__ = [
    "AETH",
    "BTH",
    "EETH",
    "ERTH",
    "METH",
    "NETH",
    "PETH",
    "RETH",
    "SETH",
    "TSETH",
    "Ack",
    "CCState",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "EndpointOp",
    "EndpointRequest",
    "EndpointResponse",
    "Envelope",
    "Ethernet",
    "FieldError",
    "FrameTemplate",
    "IcrcError",
    "ImmDt",
    "Ipv6",
    "LengthError",
    "Nack",
    "NackReason",
    "NotMrcError",
    "Opcode",
    "Packet",
    "Payload",
    "Probe",
    "Sack",
    "SackM",
    "Srh",
    "Trimmed",
    "TruncatedError",
    "Udp",
    "UdpChecksumError",
    "UnknownOpcodeError",
    "Write",
    "WrongDestinationError",
    "decode",
    "encode",
    "trim",
]
