"""The deparser: headers and payload back to one frame.

Two ways. Where the parser takes headers in the order in which they are deparsed (nearly always) and
all are plain, what lies between the changed headers is taken from the frame as it is; a packet of
which nothing was changed is its own frame. Otherwise the valid headers are put together one by one.
"""

from __future__ import annotations

from softswitch import ir
from softswitch.compiler.codec import Codec
from softswitch.compiler.layout import Layout, Mode, Place, parsed_in_order
from softswitch.compiler.runtime import RecordCodec
from softswitch.compiler.writer import Globals, Writer


class DeparserWriter:
    """Writes the deparser: `frame` becomes the frame to send, before truncation."""

    def __init__(self, layout: Layout, codec: Codec, bound: Globals) -> None:
        self.layout = layout
        self.codec = codec
        self.globals = bound
        self._parts = layout.names.new("parts")
        self._done = layout.names.new("done")
        places = [layout.places[header] for header in layout.program.deparser]
        fixed = {header for stack in layout.empty for header in stack.headers}
        self.in_place = parsed_in_order(layout.program, layout.empty) and all(
            place.mode is Mode.PLAIN or place.header in fixed for place in places
        )

    def deparse(self, out: Writer) -> None:
        """Write it."""
        headers = self.layout.program.deparser
        if self.in_place:
            self._replace(out, headers)
            return
        out.line(f"{self._parts} = []")
        for header in headers:
            self._part(out, header)
        out.line(f"{self._parts}.append(frame[off:])")
        out.line(f'frame = b"".join({self._parts})')

    def _replace(self, out: Writer, headers: tuple[ir.Header, ...]) -> None:
        """Put the frame together from changed headers and what is between them."""
        places = [self.layout.places[header] for header in headers]
        changing = [place for place in places if place.dirty or place.gone]
        if not changing:
            return
        out.line(f"{self._parts} = []")
        out.line(f"{self._done} = 0")
        for place in changing:
            start, end = _bounds(place)
            head = "if"
            if place.dirty:
                with out.block(f"{head} {place.dirty} and {place.valid}:"):
                    written = {i: name for i, name in place.fields.items() if i in place.written}
                    value = self.codec.rebuild(out, place.header.type, written, start)
                    if place.fixed_at == 0:
                        out.line(f"{self._parts}.append({value})")
                    else:
                        out.line(f"{self._parts} += frame[{self._done}:{start}], {value}")
                    out.line(f"{self._done} = {end}")
                head = "elif"
            if place.gone:
                # Valid again it cannot be: a header that the program makes valid is not plain.
                with out.block(f"{head} {place.gone}:"):
                    out.line(f"{self._parts}.append(frame[{self._done}:{start}])")
                    out.line(f"{self._done} = {end}")
        with out.block(f"if {self._done}:"):
            out.line(f"{self._parts}.append(frame[{self._done}:])")
            out.line(f'frame = b"".join({self._parts})')

    def _build(self, place: Place, start: str, end: str) -> str:
        written = {i: name for i, name in place.fields.items() if i in place.written}
        return self.codec.build(place.header.type, written, f"frame[{start}:{end}]")

    def _part(self, out: Writer, header: ir.Header) -> None:
        place = self.layout.places[header]
        append = f"{self._parts}.append"
        with out.block(f"if {place.valid}:"):
            match place.mode:
                case Mode.PLAIN:
                    start, end = _bounds(place)
                    slice_ = f"frame[{start}:{end}]"
                    if place.dirty:
                        slice_ = f"{self._build(place, start, end)} if {place.dirty} else {slice_}"
                    out.line(f"{append}({slice_})")
                case Mode.FULL:
                    value = self.codec.build(header.type, place.fields, None)
                    out.line(f"{append}({place.raw} or {value})")
                case Mode.RECORD:
                    type_ = header.type
                    codec = self.globals.bind(
                        f"{type_.name}_codec", RecordCodec(type_), key=("codec", type_.name)
                    )
                    out.line(f"{append}({codec}.emit({place.record}))")
                case Mode.METADATA:
                    pass


def _bounds(place: Place) -> tuple[str, str]:
    size = place.header.type.size
    if place.fixed_at is not None:
        return str(place.fixed_at), str(place.fixed_at + size)
    return place.at, f"{place.at} + {size}"
