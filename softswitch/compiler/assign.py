"""Writing to fields and headers, with the book-keeping of their representation."""

from __future__ import annotations

from softswitch import ir
from softswitch.compiler.expressions import Code, Expressions
from softswitch.compiler.layout import Layout, Mode
from softswitch.compiler.writer import Writer


class Assigner:
    """Writes assignments, and the operations that change a header's validity.

    `length` is the variable of the packet length that simple_switch keeps: it follows add_header
    and remove_header, nothing else.
    """

    def __init__(self, layout: Layout, expressions: Expressions, length: str) -> None:
        self.layout = layout
        self.expressions = expressions
        self.length = length
        self._record = layout.names.new("record")
        self._sides = (layout.names.new("target"), layout.names.new("source"))

    def assign(self, out: Writer, target: ir.FieldLike, value: Code) -> None:
        """`target = value`; the value must fit the field."""
        out.line(f"{self.expressions.field(target)} = {value.text}")
        if isinstance(target, ir.FieldRef):
            self.touch(out, target.header)

    def touch(self, out: Writer, header: ir.Header) -> None:
        """Note that a field of the header was written."""
        place = self.layout.places[header]
        if place.mode is Mode.PLAIN:
            _note(out, place.dirty, "True")
        elif place.mode is Mode.FULL:
            _note(out, place.raw, "None")

    def add_header(self, out: Writer, target: ir.HeaderExpr) -> None:
        """setValid: an invalid header becomes valid with all fields 0."""
        size = ir.header_type(target).size
        if isinstance(target, ir.HeaderRef):
            place = self.layout.places[target.header]
            if place.mode is Mode.METADATA:
                return
            if place.mode is not Mode.RECORD:
                with out.block(f"if not {place.valid}:"):
                    out.line(f"{place.valid} = True")
                    out.line(f"{place.raw} = None")
                    if place.fields:
                        out.line(f"{' = '.join(place.fields.values())} = 0")
                    self._grow(out, size)
                return
        record = self._bind(out, target)
        with out.block(f"if not {record}[0]:"):
            out.line(f"{record}[:] = [False] + [0] * (len({record}) - 1)")
            self._make_valid(out, target, record)
            self._grow(out, size)

    def remove_header(self, out: Writer, target: ir.HeaderExpr) -> None:
        """setInvalid; the fields keep their values."""
        type_ = ir.header_type(target)
        if isinstance(target, ir.HeaderRef):
            place = self.layout.places[target.header]
            if place.mode is Mode.METADATA:
                return
            if place.mode is not Mode.RECORD:
                with out.block(f"if {place.valid}:"):
                    out.line(f"{place.valid} = False")
                    if place.mode is Mode.PLAIN:
                        out.line(f"{place.gone} = True")
                    self._grow(out, -type_.size)
                return
        record = self._bind(out, target)
        with out.block(f"if {record}[0]:"):
            out.line(f"{record}[0] = False")
            self._grow(out, -type_.size)
            if type_.varbit is not None:
                out.line(f"{self.length} -= {record}[-1] // 8")

    def copy_header(self, out: Writer, target: ir.HeaderExpr, source: ir.HeaderExpr) -> None:
        """Header assignment: validity, and the fields of a valid source."""
        values = [self._bind_values(out, expr, i) for i, expr in enumerate((target, source))]
        with out.block(f"if {self._valid(out, source, values[1])}:"):
            pairs = list(zip(values[0][1], values[1][1], strict=True))
            if pairs:
                out.line(f"{', '.join(t for t, _ in pairs)} = {', '.join(s for _, s in pairs)}")
            self._set_valid(out, target, values[0][0])
            if isinstance(target, ir.HeaderRef):
                place = self.layout.places[target.header]
                if place.mode is Mode.FULL:
                    out.line(f"{place.raw} = {self._raw(source)}")
        if not _is_metadata(target):
            with out.block("else:"):
                out.line(f"{self._valid(out, target, values[0])} = False")

    def _raw(self, source: ir.HeaderExpr) -> str:
        if isinstance(source, ir.HeaderRef):
            place = self.layout.places[source.header]
            if place.mode is Mode.FULL:
                return place.raw
        return "None"

    def _bind_values(self, out: Writer, expr: ir.HeaderExpr, which: int) -> tuple[str, list[str]]:
        """(record, fields) of a header; the record is "" unless it is kept as one."""
        if isinstance(expr, ir.HeaderRef):
            place = self.layout.places[expr.header]
            if place.mode is not Mode.RECORD:
                return "", self.expressions.values(expr)
            record = place.record
        else:
            record = self._sides[which]
            out.line(f"{record} = {self.expressions.record(expr)}")
        type_ = ir.header_type(expr)
        count = len(type_.fields) + (type_.varbit is not None)
        return record, [f"{record}[{i + 1}]" for i in range(count)]

    def _valid(self, out: Writer, expr: ir.HeaderExpr, values: tuple[str, list[str]]) -> str:
        return f"{values[0]}[0]" if values[0] else self.expressions.valid(expr)

    def _set_valid(self, out: Writer, target: ir.HeaderExpr, record: str) -> None:
        if record:
            self._make_valid(out, target, record)
        elif not _is_metadata(target):
            out.line(f"{self.expressions.valid(target)} = True")

    def _bind(self, out: Writer, target: ir.HeaderExpr) -> str:
        if isinstance(target, ir.HeaderRef):
            return self.layout.places[target.header].record
        out.line(f"{self._record} = {self.expressions.record(target)}")
        return self._record

    def _make_valid(self, out: Writer, target: ir.HeaderExpr, record: str) -> None:
        """Set a record's valid flag; the other headers of its union become invalid."""
        name = self.expressions.helper
        if isinstance(target, ir.UnionMember):
            union = self.expressions.union(target.union)
            out.line(f"{name('make_valid')}({union}, {target.index})")
        elif isinstance(target, ir.HeaderRef) and target.header in self.layout.union_of:
            union_, index = self.layout.union_of[target.header]
            out.line(f"{name('make_valid')}({self.layout.unions[union_]}, {index})")
        else:
            out.line(f"{record}[0] = True")

    def _grow(self, out: Writer, size: int) -> None:
        if size:
            out.line(f"{self.length} {'+' if size > 0 else '-'}= {abs(size)}")


def _is_metadata(expr: ir.HeaderExpr) -> bool:
    return isinstance(expr, ir.HeaderRef) and expr.header.is_metadata


def _note(out: Writer, variable: str, value: str) -> None:
    """Assign unless a line before, in the same straight run of statements, has done so."""
    margin = "    " * out.level
    text = f"{margin}{variable} = {value}"
    for line in reversed(out.lines):
        if line == text:
            return
        inside = line.startswith(margin) and not line.startswith((margin + " ", margin + "#"))
        if not inside or line.endswith(":") or line.startswith(f"{margin}{variable} = "):
            break
    out.lines.append(text)
