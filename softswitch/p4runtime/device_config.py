"""`p4_device_config`: BMv2 JSON text, bare or in the wrapper that older clients put around it.

PI's `p4.tmp.P4DeviceConfig` (reassign = 1, extras = 2, device_data = 3) is deprecated, but the P4
tutorials' client still sends it. It is read here by its wire format, so that nothing needs its
generated code.
"""

from __future__ import annotations

from softswitch.p4runtime import wire
from softswitch.p4runtime.errors import invalid

_DEVICE_DATA_FIELD = 3


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
    try:
        for number, wire_type, begin, end in wire.fields(data, 0, len(data)):
            if number == _DEVICE_DATA_FIELD and wire_type == wire.BYTES:
                found = data[begin:end]
    except wire.WireError:
        return None
    return found
