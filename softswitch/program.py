"""BMv2 JSON (as p4c-bm2-ss emits it for v1model) → typed program.

The format is described in behavioral-model's docs/JSON_format.md (version 2.x). Everything that the
compiler cannot give its BMv2 meaning is refused here, by name and place, not at the first packet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from softswitch import ir
from softswitch.externs import HASH_NAMES, MeterKind
from softswitch.ir import Program
from softswitch.tables import ActionCall, Entry, MatchField, MatchKind, MatchValue

__all__ = ["Program", "UnsupportedProgram", "load_program"]


class UnsupportedProgram(Exception):
    """The program uses something this switch does not know; the message names it and the place."""


@lru_cache(maxsize=16)
def load_program(json_text: str) -> Program:
    """Read a program. The same text gives the same (immutable) program, and so the same code.

    Raises UnsupportedProgram for text that is not BMv2 JSON, and for constructs that are not known.
    """
    try:
        root = json.loads(json_text)
    except ValueError as error:
        raise UnsupportedProgram(f"not JSON: {error}") from None
    except RecursionError:
        raise UnsupportedProgram("the JSON is nested too deep") from None
    if not isinstance(root, dict) or "pipelines" not in root or "header_types" not in root:
        raise UnsupportedProgram("not a BMv2 program: 'header_types' or 'pipelines' is missing")
    try:
        return _Loader(root, json_text).load()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnsupportedProgram(f"malformed BMv2 JSON: {type(error).__name__}: {error}") from error
    except RecursionError:
        raise UnsupportedProgram("an expression is nested too deep") from None


Json = Any
T = TypeVar("T")

# Primitives by name: what each parameter must be. d data, b bool, f field (an lvalue), h header,
# s header stack, S stack of either kind, u union, U union stack, c calculation, C counter, M meter,
# R register, t text, v vector of data.
_PRIMITIVES: dict[str, str] = {
    "_jump": "d",
    "_jump_if_zero": "xd",
    "add": "fdd",
    "add_header": "h",
    "add_header_fast": "h",
    "add_to_field": "fd",
    "assert": "d",
    "assign": "fd",
    "assign_VL": "ff",
    "assign_header": "hh",
    "assign_header_stack": "ss",
    "assign_union": "uu",
    "assign_union_stack": "UU",
    "assume": "d",
    "bit_and": "fdd",
    "bit_or": "fdd",
    "bit_xor": "fdd",
    "clone_egress_pkt_to_egress": "dd",
    "clone_ingress_pkt_to_egress": "dd",
    "copy_header": "hh",
    "count": "Cd",
    "drop": "",
    "execute_meter": "Mdf",
    "exit": "",
    "generate_digest": "dd",
    "log_msg": "tv",
    "mark_to_drop": "h",
    "modify_field": "fd",
    "modify_field_rng_uniform": "fdd",
    "modify_field_with_hash_based_offset": "fdcd",
    "no_op": "",
    "pop": "Sd",
    "push": "Sd",
    "recirculate": "d",
    "register_read": "fRd",
    "register_write": "Rdd",
    "remove_header": "h",
    "resubmit": "d",
    "shift_left": "fdd",
    "shift_right": "fdd",
    "subtract": "fdd",
    "subtract_from_field": "fd",
    "truncate": "d",
}


def written_argument(op: str) -> int | None:
    """Index of the parameter that a primitive assigns, if it assigns a field."""
    at = _PRIMITIVES[op].find("f")
    return None if at < 0 else at


_UNARY = frozenset(
    {"not", "~", "valid", "valid_union", "d2b", "b2d", "last_stack_index", "size_stack"}
)
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"})
_CASTS = frozenset({"two_comp_mod", "usat_cast", "sat_cast"})
_BINARY = _ARITHMETIC | _CASTS | {"==", "!=", "<", "<=", ">", ">=", "and", "or"}
# Constant parameters only: they decide what code is made.
_CONSTANT_PARAMETERS = {
    "generate_digest": (1,),
    "clone_ingress_pkt_to_egress": (1,),
    "clone_egress_pkt_to_egress": (1,),
    "resubmit": (0,),
    "recirculate": (0,),
    "push": (1,),
    "pop": (1,),
    "_jump": (0,),
    "_jump_if_zero": (1,),
}
_CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)


def _hex(text: str) -> int:
    return int(text, 16)


def _where(item: Mapping[str, Json]) -> str:
    info = item.get("source_info")
    if not info:
        return ""
    fragment = " ".join(str(info.get("source_fragment", "")).split())
    name = str(info.get("filename", "")).rpartition("/")[2]
    return f"{name}({info.get('line', '?')}): {fragment}"


class _Loader:
    """Reads one JSON tree; every part is looked up by name in the dictionaries below."""

    def __init__(self, root: dict[str, Json], text: str) -> None:
        self.root = root
        self.text = text
        self.types: dict[str, ir.HeaderType] = {}
        self.headers: dict[str, ir.Header] = {}
        self.headers_by_id: dict[int, ir.Header] = {}
        self.stacks: dict[str, ir.Stack] = {}
        self.unions: dict[str, ir.Union] = {}
        self.unions_by_id: dict[int, ir.Union] = {}
        self.union_stacks: dict[str, ir.UnionStack] = {}
        self.counters: dict[str, ir.Counter] = {}
        self.meters: dict[str, ir.MeterDef] = {}
        self.registers: dict[str, ir.Register] = {}
        self.calculations: dict[str, ir.Calculation] = {}
        self.value_sets: dict[str, tuple[int, ...]] = {}
        self.actions: dict[int, ir.Action] = {}
        self.params: tuple[tuple[str, int], ...] = ()
        self.place = "program"

    def items(self, name: str) -> list[dict[str, Json]]:
        value = self.root.get(name) or []
        if not isinstance(value, list):
            raise UnsupportedProgram(f"malformed BMv2 JSON: '{name}' is not a list")
        return value

    def refuse(self, what: str) -> UnsupportedProgram:
        return UnsupportedProgram(f"{self.place}: {what} is not supported")

    def find(self, table: Mapping[str, T], name: str, what: str) -> T:
        try:
            return table[name]
        except KeyError:
            raise UnsupportedProgram(f"{self.place}: no {what} '{name}'") from None

    # ---- top level -------------------------------------------------------------------------

    def load(self) -> Program:
        version = (self.root.get("__meta__") or {}).get("version")
        if version is not None and version[0] != 2:
            raise UnsupportedProgram(f"BMv2 JSON version {version}: 2.x is expected")
        if self.items("extern_instances"):
            instance = self.items("extern_instances")[0]
            raise UnsupportedProgram(
                f"extern instance {instance.get('name')} of type {instance.get('type')}: "
                "v1model has no extern instances of this kind"
            )
        self.load_headers()
        for item in self.items("counter_arrays"):
            if not item.get("is_direct"):
                self.counters[item["name"]] = ir.Counter(item["name"], item["size"])
        for item in self.items("meter_arrays"):
            self.meters[item["name"]] = self.meter(item)
        for item in self.items("register_arrays"):
            name = item["name"]
            self.registers[name] = ir.Register(name, item["size"], item["bitwidth"])
        for item in self.items("calculations"):
            self.place = f"calculation {item['name']}"
            algorithm, inputs = self.calculation(item)
            self.calculations[item["name"]] = ir.Calculation(item["name"], algorithm, inputs)
        for item in self.items("actions"):
            self.actions[item["id"]] = self.action(item)
        parser = self.parser()
        profiles: dict[str, ir.Profile] = {}
        controls: dict[str, ir.Control] = {}
        for item in self.items("pipelines"):
            for profile in item.get("action_profiles") or []:
                profiles[profile["name"]] = self.profile(profile)
        for item in self.items("pipelines"):
            controls[item["name"]] = self.control(item)
        if sorted(controls) != ["egress", "ingress"]:
            names = ", ".join(controls) or "none"
            raise UnsupportedProgram(f"pipelines: v1model has ingress and egress, not {names}")
        self.place = "field aliases"
        aliases = {
            name: self.field(target)
            for name, target in self.root.get("field_aliases") or []
            if self.has_field(target)
        }
        deparser, primitives = self.deparser()
        return Program(
            source=self.text,
            name=str(self.root.get("program", "")).rpartition("/")[2],
            headers=self.headers,
            stacks=self.stacks,
            unions=self.unions,
            union_stacks=self.union_stacks,
            aliases=aliases,
            errors=self.errors(),
            parser=parser,
            value_sets=self.value_sets,
            ingress=controls.get("ingress", ir.Control("ingress", None, {})),
            egress=controls.get("egress", ir.Control("egress", None, {})),
            deparser=deparser,
            deparser_primitives=primitives,
            checksums=tuple(self.checksum(item) for item in self.items("checksums")),
            calculations=self.calculations,
            counters=self.counters,
            meters=self.meters,
            registers=self.registers,
            digests={item["id"]: self.digest(item) for item in self.items("learn_lists")},
            field_lists={item["id"]: self.field_list(item) for item in self.items("field_lists")},
            profiles=profiles,
            actions=self.actions,
        )

    def errors(self) -> dict[str, int]:
        errors: dict[str, int] = dict(self.root.get("errors") or [])
        following = max(errors.values(), default=-1) + 1
        for name in _CORE_ERRORS:
            if name not in errors:
                errors[name] = following
                following += 1
        return errors

    def load_headers(self) -> None:
        for item in self.items("header_types"):
            self.types[item["name"]] = self.header_type(item)
        for item in self.items("headers"):
            self.place = f"header {item['name']}"
            type_ = self.find(self.types, item["header_type"], "header type")
            header = ir.Header(item["name"], type_, bool(item["metadata"]))
            if not header.is_metadata and type_.bits % 8:
                raise UnsupportedProgram(
                    f"header {header.name}: {type_.bits} bits is not a whole number of bytes"
                )
            self.headers[header.name] = header
            self.headers_by_id[item["id"]] = header
        for item in self.items("header_stacks"):
            members = tuple(self.headers_by_id[i] for i in item["header_ids"])
            self.stacks[item["name"]] = ir.Stack(
                item["name"], self.types[item["header_type"]], members
            )
        members_of = {
            item["name"]: tuple(name for name, _ in item["headers"])
            for item in self.items("header_union_types")
        }
        for item in self.items("header_unions"):
            union = ir.Union(item["name"], tuple(self.headers_by_id[i] for i in item["header_ids"]))
            self.unions[union.name] = union
            self.unions_by_id[item["id"]] = union
        for item in self.items("header_union_stacks"):
            self.union_stacks[item["name"]] = ir.UnionStack(
                item["name"],
                tuple(self.unions_by_id[i] for i in item["header_union_ids"]),
                members_of[item["union_type"]],
            )

    def header_type(self, item: dict[str, Json]) -> ir.HeaderType:
        fields: list[ir.Field] = []
        offset = 0
        for name, width, *signed in item["fields"]:
            if width == "*":
                fields.append(ir.Field(name, 0, offset, varbit=True))
                continue
            fields.append(ir.Field(name, width, offset, signed=bool(signed and signed[0])))
            offset += width
        if sum(f.varbit for f in fields) > 1:
            raise UnsupportedProgram(f"header type {item['name']}: more than one varbit field")
        if item.get("length_exp"):
            raise UnsupportedProgram(
                f"header type {item['name']}: 'length_exp' (P4_14 variable length) is not supported"
            )
        return ir.HeaderType(item["name"], tuple(fields), item.get("max_length") or 0)

    def meter(self, item: dict[str, Json]) -> ir.MeterDef:
        self.place = f"meter {item['name']}"
        try:
            kind = MeterKind(item["type"])
        except ValueError:
            raise self.refuse(f"meter type '{item['type']}'") from None
        direct = bool(item.get("is_direct"))
        return ir.MeterDef(
            item["name"],
            kind,
            item["size"],
            item["rate_count"],
            item["binding"] if direct else None,
            self.field(item["result_target"]) if direct else None,
        )

    # ---- references and expressions --------------------------------------------------------

    def has_field(self, target: list[str]) -> bool:
        header = self.headers.get(target[0])
        return header is not None and any(f.name == target[1] for f in header.type.fields)

    def field(self, target: list[str]) -> ir.FieldRef:
        header = self.find(self.headers, target[0], "header")
        try:
            return ir.FieldRef(header, header.type.index(target[1]))
        except KeyError:
            raise UnsupportedProgram(f"{self.place}: no field {'.'.join(target)}") from None

    def field_or_valid(self, target: Json) -> ir.Expr:
        """A field as (header, field), or p4c's extension: the header an expression."""
        if isinstance(target, dict):
            return self.expression(target)
        if isinstance(target[0], dict):
            header = self.operation(target[0])
        else:
            header = ir.HeaderRef(self.find(self.headers, target[0], "header"))
        if not isinstance(header, ir.HeaderExpr):
            raise self.refuse("a field of something that is not a header")
        if target[1] == "$valid$":
            return ir.Unary("b2d", ir.Unary("valid", header))
        if isinstance(header, ir.HeaderRef):
            return self.field(target)
        return ir.Access(header, ir.header_type(header).index(target[1]))

    def expression(self, item: Json) -> ir.Expr:
        kind, value = item["type"], item["value"]
        match kind:
            case "expression":
                return self.operation(value) if "op" in value else self.expression(value)
            case "hexstr":
                return ir.Const(_hex(value))
            case "bool":
                return ir.Bool(bool(value))
            case "field":
                return self.field_or_valid(value)
            case "runtime_data" | "local":
                return ir.Param(value, self.params[value][1])
            case "header":
                return ir.HeaderRef(self.find(self.headers, value, "header"))
            case "header_stack":
                if value in self.union_stacks:
                    return ir.UnionStackRef(self.union_stacks[value])
                return ir.StackRef(self.find(self.stacks, value, "header stack"))
            case "header_union":
                return ir.UnionRef(self.find(self.unions, value, "header union"))
            case "header_union_stack":
                return ir.UnionStackRef(self.find(self.union_stacks, value, "header union stack"))
            case "stack_field":
                stack = self.find(self.stacks, value[0], "header stack")
                if value[1] == "last":  # p4c's extension: the header itself
                    last = ir.Unary("last_stack_index", ir.StackRef(stack))
                    return ir.StackItem(stack, last)
                return ir.LastField(stack, stack.type.index(value[1]))
            case "union_stack_field":
                unions = self.find(self.union_stacks, value[0], "header union stack")
                member = unions.members.index(value[1])
                index = unions.unions[0].headers[member].type.index(value[2])
                return ir.UnionLastField(unions, member, index)
            case "lookahead":
                return ir.Lookahead(value[0], value[1])
            case "register":
                register = self.find(self.registers, value[0], "register")
                return ir.RegisterRef(register, self.expression(value[1]))
        raise self.refuse(f"value of type '{kind}'")

    def operation(self, value: dict[str, Json]) -> ir.Expr:
        op: str = value["op"]
        left: Json = value.get("left")
        right: Json = value.get("right")
        match op:
            case "?":
                return ir.Ternary(
                    self.expression(value["cond"]), self.expression(left), self.expression(right)
                )
            case "dereference_header_stack" | "dereference_stack":
                stack = self.expression(left)
                index = self.expression(right)
                if isinstance(stack, ir.UnionStackRef):
                    return ir.UnionStackItem(stack.stack, index)
                if isinstance(stack, ir.StackRef):
                    return ir.StackItem(stack.stack, index)
            case "dereference_union_stack":
                stack = self.expression(left)
                if isinstance(stack, ir.UnionStackRef):
                    return ir.UnionStackItem(stack.stack, self.expression(right))
            case "access_field":
                header = self.expression(left)
                if isinstance(header, ir.HeaderRef):
                    return ir.FieldRef(header.header, right)
                if isinstance(header, ir.StackItem | ir.UnionMember):
                    return ir.Access(header, right)
            case "access_union_header":
                union = self.expression(left)
                if isinstance(union, ir.UnionRef | ir.UnionStackItem):
                    return ir.UnionMember(union, right)
            case "+" | "-" if left is None:
                return ir.Binary(op, ir.Const(0), self.expression(right))
            case _ if op in _UNARY:
                return ir.Unary(op, self.expression(right))
            case _ if op in _BINARY:
                return ir.Binary(op, self.expression(left), self.expression(right))
        raise self.refuse(f"operation '{op}'")

    def calculation(
        self, item: dict[str, Json]
    ) -> tuple[str, tuple[ir.FieldRef | ir.HeaderRef | ir.Bits | ir.Payload, ...]]:
        algorithm = item["algo"]
        if algorithm not in HASH_NAMES:
            raise self.refuse(f"hash algorithm '{algorithm}'")
        inputs: list[ir.FieldRef | ir.HeaderRef | ir.Bits | ir.Payload] = []
        for part in item["input"]:
            match part["type"]:
                case "field":
                    inputs.append(self.field(part["value"]))
                case "header":
                    inputs.append(ir.HeaderRef(self.find(self.headers, part["value"], "header")))
                case "hexstr":
                    width = part["bitwidth"]
                    inputs.append(ir.Bits(_hex(part["value"]) & ((1 << width) - 1), width))
                case "payload":
                    inputs.append(ir.Payload())
                case other:
                    raise self.refuse(f"calculation input '{other}'")
        return algorithm, tuple(inputs)

    def checksum(self, item: dict[str, Json]) -> ir.Checksum:
        self.place = f"checksum {item['name']}"
        if item.get("type") != "generic":
            raise self.refuse(f"checksum type '{item.get('type')}'")
        condition = item.get("if_cond")
        return ir.Checksum(
            item["name"],
            self.field(item["target"]),
            self.find(self.calculations, item["calculation"], "calculation"),
            item.get("verify", True),
            item.get("update", True),
            None if condition is None else self.expression(condition),
        )

    def digest(self, item: dict[str, Json]) -> ir.DigestDef:
        self.place = f"digest {item['name']}"
        elements = tuple(self.expression(element) for element in item["elements"])
        return ir.DigestDef(item["id"], item["name"], elements)

    def field_list(self, item: dict[str, Json]) -> ir.FieldList:
        self.place = f"field list {item['name']}"
        fields: list[ir.FieldRef] = []
        for element in item["elements"]:
            if element["type"] != "field":
                raise self.refuse(f"element of type '{element['type']}'")
            fields.append(self.field(element["value"]))
        return ir.FieldList(item["id"], item["name"], tuple(fields))

    # ---- actions ---------------------------------------------------------------------------

    def action(self, item: dict[str, Json]) -> ir.Action:
        self.params = tuple((p["name"], p["bitwidth"]) for p in item["runtime_data"])
        place = f"action {item['name']}"
        primitives = tuple(self.primitive(p, place) for p in item["primitives"])
        action = ir.Action(item["name"], self.params, primitives)
        self.params = ()
        return action

    def primitive(self, item: dict[str, Json], place: str) -> ir.Primitive:
        op = item["op"]
        self.place = place
        where = _where(item)
        if op not in _PRIMITIVES:
            raise self.refuse(f"primitive '{op}'" + (f" at {where}" if where else ""))
        kinds = _PRIMITIVES[op]
        parameters = item["parameters"]
        if len(parameters) != len(kinds):
            raise UnsupportedProgram(
                f"{place}: primitive '{op}' with {len(parameters)} parameters, "
                f"{len(kinds)} are expected"
            )
        args = tuple(self.argument(p, kind, op) for p, kind in zip(parameters, kinds, strict=True))
        for index in _CONSTANT_PARAMETERS.get(op, ()):
            if not isinstance(args[index], ir.Const):
                raise self.refuse(f"a parameter of '{op}' that is not constant")
        return ir.Primitive(op, args, where)

    def argument(self, item: dict[str, Json], kind: str, op: str) -> ir.Argument:
        value = item["value"]
        match item["type"]:
            case "calculation" if kind == "c":
                return self.find(self.calculations, value, "calculation")
            case "counter_array" if kind == "C":
                return self.find(self.counters, value, "counter")
            case "meter_array" if kind == "M":
                return self.find(self.meters, value, "meter")
            case "register_array" if kind == "R":
                return self.find(self.registers, value, "register")
            case "string" if kind == "t":
                return str(value)
            case "parameters_vector" if kind == "v":
                return tuple(self.expression(part) for part in value)
        expr = self.expression(item)
        if not _fits(expr, kind):
            raise self.refuse(f"a '{item['type']}' as parameter of '{op}'")
        return expr

    # ---- parser and deparser ---------------------------------------------------------------

    def parser(self) -> ir.Parser:
        parsers = self.items("parsers")
        if len(parsers) != 1:
            raise UnsupportedProgram(f"{len(parsers)} parsers: v1model has one")
        declared = {item["name"]: item for item in self.items("parse_vsets")}
        states = {
            item["name"]: self.parser_state(item, declared) for item in parsers[0]["parse_states"]
        }
        for name, item in declared.items():
            self.value_sets.setdefault(name, (item["compressed_bitwidth"],))
        for state in states.values():
            for successor in state.successors:
                if successor is not None and successor not in states:
                    raise UnsupportedProgram(f"parser state {state.name}: no state {successor}")
        start = parsers[0]["init_state"]
        return ir.Parser(parsers[0]["name"], start, states)

    def parser_state(self, item: dict[str, Json], value_sets: Mapping[str, Json]) -> ir.ParserState:
        name = item["name"]
        place = self.place = f"parser state {name}"
        ops: list[ir.ParserOp] = []
        for op in item["parser_ops"]:
            ops.append(self.parser_op(op, place))
            self.place = place
        key = tuple(self.key_part(part) for part in item["transition_key"])
        widths = [width for _, width in key]
        transitions: list[ir.Transition] = []
        default: str | None = None
        for transition in item["transitions"]:
            kind = transition.get("type", "hexstr")
            value, following = transition.get("value"), transition["next_state"]
            if kind == "default" or (kind == "hexstr" and value in ("default", None)):
                default = following
            elif kind == "hexstr":
                mask = transition.get("mask")
                transitions.append(
                    ir.Transition(
                        _unpad(value, widths),
                        None if mask is None else _unpad(mask, widths),
                        following,
                    )
                )
            elif kind == "parse_vset":
                if value not in value_sets:
                    raise UnsupportedProgram(f"{place}: no value set '{value}'")
                known = self.value_sets.setdefault(value, tuple(widths))
                if known != tuple(widths):
                    raise self.refuse(f"value set {value} over keys of different widths")
                mask = transition.get("mask")
                transitions.append(
                    ir.Transition(
                        0, None if mask is None else _unpad(mask, widths), following, value
                    )
                )
            else:
                raise self.refuse(f"transition of type '{kind}'")
        return ir.ParserState(name, tuple(ops), key, tuple(transitions), default)

    def key_part(self, part: dict[str, Json]) -> tuple[ir.Expr, int]:
        expr = self.expression(part)
        match expr:
            case ir.FieldRef() | ir.LastField() | ir.UnionLastField() | ir.Access():
                return expr, expr.field.bitwidth
            case ir.Lookahead():
                return expr, expr.bitwidth
            case ir.Unary():
                return expr, 1
        raise self.refuse(f"transition key of type '{part['type']}'")

    def parser_op(self, item: dict[str, Json], place: str) -> ir.ParserOp:
        op, parameters = item["op"], item["parameters"]
        match op:
            case "extract":
                return self.extract(parameters[0], None)
            case "extract_VL":
                return self.extract(parameters[0], self.expression(parameters[1]))
            case "set":
                return ir.SetField(
                    self.field(parameters[0]["value"]), self.expression(parameters[1])
                )
            case "verify":
                return ir.Verify(self.expression(parameters[0]), self.expression(parameters[1]))
            case "advance":
                return ir.Advance(self.expression(parameters[0]))
            case "shift":
                amount = parameters[0]
                return ir.Advance(ir.Const(8 * int(amount)))
            case "primitive":
                return self.primitive(parameters[0], place)
        raise self.refuse(f"parser operation '{op}'")

    def extract(self, target: dict[str, Json], length: ir.Expr | None) -> ir.Extract:
        value = target["value"]
        match target["type"]:
            case "regular":
                header = self.find(self.headers, value, "header")
                return ir.Extract(header, 0, length)
            case "stack":
                return ir.Extract(self.find(self.stacks, value, "header stack"), 0, length)
            case "union_stack":
                stack = self.find(self.union_stacks, value[0], "header union stack")
                return ir.Extract(stack, stack.members.index(value[1]), length)
        raise self.refuse(f"extract to '{target['type']}'")

    def deparser(self) -> tuple[tuple[ir.Header, ...], tuple[ir.Primitive, ...]]:
        deparsers = self.items("deparsers")
        if len(deparsers) != 1:
            raise UnsupportedProgram(f"{len(deparsers)} deparsers: v1model has one")
        self.place = "deparser"
        headers = tuple(self.find(self.headers, n, "header") for n in deparsers[0]["order"])
        primitives = tuple(
            self.primitive(p, "deparser") for p in deparsers[0].get("primitives") or []
        )
        return headers, primitives

    # ---- controls --------------------------------------------------------------------------

    def profile(self, item: dict[str, Json]) -> ir.Profile:
        self.place = f"action profile {item['name']}"
        selector = None
        if item.get("selector"):
            algorithm, inputs = self.calculation(item["selector"])
            selector = ir.Selector(algorithm, inputs)
        return ir.Profile(item["name"], item["max_size"], selector)

    def control(self, item: dict[str, Json]) -> ir.Control:
        nodes: dict[str, ir.Node] = {}
        for table in item.get("tables") or []:
            nodes[table["name"]] = self.table(table)
        for conditional in item.get("conditionals") or []:
            name = conditional["name"]
            self.place = f"{item['name']}: conditional {name}"
            nodes[name] = ir.Conditional(
                name,
                self.expression(conditional["expression"]),
                conditional.get("true_next"),
                conditional.get("false_next"),
            )
        for call in item.get("action_calls") or []:
            action = self.actions[call["action_id"]]
            nodes[call["name"]] = ir.ActionNode(call["name"], action, call.get("next_node"))
        for node in nodes.values():
            for successor in node.successors:
                if successor is not None and successor not in nodes:
                    raise UnsupportedProgram(f"{node.name}: no table or conditional {successor}")
        start = item.get("init_table")
        if start is not None and start not in nodes:
            raise UnsupportedProgram(f"{item['name']}: no table or conditional {start}")
        return ir.Control(item["name"], start, nodes)

    def table(self, item: dict[str, Json]) -> ir.TableDef:
        name = item["name"]
        place = self.place = f"table {name}"
        kind = item.get("type", "simple")
        if kind not in ("simple", "indirect", "indirect_ws"):
            raise self.refuse(f"table type '{kind}'")
        profile = None if kind == "simple" else item.get("action_profile")
        if kind != "simple" and profile is None:
            raise self.refuse("an indirect table without an action profile")
        key = tuple(self.key_field(part) for part in item["key"])
        ids = item.get("action_ids")
        if ids is None:  # JSON from before 2.0's action_ids: names are unique there
            by_name = {action.name: i for i, action in self.actions.items()}
            ids = [self.find(by_name, action, "action") for action in item["actions"]]
        actions = tuple(self.actions[i] for i in ids)
        numbers = {action_id: number for number, action_id in enumerate(ids)}
        next_tables = item["next_tables"]
        by_hit = "__HIT__" in next_tables or "__MISS__" in next_tables
        base_next = item.get("base_default_next")
        default = None
        entry = item.get("default_entry")
        if entry is not None:
            data = tuple(_hex(text) for text in entry.get("action_data") or ())
            default = (numbers[entry["action_id"]], data)
        elif kind == "simple" and "NoAction" in item["actions"]:
            default = (item["actions"].index("NoAction"), ())
        meter = None
        if item.get("direct_meters"):
            meter = self.find(self.meters, item["direct_meters"], "meter")
        listed = item.get("entries")
        self.place = place
        entries = tuple(self.entries(key, actions, numbers, listed or []))
        return ir.TableDef(
            name=name,
            key=key,
            actions=actions,
            size=max(int(item.get("max_size") or 0), len(entries)),
            profile=profile,
            with_counters=bool(item.get("with_counters")),
            with_timeout=bool(item.get("support_timeout")),
            meter=meter,
            default=default,
            const_default=bool(entry and entry.get("action_entry_const")),
            entries=entries,
            const_entries=listed is not None,
            by_hit=by_hit,
            next_by_action=()
            if by_hit
            else tuple(next_tables.get(action, base_next) for action in item["actions"]),
            next_hit=next_tables.get("__HIT__"),
            next_miss=next_tables.get("__MISS__"),
            base_next=base_next,
        )

    def key_field(self, part: dict[str, Json]) -> ir.KeyField:
        kind, target = part["match_type"], part["target"]
        if kind == "valid":
            source: ir.Expr = self.field_or_valid([target, "$valid$"])
            field = MatchField(part.get("name") or target, MatchKind.EXACT, 1)
            return ir.KeyField(field, source)
        try:
            match_kind = MatchKind(kind)
        except ValueError:
            raise self.refuse(f"match kind '{kind}'") from None
        source = self.field_or_valid(target)
        width = source.field.bitwidth if isinstance(source, ir.FieldLike) else 1
        mask = part.get("mask")
        field = MatchField(part.get("name") or ".".join(target), match_kind, width)
        return ir.KeyField(field, source, None if mask is None else _hex(mask))

    def entries(
        self,
        key: tuple[ir.KeyField, ...],
        actions: tuple[ir.Action, ...],
        numbers: Mapping[int, int],
        items: list[dict[str, Json]],
    ) -> Iterable[Entry]:
        # In BMv2 a low number means a high priority; ours, like P4Runtime's, is the reverse.
        lowest = max((item.get("priority", 0) for item in items), default=0)
        needs_priority = any(
            part.match.kind in (MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL)
            for part in key
        )
        for item in items:
            match = tuple(
                _const_match(part.match, field)
                for part, field in zip(key, item["match_key"], strict=True)
            )
            call = item["action_entry"]
            args = tuple(_hex(text) for text in call["action_data"])
            target = ActionCall(actions[numbers[call["action_id"]]].name, args)
            priority = lowest + 1 - item.get("priority", 0) if needs_priority else 0
            yield Entry(match, target, priority, is_const=True)


