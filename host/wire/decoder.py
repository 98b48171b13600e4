"""Frames to packets.

Checks come in the order of the wire, each once: Ethernet, outer IPv6 (and SRH), lengths, inner
IPv6, its destination, UDP, BTH, extension headers, ICRC. The first that fails says so in a
`DecodeError`; nothing else is ever raised.
"""

from __future__ import annotations

from zlib import crc32

from host.wire.below import (
    ENCAPSULATED_BYTES,
    NEXT_HEADER_OFFSET,
    PLAIN_BYTES,
    Below,
    decode_below,
)
from host.wire.constants import ICRC_BYTES, NEXT_HEADER_IPV6, ROCE_V2_UDP_PORT
from host.wire.errors import IcrcError
from host.wire.icrc import BTH_VARIANT_OFFSET
from host.wire.packet import Packet
from host.wire.transport import decode_trimmed, decode_whole
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES, TrafficClasses

#: Envelopes that a decoder remembers: peers times EVs times (traffic classes, lengths)
_CACHE_ENTRIES = 8192


class Decoder:
    """Decodes the frames that come to one NIC.

    `own_address`: packets to another inner destination are refused; None takes all.
    `udp_port`: the UDP destination port. `traffic_classes`: which DSCPs say trimmed.
    `verify_icrc` off saves the CRC, for worlds whose links say themselves what they corrupted.

    Headers below the transport are the same in all packets of a path, so their checked values are
    remembered by their bytes; the memory for that is bounded.
    """

    def __init__(
        self,
        own_address: int | None = None,
        *,
        udp_port: int = ROCE_V2_UDP_PORT,
        traffic_classes: TrafficClasses = DEFAULT_TRAFFIC_CLASSES,
        verify_icrc: bool = True,
    ) -> None:
        self._own_address = own_address
        self._udp_port = udp_port
        self._trimmed_dscps = (traffic_classes.trimmed, traffic_classes.trimmed_lasthop)
        self._verify_icrc = verify_icrc
        self._cache: dict[bytes, Below] = {}

    def decode(self, frame: bytes) -> Packet:
        """The packet in a frame (from its Ethernet header on, without FCS).

        A payload is a view of the frame. Other buffers than bytes are copied first.
        Raises a `DecodeError`.
        """
        if type(frame) is not bytes:
            frame = bytes(frame)
        frame_bytes = len(frame)
        encapsulated = (
            frame_bytes > NEXT_HEADER_OFFSET and frame[NEXT_HEADER_OFFSET] == NEXT_HEADER_IPV6
        )
        key = frame[: ENCAPSULATED_BYTES if encapsulated else PLAIN_BYTES]
        below = self._cache.get(key)
        if below is None or below[2] > frame_bytes:
            below = decode_below(frame, self._own_address, self._udp_port, self._trimmed_dscps)
            if below.envelope.udp.checksum == 0 and below.bth_offset == len(key):
                if len(self._cache) >= _CACHE_ENTRIES:
                    self._cache.clear()
                self._cache[key] = below
        envelope, offset, end, udp_length, trimmed, icrc = below
        if trimmed:
            return decode_trimmed(frame, envelope, offset, end, udp_length)
        packet = decode_whole(frame, envelope, offset, end - ICRC_BYTES)
        if self._verify_icrc:
            view = memoryview(frame)
            crc = crc32(frame[offset : offset + BTH_VARIANT_OFFSET] + b"\xff", icrc)
            crc = crc32(view[offset + BTH_VARIANT_OFFSET + 1 : end - ICRC_BYTES], crc)
            received = int.from_bytes(frame[end - ICRC_BYTES : end], "little")
            if crc != received:
                raise IcrcError(
                    "ICRC", end - ICRC_BYTES, f"is {received:#010x}, the packet's is {crc:#010x}"
                )
        return packet


_VERIFYING = Decoder()
_NOT_VERIFYING = Decoder(verify_icrc=False)


def decode(frame: bytes, *, verify_icrc: bool = True) -> Packet:
    """The packet in a frame, whoever it is for, with the default UDP port and DSCPs.

    A NIC has a `Decoder` of its own. Raises a `DecodeError`.
    """
    return (_VERIFYING if verify_icrc else _NOT_VERIFYING).decode(frame)
