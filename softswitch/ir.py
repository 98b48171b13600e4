"""Typed form of a BMv2 program: what `softswitch.program` reads and `softswitch.compiler` compiles.

Names are those of the JSON (P4's full control-plane names). Widths and offsets are in bits. Objects
with an identity of their own (headers, tables, actions, …) compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from softswitch.externs import MeterKind
from softswitch.tables import Entry, MatchField

# ---- headers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type. `offset` counts from the header's start with an empty varbit field.

    A varbit field has `bitwidth` 0 here; its length is a property of each header at run time.
    """

    name: str
    bitwidth: int
    offset: int
    signed: bool = False
    varbit: bool = False

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.bitwidth - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value; of a varbit field, any number will do."""
        if self.varbit:
            return 1 << 16384
        return (1 << (self.bitwidth - self.signed)) - 1


@dataclass(frozen=True)
class HeaderType:
    """`bits` is the length without the varbit field, `max_bytes` the limit with it (0: none)."""

    name: str
    fields: tuple[Field, ...]
    max_bytes: int = 0

    @cached_property
    def bits(self) -> int:
        """Length in bits, varbit field not counted."""
        return sum(f.bitwidth for f in self.fields)

    @property
    def size(self) -> int:
        """Length in bytes, varbit field not counted."""
        return self.bits // 8

    @cached_property
    def varbit(self) -> int | None:
        """Index of the varbit field, if any."""
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)

    def index(self, name: str) -> int:
        """Index of a field; raises KeyError."""
        for i, f in enumerate(self.fields):
            if f.name == name:
                return i
        raise KeyError(name)


@dataclass(frozen=True, eq=False)
class Header:
    """A header or metadata instance."""

    name: str
    type: HeaderType
    is_metadata: bool


@dataclass(frozen=True, eq=False)
class Stack:
    """A header stack."""

    name: str
    type: HeaderType
    headers: tuple[Header, ...]


@dataclass(frozen=True, eq=False)
class Union:
    """A header union: at most one of `headers` is valid."""

    name: str
    headers: tuple[Header, ...]


@dataclass(frozen=True, eq=False)
class UnionStack:
    """A stack of header unions; `members` names the alternatives."""

    name: str
    unions: tuple[Union, ...]
    members: tuple[str, ...]


# ---- externs -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counter:
    """An indirect counter."""

    name: str
    size: int


@dataclass(frozen=True, eq=False)
class MeterDef:
    """A meter; of a direct one, `table` names the table and `result` the field for the colour."""

    name: str
    kind: MeterKind
    size: int
    rate_count: int
    table: str | None = None
    result: FieldRef | None = None


@dataclass(frozen=True, eq=False)
class Register:
    """A register array."""

    name: str
    size: int
    bitwidth: int


@dataclass(frozen=True, slots=True)
class Payload:
    """What follows the parsed headers, as input of a calculation."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A constant of a given width, as input of a calculation."""

    value: int
    bitwidth: int


@dataclass(frozen=True, eq=False)
class Calculation:
    """A hash or checksum over fields, whole headers, constants and the payload, bits closed up."""

    name: str
    algorithm: str
    inputs: tuple[FieldRef | HeaderRef | Bits | Payload, ...]


@dataclass(frozen=True, eq=False)
class Checksum:
    """A checksum to verify after the parser, or to update before the deparser."""

    name: str
    target: FieldRef
    calculation: Calculation
    verify: bool
    update: bool
    condition: Expr | None


@dataclass(frozen=True, eq=False)
class DigestDef:
    """A digest (learn list)."""

    id: int
    name: str
    elements: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class FieldList:
    """Fields preserved by clone, resubmit and recirculate."""

    id: int
    name: str
    fields: tuple[FieldRef, ...]


# ---- expressions ---------------------------------------------------------------------------------


class Kind(Enum):
    """What an expression yields."""

    DATA = "data"
    BOOL = "bool"
    HEADER = "header"
    STACK = "header_stack"
    UNION = "header_union"
    UNION_STACK = "header_union_stack"


@dataclass(frozen=True, slots=True)
class Const:
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field of a named header."""

    header: Header
    index: int

    @property
    def field(self) -> Field:
        """The field's definition."""
        return self.header.type.fields[self.index]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the enclosing action."""

    index: int
    bitwidth: int


@dataclass(frozen=True, slots=True)
class HeaderRef:
    """A named header."""

    header: Header


@dataclass(frozen=True, slots=True)
class StackRef:
    """A header stack as a whole."""

    stack: Stack


@dataclass(frozen=True, slots=True)
class UnionRef:
    """A named header union."""

    union: Union


@dataclass(frozen=True, slots=True)
class UnionStackRef:
    """A stack of header unions as a whole."""

    stack: UnionStack


@dataclass(frozen=True, slots=True)
class StackItem:
    """A header of a stack, by an index computed at run time."""

    stack: Stack
    index: Expr


@dataclass(frozen=True, slots=True)
class UnionStackItem:
    """A union of a stack, by an index computed at run time."""

    stack: UnionStack
    index: Expr


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A header of a union that is computed at run time."""

    union: UnionRef | UnionStackItem
    index: int

    @property
    def type(self) -> HeaderType:
        """The header's type."""
        if isinstance(self.union, UnionRef):
            return self.union.union.headers[self.index].type
        return self.union.stack.unions[0].headers[self.index].type


