"""Where headers and metadata live in the generated functions.

Four representations, chosen per header from the way the whole program uses it:

* **metadata** — one local variable a field that the program names.
* **plain** — a header that only the parser makes valid. It stays in the frame: a `valid` flag, its
  offset `at`, locals for the fields that the program names, and if it writes any, a `dirty` flag.
  Deparsing a clean one is a slice of the frame.
* **full** — a header that the program also makes valid or copies as a whole: a `valid` flag, locals
  for *all* fields, and `raw`, its bytes as long as nothing changed them (else None).
* **record** — a header of a stack or union, or with a varbit field: a list `[valid, field, …]`
  (a varbit field's length in bits at the end), reached by an index or through its union.

All fields of a header that was never valid read as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import pairwise

from softswitch import ir
from softswitch.compiler.writer import Globals, Names
from softswitch.program import written_argument


class Mode(Enum):
    """Representation of a header, see the module's text."""

    METADATA = "metadata"
    PLAIN = "plain"
    FULL = "full"
    RECORD = "record"


class Uses:
    """How the program uses its headers: a census over every expression and operation in it."""

    def __init__(self, program: ir.Program) -> None:
        self.read: set[tuple[ir.Header, int]] = set()
        self.written: set[tuple[ir.Header, int]] = set()
        self.made_valid: set[ir.Header] = set()
        self.removed: set[ir.Header] = set()
        self.whole: set[ir.Header] = set()  # used as a whole: copied, compared, hashed
        self.extracted: set[ir.Header] = set()
        self.touched: set[ir.Stack | ir.UnionStack] = set()  # changed by more than extraction
        self._program(program)

    def _program(self, program: ir.Program) -> None:
        for state in program.parser.states.values():
            for op in state.ops:
                self._parser_op(op)
            for part, _ in state.key:
                self.expr(part)
        for control in (program.ingress, program.egress):
            for node in control.nodes.values():
                self._node(node)
        for profile in program.profiles.values():
            if profile.selector is not None:
                self._inputs(profile.selector.inputs)
        for calculation in program.calculations.values():
            self._inputs(calculation.inputs)
        for checksum in program.checksums:
            self.expr(checksum.target)
            if checksum.update:
                self._write(checksum.target)
            if checksum.condition is not None:
                self.expr(checksum.condition)
        for digest in program.digests.values():
            for element in digest.elements:
                self.expr(element)
        for field_list in program.field_lists.values():
            for preserved in field_list.fields:
                self.expr(preserved)
                self._write(preserved)
        for primitive in program.deparser_primitives:
            self._primitive(primitive)

    def _node(self, node: ir.Node) -> None:
        match node:
            case ir.Conditional():
                self.expr(node.condition)
            case ir.ActionNode():
                self._action(node.action)
            case ir.TableDef():
                for part in node.key:
                    self.expr(part.source)
                for action in node.actions:
                    self._action(action)
                if node.meter is not None and node.meter.result is not None:
                    self._write(node.meter.result)

    def _action(self, action: ir.Action) -> None:
        for primitive in action.primitives:
            self._primitive(primitive)

    def _parser_op(self, op: ir.ParserOp) -> None:
        match op:
            case ir.Extract():
                if isinstance(op.target, ir.Header):
                    self.extracted.add(op.target)
                if op.length is not None:
                    self.expr(op.length)
            case ir.SetField():
                self._write(op.target)
                self.expr(op.value)
            case ir.Verify():
                self.expr(op.condition)
                self.expr(op.error)
            case ir.Advance():
                self.expr(op.amount)
            case ir.Primitive():
                self._primitive(op)

    def _primitive(self, primitive: ir.Primitive) -> None:
        op = primitive.op
        for arg in primitive.args:
            if isinstance(arg, tuple):
                for part in arg:
                    self.expr(part)
            elif isinstance(arg, ir.Expr):
                self.expr(arg)
            if isinstance(arg, ir.StackRef | ir.UnionStackRef | ir.StackItem):
                self.touched.add(arg.stack)
        at = written_argument(op)
        if at is not None:
            target = primitive.args[at]
            if isinstance(target, ir.FieldRef):
                self._write(target)
            elif isinstance(target, ir.LastField):
                self.touched.add(target.stack)
            elif isinstance(target, ir.Access) and isinstance(target.header, ir.StackItem):
                self.touched.add(target.header.stack)
        if op in ("add_header", "add_header_fast"):
            self._add(self.made_valid, primitive.args[0])
        elif op == "remove_header":
            self._add(self.removed, primitive.args[0])
        elif op in ("assign_header", "copy_header"):
            self._add(self.made_valid, primitive.args[0])
            self._add(self.whole, primitive.args[0])
            self._add(self.whole, primitive.args[1])

    def _add(self, headers: set[ir.Header], arg: ir.Argument) -> None:
        if isinstance(arg, ir.HeaderRef):
            headers.add(arg.header)

    def _write(self, ref: ir.FieldRef) -> None:
        self.written.add((ref.header, ref.index))

    def _inputs(self, inputs: Iterable[object]) -> None:
        for part in inputs:
            if isinstance(part, ir.FieldRef):
                self.expr(part)
            elif isinstance(part, ir.HeaderRef):
                self.whole.add(part.header)

    def only_extracted(self, stack: ir.Stack) -> bool:
        """True if the parser alone changes the stack, by extracting to its end."""
        written = {header for header, _ in self.written}
        changed = written | self.made_valid | self.removed | self.extracted
        return stack not in self.touched and not changed & set(stack.headers)

    def expr(self, expr: ir.Expr) -> None:
        """Count one expression."""
        for part in ir.subexpressions(expr):
            if isinstance(part, ir.FieldRef):
                self.read.add((part.header, part.index))
            elif isinstance(part, ir.Binary) and part.op in ("==", "!="):
                for side in (part.left, part.right):
                    if isinstance(side, ir.HeaderRef):
                        self.whole.add(side.header)


