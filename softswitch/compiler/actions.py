"""Actions and primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from softswitch import ir
from softswitch.compiler import runtime
from softswitch.compiler.assign import Assigner
from softswitch.compiler.checksums import Calculations
from softswitch.compiler.expressions import Code, Expressions, cut, fit, number
from softswitch.compiler.layout import Layout
from softswitch.compiler.writer import Globals, Writer
from softswitch.program import UnsupportedProgram


@dataclass(frozen=True, slots=True)
class Requests:
    """Variables in which a packet's wishes to the switch are kept until the end of the pipeline."""

    truncate_to: str
    clone_session: str
    clone_list: str
    digest: str
    resubmit: str
    recirculate: str
    exited: str


# Larger than any frame: not truncated.
NO_TRUNCATION = 1 << 62

_MOST_ROUNDS = 1 << 16  # of a loop in an action


class _NotNestedError(Exception):
    """Jumps that are not those of nested if statements."""


class Actions:
    """Writes action bodies."""

    def __init__(
        self,
        layout: Layout,
        expressions: Expressions,
        assigner: Assigner,
        calculations: Calculations,
        requests: Requests,
        bound: Globals,
        drop_port: int,
    ) -> None:
        self.layout = layout
        self.expressions = expressions
        self.assigner = assigner
        self.calculations = calculations
        self.requests = requests
        self.globals = bound
        self.drop_port = drop_port
        self._index = layout.names.new("index")
        self._block = layout.names.new("block")
        self._rounds = layout.names.new("rounds")
        self._action = ""
        self._primitives: dict[str, Callable[[Writer, Sequence[ir.Argument]], None]] = {
            "add_header": self._add_header,
            "add_header_fast": self._add_header,
            "add_to_field": self._accumulate("+"),
            "assign": self._assign,
            "assign_VL": self._assign_varbit,
            "assign_header": self._copy_header,
            "assign_header_stack": self._copy_stack,
            "assign_union": self._copy_union,
            "assign_union_stack": self._copy_stack,
            "clone_egress_pkt_to_egress": self._clone,
            "clone_ingress_pkt_to_egress": self._clone,
            "copy_header": self._copy_header,
            "count": self._count,
            "drop": self._drop,
            "execute_meter": self._execute_meter,
            "exit": self._exit,
            "generate_digest": self._digest,
            "log_msg": self._log,
            "mark_to_drop": self._drop,
            "modify_field": self._assign,
            "modify_field_rng_uniform": self._random,
            "modify_field_with_hash_based_offset": self._hash,
            "no_op": lambda out, args: None,
            "pop": self._pop,
            "push": self._push,
            "recirculate": self._request(requests.recirculate),
            "register_read": self._register_read,
            "register_write": self._register_write,
            "remove_header": self._remove_header,
            "resubmit": self._request(requests.resubmit),
            "subtract_from_field": self._accumulate("-"),
            "truncate": self._truncate,
        }
        for op, sign in _OPERATIONS.items():
            self._primitives[op] = self._operate(sign)

    def body(
        self,
        out: Writer,
        action: ir.Action,
        params: Sequence[Code],
        *,
        without_last: bool = False,
    ) -> None:
        """Write an action's primitives; `params` stand for its parameters."""
        primitives = action.primitives[:-1] if without_last else action.primitives
        self._action = action.name
        self.expressions.params = params
        mark, level = out.mark(), out.level
        try:
            self._range(out, primitives, 0, len(primitives))
        except _NotNestedError:
            out.rewind(mark)
            out.level = level
            self._blocks(out, primitives)
        self.expressions.params = ()

    def primitive(self, out: Writer, primitive: ir.Primitive, where: str) -> None:
        """Write a single primitive, outside an action (parser, deparser)."""
        self._action = where
        self._one(out, primitive)

    # ---- flow ------------------------------------------------------------------------------

    def _range(self, out: Writer, primitives: Sequence[ir.Primitive], start: int, end: int) -> None:
        """Write primitives [start, end), turning p4c's jumps back into if and else."""
        at = start
        while at < end:
            primitive = primitives[at]
            if primitive.op == "_jump_if_zero":
                at = self._if(out, primitives, at, end)
            elif primitive.op == "_jump":
                at = self._target(primitive, at, end)
            else:
                self._one(out, primitive)
                at += 1

    def _if(self, out: Writer, primitives: Sequence[ir.Primitive], at: int, end: int) -> int:
        condition = primitives[at].args[0]
        assert isinstance(condition, ir.Expr)
        no = self._target(primitives[at], at, end)
        yes_end, after = no, no
        if no - 1 > at and primitives[no - 1].op == "_jump":
            yes_end = no - 1
            after = self._target(primitives[no - 1], yes_end, end)
        with out.block(f"if {self.expressions.condition(condition).text}:"):
            self._range(out, primitives, at + 1, yes_end)
        if after > no:
            with out.block("else:"):
                self._range(out, primitives, no, after)
        return after

    def _target(self, jump: ir.Primitive, at: int, end: int) -> int:
        target = jump.args[-1]
        assert isinstance(target, ir.Const)
        if not at < target.value <= end:
            raise _NotNestedError
        return target.value

    def _blocks(self, out: Writer, primitives: Sequence[ir.Primitive]) -> None:
        """Write primitives whose jumps are not nested (loops): basic blocks in a dispatcher.

        A forward jump falls through to its block in the same round, a backward jump takes another
        round. Loops of P4 end; the limit is there for those whose bound comes from a packet.
        """
        end = len(primitives)
        leaders = {0, end}
        for at, primitive in enumerate(primitives):
            if primitive.op in ("_jump", "_jump_if_zero"):
                target = primitive.args[-1]
                assert isinstance(target, ir.Const)
                if not 0 <= target.value <= end:
                    raise UnsupportedProgram(
                        f"action {self._action}: jump to {target.value} is outside the action"
                    )
                leaders |= {target.value, at + 1}
        order = sorted(leaders)
        block, rounds = self._block, self._rounds
        out.line(f"{block} = 0")
        out.line(f"{rounds} = {_MOST_ROUNDS}")
        with out.block("while True:  # loops of the action"):
            for start, following in pairwise(order):
                with out.block(f"if {block} == {start}:"):
                    out.line(f"{block} = {following}")
                    for primitive in primitives[start:following]:
                        self._in_block(out, primitive)
            with out.block(f"if {block} == {end}:"):
                out.line("break")
            out.line(f"{rounds} -= 1")
            with out.block(f"if not {rounds}:"):
                out.line(f"{self._fail()}({'loop without end in ' + self._action!r})")
                out.line("return None")

    def _in_block(self, out: Writer, primitive: ir.Primitive) -> None:
        if primitive.op not in ("_jump", "_jump_if_zero"):
            self._one(out, primitive)
            return
        target = primitive.args[-1]
        assert isinstance(target, ir.Const)
        if primitive.op == "_jump":
            out.line(f"{self._block} = {target.value}")
            return
        condition = primitive.args[0]
        assert isinstance(condition, ir.Expr)
        with out.block(f"if not {self.expressions.condition(condition).at(3)}:"):
            out.line(f"{self._block} = {target.value}")

    def _fail(self) -> str:
        return self.globals.bind_state(
            "fail_assert", lambda state: state.fail_assert, key="fail_assert"
        )

    def _one(self, out: Writer, primitive: ir.Primitive) -> None:
        if primitive.op in ("assert", "assume"):
            self._assert(out, primitive)
            return
        self._primitives[primitive.op](out, primitive.args)

    def _assert(self, out: Writer, primitive: ir.Primitive) -> None:
        (condition,) = primitive.args
        assert isinstance(condition, ir.Expr)
        text = self.expressions.condition(condition).at(3)
        with out.block(f"if not {text}:"):
            where = primitive.where or f"{primitive.op} in {self._action}"
            out.line(f"{self._fail()}({where!r})")
            out.line("return None")

    # ---- helpers ---------------------------------------------------------------------------

    def _data(self, arg: ir.Argument) -> Code:
        assert isinstance(arg, ir.Expr)
        return self.expressions.data(arg)

    def _set(self, out: Writer, target: ir.Argument, value: Code) -> None:
        assert isinstance(target, ir.FieldLike)
        self.assigner.assign(out, target, fit(value, target.field))

    def _set_variable(self, out: Writer, name: str, value: str) -> None:
        variable = self.layout.well_known(name)
        if variable is not None:
            out.line(f"{variable} = {value}")

    def _in_bounds(
        self, out: Writer, index: ir.Argument, size: int, body: Callable[[str], None]
    ) -> None:
        """Run `body` with the text of an index, under a check if the index can be too big."""
        code = self._data(index)
        if code.low >= 0 and code.high < size:
            body(code.text)
            return
        text = code.text
        if not text.isidentifier() and not text.isdigit():
            out.line(f"{self._index} = {text}")
            text = self._index
        low = "0 <= " if code.low < 0 else ""
        with out.block(f"if {low}{text} < {size}:"):
            body(text)

    # ---- primitives ------------------------------------------------------------------------

    def _assign(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        self._set(out, args[0], self._data(args[1]))

    def _operate(self, sign: str) -> Callable[[Writer, Sequence[ir.Argument]], None]:
        def write(out: Writer, args: Sequence[ir.Argument]) -> None:
            target, left, right = args
            assert isinstance(left, ir.Expr) and isinstance(right, ir.Expr)
            self._set(out, target, self._data(ir.Binary(sign, left, right)))

        return write

    def _accumulate(self, sign: str) -> Callable[[Writer, Sequence[ir.Argument]], None]:
        def write(out: Writer, args: Sequence[ir.Argument]) -> None:
            target, value = args
            assert isinstance(target, ir.FieldLike) and isinstance(value, ir.Expr)
            self._set(out, target, self._data(ir.Binary(sign, target, value)))

        return write

    def _assign_varbit(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        target, source = args
        assert isinstance(target, ir.FieldRef) and isinstance(source, ir.FieldRef)
        to = self.layout.places[target.header].record
        from_ = self.layout.places[source.header].record
        out.line(f"{self.layout.field(target)} = {self.layout.field(source)}")
        out.line(f"{to}[-1] = {from_}[-1]")

    def _add_header(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        assert isinstance(args[0], ir.HeaderExpr)
        self.assigner.add_header(out, args[0])

    def _remove_header(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        assert isinstance(args[0], ir.HeaderExpr)
        self.assigner.remove_header(out, args[0])

    def _copy_header(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        assert isinstance(args[0], ir.HeaderExpr) and isinstance(args[1], ir.HeaderExpr)
        self.assigner.copy_header(out, args[0], args[1])

    def _copy_union(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        to, from_ = args
        assert isinstance(to, ir.UnionRef | ir.UnionStackItem)
        assert isinstance(from_, ir.UnionRef | ir.UnionStackItem)
        name = self.expressions.helper("copy_into")
        out.line(f"{name}({self.expressions.union(to)}, {self.expressions.union(from_)})")

    def _copy_stack(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        to, from_ = args
        assert isinstance(to, ir.StackRef | ir.UnionStackRef)
        assert isinstance(from_, ir.StackRef | ir.UnionStackRef)
        stacks, following = self.layout.stacks, self.layout.next
        name = self.expressions.helper("copy_into")
        out.line(f"{name}({stacks[to.stack]}, {stacks[from_.stack]})")
        out.line(f"{following[to.stack]} = {following[from_.stack]}")

    def _push(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        stack, following, size, count = self._shift(args)
        out.line(f"{self.expressions.helper('push')}({stack}, {count})")
        out.line(f"{following} = min({following} + {count}, {size})")

    def _pop(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        stack, following, _, count = self._shift(args)
        out.line(f"{self.expressions.helper('pop')}({stack}, {count})")
        out.line(f"{following} = max({following} - {count}, 0)")

    def _shift(self, args: Sequence[ir.Argument]) -> tuple[str, str, int, int]:
        ref, count = args
        assert isinstance(ref, ir.StackRef | ir.UnionStackRef) and isinstance(count, ir.Const)
        stack = ref.stack
        size = len(stack.headers if isinstance(stack, ir.Stack) else stack.unions)
        return self.layout.stacks[stack], self.layout.next[stack], size, count.value

    def _count(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        counter, index = args
        assert isinstance(counter, ir.Counter)
        name = counter.name
        packets = self.globals.bind_state(
            f"{name}_packets", lambda state: state.counters[name].packets, key=("packets", name)
        )
        octets = self.globals.bind_state(
            f"{name}_bytes", lambda state: state.counters[name].bytes, key=("bytes", name)
        )

        def write(text: str) -> None:
            out.line(f"{packets}[{text}] += 1")
            out.line(f"{octets}[{text}] += ingress_length")

        code = self._data(index)
        if not code.text.isidentifier() and not code.text.isdigit():
            out.line(f"{self._index} = {code.text}")
            low = "0 <= " if code.low < 0 else ""
            if code.low < 0 or code.high >= counter.size:
                with out.block(f"if {low}{self._index} < {counter.size}:"):
                    write(self._index)
            else:
                write(self._index)
            return
        self._in_bounds(out, index, counter.size, write)

    def _execute_meter(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        meter, index, target = args
        assert isinstance(meter, ir.MeterDef)
        name = meter.name
        cells = self.globals.bind_state(
            f"{name}_cells", lambda state: state.meters[name].cells, key=("meter", name)
        )

        def write(text: str) -> None:
            value = Code(f"{cells}[{text}].execute(ingress_length, now_ns)", low=0, high=2)
            self._set(out, target, value)

        self._in_bounds(out, index, meter.size, write)

    def _register_read(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        target, register, index = args
        assert isinstance(register, ir.Register)
        cells = self.expressions.register(register)
        high = (1 << register.bitwidth) - 1

        def write(text: str) -> None:
            self._set(out, target, Code(f"{cells}[{text}]", low=0, high=high))

        self._in_bounds(out, index, register.size, write)

    def _register_write(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        register, index, value = args
        assert isinstance(register, ir.Register)
        cells = self.expressions.register(register)

        def write(text: str) -> None:
            out.line(f"{cells}[{text}] = {cut(self._data(value), register.bitwidth).text}")

        self._in_bounds(out, index, register.size, write)

    def _drop(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        self._set_variable(out, "standard_metadata.egress_spec", str(self.drop_port))
        self._set_variable(out, "intrinsic_metadata.mcast_grp", "0")

    def _exit(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        out.line(f"{self.requests.exited} = True")

    def _clone(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        session, list_ = args
        out.line(f"{self.requests.clone_session} = {cut(self._data(session), 15).text}")
        out.line(f"{self.requests.clone_list} = {self._data(list_).text}")

    def _request(self, variable: str) -> Callable[[Writer, Sequence[ir.Argument]], None]:
        def write(out: Writer, args: Sequence[ir.Argument]) -> None:
            out.line(f"{variable} = {self._data(args[0]).text}")

        return write

    def _digest(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        out.line(f"{self.requests.digest} = {self._data(args[1]).text}")

    def _truncate(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        length = self._data(args[0])
        variable = self.requests.truncate_to
        out.line(f"{variable} = min({variable}, {length.text})")

    def _log(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        text, values = args
        assert isinstance(values, tuple)
        parts = ", ".join(self._data(value).at(1) for value in values)
        name = self.globals.bind("log_msg", runtime.log_msg, key=("runtime", "log_msg"))
        out.line(f"{name}({text!r}, ({parts}{',' if len(values) == 1 else ''}))")

    def _random(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        target = args[0]
        low, high = self._data(args[1]), self._data(args[2])
        value_high = max(low.high, high.high)
        fixed = low.low == low.high and high.low == high.high
        span = high.low - low.low + 1
        if fixed and span <= 0:
            return  # BMv2: with an empty range the field is not written
        if fixed and span & (span - 1) == 0:
            bits = span.bit_length() - 1
            draw = self.globals.bind_state(
                "getrandbits", lambda state: state.rng.getrandbits, key="getrandbits"
            )
            text = f"{draw}({bits})" + (f" + {number(low.low)}" if low.low else "")
            self._set(out, target, Code(text, 9, low.low, high.high))
            return
        uniform = self.globals.bind_state(
            "uniform", lambda state: runtime.make_random(state.rng), key="uniform"
        )
        value = Code(f"{uniform}({low.text}, {high.text})", low=0, high=value_high)
        if fixed or low.high <= high.low:
            self._set(out, target, value)
            return
        with out.block(f"if {low.at(5)} <= {high.at(5)}:"):
            self._set(out, target, value)

    def _hash(self, out: Writer, args: Sequence[ir.Argument]) -> None:
        target, base, calculation, size = args
        assert isinstance(calculation, ir.Calculation)
        value = self.calculations.hash(
            out, calculation.name, calculation.algorithm, calculation.inputs
        )
        base_code, size_code = cut(self._data(base), 64), cut(self._data(size), 64)
        divisor = size_code.at(11) if size_code.low > 0 else f"({size_code.at(2)} or 1)"
        text = f"{value} % {divisor}"
        if base_code.text != "0":
            text = f"{base_code.at(9)} + {text}"
        high = base_code.high + max(size_code.high - 1, 0)
        self._set(out, target, Code(text, 9, 0, high))


_OPERATIONS = {
    "add": "+",
    "subtract": "-",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
