"""The parser, as one loop whose `break` ends parsing — by accept or by error, as in BMv2.

States are written into each other as far as possible, with the offset into the frame known when the
code is made. A state becomes a label of a dispatcher only where it must: in a loop, or when writing
it everywhere it is reached from would make the code grow too much.

On an error parsing stops, `parser_error` says which, and what was extracted stays extracted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from softswitch import ir
from softswitch.compiler.actions import Actions
from softswitch.compiler.codec import Codec
from softswitch.compiler.expressions import Code, Expressions, cut, fit, number
from softswitch.compiler.layout import Layout, Mode, reachable
from softswitch.compiler.runtime import RecordCodec
from softswitch.compiler.writer import Globals, Writer

_LARGEST_INLINE = 60  # states written, all copies counted
_STEPS = 4096  # transitions of a loop besides those that the frame's length allows


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position in the frame: the variable `off` (or 0) plus a constant, in bytes."""

    variable: bool
    constant: int

    def plus(self, count: int) -> Cursor:
        """So many bytes further."""
        return Cursor(self.variable, self.constant + count)

    @property
    def text(self) -> str:
        """Expression for the offset."""
        if not self.variable:
            return str(self.constant)
        return f"off + {self.constant}" if self.constant else "off"


class ParserWriter:
    """Writes the parser. `parse` may be called more than once."""

    def __init__(
        self,
        layout: Layout,
        expressions: Expressions,
        actions: Actions,
        codec: Codec,
        bound: Globals,
    ) -> None:
        self.layout = layout
        self.expressions = expressions
        self.actions = actions
        self.codec = codec
        self.globals = bound
        self.parser = layout.program.parser
        self.errors = layout.program.errors
        self._label = layout.names.new("state")
        self._steps = layout.names.new("steps")
        self._size = layout.names.new("size")
        self._bits = layout.names.new("size_bits")
        widest = max((len(state.key) for state in self.parser.states.values()), default=0)
        self._keys = [layout.names.new("key") for _ in range(widest)]
        self._to_label = "continue"
        self._repeated = {
            name for name in self.parser.states if name in reachable(self.parser, name)
        }
        self._labels, self._has_loop = self._choose_labels()

    # ---- shape -----------------------------------------------------------------------------

    def _choose_labels(self) -> tuple[dict[str, int], bool]:
        """States that are dispatched to, and whether any of them is in a loop."""
        states = self.parser.states
        if self.parser.start is None:
            return {}, False
        heads: set[str] = set()
        done: set[str] = set()
        active: set[str] = set()
        # Iterative depth-first search: a successor that is being visited closes a loop.
        stack: list[tuple[str, list[str]]] = []

        def enter(name: str) -> None:
            active.add(name)
            stack.append((name, [s for s in states[name].successors if s is not None]))

        enter(self.parser.start)
        while stack:
            name, successors = stack[-1]
            if not successors:
                stack.pop()
                active.discard(name)
                done.add(name)
                continue
            following = successors.pop()
            if following in active:
                heads.add(following)
            elif following not in done:
                enter(following)
        labels = set(heads)
        if self._inline_size(labels, done) > _LARGEST_INLINE:
            reached = Counter(
                s for name in done for s in set(states[name].successors) if s is not None
            )
            labels |= {name for name, count in reached.items() if count > 1}
        if not labels:
            return {}, False
        ordered = [name for name in states if name in labels]
        return {name: i for i, name in enumerate(ordered)}, bool(heads)

    def _inline_size(self, labels: set[str], states: set[str]) -> int:
        sizes: dict[str, int] = {}

        def size(name: str) -> int:
            if name not in sizes:
                successors = {s for s in self.parser.states[name].successors if s is not None}
                sizes[name] = 1 + sum(size(s) for s in successors if s not in labels)
            return sizes[name]

        assert self.parser.start is not None
        try:
            return sum(size(name) for name in {self.parser.start, *labels})
        except RecursionError:
            return _LARGEST_INLINE + 1

    # ---- writing ---------------------------------------------------------------------------

    def parse(self, out: Writer) -> None:
        """Write the parser; it leaves the payload's offset in `off`."""
        if self.parser.start is None:
            out.line("off = 0")
            return
        if not self._labels:
            with out.block("while True:  # parser"):
                self._state(out, self.parser.start, Cursor(False, 0))
            return
        if self.parser.start in self._labels:
            out.line("off = 0")
            out.line(f"{self._label} = {self._labels[self.parser.start]}")
            self._dispatcher(out)
            return
        # What comes before the first label is run once, with offsets that are known.
        out.line(f"{self._label} = -1")
        self._to_label = "break"
        with out.block("while True:  # parser"):
            self._state(out, self.parser.start, Cursor(False, 0))
        with out.block(f"if {self._label} >= 0:"):
            self._dispatcher(out)

    def _dispatcher(self, out: Writer) -> None:
        self._to_label = "continue"
        if self._has_loop:
            out.line(f"{self._steps} = ingress_length + {_STEPS}")
        with out.block("while True:  # parser"):
            if self._has_loop:
                out.line(f"{self._steps} -= 1")
                with out.block(f"if {self._steps} < 0:"):
                    self._fail(out, "ParserTimeout")
            for i, (name, number_) in enumerate(self._labels.items()):
                with out.block(f"{'elif' if i else 'if'} {self._label} == {number_}:"):
                    self._state(out, name, Cursor(True, 0))

    def _state(self, out: Writer, name: str, cursor: Cursor) -> None:
        state = self.parser.states[name]
        repeated = name in self._repeated
        out.comment(name)
        for op in state.ops:
            match op:
                case ir.Extract():
                    cursor = self._extract(out, op, cursor, repeated)
                case ir.Advance():
                    cursor = self._advance(out, op, cursor)
                case ir.SetField():
                    self._set(out, op, cursor)
                case ir.Verify():
                    if self._verify(out, op, cursor):
                        return
                case ir.Primitive():
                    self.actions.primitive(out, op, f"parser state {name}")
        self._select(out, state, cursor)

    def _go(self, out: Writer, name: str | None, cursor: Cursor) -> None:
        if name is None:
            self._move(out, cursor)
            out.line("break")
        elif name in self._labels:
            self._move(out, cursor)
            out.line(f"{self._label} = {self._labels[name]}")
            out.line(self._to_label)
        else:
            self._state(out, name, cursor)

    def _move(self, out: Writer, cursor: Cursor) -> None:
        if not cursor.variable:
            out.line(f"off = {cursor.constant}")
        elif cursor.constant:
            out.line(f"off += {cursor.constant}")

    def _fail(self, out: Writer, error: str, cursor: Cursor | None = None) -> None:
        if cursor is not None:
            self._move(out, cursor)
        self._set_error(out, number(self.errors[error]))
        out.line("break")

    def _set_error(self, out: Writer, value: str) -> None:
        variable = self.layout.well_known("standard_metadata.parser_error")
        if variable is not None:
            out.line(f"{variable} = {value}")

    def _need(self, out: Writer, cursor: Cursor, size: str, end: str) -> None:
        with out.block(f"if ingress_length < {end}:  # {size}"):
            self._fail(out, "PacketTooShort", cursor)

    # ---- extract ---------------------------------------------------------------------------

    def _extract(self, out: Writer, op: ir.Extract, cursor: Cursor, repeated: bool) -> Cursor:
        match op.target:
            case ir.Header() as header:
                place = self.layout.places[header]
                if place.mode is Mode.RECORD:
                    return self._extract_record(out, op, header.type, place.record, cursor, header)
                return self._extract_header(out, header, cursor, repeated)
            case ir.Stack() | ir.UnionStack() as stack:
                name, following = self.layout.stacks[stack], self.layout.next[stack]
                size = len(stack.headers if isinstance(stack, ir.Stack) else stack.unions)
                with out.block(f"if {following} >= {size}:"):
                    self._fail(out, "StackOutOfBounds", cursor)
                if isinstance(stack, ir.Stack):
                    type_, record = stack.type, f"{name}[{following}]"
                else:
                    type_ = stack.unions[0].headers[op.member].type
                    record = f"{name}[{following}][{op.member}]"
                if isinstance(stack, ir.Stack) and stack in self.layout.empty:
                    # The empty stack is shared by all packets; this one gets its own.
                    with out.block(f"if not {following}:"):
                        out.line(f"{name} = {self.layout.empty[stack]}.copy()")
                cursor = self._extract_record(out, op, type_, record, cursor, None)
                out.line(f"{following} += 1")
                return cursor
        raise AssertionError(op.target)

    def _extract_header(
        self, out: Writer, header: ir.Header, cursor: Cursor, repeated: bool
    ) -> Cursor:
        place = self.layout.places[header]
        end = cursor.plus(header.type.size)
        self._need(out, cursor, header.name, end.text)
        at = cursor.text
        self.codec.load(out, header.type, place.fields, at)
        out.line(f"{place.valid} = True")
        if place.mode is Mode.FULL:
            out.line(f"{place.raw} = frame[{at}:{end.text}]")
        elif place.at:
            out.line(f"{place.at} = {at}")
        if place.dirty and repeated:
            out.line(f"{place.dirty} = False")
        return end

    def _extract_record(
        self,
        out: Writer,
        op: ir.Extract,
        type_: ir.HeaderType,
        record: str,
        cursor: Cursor,
        header: ir.Header | None,
    ) -> Cursor:
        codec = self.globals.bind(
            f"{type_.name}_codec", RecordCodec(type_), key=("codec", type_.name)
        )
        end: Cursor
        if op.length is None:
            end = cursor.plus(type_.size)
            self._need(out, cursor, type_.name, end.text)
            out.line(self._fill(op, codec, record, cursor.text))
        else:
            bits = self._bits
            out.line(f"{bits} = {self.expressions.data(op.length).text}")
            with out.block(f"if {bits} % 8:"):
                self._fail(out, "ParserInvalidArgument", cursor)
            out.line(f"{self._size} = {bits} // 8")
            # BMv2 reads the length as int: one that is negative there is too long here
            with out.block(
                f"if ingress_length < {cursor.plus(type_.size).text} + {self._size}"
                f" or {self._size} < 0:"
            ):
                self._fail(out, "PacketTooShort", cursor)
            if type_.max_bytes:
                with out.block(f"if {self._size} > {type_.max_bytes - type_.size}:"):
                    self._fail(out, "HeaderTooShort", cursor)
            out.line(self._fill(op, codec, record, f"{cursor.text}, {bits}"))
            out.line(f"off = {cursor.plus(type_.size).text} + {self._size}")
            end = Cursor(True, 0)
        make_valid = self.expressions.helper
        if header is not None and header in self.layout.union_of:
            union, index = self.layout.union_of[header]
            out.line(f"{make_valid('make_valid')}({self.layout.unions[union]}, {index})")
        elif isinstance(op.target, ir.UnionStack):
            row = record.rpartition("[")[0]
            out.line(f"{make_valid('make_valid')}({row}, {op.member})")
        return end

    def _fill(self, op: ir.Extract, codec: str, record: str, at: str) -> str:
        if isinstance(op.target, ir.Stack) and op.target in self.layout.empty:
            return f"{record} = {codec}.read(frame, {at})"
        return f"{codec}.extract({record}, frame, {at})"

    # ---- other operations ------------------------------------------------------------------

    def _advance(self, out: Writer, op: ir.Advance, cursor: Cursor) -> Cursor:
        amount = self.expressions.data(op.amount)
        if amount.low == amount.high and amount.low % 8 == 0:
            end = cursor.plus(amount.low // 8)
            self._need(out, cursor, "advance", end.text)
            return end
        out.line(f"{self._size} = {amount.text}")
        with out.block(f"if {self._size} % 8:"):
            self._fail(out, "ParserInvalidArgument", cursor)
        out.line(f"{self._size} //= 8")
        with out.block(
            f"if ingress_length < {cursor.text} + {self._size} or {self._size} < 0:  # advance"
        ):
            self._fail(out, "PacketTooShort", cursor)
        out.line(f"off = {cursor.text} + {self._size}")
        return Cursor(True, 0)

    def _set(self, out: Writer, op: ir.SetField, cursor: Cursor) -> None:
        if isinstance(op.value, ir.Lookahead):
            value = self._lookahead(out, op.value, cursor)
        elif op.target.field.varbit:
            assert isinstance(op.value, ir.FieldRef)
            call = ir.Primitive("assign_VL", (op.target, op.value))
            self.actions.primitive(out, call, "parser")
            return
        else:
            self._check_last(out, op.value, cursor)
            value = self.expressions.data(op.value)
        self.actions.assigner.assign(out, op.target, fit(value, op.target.field))

    def _lookahead(self, out: Writer, ahead: ir.Lookahead, cursor: Cursor) -> Code:
        end_bits = ahead.offset + ahead.bitwidth
        start, end = ahead.offset // 8, (end_bits + 7) // 8
        self._need(out, cursor, "lookahead", cursor.plus(end).text)
        first, last = cursor.plus(start), cursor.plus(end)
        if end - start == 1:
            code = Code(f"frame[{first.text}]", low=0, high=255)
        else:
            text = f'int.from_bytes(frame[{first.text}:{last.text}], "big")'
            code = Code(text, low=0, high=(1 << 8 * (end - start)) - 1)
        shift = 8 * end - end_bits
        if shift:
            code = Code(f"{code.text} >> {shift}", 8, 0, code.high >> shift)
        return cut(code, ahead.bitwidth)

    def _check_last(self, out: Writer, expr: ir.Expr, cursor: Cursor) -> None:
        """`stack.last` of an empty stack is an error in a parser."""
        for part in ir.subexpressions(expr):
            if isinstance(part, ir.LastField | ir.UnionLastField):
                with out.block(f"if not {self.layout.next[part.stack]}:"):
                    self._fail(out, "StackOutOfBounds", cursor)

    def _verify(self, out: Writer, op: ir.Verify, cursor: Cursor) -> bool:
        """Write a verify; True if it always fails."""
        condition = self.expressions.condition(op.condition)
        error = self.expressions.data(op.error).text
        if condition.text == "True":
            return False
        if condition.text == "False":
            self._move(out, cursor)
            self._set_error(out, error)
            out.line("break")
            return True
        with out.block(f"if not {condition.at(3)}:"):
            self._move(out, cursor)
            self._set_error(out, error)
            out.line("break")
        return False

    # ---- select ----------------------------------------------------------------------------

    def _select(self, out: Writer, state: ir.ParserState, cursor: Cursor) -> None:
        transitions = state.transitions
        if not transitions or not state.key:
            self._go(out, state.default, cursor)
            return
        parts: list[tuple[str, int]] = []
        for i, (expr, width) in enumerate(state.key):
            if isinstance(expr, ir.Lookahead):
                code = self._lookahead(out, expr, cursor)
            else:
                self._check_last(out, expr, cursor)
                code = self.expressions.data(expr)
                if code.low < 0:
                    code = cut(code, width)
            text = code.text
            if not text.isidentifier():
                out.line(f"{self._keys[i]} = {text}")
                text = self._keys[i]
            parts.append((text, width))
        head = "if"
        for transition in transitions:
            test = self._test(transition, parts)
            with out.block(f"{head} {test}:"):
                self._go(out, transition.next_state, cursor)
            head = "elif"
        # Every case ends with break or continue, so no else is needed.
        self._go(out, state.default, cursor)

    def _test(self, transition: ir.Transition, parts: list[tuple[str, int]]) -> str:
        if transition.value_set is not None:
            return self._value_set_test(transition, parts)
        tests = []
        left = sum(width for _, width in parts)
        for text, width in parts:
            left -= width
            full = (1 << width) - 1
            value = (transition.value >> left) & full
            mask = full if transition.mask is None else (transition.mask >> left) & full
            if mask == full:
                tests.append(f"{text} == {number(value)}")
            elif mask:
                tests.append(f"{text} & {number(mask)} == {number(value & mask)}")
        return " and ".join(tests) or "True"

    def _value_set_test(self, transition: ir.Transition, parts: list[tuple[str, int]]) -> str:
        name = transition.value_set
        assert name is not None
        members = self.globals.bind_state(
            f"{name}_members", lambda state: state.value_sets[name].packed, key=("set", name)
        )
        left = sum(width for _, width in parts)
        words = []
        for text, width in parts:
            left -= width
            words.append(f"{text} << {left}" if left else text)
        mask = "" if transition.mask is None else f", {number(transition.mask)}"
        return f"{self.expressions.helper('in_set')}({members}, {' | '.join(words)}{mask})"
