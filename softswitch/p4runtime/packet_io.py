"""Packet I/O: controller headers in front of frames to and from the CPU port.

The header's fields stand in P4Info order, most significant bit first, without gaps; BMv2 keeps
headers whole bytes, so a header whose bits do not fill the last byte is padded at its end.
"""

from __future__ import annotations

from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.codec import decode_uint, encode_uint
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema import MetadataSchema


class ControllerHeader:
    """The packet_in or packet_out header of one program; without fields it is empty."""

    def __init__(self, fields: tuple[MetadataSchema, ...]) -> None:
        self.fields = fields
        self.size_bytes = (sum(f.bitwidth for f in fields) + 7) // 8
        self._by_id = {f.id: f for f in fields}
        # (metadata id, shift to the right, mask) of each field in the header read as one integer.
        self._slices: list[tuple[int, int, int]] = []
        self._shifts: dict[int, int] = {}
        rest_bits = self.size_bytes * 8
        for f in fields:
            rest_bits -= f.bitwidth
            self._slices.append((f.id, rest_bits, (1 << f.bitwidth) - 1))
            self._shifts[f.id] = rest_bits

    def packet_in(self, frame: bytes) -> Any | None:
        """The PacketIn message of a frame sent to the CPU port.

        None when it is shorter than the header.
        """
        if len(frame) < self.size_bytes:
            return None
        message = p4runtime_pb2.PacketIn(payload=bytes(frame[self.size_bytes :]))
        header = int.from_bytes(frame[: self.size_bytes], "big")
        for metadata_id, shift, mask in self._slices:
            message.metadata.add(metadata_id=metadata_id, value=encode_uint(header >> shift & mask))
        return message

    def packet_out(self, message: Any) -> bytes:
        """The frame to put into the CPU port for a PacketOut message.

        Raises INVALID_ARGUMENT when the metadata are not exactly those of P4Info, OUT_OF_RANGE for
        values that do not fit.
        """
        header = 0
        missing = set(self._by_id)
        for metadata in message.metadata:
            f = self._by_id.get(metadata.metadata_id)
            if f is None:
                raise invalid(f"packet-out: unknown metadata id {metadata.metadata_id}")
            if f.id not in missing:
                raise invalid(f"packet-out: {f.label} is given twice")
            missing.discard(f.id)
            header |= (
                decode_uint(metadata.value, f.bitwidth, f"packet-out: {f.label}")
                << self._shifts[f.id]
            )
        if missing:
            names = ", ".join(f"'{f.name}'" for f in self.fields if f.id in missing)
            raise invalid(f"packet-out: metadata {names} missing")
        payload: bytes = message.payload
        return header.to_bytes(self.size_bytes, "big") + payload
