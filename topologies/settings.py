"""Settings of links, queues, trimming and the control plane; sizes that follow from the formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_ETHERNET_BYTES = 14
_IPV6_BYTES = 40
_UDP_BYTES = 8
_BTH_BYTES = 12
_METH_BYTES = 4
_TSETH_BYTES = 4
_RETH_BYTES = 16
_IMMDT_BYTES = 4
_ICRC_BYTES = 4
_PAD_BYTES = 3
#: An SRH with one segment (RFC 8754, section 2)
_SRH_BYTES = 24

_MRC_WRITE_BYTES = _UDP_BYTES + _BTH_BYTES + _METH_BYTES + _TSETH_BYTES + _RETH_BYTES + _IMMDT_BYTES

#: Of flow control, with preamble, FCS and gap
_PAUSE_FRAME_BYTES = 84

#: Trimming must leave the outer headers, and an ordinary frame is never longer than this
MIN_TRIM_BYTES = _ETHERNET_BYTES + _IPV6_BYTES
MAX_TRIM_BYTES = 1518

MIN_PATH_MTU_BYTES = 64
MAX_PATH_MTU_BYTES = 9000

DEFAULT_UDP_PORT = 4791
DEFAULT_GRPC_HOST = "127.0.0.1"
DEFAULT_GRPC_BASE_PORT = 50001


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Of every link of a tier. `rate_bps` None = unlimited; `delay_ns` is one way."""

    rate_bps: int | None = None
    delay_ns: int = 0


@dataclass(frozen=True, slots=True)
class EcnSettings:
    """ECN marking of data: none below `min_bytes` queued, all from `max_bytes` on.

    In between the probability rises in a line from 0 to `probability` (0..1).
    """

    min_bytes: int
    max_bytes: int
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Of a switch port: how many bytes of each class may wait. `ecn` None = no marking."""

    data_limit_bytes: int
    control_limit_bytes: int
    ecn: EcnSettings | None = None


@dataclass(frozen=True, slots=True)
class PfcSettings:
    """Priority-based flow control of data (IEEE 802.1Q-2022, clause 36), at every switch port.

    A switch pauses the sender at a port when more than `xoff_bytes` that came in there wait, and
    lets it go on at `xon_bytes`. `headroom_bytes` is for what arrives meanwhile; None: what rate
    and delay of the port's link need.
    """

    xoff_bytes: int
    xon_bytes: int
    headroom_bytes: int | None = None


class LoadBalancing(Enum):
    """How switches spread plain IPv6 over paths of the same length."""

    #: What belongs to a flow keeps to one path, which a hash chooses
    FLOW = "flow"
    #: Each packet takes a path of its own, at random
    PACKET = "packet"


@dataclass(frozen=True, slots=True)
class TrimSettings:
    """How much of a frame trimming keeps, by what the outer headers carry.

    Sizes are of frames without SRH (a switch adds an SRH's length itself) and cover every header
    that an MRC receiver may need, TSETH and ImmDt among them. `enabled` False: nothing is trimmed,
    data over the limit is dropped.
    """

    enabled: bool = True
    mrc_bytes: int = _ETHERNET_BYTES + 2 * _IPV6_BYTES + _MRC_WRITE_BYTES
    udp_bytes: int = _ETHERNET_BYTES + _IPV6_BYTES + _MRC_WRITE_BYTES


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Where switches listen for P4Runtime: ports of one address, in the order of the switches."""

    host: str = DEFAULT_GRPC_HOST
    base_port: int = DEFAULT_GRPC_BASE_PORT


@dataclass(frozen=True, slots=True)
class LinkOverride:
    """What one link has otherwise than its tier. None leaves the tier's setting."""

    rate_bps: int | None = None
    unlimited: bool = False
    delay_ns: int | None = None

    def apply(self, settings: LinkSettings) -> LinkSettings:
        """The settings of the link."""
        rate_bps = settings.rate_bps if self.rate_bps is None else self.rate_bps
        return LinkSettings(
            rate_bps=None if self.unlimited else rate_bps,
            delay_ns=settings.delay_ns if self.delay_ns is None else self.delay_ns,
        )


DEFAULT_QUEUE = QueueSettings(data_limit_bytes=64 * 1024, control_limit_bytes=64 * 1024)


def pfc_headroom_bytes(rate_bps: int, delay_ns: int, frame_bytes: int) -> int:
    """What may still arrive from a link of which the buffer reached XOFF (802.1Q, annex N).

    The frame that went beyond XOFF; the frame behind which the pause frame waits, the pause frame
    and its way; the frame that the sender has begun, and what is on the way here.
    """
    on_the_way = -(-2 * delay_ns * rate_bps // (8 * 10**9))
    return 3 * frame_bytes + _PAUSE_FRAME_BYTES + on_the_way


def interface_mtu_bytes(path_mtu_bytes: int) -> int:
    """What an interface must carry behind the Ethernet header: a full packet, with an SRH."""
    headers = 2 * _IPV6_BYTES + _SRH_BYTES + _MRC_WRITE_BYTES + _PAD_BYTES + _ICRC_BYTES
    return path_mtu_bytes + headers
