"""Operations of the JSON that p4c emits rarely: on stacks, unions, registers and booleans."""

from __future__ import annotations

import json

import pytest

from softswitch.pipeline import Pipeline
from softswitch.program import load_program
from tests.softswitch import json_support as made
from tests.softswitch.json_support import Json, constant, operation

ITEM = [["v", 8, False]]


def stack(name: str) -> Json:
    return {"type": "header_stack", "value": name}


def header(name: str) -> Json:
    return {"type": "header", "value": name}


def union(name: str) -> Json:
    return {"type": "header_union", "value": name}


def flag(value: bool) -> Json:
    return {"type": "bool", "value": value}


def choice(condition: Json, yes: Json, no: Json) -> Json:
    value = {"op": "?", "cond": condition, "left": yes, "right": no}
    return {"type": "expression", "value": value}


def bit(condition: Json) -> Json:
    return operation("b2d", None, condition)


def extract_next(name: str) -> Json:
    return {"op": "extract", "parameters": [{"type": "stack", "value": name}]}


def evaluate(*exprs: Json, frame: bytes = b"abcdefgh123", widths: int = 16) -> list[int]:
    """The values of expressions, each assigned to a field of its own, `widths` bits wide.

    There are a header `h` (f0 = "a", …), a stack `s` of three with two valid items "1" and "2", a
    union `u` whose second member is "3", an invalid union `w`, a stack of unions `t` with these
    two, and a register `r` with cells 7 and 300.
    """
    tree = made.program()
    outputs = [[f"o{i}", widths, False] for i in range(len(exprs))]
    padding = -widths * len(exprs) % 8
    if padding:
        outputs.append(["_padding", padding, False])
    tree["header_types"] += [
        {"name": "item_t", "id": 2, "fields": ITEM},
        {"name": "out_t", "id": 3, "fields": outputs},
    ]
    names = ["s[0]", "s[1]", "s[2]", "u.a", "u.b", "w.a", "w.b"]
    tree["headers"] += [
        {"name": name, "id": 10 + i, "header_type": "item_t", "metadata": False}
        for i, name in enumerate(names)
    ]
    tree["headers"].append({"name": "out", "id": 2, "header_type": "out_t", "metadata": False})
    tree["header_stacks"] = [
        {"name": "s", "id": 0, "header_type": "item_t", "size": 3, "header_ids": [10, 11, 12]}
    ]
    tree["header_union_types"] = [
        {"name": "u_t", "id": 0, "headers": [["a", "item_t"], ["b", "item_t"]]}
    ]
    tree["header_unions"] = [
        {"name": "u", "id": 0, "union_type": "u_t", "header_ids": [13, 14]},
        {"name": "w", "id": 1, "union_type": "u_t", "header_ids": [15, 16]},
    ]
    tree["header_union_stacks"] = [
        {"name": "t", "id": 0, "union_type": "u_t", "header_union_ids": [0, 1]}
    ]
    tree["register_arrays"] = [{"name": "r", "id": 0, "size": 2, "bitwidth": 16}]
    second = {"op": "extract", "parameters": [{"type": "union_stack", "value": ["t", "b"]}]}
    ops = [made.extract("h"), extract_next("s"), extract_next("s"), second]
    tree["parsers"][0]["parse_states"] = [made.state("start", ops)]
    tree["deparsers"][0]["order"] = ["out"]
    sets = [
        made.primitive("assign", {"type": "field", "value": ["out", f"o{i}"]}, expression)
        for i, expression in enumerate(exprs)
    ]
    tree["actions"] = [made.action(1, made.primitive("add_header", header("out")), *sets)]
    tree["pipelines"] = [
        made.pipeline("ingress", "one", tables=[made.call("one", 1, None)]),
        made.pipeline("egress"),
    ]
    pipeline = Pipeline(load_program(json.dumps(tree)))
    pipeline.registers["r"].values[:] = [7, 300]
    result = pipeline.ingress(frame, 1, 0)
    assert result is not None
    out = pipeline.egress(result[4], 0, 0)
    assert isinstance(out, bytes)
    packed = int.from_bytes(out, "big") >> padding
    mask = (1 << widths) - 1
    return [packed >> widths * i & mask for i in reversed(range(len(exprs)))]


def register(index: Json) -> Json:
    return {"type": "register", "value": ["r", index]}


F0, F1 = made.field(0), made.field(1)  # 97, 98
ITEM_AT = {i: operation("dereference_header_stack", stack("s"), constant(i)) for i in range(4)}
UNION_AT = {
    i: operation(
        "dereference_union_stack", {"type": "header_union_stack", "value": "t"}, constant(i)
    )
    for i in range(3)
}


def access(target: Json, index: int) -> Json:
    return {"type": "expression", "value": {"op": "access_field", "left": target, "right": index}}


def member(target: Json, index: int) -> Json:
    value = {"op": "access_union_header", "left": target, "right": index}
    return {"type": "expression", "value": value}


