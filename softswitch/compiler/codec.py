"""Header fields from and to the bytes of a frame: one `struct` call and a few shifts."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from softswitch import ir
from softswitch.compiler.expressions import number
from softswitch.compiler.writer import Globals, Names, Writer

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes [start, end) of a header, read together, with the fields in them."""

    start: int
    end: int
    fields: tuple[int, ...]


def _spans(type_: ir.HeaderType, wanted: set[int]) -> list[_Span]:
    spans: list[_Span] = []
    for index, field in enumerate(type_.fields):
        if index not in wanted or not field.bitwidth:
            continue
        start, end = field.offset // 8, (field.offset + field.bitwidth + 7) // 8
        if spans and start < spans[-1].end:
            last = spans[-1]
            spans[-1] = _Span(last.start, max(end, last.end), (*last.fields, index))
        else:
            spans.append(_Span(start, end, (index,)))
    return spans


def _pieces(size: int) -> list[int] | None:
    """A length as sum of at most three sizes that `struct` knows; None if it takes more."""
    pieces = []
    for piece in (8, 4, 2, 1):
        while size >= piece:
            pieces.append(piece)
            size -= piece
    return pieces if len(pieces) <= 3 else None


class Codec:
    """Makes the text that loads fields into variables, and that builds a header from them."""

    def __init__(self, names: Names, bound: Globals) -> None:
        self._names = names
        self._globals = bound
        self._temps: list[str] = []

    def temps(self, count: int) -> list[str]:
        """Scratch variables, the same ones for everybody."""
        while len(self._temps) < count:
            self._temps.append(self._names.new("w"))
        return self._temps[:count]

    def load(self, out: Writer, type_: ir.HeaderType, fields: dict[int, str], at: str) -> None:
        """Assign `fields` (index → variable) from the frame, the header starting at offset `at`."""
        spans = _spans(type_, set(fields))
        if not spans:
            return
        single = spans[0]
        if len(spans) == 1 and single.end - single.start == 1:
            self._single_byte(out, type_, fields, single, at)
            return
        format_ = ">"
        targets: list[str] = []
        after: list[str] = []
        position = used = 0
        for span in spans:
            if span.start > position:
                format_ += f"{span.start - position}x"
            position = span.end
            size = span.end - span.start
            alone = span.fields[0] if len(span.fields) == 1 else None
            whole = alone is not None and type_.fields[alone].bitwidth == 8 * size
            pieces = _pieces(size)
            if whole and alone is not None and pieces is not None and len(pieces) == 1:
                code = _CODES[size]
                format_ += code.lower() if type_.fields[alone].signed else code
                targets.append(fields[alone])
                continue
            if pieces is None:
                format_ += f"{size}s"
                used += 1
                word = self.temps(used)[-1]
                targets.append(word)
                value = f'int.from_bytes({word}, "big")'
            else:
                format_ += "".join(_CODES[piece] for piece in pieces)
                words = self.temps(used + len(pieces))[used:]
                used += len(pieces)
                targets.extend(words)
                value = _join(words, pieces)
            if whole and alone is not None:
                after.append(f"{fields[alone]} = {_signed(value, type_.fields[alone])}")
                continue
            if pieces is None or len(pieces) > 1:
                used += 1
                word = self.temps(used)[-1]
                after.append(f"{word} = {value}")
            else:
                word = value
            for index in span.fields:
                after.append(_part(type_.fields[index], fields[index], word, span.end * 8))
        unpack = self._globals.bind(
            f"unpack_{type_.name}", struct.Struct(format_).unpack_from, key=("unpack", format_)
        )
        comma = "," if len(targets) == 1 else ""
        out.line(f"{', '.join(targets)}{comma} = {unpack}(frame{_offset(at)})")
        out.extend(after)

    def _single_byte(
        self, out: Writer, type_: ir.HeaderType, fields: dict[int, str], span: _Span, at: str
    ) -> None:
        byte = f"frame[{_plus(at, span.start)}]"
        if len(span.fields) == 1 and type_.fields[span.fields[0]].bitwidth == 8:
            index = span.fields[0]
            out.line(f"{fields[index]} = {_signed(byte, type_.fields[index])}")
            return
        if len(span.fields) > 1:
            (word,) = self.temps(1)
            out.line(f"{word} = {byte}")
            byte = word
        for index in span.fields:
            out.line(_part(type_.fields[index], fields[index], byte, span.end * 8))

    def rebuild(self, out: Writer, type_: ir.HeaderType, fields: dict[int, str], start: str) -> str:
        """Expression for the bytes of the frame's header at `start` with `fields` set in them.

        Writes a line that reads what stays of the bytes first, where any stays.
        """
        spans = _spans(type_, set(fields))
        if type_.bits % 8 or any(type_.fields[i].signed for i in fields) or not spans:
            return self.build(type_, fields, f"frame[{start}:{_plus(start, type_.size)}]")
        kept, format_ = ">", ">"
        values: list[str] = []
        targets: list[str] = []
        position = 0
        for span in (*spans, _Span(type_.size, type_.size, ())):
            if span.start > position:
                code = _CODES.get(span.start - position, f"{span.start - position}s")
                kept += code
                format_ += code
                targets.append(self.temps(len(targets) + 1)[-1])
                values.append(targets[-1])
            position = span.end
            if not span.fields:
                break
            size = span.end - span.start
            parts, covered = _in_place(type_, fields, span)
            word = " | ".join(parts)
            pieces = _pieces(size)
            if covered != (1 << 8 * size) - 1:
                code = _CODES.get(size, f"{size}s")
                kept += code
                targets.append(self.temps(len(targets) + 1)[-1])
                base = targets[-1] if size in _CODES else f'int.from_bytes({targets[-1]}, "big")'
                rest = ((1 << 8 * size) - 1) & ~covered
                word = f"{base} & {hex(rest)} | {word}"
            else:
                kept += f"{size}x"
            if size in _CODES:
                format_ += _CODES[size]
                values.append(word)
            elif pieces is not None and len(parts) == 1 and word.isidentifier():
                left = size
                for piece in pieces:
                    left -= piece
                    format_ += _CODES[piece]
                    text = f"{word} >> {8 * left}" if left else word
                    if left + piece < size:
                        text += f" & {hex((1 << 8 * piece) - 1)}"
                    values.append(text)
            else:
                format_ += f"{size}s"
                values.append(f'({word}).to_bytes({size}, "big")')
        if targets:
            unpack = self._globals.bind(
                f"unpack_{type_.name}", struct.Struct(kept).unpack_from, key=("unpack", kept)
            )
            comma = "," if len(targets) == 1 else ""
            out.line(f"{', '.join(targets)}{comma} = {unpack}(frame{_offset(start)})")
        pack = self._globals.bind(
            f"pack_{type_.name}", struct.Struct(format_).pack, key=("pack", format_)
        )
        return f"{pack}({', '.join(values)})"

    def build(self, type_: ir.HeaderType, fields: dict[int, str], base: str | None) -> str:
        """Expression for the header's bytes: `fields` set in the bytes that `base` yields.

        `base` None stands for zeros.
        """
        parts = []
        covered = 0
        for index, name in fields.items():
            field = type_.fields[index]
            if not field.bitwidth:
                continue
            shift = type_.bits - field.offset - field.bitwidth
            covered |= ((1 << field.bitwidth) - 1) << shift
            value = f"({name} & {number((1 << field.bitwidth) - 1)})" if field.signed else name
            parts.append(f"{value} << {shift}" if shift else value)
        rest = ((1 << type_.bits) - 1) & ~covered
        if base is not None and rest:
            parts.insert(0, f'int.from_bytes({base}, "big") & {hex(rest)}')
        if not parts:
            return f"bytes({type_.size})"
        if len(parts) == 1 and covered == (1 << type_.bits) - 1:
            return f'{parts[0]}.to_bytes({type_.size}, "big")'
        return f'({" | ".join(parts)}).to_bytes({type_.size}, "big")'


