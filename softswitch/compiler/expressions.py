"""Expressions → Python text, with exact widths.

BMv2 computes with unbounded integers and cuts a value when it is assigned; p4c writes every cut
that P4 asks for as a mask or cast. Python computes the same way, and what is left to do here is to
leave out the masks that cannot change anything: every text carries the interval of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softswitch import ir
from softswitch.compiler import runtime
from softswitch.compiler.layout import Layout, Mode
from softswitch.compiler.writer import Globals

# Python's operator precedences, higher binds closer.
_TERNARY, _OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _SIGN = (
    range(12)
)
_ATOM = 20

# Beyond this many bits a left shift gives zeros only in any field that exists.
_WIDEST = 1 << 14


@dataclass(frozen=True, slots=True)
class Code:
    """Text of an expression, how close it binds, and the interval of its (integer) values."""

    text: str
    level: int = _ATOM
    low: int = 0
    high: int = 0

    def at(self, level: int) -> str:
        """The text, in parentheses if it binds less close than `level`."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def condition(self) -> str:
        """The text as condition of `if`."""
        return self.text


def number(value: int) -> str:
    """A literal, hexadecimal where that is how one reads it."""
    return str(value) if -10 < value < 1024 else hex(value)


def constant(value: int) -> Code:
    """A constant."""
    return Code(number(value), _ATOM if value >= 0 else _SIGN, value, value)


