"""`p4_device_config`: BMv2 JSON text, bare or in the wrapper that older clients put around it.

PI's `p4.tmp.P4DeviceConfig` (reassign = 1, extras = 2, device_data = 3) is deprecated, but the P4
tutorials' client still sends it. It is read here by its wire format, so that nothing needs its
generated code.
"""

from __future__ import annotations

from softswitch.p4runtime.errors import invalid

_DEVICE_DATA_FIELD = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def program_text(p4_device_config: bytes) -> str:
    """The BMv2 JSON of a p4_device_config; INVALID_ARGUMENT when there is none."""
    if not p4_device_config:
        raise invalid("p4_device_config is empty, want BMv2 JSON (p4c-bm2-ss -o FILE.json)")
    data = p4_device_config
    if not data.lstrip().startswith(b"{"):
        inner = _device_data(data)
        if inner is None:
            raise invalid("p4_device_config is not BMv2 JSON (p4c-bm2-ss -o FILE.json)")
        data = inner
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"p4_device_config is not UTF-8 text: {error}") from None


def _device_data(data: bytes) -> bytes | None:
    """Field 3 of a P4DeviceConfig message; None when the bytes are no such message."""
    found = None
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag is None:
            return None
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            if value is None:
                return None
        elif wire_type in (_FIXED64, _FIXED32):
            at += 8 if wire_type == _FIXED64 else 4
        elif wire_type == _BYTES:
            size, at = _varint(data, at)
            if size is None or at + size > len(data):
                return None
            if number == _DEVICE_DATA_FIELD:
                found = data[at : at + size]
            at += size
        else:
            return None
    return found


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    """A base-128 varint and where the next field begins; None when it is cut off or too long."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            return None, at
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    return None, at