def _in_place(type_: ir.HeaderType, fields: dict[int, str], span: _Span) -> tuple[list[str], int]:
    """The fields of a span, each shifted to its place in it, and the bits that they cover."""
    parts = []
    covered = 0
    for index in span.fields:
        field = type_.fields[index]
        shift = 8 * span.end - field.offset - field.bitwidth
        covered |= ((1 << field.bitwidth) - 1) << shift
        parts.append(f"{fields[index]} << {shift}" if shift else fields[index])
    return parts, covered


def _join(words: list[str], pieces: list[int]) -> str:
    left = sum(pieces)
    parts = []
    for word, piece in zip(words, pieces, strict=True):
        left -= piece
        parts.append(f"{word} << {8 * left}" if left else word)
    return " | ".join(parts)


def _part(field: ir.Field, name: str, word: str, end: int) -> str:
    """Assign a field from a word of which the last bit is at `end`."""
    shift = end - field.offset - field.bitwidth
    value = f"{word} >> {shift}" if shift else word
    # The topmost field of a word needs no mask; a mask too many costs little and is never wrong.
    value = f"{value} & {number((1 << field.bitwidth) - 1)}"
    return f"{name} = {_signed(value, field)}"


def _signed(value: str, field: ir.Field) -> str:
    if not field.signed:
        return value
    sign = number(1 << (field.bitwidth - 1))
    return f"(({value}) ^ {sign}) - {sign}"


def _plus(at: str, offset: int) -> str:
    if at.isdigit():
        return str(int(at) + offset)
    return f"{at} + {offset}" if offset else at


def _offset(at: str) -> str:
    return "" if at == "0" else f", {at}"
