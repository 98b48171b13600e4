"""What a switch did with a trace, and how that differs from what the trace demands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from scapy.layers.l2 import Ether

from tests.traces.format import Cell, Trace

Counter = tuple[int, int]
"""(packets, bytes)"""


@dataclass(slots=True)
class Observation:
    """Frames by the port they left, in order, and what was read afterwards.

    `counters` and `registers` hold the cells that are not zero. What a target cannot tell is None:
    registers, and the times at which the last bits of the frames were out.
    """

    frames: Mapping[int, list[bytes]]
    counters: Mapping[Cell, Counter]
    registers: Mapping[Cell, int] | None = None
    times_ns: Mapping[int, list[int]] | None = None


class Target(Protocol):
    """Something that runs traces."""

    def run(self, trace: Trace) -> Observation:
        """Program a fresh switch as the trace says, send its packets, collect what comes out."""


def differences(trace: Trace, seen: Observation) -> Iterator[str]:
    """Yield, as readable text, every difference between what a trace demands and what was seen."""
    wanted = trace.due()
    for port in sorted(wanted.keys() | seen.frames.keys()):
        pairs = zip_longest(wanted.get(port, []), seen.frames.get(port, []))
        for number, (out, frame) in enumerate(pairs, 1):
            where = f"{trace.path.name}: port {port}, frame {number}"
            if out is None:
                yield f"{where}: came out, but none was due:\n{dump(frame)}"
            elif frame is None:
                yield f"{where} (line {out.line}): did not come out:\n{dump(out.frame)}"
            elif not out.matches(frame):
                yield f"{where} (line {out.line}):\n{compare(out.frame, frame)}"
            elif out.at_ns is not None and seen.times_ns is not None:
                at_ns = seen.times_ns[port][number - 1]
                if at_ns != out.at_ns:
                    yield f"{where} (line {out.line}): was out at {at_ns} ns, not {out.at_ns} ns"
    yield from _cells(trace, "counter", trace.expected_counters(), seen.counters)
    if seen.registers is not None:
        wanted_registers = {cell: value for cell, value in trace.registers.items() if value}
        yield from _cells(trace, "register", wanted_registers, seen.registers)


def _cells(
    trace: Trace, kind: str, wanted: Mapping[Cell, object], seen: Mapping[Cell, object]
) -> Iterator[str]:
    for cell in sorted(wanted.keys() | seen.keys()):
        if wanted.get(cell) != seen.get(cell):
            name, index = cell
            yield (
                f"{trace.path.name}: {kind} {name}[{index}] is {seen.get(cell, 'zero')}, "
                f"must be {wanted.get(cell, 'zero')}"
            )


def dump(frame: bytes) -> str:
    """A frame in scapy's words and in hexadecimal."""
    return f"  {Ether(frame).summary() if len(frame) >= 14 else 'short frame'}\n{_hex(frame)}"


def _hex(frame: bytes) -> str:
    rows = [frame[start : start + 16] for start in range(0, min(len(frame), 256), 16)]
    text = [f"  {16 * number:04x}  {row.hex(' ')}" for number, row in enumerate(rows)]
    if len(frame) > 256:
        text.append(f"  … {len(frame)} bytes")
    return "\n".join(text)


def fields(frame: bytes) -> list[str]:
    """All fields of all layers, a line each, as scapy reads them."""
    lines = []
    layer = Ether(frame)
    depth = 0
    while layer and layer.name != "NoPayload":
        for description in layer.fields_desc:
            value = getattr(layer, description.name)
            text = value.hex() if isinstance(value, bytes) else str(value)
            lines.append(f"{depth} {layer.name}.{description.name} = {text}")
        layer = layer.payload
        depth += 1
    return lines


def compare(wanted: bytes, seen: bytes) -> str:
    """Which fields and bytes of two frames differ, in text."""
    text = []
    if len(wanted) != len(seen):
        text.append(f"  {len(seen)} bytes long, must be {len(wanted)}")
    for want, got in zip_longest(fields(wanted), fields(seen), fillvalue="nothing"):
        if want != got:
            text.append(f"  is {_cut(got)}\n  must be {_cut(want)}")
    places = [i for i, (a, b) in enumerate(zip(wanted, seen, strict=False)) if a != b]
    if places:
        text.append(f"  first different byte: {places[0]} of {len(wanted)}")
    return "\n".join([*text, "  came out:", _hex(seen), "  must be:", _hex(wanted)])


def _cut(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
