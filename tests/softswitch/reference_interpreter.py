"""A plain, slow interpreter of BMv2 JSON: oracle of the tests, and their coverage instrument.

It walks the JSON as p4c wrote it, packet by packet, in the words of the BMv2 JSON format
(behavioral-model/docs/JSON_format.md) and of simple_switch (docs/simple_switch.md). Nothing is
compiled, cached or shared with `softswitch`; only the plain values that describe table entries
(`Entry`, `ActionCall`, `MemberRef`, `GroupRef`) are the same. What it does not know, it refuses
with `NotImplementedError` when it meets it.

`Interpreter` is the program (parser, pipelines, deparser); `tests.softswitch.reference_switch` puts
queues around it. Where a packet went is recorded in `Interpreter.seen` as `Item`s.
"""

from __future__ import annotations

import binascii
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from softswitch.tables import ActionCall, Entry, GroupRef, MatchValue, MemberRef, Target

Json = Any
Draw = Callable[[int, int], int]
"""`draw(low, high)`: a random number, both ends included."""

DROP_PORT = 511
INSTANCE_NORMAL = 0
INSTANCE_RESUBMIT = 6
LAST_PRIORITY = 1 << 30
MOST_STATES = 1000  # of a parser that does not come to an end


class Item(NamedTuple):
    """One thing that a packet can make a program do.

    ============  ======================  ===========================================
    kind          name                    outcome
    ============  ======================  ===========================================
    transition    parser state            index of the transition taken
    rejection     state/operation index   the error, or "verify"
    table         table                   "hit", "miss"
    action        table                   action id
    branch        conditional             True, False
    condition     conditional/leaf index  True, False: one operand of && or ||
    choice        action id/primitive     True, False: the condition of ?: or if
    ============  ======================  ===========================================
    """

    kind: str
    name: str
    outcome: str | int | bool


class Unspecified(Exception):
    """A packet makes the program do something that P4 leaves open: no oracle can tell."""


class ParserError(Exception):
    """Parsing stops with the P4 error of this name (or, from `verify`, of this number)."""

    def __init__(self, error: str | int) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True)
class Header:
    """One header (or metadata struct) of a packet. `size_bits` is that of its varbit field."""

    valid: bool = False
    values: dict[str, int] = field(default_factory=dict)
    varbit_bits: int = 0


@dataclass(slots=True)
class Packet:
    """What travels through the pipelines."""

    frame: bytes
    headers: dict[str, Header]
    next_in_stack: dict[str, int]
    payload: bytes = b""
    truncated_length: int | None = None
    exited: bool = False
    resubmit_field_list: int | None = None


class Resubmit(NamedTuple):
    """A packet for another ingress, with the fields that it keeps."""

    frame: bytes
    port: int
    kept: dict[tuple[str, str], int]


def boolean_leaves(expression: Json) -> list[Json]:
    """The operands of a tree of `and`, `or`, `not`: what a condition is composed of."""
    node = unwrap(expression)
    if node.get("op") in ("and", "or"):
        return boolean_leaves(node["left"]) + boolean_leaves(node["right"])
    if node.get("op") == "not":
        return boolean_leaves(node["right"])
    return [node]


def unwrap(node: Json) -> Json:
    """Take off the `{"type": "expression", "value": …}` wrappings."""
    while isinstance(node, dict) and node.get("type") == "expression":
        node = node["value"]
    return node


