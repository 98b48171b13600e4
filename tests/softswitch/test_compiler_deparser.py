"""Deparsing in every mode: in order, in another order, headers left out, changed and removed."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.pipeline import Pipeline
from softswitch.program import load_program
from tests.softswitch import json_support as made

WRITE_A, WRITE_B, WRITE_C, REMOVE_A, REMOVE_B, WRITE_B_IN_EGRESS = range(6)
NEW = {"a": 0xAA, "b": 0xBB, "c": 0xCC}
ORDERS = ("habc", "hcab", "hac", "abch", "h", "")


def step(index: int, following: str | None) -> tuple[made.Json, made.Json, made.Json]:
    """(conditional, table, action): do step `index` if bit `index` of h.f0 is set."""
    header = "abcabb"[index]
    if index in (REMOVE_A, REMOVE_B):
        primitive = made.primitive("remove_header", {"type": "header", "value": header})
    else:
        target = {"type": "field", "value": [header, "y"]}
        primitive = made.primitive("assign", target, made.constant(NEW[header]))
    test = made.operation("&", made.field(0), made.constant(1 << index))
    condition = made.operation("!=", test, made.constant(0))
    return (
        made.conditional(f"c{index}", condition, f"t{index}", following),
        made.call(f"t{index}", index, following),
        made.action(index, primitive),
    )


@cache
def pipeline(order: str) -> Pipeline:
    tree = made.program()
    tree["header_types"].append(
        {"name": "two_t", "id": 2, "fields": [["x", 12, False], ["y", 20, False]]}
    )
    for number, name in enumerate("abc", start=2):
        tree["headers"].append(
            {"name": name, "id": number, "header_type": "two_t", "metadata": False}
        )
    extracts = [made.extract(name) for name in "habc"]
    tree["parsers"][0]["parse_states"] = [made.state("start", extracts)]
    tree["deparsers"][0]["order"] = list(order)
    steps = [step(i, f"c{i + 1}" if i < REMOVE_B else None) for i in range(6)]
    tree["actions"] = [action for _, _, action in steps]
    tree["pipelines"] = [
        made.pipeline(
            name,
            start,
            conditionals=[conditional for conditional, _, _ in part],
            tables=[table for _, table, _ in part],
        )
        for name, start, part in (("ingress", "c0", steps[:5]), ("egress", "c5", steps[5:]))
    ]
    return Pipeline(load_program(json.dumps(tree)))


def expected(order: str, frame: bytes) -> bytes:
    """What comes out: valid headers in deparser order, then what was not parsed."""
    parts: dict[str, bytes] = {}
    at = 0
    for name, size in (("h", 8), ("a", 4), ("b", 4), ("c", 4)):
        if len(frame) - at < size:
            break
        parts[name] = frame[at : at + size]
        at += size
    steps = parts["h"][0] if "h" in parts else 0
    for index in (WRITE_A, WRITE_B, WRITE_C, REMOVE_A, REMOVE_B, WRITE_B_IN_EGRESS):
        name = "abcabb"[index]
        if not steps >> index & 1 or name not in parts:
            continue
        if index in (REMOVE_A, REMOVE_B):
            del parts[name]
        else:
            value = int.from_bytes(parts[name], "big") >> 20 << 20 | NEW[name]
            parts[name] = value.to_bytes(4, "big")
    return b"".join(parts.get(name, b"") for name in order) + frame[at:]


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=150, deadline=None)
@given(steps=st.integers(0, 63), rest=st.binary(max_size=30))
def test_deparsed_frame(order: str, steps: int, rest: bytes) -> None:
    frame = bytes([steps]) + rest
    result = pipeline(order).ingress(frame, 1, 0)
    assert result is not None
    assert pipeline(order).egress(result[4], 0, 0) == expected(order, frame)


def test_a_frame_that_nothing_changed_is_not_copied() -> None:
    frame = bytes(100)
    result = pipeline("habc").ingress(frame, 1, 0)
    assert result is not None
    assert pipeline("habc").egress(result[4], 0, 0) is frame
