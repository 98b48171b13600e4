"""The two functions of a pipeline, put together and compiled.

`ingress` and `egress` are made of stages that assign variables freely. What a function must set at
its start, and what ingress must hand over to egress, follows from liveness (`liveness.py`): the
state tuple holds exactly what egress reads before it writes it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any

from softswitch import ir
from softswitch.compiler import liveness
from softswitch.compiler.actions import NO_TRUNCATION, Actions, Requests
from softswitch.compiler.assign import Assigner
from softswitch.compiler.checksums import Calculations
from softswitch.compiler.codec import Codec
from softswitch.compiler.controls import ControlWriter
from softswitch.compiler.deparser import DeparserWriter
from softswitch.compiler.expressions import Expressions
from softswitch.compiler.layout import Layout, Mode
from softswitch.compiler.parser import ParserWriter
from softswitch.compiler.state import RuntimeState
from softswitch.compiler.writer import Globals, Names, Writer
from softswitch.program import UnsupportedProgram
from softswitch.results import (
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_RECIRCULATED,
    INSTANCE_REPLICATION,
    INSTANCE_RESUBMITTED,
    Again,
    Clone,
    Digest,
    EgressRequests,
    IngressRequests,
)

# Names that generated code uses literally, and must not be given to a program's variables.
_RESERVED = (
    "again best bool bytes deq_qdepth enq_ns enq_qdepth frame get ingress_length int kept len "
    "mask max min now_ns off packet_length port qid ranges requests rid session state top value _ "
    "True False None"
)


_serial = count(1)  # tells the programs of a process apart in tracebacks


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """The source of the two functions, and the code made of it."""

    ingress_source: str
    egress_source: str
    _code: tuple[CodeType, CodeType]
    _names: tuple[str, str]
    _globals: Globals

    def functions(self, state: RuntimeState) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """(ingress, egress), bound to the objects in `state`."""
        namespace = self._globals.values(state)
        for code in self._code:
            exec(code, namespace)
        ingress, egress = self._names
        return namespace[ingress], namespace[egress]  # type: ignore[return-value]


@lru_cache(maxsize=32)
def compile_program(program: ir.Program, drop_port: int) -> CompiledProgram:
    """Make the functions of a program; many pipelines of it may share them.

    Raises UnsupportedProgram for what only shows now: jumps out of an action, loops of tables, and
    expressions that are nested deeper than Python can take.
    """
    try:
        return _Compiler(program, drop_port).compile()
    except RecursionError:
        raise UnsupportedProgram("an expression is nested too deep") from None
    except SyntaxError as error:
        if "too many" not in str(error):
            raise
        raise UnsupportedProgram(f"an expression is nested too deep: {error}") from error


class _Compiler:
    def __init__(self, program: ir.Program, drop_port: int) -> None:
        self.program = program
        self.drop_port = drop_port
        names = Names()
        for word in _RESERVED.split():
            names.new(word)
        self.requests = Requests(
            truncate_to=names.new("truncate_to"),
            clone_session=names.new("clone_session"),
            clone_list=names.new("clone_list"),
            digest=names.new("digest"),
            resubmit=names.new("resubmit_list"),
            recirculate=names.new("recirculate_list"),
            exited=names.new("exited"),
        )
        self.globals = Globals(names)
        self.layout = Layout(program, names, self.globals)
        self.expressions = Expressions(self.layout, self.globals)
        self.assigner = Assigner(self.layout, self.expressions, "packet_length")
        self.calculations = Calculations(self.layout, self.expressions, self.assigner, self.globals)
        self.actions = Actions(
            self.layout,
            self.expressions,
            self.assigner,
            self.calculations,
            self.requests,
            self.globals,
            drop_port,
        )
        codec = Codec(names, self.globals)
        self.parser = ParserWriter(self.layout, self.expressions, self.actions, codec, self.globals)
        self.controls = ControlWriter(
            self.layout, self.expressions, self.actions, self.calculations, self.globals
        )
        self.deparser = DeparserWriter(self.layout, codec, self.globals)
        self.ingress_ops = _primitives(program.ingress)
        self.egress_ops = _primitives(program.egress)
        self.parser_ops = {
            op.op
            for parser_state in program.parser.states.values()
            for op in parser_state.ops
            if isinstance(op, ir.Primitive)
        }
        self.ingress_ops |= self.parser_ops
        # Values a packet's wishes have at the start of each pipeline.
        self.wishes = {
            self.requests.truncate_to: str(NO_TRUNCATION),
            self.requests.clone_session: "-1",
            self.requests.clone_list: "0",
            self.requests.digest: "0",
            self.requests.resubmit: "0",
            self.requests.recirculate: "0",
            self.requests.exited: "False",
        }
        self._function_names = {
            name: names.new(name) for name in ("ingress", "egress", "clone_of_ingress")
        }

    def compile(self) -> CompiledProgram:
        egress_source, live = self._egress()
        ingress_source = self._ingress(live)
        code = tuple(
            self._code(kind, source)
            for kind, source in (("ingress", ingress_source), ("egress", egress_source))
        )
        names = (self._function_names["ingress"], self._function_names["egress"])
        return CompiledProgram(
            ingress_source, egress_source, (code[0], code[1]), names, self.globals
        )

    def _code(self, kind: str, source: str) -> CodeType:
        name = self.program.name or "program"
        filename = f"<{name} {kind} {next(_serial)}>"
        # No modification time: linecache keeps it although there is no such file.
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = (len(source), None, lines, filename)
        return compile(source, filename, "exec")

    # ---- ingress ---------------------------------------------------------------------------

    def _ingress(self, live: list[str]) -> str:
        body = Writer(1)
        self.parser.parse(body)
        self.calculations.verify(body, self.program.checksums)
        body.comment("ingress")
        self.controls.control(body, self.program.ingress)
        self._after_ingress(body, live)

        head = Writer(1)
        needed = liveness.live_at_start(_dedent(body))
        known = {
            "standard_metadata.ingress_port": self._port("ingress_port"),
            "standard_metadata.packet_length": "ingress_length",
            "intrinsic_metadata.ingress_global_timestamp": "now_ns // 1000 & 0xFFFFFFFFFFFF",
        }
        self._prologue(head, needed, known, ["packet_length"])
        if "packet_length" in needed:
            head.line("packet_length = ingress_length")
        self._return_again(head, needed)
        out = Writer()
        with out.block(f"def {self._function_names['ingress']}(frame, port, now_ns, again=None):"):
            out.line("ingress_length = len(frame)")
            out.lines.extend(head.lines)
            out.lines.extend(body.lines)
        if "clone_ingress_pkt_to_egress" in self.ingress_ops:
            out.line()
            out.line()
            self._clone_of_ingress(out, live)
        return out.text

    def _port(self, field: str) -> str:
        """The parameter `port`, as wide as the field for it."""
        ref = self.program.well_known(f"standard_metadata.{field}")
        return "port" if ref is None else f"port & {(1 << ref.field.bitwidth) - 1:#x}"

    def _prologue(
        self, out: Writer, needed: frozenset[str], known: Mapping[str, str], skip: Iterable[str]
    ) -> None:
        """Give every variable that is read before it is written its first value."""
        special = {
            variable: text
            for name, text in known.items()
            if (variable := self.layout.well_known(name)) is not None
        }
        no_error = self.program.errors["NoError"]
        parser_error = self.layout.well_known("standard_metadata.parser_error")
        if parser_error is not None and no_error:
            special.setdefault(parser_error, str(no_error))
        values: dict[str, list[str]] = {}
        for name, initial in (*self.layout.initial.items(), *self.wishes.items()):
            if name not in needed or name in skip:
                continue
            if name in special:
                out.line(f"{name} = {special[name]}")
            elif name in self.layout.mutable:
                out.line(f"{name} = {initial}")
            else:
                values.setdefault(initial, []).append(name)
        for initial, names in values.items():
            for start in range(0, len(names), 8):
                out.line(f"{' = '.join(names[start : start + 8])} = {initial}")

    def _return_again(self, out: Writer, needed: frozenset[str]) -> None:
        """A resubmitted or recirculated packet: instance type and preserved fields."""
        if not {"resubmit", "recirculate"} & (self.ingress_ops | self.egress_ops):
            return
        with out.block("if again is not None:"):
            instance_type = self.layout.well_known("standard_metadata.instance_type")
            if instance_type in needed:
                out.line(f"{instance_type} = again.instance_type")
            # simple_switch clears all metadata, and sets the packet's length only
            stamp = self.layout.well_known("intrinsic_metadata.ingress_global_timestamp")
            if stamp in needed:
                out.line(f"{stamp} = 0")
            self._restore(out, "again.preserved", lambda name: name in needed)

    def _restore(self, out: Writer, kept: str, wanted: Callable[[str], bool]) -> None:
        """Assign the fields of a field list from a tuple that starts with the list's id."""
        head = "if"
        for list_ in self.program.field_lists.values():
            targets = [self.layout.field(ref) for ref in list_.fields]
            if any(wanted(target) for target in targets):
                with out.block(f"{head} {kept}[0] == {list_.id}:"):
                    out.line(f"_, {', '.join(targets)} = {kept}")
                head = "elif"

    def _kept(self, out: Writer, list_id: str) -> None:
        """Collect the fields of the list that `list_id` names, into `kept`."""
        head = "if"
        for list_ in self.program.field_lists.values():
            if not list_.fields:
                continue
            values = ", ".join(self.layout.field(ref) for ref in list_.fields)
            with out.block(f"{head} {list_id} == {list_.id}:"):
                out.line(f"kept = ({list_.id}, {values})")
            head = "elif"
        if head == "if":
            out.line("kept = (0,)")
        else:
            with out.block("else:"):
                out.line("kept = (0,)")

    def _after_ingress(self, out: Writer, live: list[str]) -> None:
        """Requests, drop, and the result tuple."""
        out.comment("after ingress")
        requests = self._ingress_requests(out)
        spec = self.layout.well_known("standard_metadata.egress_spec") or "0"
        group = self._multicast_group()
        tests = [f"{spec} == {self.drop_port}"]
        if group is not None:
            tests.append(f"not {group}")
        if requests != "None":
            tests.append(f"{requests} is None")
        with out.block(f"if {' and '.join(tests)}:"):
            out.line("return None")
        instance_type = self.layout.well_known("standard_metadata.instance_type")
        if instance_type in live:
            kind = str(INSTANCE_NORMAL)
            if group is not None:
                kind = f"{INSTANCE_REPLICATION} if {group} else {INSTANCE_NORMAL}"
            out.line(f"{instance_type} = {kind}")
        length = "packet_length" if self._changes_length() else "ingress_length"
        if "truncate" in self.ingress_ops:
            self._truncate(out, group)
            length = f"min({length}, {self.requests.truncate_to})"
        result = [spec, self._priority(), group or "0", length, _tuple(live), requests]
        out.line(f"return {', '.join(result)}")

    def _truncate(self, out: Writer, group: str | None) -> None:
        """Cut the frame already here: nothing behind the queue needs the rest."""
        limit = self.requests.truncate_to
        if group is not None:
            with out.block(f"if {group}:"):
                # simple_switch's copies for multicast are not truncated
                out.line(f"{limit} = {NO_TRUNCATION}")
        with out.block(f"if {limit} < ingress_length:"):
            out.line(f"frame = frame[:max({limit}, off)]")

    def _ingress_requests(self, out: Writer) -> str:
        """Collect clone, digest and resubmit; the expression for them."""
        wishes = self.requests
        tests = {
            "clone_ingress_pkt_to_egress": f"{wishes.clone_session} >= 0",
            "generate_digest": wishes.digest,
            "resubmit": wishes.resubmit,
        }
        asked = {op: test for op, test in tests.items() if op in self.ingress_ops}
        if not asked:
            return "None"
        class_ = self.globals.bind("IngressRequests", IngressRequests, key="IngressRequests")
        out.line("requests = None")
        with out.block(f"if {' or '.join(asked.values())}:"):
            out.line(f"requests = {class_}()")
            if "clone_ingress_pkt_to_egress" in asked:
                with out.block(f"if {wishes.clone_session} >= 0:"):
                    self._kept(out, wishes.clone_list)
                    out.line(
                        f"requests.clone = {self._function_names['clone_of_ingress']}"
                        f"(frame, port, now_ns, {wishes.clone_session}, kept)"
                    )
            if "generate_digest" in asked:
                self._digests(out)
            if "resubmit" in asked:
                again = self.globals.bind("Again", Again, key="Again")
                with out.block(f"if {wishes.resubmit}:"):
                    self._kept(out, wishes.resubmit)
                    out.line(f"requests.resubmit = {again}(frame, 0, {INSTANCE_RESUBMITTED}, kept)")
        return "requests"

    def _priority(self) -> str:
        """Variable of the queue that ingress chose, "0" if the program cannot choose."""
        for name in ("standard_metadata.priority", "intrinsic_metadata.priority"):
            variable = self.layout.well_known(name)
            if variable is not None:
                return variable
        return "0"

    def _multicast_group(self) -> str | None:
        """Variable of the multicast group, None if the program cannot set one."""
        name = "intrinsic_metadata.mcast_grp"
        ref = self.program.well_known(name)
        if ref is None or (ref.header, ref.index) not in self.layout.uses.written:
            return None
        return self.layout.well_known(name)

    def _changes_length(self) -> bool:
        return bool({"add_header", "add_header_fast", "remove_header"} & self.ingress_ops)

    def _digests(self, out: Writer) -> None:
        digest = self.globals.bind("Digest", Digest, key="Digest")
        head = "if"
        for item in self.program.digests.values():
            with out.block(f"{head} {self.requests.digest} == {item.id}:"):
                values = _tuple([self.expressions.data(e).at(1) for e in item.elements])
                out.line(f"requests.digest = {digest}({item.name!r}, {values})")
            head = "elif"

    def _clone_of_ingress(self, out: Writer, live: list[str]) -> None:
        """The packet parsed again from its frame as it came in, with the preserved fields only."""
        body = Writer(1)
        self.parser.parse(body)
        metadata = self._metadata_variables()
        cleared = [name for name in live if name in metadata]
        priority = self._priority()
        if priority != "0" and priority not in cleared:
            cleared.append(priority)
        if cleared:
            body.line(f"{' = '.join(cleared)} = 0")
        self._restore(body, "kept", lambda name: name in cleared)
        instance_type = self.layout.well_known("standard_metadata.instance_type")
        if instance_type in live:
            body.line(f"{instance_type} = {INSTANCE_INGRESS_CLONE}")
        if "packet_length" in live:
            body.line("packet_length = ingress_length")
        if self.requests.truncate_to in live:
            body.line(f"{self.requests.truncate_to} = {NO_TRUNCATION}")
        clone = self.globals.bind("Clone", Clone, key="Clone")
        body.line(f"return {clone}(session, {priority}, ingress_length, {_tuple(live)})")
        head = Writer(1)
        needed = liveness.live_at_start(_dedent(body))
        known = {"standard_metadata.ingress_port": self._port("ingress_port")}
        self._prologue(head, needed, known, ())
        with out.block(
            f"def {self._function_names['clone_of_ingress']}(frame, port, now_ns, session, kept):"
        ):
            out.line("ingress_length = len(frame)")
            out.lines.extend(head.lines)
            out.lines.extend(body.lines)

    def _metadata_variables(self) -> set[str]:
        return {
            name
            for place in self.layout.places.values()
            if place.mode is Mode.METADATA
            for name in place.fields.values()
        }

    # ---- egress ----------------------------------------------------------------------------

    def _egress(self) -> tuple[str, list[str]]:
        """(source, live): `live` are the variables in the state tuple, in order."""
        # The clone of egress carries the state too, so what is live depends on itself: the set
        # only grows, from what egress reads without the clone.
        live: list[str] = []
        from_ingress = self._set_by_ingress()
        while True:
            body = Writer(1)
            self._egress_body(body, live)
            head = Writer(1)
            needed = liveness.live_at_start(_dedent(body))
            self._egress_prologue(head, needed)
            needed = liveness.live_at_start(_dedent(head, body))
            given: tuple[str, ...] = ("frame", "off", "ingress_length", "packet_length")
            wanted = [name for name in given if name in needed]
            carried = from_ingress
            if "clone_egress_pkt_to_egress" in self.egress_ops:
                # The copy comes back with the headers that egress made.
                made = liveness.assigned(_dedent(body)) & self.layout.initial.keys()
                carried = carried | (made - self._metadata_variables())
            constants: list[str] = []
            for name in (*self.layout.initial, *self.wishes):
                if name in needed:
                    (wanted if name in carried else constants).append(name)
            if wanted == live:
                break
            live = wanted
        out = Writer()
        parameters = "state, port, now_ns, rid=0, enq_ns=0, enq_qdepth=0, deq_qdepth=0, qid=0"
        with out.block(f"def {self._function_names['egress']}({parameters}):"):
            if live:
                out.line(f"{', '.join(live)}{',' if len(live) == 1 else ''} = state")
            for name in live:
                if name in self.layout.mutable:
                    # The state may be shared with other copies of the packet.
                    out.line(f"{name} = {self.expressions.helper('copy_records')}({name})")
            self._prologue(out, frozenset(constants), {}, ())
            out.lines.extend(head.lines)
            out.lines.extend(body.lines)
        return out.text, live

    def _set_by_ingress(self) -> frozenset[str]:
        body = Writer(1)
        self.parser.parse(body)
        self.calculations.verify(body, self.program.checksums)
        self.controls.control(body, self.program.ingress)
        names = liveness.assigned(_dedent(body))
        mutable = self.layout.mutable
        always = {
            self.layout.well_known(name)
            for name in (
                "standard_metadata.ingress_port",
                "standard_metadata.instance_type",
                "intrinsic_metadata.ingress_global_timestamp",
            )
        }
        kept = {
            self.layout.field(ref)
            for list_ in self.program.field_lists.values()
            for ref in list_.fields
        }
        wishes = {self.requests.truncate_to} if "truncate" in self.ingress_ops else set()
        return (
            (names - self.wishes.keys())
            | frozenset(name for name in always if name)
            | mutable
            | kept
            | wishes
        )

    def _egress_prologue(self, out: Writer, needed: frozenset[str]) -> None:
        drop = self.drop_port + 1
        known = {
            "standard_metadata.egress_port": "port",
            "standard_metadata.egress_spec": str(drop),
            "standard_metadata.packet_length": "packet_length",
            "intrinsic_metadata.egress_rid": "rid",
            "intrinsic_metadata.egress_global_timestamp": "now_ns // 1000",
            "queueing_metadata.enq_timestamp": "enq_ns // 1000",
            "queueing_metadata.enq_qdepth": "enq_qdepth",
            "queueing_metadata.deq_timedelta": "now_ns // 1000 - enq_ns // 1000",
            "queueing_metadata.deq_qdepth": "deq_qdepth",
            "queueing_metadata.qid": "qid",
        }
        for name, text in known.items():
            ref = self.program.well_known(name)
            variable = self.layout.well_known(name)
            if ref is None or variable is None or variable not in needed:
                continue
            mask = (1 << ref.field.bitwidth) - 1
            if name == "standard_metadata.egress_spec":
                out.line(f"{variable} = {drop & mask}")
            elif name == "standard_metadata.packet_length":
                out.line(f"{variable} = {text}")
            else:
                out.line(f"{variable} = {text} & {mask:#x}")

    def _egress_body(self, out: Writer, live: list[str]) -> None:
        out.comment("egress")
        wishes = self.requests
        bind = self.globals.bind
        start = out.mark()
        self.controls.control(out, self.program.egress)
        control = "\n".join(line[4:] for line in out.lines[start:])
        spec = self.layout.well_known("standard_metadata.egress_spec")
        may_drop = spec is not None and spec in liveness.assigned(control)
        clone = "clone_egress_pkt_to_egress" in self.egress_ops
        recirculate = "recirculate" in self.egress_ops
        if "clone_ingress_pkt_to_egress" in self.egress_ops:
            clone = True
        requests = "None"
        if clone or recirculate:
            class_ = bind("EgressRequests", EgressRequests, key="EgressRequests")
            requests = "requests"
            out.line("requests = None")
        if clone:
            with out.block(f"if {wishes.clone_session} >= 0:"):
                out.line(f"requests = {class_}()")
                self._clone_of_egress(out, live)
        if may_drop:
            with out.block(f"if {spec} == {self.drop_port}:"):
                out.line(f"return {requests}")
        out.comment("deparser")
        self.calculations.update(out, self.program.checksums)
        for primitive in self.program.deparser_primitives:
            self.actions.primitive(out, primitive, "deparser")
        self.deparser.deparse(out)
        if recirculate:
            again = bind("Again", Again, key="Again")
            with out.block(f"if {wishes.recirculate}:"):
                with out.block("if requests is None:"):
                    out.line(f"requests = {class_}()")
                self._kept(out, wishes.recirculate)
                out.line(f"requests.recirculate = {again}(frame, 0, {INSTANCE_RECIRCULATED}, kept)")
                out.line("return requests")
        if "truncate" in self.ingress_ops | self.egress_ops:
            with out.block(f"if len(frame) > {wishes.truncate_to}:"):
                out.line(f"frame = frame[:{wishes.truncate_to}]")
        if clone:
            with out.block("if requests is not None:"):
                out.line("requests.frame = frame")
                out.line("return requests")
        out.line("return frame")

    def _clone_of_egress(self, out: Writer, live: list[str]) -> None:
        """The packet as it is now, its metadata cleared but for the preserved fields."""
        metadata = self._metadata_variables()
        instance_type = self.layout.well_known("standard_metadata.instance_type")
        values = []
        for name in live:
            if name == instance_type:
                values.append(str(INSTANCE_EGRESS_CLONE))
            elif name in metadata:
                values.append("0")
            elif name == self.requests.truncate_to:
                values.append(str(NO_TRUNCATION))
            elif name in self.layout.mutable:
                values.append(f"{self.expressions.helper('copy_records')}({name})")
            else:
                values.append(name)
        clone = self.globals.bind("Clone", Clone, key="Clone")
        length = "packet_length"
        priority = self._priority()
        session = self.requests.clone_session
        head = "if"
        for list_ in self.program.field_lists.values():
            kept = {self.layout.field(ref) for ref in list_.fields}
            if not kept:
                continue
            with out.block(f"{head} {self.requests.clone_list} == {list_.id}:"):
                chosen = [n if n in kept else v for n, v in zip(live, values, strict=True)]
                rank = priority if priority in kept else "0"
                out.line(f"requests.clone = {clone}({session}, {rank}, {length}, {_tuple(chosen)})")
            head = "elif"
        line = f"requests.clone = {clone}({session}, 0, {length}, {_tuple(values)})"
        if head == "if":
            out.line(line)
        else:
            with out.block("else:"):
                out.line(line)


def _primitives(control: ir.Control) -> set[str]:
    actions: list[ir.Action] = []
    for node in control.nodes.values():
        if isinstance(node, ir.TableDef):
            actions.extend(node.actions)
        elif isinstance(node, ir.ActionNode):
            actions.append(node.action)
    return {primitive.op for action in actions for primitive in action.primitives}


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _dedent(*parts: Writer) -> str:
    """The lines of function bodies as a module, for analysis."""
    return "\n".join(line[4:] for part in parts for line in part.lines) + "\n"