class Interpreter:
    """One program with its state; see the module docstring.

    Attributes:
        entries: table name → entries.
        members, groups: action profile name → member id → action; group id → member ids.
        counters: name → cells of [packets, bytes].
        registers: name → cells.
        seen: how often each `Item` happened.
    """

    def __init__(self, json_text: str, *, draw: Draw | None = None) -> None:
        self.tree: Json = json.loads(json_text)
        self.draw: Draw = draw if draw is not None else random.Random(0).randint
        tree = self.tree
        self.header_types = {t["name"]: t for t in tree["header_types"]}
        self.header_type_of = {
            h["name"]: self.header_types[h["header_type"]] for h in tree["headers"]
        }
        self.metadata_names = [h["name"] for h in tree["headers"] if h["metadata"]]
        header_by_id = {h["id"]: h["name"] for h in tree["headers"]}
        self.stacks = {
            s["name"]: [header_by_id[i] for i in s["header_ids"]] for s in tree["header_stacks"]
        }
        self.actions = {a["id"]: a for a in tree["actions"]}
        self.pipelines = {p["name"]: p for p in tree["pipelines"]}
        self.tables = {t["name"]: t for p in tree["pipelines"] for t in p["tables"]}
        self.profiles = {
            p["name"]: p for line in tree["pipelines"] for p in line.get("action_profiles", ())
        }
        self.error_codes: dict[str, int] = dict(tree["errors"])
        self.entries: dict[str, list[Entry]] = {name: [] for name in self.tables}
        self.members: dict[str, dict[int, ActionCall]] = {name: {} for name in self.profiles}
        self.groups: dict[str, dict[int, list[int]]] = {name: {} for name in self.profiles}
        self.counters = {
            c["name"]: [[0, 0] for _ in range(c["size"])] for c in tree["counter_arrays"]
        }
        self.registers = {r["name"]: [0] * r["size"] for r in tree["register_arrays"]}
        self.seen: Counter[Item] = Counter()
        self.value_sets: dict[str, list[int]] = {v["name"]: [] for v in tree["parse_vsets"]}
        for table in self.tables.values():
            for constant in table.get("entries", ()):
                self.entries[table["name"]].append(self._constant_entry(table, constant))
        for unknown in ("checksums", "header_unions", "meter_arrays"):
            if tree[unknown]:
                raise NotImplementedError(unknown)

    def _constant_entry(self, table: Json, entry: Json) -> Entry:
        """An entry of the program: in the JSON the lower priority number wins."""
        match: list[MatchValue] = []
        for part in entry["match_key"]:
            if part["match_type"] == "ternary":
                match.append((int(part["key"], 16), int(part["mask"], 16)))
            elif part["match_type"] == "range":
                match.append((int(part["start"], 16), int(part["end"], 16)))
            elif part["match_type"] == "lpm":
                match.append((int(part["key"], 16), part["prefix_length"]))
            elif part["match_type"] == "exact":
                match.append(int(part["key"], 16))
            else:
                raise NotImplementedError(f"table {table['name']}: key {part['match_type']}")
        call = entry["action_entry"]
        arguments = tuple(int(value, 16) for value in call["action_data"])
        target = ActionCall(self.actions[call["action_id"]]["name"], arguments)
        return Entry(tuple(match), target, LAST_PRIORITY - entry.get("priority", 0))

    # ---- one packet ------------------------------------------------------------------------------

    def ingress(
        self, frame: bytes, port: int, now_ns: int, again: Resubmit | None = None
    ) -> Packet | Resubmit | None:
        """Parser and ingress. None: dropped; else to be queued, or to come back."""
        packet = self.new_packet(frame)
        standard = packet.headers["standard_metadata"].values
        if again is None:
            standard["ingress_port"] = port
            standard["instance_type"] = INSTANCE_NORMAL
        else:
            # simple_switch clears all metadata of a resubmitted packet but the listed fields and
            # the packet length, so the ingress port reads 0.
            for (header, name), value in again.kept.items():
                packet.headers[header].values[name] = value
            standard["instance_type"] = INSTANCE_RESUBMIT
        standard["packet_length"] = len(frame)
        self._set(packet, "standard_metadata", "ingress_global_timestamp", now_ns // 1000)

        standard["parser_error"] = self._parse(packet)
        self._control(packet, self.pipelines["ingress"])
        packet.exited = False
        if packet.resubmit_field_list is not None:
            return Resubmit(frame, port, self._field_list(packet, packet.resubmit_field_list))
        if standard["mcast_grp"]:
            raise NotImplementedError("multicast")
        if standard["egress_spec"] == DROP_PORT:
            return None
        standard["instance_type"] = INSTANCE_NORMAL
        return packet

    def egress(
        self,
        packet: Packet,
        port: int,
        now_ns: int,
        *,
        enq_ns: int = 0,
        enq_qdepth: int = 0,
        deq_qdepth: int = 0,
    ) -> bytes | None:
        """Egress and deparser. None: dropped."""
        for name, value in (
            ("egress_global_timestamp", now_ns // 1000),
            ("enq_timestamp", enq_ns // 1000),
            ("enq_qdepth", enq_qdepth),
            ("deq_timedelta", now_ns // 1000 - enq_ns // 1000),
            ("deq_qdepth", deq_qdepth),
            ("egress_port", port),
            ("egress_spec", DROP_PORT + 1),
            ("packet_length", len(packet.frame)),
        ):
            self._set(packet, "standard_metadata", name, value)
        self._control(packet, self.pipelines["egress"])
        if packet.headers["standard_metadata"].values["egress_spec"] == DROP_PORT:
            return None
        frame = self._deparse(packet)
        return frame if packet.truncated_length is None else frame[: packet.truncated_length]

    def new_packet(self, frame: bytes) -> Packet:
        """All headers invalid, all fields 0."""
        headers = {
            name: Header(
                valid=name in self.metadata_names,
                values={f[0]: 0 for f in header_type["fields"]},
            )
            for name, header_type in self.header_type_of.items()
        }
        return Packet(frame, headers, dict.fromkeys(self.stacks, 0))

    # ---- parser and deparser ---------------------------------------------------------------------

    def _parse(self, packet: Packet) -> int:
        """Run the parser; returns the error code. What was not extracted is the payload."""
        (parser,) = self.tree["parsers"]
        states = {state["name"]: state for state in parser["parse_states"]}
        reader = BitReader(packet.frame)
        code = self.error_codes["NoError"]
        state_name: str | None = parser["init_state"]
        try:
            visited = 0
            while state_name is not None:
                visited += 1
                if visited > MOST_STATES:
                    raise Unspecified("endless parser")
                state_name = self._parse_state(packet, states[state_name], reader)
        except ParserError as error:
            code = error.error if isinstance(error.error, int) else self.error_codes[error.error]
        packet.payload = reader.rest()
        return code

    def _parse_state(self, packet: Packet, state: Json, reader: BitReader) -> str | None:
        for index, operation in enumerate(state["parser_ops"]):
            try:
                self._parser_op(packet, operation["op"], operation["parameters"], reader)
            except ParserError as error:
                name = error.error if isinstance(error.error, str) else "verify"
                self.seen[Item("rejection", f"{state['name']}/{index}", name)] += 1
                raise
        key, key_bits = 0, 0
        for part in state["transition_key"]:
            if part["type"] == "lookahead":
                offset, width = part["value"]
                value = reader.peek(offset, width)
            elif part["type"] == "stack_field":
                field_at = self._last_in_stack(packet, part["value"])
                value, width = self._get(packet, *field_at), self._width(field_at)
            else:
                value, width = self._eval(packet, part, ()), self._width(part["value"])
            value &= (1 << width) - 1
            padded = (width + 7) // 8 * 8  # every part takes whole bytes
            key, key_bits = key << padded | value, key_bits + padded
        for index, transition in enumerate(state["transitions"]):
            if transition["type"] == "default":
                matches = True
            elif transition["type"] == "hexstr":
                mask = int(transition["mask"], 16) if transition["mask"] else (1 << key_bits) - 1
                matches = key & mask == int(transition["value"], 16) & mask
            elif transition["type"] == "parse_vset":
                matches = key in self.value_sets[transition["value"]]
            else:
                raise NotImplementedError(f"transition {transition['type']}")
            if matches:
                self.seen[Item("transition", state["name"], index)] += 1
                next_state: str | None = transition["next_state"]
                return next_state
        return None  # simple_switch accepts here, where P4-16 (section 13.6) would reject

    def _last_in_stack(self, packet: Packet, stack_field: Json) -> tuple[str, str]:
        """[header, field] of the element of a stack that was extracted last."""
        stack, name = stack_field
        index = packet.next_in_stack[stack] - 1
        if index < 0:
            raise Unspecified("the last element of an empty stack")
        return self.stacks[stack][index], name

    def _parser_op(self, packet: Packet, op: str, parameters: Json, reader: BitReader) -> None:
        if op == "extract":
            (target,) = parameters
            if target["type"] == "regular":
                name = target["value"]
            elif target["type"] == "stack":
                stack = self.stacks[target["value"]]
                index = packet.next_in_stack[target["value"]]
                if index >= len(stack):
                    raise ParserError("StackOutOfBounds")
                name = stack[index]
            else:
                raise NotImplementedError(f"extract {target['type']}")
            self._extract(packet, name, reader, varbit_bits=0)
            if target["type"] == "stack":
                packet.next_in_stack[target["value"]] += 1
        elif op == "extract_VL":
            target, size = parameters
            self._extract(packet, target["value"], reader, self._eval(packet, size, ()))
        elif op == "set":
            target, source = parameters
            if source["type"] == "lookahead":
                value = reader.peek(*source["value"])
            else:
                value = self._eval(packet, source, ())
            header, name = target["value"]
            self._set(packet, header, name, value)
        elif op == "verify":
            condition, error = parameters
            if not self._eval(packet, condition, ()):
                raise ParserError(self._eval(packet, error, ()))
        elif op == "advance":
            reader.skip(self._eval(packet, parameters[0], ()))
        else:
            raise NotImplementedError(f"parser operation {op}")

    def _extract(self, packet: Packet, name: str, reader: BitReader, varbit_bits: int) -> None:
        header_type = self.header_type_of[name]
        if varbit_bits % 8:
            raise ParserError("ParserInvalidArgument")
        widths = [
            (field_name, varbit_bits if width == "*" else width)
            for field_name, width, *_ in header_type["fields"]
        ]
        reader.require(sum(width for _, width in widths))
        longest = header_type.get("max_length")
        if longest is not None and sum(width for _, width in widths) > longest * 8:
            raise ParserError("HeaderTooShort")
        header = packet.headers[name]
        header.valid = True
        header.varbit_bits = varbit_bits
        for field_name, width in widths:
            header.values[field_name] = reader.read(width)

    def _deparse(self, packet: Packet) -> bytes:
        (deparser,) = self.tree["deparsers"]
        if deparser.get("primitives"):
            raise NotImplementedError("primitives in a deparser")
        out = b""
        for name in deparser["order"]:
            header = packet.headers[name]
            if header.valid:
                out += pack(
                    (header.values[f[0]], header.varbit_bits if f[1] == "*" else f[1])
                    for f in self.header_type_of[name]["fields"]
                )
        return out + packet.payload

    # ---- control ---------------------------------------------------------------------------------

    def _control(self, packet: Packet, pipeline: Json) -> None:
        conditionals = {c["name"]: c for c in pipeline["conditionals"]}
        node: str | None = pipeline["init_table"]
        while node is not None and not packet.exited:
            if node in conditionals:
                node = self._conditional(packet, conditionals[node])
            else:
                node = self._table(packet, self.tables[node])

    def _conditional(self, packet: Packet, conditional: Json) -> str | None:
        expression = conditional["expression"]
        outcome = bool(
            self._condition(packet, expression, conditional["name"], boolean_leaves(expression))
        )
        self.seen[Item("branch", conditional["name"], outcome)] += 1
        next_node: str | None = conditional["true_next" if outcome else "false_next"]
        return next_node

    def _condition(self, packet: Packet, expression: Json, name: str, leaves: list[Json]) -> bool:
        """Evaluate with short circuits (P4-16, section 8.5.1); record every operand's outcome."""
        node = unwrap(expression)
        match node.get("op"):
            case "and":
                return self._condition(packet, node["left"], name, leaves) and self._condition(
                    packet, node["right"], name, leaves
                )
            case "or":
                return self._condition(packet, node["left"], name, leaves) or self._condition(
                    packet, node["right"], name, leaves
                )
            case "not":
                return not self._condition(packet, node["right"], name, leaves)
        outcome = bool(self._eval(packet, node, ()))
        if len(leaves) > 1:
            index = next(i for i, leaf in enumerate(leaves) if leaf is node)
            self.seen[Item("condition", f"{name}/{index}", outcome)] += 1
        return outcome

    def _table(self, packet: Packet, table: Json) -> str | None:
        name = table["name"]
        entry = self._look_up(packet, table)
        if table["key"]:
            self.seen[Item("table", name, "hit" if entry else "miss")] += 1
        if entry is not None and entry.counter_data is not None:
            entry.counter_data[0] += 1
            entry.counter_data[1] += len(packet.frame)
        call = self._call_of(packet, table, entry)
        if call is not None:
            action_id, arguments = call
            self.seen[Item("action", name, action_id)] += 1
            self._action(packet, action_id, arguments)
        next_tables = table["next_tables"]
        next_node: str | None
        if "__HIT__" in next_tables:
            next_node = next_tables["__HIT__" if entry else "__MISS__"]
        elif call is not None:
            next_node = next_tables[self.actions[call[0]]["name"]]
        else:
            next_node = table["base_default_next"]
        return next_node

    def _look_up(self, packet: Packet, table: Json) -> Entry | None:
        values = [
            self._eval(packet, {"type": "field", "value": k["target"]}, ()) for k in table["key"]
        ]
        widths = [self._width(k["target"]) for k in table["key"]]
        kinds = [k["match_type"] for k in table["key"]]
        best: tuple[int, int] | None = None
        found = None
        for entry in self.entries[table["name"]]:
            prefix = 0
            for kind, value, width, wanted in zip(kinds, values, widths, entry.match, strict=True):
                if kind == "exact":
                    matches = value == wanted
                elif kind == "optional":
                    matches = wanted is None or value == wanted
                else:
                    assert isinstance(wanted, tuple)
                    first, second = wanted
                    if kind == "lpm":
                        matches = value >> (width - second) == first >> (width - second)
                        prefix = second
                    elif kind == "ternary":
                        matches = value & second == first & second
                    elif kind == "range":
                        matches = first <= value <= second
                    else:
                        raise NotImplementedError(f"match kind {kind}")
                if not matches:
                    break
            else:
                rank = (entry.priority, prefix)
                if best is None or rank > best:
                    best, found = rank, entry
        return found

    def _call_of(
        self, packet: Packet, table: Json, entry: Entry | None
    ) -> tuple[int, tuple[int, ...]] | None:
        """Which action to run: its id and arguments, or None."""
        if entry is None:
            default = table.get("default_entry")
            if default is None:
                return None
            return default["action_id"], tuple(int(x, 16) for x in default["action_data"])
        call = self._resolve(packet, table, entry.target)
        if call is None:
            return None
        for action_id, name in zip(table["action_ids"], table["actions"], strict=True):
            if name == call.action:
                return action_id, call.args
        raise KeyError(f"table {table['name']} has no action {call.action}")

    def _resolve(self, packet: Packet, table: Json, target: Target) -> ActionCall | None:
        if isinstance(target, ActionCall):
            return target
        profile = table["action_profile"]
        if isinstance(target, MemberRef):
            return self.members[profile][target.member_id]
        if not isinstance(target, GroupRef):
            raise NotImplementedError("one-shot action sets")
        members = sorted(self.groups[profile][target.group_id])
        if not members:
            return None
        selector = self.profiles[profile]["selector"]
        if selector["algo"] != "crc32":
            raise NotImplementedError(f"selector hash {selector['algo']}")
        data = pack(
            (self._eval(packet, part, ()), self._width(part["value"])) for part in selector["input"]
        )
        return self.members[profile][members[binascii.crc32(data) % len(members)]]

    # ---- actions ---------------------------------------------------------------------------------

    def _action(self, packet: Packet, action_id: int, arguments: tuple[int, ...]) -> None:
        primitives = self.actions[action_id]["primitives"]
        at = 0
        while at < len(primitives):
            op, parameters = primitives[at]["op"], primitives[at]["parameters"]
            if op == "_jump":
                at = self._eval(packet, parameters[0], arguments)
            elif op == "_jump_if_zero":
                condition = bool(self._eval(packet, parameters[0], arguments))
                self.seen[Item("choice", f"{action_id}/{at}", condition)] += 1
                at = at + 1 if condition else self._eval(packet, parameters[1], arguments)
            else:
                self._primitive(packet, op, parameters, arguments)
                at += 1

    def _primitive(
        self, packet: Packet, op: str, parameters: Json, arguments: tuple[int, ...]
    ) -> None:
        def value(index: int) -> int:
            return self._eval(packet, parameters[index], arguments)

        def target(index: int) -> tuple[str, str]:
            assert parameters[index]["type"] == "field", parameters[index]
            header, name = parameters[index]["value"]
            return header, name

        match op:
            case "assign":
                self._set(packet, *target(0), value(1))
            case "mark_to_drop":
                self._set(packet, "standard_metadata", "egress_spec", DROP_PORT)
                self._set(packet, "standard_metadata", "mcast_grp", 0)
            case "exit":
                packet.exited = True
            case "count":
                cell = self.counters[parameters[0]["value"]][value(1)]
                cell[0] += 1
                cell[1] += len(packet.frame)
            case "register_read":
                self._set(packet, *target(0), self.registers[parameters[1]["value"]][value(2)])
            case "register_write":
                array = parameters[0]["value"]
                width = next(
                    r["bitwidth"] for r in self.tree["register_arrays"] if r["name"] == array
                )
                self.registers[array][value(1)] = value(2) & ((1 << width) - 1)
            case "modify_field_rng_uniform":
                self._set(packet, *target(0), self.draw(value(1), value(2)))
            case "truncate":
                length = value(0)
                if packet.truncated_length is None or length < packet.truncated_length:
                    packet.truncated_length = length
            case "resubmit":
                packet.resubmit_field_list = value(0)
            case "add_header":
                packet.headers[parameters[0]["value"]].valid = True
            case "remove_header":
                packet.headers[parameters[0]["value"]].valid = False
            case "assign_header":
                self._copy_header(
                    packet.headers[self._header(packet, parameters[1], arguments)],
                    packet.headers[self._header(packet, parameters[0], arguments)],
                )
            case "push" | "pop":
                self._shift_stack(packet, parameters[0]["value"], value(1) * (-1, 1)[op == "push"])
            case "no_op":
                pass
            case _:
                raise NotImplementedError(f"primitive {op}")

    @staticmethod
    def _copy_header(source: Header, target: Header) -> None:
        target.valid = source.valid
        target.values = dict(source.values)
        target.varbit_bits = source.varbit_bits

    def _shift_stack(self, packet: Packet, name: str, by: int) -> None:
        """Move the elements of a stack up (push) or, with `by` below 0, down (pop)."""
        stack = self.stacks[name]
        old = [packet.headers[header] for header in stack]
        for index, header in enumerate(stack):
            origin = index - by
            fresh = Header(values=dict.fromkeys(old[index].values, 0))
            packet.headers[header] = old[origin] if 0 <= origin < len(stack) else fresh
        packet.next_in_stack[name] = max(0, min(len(stack), packet.next_in_stack[name] + by))

    def _field_list(self, packet: Packet, list_id: int) -> dict[tuple[str, str], int]:
        (found,) = [f for f in self.tree["field_lists"] if f["id"] == list_id]
        return {
            (e["value"][0], e["value"][1]): packet.headers[e["value"][0]].values[e["value"][1]]
            for e in found["elements"]
        }

    # ---- expressions and fields ------------------------------------------------------------------

    def _width(self, target: Json) -> int:
        """Bits of a field, given as [header, field]."""
        header, name = target
        if name == "$valid$":
            return 1
        width = next(f[1] for f in self.header_type_of[header]["fields"] if f[0] == name)
        assert isinstance(width, int)
        return width

    def _set(self, packet: Packet, header: str, name: str, value: int) -> None:
        if name == "$valid$":
            packet.headers[header].valid = bool(value)
        else:
            packet.headers[header].values[name] = value & ((1 << self._width((header, name))) - 1)

    def _get(self, packet: Packet, header: str, name: str) -> int:
        if name == "$valid$":
            return int(packet.headers[header].valid)
        value = packet.headers[header].values[name]
        _, width, *signed = next(f for f in self.header_type_of[header]["fields"] if f[0] == name)
        if signed and signed[0] and value >> (width - 1):
            value -= 1 << width
        return value

    def _header(self, packet: Packet, expression: Json, arguments: tuple[int, ...]) -> str:
        """Name of the header that an expression stands for."""
        node = unwrap(expression)
        if node.get("type") == "header":
            return str(node["value"])
        if node.get("op") == "dereference_header_stack":
            stack = self.stacks[node["left"]["value"]]
            index = self._eval(packet, node["right"], arguments)
            if not 0 <= index < len(stack):
                raise Unspecified(f"element {index} of a stack of {len(stack)}")
            return str(stack[index])
        raise NotImplementedError(f"header expression {node}")

    def _eval(self, packet: Packet, expression: Json, arguments: tuple[int, ...]) -> int:
        node = unwrap(expression)
        match node.get("type"):
            case "field":
                return self._get(packet, *node["value"])
            case "hexstr":
                return int(node["value"], 16)
            case "bool":
                return int(node["value"])
            case "stack_field":
                return self._get(packet, *self._last_in_stack(packet, node["value"]))
            case "runtime_data" | "local":
                index: int = node["value"]
                return arguments[index]
            case None:
                return self._operation(packet, node, arguments)
        raise NotImplementedError(f"expression {node}")

    def _operation(self, packet: Packet, node: Json, arguments: tuple[int, ...]) -> int:
        op = node["op"]
        if op == "access_field":
            header = self._header(packet, node["left"], arguments)
            field_name: str = self.header_type_of[header]["fields"][node["right"]][0]
            return self._get(packet, header, field_name)
        if op == "valid":
            return int(packet.headers[self._header(packet, node["right"], arguments)].valid)
        if op == "last_stack_index":
            return packet.next_in_stack[node["right"]["value"]] - 1
        if op == "size_stack":
            return len(self.stacks[node["right"]["value"]])
        right = self._eval(packet, node["right"], arguments)
        if op in ("d2b", "b2d"):
            return int(bool(right))
        if op == "not":
            return int(not right)
        if op == "~":
            return ~right
        if op == "?":
            chosen = "left" if self._eval(packet, node["cond"], arguments) else "right"
            return self._eval(packet, node[chosen], arguments)
        left = self._eval(packet, node["left"], arguments)
        match op:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "<<":
                return left << right
            case ">>":
                return left >> right
            case "&":
                return left & right
            case "|":
                return left | right
            case "^":
                return left ^ right
            case "==":
                return int(left == right)
            case "!=":
                return int(left != right)
            case "<":
                return int(left < right)
            case "<=":
                return int(left <= right)
            case ">":
                return int(left > right)
            case ">=":
                return int(left >= right)
            case "and":
                return int(bool(left) and bool(right))
            case "or":
                return int(bool(left) or bool(right))
            case "two_comp_mod":
                value = left & ((1 << right) - 1)
                return value - (1 << right) if value >> (right - 1) else value
            case "usat_cast":
                return max(0, min(left, (1 << right) - 1))
            case "sat_cast":
                return max(-(1 << (right - 1)), min(left, (1 << (right - 1)) - 1))
        raise NotImplementedError(f"operator {op}")


class BitReader:
    """Reads a frame from the front, most significant bit first."""

    def __init__(self, data: bytes) -> None:
        self._bits = int.from_bytes(data, "big")
        self._size = len(data) * 8
        self._data = data
        self._at = 0

    def require(self, bits: int) -> None:
        """Raises ParserError if fewer bits are left."""
        if self._at + bits > self._size:
            raise ParserError("PacketTooShort")

    def peek(self, offset: int, width: int) -> int:
        """The bits `offset` bits ahead, without moving; raises ParserError past the end."""
        self.require(offset + width)
        return self._bits >> (self._size - self._at - offset - width) & ((1 << width) - 1)

    def read(self, width: int) -> int:
        """The next bits; raises ParserError past the end."""
        value = self.peek(0, width)
        self._at += width
        return value

    def skip(self, bits: int) -> None:
        """Moves on; raises ParserError past the end."""
        if bits % 8:
            raise ParserError("ParserInvalidArgument")
        self.require(bits)
        self._at += bits

    def rest(self) -> bytes:
        """What was not read, in whole bytes."""
        return self._data[self._at // 8 :]


def pack(fields: Iterator[tuple[int, int]]) -> bytes:
    """(value, bits) … → bytes, first field first, zero bits at the end to fill the last byte."""
    total, total_bits = 0, 0
    for value, bits in fields:
        total, total_bits = total << bits | value, total_bits + bits
    padding = -total_bits % 8
    return (total << padding).to_bytes((total_bits + padding) // 8, "big")
