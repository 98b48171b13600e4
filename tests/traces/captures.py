"""Traces as pcapng, and captures as traces.

In a pcapng file of ours every port of the switch is an interface, named `port N`, and every
packet says its direction as the switch sees it (epb_flags: inbound, outbound); what must come out
stands right behind what causes it, a microsecond later. Wireshark shows the interface as
`frame.interface_name` and the direction as `frame.packet_flags_direction`.

Read are pcapng files, and classic pcap files of one port and direction each, as switches write
them. Formats: draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.traces.format import Trace

LINKTYPE_ETHERNET = 1
SNAPLEN_BYTES = 262144
OUT_AFTER_IN_NS = 1000

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_OPT_COMMENT, _OPT_IF_NAME, _OPT_IF_TSRESOL, _OPT_EPB_FLAGS = 1, 2, 9, 2
_INBOUND, _OUTBOUND = 1, 2
_NANOSECONDS = b"\x09"  # if_tsresol: 10^-9 s
_PCAP_MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # unit of the second time field, in ns


class CaptureError(ValueError):
    """A file that is no capture, or one we cannot read; the message names it."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One frame at a port of the switch; `inbound` as the switch sees it."""

    port: int
    inbound: bool
    at_ns: int
    frame: bytes


def frames_of(trace: Trace) -> Iterator[tuple[Captured, str]]:
    """What goes in and what must come out, in order, each with a comment."""
    for step in trace.steps:
        counted = ", ".join(f"{name}[{index}]" for name, index in step.counts)
        where = f"{trace.path.name}:{step.line}"
        yield Captured(step.port, True, step.at_ns, step.frame), f"{where}: counts {counted}"
        for out in step.outs:
            comment = f"{trace.path.name}:{out.line}: out, caused by line {step.line}"
            if out.ignored:
                ranges = ", ".join(f"{start} to {end - 1}" for start, end in out.ignored)
                comment += f"; bytes {ranges} may be anything"
            yield Captured(out.port, False, step.at_ns + OUT_AFTER_IN_NS, out.frame), comment


