"""How much of a compiled program the traces exercise, and where in the source the rest stands.

The universe is computed from the BMv2 JSON alone: see `Item` for its kinds. What was seen comes
from the reference interpreter, which records every `Item` that happens.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4src import compiled
from p4src.build import sources
from tests.softswitch.reference_interpreter import Item, boolean_leaves, unwrap
from tests.traces.format import read_all
from tests.traces.targets.in_process import ReferenceTarget

Json = Any

# What no packet can cause, by its description, each with the reason. Tests below hold that each
# exists and is not seen: whoever makes one reachable, or changes the program, must look here again.
UNREACHABLE: dict[str, dict[str, str]] = {
    "fabric": {
        "action NoAction by table FabricIngress.routing.ipv6_route": (
            "Default only, and p4c writes no default entry for a table with an action selector, "
            "nor can P4Runtime set one: on a miss the target runs no action, which is the same."
        ),
        "state parse_segment: stack segments is full": (
            "parse_srh comes here only with last_entry below MAX_SEGMENTS, the size of the stack, "
            "and parse_segment reads last_entry + 1 segments."
        ),
    },
    "impair": {
        "state find_target: packet ends in before": (
            "A resubmitted packet is as long as it was, and `before` reaches up to an offset that "
            "was drawn from 14 to its length - 1."
        ),
        "state find_target: before is not of whole bytes": (
            "Its length in bits is offset_bytes << 3."
        ),
        "state find_target: before is longer than it may be": (
            "Packets beyond MAX_FRAME_BYTES, the size of `before`, are not resubmitted."
        ),
        "state find_target: packet ends in target": (
            "The byte at the offset that was drawn is in the packet, as above."
        ),
    },
}


@dataclass(frozen=True, slots=True)
class Place:
    """What an item is in words, and where it stands in the source."""

    description: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.description}"


def universe(program: str) -> dict[Item, Place]:
    """Everything that packets could make `p4src/<program>.p4` do, in the order of the JSON."""
    tree = json.loads(compiled(program).json_text)
    return dict(_items(tree, _state_lines(program)))


def _state_lines(program: str) -> dict[str, tuple[str, int]]:
    """Parser state → file and line; p4c records none for states."""
    found = {}
    for path in sources(program):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r"\s*state\s+(\w+)", line)
            if match:
                found[match[1]] = (_relative(path), number)
    return found


def _relative(path: Path) -> str:
    return f"p4src/{path.as_posix().rpartition('/p4src/')[2]}"


def _items(tree: Json, states: Mapping[str, tuple[str, int]]) -> Iterator[tuple[Item, Place]]:
    actions = {a["id"]: a for a in tree["actions"]}
    for parser in tree["parsers"]:
        for state in parser["parse_states"]:
            yield from _state_items(state, states[state["name"]])
    reached: dict[int, Json] = {}
    for pipeline in tree["pipelines"]:
        for table in pipeline["tables"]:
            where = _where(table)
            if table["key"]:
                for outcome in ("hit", "miss"):
                    yield (
                        Item("table", table["name"], outcome),
                        Place(f"table {table['name']}: {outcome}", *where),
                    )
            for action_id in table["action_ids"]:
                action = actions[action_id]
                reached[action_id] = action
                yield (
                    Item("action", table["name"], action_id),
                    Place(_action_text(table, action), *_where(action, where)),
                )
        for conditional in pipeline["conditionals"]:
            yield from _conditional_items(conditional)
    for action_id, action in reached.items():
        for index, primitive in enumerate(action["primitives"]):
            if primitive["op"] == "_jump_if_zero":
                for taken in (True, False):
                    yield (
                        Item("choice", f"{action_id}/{index}", taken),
                        Place(f"choice in {action['name']}: {_word(taken)}", *_where(action)),
                    )


def _state_items(state: Json, where: tuple[str, int]) -> Iterator[tuple[Item, Place]]:
    name = state["name"]
    for index, operation in enumerate(state["parser_ops"]):
        for error, text in _rejections(operation):
            item = Item("rejection", f"{name}/{index}", error)
            yield item, Place(f"state {name}: {text}", *where)
    for index, transition in enumerate(state["transitions"]):
        value = transition["value"] or "default"
        if transition["mask"]:
            value += f" &&& {transition['mask']}"
        target = transition["next_state"] or "accept"
        yield (
            Item("transition", name, index),
            Place(f"state {name}: {value} → {target}", *where),
        )


def _rejections(operation: Json) -> Iterator[tuple[str, str]]:
    """How an operation of a parser state can fail: the error, and words for it."""
    op, parameters = operation["op"], operation["parameters"]
    if op in ("extract", "extract_VL"):
        yield "PacketTooShort", f"packet ends in {parameters[0]['value']}"
    if op == "extract_VL":
        yield "ParserInvalidArgument", f"{parameters[0]['value']} is not of whole bytes"
        yield "HeaderTooShort", f"{parameters[0]['value']} is longer than it may be"
    if op == "extract" and parameters[0]["type"] == "stack":
        yield "StackOutOfBounds", f"stack {parameters[0]['value']} is full"
    if op == "verify":
        yield "verify", "verify fails"
    if op == "advance":
        yield "ParserInvalidArgument", "advances by a part of a byte"
        yield "PacketTooShort", "advances beyond the packet"
    if op == "set" and parameters[1]["type"] == "lookahead":
        yield "PacketTooShort", "packet ends in lookahead"


def _action_text(table: Json, action: Json) -> str:
    fragment = table.get("source_info", {}).get("source_fragment", "")
    if table["key"]:
        return f"action {action['name']} by table {table['name']}"
    return f"statement {' '.join(fragment.split())}" if fragment else f"action {action['name']}"


def _conditional_items(conditional: Json) -> Iterator[tuple[Item, Place]]:
    where = _where(conditional)
    fragment = conditional.get("source_info", {}).get("source_fragment", "")
    text = " ".join(fragment.split()) or conditional["name"]
    name = conditional["name"]
    for outcome in (True, False):
        yield Item("branch", name, outcome), Place(f"if ({text}): {_word(outcome)}", *where)
    leaves = boolean_leaves(conditional["expression"])
    if len(leaves) > 1:
        for index, leaf in enumerate(leaves):
            for outcome in (True, False):
                yield (
                    Item("condition", f"{name}/{index}", outcome),
                    Place(f"operand {_text(leaf)} of if ({text}): {_word(outcome)}", *where),
                )


def _text(expression: Json) -> str:
    """An expression much as in P4."""
    node = unwrap(expression)
    match node.get("type"):
        case "field":
            return ".".join(node["value"]).replace(".$valid$", ".isValid()")
        case "hexstr":
            return str(int(node["value"], 16))
        case None:
            if node["op"] in ("d2b", "b2d"):
                return _text(node["right"])
            if node["left"] is None:
                return f"{node['op']}({_text(node['right'])})"
            return f"({_text(node['left'])} {node['op']} {_text(node['right'])})"
    return str(node.get("value"))


def _where(node: Json, otherwise: tuple[str, int] = ("p4src", 0)) -> tuple[str, int]:
    info = node.get("source_info")
    if info is None:
        for primitive in node.get("primitives", ()):
            if "source_info" in primitive:
                return _where(primitive)
        return otherwise
    return info["filename"], info["line"]


def _word(outcome: bool) -> str:
    return "true" if outcome else "false"


def report(
    program: str, seen: Iterable[Item], unreachable: Mapping[Item, str]
) -> tuple[str, list[Item]]:
    """A readable account, and the items that nothing exercised though they are reachable."""
    all_items = universe(program)
    seen_items = set(seen)
    missed = [item for item in all_items if item not in seen_items and item not in unreachable]
    kinds: dict[str, list[Item]] = {}
    for item in all_items:
        kinds.setdefault(item.kind, []).append(item)
    lines = [f"p4src/{program}.p4: what the traces exercise"]
    for kind, items in kinds.items():
        possible = [item for item in items if item not in unreachable]
        done = [item for item in possible if item in seen_items]
        lines.append(f"  {kind + ':':12} {len(done):3} of {len(possible):3}")
    for item, reason in unreachable.items():
        lines.append(f"  cannot happen: {all_items[item]}")
        lines += textwrap.wrap(reason, 96, initial_indent="    ", subsequent_indent="    ")
    for item in missed:
        lines.append(f"  NOT EXERCISED: {all_items[item]}")
    return "\n".join(lines), missed


def seen_by_traces(program: str) -> set[Item]:
    """What all traces of a program make it do, as the reference interpreter sees it."""
    seen: set[Item] = set()
    for trace in read_all():
        if trace.program.name == program:
            target = ReferenceTarget()
            target.run(trace)
            assert target.last is not None
            seen |= set(target.last.seen)
    return seen


def unreachable_items(program: str) -> dict[Item, str]:
    """The items behind the descriptions in UNREACHABLE; each must exist exactly once."""
    places = universe(program)
    found: dict[Item, str] = {}
    for description, reason in UNREACHABLE[program].items():
        (item,) = (item for item, place in places.items() if place.description == description)
        found[item] = reason
    return found