class Place:
    """One header's variables. Which of them are used depends on `mode`."""

    def __init__(self, header: ir.Header, mode: Mode) -> None:
        self.header = header
        self.mode = mode
        self.fields: dict[int, str] = {}
        self.written: frozenset[int] = frozenset()
        self.removable = False
        self.fixed_at: int | None = None  # plain: the offset, if it is always the same
        self.valid = self.at = self.dirty = self.raw = self.gone = ""
        self.record = ""  # record: expression for the list


class Layout:
    """Variables of a program; `initial` maps each to the source text of its first value."""

    def __init__(self, program: ir.Program, names: Names, bound: Globals) -> None:
        self.program = program
        self.uses = Uses(program)
        self.names = names
        self.globals = bound
        self.initial: dict[str, str] = {}
        self.mutable: set[str] = set()  # variables that hold lists
        self.places: dict[ir.Header, Place] = {}
        self.stacks: dict[ir.Stack | ir.UnionStack, str] = {}
        self.next: dict[ir.Stack | ir.UnionStack, str] = {}
        self.empty: dict[ir.Stack, str] = {}  # stacks that only the parser changes: the empty one
        self.unions: dict[ir.Union, str] = {}
        self.union_of: dict[ir.Header, tuple[ir.Union, int]] = {}
        self.standard = program.headers.get("standard_metadata")
        self._records()
        fixed = fixed_offsets(program)
        for header in program.headers.values():
            if header not in self.places:
                self.places[header] = self._place(header, fixed)

    def variable(self, hint: str, initial: str, *, mutable: bool = False) -> str:
        """A new variable with its first value."""
        name = self.names.new(hint)
        self.initial[name] = initial
        if mutable:
            self.mutable.add(name)
        return name

    def field(self, ref: ir.FieldRef) -> str:
        """Text for reading or assigning a field (its bits only: dirty flags are the caller's)."""
        place = self.places[ref.header]
        if place.mode is Mode.RECORD:
            return f"{place.record}[{ref.index + 1}]"
        return place.fields[ref.index]

    def well_known(self, name: str) -> str | None:
        """Variable of a field that simple_switch gives a meaning, None if the program has none."""
        ref = self.program.well_known(name)
        if ref is None:
            return None
        place = self.places[ref.header]
        if ref.index not in place.fields:
            return None
        return place.fields[ref.index]

    # ---- making it -------------------------------------------------------------------------

    def _records(self) -> None:
        program = self.program
        inside: set[ir.Union] = set()
        for unions in program.union_stacks.values():
            rows = [
                f"[{', '.join(record_initial(h.type) for h in u.headers)}]" for u in unions.unions
            ]
            name = self.variable(unions.name, f"[{', '.join(rows)}]", mutable=True)
            self.stacks[unions] = name
            self.next[unions] = self.variable(f"{unions.name}_next", "0")
            for row, union in enumerate(unions.unions):
                inside.add(union)
                self._union(union, f"{name}[{row}]")
        for union in program.unions.values():
            if union not in inside:
                row_text = ", ".join(record_initial(h.type) for h in union.headers)
                name = self.variable(union.name, f"[{row_text}]", mutable=True)
                self._union(union, name)
        for stack in program.stacks.values():
            if self.uses.only_extracted(stack):
                empty: list[list[int]] = [invalid_record(stack.type)] * len(stack.headers)
                self.empty[stack] = self.globals.bind(f"{stack.name}_empty", empty)
                name = self.variable(stack.name, self.empty[stack])
            else:
                rows = [record_initial(stack.type)] * len(stack.headers)
                name = self.variable(stack.name, f"[{', '.join(rows)}]", mutable=True)
            self.stacks[stack] = name
            self.next[stack] = self.variable(f"{stack.name}_next", "0")
            for row, header in enumerate(stack.headers):
                self._record(header, f"{name}[{row}]")
        for header in program.headers.values():
            if header.type.varbit is not None and header not in self.places:
                name = self.variable(header.name, record_initial(header.type), mutable=True)
                self._record(header, name)

    def _union(self, union: ir.Union, text: str) -> None:
        self.unions[union] = text
        for index, header in enumerate(union.headers):
            self.union_of[header] = (union, index)
            self._record(header, f"{text}[{index}]")

    def _record(self, header: ir.Header, text: str) -> None:
        place = Place(header, Mode.RECORD)
        place.record = text
        place.valid = f"{text}[0]"
        self.places[header] = place

    def _place(self, header: ir.Header, fixed: dict[ir.Header, int | None]) -> Place:
        uses = self.uses
        count = len(header.type.fields)
        read = {i for i in range(count) if (header, i) in uses.read}
        written = {i for i in range(count) if (header, i) in uses.written}
        prefix = "sm" if header is self.standard else header.name
        if header.is_metadata:
            place = Place(header, Mode.METADATA)
            chosen: Iterable[int] = read | written
            if (
                header in uses.whole
                or header is self.standard
                or header.name in _WELL_KNOWN_HEADERS
            ):
                chosen = range(count)
        elif header in uses.made_valid or header in uses.whole:
            place = Place(header, Mode.FULL)
            place.raw = self.variable(f"{prefix}_raw", "None")
            chosen = range(count)
        else:
            place = Place(header, Mode.PLAIN)
            place.fixed_at = fixed.get(header)
            if place.fixed_at is None:
                place.at = self.variable(f"{prefix}_at", "0")
            chosen = read | written
            if written:
                place.dirty = self.variable(f"{prefix}_dirty", "False")
            if header in uses.removed:
                place.gone = self.variable(f"{prefix}_gone", "False")
        if place.mode is not Mode.METADATA:
            place.valid = self.variable(f"{prefix}_valid", "False")
        place.removable = header in uses.removed
        place.written = frozenset(written)
        for index in sorted(chosen):
            name = header.type.fields[index].name
            # p4c gathers local variables and user metadata in one header of this name.
            hint = name if header.name == "scalars" else f"{prefix}_{name}"
            place.fields[index] = self.variable(hint, "0")
        return place