@dataclass(frozen=True, slots=True)
class Access:
    """A field of a header that is computed at run time."""

    header: HeaderExpr
    index: int

    @property
    def field(self) -> Field:
        """The field's definition."""
        return header_type(self.header).fields[self.index]


@dataclass(frozen=True, slots=True)
class LastField:
    """A field of the last header extracted into a stack."""

    stack: Stack
    index: int

    @property
    def field(self) -> Field:
        """The field's definition."""
        return self.stack.type.fields[self.index]


@dataclass(frozen=True, slots=True)
class UnionLastField:
    """A field of the last union extracted into a stack of unions."""

    stack: UnionStack
    member: int
    index: int

    @property
    def field(self) -> Field:
        """The field's definition."""
        return self.stack.unions[0].headers[self.member].type.fields[self.index]


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits ahead of the parser's cursor."""

    offset: int
    bitwidth: int


@dataclass(frozen=True, slots=True)
class RegisterRef:
    """A register cell read in an expression."""

    register: Register
    index: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is not, ~, valid, valid_union, d2b, b2d, last_stack_index or size_stack."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` as in BMv2's JSON: + - * / % << >> & | ^ == != < <= > >= and or, casts."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary:
    """`condition ? left : right`."""

    condition: Expr
    left: Expr
    right: Expr


HeaderExpr = HeaderRef | StackItem | UnionMember
FieldLike = FieldRef | Access | LastField | UnionLastField
Expr = (
    Const
    | Bool
    | FieldRef
    | Param
    | HeaderRef
    | StackRef
    | UnionRef
    | UnionStackRef
    | StackItem
    | UnionStackItem
    | UnionMember
    | Access
    | LastField
    | UnionLastField
    | Lookahead
    | RegisterRef
    | Unary
    | Binary
    | Ternary
)

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or"})


def header_type(expr: HeaderExpr) -> HeaderType:
    """Type of the header that an expression yields."""
    if isinstance(expr, HeaderRef):
        return expr.header.type
    return expr.stack.type if isinstance(expr, StackItem) else expr.type


def kind_of(expr: Expr) -> Kind:
    """What the expression yields."""
    match expr:
        case Bool() | Unary(op="not" | "valid" | "valid_union" | "d2b"):
            return Kind.BOOL
        case Binary(op=op) if op in _COMPARISONS:
            return Kind.BOOL
        case HeaderRef() | StackItem() | UnionMember():
            return Kind.HEADER
        case StackRef():
            return Kind.STACK
        case UnionRef() | UnionStackItem():
            return Kind.UNION
        case UnionStackRef():
            return Kind.UNION_STACK
        case Ternary(left=left):
            return kind_of(left)
        case _:
            return Kind.DATA


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and everything in it."""
    yield expr
    match expr:
        case Unary(operand=operand):
            yield from subexpressions(operand)
        case Binary(left=left, right=right):
            yield from subexpressions(left)
            yield from subexpressions(right)
        case Ternary(condition=condition, left=left, right=right):
            yield from subexpressions(condition)
            yield from subexpressions(left)
            yield from subexpressions(right)
        case StackItem(index=index) | UnionStackItem(index=index) | RegisterRef(index=index):
            yield from subexpressions(index)
        case UnionMember(union=union):
            yield from subexpressions(union)
        case Access(header=header):
            yield from subexpressions(header)
        case _:
            pass


# ---- actions, parsers, controls ------------------------------------------------------------------

Argument = Expr | Calculation | Counter | MeterDef | Register | str | tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive call; `where` is the source line, for messages and comments."""

    op: str
    args: tuple[Argument, ...]
    where: str = ""


