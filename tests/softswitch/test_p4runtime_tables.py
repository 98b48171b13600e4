"""Table entries over gRPC: every check with its status code, and what is read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import Code
from tests.softswitch.p4runtime_support import (
    DELETE,
    INSERT,
    MODIFY,
    Client,
    RpcFailed,
    Served,
    primary,
    served,
    table_entry,
)

MAC = r'exact { value: "\x11\x22\x33\x44\x55" }'
FORWARD = r'action { action { action_id: <forward> params { param_id: 1 value: "\x03" } } }'
FORWARD_4 = r'action { action { action_id: <forward> params { param_id: 1 value: "\x04" } } }'
EXACT = "match { field_id: 1 " + MAC + " } "
LPM = r'match { field_id: 1 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 } } '
COUNT = r'action { action { action_id: <count_route> params { param_id: 1 value: "\x02" } } } '
PORT_1 = r'match { field_id: 4 exact { value: "\x01" } } '
ACL = (
    r'match { field_id: 1 ternary { value: "\x08\x00" mask: "\xff\x00" } } '
    r'match { field_id: 2 optional { value: "\x02" } } '
    r'match { field_id: 3 range { low: "\x01" high: "\x05" } } ' + PORT_1 + "priority: 10 "
)
POLICE = "action { action { action_id: <police> } } "
DROP = "action { action { action_id: <drop> } } "
NO_ACTION = "action { action { action_id: <NoAction> } } "
LEARNED = r'match { field_id: 1 exact { value: "\x07" } } ' + NO_ACTION


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(switch: Served) -> Iterator[Client]:
    with primary(switch.address) as controller:
        yield controller


def entries(client: Client, table: str, text: str = "") -> list[Any]:
    return client.read(table_entry(table, text))


# -- writing and reading back --------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("exact_mac", EXACT + FORWARD),
        ("exact_mac", EXACT + DROP + r'metadata: "cookie" controller_metadata: 77'),
        ("exact_mac", r'match { field_id: 1 exact { value: "\x00" } } ' + FORWARD),
        ("route", LPM + COUNT),
        ("route", COUNT),  # the "don't care" entry
        (
            "route",
            r'match { field_id: 1 lpm { value: "\x0a\x01\x02\x03" prefix_len: 32 } } ' + DROP,
        ),
        ("acl", ACL + POLICE),
        ("acl", PORT_1 + "priority: 1 " + POLICE),
        ("learned", LEARNED + "idle_timeout_ns: 5000000000"),
    ],
)
def test_reads_what_was_written(client: Client, table: str, text: str) -> None:
    entry = table_entry(table, text)
    client.write((INSERT, entry))
    assert entries(client, table) == [entry]
    # Reading all tables finds it too, beside the entries that come with the program.
    assert entry in client.read(p4runtime_pb2.TableEntry())
    client.write((DELETE, entry))
    assert entries(client, table) == []


def test_parameters_in_any_order_and_any_length(client: Client) -> None:
    client.write(
        (
            INSERT,
            table_entry(
                "exact_mac",
                r'match { field_id: 1 exact { value: "\x00\x00\x00\x00\x00\x00\x00\x05" } }'
                r"action { action { action_id: <rewrite>"
                r' params { param_id: 2 value: "\x00\x04" }'
                r' params { param_id: 1 value: "\x06" } } }',
            ),
        )
    )
    assert entries(client, "exact_mac") == [
        table_entry(
            "exact_mac",
            r'match { field_id: 1 exact { value: "\x05" } }'
            r"action { action { action_id: <rewrite>"
            r' params { param_id: 1 value: "\x06" } params { param_id: 2 value: "\x04" } } }',
        )
    ]


def test_modify(client: Client) -> None:
    client.write((INSERT, table_entry("exact_mac", EXACT + FORWARD + 'metadata: "a"')))
    modified = table_entry("exact_mac", EXACT + FORWARD_4 + 'metadata: "b"')
    client.write((MODIFY, modified))
    assert entries(client, "exact_mac") == [modified]
    # Without an action the entry keeps its own; everything else is assigned.
    client.write((MODIFY, table_entry("exact_mac", EXACT)))
    assert entries(client, "exact_mac") == [table_entry("exact_mac", EXACT + FORWARD_4)]


def test_delete_looks_at_the_key_only(client: Client) -> None:
    client.write((INSERT, table_entry("exact_mac", EXACT + FORWARD)))
    nonsense = EXACT + "action { action { action_id: 1 } } idle_timeout_ns: 5 metadata: 'x'"
    client.write((DELETE, table_entry("exact_mac", nonsense)))
    assert entries(client, "exact_mac") == []


# -- refused writes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "table", "text"),
    [
        # keys
        (Code.INVALID_ARGUMENT, "exact_mac", FORWARD),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + EXACT + FORWARD),
        (Code.INVALID_ARGUMENT, "exact_mac", "match { field_id: 9 " + MAC + " } " + FORWARD),
        (Code.INVALID_ARGUMENT, "exact_mac", "match { field_id: 1 } " + FORWARD),
        (
            Code.INVALID_ARGUMENT,
            "exact_mac",
            r'match { field_id: 1 ternary { value: "\x01" mask: "\x01" } } ' + FORWARD,
        ),
        (
            Code.OUT_OF_RANGE,
            "exact_mac",
            r'match { field_id: 1 exact { value: "" } } ' + FORWARD,
        ),
        (
            Code.OUT_OF_RANGE,
            "exact_mac",
            r'match { field_id: 1 exact { value: "\x01\x00\x00\x00\x00\x00\x00" } } ' + FORWARD,
        ),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + FORWARD + "priority: 1"),
        # LPM
        (
            Code.INVALID_ARGUMENT,
            "route",
            r'match { field_id: 1 lpm { value: "\x00" prefix_len: 0 } } ' + COUNT,
        ),
        (
            Code.INVALID_ARGUMENT,
            "route",
            r'match { field_id: 1 lpm { value: "\x00" prefix_len: 33 } } ' + COUNT,
        ),
        (
            Code.INVALID_ARGUMENT,
            "route",
            r'match { field_id: 1 lpm { value: "\x00" prefix_len: -1 } } ' + COUNT,
        ),
        (
            Code.INVALID_ARGUMENT,
            "route",
            r'match { field_id: 1 lpm { value: "\x0a\x00\x00\x01" prefix_len: 31 } } ' + COUNT,
        ),
        # ternary, range, optional, priority
        (Code.INVALID_ARGUMENT, "acl", PORT_1 + POLICE),
        (Code.INVALID_ARGUMENT, "acl", PORT_1 + POLICE + "priority: -1"),
        (Code.INVALID_ARGUMENT, "acl", "priority: 1 " + POLICE),
        (
            Code.INVALID_ARGUMENT,
            "acl",
            r'match { field_id: 1 ternary { value: "\x00" mask: "\x00" } } priority: 1 '
            + PORT_1
            + POLICE,
        ),
        (
            Code.INVALID_ARGUMENT,
            "acl",
            r'match { field_id: 1 ternary { value: "\x03" mask: "\x01" } } priority: 1 '
            + PORT_1
            + POLICE,
        ),
        (
            Code.INVALID_ARGUMENT,
            "acl",
            r'match { field_id: 3 range { low: "\x05" high: "\x01" } } priority: 1 '
            + PORT_1
            + POLICE,
        ),
        (
            Code.INVALID_ARGUMENT,
            "acl",
            r'match { field_id: 3 range { low: "\x00" high: "\xff\xff" } } priority: 1 '
            + PORT_1
            + POLICE,
        ),
        (
            Code.OUT_OF_RANGE,
            "acl",
            r'match { field_id: 2 optional { value: "" } } priority: 1 ' + PORT_1 + POLICE,
        ),
        # actions
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + "action { }"),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + "action { action { action_id: 1 } }"),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + POLICE),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + "action { action_profile_member_id: 1 }"),
        (Code.PERMISSION_DENIED, "exact_mac", EXACT + NO_ACTION),
        (
            Code.INVALID_ARGUMENT,
            "exact_mac",
            EXACT + "action { action { action_id: <forward> } }",
        ),
        (
            Code.INVALID_ARGUMENT,
            "exact_mac",
            EXACT
            + r"action { action { action_id: <forward> params { param_id: 1 value: "
            + r'"\x01" } params { param_id: 2 value: "\x01" } } }',
        ),
        (
            Code.INVALID_ARGUMENT,
            "exact_mac",
            EXACT
            + r"action { action { action_id: <forward> params { param_id: 1 value: "
            + r'"\x01" } params { param_id: 1 value: "\x01" } } }',
        ),
        (
            Code.OUT_OF_RANGE,
            "exact_mac",
            EXACT
            + r"action { action { action_id: <forward> "
            + r'params { param_id: 1 value: "\x02\x00" } } }',
        ),
        # fields that the table does not have, or that cannot be written
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + FORWARD + "is_const: true"),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + FORWARD + "idle_timeout_ns: 1"),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + FORWARD + "counter_data { }"),
        (Code.INVALID_ARGUMENT, "exact_mac", EXACT + FORWARD + "meter_config { }"),
        (Code.UNIMPLEMENTED, "acl", ACL + POLICE + "meter_counter_data { }"),
        (Code.INVALID_ARGUMENT, "learned", LEARNED + "time_since_last_hit { }"),
        (Code.INVALID_ARGUMENT, "learned", LEARNED + "idle_timeout_ns: -1"),
        (Code.INVALID_ARGUMENT, "route", LPM + COUNT + "counter_data { packet_count: -1 }"),
        (Code.INVALID_ARGUMENT, "acl", ACL + POLICE + "meter_config { cir: 5 pir: 4 }"),
        (Code.INVALID_ARGUMENT, "acl", ACL + POLICE + "meter_config { eburst: 4 }"),
        # tables that take no entries
        (Code.INVALID_ARGUMENT, "keyless", FORWARD),
        (Code.INVALID_ARGUMENT, "exact_mac", FORWARD + "is_default_action: true"),
        (
            Code.PERMISSION_DENIED,
            "fixed",
            r'match { field_id: 1 ternary { value: "\x04" mask: "\x0f" } } priority: 1 ' + DROP,
        ),
    ],
)
def test_refused_inserts(client: Client, code: Code, table: str, text: str) -> None:
    before = client.read(p4runtime_pb2.TableEntry())
    assert client.write_code(INSERT, table_entry(table, text)) is code
    assert client.read(p4runtime_pb2.TableEntry()) == before


def test_unknown_tables(client: Client) -> None:
    assert client.write_code(INSERT, p4runtime_pb2.TableEntry()) is Code.INVALID_ARGUMENT
    assert client.write_code(INSERT, p4runtime_pb2.TableEntry(table_id=1)) is Code.INVALID_ARGUMENT
    assert client.read_code(p4runtime_pb2.TableEntry(table_id=1)) is Code.INVALID_ARGUMENT


def test_existing_and_missing_entries(client: Client) -> None:
    entry = table_entry("acl", ACL + POLICE)
    assert client.write_code(MODIFY, entry) is Code.NOT_FOUND
    assert client.write_code(DELETE, entry) is Code.NOT_FOUND
    client.write((INSERT, entry))
    assert client.write_code(INSERT, entry) is Code.ALREADY_EXISTS
    # The same match with another priority is another entry.
    entry.priority += 1
    assert client.write_code(MODIFY, entry) is Code.NOT_FOUND
    client.write((INSERT, entry))
    assert len(entries(client, "acl")) == 2


def test_full_table(client: Client) -> None:
    for priority in range(1, 9):
        client.write((INSERT, table_entry("acl", PORT_1 + f"priority: {priority} " + POLICE)))
    entry = table_entry("acl", PORT_1 + "priority: 9 " + POLICE)
    assert client.write_code(INSERT, entry) is Code.RESOURCE_EXHAUSTED
    client.write((DELETE, table_entry("acl", PORT_1 + "priority: 1")))
    client.write((INSERT, entry))


# -- default entries -----------------------------------------------------------------------

DEFAULT = "is_default_action: true "


def test_default_entry(client: Client) -> None:
    assert entries(client, "exact_mac", DEFAULT) == [table_entry("exact_mac", DEFAULT + NO_ACTION)]
    changed = table_entry("exact_mac", DEFAULT + FORWARD + 'metadata: "m"')
    client.write((MODIFY, changed))
    assert entries(client, "exact_mac", DEFAULT) == [changed]
    # Not among the others, and back to the program's own without an action.
    assert entries(client, "exact_mac") == []
    client.write((MODIFY, table_entry("exact_mac", DEFAULT)))
    assert entries(client, "exact_mac", DEFAULT) == [table_entry("exact_mac", DEFAULT + NO_ACTION)]


def test_default_entries_of_all_tables(client: Client) -> None:
    found = client.read(p4runtime_pb2.TableEntry(is_default_action=True))
    assert len(found) == 9
    assert all(entry.is_default_action for entry in found)


@pytest.mark.parametrize(
    ("code", "update_type", "table", "text"),
    [
        (Code.INVALID_ARGUMENT, DELETE, "exact_mac", DEFAULT),
        (Code.INVALID_ARGUMENT, MODIFY, "exact_mac", DEFAULT + EXACT + FORWARD),
        (Code.INVALID_ARGUMENT, MODIFY, "exact_mac", DEFAULT + FORWARD + "priority: 1"),
        (Code.INVALID_ARGUMENT, MODIFY, "learned", DEFAULT + NO_ACTION + "idle_timeout_ns: 1"),
        (Code.PERMISSION_DENIED, MODIFY, "acl", DEFAULT + DROP),  # const default action
        (Code.PERMISSION_DENIED, MODIFY, "ecmp", DEFAULT + NO_ACTION),  # indirect
        (Code.PERMISSION_DENIED, MODIFY, "route", DEFAULT + FORWARD),  # @tableonly
        (Code.INVALID_ARGUMENT, MODIFY, "route", DEFAULT + POLICE),
        (Code.OK, MODIFY, "keyless", DEFAULT + FORWARD),
        (Code.OK, MODIFY, "fixed", DEFAULT + DROP),  # a const table, but not its default
    ],
)
def test_default_entry_rules(
    client: Client, code: Code, update_type: int, table: str, text: str
) -> None:
    assert client.write_code(update_type, table_entry(table, text)) is code


def test_const_default_is_marked(client: Client) -> None:
    (entry,) = entries(client, "acl", DEFAULT)
    assert entry.is_const
    (entry,) = entries(client, "exact_mac", DEFAULT)
    assert not entry.is_const


# -- const and preinitialised tables -------------------------------------------------------


def test_const_table(client: Client) -> None:
    first, second = entries(client, "fixed")
    assert first.is_const and second.is_const
    # The order in the program decides: the first entry has the highest priority.
    assert first.priority > second.priority > 0
    assert first.match[0].ternary.mask == b"\x03"
    assert second.match[0].ternary.mask == b"\x0f"
    assert client.write_code(DELETE, key_of(first)) is Code.PERMISSION_DENIED
    assert client.write_code(MODIFY, key_of(first, action=True)) is Code.PERMISSION_DENIED
    # Direct resources of const entries can be written.
    with_counter = key_of(first)
    with_counter.counter_data.packet_count = 12
    client.write((MODIFY, with_counter))
    request = table_entry("fixed", "counter_data { }")
    assert [entry.counter_data.packet_count for entry in client.read(request)] == [12, 0]


def key_of(entry: Any, *, action: bool = False) -> Any:
    """An entry reduced to its key, or to its key and its action."""
    key = p4runtime_pb2.TableEntry(table_id=entry.table_id, priority=entry.priority)
    key.match.extend(entry.match)
    if action:
        key.action.CopyFrom(entry.action)
    return key


def test_preinitialised_table(client: Client) -> None:
    _, second = entries(client, "initial")
    assert not second.is_const
    client.write((DELETE, second))
    # P4Info promises room for 8, however many entries the program starts with.
    for value in range(10, 17):
        text = rf'match {{ field_id: 1 exact {{ value: "\x{value:02x}" }} }} ' + FORWARD
        client.write((INSERT, table_entry("initial", text)))
    assert len(entries(client, "initial")) == 8
    extra = r'match { field_id: 1 exact { value: "\x30" } } ' + FORWARD
    assert client.write_code(INSERT, table_entry("initial", extra)) is Code.RESOURCE_EXHAUSTED


# -- wildcard reads ------------------------------------------------------------------------


def test_filters(client: Client) -> None:
    low = table_entry("acl", PORT_1 + "priority: 1 " + POLICE + 'metadata: "a"')
    high = table_entry("acl", PORT_1 + "priority: 2 " + DROP + "controller_metadata: 5")
    other = table_entry("acl", r'match { field_id: 4 exact { value: "\x02" } } priority: 1 ' + DROP)
    client.write((INSERT, low), (INSERT, high), (INSERT, other))
    assert entries(client, "acl") == [low, high, other]
    assert entries(client, "acl", "priority: 1") == [low, other]
    assert entries(client, "acl", PORT_1) == [low, high]
    assert entries(client, "acl", PORT_1 + "priority: 2") == [high]
    assert entries(client, "acl", PORT_1 + "priority: 3") == []
    assert entries(client, "acl", 'metadata: "a"') == [low]
    assert entries(client, "acl", "controller_metadata: 5") == [high]
    assert entries(client, "acl", "action { action { action_id: <drop> } }") == [high, other]
    assert entries(client, "acl", r'match { field_id: 4 exact { value: "\x05" } }') == []


@pytest.mark.parametrize(
    "text",
    [
        "match { field_id: 9 " + MAC + " }",
        r'match { field_id: 1 exact { value: "" } }',
        "action { action { action_id: 12 } }",
        "time_since_last_hit { }",
        DEFAULT + EXACT,
        DEFAULT + "priority: 1",
    ],
)
def test_refused_reads(client: Client, text: str) -> None:
    assert client.read_code(table_entry("exact_mac", text)) in (
        Code.INVALID_ARGUMENT,
        Code.OUT_OF_RANGE,
    )


@pytest.mark.parametrize("text", ["priority: 1", EXACT, 'metadata: "x"', DROP])
def test_no_filter_with_all_tables(client: Client, text: str) -> None:
    request = table_entry("acl", text)
    request.table_id = 0
    assert client.read_code(request) is Code.INVALID_ARGUMENT


# -- direct resources in the entry ---------------------------------------------------------


def test_counter_in_the_entry(client: Client) -> None:
    client.write((INSERT, table_entry("route", LPM + COUNT)))
    with_counter = "counter_data { packet_count: 3 byte_count: 300 }"
    # Unset in the request, unset in the answer.
    assert not entries(client, "route")[0].HasField("counter_data")
    (entry,) = entries(client, "route", "counter_data { }")
    assert entry.HasField("counter_data")
    assert entry.counter_data == p4runtime_pb2.CounterData()
    client.write((MODIFY, table_entry("route", LPM + COUNT + with_counter)))
    (entry,) = entries(client, "route", "counter_data { }")
    assert entry == table_entry("route", LPM + COUNT + with_counter)
    # A modification without counter_data leaves it alone.
    client.write((MODIFY, table_entry("route", LPM + DROP)))
    (entry,) = entries(client, "route", "counter_data { }")
    assert entry == table_entry("route", LPM + DROP + with_counter)


def test_meter_in_the_entry(client: Client) -> None:
    meter = "meter_config { cir: 10 cburst: 20 pir: 30 pburst: 40 }"
    client.write((INSERT, table_entry("acl", ACL + POLICE + meter)))
    assert not entries(client, "acl")[0].HasField("meter_config")
    assert entries(client, "acl", "meter_config { }") == [table_entry("acl", ACL + POLICE + meter)]
    # A modification without meter_config resets it to the default, which reads as unset.
    client.write((MODIFY, table_entry("acl", ACL + DROP)))
    assert entries(client, "acl", "meter_config { }") == [table_entry("acl", ACL + DROP)]


def test_direct_resources_are_read_with_all_tables(client: Client) -> None:
    client.write((INSERT, table_entry("route", LPM + COUNT + "counter_data { byte_count: 1 }")))
    request = p4runtime_pb2.TableEntry()
    request.counter_data.SetInParent()
    counted = [e for e in client.read(request) if e.HasField("counter_data")]
    assert {e.table_id for e in counted} == {
        table_entry("route").table_id,
        table_entry("fixed").table_id,
    }


def test_time_since_last_hit(switch: Served, client: Client) -> None:
    client.write((INSERT, table_entry("learned", LEARNED)))
    switch.clock.now_ns += 700
    (entry,) = entries(client, "learned", "time_since_last_hit { }")
    assert entry.time_since_last_hit.elapsed_ns == 700
    (entry,) = entries(client, "learned")
    assert not entry.HasField("time_since_last_hit")


# -- direct counter and meter entries ------------------------------------------------------


def direct_counter(text: str, **data: int) -> Any:
    message = p4runtime_pb2.DirectCounterEntry()
    message.table_entry.CopyFrom(table_entry("route", text))
    if data:
        message.data.CopyFrom(p4runtime_pb2.CounterData(**data))
    return message


def test_direct_counter_entries(client: Client) -> None:
    client.write((INSERT, table_entry("route", LPM + COUNT)), (INSERT, table_entry("route", DROP)))
    client.write((MODIFY, direct_counter(LPM, packet_count=3, byte_count=5)))
    assert client.read(direct_counter(LPM)) == [direct_counter(LPM, packet_count=3, byte_count=5)]
    # All entries of the table, and of all tables.
    all_of_table = client.read(direct_counter(""))
    assert [e.data.packet_count for e in all_of_table] == [3, 0]
    everywhere = client.read(p4runtime_pb2.DirectCounterEntry(table_entry={}))
    assert len(everywhere) == 4
    assert all(e in everywhere for e in all_of_table)
    # Without data nothing changes.
    client.write((MODIFY, direct_counter(LPM)))
    assert client.read(direct_counter(LPM))[0].data.packet_count == 3
    default = client.read(direct_counter(DEFAULT))
    assert [e.table_entry.is_default_action for e in default] == [True]


def test_direct_counter_entry_rules(client: Client) -> None:
    client.write((INSERT, table_entry("route", LPM + COUNT)))
    missing = r'match { field_id: 1 lpm { value: "\x0b\x00\x00\x00" prefix_len: 8 } }'
    counter = direct_counter(LPM, packet_count=1)
    assert client.write_code(INSERT, counter) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, counter) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, direct_counter(missing)) is Code.NOT_FOUND
    assert client.read_code(direct_counter(missing)) is Code.NOT_FOUND
    assert client.write_code(MODIFY, direct_counter(LPM, byte_count=-1)) is Code.INVALID_ARGUMENT
    counter.table_entry.table_id = table_entry("exact_mac").table_id
    assert client.write_code(MODIFY, counter) is Code.INVALID_ARGUMENT
    assert client.read_code(counter) is Code.INVALID_ARGUMENT
    nothing = p4runtime_pb2.DirectCounterEntry()
    assert client.write_code(MODIFY, nothing) is Code.INVALID_ARGUMENT
    assert client.read_code(nothing) is Code.INVALID_ARGUMENT


def direct_meter(text: str, **config: int) -> Any:
    message = p4runtime_pb2.DirectMeterEntry()
    message.table_entry.CopyFrom(table_entry("acl", text))
    if config:
        message.config.CopyFrom(p4runtime_pb2.MeterConfig(**config))
    return message


def test_direct_meter_entries(client: Client) -> None:
    client.write((INSERT, table_entry("acl", ACL + POLICE)))
    assert client.read(direct_meter(ACL)) == [direct_meter(ACL)]
    configured = direct_meter(ACL, cir=1, cburst=2, pir=3, pburst=4)
    client.write((MODIFY, configured))
    assert client.read(direct_meter(ACL)) == [configured]
    assert client.read(direct_meter("")) == [configured]
    assert client.read(p4runtime_pb2.DirectMeterEntry(table_entry={})) == [configured]
    client.write((MODIFY, direct_meter(ACL)))
    assert client.read(direct_meter(ACL)) == [direct_meter(ACL)]


def test_direct_meter_entry_rules(client: Client) -> None:
    client.write((INSERT, table_entry("acl", ACL + POLICE)))
    meter = direct_meter(ACL, cir=1, pir=1)
    assert client.write_code(INSERT, meter) is Code.INVALID_ARGUMENT
    assert client.write_code(DELETE, meter) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, direct_meter(PORT_1 + "priority: 1")) is Code.NOT_FOUND
    assert client.read_code(direct_meter(PORT_1 + "priority: 1")) is Code.NOT_FOUND
    assert client.write_code(MODIFY, direct_meter(ACL, cir=-1)) is Code.INVALID_ARGUMENT
    assert client.write_code(MODIFY, direct_meter(ACL, cir=2, pir=1)) is Code.INVALID_ARGUMENT
    meter.counter_data.SetInParent()
    assert client.write_code(MODIFY, meter) is Code.UNIMPLEMENTED
    assert client.read_code(meter) is Code.UNIMPLEMENTED
    meter.ClearField("counter_data")
    meter.table_entry.table_id = table_entry("route").table_id
    assert client.write_code(MODIFY, meter) is Code.INVALID_ARGUMENT


# -- size ----------------------------------------------------------------------------------


def test_many_entries(client: Client) -> None:
    prefixes = [(0x0A000000 + i * 256).to_bytes(4, "big") for i in range(2000)]
    template = table_entry("route", LPM + COUNT)
    updates = []
    for prefix in prefixes:
        entry = p4runtime_pb2.TableEntry()
        entry.CopyFrom(template)
        entry.match[0].lpm.value = prefix
        entry.match[0].lpm.prefix_len = 24
        updates.append((INSERT, entry))
    client.write(*updates)
    found = entries(client, "route")
    assert [entry.match[0].lpm.value for entry in found] == prefixes
    # All of them again: 2,000 errors, one each, in order.
    with pytest.raises(RpcFailed) as failed:
        client.write(*updates)
    assert failed.value.codes == [Code.ALREADY_EXISTS] * 2000
