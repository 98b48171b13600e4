"""The names that the plan is written in are those of the compiled program, and the plan fits it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from controller import fabric_program as p4
from controller.codec import encode
from controller.entries import Member, TableEntry
from controller.p4info import MatchKind, Schema, SchemaError
from controller.plan import SwitchPlan
from controller.program import (
    check_program,
    default_device_config,
    default_p4info,
    load_pipeline,
)
from topologies.generate import generate
from topologies.model import Fabric

PIPELINE = load_pipeline(default_p4info(), default_device_config())
SCHEMA = Schema(PIPELINE.p4info)

#: The largest fabric whose switches the target can be: 511 ports on T0 and T1
LARGEST = Fabric("largest", planes=8, t0_per_plane=511, t1_per_plane=255, hosts_per_t0=256)


def test_plan_s_names_are_the_program_s() -> None:
    check_program(PIPELINE, default_p4info())


def test_every_table_of_the_program_is_planned() -> None:
    assert {table.name for table in SCHEMA.tables} == {table.name for table in p4.TABLES}
    assert [profile.name for profile in SCHEMA.profiles] == [p4.ECMP]


@pytest.mark.parametrize("name", ["p0-t0-0", "p7-t0-510", "p7-t1-254"])
def test_the_largest_fabric_s_tables_fit(name: str) -> None:
    LARGEST.check_target()
    counts: Counter[str] = Counter()
    for entity in SwitchPlan(LARGEST, LARGEST.switch(name)).entities():
        encode(entity, SCHEMA)
        match entity:
            case TableEntry():
                counts[entity.table] += 1
            case Member():
                counts[entity.profile] += 1
    sizes = {t.preamble.name: t.size for t in PIPELINE.p4info.tables}
    sizes |= {p.preamble.name: p.size for p in PIPELINE.p4info.action_profiles}
    assert counts
    for table, count in counts.items():
        assert count <= sizes[table]


def test_key_kinds_are_those_of_the_plan() -> None:
    for table in p4.TABLES:
        (key,) = SCHEMA.tables.name(table.name).keys
        prefix = table.keys[0].kind is p4.Kind.PREFIX
        assert key.kind is (MatchKind.LPM if prefix else MatchKind.EXACT)


def test_cookie_tells_programs_apart(tmp_path: Path) -> None:
    config = tmp_path / "other.json"
    config.write_bytes(PIPELINE.device_config + b"\n")
    other = load_pipeline(default_p4info(), config)
    assert other.cookie != PIPELINE.cookie
    assert 0 < other.cookie < 1 << 64
    assert load_pipeline(default_p4info(), default_device_config()).cookie == PIPELINE.cookie


def test_files_that_are_no_program(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txtpb"
    bad.write_text("tables { nonsense")
    with pytest.raises(SchemaError, match=r"bad\.txtpb: is not P4Info"):
        load_pipeline(bad, default_device_config())
    with pytest.raises(SchemaError, match="none: cannot be read: No such file"):
        load_pipeline(tmp_path / "none", default_device_config())
    with pytest.raises(SchemaError, match="none: cannot be read: No such file"):
        load_pipeline(default_p4info(), tmp_path / "none")


def test_another_program_is_refused_by_the_first_name_it_lacks(tmp_path: Path) -> None:
    impair = default_p4info().with_name("impair.p4info.txtpb")
    pipeline = load_pipeline(impair, impair.with_name("impair.json"))
    with pytest.raises(SchemaError, match=r"has no table FabricIngress\.srv6\.my_sid"):
        check_program(pipeline, impair)


def test_a_renamed_parameter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "renamed.txtpb"
    path.write_text(default_p4info().read_text().replace('"header_bytes"', '"size_bytes"'))
    with pytest.raises(SchemaError, match="keep has size_bytes instead of header_bytes"):
        check_program(load_pipeline(path, default_device_config()), path)


def test_generated_fabrics_are_encodable() -> None:
    fabric = generate(1, 3, 2, 4)
    for switch in fabric.switches():
        for entity in SwitchPlan(fabric, switch).entities():
            assert encode(entity, SCHEMA).WhichOneof("entity")
