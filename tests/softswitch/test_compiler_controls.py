"""Control graphs and action bodies that p4c rarely makes: deep, tangled, looping."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.pipeline import Pipeline
from softswitch.program import load_program
from tests.softswitch import json_support as made


def run(pipeline: Pipeline, frame: bytes) -> bytes:
    result = pipeline.ingress(frame, 1, 0)
    assert result is not None
    out = pipeline.egress(result[4], result[0], 0)
    assert isinstance(out, bytes)
    return out


def add(target: int, value: int) -> made.Json:
    """h.f<target> = h.f<target> + value"""
    total = made.operation("+", made.field(target), made.constant(value))
    return made.primitive(
        "assign", made.field(target), made.operation("&", total, made.constant(255))
    )


def compiled(ingress: made.Json, actions: list[made.Json]) -> Pipeline:
    text = made.text(actions=actions, pipelines=[ingress, made.pipeline("egress")])
    return Pipeline(load_program(text))


Graph = list[tuple[int, int, int, int]]
"""Nodes in topological order: (field tested, value added, successor if non-zero, else)."""


def graph_pipeline(graph: Graph) -> Pipeline:
    """Every node is a conditional on a field; each branch first adds to field 7 (or 6)."""
    count = len(graph)
    actions, tables, conditionals = [], [], []

    def name(index: int) -> str | None:
        return f"c{index}" if index < count else None

    for index, (tested, value, yes, no) in enumerate(graph):
        for branch, to in (("y", yes), ("n", no)):
            id_ = 2 * index + (branch == "n")
            target = 7 if branch == "y" else 6
            actions.append(made.action(id_, add(target, value)))
            tables.append(made.call(f"{branch}{index}", id_, name(to)))
        test = made.operation("!=", made.field(tested), made.constant(0))
        conditionals.append(made.conditional(f"c{index}", test, f"y{index}", f"n{index}"))
    ingress = made.pipeline("ingress", "c0", tables=tables, conditionals=conditionals)
    return compiled(ingress, actions)


def walk(graph: Graph, frame: bytes) -> bytes:
    out = bytearray(frame)
    index = 0
    while index < len(graph):
        tested, value, yes, no = graph[index]
        if out[tested]:
            out[7] = (out[7] + value) & 255
            index = yes
        else:
            out[6] = (out[6] + value) & 255
            index = no
    return bytes(out)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 25))
    return [
        (
            draw(st.integers(0, 7)),
            draw(st.integers(0, 255)),
            draw(st.integers(index + 1, count)),
            draw(st.integers(index + 1, count)),
        )
        for index in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 255))
def test_any_graph_without_loops(graph: Graph, seed: int) -> None:
    pipeline = graph_pipeline(graph)
    rng = random.Random(seed)
    for _ in range(6):
        frame = bytes(rng.choice((0, rng.randrange(256))) for _ in range(8))
        assert run(pipeline, frame) == walk(graph, frame)


def test_nesting_deeper_than_python_allows() -> None:
    count = 150
    graph = [(i % 6, 1, i + 1, count) for i in range(count)]
    pipeline = graph_pipeline(graph)
    assert "node == " in pipeline.ingress_source  # the list of nodes instead of nested branches
    for frame in (bytes([1] * 8), bytes([1, 1, 1, 0, 0, 0, 0, 0]), bytes(8)):
        assert run(pipeline, frame) == walk(graph, frame)


def test_tangled_graph_is_not_written_out_many_times() -> None:
    # Every node is reached from two before it, which meet nowhere but at the end.
    count = 60
    graph = [(i % 6, i, min(i + 1, count), min(i + 2, count)) for i in range(count)]
    pipeline = graph_pipeline(graph)
    assert len(pipeline.ingress_source.splitlines()) < 20 * count
    rng = random.Random(3)
    for _ in range(50):
        frame = bytes(rng.choice((0, 1)) for _ in range(8))
        assert run(pipeline, frame) == walk(graph, frame)


def test_ordinary_branches_become_elif() -> None:
    graph = [(0, 1, 3, 1), (1, 2, 3, 2), (2, 3, 3, 3)]
    # A chain of else-ifs without statements before the next test
    conditionals = [
        made.conditional(
            f"c{i}",
            made.operation("==", made.field(0), made.constant(i)),
            f"y{i}",
            f"c{i + 1}" if i < 2 else None,
        )
        for i in range(3)
    ]
    tables = [made.call(f"y{i}", i, None) for i in range(3)]
    actions = [made.action(i, add(7, i + 1)) for i in range(3)]
    pipeline = compiled(
        made.pipeline("ingress", "c0", tables=tables, conditionals=conditionals), actions
    )
    assert pipeline.ingress_source.count("    elif ") == 2
    for value in range(4):
        frame = bytes([value] + [0] * 7)
        assert run(pipeline, frame)[7] == (value + 1 if value < 3 else 0)
    assert len(graph) == 3


# ---- action bodies -------------------------------------------------------------------------------


def body(*primitives: made.Json) -> Pipeline:
    ingress = made.pipeline(
        "ingress", "t", tables=[made.call("t", 1, "after"), made.call("after", 2, None)]
    )
    return compiled(ingress, [made.action(1, *primitives), made.action(2, add(5, 1))])


def jump(to: int) -> made.Json:
    return made.primitive("_jump", made.constant(to))


def jump_if_zero(index: int, to: int) -> made.Json:
    return made.primitive("_jump_if_zero", made.field(index), made.constant(to))


def test_if_and_else_in_an_action() -> None:
    pipeline = body(jump_if_zero(0, 3), add(7, 1), jump(4), add(7, 2), add(6, 1))
    assert (
        "else:" in pipeline.ingress_source and "while True:  # loops" not in pipeline.ingress_source
    )
    assert run(pipeline, bytes([1] + [0] * 7))[5:] == bytes([1, 1, 1])
    assert run(pipeline, bytes(8))[5:] == bytes([1, 1, 2])


def test_loop_in_an_action() -> None:
    # while h.f0: f0 -= 1, f7 += 3
    pipeline = body(jump_if_zero(0, 4), add(0, 255), add(7, 3), jump(0), add(6, 9))
    assert run(pipeline, bytes([5] + [0] * 7)) == bytes([0, 0, 0, 0, 0, 1, 9, 15])
    assert run(pipeline, bytes(8)) == bytes([0, 0, 0, 0, 0, 1, 9, 0])


def test_loop_without_end_drops_the_packet() -> None:
    pipeline = body(add(7, 1), jump(0))
    assert pipeline.ingress(bytes(8), 1, 0) is None
    assert pipeline.failed_asserts == {"loop without end in action1": 1}


def test_exit_in_the_middle_of_an_action_ends_the_control_after_it() -> None:
    # As in simple_switch, the rest of the action still runs.
    pipeline = body(jump_if_zero(0, 2), made.primitive("exit"), add(7, 1))
    assert run(pipeline, bytes([1] + [0] * 7))[5:] == bytes([0, 0, 1])
    assert run(pipeline, bytes(8))[5:] == bytes([1, 0, 1])


def test_action_call_node() -> None:
    node = {"name": "n", "id": 0, "action_id": 1, "next_node": None}
    pipeline = compiled(
        made.pipeline("ingress", "n", action_calls=[node]), [made.action(1, add(0, 7))]
    )
    assert run(pipeline, bytes(8))[0] == 7


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", 12),
        ("subtract", 8),
        ("bit_and", 2),
        ("bit_or", 10),
        ("bit_xor", 8),
        ("shift_left", 40),
        ("shift_right", 2),
    ],
)
def test_primitives_of_p4_14(op: str, expected: int) -> None:
    pipeline = body(made.primitive(op, made.field(7), made.field(0), made.field(1)))
    assert run(pipeline, bytes([10, 2] + [0] * 6))[7] == expected


def test_accumulating_primitives_of_p4_14() -> None:
    pipeline = body(
        made.primitive("add_to_field", made.field(0), made.constant(250)),
        made.primitive("subtract_from_field", made.field(1), made.constant(1)),
        made.primitive("modify_field", made.field(2), made.field(1)),
        made.primitive("no_op"),
    )
    assert run(pipeline, bytes([10] + [0] * 7))[:3] == bytes([4, 255, 255])


def test_drop_primitive_of_p4_14() -> None:
    assert body(made.primitive("drop")).ingress(bytes(8), 1, 0) is None


AWKWARD = [
    *("frame", "port", "now_ns", "again", "len", "int", "min", "class", "lambda", "None"),
    *("off", "state", "entry", "mask", "_", "a-b", "a_b", "9lives", "$x", "ingress", "egress"),
]


def test_names_that_mean_something_in_python() -> None:
    """Every field counts for itself, whatever it is called."""
    fields = [[name, 8, False] for name in AWKWARD]
    tree = made.program()
    tree["header_types"] += [
        {"name": "scalars_0", "id": 2, "fields": fields},
        {"name": "frame_t", "id": 3, "fields": fields},
    ]
    tree["headers"] += [
        {"name": "scalars", "id": 2, "header_type": "scalars_0", "metadata": True},
        {"name": "frame", "id": 3, "header_type": "frame_t", "metadata": False},
    ]
    tree["parsers"][0]["parse_states"] = [
        made.state("start", [made.extract("h"), made.extract("frame")])
    ]
    tree["deparsers"][0]["order"] = ["h", "frame"]
    copies, sums = [], []
    for name in AWKWARD:
        scalar = {"type": "field", "value": ["scalars", name]}
        octet = {"type": "field", "value": ["frame", name]}
        copies.append(made.primitive("assign", scalar, octet))
        sums.append(made.primitive("add", octet, scalar, octet))
    tree["actions"] = [made.action(1, *copies), made.action(2, *sums)]
    tree["pipelines"] = [
        made.pipeline("ingress", "one", tables=[made.call("one", 1, None)]),
        made.pipeline("egress", "two", tables=[made.call("two", 2, None)]),
    ]
    pipeline = Pipeline(load_program(json.dumps(tree)))
    octets = bytes(range(1, len(AWKWARD) + 1))
    assert run(pipeline, bytes(8) + octets) == bytes(8) + bytes(2 * octet for octet in octets)