def write_pcapng(path: Path, ports: Iterable[int], frames: Iterable[tuple[Captured, str]]) -> None:
    """Write frames with their comments; raises OSError."""
    interfaces = {port: index for index, port in enumerate(ports)}
    with path.open("wb") as file:
        file.write(_block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for port in interfaces:
            body = struct.pack("<HHI", LINKTYPE_ETHERNET, 0, SNAPLEN_BYTES)
            options = [(_OPT_IF_NAME, f"port {port}".encode()), (_OPT_IF_TSRESOL, _NANOSECONDS)]
            file.write(_block(_INTERFACE, body + _options(options)))
        for captured, comment in frames:
            size = len(captured.frame)
            body = struct.pack(
                "<IIIII",
                interfaces[captured.port],
                captured.at_ns >> 32,
                captured.at_ns & 0xFFFFFFFF,
                size,
                size,
            )
            flags = struct.pack("<I", _INBOUND if captured.inbound else _OUTBOUND)
            options = [(_OPT_COMMENT, comment.encode()), (_OPT_EPB_FLAGS, flags)]
            file.write(_block(_PACKET, body + _pad(captured.frame) + _options(options)))


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    parts = [struct.pack("<HH", code, len(value)) + _pad(value) for code, value in options]
    return b"".join(parts) + bytes(4)  # opt_endofopt


def _block(kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack("<II", kind, total) + body + struct.pack("<I", total)


# ---- reading -------------------------------------------------------------------------------------


def read_pcapng(path: Path) -> list[Captured]:
    """Read a pcapng file whose interfaces are named `port N` (others get numbers from 0).

    Raises:
        CaptureError: it is none, or is damaged.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        return _parse_pcapng(path, data)
    except (struct.error, IndexError, OverflowError) as error:
        raise CaptureError(f"{path}: is damaged: {error}") from error


def _parse_pcapng(path: Path, data: bytes) -> list[Captured]:
    if len(data) < 12 or struct.unpack_from("<I", data)[0] != _SECTION:
        raise CaptureError(f"{path}: is no pcapng file")
    order = "<" if data[8:12] == struct.pack("<I", 0x1A2B3C4D) else ">"
    ports: list[int] = []
    units_ns: list[float] = []
    found: list[Captured] = []
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise CaptureError(f"{path}: ends within a block")
        kind, total = struct.unpack_from(f"{order}II", data, at)
        if total < 12 or at + total > len(data):
            raise CaptureError(f"{path}: block at byte {at} has the impossible length {total}")
        body = data[at + 8 : at + total - 4]
        if kind == _INTERFACE:
            options = _read_options(body[8:], order)
            name = options.get(_OPT_IF_NAME, b"").decode(errors="replace")
            number = name.removeprefix("port ")
            ports.append(int(number) if number.isdecimal() else len(ports))
            exponent = options.get(_OPT_IF_TSRESOL, b"\x06")[0]
            units_ns.append(
                1e9 / 2 ** (exponent & 0x7F) if exponent & 0x80 else 10.0 ** (9 - exponent)
            )
        elif kind == _PACKET:
            interface, high, low, size, _ = struct.unpack_from(f"{order}IIIII", body)
            options = _read_options(body[20 + size + (-size % 4) :], order)
            flags = int.from_bytes(
                options.get(_OPT_EPB_FLAGS, b""), "little" if order == "<" else "big"
            )
            at_ns = int((high << 32 | low) * units_ns[interface])
            inbound = flags & 3 != _OUTBOUND
            found.append(Captured(ports[interface], inbound, at_ns, body[20 : 20 + size]))
        at += total
    return found


def _read_options(data: bytes, order: str) -> dict[int, bytes]:
    options: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(f"{order}HH", data, at)
        if code == 0:
            break
        options[code] = data[at + 4 : at + 4 + length]
        at += 4 + length + (-length % 4)
    return options


def read_pcap(path: Path, port: int, inbound: bool) -> list[Captured]:
    """Read a classic pcap file as frames of one port and direction.

    Raises:
        CaptureError: it is none, or is cut short.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    for order in "<>":
        if len(data) >= 24 and struct.unpack_from(f"{order}I", data)[0] in _PCAP_MAGIC:
            break
    else:
        raise CaptureError(f"{path}: is no pcap file")
    unit_ns = _PCAP_MAGIC[struct.unpack_from(f"{order}I", data)[0]]
    found = []
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise CaptureError(f"{path}: ends within a packet")
        seconds, fraction, size, _ = struct.unpack_from(f"{order}IIII", data, at)
        if at + 16 + size > len(data):
            raise CaptureError(f"{path}: ends within a packet")
        at_ns = seconds * 1_000_000_000 + fraction * unit_ns
        found.append(Captured(port, inbound, at_ns, data[at + 16 : at + 16 + size]))
        at += 16 + size
    return found


def as_trace(frames: Iterable[Captured]) -> str:
    """The statements of a trace file for captured frames: a start, with all that was seen.

    Times count from the first frame. Outs stand behind the last packet that came in before them;
    a packet with none is taken as dropped, and the reader must fill in by which counter.
    """
    ordered = sorted(frames, key=lambda captured: (captured.at_ns, not captured.inbound))
    start_ns = ordered[0].at_ns if ordered else 0
    ports = sorted({captured.port for captured in ordered})
    lines = [f"ports {' '.join(map(str, ports))}"]
    is_open = False
    for captured in ordered:
        text = f'octets("{captured.frame.hex(" ", 4)}")'
        if captured.inbound:
            if is_open:
                lines.append("  drop COUNTER[INDEX]")
            lines.append(f"packet {captured.port} at {captured.at_ns - start_ns}ns: {text}")
            is_open = True
        else:
            lines.append(f"  out {captured.port} COUNTER: {text}")
            is_open = False
    if is_open:
        lines.append("  drop COUNTER[INDEX]")
    return "\n".join(lines)