def _unpad(text: str, widths: list[int]) -> int:
    """A select value: each field padded to bytes → the fields packed without padding."""
    data = _hex(text)
    sizes = [(width + 7) // 8 for width in widths]
    left = 8 * sum(sizes)
    packed = 0
    for width, size in zip(widths, sizes, strict=True):
        left -= 8 * size
        packed = packed << width | (data >> left) & ((1 << width) - 1)
    return packed


def _const_match(field: MatchField, item: dict[str, Json]) -> MatchValue:
    full = (1 << field.bitwidth) - 1
    kind = item["match_type"]
    if kind == "valid":
        return int(bool(item["key"]))
    if kind == "range":
        return (_hex(item["start"]), _hex(item["end"]))
    value = _hex(item["key"])
    if kind == "lpm":
        length = item["prefix_length"]
        prefix_mask = full ^ (full >> length)
        if field.kind is MatchKind.LPM:
            return (value & prefix_mask, length)
        return (value & prefix_mask, prefix_mask)
    if kind == "ternary":
        mask = _hex(item["mask"]) & full
        if field.kind is MatchKind.OPTIONAL:
            return value if mask == full else None
        return (value & mask, mask)
    if kind == "optional":
        return value if "mask" not in item or _hex(item["mask"]) else None
    return value


_KIND_LETTERS: dict[str, Callable[[ir.Expr], bool]] = {
    "d": lambda expr: ir.kind_of(expr) in (ir.Kind.DATA, ir.Kind.BOOL),
    "b": lambda expr: ir.kind_of(expr) is ir.Kind.BOOL,
    "x": lambda expr: ir.kind_of(expr) in (ir.Kind.DATA, ir.Kind.BOOL),
    "f": lambda expr: isinstance(expr, ir.FieldLike),
    "h": lambda expr: isinstance(expr, ir.HeaderExpr),
    "s": lambda expr: isinstance(expr, ir.StackRef),
    "S": lambda expr: isinstance(expr, ir.StackRef | ir.UnionStackRef),
    "u": lambda expr: isinstance(expr, ir.UnionRef | ir.UnionStackItem),
    "U": lambda expr: isinstance(expr, ir.UnionStackRef),
}


def _fits(expr: ir.Expr, kind: str) -> bool:
    check = _KIND_LETTERS.get(kind)
    return check is not None and check(expr)