# P4_14 programs declare these themselves; simple_switch sets their fields.
_WELL_KNOWN_HEADERS = frozenset({"intrinsic_metadata", "queueing_metadata"})


def invalid_record(type_: ir.HeaderType) -> list[int]:
    """An invalid record of this type."""
    return [False, *[0] * (len(type_.fields) + (type_.varbit is not None))]


def record_initial(type_: ir.HeaderType) -> str:
    """Source text of an invalid record of this type."""
    return repr(invalid_record(type_))


def fixed_offsets(program: ir.Program) -> dict[ir.Header, int | None]:
    """Headers that the parser extracts, with their offset in bytes if it is always the same."""
    offsets: dict[str, int | None] = {}
    found: dict[ir.Header, int | None] = {}
    parser = program.parser
    if parser.start is None:
        return {}
    todo = [(parser.start, 0)]
    start: int | None
    while todo:
        name, start = todo.pop()
        if name in offsets and (offsets[name] == start or offsets[name] is None):
            continue
        if name in offsets:
            start = None
        offsets[name] = start
        at: int | None = start
        for op in parser.states[name].ops:
            if isinstance(op, ir.Extract):
                if isinstance(op.target, ir.Header):
                    known = found.get(op.target, at)
                    found[op.target] = at if known == at else None
                at = _after(op, at)
            elif isinstance(op, ir.Advance):
                const = isinstance(op.amount, ir.Const)
                at = at + op.amount.value // 8 if const and at is not None else None  # type: ignore[union-attr]
        for following in parser.states[name].successors:
            if following is not None:
                todo.append((following, at))  # type: ignore[arg-type]
    return found


