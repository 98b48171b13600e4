"""The RPCs around the entities: who may do what when, pipeline configs, batches, hostile input."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2

from softswitch.fair_lock import FairLock
from softswitch.p4runtime import service
from softswitch.p4runtime.entities.counters import CounterHandler
from softswitch.p4runtime.entities.table_entries import TableEntryHandler
from softswitch.p4runtime.errors import ERROR_SPACE, Code, invalid
from softswitch.p4runtime.server import P4RuntimeServer, ServerError
from softswitch.p4runtime.service import MAX_STREAMS
from softswitch.switch import Switch
from tests.softswitch.p4runtime_support import (
    BASIC,
    BASIC_JSON,
    CONFIG_ACTIONS,
    DELETE,
    DEVICE_ID,
    INSERT,
    MODIFY,
    PATIENCE_S,
    Client,
    RpcFailed,
    Served,
    SwitchControl,
    load_p4info,
    primary,
    served,
    table_entry,
)

ENTRY = (
    r'match { field_id: 1 exact { value: "\x05" } } '
    r'action { action { action_id: <forward> params { param_id: 1 value: "\x03" } } }'
)
OTHER = ENTRY.replace(r"\x05", r"\x06")
GET = p4runtime_pb2.GetForwardingPipelineConfigRequest


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(switch: Served) -> Iterator[Client]:
    with primary(switch.address) as controller:
        yield controller


def everything(client: Client) -> list[Any]:
    """All forwarding state that a client can read."""
    requests = [
        p4runtime_pb2.TableEntry(),
        p4runtime_pb2.TableEntry(is_default_action=True),
        p4runtime_pb2.ActionProfileMember(),
        p4runtime_pb2.ActionProfileGroup(),
        p4runtime_pb2.CounterEntry(),
        p4runtime_pb2.MeterEntry(),
        p4runtime_pb2.RegisterEntry(),
        p4runtime_pb2.PacketReplicationEngineEntry(multicast_group_entry={}),
        p4runtime_pb2.PacketReplicationEngineEntry(clone_session_entry={}),
        p4runtime_pb2.ValueSetEntry(),
        p4runtime_pb2.DigestEntry(),
    ]
    for request in requests[:2]:
        request.counter_data.SetInParent()
        request.meter_config.SetInParent()
    return client.read(*requests)


# -- server --------------------------------------------------------------------------------


def test_capabilities(switch: Served) -> None:
    with Client(switch.address) as client:
        reply = client.call("Capabilities", p4runtime_pb2.CapabilitiesRequest())
        assert reply.p4runtime_api_version == "1.4.1"


def control() -> SwitchControl:
    return SwitchControl(Switch(), FairLock(), lambda: 0)


def test_listens_on_loopback_unless_told_otherwise() -> None:
    server = P4RuntimeServer(control())
    with pytest.raises(ServerError, match="not been started"):
        _ = server.address
    assert server._requested_address == "127.0.0.1:9559"
    server.stop()


def test_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = P4RuntimeServer(control(), address=address)
        with pytest.raises(ServerError, match=address):
            server.start()
        server.stop()


def test_two_servers_cannot_share_a_port(switch: Served) -> None:
    second = P4RuntimeServer(control(), address=switch.address)
    with pytest.raises(ServerError, match="in use"):
        second.start()
    second.stop()


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:", "127.0.0.1:x", ":1", "h:65536"])
def test_bad_addresses(address: str) -> None:
    server = P4RuntimeServer(control(), address=address)
    with pytest.raises(ServerError, match="HOST:PORT"):
        server.start()
    server.stop()


def test_stop_ends_open_streams() -> None:
    with served() as switch:
        clients = [Client(switch.address, election_id=i) for i in range(3)]
        for client in clients:
            client.arbitrate()
        switch.server.stop()
        for client in clients:
            with pytest.raises(RpcFailed) as failed:
                while True:
                    message = client.received.get(timeout=PATIENCE_S)
                    if isinstance(message, RpcFailed):
                        raise message
            assert failed.value.code in (Code.UNAVAILABLE, Code.CANCELLED)
            client.close()
        # The switch is let go of: packets for the CPU port find nobody.
        assert switch.switch.on_packet_in is None


# -- who may do what -----------------------------------------------------------------------


def test_before_any_pipeline(switch: Served) -> None:
    with primary(switch.address, with_pipeline=False) as client:
        with pytest.raises(RpcFailed) as failed:
            client.write((INSERT, table_entry("exact_mac", ENTRY)))
        assert failed.value.code is Code.FAILED_PRECONDITION
        assert failed.value.details == []
        with pytest.raises(RpcFailed) as failed:
            client.read(p4runtime_pb2.TableEntry())
        assert failed.value.code is Code.FAILED_PRECONDITION
        assert not client.get_pipeline().HasField("config")


def test_only_the_primary_writes(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=0) as backup:
        assert backup.arbitrate().status.code == Code.ALREADY_EXISTS
        for election_id in (0, 2, None):
            backup.election_id = election_id
            requests: list[Callable[[], object]] = [
                lambda: backup.write((INSERT, table_entry("exact_mac", ENTRY))),
                backup.set_pipeline,
            ]
            for request in requests:
                with pytest.raises(RpcFailed) as failed:
                    request()
                assert failed.value.code is Code.PERMISSION_DENIED
        # Reading is open to all, without stream and election id.
        assert backup.read(p4runtime_pb2.TableEntry())
        assert backup.get_pipeline().HasField("config")


def test_a_new_primary_takes_over(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=5) as second:
        assert second.arbitrate().status.code == Code.OK
        advisory = client.next("arbitration")
        assert advisory.status.code == Code.ALREADY_EXISTS
        assert advisory.election_id.low == 5
        with pytest.raises(RpcFailed) as failed:
            client.write((INSERT, table_entry("exact_mac", ENTRY)))
        assert failed.value.code is Code.PERMISSION_DENIED
        second.write((INSERT, table_entry("exact_mac", ENTRY)))
    # The stream of the second broke: nobody is primary now.
    advisory = client.next("arbitration")
    assert advisory.status.code == Code.NOT_FOUND
    with pytest.raises(RpcFailed) as failed:
        client.write((INSERT, table_entry("exact_mac", OTHER)))
    assert failed.value.code is Code.PERMISSION_DENIED
    assert client.arbitrate(election_id=5).status.code == Code.OK
    client.write((INSERT, table_entry("exact_mac", OTHER)))


def test_writes_in_progress_end_before_a_new_primary_is_told(
    switch: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    insert = TableEntryHandler.insert

    def slow_insert(handler: TableEntryHandler, message: Any) -> Any:
        started.set()
        assert go_on.wait(PATIENCE_S)
        return insert(handler, message)

    monkeypatch.setattr(TableEntryHandler, "insert", slow_insert)
    with ThreadPoolExecutor() as pool, Client(switch.address, election_id=5) as second:
        writing = pool.submit(client.write, (INSERT, table_entry("exact_mac", ENTRY)))
        assert started.wait(PATIENCE_S)
        arbitrating = pool.submit(second.arbitrate)
        # The old primary is told at once ...
        assert client.next("arbitration").status.code == Code.ALREADY_EXISTS
        # ... and the new one, whose own writes have to wait too, when the write has ended.
        assert not arbitrating.done()
        assert second.received.empty()
        writing_too = pool.submit(second.write, (DELETE, table_entry("exact_mac", ENTRY)))
        assert not writing.done()
        go_on.set()
        writing.result(PATIENCE_S)
        assert arbitrating.result(PATIENCE_S).status.code == Code.OK
        writing_too.result(PATIENCE_S)
    # Nothing of the old primary's is accepted any more.
    with pytest.raises(RpcFailed) as failed:
        client.write((INSERT, table_entry("exact_mac", ENTRY)))
    assert failed.value.code is Code.PERMISSION_DENIED


def test_backup_is_told_during_a_long_write(
    switch: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow_insert(handler: TableEntryHandler, message: Any) -> Any:
        started.set()
        assert go_on.wait(PATIENCE_S)
        raise invalid("after all")

    monkeypatch.setattr(TableEntryHandler, "insert", slow_insert)
    with ThreadPoolExecutor() as pool, Client(switch.address, election_id=0) as backup:
        writing = pool.submit(client.write_code, INSERT, table_entry("exact_mac", ENTRY))
        assert started.wait(PATIENCE_S)
        assert backup.arbitrate().status.code == Code.ALREADY_EXISTS
        go_on.set()
        assert writing.result(PATIENCE_S) is Code.INVALID_ARGUMENT


def test_unknown_device(client: Client) -> None:
    other = DEVICE_ID + 1
    requests: list[Callable[[], object]] = [
        lambda: client.write((INSERT, table_entry("exact_mac", ENTRY)), device_id=other),
        lambda: client.read(p4runtime_pb2.TableEntry(), device_id=other),
        lambda: client.set_pipeline(device_id=other),
        lambda: client.get_pipeline(device_id=other),
    ]
    for request in requests:
        with pytest.raises(RpcFailed) as failed:
            request()
        assert failed.value.code is Code.NOT_FOUND
        assert "device 4 is unknown, this is device 3" in failed.value.message


def test_roles(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=1, role="acl") as other:
        # Unknown until somebody arbitrates for it.
        with pytest.raises(RpcFailed) as failed:
            other.write((INSERT, table_entry("exact_mac", ENTRY)))
        assert failed.value.code is Code.NOT_FOUND
        advisory = other.arbitrate()
        assert advisory.role.name == "acl"
        assert advisory.status.code == Code.OK
        other.write((INSERT, table_entry("exact_mac", ENTRY)))
        client.write((DELETE, table_entry("exact_mac", ENTRY)))


def test_numeric_roles_are_refused(switch: Served, client: Client) -> None:
    request = p4runtime_pb2.WriteRequest(device_id=DEVICE_ID, role_id=1, election_id={"low": 1})
    with pytest.raises(RpcFailed) as failed:
        client.call("Write", request)
    assert failed.value.code is Code.NOT_FOUND
    with Client(switch.address) as other:
        message = p4runtime_pb2.StreamMessageRequest()
        message.arbitration.device_id = DEVICE_ID
        message.arbitration.role.id = 1
        other.send(message)
        with pytest.raises(RpcFailed) as failed:
            other.next("arbitration")
        assert failed.value.code is Code.UNIMPLEMENTED


def test_long_names_make_short_messages(switch: Served, client: Client) -> None:
    with Client(switch.address, role="x" * 100_000) as other, pytest.raises(RpcFailed) as failed:
        other.write()
    assert failed.value.code is Code.NOT_FOUND
    assert len(failed.value.message) < 1000


def test_role_config_is_refused(switch: Served) -> None:
    with Client(switch.address) as client:
        message = p4runtime_pb2.StreamMessageRequest()
        message.arbitration.device_id = DEVICE_ID
        message.arbitration.role.config.SetInParent()
        client.send(message)
        with pytest.raises(RpcFailed) as failed:
            client.next("arbitration")
        assert failed.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("device_id", "election_id", "code"),
    [(DEVICE_ID + 1, 9, Code.NOT_FOUND), (DEVICE_ID, 1, Code.INVALID_ARGUMENT)],
)
def test_arbitration_errors_end_the_stream(
    switch: Served, client: Client, device_id: int, election_id: int, code: Code
) -> None:
    with Client(switch.address) as other:
        with pytest.raises(RpcFailed) as failed:
            other.arbitrate(device_id=device_id, election_id=election_id)
        assert failed.value.code is code
    client.write((INSERT, table_entry("exact_mac", ENTRY)))


def test_primary_whose_update_is_refused_is_gone(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=0) as backup:
        backup.arbitrate()
        with pytest.raises(RpcFailed) as failed:
            client.arbitrate(device_id=9)
        assert failed.value.code is Code.FAILED_PRECONDITION
        assert backup.next("arbitration").status.code == Code.NOT_FOUND


def test_too_many_streams(switch: Served) -> None:
    clients = [Client(switch.address, election_id=i) for i in range(MAX_STREAMS)]
    try:
        for client in clients:
            client.arbitrate()
        with Client(switch.address, election_id=1000) as extra:
            with pytest.raises(RpcFailed) as failed:
                extra.arbitrate()
            assert failed.value.code is Code.RESOURCE_EXHAUSTED
        # Requests are still served.
        last = clients[-1]
        last.set_pipeline()
        assert last.read(p4runtime_pb2.CounterEntry())
    finally:
        for client in clients:
            client.close()


# -- pipeline configs ----------------------------------------------------------------------


def test_get_returns_what_was_set(switch: Served) -> None:
    with primary(switch.address, with_pipeline=False) as client:
        client.set_pipeline(cookie=99)
        config = client.get_pipeline(GET.ALL).config
        assert config.p4info == load_p4info()
        assert config.p4_device_config == BASIC_JSON.read_bytes()
        assert config.cookie.cookie == 99
        cookie_only = client.get_pipeline(GET.COOKIE_ONLY).config
        assert (cookie_only.HasField("p4info"), cookie_only.p4_device_config) == (False, b"")
        assert cookie_only.cookie.cookie == 99
        info = client.get_pipeline(GET.P4INFO_AND_COOKIE).config
        assert (info.p4info, info.p4_device_config) == (load_p4info(), b"")
        device = client.get_pipeline(GET.DEVICE_CONFIG_AND_COOKIE).config
        assert not device.HasField("p4info")
        assert device.p4_device_config == BASIC_JSON.read_bytes()
        with pytest.raises(RpcFailed) as failed:
            client.get_pipeline(17)
        assert failed.value.code is Code.INVALID_ARGUMENT
        client.set_pipeline()
        assert not client.get_pipeline().config.HasField("cookie")


def test_verify_changes_nothing(switch: Served) -> None:
    with primary(switch.address, with_pipeline=False) as client:
        client.set_pipeline(action=CONFIG_ACTIONS.VERIFY)
        assert switch.switch.pipeline is None
        assert not client.get_pipeline().HasField("config")


def test_commit_clears_the_forwarding_state(client: Client) -> None:
    fresh = everything(client)
    client.write((INSERT, table_entry("exact_mac", ENTRY)))
    client.write((INSERT, multicast(1)))
    assert everything(client) != fresh
    client.set_pipeline()
    assert everything(client) == fresh


def multicast(group_id: int) -> Any:
    message = p4runtime_pb2.PacketReplicationEngineEntry()
    message.multicast_group_entry.multicast_group_id = group_id
    message.multicast_group_entry.replicas.add(port=b"\x02", instance=1)
    return message


def test_save_and_commit(switch: Served, client: Client) -> None:
    running = switch.switch.pipeline
    client.write((INSERT, table_entry("exact_mac", ENTRY)))
    client.set_pipeline(action=CONFIG_ACTIONS.VERIFY_AND_SAVE, cookie=2)
    # Packets still see the old pipeline; reads and writes refer to the new one.
    assert switch.switch.pipeline is running
    assert client.read(table_entry("exact_mac")) == []
    client.write((INSERT, table_entry("exact_mac", OTHER)), (INSERT, multicast(7)))
    assert running is not None
    assert len(running.tables["Main.exact_mac"]) == 1
    assert list(switch.switch.replication.groups()) == []
    client.set_pipeline(action=CONFIG_ACTIONS.COMMIT)
    assert switch.switch.pipeline is not running
    assert client.read(table_entry("exact_mac")) == [table_entry("exact_mac", OTHER)]
    assert [g.group_id for g in switch.switch.replication.groups()] == [7]
    assert client.get_pipeline().config.cookie.cookie == 2
    # Writes go to the switch's own engine from now on.
    client.write((INSERT, multicast(8)))
    assert [g.group_id for g in switch.switch.replication.groups()] == [7, 8]
    with pytest.raises(RpcFailed) as failed:
        client.set_pipeline(action=CONFIG_ACTIONS.COMMIT)
    assert failed.value.code is Code.NOT_FOUND


def test_reconcile_keeps_the_forwarding_state(switch: Served, client: Client) -> None:
    counted = p4runtime_pb2.CounterEntry(counter_id=BASIC["Main.port_counter"])
    counted.index.index = 3
    counted.data.packet_count = 5
    route = table_entry(
        "route",
        r'match { field_id: 1 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 } } '
        r"action { action { action_id: <drop> } } counter_data { packet_count: 3 byte_count: 9 }",
    )
    default = table_entry("keyless", ENTRY[ENTRY.index("action") :] + " is_default_action: true")
    initial = table_entry("initial", r'match { field_id: 1 exact { value: "\x02" } }')
    client.write((INSERT, table_entry("exact_mac", ENTRY)), (INSERT, route), (MODIFY, default))
    client.write((INSERT, multicast(4)), (MODIFY, counted), (DELETE, initial))
    before = everything(client)
    pipeline = switch.switch.pipeline
    client.set_pipeline(action=CONFIG_ACTIONS.RECONCILE_AND_COMMIT)
    assert switch.switch.pipeline is not pipeline
    assert everything(client) == before


def test_reconcile_refuses_what_does_not_fit(switch: Served, client: Client) -> None:
    client.write((INSERT, table_entry("exact_mac", ENTRY)))
    before = everything(client)
    p4info = load_p4info()
    (table,) = (t for t in p4info.tables if t.preamble.name == "Main.exact_mac")
    del table.action_refs[0]  # no forward any more
    pipeline = switch.switch.pipeline
    with pytest.raises(RpcFailed, match="does not fit the new config") as failed:
        client.set_pipeline(p4info, action=CONFIG_ACTIONS.RECONCILE_AND_COMMIT)
    assert failed.value.code is Code.INVALID_ARGUMENT
    assert switch.switch.pipeline is pipeline
    assert everything(client) == before


@pytest.mark.parametrize(
    ("action", "code"),
    [(CONFIG_ACTIONS.UNSPECIFIED, Code.INVALID_ARGUMENT), (77, Code.INVALID_ARGUMENT)],
)
def test_unknown_config_actions(client: Client, action: int, code: Code) -> None:
    with pytest.raises(RpcFailed) as failed:
        client.set_pipeline(action=action)
    assert failed.value.code is code


@pytest.mark.parametrize(
    "action",
    [
        CONFIG_ACTIONS.VERIFY,
        CONFIG_ACTIONS.VERIFY_AND_SAVE,
        CONFIG_ACTIONS.VERIFY_AND_COMMIT,
        CONFIG_ACTIONS.RECONCILE_AND_COMMIT,
    ],
)
def test_configs_that_cannot_be_realised(switch: Served, client: Client, action: int) -> None:
    pipeline = switch.switch.pipeline
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID, action=action, election_id={"low": 1}
    )
    for p4info, device_config in (
        (False, b"{}"),
        (True, b""),
        (True, b"{}"),
        (True, b"no json"),
        (True, b"{" * 100_000),
        (True, b"[]"),
    ):
        request.ClearField("config")
        request.config.p4_device_config = device_config
        if p4info:
            request.config.p4info.SetInParent()
        with pytest.raises(RpcFailed) as failed:
            client.call("SetForwardingPipelineConfig", request)
        assert failed.value.code is Code.INVALID_ARGUMENT
    request.ClearField("config")
    with pytest.raises(RpcFailed) as failed:
        client.call("SetForwardingPipelineConfig", request)
    assert failed.value.code is Code.INVALID_ARGUMENT
    assert switch.switch.pipeline is pipeline


def test_unsupported_p4info_is_an_invalid_config(client: Client) -> None:
    p4info = load_p4info()
    p4info.actions[2].params[0].bitwidth = 0  # as of a type that is translated to a string
    with pytest.raises(RpcFailed, match="string translation is not supported") as failed:
        client.set_pipeline(p4info)
    assert failed.value.code is Code.INVALID_ARGUMENT


def test_commit_takes_no_config(client: Client) -> None:
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID, action=CONFIG_ACTIONS.COMMIT, election_id={"low": 1}
    )
    request.config.SetInParent()
    with pytest.raises(RpcFailed) as failed:
        client.call("SetForwardingPipelineConfig", request)
    assert failed.value.code is Code.INVALID_ARGUMENT


def test_programs_larger_than_grpc_allows_by_default(client: Client) -> None:
    client.set_pipeline(device_config=BASIC_JSON.read_bytes() + b" " * (6 << 20))


# -- batches -------------------------------------------------------------------------------


def test_every_update_has_its_error(client: Client) -> None:
    good, bad = table_entry("exact_mac", ENTRY), p4runtime_pb2.TableEntry(table_id=1)
    with pytest.raises(RpcFailed) as failed:
        client.write((INSERT, good), (INSERT, bad), (INSERT, good), (DELETE, good))
    assert failed.value.code is Code.UNKNOWN
    assert failed.value.codes == [
        Code.OK,
        Code.INVALID_ARGUMENT,
        Code.ALREADY_EXISTS,
        Code.OK,
    ]
    ok, error = failed.value.details[:2]
    assert (ok.message, ok.space, ok.code) == ("", "", 0)
    assert error.space == ERROR_SPACE
    assert "0x00000001" in error.message
    assert client.read(table_entry("exact_mac")) == []


def test_updates_without_entity_or_type(client: Client) -> None:
    request = p4runtime_pb2.WriteRequest(device_id=DEVICE_ID, election_id={"low": 1})
    request.updates.add(type=INSERT)
    request.updates.add().entity.table_entry.table_id = BASIC["Main.exact_mac"]
    request.updates.add(type=9).entity.table_entry.table_id = BASIC["Main.exact_mac"]
    with pytest.raises(RpcFailed) as failed:
        client.call("Write", request)
    assert failed.value.codes == [Code.INVALID_ARGUMENT] * 3


def test_roll_back(client: Client) -> None:
    member = p4runtime_pb2.ActionProfileMember(
        action_profile_id=BASIC["Main.shared_actions"], member_id=1
    )
    member.action.action_id = BASIC["Main.drop"]
    group = p4runtime_pb2.ActionProfileGroup(
        action_profile_id=BASIC["Main.ecmp_selector"], group_id=1, max_size=3
    )
    one_shot = table_entry(
        "ecmp",
        r'match { field_id: 1 exact { value: "\x05" } } action { action_profile_action_set {'
        " action_profile_actions { action { action_id: <drop> } weight: 1 } } }",
    )
    counter = p4runtime_pb2.CounterEntry(counter_id=BASIC["Main.port_counter"])
    counter.data.packet_count = 9
    meter = p4runtime_pb2.MeterEntry(meter_id=BASIC["Main.port_meter"], config={"pir": 1})
    register = p4runtime_pb2.RegisterEntry(
        register_id=BASIC["Main.cells"], data={"bitstring": b"\x01"}
    )
    clone = p4runtime_pb2.PacketReplicationEngineEntry(clone_session_entry={"session_id": 5})
    values = p4runtime_pb2.ValueSetEntry(value_set_id=BASIC["MainParser.known_types"])
    values.members.add().match.add(field_id=1).exact.value = b"\x01"
    digest = p4runtime_pb2.DigestEntry(digest_id=BASIC["learn_t"], config={"max_list_size": 1})
    route = table_entry("route", "action { action { action_id: <drop> } } ")
    route_counter = p4runtime_pb2.DirectCounterEntry(table_entry=route, data={"packet_count": 4})
    acl = table_entry(
        "acl",
        r'match { field_id: 4 exact { value: "\x01" } } priority: 1 '
        "action { action { action_id: <police> } } meter_config { pir: 5 }",
    )
    acl_meter = p4runtime_pb2.DirectMeterEntry(table_entry=acl, config={"pir": 6})
    default = table_entry("keyless", ENTRY[ENTRY.index("action") :] + " is_default_action: true")
    fixed = client.read(table_entry("fixed"))[0]
    fixed.ClearField("action")
    fixed.is_const = False
    fixed.counter_data.packet_count = 3
    client.write(
        (INSERT, table_entry("exact_mac", OTHER)),
        (INSERT, route),
        (INSERT, acl),
        (INSERT, multicast(1)),
        (MODIFY, table_entry("keyless", "is_default_action: true metadata: 'x' " + FORWARD_2)),
    )
    before = everything(client)
    updates = [
        (INSERT, table_entry("exact_mac", ENTRY)),
        (MODIFY, table_entry("exact_mac", OTHER + "metadata: 'new'")),
        (DELETE, table_entry("exact_mac", ENTRY)),
        (INSERT, member),
        (MODIFY, member),
        (INSERT, group),
        (MODIFY, group),
        (DELETE, group),
        (INSERT, one_shot),
        (MODIFY, counter),
        (MODIFY, meter),
        (MODIFY, register),
        (INSERT, clone),
        (MODIFY, clone),
        (MODIFY, multicast(1)),
        (DELETE, multicast(1)),
        (MODIFY, values),
        (INSERT, digest),
        (MODIFY, digest),
        (DELETE, digest),
        (MODIFY, route_counter),
        (MODIFY, acl_meter),
        (MODIFY, acl),
        (MODIFY, default),
        (MODIFY, table_entry("keyless", "is_default_action: true")),
        (MODIFY, fixed),
        (DELETE, route),
    ]
    # Good as they are ...
    bad = p4runtime_pb2.TableEntry(table_id=1)
    with pytest.raises(RpcFailed) as failed:
        client.write(*updates, (INSERT, bad), (INSERT, bad), atomicity=1)
    count = len(updates)
    assert failed.value.codes == [Code.ABORTED] * count + [Code.INVALID_ARGUMENT, Code.ABORTED]
    assert everything(client) == before
    # ... and so is the batch without the bad one.
    client.write(*updates, atomicity=1)
    assert everything(client) != before


FORWARD_2 = r'action { action { action_id: <forward> params { param_id: 1 value: "\x02" } } }'


def test_atomicity_that_is_not_offered(client: Client) -> None:
    for atomicity, code in ((2, Code.UNIMPLEMENTED), (9, Code.INVALID_ARGUMENT)):
        with pytest.raises(RpcFailed) as failed:
            client.write((INSERT, table_entry("exact_mac", ENTRY)), atomicity=atomicity)
        assert failed.value.code is code
    assert client.read(table_entry("exact_mac")) == []


def test_reads_return_what_they_can(client: Client) -> None:
    client.write((INSERT, table_entry("exact_mac", ENTRY)))
    request = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID)
    request.entities.add().table_entry.table_id = BASIC["Main.exact_mac"]
    request.entities.add()
    request.entities.add().table_entry.table_id = 1
    request.entities.add().table_entry.table_id = BASIC["Main.exact_mac"]
    found: list[Any] = []
    with pytest.raises(grpc.RpcError) as raised:
        for response in client.stub.Read(request, timeout=PATIENCE_S):
            found.extend(response.entities)
    failed = RpcFailed(raised.value)
    assert failed.code is Code.UNKNOWN
    assert failed.codes == [Code.OK, Code.INVALID_ARGUMENT, Code.INVALID_ARGUMENT, Code.OK]
    assert [e.table_entry for e in found] == [table_entry("exact_mac", ENTRY)] * 2


def test_a_read_that_nobody_waits_for_ends(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are served one after another: they must not wait for answers to nobody."""

    def endless(*_: object) -> Iterator[Any]:
        while True:
            yield p4runtime_pb2.CounterEntry()

    monkeypatch.setattr(CounterHandler, "read", endless)
    request = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID)
    request.entities.add().counter_entry.SetInParent()
    with pytest.raises(grpc.RpcError):
        list(client.stub.Read(request, timeout=0.1))
    assert client.read(table_entry("exact_mac")) == []


