"""P4Info: what contradicts itself or the program is refused; types of registers and digests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2

from p4src import PROGRAM_NAMES, compiled
from p4src.build import find_compiler
from softswitch.p4runtime.binding import Binding
from softswitch.p4runtime.errors import Code, P4RuntimeError
from softswitch.p4runtime.p4data import compile_type
from softswitch.p4runtime.schema import ActionScope, Schema
from softswitch.pipeline import Pipeline
from softswitch.program import load_program
from softswitch.tables import ActionCall, Entry
from tests.softswitch.p4runtime_support import BASIC_JSON, BASIC_P4INFO, load_p4info

Change = Callable[[Any], None]


def named(objects: Any, name: str) -> Any:
    (found,) = (o for o in objects if o.preamble.name == name)
    return found


def test_look_ups() -> None:
    schema = Schema(load_p4info())
    table = schema.tables.by_name["Main.acl"]
    assert schema.tables.get(table.id) is table
    assert [(f.name, f.kind.value, f.bitwidth) for f in table.key.fields] == [
        ("hdr.ethernet.ethertype", "ternary", 16),
        ("hdr.ethernet.src", "optional", 48),
        ("hdr.payload.index", "range", 16),
        ("ingress_port", "exact", 9),
    ]
    assert table.needs_priority
    assert not schema.tables.by_name["Main.route"].needs_priority
    scopes = {a.name: s for a, s in schema.tables.by_name["Main.route"].actions.values()}
    assert scopes == {
        "Main.count_route": ActionScope.TABLE_AND_DEFAULT,
        "Main.drop": ActionScope.TABLE_AND_DEFAULT,
        "Main.forward": ActionScope.TABLE_ONLY,
    }
    assert schema.tables.by_name["Main.learned"].idle_timeout
    assert schema.tables.by_name["Main.fixed"].is_const
    assert [f.bitwidth for f in schema.packet_in] == [9, 1, 6]
    with pytest.raises(P4RuntimeError, match="no table with id 1 "):
        schema.tables.get(1)
    with pytest.raises(P4RuntimeError, match="id is not set"):
        schema.tables.get(0)


def test_empty_p4info() -> None:
    assert len(Schema(p4info_pb2.P4Info()).tables) == 0


def no_id(p4info: Any) -> None:
    p4info.tables[0].preamble.id = 0


def same_id(p4info: Any) -> None:
    p4info.counters[0].preamble.id = p4info.tables[0].preamble.id


def same_name(p4info: Any) -> None:
    p4info.tables[0].preamble.name = p4info.tables[1].preamble.name


def no_bitwidth(p4info: Any) -> None:
    named(p4info.actions, "Main.forward").params[0].bitwidth = 0


def huge_bitwidth(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].bitwidth = 2**31 - 1


def negative_bitwidth(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].bitwidth = -1


def strange_match(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].other_match_type = "fuzzy"


def no_match_type(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].ClearField("match")


def unknown_action(p4info: Any) -> None:
    p4info.tables[0].action_refs.add(id=5)


def same_field(p4info: Any) -> None:
    fields = named(p4info.tables, "Main.acl").match_fields
    fields[1].id = fields[0].id


def unknown_resource(p4info: Any) -> None:
    p4info.tables[0].direct_resource_ids.append(5)


def unknown_implementation(p4info: Any) -> None:
    p4info.tables[0].implementation_id = 5


def unknown_table_of_profile(p4info: Any) -> None:
    p4info.action_profiles[0].table_ids.append(5)


def counter_without_table(p4info: Any) -> None:
    p4info.direct_counters[0].direct_table_id = 5


def foreign_const_default(p4info: Any) -> None:
    p4info.tables[0].const_default_action_id = 5


def unknown_type(p4info: Any) -> None:
    p4info.digests[0].type_spec.struct.name = "nothing"


def an_extern(p4info: Any) -> None:
    p4info.externs.add(extern_type_id=0x81, extern_type_name="Strange")


def struct_register(p4info: Any) -> None:
    p4info.registers[0].type_spec.struct.name = "learn_t"


@pytest.mark.parametrize(
    ("code", "match", "change"),
    [
        (Code.INVALID_ARGUMENT, "has no id", no_id),
        (Code.INVALID_ARGUMENT, "same id", same_id),
        (Code.INVALID_ARGUMENT, "is there twice", same_name),
        (Code.UNIMPLEMENTED, "'port' of action 'Main.forward' has no bitwidth", no_bitwidth),
        (Code.INVALID_ARGUMENT, "bitwidth 2147483647", huge_bitwidth),
        (Code.INVALID_ARGUMENT, "bitwidth -1", negative_bitwidth),
        (Code.UNIMPLEMENTED, "match type 'fuzzy'", strange_match),
        (Code.UNIMPLEMENTED, "match type '0'", no_match_type),
        (Code.INVALID_ARGUMENT, "action 0x00000005", unknown_action),
        (Code.INVALID_ARGUMENT, "id 1 is 0 or there twice", same_field),
        (Code.INVALID_ARGUMENT, "direct resource 0x00000005", unknown_resource),
        (Code.INVALID_ARGUMENT, "no action profile", unknown_implementation),
        (Code.INVALID_ARGUMENT, "table 0x00000005", unknown_table_of_profile),
        (Code.INVALID_ARGUMENT, "a table that does not exist", counter_without_table),
        (Code.INVALID_ARGUMENT, "none of its actions", foreign_const_default),
        (Code.INVALID_ARGUMENT, "no type named 'nothing'", unknown_type),
        (Code.UNIMPLEMENTED, "extern 'Strange'", an_extern),
        (Code.UNIMPLEMENTED, "only cells of one value", struct_register),
    ],
)
def test_p4info_that_contradicts_itself(code: Code, match: str, change: Change) -> None:
    p4info = load_p4info()
    change(p4info)
    with pytest.raises(P4RuntimeError, match=match) as raised:
        Schema(p4info)
    assert raised.value.code is code


# -- P4Info and program --------------------------------------------------------------------


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline(load_program(BASIC_JSON.read_text()))


def rename(kind: str) -> Change:
    def change(p4info: Any) -> None:
        getattr(p4info, kind)[0].preamble.name = "Main.gone"

    return change


def resize(kind: str) -> Change:
    def change(p4info: Any) -> None:
        getattr(p4info, kind)[0].size = 7

    return change


def wider_field(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].bitwidth = 33


def fewer_fields(p4info: Any) -> None:
    del named(p4info.tables, "Main.acl").match_fields[3]


def other_kind(p4info: Any) -> None:
    named(p4info.tables, "Main.route").match_fields[0].match_type = 2


def wider_param(p4info: Any) -> None:
    named(p4info.actions, "Main.forward").params[0].bitwidth = 10


def more_actions(p4info: Any) -> None:
    police = named(p4info.actions, "Main.police").preamble.id
    named(p4info.tables, "Main.route").action_refs.add(id=police)


def fewer_actions(p4info: Any) -> None:
    learn = named(p4info.actions, "Main.learn").preamble.id
    refs = named(p4info.tables, "Main.learned").action_refs
    del refs[[ref.id for ref in refs].index(learn)]


def no_profile(p4info: Any) -> None:
    named(p4info.tables, "Main.ecmp").implementation_id = 0


def no_selector(p4info: Any) -> None:
    named(p4info.action_profiles, "Main.ecmp_selector").with_selector = False


def no_counter(p4info: Any) -> None:
    del named(p4info.tables, "Main.route").direct_resource_ids[:]


def no_meter(p4info: Any) -> None:
    del named(p4info.tables, "Main.acl").direct_resource_ids[:]


def wider_register(p4info: Any) -> None:
    p4info.registers[0].type_spec.bitstring.bit.bitwidth = 33


def other_digest(p4info: Any) -> None:
    del p4info.type_info.structs["learn_t"].members[1]


def wider_value_set(p4info: Any) -> None:
    p4info.value_sets[0].match[0].bitwidth = 17


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("P4Info has no table 'Main.exact_mac'", rename("tables")),
        ("P4Info has no action profile 'Main.ecmp_selector'", rename("action_profiles")),
        ("P4Info has no counter 'Main.port_counter'", rename("counters")),
        ("P4Info has no meter 'Main.port_meter'", rename("meters")),
        ("P4Info has no register 'Main.cells'", rename("registers")),
        ("P4Info has no digest 'learn_t'", rename("digests")),
        ("P4Info has no value set 'MainParser.known_types'", rename("value_sets")),
        ("counter 'Main.port_counter' has size 7 in P4Info, 16 in", resize("counters")),
        ("meter 'Main.port_meter' has size 7 in P4Info, 8 in", resize("meters")),
        ("register 'Main.cells' has size 7 in P4Info, 8 in", resize("registers")),
        (r"table 'Main.route' has key widths \[33\] in P4Info, \[32\]", wider_field),
        ("table 'Main.acl' has key widths", fewer_fields),
        ("exact in P4Info, lpm in the program", other_kind),
        ("'Main.forward' has parameter widths", wider_param),
        ("table 'Main.route' has no action 'Main.police'", more_actions),
        ("table 'Main.learned' has no action 'Main.learn' in P4Info", fewer_actions),
        ("table 'Main.ecmp' is implemented by 'Main.ecmp_selector'", no_profile),
        ("'Main.ecmp_selector' has a selector in only one", no_selector),
        ("table 'Main.route' has a direct counter in only one", no_counter),
        ("table 'Main.acl' has a direct meter in only one", no_meter),
        ("register 'Main.cells' has cells of another width", wider_register),
        ("digest 'learn_t' has other fields", other_digest),
        ("value set 'MainParser.known_types' matches on other fields", wider_value_set),
    ],
)
def test_pairs_that_do_not_belong_together(pipeline: Pipeline, match: str, change: Change) -> None:
    p4info = load_p4info()
    change(p4info)
    with pytest.raises(P4RuntimeError, match=match):
        Binding(Schema(p4info), pipeline)


def test_p4info_of_another_program(pipeline: Pipeline) -> None:
    other = text_format.Parse(
        'tables { preamble { id: 1 name: "Other.table" } }', p4info_pb2.P4Info()
    )
    with pytest.raises(P4RuntimeError, match="P4Info has no table"):
        Binding(Schema(other), pipeline)
    for collection in (
        pipeline.tables,
        pipeline.action_profiles,
        pipeline.counters,
        pipeline.meters,
        pipeline.registers,
        pipeline.digests,
        pipeline.value_sets,
    ):
        assert collection
    empty = Pipeline(load_program(_without_objects()))
    with pytest.raises(P4RuntimeError, match=r"Other\.table', nor anything else"):
        Binding(Schema(other), empty)


def _without_objects() -> str:
    """The basic program, reduced to its parser and deparser."""
    program = json.loads(BASIC_JSON.read_text())
    for kind in ("counter_arrays", "meter_arrays", "register_arrays", "learn_lists", "actions"):
        program[kind] = []
    program["parse_vsets"] = []
    for state in program["parsers"][0]["parse_states"]:
        state["transitions"] = [t for t in state["transitions"] if t["type"] != "parse_vset"]
    for control in program["pipelines"]:
        control.update(tables=[], action_profiles=[], conditionals=[], init_table=None)
    return json.dumps(program)


def test_what_the_compiler_removed_can_be_written(pipeline: Pipeline) -> None:
    p4info = load_p4info()
    for kind in ("tables", "action_profiles", "counters", "meters", "registers", "value_sets"):
        copy = getattr(p4info, kind).add()
        copy.CopyFrom(getattr(p4info, kind)[0])
        copy.preamble.id = copy.preamble.id & 0xFF000000 | 1
        copy.preamble.name = f"Main.unreachable_{kind}"
    (removed,) = (p for p in p4info.action_profiles if "unreachable" in p.preamble.name)
    removed.ClearField("table_ids")
    binding = Binding(Schema(p4info), pipeline)
    for found in (
        binding.tables[0x02000001].table,
        binding.profiles[0x11000001].profile,
        binding.counters[0x12000001],
        binding.meters[0x14000001],
        binding.registers[0x16000001],
        binding.value_sets[0x03000001][0],
    ):
        assert found.name.startswith("Main.unreachable_")
    table = binding.tables[0x02000001].table
    table.insert(Entry((5,), ActionCall("Main.forward", (3,))))
    assert len(table) == 1
    assert table.default.target == ActionCall("NoAction")


def test_digest_of_an_unnamed_type() -> None:
    # p4c calls `digest(1, {a, b})` digest_0 in P4Info and tuple_0 in the JSON.
    p4info = load_p4info()
    p4info.digests[0].preamble.name = "digest_0"
    program = BASIC_JSON.read_text().replace('"learn_t"', '"tuple_0"')
    binding = Binding(Schema(p4info), Pipeline(load_program(program)))
    assert binding.digest_ids == {"tuple_0": p4info.digests[0].preamble.id}


@pytest.mark.parametrize("program", PROGRAM_NAMES)
def test_our_own_programs(program: str) -> None:
    files = compiled(program)
    pipeline = Pipeline(load_program(files.json_text))
    binding = Binding(Schema(load_p4info(files.p4info_path)), pipeline)
    assert {bound.table.name for bound in binding.tables.values()} <= set(pipeline.tables)


def test_the_pair_belongs_together(pipeline: Pipeline) -> None:
    binding = Binding(Schema(load_p4info()), pipeline)
    assert {t.table.name for t in binding.tables.values()} <= set(pipeline.tables)
    assert json.loads(BASIC_JSON.read_text())["program"].startswith("tests/"), "no machine's paths"


@pytest.mark.p4c
def test_compiled_program_is_fresh(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    root = Path(__file__).parents[2]
    source = BASIC_JSON.with_suffix(".p4").relative_to(root)
    made, p4info = tmp_path / "made.json", tmp_path / "made.p4info.txtpb"
    command: list[str | Path] = [compiler, "--p4v", "16", "--p4runtime-files", p4info]
    command += ["-o", made, source]
    subprocess.run(command, cwd=root, check=True)
    assert made.read_text() == BASIC_JSON.read_text()
    assert p4info.read_text() == BASIC_P4INFO.read_text()


# -- P4Data --------------------------------------------------------------------------------

TYPES = text_format.Parse(
    """
    structs { key: "point" value {
        members { name: "x" type_spec { bitstring { int { bitwidth: 8 } } } }
        members { name: "on" type_spec { bool { } } } } }
    headers { key: "tag" value {
        members { name: "a" type_spec { bit { bitwidth: 4 } } }
        members { name: "b" type_spec { bit { bitwidth: 12 } } } } }
    serializable_enums { key: "color" value { underlying_type { bitwidth: 3 } } }
    new_types { key: "port" value { original_type { bitstring { bit { bitwidth: 9 } } } } }
    new_types { key: "sdn" value { translated_type { sdn_bitwidth: 32 } } }
    new_types { key: "text" value { translated_type { sdn_string { } } } }
    new_types { key: "loop" value { original_type { new_type { name: "loop" } } } }
    """,
    p4types_pb2.P4TypeInfo(),
)


def spec(text: str) -> Any:
    return text_format.Parse(text, p4types_pb2.P4DataTypeSpec())


@pytest.mark.parametrize(
    ("type_text", "leaves", "widths", "data_text"),
    [
        ("bitstring { bit { bitwidth: 16 } }", [5], (16,), r'bitstring: "\x05"'),
        ("bitstring { int { bitwidth: 8 } }", [0x9D], (8,), r'bitstring: "\x9d"'),
        ("bool { }", [1], (1,), "bool: true"),
        ('serializable_enum { name: "color" }', [2], (3,), r'enum_value: "\x02"'),
        ('new_type { name: "port" }', [300], (9,), r'bitstring: "\x01\x2c"'),
        ('new_type { name: "sdn" }', [0], (32,), r'bitstring: "\x00"'),
        (
            'struct { name: "point" }',
            [0xFF, 0],
            (8, 1),
            r'struct { members { bitstring: "\xff" } members { bool: false } }',
        ),
        (
            'header { name: "tag" }',
            [1, 2],
            (4, 12),
            r'header { is_valid: true bitstrings: "\x01" bitstrings: "\x02" }',
        ),
        (
            'tuple { members { bool { } } members { struct { name: "point" } } }',
            [1, 2, 0],
            (1, 8, 1),
            r'tuple { members { bool: true } members { struct { members { bitstring: "\x02" } '
            "members { bool: false } } } }",
        ),
        ("tuple { }", [], (), "tuple { }"),
    ],
)
def test_p4data(type_text: str, leaves: list[int], widths: tuple[int, ...], data_text: str) -> None:
    data_type = compile_type(spec(type_text), TYPES, "x")
    assert data_type.leaf_bitwidths == widths
    message = data_type.encode(iter(leaves))
    assert message == text_format.Parse(data_text, p4data_pb2.P4Data())
    assert data_type.decode(message, "x") == leaves


@pytest.mark.parametrize(
    ("type_text", "data_text"),
    [
        ("bool { }", r'bitstring: "\x01"'),
        ("bool { }", ""),
        ('struct { name: "point" }', "struct { members { bool: true } }"),
        ('struct { name: "point" }', r'tuple { members { bitstring: "\x01" } }'),
        ('header { name: "tag" }', "header { }"),
        ('header { name: "tag" }', r'header { is_valid: true bitstrings: "\x01" }'),
        ('serializable_enum { name: "color" }', r'bitstring: "\x01"'),
    ],
)
def test_p4data_of_another_type(type_text: str, data_text: str) -> None:
    data_type = compile_type(spec(type_text), TYPES, "x")
    with pytest.raises(P4RuntimeError) as raised:
        data_type.decode(text_format.Parse(data_text, p4data_pb2.P4Data()), "x")
    assert raised.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("code", "type_text"),
    [
        (Code.INVALID_ARGUMENT, 'struct { name: "nothing" }'),
        (Code.INVALID_ARGUMENT, 'new_type { name: "loop" }'),
        (Code.UNIMPLEMENTED, 'new_type { name: "text" }'),
        (Code.UNIMPLEMENTED, 'header_union { name: "u" }'),
        (Code.UNIMPLEMENTED, "bitstring { varbit { max_bitwidth: 8 } }"),
        (Code.UNIMPLEMENTED, ""),
    ],
)
def test_types_that_cannot_be(code: Code, type_text: str) -> None:
    with pytest.raises(P4RuntimeError) as raised:
        compile_type(spec(type_text), TYPES, "x")
    assert raised.value.code is code