CASES: dict[str, tuple[Json, int]] = {
    "register": (register(constant(1)), 300),
    "register by field": (register(operation("-", F0, constant(97))), 7),
    "register beyond the end": (register(F0), 0),
    "last index": (operation("last_stack_index", None, stack("s")), 1),
    "size": (operation("size_stack", None, stack("s")), 2),
    "last field": ({"type": "stack_field", "value": ["s", "v"]}, ord("2")),
    "last union field": ({"type": "union_stack_field", "value": ["t", "b", "v"]}, ord("3")),
    "item": (access(ITEM_AT[0], 0), ord("1")),
    "item beyond the end": (access(ITEM_AT[3], 0), 0),
    "item is valid": (bit(operation("valid", None, ITEM_AT[1])), 1),
    "item is not valid": (bit(operation("valid", None, ITEM_AT[2])), 0),
    "union member": (access(member(union("u"), 1), 0), ord("3")),
    "member of a union in a stack": (access(member(UNION_AT[0], 1), 0), ord("3")),
    "member of a union beyond the end": (access(member(UNION_AT[2], 1), 0), 0),
    "union is valid": (bit(operation("valid_union", None, union("u"))), 1),
    "union is not valid": (bit(operation("valid_union", None, union("w"))), 0),
    "unions are equal": (bit(operation("==", union("u"), UNION_AT[0])), 1),
    "invalid unions are not equal": (bit(operation("==", union("w"), union("w"))), 0),
    "unions differ": (bit(operation("!=", union("u"), union("w"))), 1),
    "headers are equal": (bit(operation("==", ITEM_AT[0], header("s[0]"))), 1),
    "headers differ": (bit(operation("!=", ITEM_AT[0], ITEM_AT[1])), 1),
    "invalid headers are not equal": (bit(operation("==", header("s[2]"), header("s[2]"))), 0),
    "validity as a field": ({"type": "field", "value": ["s[1]", "$valid$"]}, 1),
    "metadata are always valid": (bit(operation("valid", None, header("standard_metadata"))), 1),
    "booleans are equal": (bit(operation("==", flag(True), operation("<", F0, F1))), 1),
    "booleans differ": (bit(operation("!=", operation("d2b", None, F0), flag(True))), 0),
    "constant condition": (bit(operation("not", None, flag(False))), 1),
    "choice of data": (choice(operation("<", F0, F1), F0, F1), 97),
    "choice of conditions": (bit(choice(operation(">", F0, F1), flag(True), flag(False))), 0),
    "condition as data": (operation(">", F1, F0), 1),
    "quotient": (operation("/", constant(1000), F0), 10),
    "quotient by zero": (operation("/", constant(1000), operation("-", F0, F0)), 0),
    "remainder": (operation("%", F0, constant(10)), 7),
    "remainder by what may be zero": (operation("%", F0, F1), 97),
    "product": (operation("*", F0, constant(3)), 291),
    "unary minus": (operation("&", operation("-", None, F0), constant(0xFFFF)), 0x10000 - 97),
    "unary plus": (operation("+", None, F0), 97),
    "complement": (operation("&", operation("~", None, F0), constant(0xFF)), 0xFF - 97),
    "shift by a field": (operation("<<", constant(1), operation("-", F1, F0)), 2),
    "shift right by a field": (operation(">>", F0, operation("-", F1, F0)), 48),
    "gigantic shift": (operation("<<", F0, operation("*", F0, operation("*", F0, F0))), 0),
    "saturation": (operation("usat_cast", operation("+", F0, F1), constant(7)), 127),
    "saturation at zero": (operation("usat_cast", operation("-", F0, F1), constant(7)), 0),
    "signed saturation": (operation("sat_cast", operation("+", F0, F1), constant(8)), 127),
    "signed wrap": (
        operation(
            "&", operation("two_comp_mod", operation("+", F0, F1), constant(8)), constant(0xFFFF)
        ),
        0x10000 + 195 - 256,
    ),
    "wide and": (operation("&", operation("~", None, F0), operation("~", None, F1)), 0xFF9C),
    "wide or": (operation("|", operation("~", None, F0), F1), 0xFFFE),
    "or with zero": (operation("|", F0, constant(0)), 97),
    "exclusive or": (operation("^", F0, F1), 3),
    "folded constants": (
        operation("+", operation("<<", constant(1), constant(4)), constant(3)),
        19,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str) -> None:
    expression, expected = CASES[name]
    wrapped = {"type": "expression", "value": expression}
    assert evaluate(wrapped) == [expected]


def test_all_at_once() -> None:
    """The same in one action: no expression disturbs another."""
    values = evaluate(*(expression for expression, _ in CASES.values()))
    assert values == [expected for _, expected in CASES.values()]


def test_values_are_cut_to_the_field() -> None:
    assert evaluate(operation("*", F0, F1), operation("-", F0, F1), widths=12) == [
        9506 & 0xFFF,
        0xFFF,
    ]