@dataclass(frozen=True, eq=False)
class Action:
    """An action: parameters as (name, bits), and its primitives in order."""

    name: str
    params: tuple[tuple[str, int], ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract to a header, to the next of a stack, or (with `member`) of a union stack.

    `length` is the varbit field's length in bits.
    """

    target: Header | Stack | UnionStack
    member: int = 0
    length: Expr | None = None


@dataclass(frozen=True, slots=True)
class SetField:
    """Assign to a field in a parser."""

    target: FieldRef
    value: Expr


@dataclass(frozen=True, slots=True)
class Verify:
    """Stop parsing with an error unless the condition holds."""

    condition: Expr
    error: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    """Move the cursor by a number of bits."""

    amount: Expr


ParserOp = Extract | SetField | Verify | Advance | Primitive


@dataclass(frozen=True, slots=True)
class Transition:
    """One case of a select, over the key fields packed without padding, first field on top.

    `mask` None compares the whole key. `value_set` names a parser value set instead of a value.
    `next_state` None ends the parser (accept).
    """

    value: int
    mask: int | None
    next_state: str | None
    value_set: str | None = None


@dataclass(frozen=True, eq=False)
class ParserState:
    """A parser state; `default` is taken when no transition matches."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[tuple[Expr, int], ...]
    transitions: tuple[Transition, ...]
    default: str | None

    @property
    def successors(self) -> tuple[str | None, ...]:
        """Every state that may follow; None is accept."""
        return (*(t.next_state for t in self.transitions), self.default)


@dataclass(frozen=True, eq=False)
class Parser:
    """The parser."""

    name: str
    start: str | None
    states: dict[str, ParserState]


@dataclass(frozen=True, eq=False)
class Selector:
    """How a member of a group is selected."""

    algorithm: str
    inputs: tuple[FieldRef | HeaderRef | Bits | Payload, ...]


@dataclass(frozen=True, eq=False)
class Profile:
    """An action profile, or an action selector."""

    name: str
    size: int
    selector: Selector | None


@dataclass(frozen=True, slots=True)
class KeyField:
    """One key field of a table: what is matched, ANDed with `mask` if there is one."""

    match: MatchField
    source: Expr
    mask: int | None = None


@dataclass(frozen=True, eq=False)
class TableDef:
    """A table. `next_hit`/`next_miss` are used if `by_hit`, else `next_by_action` (by number)."""

    name: str
    key: tuple[KeyField, ...]
    actions: tuple[Action, ...]
    size: int
    profile: str | None
    with_counters: bool
    with_timeout: bool
    meter: MeterDef | None
    default: tuple[int, tuple[int, ...]] | None
    const_default: bool
    entries: tuple[Entry, ...]
    const_entries: bool
    by_hit: bool
    next_by_action: tuple[str | None, ...]
    next_hit: str | None
    next_miss: str | None
    base_next: str | None

    @property
    def successors(self) -> tuple[str | None, ...]:
        """Every node that may follow."""
        if self.by_hit:
            return (self.next_hit, self.next_miss)
        if self.may_do_nothing:
            return (*self.next_by_action, self.base_next)
        return self.next_by_action

    @property
    def may_do_nothing(self) -> bool:
        """True if a lookup may yield no action at all: no default, or an empty group."""
        return self.default is None or self.profile is not None


@dataclass(frozen=True, eq=False)
class Conditional:
    """A branch."""

    name: str
    condition: Expr
    if_true: str | None
    if_false: str | None

    @property
    def successors(self) -> tuple[str | None, ...]:
        """Every node that may follow."""
        return (self.if_true, self.if_false)


@dataclass(frozen=True, eq=False)
class ActionNode:
    """A direct call of an action without parameters."""

    name: str
    action: Action
    next_node: str | None

    @property
    def successors(self) -> tuple[str | None, ...]:
        """The node that follows."""
        return (self.next_node,)


Node = TableDef | Conditional | ActionNode


@dataclass(frozen=True, eq=False)
class Control:
    """A control: a graph of nodes by name."""

    name: str
    start: str | None
    nodes: dict[str, Node]

    @property
    def tables(self) -> Iterator[TableDef]:
        """Its tables."""
        return (node for node in self.nodes.values() if isinstance(node, TableDef))


@dataclass(frozen=True, eq=False)
class Program:
    """A whole program. `source` is the JSON text it was read from."""

    source: str
    name: str
    headers: dict[str, Header]
    stacks: dict[str, Stack]
    unions: dict[str, Union]
    union_stacks: dict[str, UnionStack]
    aliases: dict[str, FieldRef]
    errors: dict[str, int]
    parser: Parser
    value_sets: dict[str, tuple[int, ...]]
    ingress: Control
    egress: Control
    deparser: tuple[Header, ...]
    deparser_primitives: tuple[Primitive, ...]
    checksums: tuple[Checksum, ...]
    calculations: dict[str, Calculation]
    counters: dict[str, Counter]
    meters: dict[str, MeterDef]
    registers: dict[str, Register]
    digests: dict[int, DigestDef]
    field_lists: dict[int, FieldList]
    profiles: dict[str, Profile]
    actions: dict[int, Action] = field(default_factory=dict)

    def well_known(self, name: str) -> FieldRef | None:
        """A field by the name simple_switch knows it by, e.g. `intrinsic_metadata.mcast_grp`."""
        if name in self.aliases:
            return self.aliases[name]
        header_name, _, field_name = name.rpartition(".")
        header = self.headers.get(header_name)
        if header is None:
            return None
        try:
            return FieldRef(header, header.type.index(field_name))
        except KeyError:
            return None
