"""Controls: the graph of tables and conditionals, turned back into nested statements.

A node's branches are written inside it up to the point where they meet again (the immediate
post-dominator), which comes after it at the same level. Graphs for which that would write too much
twice, or nest too deep, become a list of `if node == n:` in topological order instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softswitch import ir
from softswitch.compiler.actions import Actions
from softswitch.compiler.checksums import Calculations
from softswitch.compiler.expressions import Code, Expressions, constant, cut, number
from softswitch.compiler.layout import Layout, Mode
from softswitch.compiler.writer import Globals, TooDeep, Writer
from softswitch.program import UnsupportedProgram
from softswitch.tables import GROUP, NO_ACTION, MatchKind, Table, key_kind

Follow = Callable[[Writer, str | None], None]


class _TooLargeError(Exception):
    """Structured code for this graph would repeat too much."""


class ControlWriter:
    """Writes controls."""

    def __init__(
        self,
        layout: Layout,
        expressions: Expressions,
        actions: Actions,
        calculations: Calculations,
        bound: Globals,
    ) -> None:
        self.layout = layout
        self.expressions = expressions
        self.actions = actions
        self.calculations = calculations
        self.globals = bound
        self.exited = actions.requests.exited
        names = layout.names
        self._entry = names.new("entry")
        self._number = names.new("action")
        self._hit = names.new("hit")
        self._key = names.new("key")
        self._node = names.new("node")
        self._found = names.new("found")
        self._param_names: dict[str, str] = {}
        self._control: ir.Control

    # ---- graph -----------------------------------------------------------------------------

    def control(self, out: Writer, control: ir.Control) -> None:
        """Write a control."""
        if control.start is None:
            return
        self._control = control
        may_exit = any(
            primitive.op == "exit"
            for node in control.nodes.values()
            for action in _actions_of(node)
            for primitive in action.primitives
        )
        if not may_exit:
            self._body(out, control, control.start)
            return
        with out.block("while True:  # left by exit"):
            self._body(out, control, control.start)
            out.line("break")

    def _body(self, out: Writer, control: ir.Control, start: str) -> None:
        order = _topological(control, start)
        merge = _post_dominators(control, order)
        mark, level = out.mark(), out.level
        try:
            self._budget = 3 * len(order) + 20
            self._sequence(out, start, None, merge)
        except (TooDeep, _TooLargeError):
            out.rewind(mark)
            out.level = level
            self._dispatch(out, control, order)

    def _sequence(
        self, out: Writer, name: str | None, stop: str | None, merge: dict[str, str | None]
    ) -> None:
        """Write the nodes from `name` on, up to `stop`."""
        while name is not None and name != stop:
            self._budget -= 1
            if self._budget < 0:
                raise _TooLargeError
            node = self._control.nodes[name]
            join = merge[name]

            def follow(inner: Writer, to: str | None, join: str | None = join) -> None:
                if to != join:
                    self._sequence(inner, to, join, merge)

            self._write_node(out, node, follow, join)
            name = join

    def _dispatch(self, out: Writer, control: ir.Control, order: Sequence[str]) -> None:
        numbers: dict[str | None, int] = {name: i for i, name in enumerate(order)}
        numbers[None] = len(order)

        def follow(inner: Writer, to: str | None) -> None:
            inner.line(f"{self._node} = {numbers[to]}")

        out.line(f"{self._node} = 0")
        for name in order:
            with out.block(f"if {self._node} == {numbers[name]}:"):
                self._write_node(out, control.nodes[name], follow, name)

    def _write_node(self, out: Writer, node: ir.Node, follow: Follow, join: str | None) -> None:
        match node:
            case ir.Conditional():
                self._conditional(out, node, follow, join)
            case ir.ActionNode():
                self._action(out, node.action, ())
                follow(out, node.next_node)
            case ir.TableDef():
                self._table(out, node, follow)

    def _conditional(
        self, out: Writer, node: ir.Conditional, follow: Follow, join: str | None
    ) -> None:
        condition = self.expressions.condition(node.condition)
        if condition.text in ("True", "False"):
            follow(out, node.if_true if condition.text == "True" else node.if_false)
            return
        if node.if_true == join and node.if_false != join:
            with out.block(f"if not {condition.at(3)}:"):
                follow(out, node.if_false)
            return
        with out.block(f"if {condition.text}:"):
            follow(out, node.if_true)
        if node.if_false == join:
            return
        inner = Writer(out.level + 1)
        follow(inner, node.if_false)
        if inner.lines:
            self._else(out, inner)

    def _else(self, out: Writer, inner: Writer) -> None:
        """Append an else branch; one that is a single if statement becomes an elif."""
        margin = "    " * inner.level
        tops = [
            line for line in inner.lines if line.startswith(margin) and line[len(margin)] != " "
        ]
        if tops[0].startswith(margin + "if ") and all(
            line[len(margin) :].startswith(("elif ", "else:")) for line in tops[1:]
        ):
            first = inner.lines.index(tops[0])
            inner.lines[first] = margin + "el" + tops[0][len(margin) :]
            out.lines.extend(line[4:] for line in inner.lines)
            return
        out.line("else:")
        out.lines.extend(inner.lines)

    # ---- tables ----------------------------------------------------------------------------

    def _table(self, out: Writer, node: ir.TableDef, follow: Follow) -> None:
        if self._is_call(node):
            assert node.default is not None
            index, args = node.default
            self._action(out, node.actions[index], [constant(arg) for arg in args])
            follow(out, node.next_miss if node.by_hit else node.next_by_action[index])
            return
        out.comment(f"table {node.name}")
        needs_hit = self._lookup(out, node)
        self._select_member(out, node)
        self._dispatch_action(out, node, follow)
        if node.by_hit:
            if node.next_hit == node.next_miss:
                follow(out, node.next_hit)
            elif not needs_hit:
                follow(out, node.next_miss)
            else:
                self._branch_on_hit(out, node, follow)

    def _branch_on_hit(self, out: Writer, node: ir.TableDef, follow: Follow) -> None:
        yes, no = Writer(out.level + 1), Writer(out.level + 1)
        follow(yes, node.next_hit)
        follow(no, node.next_miss)
        if yes.lines:
            out.line(f"if {self._hit}:")
            out.lines.extend(yes.lines)
            if no.lines:
                self._else(out, no)
        elif no.lines:
            out.line(f"if not {self._hit}:")
            out.lines.extend(no.lines)

    def _is_call(self, node: ir.TableDef) -> bool:
        """True for the tables that p4c makes of an action call: no key, a fixed action."""
        return (
            not node.key
            and node.default is not None
            and node.const_default
            and node.profile is None
            and node.meter is None
        )

    def _lookup(self, out: Writer, node: ir.TableDef) -> bool:
        """Write the look-up into `entry`; True if `hit` was set."""
        default = self._part(node, "default", lambda table: table.default_cell)
        if not node.key:
            out.line(f"{self._entry} = {default}[0]")
            return False
        needs_hit = node.by_hit and node.next_hit != node.next_miss
        on_hit = self._on_hit(node)
        kind = key_kind(part.match for part in node.key)
        if kind is MatchKind.EXACT:
            key = self._exact_key(node)
            get = self._part(node, "get", lambda table: table.exact.get)
            if not needs_hit and not on_hit:
                out.line(f"{self._entry} = {get}({key}) or {default}[0]")
                return False
            out.line(f"{self._entry} = {get}({key})")
        else:
            self._search(out, node, kind)
        if needs_hit:
            out.line(f"{self._hit} = {self._entry} is not None")
        with out.block(f"if {self._entry} is None:"):
            out.line(f"{self._entry} = {default}[0]")
        if on_hit:
            with out.block("else:"):
                out.extend(on_hit)
        return needs_hit

    def _part(self, node: ir.TableDef, what: str, part: Callable[[Table], object]) -> str:
        """Global name of a structure of a table."""
        name = node.name
        return self.globals.bind_state(
            f"{name}_{what}", lambda state: part(state.tables[name]), key=(what, name)
        )

    def _on_hit(self, node: ir.TableDef) -> list[str]:
        lines = []
        at = 1
        if node.with_counters:
            lines.append(f"{self._found} = {self._entry}[{at}]")
            lines.append(f"{self._found}[0] += 1")
            lines.append(f"{self._found}[1] += ingress_length")
            at += 1
        if node.with_timeout:
            lines.append(f"{self._entry}[{at}].last_hit_ns = now_ns")
        if node.meter is not None:
            assert node.meter.result is not None
            target = self.layout.field(node.meter.result)
            lines.append(f"{target} = {self._entry}[{at}].meter.execute(ingress_length, now_ns)")
            place = self.layout.places[node.meter.result.header]
            if place.mode is Mode.PLAIN:
                lines.append(f"{place.dirty} = True")
            elif place.mode is Mode.FULL:
                lines.append(f"{place.raw} = None")
        return lines

    def _search(self, out: Writer, node: ir.TableDef, kind: MatchKind) -> None:
        """Look-up in a table with other than exact fields only, by the packed key."""
        out.line(f"{self._key} = {self._packed_key(node)}")
        out.line(f"{self._entry} = None")
        if kind is MatchKind.LPM:
            prefixes = self._part(node, "prefixes", lambda table: table.prefixes)
            with out.block(f"for mask, get in {prefixes}:"):
                out.line(f"{self._entry} = get({self._key} & mask)")
                with out.block(f"if {self._entry} is not None:"):
                    out.line("break")
            return
        if kind is MatchKind.TERNARY:
            masks = self._part(node, "masks", lambda table: table.masks)
            out.line("best = 0")
            with out.block(f"for mask, get, top in {masks}:"):
                with out.block("if top <= best:"):
                    out.line("break")
                out.line(f"{self._found} = get({self._key} & mask)")
                with out.block(f"if {self._found} is not None and {self._found}[0] > best:"):
                    out.line(f"best, {self._entry} = {self._found}")
            return
        ranges = self._part(node, "ranges", lambda table: table.ranges)
        in_ranges = self.expressions.helper("in_ranges")
        found = f"{self._key} & mask == value and {in_ranges}({self._key}, ranges)"
        with (
            out.block(f"for mask, value, ranges, {self._found}, _ in {ranges}:"),
            out.block(f"if {found}:"),
        ):
            out.line(f"{self._entry} = {self._found}")
            out.line("break")

    def _key_part(self, part: ir.KeyField) -> Code:
        code = self.expressions.data(part.source)
        if code.low < 0:
            code = cut(code, part.match.bitwidth)
        if part.mask is not None:
            full = (1 << part.match.bitwidth) - 1
            if part.mask & full != full:
                code = Code(f"{code.at(7)} & {number(part.mask & full)}", 7, 0, part.mask & full)
        valid = self._may_be_stale(part.source)
        if valid:
            code = Code(f"{code.at(1)} if {valid} else 0", 0, code.low, code.high)
        return code

    def _may_be_stale(self, source: ir.Expr) -> str:
        """Validity to check because a key field of an invalid header counts as 0."""
        if isinstance(source, ir.Access):
            return self.expressions.valid(source.header)
        if not isinstance(source, ir.FieldRef):
            return ""
        place = self.layout.places[source.header]
        if place.mode is Mode.METADATA:
            return ""
        if place.mode is Mode.RECORD or place.removable or place.written:
            return place.valid
        return place.valid if source.header in self.layout.uses.whole else ""

    def _exact_key(self, node: ir.TableDef) -> str:
        parts = [self._key_part(part) for part in node.key]
        if len(parts) == 1:
            return parts[0].text
        return f"({', '.join(part.at(0) for part in parts)})"

    def _packed_key(self, node: ir.TableDef) -> str:
        left = sum(part.match.bitwidth for part in node.key)
        words = []
        for part in node.key:
            left -= part.match.bitwidth
            code = self._key_part(part)
            words.append(f"{code.at(8)} << {left}" if left else code.at(6))
        return " | ".join(words)

    # ---- selectors -------------------------------------------------------------------------

    def _select_member(self, out: Writer, node: ir.TableDef) -> None:
        if node.profile is None:
            return
        selector = self.layout.program.profiles[node.profile].selector
        if selector is None:
            return
        with out.block(f"if {self._entry}[0] == {GROUP}:"):
            out.line(f"{self._found} = {self._entry}[-1]")
            with out.block(f"if {self._found}:"):
                value = self.calculations.hash(
                    out, node.profile, selector.algorithm, selector.inputs
                )
                out.line(f"{self._entry} = {self._found}[{value} % len({self._found})]")
            with out.block("else:"):
                out.line(f"{self._entry} = ({NO_ACTION},)  # an empty group does nothing")

    # ---- actions ---------------------------------------------------------------------------

    def _dispatch_action(self, out: Writer, node: ir.TableDef, follow: Follow) -> None:
        cells = 1 + node.with_counters + (node.meter is not None or node.with_timeout)
        followers = node.next_by_action
        common = node.by_hit or (
            len(set(followers)) == 1 and (not node.may_do_nothing or node.base_next == followers[0])
        )
        branches: list[tuple[int, list[str]]] = []
        for index, action in enumerate(node.actions):
            inner = Writer(out.level + 1)
            self._unpacked(inner, action, cells)
            if not common:
                follow(inner, followers[index])
            if inner.lines:
                branches.append((index, inner.lines))
        rest = Writer(out.level + 1)
        if not common and node.may_do_nothing:
            follow(rest, node.base_next)
        if branches:
            self._branches(out, node, branches, rest.lines)
        if common and not node.by_hit and followers:
            follow(out, followers[0])
        elif common and not node.by_hit:
            follow(out, node.base_next)

    def _branches(
        self,
        out: Writer,
        node: ir.TableDef,
        branches: list[tuple[int, list[str]]],
        rest: list[str],
    ) -> None:
        complete = len(branches) == len(node.actions) and not node.may_do_nothing
        if len(branches) == 1 and complete:
            out.lines.extend(line[4:] for line in branches[0][1])
            return
        test = f"{self._entry}[0]"
        if len(branches) > 2 or (len(branches) == 2 and not complete):
            out.line(f"{self._number} = {test}")
            test = self._number
        for i, (index, lines) in enumerate(branches):
            last = complete and i == len(branches) - 1
            name = node.actions[index].name
            if last:
                out.line(f"else:  # {name}")
            else:
                out.line(f"{'elif' if i else 'if'} {test} == {index}:  # {name}")
            out.lines.extend(lines)
        if rest:
            out.line("else:")
            out.lines.extend(rest)

    def _unpacked(self, out: Writer, action: ir.Action, cells: int) -> None:
        """An action whose arguments are in the entry."""
        params = []
        for name, bits in action.params:
            variable = self._param(f"arg_{name}")
            params.append(Code(variable, low=0, high=(1 << bits) - 1))
        mark = out.mark()
        if params:
            targets = ["_"] * cells + [code.text for code in params]
            out.line(f"{', '.join(targets)} = {self._entry}")
        before = out.mark()
        self._action(out, action, params)
        if out.mark() == before:
            out.rewind(mark)

    def _param(self, hint: str) -> str:
        if hint not in self._param_names:
            self._param_names[hint] = self.layout.names.new(hint)
        return self._param_names[hint]

    def _action(self, out: Writer, action: ir.Action, params: Sequence[Code]) -> None:
        exits = sum(primitive.op == "exit" for primitive in action.primitives)
        jumps = any(primitive.op.startswith("_jump") for primitive in action.primitives)
        if exits == 1 and not jumps and action.primitives[-1].op == "exit":
            self.actions.body(out, action, params, without_last=True)
            out.line("break")
            return
        self.actions.body(out, action, params)
        if exits:
            with out.block(f"if {self.exited}:"):
                out.line("break")


def _actions_of(node: ir.Node) -> Sequence[ir.Action]:
    match node:
        case ir.TableDef():
            return node.actions
        case ir.ActionNode():
            return (node.action,)
    return ()


def _topological(control: ir.Control, start: str) -> list[str]:
    """Nodes in an order in which every edge points forward."""
    order: list[str] = []
    colour: dict[str, int] = {}
    stack: list[tuple[str, list[str]]] = []

    def enter(name: str) -> None:
        colour[name] = 1
        successors = [s for s in control.nodes[name].successors if s is not None]
        stack.append((name, successors))

    enter(start)
    while stack:
        name, successors = stack[-1]
        if not successors:
            stack.pop()
            colour[name] = 2
            order.append(name)
            continue
        following = successors.pop()
        if colour.get(following) == 1:
            raise UnsupportedProgram(
                f"control {control.name}: a loop through {following} is not supported"
            )
        if following not in colour:
            enter(following)
    order.reverse()
    return order


def _post_dominators(control: ir.Control, order: Sequence[str]) -> dict[str, str | None]:
    """For each node, the next node through which every path from it goes (None: the end)."""
    depth: dict[str | None, int] = {None: 0}
    above: dict[str, str | None] = {}
    for name in reversed(order):
        successors = list(dict.fromkeys(control.nodes[name].successors))
        common = successors[0] if successors else None
        for other in successors[1:]:
            while common != other:
                if depth[common] >= depth[other]:
                    assert common is not None
                    common = above[common]
                else:
                    assert other is not None
                    other = above[other]
        above[name] = common
        depth[name] = depth[common] + 1
    return above