def _after(op: ir.Extract, at: int | None) -> int | None:
    if at is None or op.length is not None:
        return None
    match op.target:
        case ir.Header() | ir.Stack():
            type_ = op.target.type
        case ir.UnionStack():
            type_ = op.target.unions[0].headers[op.member].type
    return None if type_.varbit is not None else at + type_.size


def parsed_in_order(program: ir.Program, stacks: Iterable[ir.Stack]) -> bool:
    """True if on every path the parser extracts headers in the order in which they are deparsed.

    And leaves no gap between them, and each is deparsed: then a frame of which no header was
    changed is deparsed to itself, and one with changes is the frame with some headers replaced.
    `stacks` are those that nothing but the parser changes; other stacks have no such order.
    """
    order: dict[ir.Header | ir.Stack | ir.UnionStack, int] = {}
    stack_of = {header: stack for stack in stacks for header in stack.headers}
    deparsed = list(program.deparser)
    while deparsed:
        item: ir.Header | ir.Stack = deparsed[0]
        count = 1
        if deparsed[0] in stack_of:
            item = stack_of[deparsed[0]]
            count = len(item.headers)
            if tuple(deparsed[:count]) != item.headers:
                return False
        if item in order:
            return False
        order[item] = len(order)
        del deparsed[:count]
    stack_places = {order[stack] for stack in stacks if stack in order}
    extracted: dict[str, list[int]] = {}
    for name, state in program.parser.states.items():
        places: list[int] = []
        for op in state.ops:
            if isinstance(op, ir.Advance):
                return False
            if isinstance(op, ir.Extract):
                if op.target not in order:
                    return False
                places.append(order[op.target])
        extracted[name] = places
    for name, places in extracted.items():
        if not places:
            continue
        following = [
            extracted[other][0] for other in reachable(program.parser, name) if extracted[other]
        ]
        steps = [*pairwise(places), *((places[-1], place) for place in following)]
        if any(b < a or (a == b and a not in stack_places) for a, b in steps):
            return False
    return True


def reachable(parser: ir.Parser, name: str) -> Iterator[str]:
    """The states that may be entered after this one."""
    seen: set[str] = set()
    todo = [s for s in parser.states[name].successors if s is not None]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        yield state
        todo.extend(s for s in parser.states[state].successors if s is not None)
