"""Reading BMv2 JSON: what is read, and what is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from softswitch import ir
from softswitch.externs import MeterKind
from softswitch.pipeline import Pipeline
from softswitch.program import UnsupportedProgram, load_program
from softswitch.tables import ActionCall, MatchKind
from tests.softswitch import json_support as made
from tests.softswitch.pipeline_support import PROGRAMS

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.json"))


def load(name: str) -> ir.Program:
    return load_program((PROGRAMS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_programs_load_and_keep_their_source(name: str) -> None:
    program = load(name)
    assert json.loads(program.source)["program"].endswith(f"{name}.p4")
    assert program.name == f"{name}.p4"


def test_headers() -> None:
    program = load("parsing")
    ipv4 = program.headers["ipv4"]
    assert ipv4.type.bits == 160 and ipv4.type.max_bytes == 60
    assert ipv4.type.varbit == len(ipv4.type.fields) - 1
    ihl = ipv4.type.fields[ipv4.type.index("ihl")]
    assert (ihl.offset, ihl.bitwidth, ihl.low, ihl.high) == (4, 4, 0, 15)
    small = program.headers["signed"].type.fields[0]
    assert (small.signed, small.low, small.high) == (True, -128, 127)
    assert [h.name for h in program.stacks["tags"].headers] == ["tags[0]", "tags[1]", "tags[2]"]
    assert program.headers["standard_metadata"].is_metadata
    with pytest.raises(KeyError):
        ipv4.type.index("nope")


def test_names_of_simple_switch() -> None:
    program = load("requests")
    group = program.well_known("intrinsic_metadata.mcast_grp")
    assert group is not None and group.field.name == "mcast_grp"
    assert program.well_known("standard_metadata.egress_spec") is not None
    assert program.well_known("standard_metadata.nope") is None
    assert program.well_known("nope.nope") is None


def test_errors_are_numbered_with_those_of_the_core_library() -> None:
    errors = load("parsing").errors
    assert errors["NoError"] == 0
    assert len(set(errors.values())) == len(errors)
    assert {"PacketTooShort", "ParserTimeout", "BadVersion"} <= errors.keys()
    only = load_program(made.text(errors=[["Mine", 3]])).errors
    assert only["Mine"] == 3
    assert sorted(only.values()) == list(range(3, 11))


def test_tables() -> None:
    pipeline = Pipeline(load("matching"))
    table = pipeline.tables["IngressImpl.exact_prefix"]
    assert [(f.name, f.kind, f.bitwidth) for f in table.fields] == [
        ("hdr.k.e", MatchKind.EXACT, 8),
        ("hdr.k.l", MatchKind.LPM, 32),
    ]
    assert table.size == 1024 and pipeline.tables["IngressImpl.exact_one"].size == 4
    assert pipeline.tables["IngressImpl.prefix"].default.target == ActionCall(
        "IngressImpl.set", (0xDEAD,)
    )
    assert pipeline.tables["IngressImpl.fixed"].const_entries
    assert pipeline.tables["IngressImpl.exact_two"].const_default
    assert pipeline.tables["IngressImpl.member"].action_profile == "IngressImpl.profile"
    assert pipeline.action_profiles["IngressImpl.profile"].size == 16
    assert not pipeline.action_profiles["IngressImpl.profile"].is_selector
    assert pipeline.action_profiles["IngressImpl.chooser"].is_selector


def test_externs() -> None:
    pipeline = Pipeline(load("stateful"))
    assert {n: c.size for n, c in pipeline.counters.items()} == {
        "IngressImpl.by_port": 16,
        "IngressImpl.by_tos": 4,
        "EgressImpl.out_bytes": 8,
    }
    assert [(m.kind, m.size, m.rate_count) for m in pipeline.meters.values()] == [
        (MeterKind.BYTES, 16, 2)
    ]
    assert [(r.size, r.bitwidth) for r in pipeline.registers.values()] == [(8, 32), (1, 8)]
    direct = pipeline.tables["IngressImpl.direct"]
    assert direct.has_counters and direct.has_timeout
    assert direct.meter_kind is MeterKind.PACKETS


# ---- refusals ------------------------------------------------------------------------------------


def refused(text: str) -> str:
    with pytest.raises(UnsupportedProgram) as caught:
        Pipeline(load_program(text))
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"pipelines": []}'])
def test_what_is_no_program(text: str) -> None:
    assert refused(text).startswith("not ")


def test_version() -> None:
    assert "version [1, 0]: 2.x" in refused(made.text(__meta__={"version": [1, 0]}))


def with_action(*primitives: made.Json) -> str:
    return made.text(
        actions=[made.action(1, *primitives)],
        pipelines=[
            made.pipeline("ingress", "t", tables=[made.call("t", 1, None)]),
            made.pipeline("egress"),
        ],
    )


F0, ONE = made.field(0), made.constant(1)
PRIMITIVES: list[tuple[made.Json, str]] = [
    (made.primitive("teleport"), "action action1: primitive 'teleport' is not supported"),
    (made.primitive("assign", F0), "'assign' with 1 parameters, 2 are expected"),
    (made.primitive("assign", ONE, ONE), "a 'hexstr' as parameter of 'assign'"),
    (made.primitive("assign", F0, {"type": "weird", "value": 1}), "value of type 'weird'"),
    (made.primitive("assign", F0, made.operation("**", F0, ONE)), "operation '**'"),
    (made.primitive("assign", F0, {"type": "field", "value": ["x", "y"]}), "no header 'x'"),
    (made.primitive("assign", F0, {"type": "field", "value": ["h", "y"]}), "no field h.y"),
    (made.primitive("add_header", F0), "a 'field' as parameter of 'add_header'"),
    (made.primitive("resubmit", F0), "a parameter of 'resubmit' that is not constant"),
    (
        made.primitive("count", {"type": "counter_array", "value": "c"}, ONE),
        "action action1: no counter 'c'",
    ),
    (
        made.primitive("register_read", F0, {"type": "register_array", "value": "r"}, ONE),
        "no register 'r'",
    ),
    (
        made.primitive("_jump_if_zero", F0, made.constant(9)),
        "jump to 9 is outside the action",
    ),
]


@pytest.mark.parametrize(("primitive", "message"), PRIMITIVES)
def test_refused_primitives(primitive: made.Json, message: str) -> None:
    assert message in refused(with_action(primitive))


def test_a_refused_primitive_names_its_source_line() -> None:
    info = {"filename": "/some/where/x.p4", "line": 7, "source_fragment": "teleport()"}
    text = with_action({**made.primitive("teleport"), "source_info": info})
    assert refused(text).endswith("at x.p4(7): teleport() is not supported")


def parser_of(*states: made.Json) -> str:
    parsers = [{"name": "p", "id": 0, "init_state": "start", "parse_states": list(states)}]
    return made.text(parsers=parsers)


def with_table(**parts: Any) -> str:
    table = {**made.call("t", 1, None), **parts}
    return made.text(
        actions=[made.action(1)],
        pipelines=[made.pipeline("ingress", "t", tables=[table]), made.pipeline("egress")],
    )


REFUSED: list[tuple[str, str]] = [
    (
        made.text(extern_instances=[{"name": "e", "id": 0, "type": "Thing"}]),
        "extern instance e of type Thing",
    ),
    (made.text(pipelines=[made.pipeline("main")]), "pipelines: v1model has ingress and egress"),
    (
        made.text(calculations=[{"name": "c", "id": 0, "algo": "sha1", "input": []}]),
        "calculation c: hash algorithm 'sha1'",
    ),
    (
        made.text(
            meter_arrays=[{"name": "m", "id": 0, "type": "miles", "size": 1, "rate_count": 2}]
        ),
        "meter m: meter type 'miles'",
    ),
    (parser_of(made.state("start", [{"op": "rewind", "parameters": []}])), "'rewind'"),
    (
        parser_of(made.state("start", [], [F0], made.case("0x1", "nowhere"))),
        "parser state start: no state nowhere",
    ),
    (parser_of(made.state("start", [], [ONE], made.case("0x1", None))), "transition key of type"),
    (
        parser_of(made.state("start", [], [F0], {**made.case("0x1", None), "type": "fuzzy"})),
        "transition of type 'fuzzy'",
    ),
    (with_table(type="magic"), "table t: table type 'magic'"),
    (with_table(type="indirect"), "an indirect table without an action profile"),
    (with_table(type="indirect", action_profile="p"), "table t: no action profile 'p'"),
    (
        with_table(key=[{"match_type": "fuzzy", "target": ["h", "f0"], "mask": None}]),
        "table t: match kind 'fuzzy'",
    ),
    (with_table(next_tables={"action1": "u"}), "t: no table or conditional u"),
    (
        made.text(pipelines=[made.pipeline("ingress", "x"), made.pipeline("egress")]),
        "ingress: no table or conditional x",
    ),
    (
        made.text(
            header_types=[{"name": "h_t", "id": 0, "fields": [["a", 7, False]]}],
            headers=[{"name": "h", "id": 0, "header_type": "h_t", "metadata": False}],
        ),
        "header h: 7 bits is not a whole number of bytes",
    ),
    (
        made.text(header_types=[{"name": "h_t", "id": 0, "fields": [["a", "*"], ["b", "*"]]}]),
        "header type h_t: more than one varbit field",
    ),
    (made.text(headers=[{"name": "h"}]), "malformed BMv2 JSON: KeyError"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_programs(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_loop_of_tables_is_refused() -> None:
    assert "a loop through" in refused(with_table(next_tables={"action1": "t"}))


def test_const_entries_that_clash_are_refused() -> None:
    entry = {
        "match_key": [{"match_type": "exact", "key": "0x01"}],
        "action_entry": {"action_id": 1, "action_data": []},
        "priority": 1,
    }
    key = [{"match_type": "exact", "target": ["h", "f0"], "mask": None}]
    assert "const entry: t: an entry" in refused(with_table(key=key, entries=[entry, entry]))


@pytest.mark.parametrize(("depth", "taken"), [(150, True), (20_000, False), (100_000, False)])
def test_deep_nesting_is_refused_not_a_failure(depth: int, taken: bool) -> None:
    negation = '{"type": "expression", "value": {"op": "~", "left": null, "right": '
    text = with_action(made.primitive("assign", F0, made.constant(12345)))
    marker = json.dumps(made.constant(12345))
    assert marker in text
    nested = text.replace(marker, negation * depth + json.dumps(F0) + "}}" * depth)
    if taken:
        assert Pipeline(load_program(nested)).ingress(bytes(8), 1, 0) is not None
    else:
        assert "nested too deep" in refused(nested)