def test_a_batch_with_more_errors_than_can_be_told_says_how_many(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_STATUS_BYTES", 2000)
    update = (DELETE, table_entry("exact_mac", ENTRY))
    for updates, told in ((10, 10), (100, 0)):
        with pytest.raises(RpcFailed) as failed:
            client.write(*[update] * updates)
        assert failed.value.code is Code.UNKNOWN
        assert f"{updates} of {updates} failed, first: Main.exact_mac" in str(failed.value)
        assert len(failed.value.codes) == told


def test_empty_batches(client: Client) -> None:
    client.write()
    assert client.read() == []


# -- robustness ----------------------------------------------------------------------------


def test_unforeseen_exceptions_become_internal(
    switch: Served,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(TableEntryHandler, "insert", explode)
    monkeypatch.setattr(TableEntryHandler, "read", explode)
    entry = table_entry("exact_mac", ENTRY)
    with pytest.raises(RpcFailed) as failed:
        client.write((INSERT, entry), (INSERT, entry))
    assert failed.value.codes == [Code.INTERNAL] * 2
    assert "secret" not in failed.value.details[0].message
    assert client.read_code(entry) is Code.INTERNAL
    # Logged once a kind, with where it comes from.
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert not switch.lock.locked()
    monkeypatch.undo()
    client.write((INSERT, entry))


def test_many_clients_at_once(switch: Served) -> None:
    with primary(switch.address) as client:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for round_ in range(10):
                    mac = bytes([number + 1, round_])
                    entry = table_entry("exact_mac", ENTRY)
                    entry.match[0].exact.value = mac
                    client.write((INSERT, entry))
                    assert client.read(p4runtime_pb2.CounterEntry())
                    client.write((DELETE, entry))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE_S)
        assert errors == []
        assert client.read(table_entry("exact_mac")) == []


def test_streams_come_and_go(switch: Served) -> None:
    for round_ in range(MAX_STREAMS + 10):
        client = Client(switch.address, election_id=round_)
        client.arbitrate()
        if round_ % 3 == 0:
            client.cancel()
        client.close()
    with primary_with(switch, MAX_STREAMS + 100) as client:
        client.set_pipeline()


def primary_with(switch: Served, election_id: int) -> Client:
    client = Client(switch.address, election_id=election_id)
    while client.arbitrate().status.code != Code.OK:
        pass
    return client


def test_bytes_that_are_no_message(
    switch: Served, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for method in ("Write", "Read", "SetForwardingPipelineConfig", "Capabilities"):
        call = client.channel.unary_unary(f"/p4.v1.P4Runtime/{method}")
        for data in (b"\xff" * 50, b"\x0a\x7f", b"\x22\xff\xff\xff\xff\x0f"):
            with pytest.raises(grpc.RpcError) as raised:
                call(data, timeout=PATIENCE_S)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    # One line for each RPC, however many bad messages come.
    assert len(caplog.records) == 4
    with Client(switch.address) as other:
        stream = other.channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")
        with pytest.raises(grpc.RpcError) as raised:
            list(stream(iter([b"\xff" * 50]), timeout=PATIENCE_S))
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    client.write((INSERT, table_entry("exact_mac", ENTRY)))


def test_messages_nested_without_end(client: Client) -> None:
    # Any in Any in Any ..., and a P4Info type that contains itself.
    p4info = load_p4info()
    struct = p4info.type_info.structs["learn_t"]
    member = struct.members.add(name="again")
    member.type_spec.struct.name = "learn_t"
    with pytest.raises(RpcFailed) as failed:
        client.set_pipeline(p4info)
    assert failed.value.code is Code.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[tuple[Served, Client]]:
    with served() as switch, primary(switch.address) as client:
        yield switch, client


def _mutate(message: Any, random: Random) -> None:
    """Change one thing somewhere in a message."""
    fields = message.ListFields()
    if not fields or random.random() < 0.1:
        fields = [(f, getattr(message, f.name)) for f in message.DESCRIPTOR.fields]
        if not fields:
            return
    field, value = random.choice(fields)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if value and random.random() < 0.9:
            key = random.choice(sorted(value))
            _mutate(value[key], random)
        else:
            value.clear()
        return
    repeated = field.label == field.LABEL_REPEATED
    if repeated and value and (action := random.random()) < 0.4:
        if action < 0.2:
            del value[random.randrange(len(value))]
        else:
            value.append(random.choice(value))
    elif field.message_type is not None:
        target = value
        if repeated:
            target = random.choice(value) if value else value.add()
        else:
            target.SetInParent()
        _mutate(target, random)
    else:
        if field.type == field.TYPE_STRING:
            new: Any = random.choice(["", "x", "Main.route", "NoAction"])
        elif field.type == field.TYPE_BYTES:
            new = random.choice([b"", b"x", b"\xff" * 9])
        elif field.type == field.TYPE_BOOL:
            new = random.random() < 0.5
        elif field.type == field.TYPE_ENUM:
            new = random.choice([0, 1, 2, 3, 99])
        else:
            new = random.choice([0, 1, 9, 16, 2**31 - 1, BASIC["Main.route"]])
        if repeated:
            value.append(new)
        else:
            setattr(message, field.name, new)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_no_p4info_is_unforeseen(fuzzed: tuple[Served, Client], seed: int) -> None:
    switch, client = fuzzed
    random = Random(seed)
    p4info = load_p4info()
    for _ in range(random.randrange(1, 4)):
        _mutate(p4info, random)
    try:
        client.set_pipeline(p4info)
    except RpcFailed as failed:
        assert failed.code is Code.INVALID_ARGUMENT, failed
    everything(client)
    assert not switch.lock.locked()


_FUZZED = (
    p4runtime_pb2.TableEntry,
    p4runtime_pb2.ActionProfileMember,
    p4runtime_pb2.ActionProfileGroup,
    p4runtime_pb2.CounterEntry,
    p4runtime_pb2.DirectCounterEntry,
    p4runtime_pb2.MeterEntry,
    p4runtime_pb2.DirectMeterEntry,
    p4runtime_pb2.RegisterEntry,
    p4runtime_pb2.PacketReplicationEngineEntry,
    p4runtime_pb2.ValueSetEntry,
    p4runtime_pb2.DigestEntry,
)


_IDS = st.sampled_from([0, 1, *(BASIC._ids.values()), 2**32 - 1])


def _values(field: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values for a protobuf field: often such that mean something to the basic program."""
    if field.message_type is not None:
        value: st.SearchStrategy[Any] = _messages(field.message_type._concrete_class, depth + 1)
    elif field.type == field.TYPE_BYTES:
        value = st.sampled_from([b"", b"\x00", b"\x01", b"\x02", b"\xff" * 6, b"\xff" * 40])
    elif field.type == field.TYPE_BOOL:
        value = st.booleans()
    elif field.type == field.TYPE_STRING:
        value = st.sampled_from(["", "x"])
    elif field.name.endswith("_id") and field.type == field.TYPE_UINT32:
        value = _IDS
    else:
        limit = 2**31 - 1 if field.type in (field.TYPE_INT32, field.TYPE_UINT32) else 2**63 - 1
        unsigned = field.type in (field.TYPE_UINT32, field.TYPE_UINT64)
        value = st.sampled_from([0, 1, 2, 8, 33, limit, *(() if unsigned else (-1,))])
    if field.label == field.LABEL_REPEATED:
        value = st.lists(value, max_size=3)
    return value


def _messages(cls: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Messages of a protobuf type with some of their fields set."""
    if depth > 5 or cls.DESCRIPTOR.full_name.startswith("google."):
        return st.just(cls())
    fields = {f.name: _values(f, depth) for f in cls.DESCRIPTOR.fields}

    def build(chosen: dict[str, Any]) -> Any:
        return cls(**chosen)

    return st.fixed_dictionaries({}, optional=fields).map(build)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(data=st.data())
def test_no_request_is_unforeseen(fuzzed: tuple[Served, Client], data: st.DataObject) -> None:
    switch, client = fuzzed
    message = data.draw(st.sampled_from(_FUZZED).flatmap(_messages))
    update_type = data.draw(st.sampled_from([INSERT, MODIFY, DELETE]))
    assert client.write_code(update_type, message) is not Code.INTERNAL
    assert client.read_code(message) is not Code.INTERNAL
    assert not switch.lock.locked()
