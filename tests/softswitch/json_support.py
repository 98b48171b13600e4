"""Small BMv2 programs, written as JSON trees: for what p4c would never, or only rarely, emit."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

STANDARD_FIELDS = [
    ["ingress_port", 9, False],
    ["egress_spec", 9, False],
    ["egress_port", 9, False],
    ["instance_type", 32, False],
    ["packet_length", 32, False],
    ["mcast_grp", 16, False],
    ["parser_error", 32, False],
    ["_padding", 3, False],
]


def program(**parts: Any) -> Json:
    """A program with a header `h` of eight bytes `f0` to `f7`, extracted and sent to port 0."""
    tree: Json = {
        "program": "made.p4",
        "__meta__": {"version": [2, 24]},
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": STANDARD_FIELDS},
            {"name": "h_t", "id": 1, "fields": [[f"f{i}", 8, False] for i in range(8)]},
        ],
        "headers": [
            {
                "name": "standard_metadata",
                "id": 0,
                "header_type": "standard_metadata",
                "metadata": True,
            },
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        ],
        "parsers": [
            {
                "name": "parser",
                "id": 0,
                "init_state": "start",
                "parse_states": [state("start", [extract("h")])],
            }
        ],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"]}],
        "actions": [],
        "pipelines": [pipeline("ingress"), pipeline("egress")],
        "field_aliases": [["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]]],
    }
    tree.update(parts)
    return tree


def text(**parts: Any) -> str:
    """The program as JSON text."""
    return json.dumps(program(**parts))


def state(name: str, ops: list[Json], key: list[Json] | None = None, *cases: Json) -> Json:
    """A parser state; without cases it accepts."""
    accept = {"type": "default", "value": None, "mask": None, "next_state": None}
    return {
        "name": name,
        "id": 0,
        "parser_ops": ops,
        "transition_key": key or [],
        "transitions": list(cases) or [accept],
    }


def case(value: str | None, next_state: str | None) -> Json:
    """A transition; value None is the default one."""
    kind = "default" if value is None else "hexstr"
    return {"type": kind, "value": value, "mask": None, "next_state": next_state}


def extract(header: str) -> Json:
    """An extract to a header."""
    return {"op": "extract", "parameters": [{"type": "regular", "value": header}]}


def pipeline(name: str, init: str | None = None, **parts: Any) -> Json:
    """A control."""
    tree = {
        "name": name,
        "id": 0,
        "init_table": init,
        "tables": [],
        "action_profiles": [],
        "conditionals": [],
    }
    return {**tree, **parts}


def field(index: int) -> Json:
    """Field `h.f<index>`."""
    return {"type": "field", "value": ["h", f"f{index}"]}


def constant(value: int) -> Json:
    """A constant."""
    return {"type": "hexstr", "value": hex(value)}


def operation(op: str, left: Json | None, right: Json) -> Json:
    """An expression."""
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def action(id_: int, *primitives: Json) -> Json:
    """An action without parameters."""
    return {
        "name": f"action{id_}",
        "id": id_,
        "runtime_data": [],
        "primitives": list(primitives),
    }


def primitive(op: str, *parameters: Json) -> Json:
    """A primitive."""
    return {"op": op, "parameters": list(parameters)}


def call(name: str, id_: int, following: str | None) -> Json:
    """A table without key that calls action `id_`, as p4c makes for every action call."""
    return {
        "name": name,
        "id": id_,
        "key": [],
        "match_type": "exact",
        "type": "simple",
        "max_size": 1,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [id_],
        "actions": [f"action{id_}"],
        "base_default_next": following,
        "next_tables": {f"action{id_}": following},
        "default_entry": {
            "action_id": id_,
            "action_const": True,
            "action_data": [],
            "action_entry_const": True,
        },
    }


def conditional(name: str, expression: Json, yes: str | None, no: str | None) -> Json:
    """A branch."""
    return {"name": name, "id": 0, "expression": expression, "true_next": yes, "false_next": no}
