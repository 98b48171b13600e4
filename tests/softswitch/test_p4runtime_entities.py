"""Entities other than table entries over gRPC: every check, and what is read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import Code
from tests.softswitch.p4runtime_support import (
    BASIC,
    DELETE,
    INSERT,
    MODIFY,
    Client,
    Served,
    primary,
    served,
    table_entry,
)

SELECTOR = BASIC["Main.ecmp_selector"]
PROFILE = BASIC["Main.shared_actions"]
KEY = r'match { field_id: 1 exact { value: "\x08" } } '


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(switch: Served) -> Iterator[Client]:
    with primary(switch.address) as controller:
        yield controller


def forward(port: int = 1) -> Any:
    action = p4runtime_pb2.Action(action_id=BASIC["Main.forward"])
    action.params.add(param_id=1, value=bytes([port]))
    return action


def member(member_id: int, port: int = 1, profile: int = SELECTOR) -> Any:
    return p4runtime_pb2.ActionProfileMember(
        action_profile_id=profile, member_id=member_id, action=forward(port)
    )


def group(group_id: int, text: str = "", profile: int = SELECTOR) -> Any:
    message = text_format.Parse(text, p4runtime_pb2.ActionProfileGroup())
    message.action_profile_id = profile
    message.group_id = group_id
    return message


# -- action profile members ----------------------------------------------------------------


def test_members(client: Client) -> None:
    mine = [member(1, 1), member(2, 2), member(3, 3, PROFILE)]
    client.write(*((INSERT, m) for m in mine))
    assert client.read(p4runtime_pb2.ActionProfileMember()) == mine
    assert client.read(p4runtime_pb2.ActionProfileMember(action_profile_id=SELECTOR)) == mine[:2]
    one = p4runtime_pb2.ActionProfileMember(action_profile_id=SELECTOR, member_id=2)
    assert client.read(one) == [mine[1]]
    client.write((MODIFY, member(2, 4)))
    assert client.read(one) == [member(2, 4)]
    client.write((DELETE, one))
    assert client.read(one) == []


def test_member_rules(client: Client) -> None:
    client.write((INSERT, member(1)))
    assert client.write_code(INSERT, member(1)) is Code.ALREADY_EXISTS
    assert client.write_code(INSERT, member(0)) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, member(9)) is Code.NOT_FOUND
    assert client.write_code(DELETE, member(9)) is Code.NOT_FOUND
    assert client.write_code(INSERT, member(2, profile=1)) is Code.INVALID_ARGUMENT
    no_action = member(2)
    no_action.ClearField("action")
    assert client.write_code(INSERT, no_action) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, no_action) is Code.INVALID_ARGUMENT
    foreign = member(2)
    foreign.action.action_id = BASIC["Main.police"]
    assert client.write_code(INSERT, foreign) is Code.INVALID_ARGUMENT
    default_only = member(2)
    default_only.action.CopyFrom(p4runtime_pb2.Action(action_id=BASIC["NoAction"]))
    assert client.write_code(INSERT, default_only) is Code.PERMISSION_DENIED
    assert client.read_code(p4runtime_pb2.ActionProfileMember(action_profile_id=1)) is (
        Code.INVALID_ARGUMENT
    )


def test_full_profile(client: Client) -> None:
    client.write(*((INSERT, member(i, profile=PROFILE)) for i in range(1, 5)))
    assert client.write_code(INSERT, member(5, profile=PROFILE)) is Code.RESOURCE_EXHAUSTED


def test_used_member_cannot_be_deleted(client: Client) -> None:
    client.write((INSERT, member(1, profile=PROFILE)))
    entry = table_entry("indirect", KEY + "action { action_profile_member_id: 1 }")
    client.write((INSERT, entry))
    assert client.read(table_entry("indirect")) == [entry]
    assert client.write_code(DELETE, member(1, profile=PROFILE)) is Code.FAILED_PRECONDITION
    client.write((DELETE, entry))
    client.write((DELETE, member(1, profile=PROFILE)))


# -- groups --------------------------------------------------------------------------------


def test_groups(client: Client) -> None:
    client.write((INSERT, member(1)), (INSERT, member(2)))
    two = group(5, "members { member_id: 1 weight: 2 } members { member_id: 2 weight: 1 }")
    watched = group(6, r'max_size: 8 members { member_id: 1 weight: 1 watch_port: "\x02" }')
    numeric = group(7, "members { member_id: 1 weight: 1 watch: 3 }")
    empty = group(8)
    client.write(*((INSERT, g) for g in (two, watched, numeric, empty)))
    assert client.read(p4runtime_pb2.ActionProfileGroup()) == [two, watched, numeric, empty]
    assert client.read(group(6)) == [watched]
    changed = group(6, "max_size: 8 members { member_id: 2 weight: 3 }")
    client.write((MODIFY, changed))
    assert client.read(group(6)) == [changed]
    client.write((DELETE, group(6)))
    assert client.read(group(0)) == [two, numeric, empty]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.NOT_FOUND, "members { member_id: 9 weight: 1 }"),
        (Code.INVALID_ARGUMENT, "members { member_id: 1 weight: 0 }"),
        (Code.INVALID_ARGUMENT, "members { member_id: 1 weight: -1 }"),
        (
            Code.INVALID_ARGUMENT,
            "members { member_id: 1 weight: 1 } members { member_id: 1 weight: 1 }",
        ),
        (Code.INVALID_ARGUMENT, r'members { member_id: 1 weight: 1 watch_port: "\x63" }'),
        (Code.INVALID_ARGUMENT, "members { member_id: 1 weight: 1 watch: 99 }"),
        (Code.INVALID_ARGUMENT, "members { member_id: 1 weight: 1 watch: -5 }"),
        (Code.INVALID_ARGUMENT, "max_size: 9"),  # above max_group_size
        (Code.INVALID_ARGUMENT, "max_size: -1"),
        (Code.RESOURCE_EXHAUSTED, "members { member_id: 1 weight: 9 }"),
        (Code.RESOURCE_EXHAUSTED, "max_size: 2 members { member_id: 1 weight: 3 }"),
    ],
)
def test_refused_groups(client: Client, code: Code, text: str) -> None:
    client.write((INSERT, member(1)))
    assert client.write_code(INSERT, group(5, text)) is code
    assert client.read(group(0)) == []


def test_group_rules(client: Client) -> None:
    client.write((INSERT, member(1)), (INSERT, group(5, "max_size: 4")))
    assert client.write_code(INSERT, group(5)) is Code.ALREADY_EXISTS
    assert client.write_code(INSERT, group(0)) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, group(6)) is Code.NOT_FOUND
    assert client.write_code(DELETE, group(6)) is Code.NOT_FOUND
    assert client.write_code(INSERT, group(6, profile=PROFILE)) is Code.INVALID_ARGUMENT
    # max_size cannot change.
    assert client.write_code(MODIFY, group(5, "max_size: 5")) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, group(5)) is Code.INVALID_ARGUMENT
    too_large = group(5, "max_size: 4 members { member_id: 1 weight: 5 }")
    assert client.write_code(MODIFY, too_large) is Code.RESOURCE_EXHAUSTED


def test_all_groups_together_fit_the_selector(client: Client) -> None:
    client.write((INSERT, member(1)))
    full = "members { member_id: 1 weight: 8 }"
    client.write(*((INSERT, group(i, full)) for i in range(1, 5)))
    assert client.write_code(INSERT, group(5, full)) is Code.RESOURCE_EXHAUSTED
    client.write((INSERT, group(5)))
    one = group(5, "members { member_id: 1 weight: 1 }")
    assert client.write_code(MODIFY, one) is Code.RESOURCE_EXHAUSTED
    client.write((DELETE, group(1)), (MODIFY, one))


def test_used_groups_and_members_cannot_be_deleted(client: Client) -> None:
    client.write((INSERT, member(1)), (INSERT, group(5, "members { member_id: 1 weight: 1 }")))
    entry = table_entry("ecmp", KEY + "action { action_profile_group_id: 5 }")
    client.write((INSERT, entry))
    assert client.read(table_entry("ecmp")) == [entry]
    assert client.write_code(DELETE, group(5)) is Code.FAILED_PRECONDITION
    assert client.write_code(DELETE, member(1)) is Code.FAILED_PRECONDITION
    client.write((DELETE, entry), (DELETE, group(5)), (DELETE, member(1)))


@pytest.mark.parametrize(
    ("code", "table", "text"),
    [
        (Code.NOT_FOUND, "ecmp", "action { action_profile_member_id: 9 }"),
        (Code.NOT_FOUND, "ecmp", "action { action_profile_group_id: 9 }"),
        (Code.NOT_FOUND, "indirect", "action { action_profile_member_id: 9 }"),
        (Code.INVALID_ARGUMENT, "indirect", "action { action_profile_group_id: 9 }"),
        (Code.INVALID_ARGUMENT, "indirect", "action { action_profile_action_set { } }"),
        (Code.INVALID_ARGUMENT, "ecmp", "action { action { action_id: <drop> } }"),
    ],
)
def test_references(client: Client, code: Code, table: str, text: str) -> None:
    assert client.write_code(INSERT, table_entry(table, KEY + text)) is code


# -- one shot ------------------------------------------------------------------------------


def one_shot(text: str) -> Any:
    return table_entry("ecmp", KEY + "action { action_profile_action_set { " + text + " } }")


DROP_ONCE = "action_profile_actions { action { action_id: <drop> } weight: 1 } "
DROP_WATCHED = (
    r"action_profile_actions { action { action_id: <drop> } "
    r'weight: 2 watch_port: "\x01" } '
)
DROP_NUMERIC = "action_profile_actions { action { action_id: <drop> } weight: 2 watch: 1 } "


@pytest.mark.parametrize(
    "text", [DROP_ONCE, DROP_ONCE * 3, DROP_ONCE + DROP_WATCHED, DROP_NUMERIC, ""]
)
def test_one_shot_reads_as_it_was_written(client: Client, text: str) -> None:
    entry = one_shot(text)
    client.write((INSERT, entry))
    assert client.read(table_entry("ecmp")) == [entry]
    # Not as the members and groups it stands for.
    assert client.read(p4runtime_pb2.ActionProfileMember()) == []
    assert client.read(p4runtime_pb2.ActionProfileGroup()) == []
    client.write((DELETE, entry))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.INVALID_ARGUMENT, "action_profile_actions { action { action_id: <drop> } }"),
        (Code.INVALID_ARGUMENT, "action_profile_actions { weight: 1 }"),
        (
            Code.INVALID_ARGUMENT,
            "action_profile_actions { action { action_id: <police> } weight: 1 }",
        ),
        (
            Code.PERMISSION_DENIED,
            "action_profile_actions { action { action_id: <NoAction> } weight: 1 }",
        ),
        (Code.INVALID_ARGUMENT, DROP_ONCE * 9),
        (
            Code.INVALID_ARGUMENT,
            "action_profile_actions { action { action_id: <drop> } weight: 9 }",
        ),
        (
            Code.INVALID_ARGUMENT,
            r'action_profile_actions { action { action_id: <drop> } weight: 1 watch_port: "c" }',
        ),
    ],
)
def test_refused_one_shots(client: Client, code: Code, text: str) -> None:
    assert client.write_code(INSERT, one_shot(text)) is code


def test_one_shots_and_members_do_not_mix(client: Client) -> None:
    client.write((INSERT, member(1)))
    assert client.write_code(INSERT, one_shot(DROP_ONCE)) is Code.INVALID_ARGUMENT
    client.write((DELETE, member(1)))
    client.write((INSERT, one_shot(DROP_ONCE)))
    assert client.write_code(INSERT, member(1)) is Code.INVALID_ARGUMENT
    assert client.write_code(INSERT, group(1)) is Code.INVALID_ARGUMENT
    client.write((MODIFY, one_shot(DROP_WATCHED)))
    client.write((DELETE, one_shot("")))
    client.write((INSERT, member(1)))


# -- counters ------------------------------------------------------------------------------


def counter(text: str = "") -> Any:
    message = text_format.Parse(text, p4runtime_pb2.CounterEntry())
    message.counter_id = BASIC["Main.port_counter"]
    return message


def test_counters(switch: Served, client: Client) -> None:
    client.write((MODIFY, counter("index { index: 3 } data { packet_count: 7 byte_count: 70 }")))
    assert client.read(counter("index { index: 3 }")) == [
        counter("index { index: 3 } data { packet_count: 7 byte_count: 70 }")
    ]
    # Index 0 is set but empty, which is not the same as unset.
    assert client.read(counter("index { }")) == [counter("index { } data { }")]
    assert [c.index.index for c in client.read(counter())] == list(range(16))
    assert client.read(p4runtime_pb2.CounterEntry()) == client.read(counter())
    # Without data nothing changes; without index all cells do.
    client.write((MODIFY, counter("index { index: 3 }")))
    assert client.read(counter("index { index: 3 }"))[0].data.packet_count == 7
    client.write((MODIFY, counter("data { packet_count: 1 }")))
    assert {c.data.packet_count for c in client.read(counter())} == {1}
    pipeline = switch.switch.pipeline
    assert pipeline is not None
    assert pipeline.counters["Main.port_counter"].read(3) == (1, 0)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.INVALID_ARGUMENT, "index { index: -1 } data { }"),
        (Code.OUT_OF_RANGE, "index { index: 16 } data { }"),
        (Code.INVALID_ARGUMENT, "index { } data { packet_count: -1 }"),
    ],
)
def test_refused_counters(client: Client, code: Code, text: str) -> None:
    assert client.write_code(MODIFY, counter(text)) is code


def test_counter_rules(client: Client) -> None:
    assert client.write_code(INSERT, counter("index { }")) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, counter("index { }")) is Code.INVALID_ARGUMENT
    assert client.read_code(counter("index { index: -1 }")) is Code.INVALID_ARGUMENT
    assert client.read_code(counter("index { index: 16 }")) is Code.OUT_OF_RANGE
    unknown = p4runtime_pb2.CounterEntry(counter_id=5)
    assert client.write_code(MODIFY, unknown) is Code.INVALID_ARGUMENT
    assert client.read_code(unknown) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, p4runtime_pb2.CounterEntry()) is Code.INVALID_ARGUMENT


def test_counters_beyond_63_bits(switch: Served, client: Client) -> None:
    pipeline = switch.switch.pipeline
    assert pipeline is not None
    pipeline.counters["Main.port_counter"].write(0, 2**64, 2**70)
    (found,) = client.read(counter("index { }"))
    assert found.data.packet_count == found.data.byte_count == 2**63 - 1


# -- meters --------------------------------------------------------------------------------


def meter(text: str = "") -> Any:
    message = text_format.Parse(text, p4runtime_pb2.MeterEntry())
    message.meter_id = BASIC["Main.port_meter"]
    return message


CONFIG = "config { cir: 1 cburst: 2 pir: 3 pburst: 4 } "


def test_meters(client: Client) -> None:
    # Not configured: the default, everything green, reads as unset.
    assert client.read(meter("index { index: 2 }")) == [meter("index { index: 2 }")]
    client.write((MODIFY, meter("index { index: 2 } " + CONFIG)))
    assert client.read(meter("index { index: 2 }")) == [meter("index { index: 2 } " + CONFIG)]
    assert [m.index.index for m in client.read(meter())] == list(range(8))
    assert client.read(p4runtime_pb2.MeterEntry()) == client.read(meter())
    client.write((MODIFY, meter(CONFIG)))
    assert all(m.config == meter(CONFIG).config for m in client.read(meter()))
    client.write((MODIFY, meter()))
    assert not any(m.HasField("config") for m in client.read(meter()))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.INVALID_ARGUMENT, "index { index: -1 } " + CONFIG),
        (Code.OUT_OF_RANGE, "index { index: 8 } " + CONFIG),
        (Code.INVALID_ARGUMENT, "index { } config { cir: -1 }"),
        (Code.INVALID_ARGUMENT, "index { } config { cir: 2 pir: 1 }"),
        (Code.INVALID_ARGUMENT, "index { } config { cir: 1 pir: 1 eburst: 1 }"),
        (Code.UNIMPLEMENTED, "index { } counter_data { }"),
    ],
)
def test_refused_meters(client: Client, code: Code, text: str) -> None:
    assert client.write_code(MODIFY, meter(text)) is code


def test_meter_rules(client: Client) -> None:
    assert client.write_code(INSERT, meter("index { }")) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, meter("index { }")) is Code.INVALID_ARGUMENT
    assert client.read_code(meter("index { index: 8 }")) is Code.OUT_OF_RANGE
    assert client.read_code(meter("counter_data { }")) is Code.UNIMPLEMENTED
    assert client.read_code(p4runtime_pb2.MeterEntry(meter_id=1)) is Code.INVALID_ARGUMENT


# -- registers -----------------------------------------------------------------------------


def register(text: str = "") -> Any:
    message = text_format.Parse(text, p4runtime_pb2.RegisterEntry())
    message.register_id = BASIC["Main.cells"]
    return message


def test_registers(switch: Served, client: Client) -> None:
    written = register(r'index { index: 1 } data { bitstring: "\x01\x02" }')
    client.write((MODIFY, written))
    assert client.read(register("index { index: 1 }")) == [written]
    assert client.read(register("index { }")) == [register(r'index { } data { bitstring: "\x00" }')]
    assert len(client.read(register())) == 8
    assert client.read(p4runtime_pb2.RegisterEntry()) == client.read(register())
    pipeline = switch.switch.pipeline
    assert pipeline is not None
    array = pipeline.registers["Main.cells"]
    values = array.values
    client.write((MODIFY, register(r'data { bitstring: "\x05" }')))
    # The data plane keeps the list: it is changed in place.
    assert array.values is values
    assert values == [5] * 8


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.INVALID_ARGUMENT, r'index { index: -1 } data { bitstring: "\x01" }'),
        (Code.OUT_OF_RANGE, r'index { index: 8 } data { bitstring: "\x01" }'),
        (Code.INVALID_ARGUMENT, "index { }"),
        (Code.INVALID_ARGUMENT, "index { } data { }"),
        (Code.INVALID_ARGUMENT, "index { } data { bool: true }"),
        (Code.OUT_OF_RANGE, r'index { } data { bitstring: "\x01\x00\x00\x00\x00" }'),
        (Code.OUT_OF_RANGE, r'index { } data { bitstring: "" }'),
    ],
)
def test_refused_registers(client: Client, code: Code, text: str) -> None:
    assert client.write_code(MODIFY, register(text)) is code


def test_register_rules(client: Client) -> None:
    data = r'index { } data { bitstring: "\x01" }'
    assert client.write_code(INSERT, register(data)) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, register(data)) is Code.INVALID_ARGUMENT
    assert client.read_code(register("index { index: 8 }")) is Code.OUT_OF_RANGE
    assert client.read_code(p4runtime_pb2.RegisterEntry(register_id=1)) is Code.INVALID_ARGUMENT


# -- multicast groups and clone sessions ---------------------------------------------------


def pre(text: str) -> Any:
    return text_format.Parse(text, p4runtime_pb2.PacketReplicationEngineEntry())


def multicast(text: str) -> Any:
    return pre("multicast_group_entry { " + text + " }")


def clone(text: str) -> Any:
    return pre("clone_session_entry { " + text + " }")


REPLICAS = r'replicas { port: "\x01" instance: 1 } replicas { port: "\x02" instance: 1 } '


@pytest.mark.parametrize("make", [multicast, clone])
def test_replication_entries(client: Client, make: Any) -> None:
    name = "multicast_group_id" if make is multicast else "session_id"
    extra = 'metadata: "m"' if make is multicast else "class_of_service: 2 packet_length_bytes: 100"
    first = make(f"{name}: 1 " + REPLICAS + extra)
    numeric = make(f"{name}: 2 replicas {{ egress_port: 3 }} replicas {{ egress_port: 4 }}")
    empty = make(f"{name}: 3")
    client.write(*((INSERT, e) for e in (first, numeric, empty)))
    assert client.read(make("")) == [first, numeric, empty]
    assert client.read(make(f"{name}: 2")) == [numeric]
    assert client.read(make(f"{name}: 9")) == []
    changed = make(f"{name}: 2 " + REPLICAS)
    client.write((MODIFY, changed))
    assert client.read(make(f"{name}: 2")) == [changed]
    client.write((DELETE, make(f"{name}: 2")))
    assert client.read(make("")) == [first, empty]
    assert client.write_code(INSERT, first) is Code.ALREADY_EXISTS
    assert client.write_code(MODIFY, make(f"{name}: 9")) is Code.NOT_FOUND
    assert client.write_code(DELETE, make(f"{name}: 9")) is Code.NOT_FOUND
    for update_type in (INSERT, MODIFY, DELETE):
        assert client.write_code(update_type, make("")) is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (Code.INVALID_ARGUMENT, multicast("multicast_group_id: 65536")),
        (Code.INVALID_ARGUMENT, multicast("multicast_group_id: 1 replicas { }")),
        (Code.INVALID_ARGUMENT, multicast("multicast_group_id: 1 " + REPLICAS * 2)),
        (
            Code.INVALID_ARGUMENT,
            multicast("multicast_group_id: 1 replicas { egress_port: 1 instance: 65536 }"),
        ),
        (Code.INVALID_ARGUMENT, multicast("multicast_group_id: 1 replicas { egress_port: 512 }")),
        (Code.OUT_OF_RANGE, multicast('multicast_group_id: 1 replicas { port: "" }')),
        (Code.INVALID_ARGUMENT, clone("session_id: 32768")),
        (Code.INVALID_ARGUMENT, clone("session_id: 1 packet_length_bytes: -1")),
        (Code.INVALID_ARGUMENT, pre("")),
    ],
)
def test_refused_replication_entries(client: Client, code: Code, message: Any) -> None:
    assert client.write_code(INSERT, message) is code
    assert client.read(multicast("")) == client.read(clone("")) == []


def test_replication_read_needs_a_kind(client: Client) -> None:
    assert client.read_code(pre("")) is Code.INVALID_ARGUMENT


# -- value sets ----------------------------------------------------------------------------


def value_set(*values: bytes) -> Any:
    message = p4runtime_pb2.ValueSetEntry(value_set_id=BASIC["MainParser.known_types"])
    for value in values:
        message.members.add().match.add(field_id=1).exact.value = value
    return message


def test_value_sets(client: Client) -> None:
    assert client.read(p4runtime_pb2.ValueSetEntry()) == [value_set()]
    client.write((MODIFY, value_set(b"\x08\x00", b"\x01")))
    assert client.read(value_set()) == [value_set(b"\x08\x00", b"\x01")]
    client.write((MODIFY, value_set()))
    assert client.read(value_set()) == [value_set()]


def test_value_set_rules(client: Client) -> None:
    assert client.write_code(INSERT, value_set(b"\x01")) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, value_set(b"\x01")) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, value_set(b"\x01", b"\x00\x01")) is Code.ALREADY_EXISTS
    five = value_set(*(bytes([i]) for i in range(5)))
    assert client.write_code(MODIFY, five) is Code.RESOURCE_EXHAUSTED
    assert client.write_code(MODIFY, value_set(b"\x01\x00\x00")) is Code.OUT_OF_RANGE
    missing = value_set()
    missing.members.add()
    assert client.write_code(MODIFY, missing) is Code.INVALID_ARGUMENT
    unknown = p4runtime_pb2.ValueSetEntry(value_set_id=1)
    assert client.write_code(MODIFY, unknown) is Code.INVALID_ARGUMENT
    assert client.read_code(unknown) is Code.INVALID_ARGUMENT
    assert client.read(value_set()) == [value_set()]


# -- digests and externs -------------------------------------------------------------------


def digest(text: str = "") -> Any:
    message = text_format.Parse(text, p4runtime_pb2.DigestEntry())
    message.digest_id = BASIC["learn_t"]
    return message


def test_digest_entries(client: Client) -> None:
    config = digest("config { max_timeout_ns: 1 max_list_size: 2 ack_timeout_ns: 3 }")
    assert client.read(p4runtime_pb2.DigestEntry()) == []
    assert client.write_code(MODIFY, config) is Code.NOT_FOUND
    assert client.write_code(DELETE, digest()) is Code.NOT_FOUND
    client.write((INSERT, config))
    assert client.write_code(INSERT, config) is Code.ALREADY_EXISTS
    assert client.read(digest()) == [config]
    client.write((MODIFY, digest("config { }")))
    assert client.read(digest()) == [digest("config { }")]
    client.write((DELETE, digest()))
    assert client.read(digest()) == []


def test_digest_rules(client: Client) -> None:
    assert client.write_code(INSERT, digest()) is Code.INVALID_ARGUMENT
    assert client.write_code(INSERT, digest("config { max_timeout_ns: -1 }")) is (
        Code.INVALID_ARGUMENT
    )
    assert client.write_code(INSERT, digest("config { max_list_size: -1 }")) is (
        Code.INVALID_ARGUMENT
    )
    unknown = p4runtime_pb2.DigestEntry(digest_id=1)
    assert client.write_code(DELETE, unknown) is Code.INVALID_ARGUMENT
    assert client.read_code(unknown) is Code.INVALID_ARGUMENT


def test_externs(client: Client) -> None:
    assert client.read(p4runtime_pb2.ExternEntry()) == []
    extern = p4runtime_pb2.ExternEntry(extern_type_id=0x81)
    assert client.read_code(extern) is Code.UNIMPLEMENTED
    for update_type in (INSERT, MODIFY, DELETE):
        assert client.write_code(update_type, extern) is Code.UNIMPLEMENTED