class Expressions:
    """Translates expressions; `params` are the texts for the parameters of the current action."""

    def __init__(self, layout: Layout, names: Globals) -> None:
        self.layout = layout
        self.globals = names
        self.params: Sequence[Code] = ()

    def helper(self, name: str) -> str:
        """Global name of a function of `runtime`."""
        return self.globals.bind(name, getattr(runtime, name), key=("runtime", name))

    # ---- data ------------------------------------------------------------------------------

    def data(self, expr: ir.Expr) -> Code:
        """An integer-valued expression; a boolean one gives 0 or 1."""
        match expr:
            case ir.Const():
                return constant(expr.value)
            case ir.Param():
                return self.params[expr.index]
            case ir.FieldRef() | ir.Access() | ir.LastField() | ir.UnionLastField():
                field = expr.field
                return Code(self.field(expr), _ATOM, field.low, field.high)
            case ir.RegisterRef():
                return self._register(expr)
            case ir.Unary():
                return self._unary(expr)
            case ir.Binary():
                if ir.kind_of(expr) is ir.Kind.BOOL:
                    return _bit(self.condition(expr))
                return self._binary(expr)
            case ir.Ternary():
                condition = self.condition(expr.condition)
                left, right = self.data(expr.left), self.data(expr.right)
                return Code(
                    f"{left.at(_OR)} if {condition.at(_OR)} else {right.at(_TERNARY)}",
                    _TERNARY,
                    min(left.low, right.low),
                    max(left.high, right.high),
                )
            case ir.Bool():
                return constant(int(expr.value))
        raise AssertionError(f"not a value: {expr}")

    def field(self, expr: ir.FieldLike) -> str:
        """A field, to read or to assign."""
        match expr:
            case ir.FieldRef():
                return self.layout.field(expr)
            case ir.Access():
                return f"{self.record(expr.header)}[{expr.index + 1}]"
            case ir.LastField():
                stack, following = self.layout.stacks[expr.stack], self.layout.next[expr.stack]
                return f"{self.helper('item')}({stack}, {following} - 1)[{expr.index + 1}]"
            case ir.UnionLastField():
                stack, following = self.layout.stacks[expr.stack], self.layout.next[expr.stack]
                union = f"{self.helper('item')}({stack}, {following} - 1)"
                return f"{union}[{expr.member}][{expr.index + 1}]"

    def record(self, expr: ir.HeaderExpr) -> str:
        """The record of a header; the header must be one that is kept as record."""
        match expr:
            case ir.HeaderRef():
                return self.layout.places[expr.header].record
            case ir.StackItem():
                return self._item(
                    self.layout.stacks[expr.stack], expr.index, len(expr.stack.headers)
                )
            case ir.UnionMember():
                return f"{self.union(expr.union)}[{expr.index}]"

    def union(self, expr: ir.UnionRef | ir.UnionStackItem) -> str:
        """The list of records of a union."""
        if isinstance(expr, ir.UnionRef):
            return self.layout.unions[expr.union]
        return self._item(self.layout.stacks[expr.stack], expr.index, len(expr.stack.unions))

    def _item(self, stack: str, index: ir.Expr, size: int) -> str:
        code = self.data(index)
        if code.low >= 0 and code.high < size:
            return f"{stack}[{code.text}]"
        return f"{self.helper('item')}({stack}, {code.text})"

    def _register(self, expr: ir.RegisterRef) -> Code:
        register = expr.register
        index = self.data(expr.index)
        high = (1 << register.bitwidth) - 1
        values = self.register(register)
        if index.low >= 0 and index.high < register.size:
            return Code(f"{values}[{index.text}]", _ATOM, 0, high)
        return Code(f"{self.helper('cell')}({values}, {index.text})", _ATOM, 0, high)

    def register(self, register: ir.Register) -> str:
        """Global name of a register's cells."""
        name = register.name
        return self.globals.bind_state(
            f"{name}_cells", lambda state: state.registers[name].values, key=("cells", name)
        )

    def _unary(self, expr: ir.Unary) -> Code:
        operand = expr.operand
        match expr.op:
            case "~":
                code = self.data(operand)
                return Code(f"~{code.at(_SIGN)}", _SIGN, ~code.high, ~code.low)
            case "b2d":
                return _bit(self.condition(operand))
            case "last_stack_index":
                assert isinstance(operand, ir.StackRef | ir.UnionStackRef)
                # bit<32> arithmetic: of an empty stack the index is not -1
                following = self.layout.next[operand.stack]
                return Code(f"{following} - 1 & 0xFFFFFFFF", _BIT_AND, 0, 0xFFFFFFFF)
            case "size_stack":
                assert isinstance(operand, ir.StackRef | ir.UnionStackRef)
                return Code(self.layout.next[operand.stack], _ATOM, 0, 1 << 16)
        return _bit(self.condition(expr))

    def _binary(self, expr: ir.Binary) -> Code:
        left, right = self.data(expr.left), self.data(expr.right)
        if left.low == left.high and right.low == right.high:
            folded = runtime.fold(expr.op, left.low, right.low)
            if folded is not None:
                return constant(folded)
        match expr.op:
            case "+":
                return Code(
                    f"{left.at(_SUM)} + {right.at(_PRODUCT)}",
                    _SUM,
                    left.low + right.low,
                    left.high + right.high,
                )
            case "-":
                return Code(
                    f"{left.at(_SUM)} - {right.at(_PRODUCT)}",
                    _SUM,
                    left.low - right.high,
                    left.high - right.low,
                )
            case "*":
                corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
                text = f"{left.at(_PRODUCT)} * {right.at(_SIGN)}"
                return Code(text, _PRODUCT, min(corners), max(corners))
            case "/" | "%":
                return self._divide(expr.op, left, right)
            case "&":
                return _and(left, right)
            case "|" | "^":
                return _or(expr.op, left, right)
            case "<<":
                return self._shift_left(left, right)
            case ">>":
                if right.low == right.high:
                    text = f"{left.at(_SHIFT)} >> {right.at(_SUM)}"
                    shift = min(right.low, 1 << 20)
                    return Code(text, _SHIFT, left.low >> shift, left.high >> shift)
                text = f"{left.at(_SHIFT)} >> {right.at(_SUM)}"
                return Code(text, _SHIFT, min(left.low, 0), max(left.high, 0))
            case "two_comp_mod":
                return self._signed(left, right.low)
            case "usat_cast":
                return self._saturate(left, 0, (1 << right.low) - 1)
            case "sat_cast":
                return self._saturate(left, -(1 << (right.low - 1)), (1 << (right.low - 1)) - 1)
        raise AssertionError(f"not an operation on data: {expr.op}")

    def _divide(self, op: str, left: Code, right: Code) -> Code:
        high = max(left.high, 0) if op == "/" else max(right.high - 1, 0)
        if right.low > 0 and left.low >= 0:
            sign = "//" if op == "/" else "%"
            return Code(f"{left.at(_PRODUCT)} {sign} {right.at(_SIGN)}", _PRODUCT, 0, high)
        name = self.helper("divide" if op == "/" else "modulo")
        return Code(f"{name}({left.text}, {right.text})", _ATOM, 0, high)

    def _shift_left(self, left: Code, right: Code) -> Code:
        if right.low >= 0 and right.high <= 1024:
            text = f"{left.at(_SHIFT)} << {right.at(_SUM)}"
            low = left.low << right.high if left.low < 0 else left.low << right.low
            return Code(text, _SHIFT, low, max(left.high << right.high, 0))
        text = f"{self.helper('shift_left')}({left.text}, {right.text})"
        bound = max(abs(left.low), abs(left.high)) << _WIDEST
        return Code(text, _ATOM, -bound if left.low < 0 else 0, bound)

    def _signed(self, code: Code, width: int) -> Code:
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        if low <= code.low and code.high <= high:
            return code
        sign = number(1 << (width - 1))
        mask = number((1 << width) - 1)
        return Code(f"({code.at(_SUM)} + {sign} & {mask}) - {sign}", _SUM, low, high)

    def _saturate(self, code: Code, low: int, high: int) -> Code:
        if low <= code.low and code.high <= high:
            return code
        text = code.text
        if (code.high > high) != (code.low < low) and "(" not in text:
            # One comparison, and a short sum twice, cost less than a call
            sign, bound = (">", number(high)) if code.high > high else ("<", number(low))
            value = code.at(_BIT_OR)
            return Code(f"{bound} if {value} {sign} {bound} else {value}", _TERNARY, low, high)
        if code.high > high:
            text = f"min({text}, {number(high)})"
        if code.low < low:
            text = f"max({text}, {number(low)})"
        return Code(text, _ATOM, low, high)

    # ---- conditions ------------------------------------------------------------------------

    def condition(self, expr: ir.Expr) -> Code:
        """A boolean expression, or data as a truth value."""
        match expr:
            case ir.Bool():
                return Code(str(expr.value))
            case ir.Unary(op="d2b"):
                return self.condition(expr.operand)
            case ir.Unary(op="b2d"):
                return self.condition(expr.operand)
            case ir.Unary(op="not"):
                operand = self.condition(expr.operand)
                if operand.text in ("True", "False"):
                    return Code(str(operand.text == "False"))
                return Code(f"not {operand.at(_NOT)}", _NOT)
            case ir.Unary(op="valid"):
                assert isinstance(expr.operand, ir.HeaderExpr)
                return Code(self.valid(expr.operand))
            case ir.Unary(op="valid_union"):
                assert isinstance(expr.operand, ir.UnionRef | ir.UnionStackItem)
                return Code(f"{self.helper('union_valid')}({self.union(expr.operand)})")
            case ir.Binary(op="and" | "or"):
                left, right = self.condition(expr.left), self.condition(expr.right)
                level = _AND if expr.op == "and" else _OR
                return Code(f"{left.at(level)} {expr.op} {right.at(level + 1)}", level)
            case ir.Binary(op="==" | "!="):
                return self._equal(expr)
            case ir.Binary(op="<" | "<=" | ">" | ">="):
                left, right = self.data(expr.left), self.data(expr.right)
                return Code(f"{left.at(_BIT_OR)} {expr.op} {right.at(_BIT_OR)}", _COMPARE)
            case ir.Ternary():
                parts = [self.condition(p) for p in (expr.left, expr.condition, expr.right)]
                yes, test, no = parts
                return Code(f"{yes.at(_OR)} if {test.at(_OR)} else {no.at(_TERNARY)}", _TERNARY)
        return self.data(expr)

    def valid(self, expr: ir.HeaderExpr) -> str:
        """Validity of a header."""
        if isinstance(expr, ir.HeaderRef):
            place = self.layout.places[expr.header]
            return "True" if place.mode is Mode.METADATA else place.valid
        return f"{self.record(expr)}[0]"

    def _equal(self, expr: ir.Binary) -> Code:
        kind = ir.kind_of(expr.left)
        if kind is ir.Kind.DATA:
            left, right = self.data(expr.left), self.data(expr.right)
            return Code(f"{left.at(_BIT_OR)} {expr.op} {right.at(_BIT_OR)}", _COMPARE)
        if kind is ir.Kind.BOOL:
            left, right = self.condition(expr.left), self.condition(expr.right)
            return Code(f"bool({left.text}) {expr.op} bool({right.text})", _COMPARE)
        if kind is ir.Kind.HEADER:
            assert isinstance(expr.left, ir.HeaderExpr) and isinstance(expr.right, ir.HeaderExpr)
            text = f"{self.valid(expr.left)} and {self.valid(expr.right)}"
            pairs = zip(self.values(expr.left), self.values(expr.right), strict=True)
            text = " and ".join([text, *(f"{a} == {b}" for a, b in pairs)])
        else:
            assert isinstance(expr.left, ir.UnionRef | ir.UnionStackItem)
            assert isinstance(expr.right, ir.UnionRef | ir.UnionStackItem)
            name = self.helper("unions_equal")
            text = f"{name}({self.union(expr.left)}, {self.union(expr.right)})"
        return Code(text, _AND) if expr.op == "==" else Code(f"not ({text})", _NOT)

    def values(self, expr: ir.HeaderExpr) -> list[str]:
        """All fields of a header (and a varbit field's length), to read or to assign."""
        if isinstance(expr, ir.HeaderRef):
            place = self.layout.places[expr.header]
            if place.mode is not Mode.RECORD:
                return [place.fields[i] for i in range(len(expr.header.type.fields))]
        record = self.record(expr)
        type_ = ir.header_type(expr)
        count = len(type_.fields) + (type_.varbit is not None)
        return [f"{record}[{i + 1}]" for i in range(count)]


