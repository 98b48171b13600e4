"""Installing, verifying and every way in which a switch may fail at it."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from controller import fabric_program as p4
from controller.client import (
    INSERT,
    NoPipelineError,
    Pipeline,
    SwitchClient,
    SwitchError,
    WriteError,
)
from controller.codec import encode
from controller.entries import (
    ActionCall,
    Entity,
    Group,
    GroupRef,
    Member,
    MemberRef,
    TableEntry,
)
from controller.fleet import Connection, for_each_switch
from controller.install import Installed, WrongPipelineError, install, verify
from controller.p4info import Schema
from controller.plan import SwitchPlan
from controller.targets import Target
from tests.controller.fake_switch import FakeSwitch, serve

#: For RPCs that never answer; every other RPC is far from it
HANG_TIMEOUT_S = 0.5


def run_install(
    address: str, pipeline: Pipeline, switch_plan: SwitchPlan, **options: Any
) -> Installed:
    with SwitchClient(address, switch_plan.switch.device_id, **options) as client:
        return install(client, pipeline, switch_plan)


def test_first_time_everything_second_time_nothing(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    wanted = len(list(t0_plan.entities()))
    assert run_install(fake_address, pipeline, t0_plan) == Installed(True, wanted, 0, wanted)
    assert len(fake.entities) == wanted
    taken, requests = fake.updates_taken, fake.write_requests

    assert run_install(fake_address, pipeline, t0_plan) == Installed(False, 0, 0, wanted)
    assert fake.pipelines_set == 1
    assert (fake.updates_taken, fake.write_requests) == (taken, requests)


def test_only_what_differs_is_written(
    fake: FakeSwitch,
    fake_address: str,
    pipeline: Pipeline,
    t0_plan: SwitchPlan,
    schema: Schema,
) -> None:
    run_install(fake_address, pipeline, t0_plan)
    before, planned = fake.updates_taken, dict(fake.entities)

    # One entry changed, one gone, and a stale rack: member, group, and an entry behind it
    stale: list[Entity] = [
        Member(p4.ECMP, 77, ActionCall(p4.ROUTE_TO_PORT.name, (9,))),
        Group(p4.ECMP, 7, ((77, 1),)),
        TableEntry(p4.IPV6_ROUTE.name, ((0x20 << 120, 8),), GroupRef(7)),
    ]
    for entity in stale:
        fake.put(encode(entity, schema))
    table_id = schema.tables.name(p4.TRIM_SIZE.name).id
    fake.pop(lambda entity: entity.table_entry.table_id == table_id)
    fake.put(encode(TableEntry(p4.NEXT_SID.name, (t0_sid(t0_plan),),
                               ActionCall(p4.SID_TO_PORT.name, (400,))), schema))  # fmt: skip
    # The planned uplinks' group now holds the stale member too
    fake.put(encode(Group(p4.ECMP, 1, ((3, 1), (77, 1))), schema))

    result = run_install(fake_address, pipeline, t0_plan)
    assert (result.pipeline_set, result.written, result.deleted) == (False, 3, 3)
    assert fake.updates_taken - before == 6
    assert fake.entities == planned


def t0_sid(t0_plan: SwitchPlan) -> int:
    port = next(iter(t0_plan.fabric.ports(t0_plan.switch.id)))
    return t0_plan.fabric.addresses.sid(port.next_usid)


def test_another_program_is_replaced(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    run_install(fake_address, replace(pipeline, cookie=5), t0_plan)
    result = run_install(fake_address, pipeline, t0_plan)
    assert result.pipeline_set
    assert result.written == result.entries
    assert fake.config.cookie.cookie == pipeline.cookie


def test_verify_tells_missing_extra_and_changed(
    fake: FakeSwitch,
    fake_address: str,
    pipeline: Pipeline,
    t0_plan: SwitchPlan,
    schema: Schema,
) -> None:
    run_install(fake_address, pipeline, t0_plan)
    taken = fake.updates_taken
    with SwitchClient(fake_address, t0_plan.switch.device_id) as client:
        assert not verify(client, pipeline, t0_plan)
        table_id = schema.tables.name(p4.MY_SID.name).id
        fake.pop(lambda entity: entity.table_entry.table_id == table_id)
        fake.put(encode(TableEntry(p4.NEXT_SID.name, (0x5F0000001FFF,),
                                   ActionCall(p4.SID_TO_PORT.name, (3,))), schema))  # fmt: skip
        fake.put(encode(Member(p4.ECMP, 1, ActionCall(p4.ROUTE_TO_PORT.name, (9,))), schema))
        assert verify(client, pipeline, t0_plan).lines(schema) == [
            "missing FabricIngress.srv6.my_sid[sid=5f00:0:800::/48] → un()",
            "extra FabricIngress.srv6.next_sid[sid=5f00:0:1fff::/48] → to_port(egress_port=3)",
            "changed FabricIngress.routing.ecmp[member 1] → to_port(egress_port=9) "
            "instead of to_port(egress_port=0)",
        ]
    assert fake.updates_taken == taken, "verifying must not write"
    assert len(fake.arbitrations) == 1, "verifying needs no primary"


def test_verify_names_the_wrong_program(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    with SwitchClient(fake_address, t0_plan.switch.device_id) as client:
        with pytest.raises(WrongPipelineError, match="has no program: install it"):
            verify(client, pipeline, t0_plan)
        run_install(fake_address, replace(pipeline, cookie=5), t0_plan)
        with pytest.raises(WrongPipelineError, match="another program: cookie 0x5 instead of 0x"):
            verify(client, pipeline, t0_plan)


def test_a_refused_entry_is_named_and_the_rest_is_written(
    fake: FakeSwitch,
    fake_address: str,
    pipeline: Pipeline,
    t0_plan: SwitchPlan,
    schema: Schema,
) -> None:
    table_id = schema.tables.name(p4.LOCATOR_BLOCK.name).id

    def full(update: Any) -> tuple[int, str] | None:
        if update.entity.table_entry.table_id == table_id:
            return code_pb2.RESOURCE_EXHAUSTED, "table is full"
        return None

    fake.refuse = full
    with pytest.raises(WriteError) as raised:
        run_install(fake_address, pipeline, t0_plan)
    entries = sum(isinstance(entity, TableEntry) for entity in t0_plan.entities())
    assert str(raised.value) == (
        f"refused 1 of {entries} updates: "
        "insert FabricIngress.srv6.locator_block[block=5f00::/32]: "
        "RESOURCE_EXHAUSTED: table is full"
    )
    assert len(fake.entities) == len(list(t0_plan.entities())) - 1


def test_many_refusals_make_one_line(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.refuse = lambda update: (code_pb2.INVALID_ARGUMENT, "")
    with pytest.raises(WriteError, match=r"refused 4 of 4 updates: insert .*\(and 3 more\)"):
        run_install(fake_address, pipeline, t0_plan)


def test_what_reads_back_otherwise_is_a_failure(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan, schema: Schema
) -> None:
    table_id = schema.tables.name(p4.NEXT_SID.name).id
    fake.forget = lambda update: update.entity.table_entry.table_id == table_id
    with pytest.raises(SwitchError, match="reads back 4 entries other than written: missing"):
        run_install(fake_address, pipeline, t0_plan)


def test_another_primary(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.rival_election_id = 7
    with pytest.raises(SwitchError) as raised:
        run_install(fake_address, pipeline, t0_plan)
    assert str(raised.value) == (
        "another controller is primary with election id 7, ours is 1: "
        "wait for it, or give a higher --election-id"
    )
    assert fake.pipelines_set == 0
    assert run_install(fake_address, pipeline, t0_plan, election_id=8).pipeline_set


def test_a_primary_that_is_gone_is_not_waited_for(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.rival_election_id, fake.rival_is_gone = 7, True
    with pytest.raises(SwitchError) as raised:
        run_install(fake_address, pipeline, t0_plan)
    assert str(raised.value) == (
        "an earlier primary had election id 7, ours is 1: give at least that as --election-id"
    )


def test_primary_lost_half_way(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.steal_after = 1
    with pytest.raises(SwitchError) as raised:
        run_install(fake_address, pipeline, t0_plan)
    assert str(raised.value) == "is no longer ours: another controller has become primary"


@pytest.mark.parametrize(
    "rpc", ["StreamChannel", "GetForwardingPipelineConfig", "SetForwardingPipelineConfig", "Write",
            "Read"],
)  # fmt: skip
def test_a_switch_that_hangs(
    rpc: str, fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.hang = rpc
    with pytest.raises(SwitchError, match=r"did not answer within 0\.5 s"):
        run_install(fake_address, pipeline, t0_plan, timeout_s=HANG_TIMEOUT_S)


def test_a_switch_that_takes_connections_and_says_nothing(
    fake: FakeSwitch, fake_address: str
) -> None:
    fake.hang = "Capabilities"
    target = Target("p0-t0-0", fake_address, fake.device_id)
    outcome = for_each_switch(
        [target], lambda client, target: None, Connection(timeout_s=HANG_TIMEOUT_S)
    )
    assert outcome.failed == {"p0-t0-0": f"p0-t0-0 ({fake_address}) did not answer within 0.5 s"}


def test_a_switch_that_ends_the_session(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    fake.end_stream = True
    with pytest.raises(SwitchError, match="ended the session instead of answering"):
        run_install(fake_address, pipeline, t0_plan)


def test_the_wrong_device(fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan) -> None:
    with (
        SwitchClient(fake_address, 5) as client,
        pytest.raises(SwitchError, match="is not device 5: this is device 2048"),
    ):
        install(client, pipeline, t0_plan)


def test_const_and_default_entries_are_not_ours(
    fake: FakeSwitch,
    fake_address: str,
    pipeline: Pipeline,
    t0_plan: SwitchPlan,
    schema: Schema,
) -> None:
    run_install(fake_address, pipeline, t0_plan)
    for number, flag in enumerate(("is_const", "is_default_action")):
        entry = encode(TableEntry(p4.TRIM_SIZE.name, (200 + number,),
                                  ActionCall(p4.KEEP.name, (1,))), schema)  # fmt: skip
        setattr(entry.table_entry, flag, True)
        fake.put(entry)
    with SwitchClient(fake_address, t0_plan.switch.device_id) as client:
        assert not verify(client, pipeline, t0_plan)


def test_large_tables_go_in_several_batches(
    fake: FakeSwitch, fake_address: str, schema: Schema, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    run_install(fake_address, pipeline, t0_plan)
    entries = [
        TableEntry(p4.NEXT_SID.name, (number,), ActionCall(p4.SID_TO_PORT.name, (1,)))
        for number in range(600)
    ]
    before = fake.write_requests
    refused = {0, 300, 599}
    sids = {number: encode(entries[number], schema).table_entry for number in refused}
    fake.refuse = lambda update: (
        (code_pb2.ABORTED, "no") if update.entity.table_entry in sids.values() else None
    )
    with SwitchClient(fake_address, t0_plan.switch.device_id, election_id=2) as client:
        client.become_primary()
        with pytest.raises(WriteError) as raised:
            client.write(INSERT, entries, schema)
    assert len(raised.value.refused) == 3
    assert raised.value.accepted == 597
    assert fake.write_requests - before == 3


def test_counters_come_with_names(
    fake: FakeSwitch, fake_address: str, pipeline: Pipeline, t0_plan: SwitchPlan, schema: Schema
) -> None:
    with SwitchClient(fake_address, t0_plan.switch.device_id) as client:
        with pytest.raises(NoPipelineError):
            client.schema()
        run_install(fake_address, pipeline, t0_plan)
        cell = p4runtime_pb2.Entity()
        cell.counter_entry.counter_id = schema.counters.name("FabricIngress.received").id
        cell.counter_entry.index.index = 3
        cell.counter_entry.data.packet_count = 5
        cell.counter_entry.data.byte_count = 600
        fake.counters.append(cell)
        (read,) = client.read_counters(client.schema())
    assert (read.counter, read.index, read.packets, read.bytes) == (
        "FabricIngress.received", 3, 5, 600,
    )  # fmt: skip


# --- many switches ---


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_one_that_does_not_answer_is_named_and_the_rest_are_done(
    fake: FakeSwitch, fake_address: str
) -> None:
    dead = f"127.0.0.1:{free_port()}"
    targets = [
        Target("p0-t0-1", dead, 1),
        Target("p0-t0-0", fake_address, fake.device_id),
        Target("p0-t1-0", "unix:/nonexistent/switch.sock", 2),
    ]
    steps: list[None] = []
    outcome = for_each_switch(
        targets,
        lambda client, target: target.name,
        Connection(),
        progress=lambda: steps.append(None),
    )
    assert outcome.done == {"p0-t0-0": "p0-t0-0"}
    assert list(outcome.failed) == ["p0-t0-1", "p0-t1-0"]
    assert outcome.failed["p0-t0-1"] == f"p0-t0-1 ({dead}) does not answer: Connection refused"
    assert outcome.failed["p0-t1-0"] == (
        "p0-t1-0 (unix:/nonexistent/switch.sock) does not answer: No such file or directory"
    )
    assert len(steps) == 3


def test_unix_sockets(
    fake: FakeSwitch, tmp_path: Path, pipeline: Pipeline, t0_plan: SwitchPlan
) -> None:
    address = f"unix:{tmp_path}/p0-t0-0.sock"
    with serve(fake, address):
        assert run_install(address, pipeline, t0_plan).pipeline_set


def test_waits_for_a_switch_that_is_still_starting(fake: FakeSwitch, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/late.sock"
    outcome = {}

    def work(client: SwitchClient, target: Target) -> str:
        return "reached"

    late = [Target("late", address, fake.device_id)]
    # Not there yet: without waiting it fails at once
    assert for_each_switch(late, work, Connection()).failed
    started = threading.Event()

    def install_late() -> None:
        started.set()
        outcome["late"] = for_each_switch(late, work, Connection(wait_s=60)).done

    thread = threading.Thread(target=install_late)
    thread.start()
    started.wait()
    with serve(fake, address):
        thread.join(60)
    assert outcome["late"] == {"late": "reached"}


def test_a_member_of_a_plan_can_be_referred_to(schema: Schema) -> None:
    entry = TableEntry(p4.IPV6_ROUTE.name, ((0, 0),), MemberRef(3))
    assert encode(entry, schema).table_entry.action.action_profile_member_id == 3
