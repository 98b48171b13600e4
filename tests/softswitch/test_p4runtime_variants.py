"""What depends on P4Info alone, and other things that the basic program does not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.entities.table_entries import TableEntryHandler
from softswitch.p4runtime.errors import Code
from tests.softswitch.p4runtime_support import (
    BASIC,
    CONFIG_ACTIONS,
    DELETE,
    INSERT,
    MODIFY,
    Client,
    RpcFailed,
    Served,
    load_p4info,
    primary,
    served,
    table_entry,
)

SELECTOR = BASIC["Main.ecmp_selector"]
KEY = r'match { field_id: 1 exact { value: "\x08" } } '
ENTRY = KEY + r'action { action { action_id: <forward> params { param_id: 1 value: "\x03" } } }'


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(switch: Served) -> Iterator[Client]:
    with primary(switch.address, with_pipeline=False) as controller:
        yield controller


def named(objects: Any, name: str) -> Any:
    (found,) = (o for o in objects if o.preamble.name == name)
    return found


# -- selectors -----------------------------------------------------------------------------


def member(member_id: int) -> Any:
    message = p4runtime_pb2.ActionProfileMember(action_profile_id=SELECTOR, member_id=member_id)
    message.action.action_id = BASIC["Main.drop"]
    return message


def group(weights: dict[int, int], max_size: int = 0) -> Any:
    message = p4runtime_pb2.ActionProfileGroup(
        action_profile_id=SELECTOR, group_id=1, max_size=max_size
    )
    for member_id, weight in weights.items():
        message.members.add(member_id=member_id, weight=weight)
    return message


def one_shot(*weights: int) -> Any:
    actions = "".join(
        f"action_profile_actions {{ action {{ action_id: <drop> }} weight: {w} }}" for w in weights
    )
    return table_entry("ecmp", KEY + f"action {{ action_profile_action_set {{ {actions} }} }}")


def test_sizes_counted_in_members(client: Client) -> None:
    p4info = load_p4info()
    selector = named(p4info.action_profiles, "Main.ecmp_selector")
    selector.max_group_size = 2
    selector.sum_of_members.max_member_weight = 50
    client.set_pipeline(p4info)
    # Two members may weigh 50 each, three may not be.
    client.write((INSERT, one_shot(50, 50)))
    client.write((DELETE, one_shot()))
    assert client.write_code(INSERT, one_shot(1, 1, 1)) is Code.INVALID_ARGUMENT
    assert client.write_code(INSERT, one_shot(51)) is Code.INVALID_ARGUMENT
    client.write(*((INSERT, member(i)) for i in (1, 2, 3)))
    assert client.write_code(INSERT, group({1: 1, 2: 1, 3: 1})) is Code.RESOURCE_EXHAUSTED
    assert client.write_code(INSERT, group({1: 51})) is Code.INVALID_ARGUMENT
    heavy = group({1: 50, 2: 50}, max_size=2)
    client.write((INSERT, heavy))
    assert client.read(group({})) == [heavy]


def test_selector_without_limits(client: Client) -> None:
    p4info = load_p4info()
    selector = named(p4info.action_profiles, "Main.ecmp_selector")
    selector.max_group_size = selector.size = 0
    client.set_pipeline(p4info)
    client.write((INSERT, member(1)))
    large = group({1: 1000})
    client.write((INSERT, large))
    assert client.read(group({})) == [large]
    assert client.write_code(MODIFY, group({1: 1}, max_size=-1)) is Code.INVALID_ARGUMENT


def test_empty_watch_port_is_none(client: Client) -> None:
    client.set_pipeline()
    client.write((INSERT, member(1)))
    watching = group({1: 1})
    watching.members[0].watch_port = b""
    client.write((INSERT, watching))
    assert client.read(group({})) == [group({1: 1})]


# -- meters --------------------------------------------------------------------------------

TWO_RATES, ONE_RATE_THREE, ONE_RATE_TWO = 0, 1, 2


@pytest.mark.parametrize(
    ("meter_type", "code", "config"),
    [
        (TWO_RATES, Code.OK, {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}),
        (TWO_RATES, Code.INVALID_ARGUMENT, {"cir": 1, "pir": 1, "eburst": 1}),
        (ONE_RATE_THREE, Code.OK, {"cir": 1, "cburst": 2, "pir": 1, "pburst": 2}),
        (ONE_RATE_THREE, Code.INVALID_ARGUMENT, {"cir": 1, "pir": 2}),
        (ONE_RATE_THREE, Code.INVALID_ARGUMENT, {"cir": 1, "pir": 1, "pburst": 2}),
        (ONE_RATE_THREE, Code.UNIMPLEMENTED, {"cir": 1, "pir": 1, "eburst": 1}),
        (ONE_RATE_TWO, Code.OK, {"cir": 1, "cburst": 2, "pir": 1, "pburst": 2}),
        (ONE_RATE_TWO, Code.INVALID_ARGUMENT, {"cir": 1, "pir": 2}),
        (ONE_RATE_TWO, Code.INVALID_ARGUMENT, {"cir": 1, "pir": 1, "eburst": 1}),
    ],
)
def test_meter_types(client: Client, meter_type: int, code: Code, config: dict[str, int]) -> None:
    p4info = load_p4info()
    p4info.meters[0].spec.type = meter_type
    client.set_pipeline(p4info)
    meter = p4runtime_pb2.MeterEntry(
        meter_id=BASIC["Main.port_meter"], index={"index": 1}, config=config
    )
    assert client.write_code(MODIFY, meter) is code
    if code is Code.OK:
        request = p4runtime_pb2.MeterEntry(meter_id=meter.meter_id, index={"index": 1})
        assert client.read(request) == [meter]


def test_direct_meter_of_the_default_entry(client: Client) -> None:
    p4info = load_p4info()
    named(p4info.tables, "Main.acl").const_default_action_id = 0
    client.set_pipeline(p4info)
    default = table_entry("acl", "is_default_action: true")
    meter = p4runtime_pb2.DirectMeterEntry(table_entry=default, config={"cir": 1, "pir": 2})
    client.write((MODIFY, meter))
    assert client.read(p4runtime_pb2.DirectMeterEntry(table_entry=default)) == [meter]


# -- value sets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match_type", "text"),
    [
        (3, r'match { field_id: 1 lpm { value: "\x08\x00" prefix_len: 8 } }'),
        (4, r'match { field_id: 1 ternary { value: "\x08\x00" mask: "\xff\x00" } }'),
        (4, ""),
        (6, r'match { field_id: 1 optional { value: "\x08" } }'),
        (6, ""),
    ],
)
def test_value_set_kinds(switch: Served, client: Client, match_type: int, text: str) -> None:
    p4info = load_p4info()
    p4info.value_sets[0].match[0].match_type = match_type
    client.set_pipeline(p4info)
    value_set = p4runtime_pb2.ValueSetEntry(value_set_id=BASIC["MainParser.known_types"])
    value_set.members.append(text_format.Parse(text, p4runtime_pb2.ValueSetMember()))
    client.write((MODIFY, value_set))
    assert client.read(p4runtime_pb2.ValueSetEntry()) == [value_set]
    pipeline = switch.switch.pipeline
    assert pipeline is not None
    (packed,) = pipeline.value_sets["MainParser.known_types"].packed
    wanted = {3: (0xFF00, 0x0800), 4: (0xFF00, 0x0800), 6: (0xFFFF, 0x0008)}[match_type]
    assert packed == (wanted if text else (0, 0))


# -- rolling back --------------------------------------------------------------------------


def test_undo_that_fails_does_not_stop_the_others(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.set_pipeline()
    insert = TableEntryHandler.insert

    def insert_without_undo(handler: TableEntryHandler, message: Any) -> Any:
        undo = insert(handler, message)

        def fail() -> None:
            undo()
            raise ZeroDivisionError

        return fail

    monkeypatch.setattr(TableEntryHandler, "insert", insert_without_undo)
    other = table_entry("exact_mac", ENTRY.replace(r"\x08", r"\x09"))
    with pytest.raises(RpcFailed) as failed:
        client.write(
            (INSERT, table_entry("exact_mac", ENTRY)),
            (INSERT, other),
            (INSERT, p4runtime_pb2.TableEntry(table_id=1)),
            atomicity=1,
        )
    assert failed.value.codes == [Code.ABORTED, Code.ABORTED, Code.INVALID_ARGUMENT]
    assert client.read(table_entry("exact_mac")) == []


# -- reconciling ---------------------------------------------------------------------------


def test_reconcile_as_the_first_config(switch: Served, client: Client) -> None:
    client.set_pipeline(action=CONFIG_ACTIONS.RECONCILE_AND_COMMIT)
    assert switch.switch.pipeline is not None


def test_reconcile_of_everything(client: Client) -> None:
    client.set_pipeline()
    clone = p4runtime_pb2.PacketReplicationEngineEntry(
        clone_session_entry={"session_id": 5, "packet_length_bytes": 9}
    )
    digest = p4runtime_pb2.DigestEntry(digest_id=BASIC["learn_t"], config={"max_list_size": 3})
    learned = table_entry(
        "learned",
        r'match { field_id: 1 exact { value: "\x07" } } '
        "action { action { action_id: <NoAction> } } idle_timeout_ns: 1000000000000",
    )
    messages = [member(1), group({1: 2}, max_size=4), clone, digest, learned]
    client.write(*((INSERT, m) for m in messages))
    client.set_pipeline(action=CONFIG_ACTIONS.RECONCILE_AND_COMMIT)
    assert (
        client.read(
            p4runtime_pb2.ActionProfileMember(),
            p4runtime_pb2.ActionProfileGroup(),
            p4runtime_pb2.PacketReplicationEngineEntry(clone_session_entry={}),
            p4runtime_pb2.DigestEntry(),
            table_entry("learned"),
        )
        == messages
    )


# -- entries of tables with an idle timeout ------------------------------------------------


def test_idle_entry_that_is_modified_or_deleted(switch: Served, client: Client) -> None:
    client.set_pipeline()

    def learned(mac: int, timeout_ns: int) -> Any:
        return table_entry(
            "learned",
            rf'match {{ field_id: 1 exact {{ value: "\x{mac:02x}" }} }} '
            f"action {{ action {{ action_id: <NoAction> }} }} idle_timeout_ns: {timeout_ns}",
        )

    client.write(*((INSERT, learned(mac, 1000)) for mac in (1, 2, 3)))
    client.write((DELETE, learned(1, 0)), (MODIFY, learned(2, 0)))
    switch.clock.now_ns += 2000
    notification = client.next("idle_timeout_notification")
    assert [e.match[0].exact.value for e in notification.table_entry] == [b"\x03"]
