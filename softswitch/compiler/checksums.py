"""Inputs of hashes and checksums, and the checksums to verify and to update."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from softswitch import ir
from softswitch.compiler.assign import Assigner
from softswitch.compiler.expressions import Code, Expressions, fit, number
from softswitch.compiler.layout import Layout, Mode
from softswitch.compiler.writer import Globals, Names, Writer
from softswitch.externs import make_hash

Inputs = Iterable[ir.FieldRef | ir.HeaderRef | ir.Bits | ir.Payload]


class Calculations:
    """Writes code that computes hashes over fields."""

    def __init__(
        self, layout: Layout, expressions: Expressions, assigner: Assigner, bound: Globals
    ) -> None:
        self.layout = layout
        self.expressions = expressions
        self.assigner = assigner
        self.globals = bound
        names: Names = layout.names
        self._data = names.new("data")
        self._bits = names.new("bits")

    def hash(self, out: Writer, key: str, algorithm: str, inputs: Inputs) -> str:
        """Write the code for the input; the expression that is the hash.

        Every `key` has an instance of the hash function of its own (round robin has state).
        """
        function = self.globals.bind_state(
            algorithm,
            lambda state: make_hash(algorithm, state.rng),
            key=("hash", key, algorithm),
        )
        return f"{function}({self.input(out, inputs)})"

    def input(self, out: Writer, inputs: Inputs) -> str:
        """Write code that collects the input's bits; the expression that is its bytes.

        As in BMv2, bits are closed up, the last byte is filled with zeros, and what belongs to an
        invalid header is left out.
        """
        given = list(inputs)
        payload = any(isinstance(part, ir.Payload) for part in given)
        parts = [part for part in given if not isinstance(part, ir.Payload)]
        groups = [(key, list(group)) for key, group in groupby(parts, self._validity)]
        fixed = all(not key for key, _ in groups) and not any(
            self._variable(part) for part in parts
        )
        if fixed:
            pieces = [piece for part in parts for piece in self._pieces(part)]
            total = sum(width for _, width in pieces)
            size = (total + 7) // 8
            text = _concatenation(pieces, 8 * size - total)
            data = f'({text}).to_bytes({size}, "big")' if pieces else 'b""'
        else:
            out.line(f"{self._data} = {self._bits} = 0")
            for key, group in groups:
                if key:
                    with out.block(f"if {key}:"):
                        self._group(out, group)
                else:
                    self._group(out, group)
            data = f'({self._data} << -{self._bits} % 8).to_bytes(({self._bits} + 7) // 8, "big")'
        return f"{data} + frame[off:]" if payload else data

    def _group(self, out: Writer, parts: list[ir.FieldRef | ir.HeaderRef | ir.Bits]) -> None:
        run: list[tuple[str, int]] = []
        for part in parts:
            if not self._variable(part):
                run.extend(self._pieces(part))
                continue
            assert not isinstance(part, ir.Bits)
            self._append(out, run)
            run = []
            header = part.header
            record = self.layout.places[header].record
            type_ = header.type
            indices = [part.index] if isinstance(part, ir.FieldRef) else range(len(type_.fields))
            for index in indices:
                field = type_.fields[index]
                if field.varbit:
                    self._append(out, run)
                    run = []
                    out.line(f"{self._data} = {self._data} << {record}[-1] | {record}[{index + 1}]")
                    out.line(f"{self._bits} += {record}[-1]")
                else:
                    run.append((_unsigned(f"{record}[{index + 1}]", field), field.bitwidth))
        self._append(out, run)

    def _append(self, out: Writer, run: list[tuple[str, int]]) -> None:
        if run:
            total = sum(width for _, width in run)
            text = _concatenation(run, 0)
            out.line(f"{self._data} = {self._data} << {total} | {text}")
            out.line(f"{self._bits} += {total}")

    def _validity(self, part: ir.FieldRef | ir.HeaderRef | ir.Bits) -> str:
        if isinstance(part, ir.Bits) or part.header.is_metadata:
            return ""
        return self.layout.places[part.header].valid

    def _variable(self, part: ir.FieldRef | ir.HeaderRef | ir.Bits) -> bool:
        if isinstance(part, ir.FieldRef):
            return part.field.varbit
        return isinstance(part, ir.HeaderRef) and part.header.type.varbit is not None

    def _pieces(self, part: ir.FieldRef | ir.HeaderRef | ir.Bits) -> list[tuple[str, int]]:
        match part:
            case ir.Bits():
                return [(number(part.value), part.bitwidth)]
            case ir.FieldRef():
                return [(_unsigned(self.layout.field(part), part.field), part.field.bitwidth)]
            case ir.HeaderRef():
                fields = part.header.type.fields
                values = self.expressions.values(part)
                return [
                    (_unsigned(value, field), field.bitwidth)
                    for value, field in zip(values, fields, strict=True)
                ]

    # ---- checksums -------------------------------------------------------------------------

    def verify(self, out: Writer, checksums: Iterable[ir.Checksum]) -> None:
        """After the parser: set `checksum_error` if a checksum of a valid header is wrong."""
        error = self.layout.well_known("standard_metadata.checksum_error")
        if error is None:
            return
        for checksum in checksums:
            if not checksum.verify:
                continue
            place = self.layout.places[checksum.target.header]
            conditions = [] if place.mode is Mode.METADATA else [place.valid]
            if checksum.condition is not None:
                conditions.append(self.expressions.condition(checksum.condition).at(3))
            conditions = [text for text in conditions if text != "True"]
            with out.block(f"if {' and '.join(conditions) or 'True'}:"):
                value = self._value(out, checksum)
                with out.block(f"if {value} != {self.layout.field(checksum.target)}:"):
                    out.line(f"{error} = 1")

    def update(self, out: Writer, checksums: Iterable[ir.Checksum]) -> None:
        """Before the deparser: write the checksums that are to be updated."""
        for checksum in checksums:
            if not checksum.update:
                continue
            condition = "True"
            if checksum.condition is not None:
                condition = self.expressions.condition(checksum.condition).text
            if condition == "False":
                continue
            if condition == "True":
                self._update(out, checksum)
            else:
                with out.block(f"if {condition}:"):
                    self._update(out, checksum)

    def _update(self, out: Writer, checksum: ir.Checksum) -> None:
        value = Code(self._value(out, checksum), low=0, high=(1 << 64) - 1)
        if checksum.calculation.algorithm in _SIXTEEN_BITS:
            value = Code(value.text, low=0, high=0xFFFF)
        self.assigner.assign(out, checksum.target, fit(value, checksum.target.field))

    def _value(self, out: Writer, checksum: ir.Checksum) -> str:
        calculation = checksum.calculation
        return self.hash(out, calculation.name, calculation.algorithm, calculation.inputs)


_SIXTEEN_BITS = frozenset({"csum16", "cksum16", "crc16", "crcCCITT", "xor16", "crc16_custom"})


def _unsigned(text: str, field: ir.Field) -> str:
    return f"({text} & {number((1 << field.bitwidth) - 1)})" if field.signed else text


def _concatenation(pieces: list[tuple[str, int]], padding: int) -> str:
    left = sum(width for _, width in pieces) + padding
    parts = []
    for text, width in pieces:
        left -= width
        if text != "0" or len(pieces) == 1:
            parts.append(f"{text} << {left}" if left else text)
    return " | ".join(parts) or "0"