def fit(code: Code, field: ir.Field) -> Code:
    """Cut a value to a field's width, if it can be wider."""
    if field.varbit or (field.low <= code.low and code.high <= field.high):
        return code
    mask = (1 << field.bitwidth) - 1
    if field.signed:
        sign = number(1 << (field.bitwidth - 1))
        text = f"({code.at(_SUM)} + {sign} & {number(mask)}) - {sign}"
        return Code(text, _SUM, field.low, field.high)
    return _and(code, constant(mask))


def cut(code: Code, bits: int) -> Code:
    """Cut a value to so many bits, unsigned."""
    return _and(code, constant((1 << bits) - 1))


def _bit(condition: Code) -> Code:
    if condition.text in ("True", "False"):
        return constant(int(condition.text == "True"))
    if condition.level == _ATOM and (condition.low, condition.high) == (0, 1):
        return condition
    return Code(f"1 if {condition.at(_OR)} else 0", _TERNARY, 0, 1)


def _and(left: Code, right: Code) -> Code:
    for mask, other in ((right, left), (left, right)):
        if mask.low == mask.high and mask.low >= 0:
            value = mask.low
            all_ones = value & (value + 1) == 0
            if all_ones and other.low >= 0 and other.high <= value:
                return other
            return Code(f"{left.at(_BIT_AND)} & {right.at(_SHIFT)}", _BIT_AND, 0, value)
    text = f"{left.at(_BIT_AND)} & {right.at(_SHIFT)}"
    if left.low >= 0 or right.low >= 0:
        highs = [code.high for code in (left, right) if code.low >= 0]
        return Code(text, _BIT_AND, 0, min(highs))
    return Code(text, _BIT_AND, -_power(left, right), _power(left, right))


def _or(op: str, left: Code, right: Code) -> Code:
    if op == "|":
        for zero, other in ((right, left), (left, right)):
            if zero.low == zero.high == 0:
                return other
        text, level = f"{left.at(_BIT_OR)} | {right.at(_BIT_XOR)}", _BIT_OR
    else:
        text, level = f"{left.at(_BIT_XOR)} ^ {right.at(_BIT_AND)}", _BIT_XOR
    high = _power(left, right)
    return Code(text, level, 0 if left.low >= 0 and right.low >= 0 else -high - 1, high)


def _power(left: Code, right: Code) -> int:
    widest = max(code.bit_length() for code in (left.low, left.high, right.low, right.high))
    return (1 << widest) - 1
