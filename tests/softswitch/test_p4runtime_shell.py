"""Unmodified p4runtime-shell drives the switch: every feature it has, against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import p4runtime_sh.shell as sh
import pytest
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeWriteException

from tests.softswitch.p4runtime_support import (
    BASIC,
    BASIC_JSON,
    BASIC_P4INFO,
    DEVICE_ID,
    PATIENCE_S,
    Served,
    served,
)

MAC = "00:11:22:33:44:55"
FRAME = bytes.fromhex("0011223344550a00000000019999") + b"payload"


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture(autouse=True)
def shell(switch: Served) -> Iterator[None]:
    """A shell that has pushed the basic program, as `p4runtime-sh --config` does."""
    config = sh.FwdPipeConfig(str(BASIC_P4INFO), str(BASIC_JSON))
    sh.setup(DEVICE_ID, switch.address, (0, 1), config=config, verbose=False)
    yield
    sh.teardown()


def forward(port: int) -> Any:
    action = sh.Action("Main.forward")
    action["port"] = str(port)
    return action


def exact(port: int | None = None) -> Any:
    entry = sh.TableEntry("Main.exact_mac")
    entry.match["hdr.ethernet.dst"] = MAC
    if port is not None:
        entry.action = forward(port)
    return entry


def test_version_and_p4info() -> None:
    assert sh.APIVersion() == "1.4.1"
    assert sh.context.get_table("Main.exact_mac").preamble.id == BASIC["Main.exact_mac"]


def test_attaching_to_a_configured_switch(switch: Served) -> None:
    exact(3).insert()
    sh.teardown()
    sh.setup(DEVICE_ID, switch.address, (0, 2), verbose=False)
    assert len(list(sh.TableEntry("Main.exact_mac").read())) == 1


def test_backup_may_read(switch: Served, capsys: pytest.CaptureFixture[str]) -> None:
    exact(3).insert()
    first = sh.client
    sh.setup(DEVICE_ID, switch.address, (0, 0), verbose=False)
    try:
        assert "only have read access" in capsys.readouterr().out
        assert len(list(sh.TableEntry("Main.exact_mac").read())) == 1
        with pytest.raises(Exception, match="PERMISSION_DENIED"):
            exact(4).modify()
    finally:
        sh.teardown()
        sh.client = first


def test_exact(switch: Served) -> None:
    exact(3).insert()
    assert switch.receive(1, FRAME) == [(3, FRAME)]
    (entry,) = exact().read()
    assert entry.match["hdr.ethernet.dst"].exact.value == bytes.fromhex("1122334455")
    assert entry.action.action_name == "Main.forward"
    exact(4).modify()
    assert switch.receive(1, FRAME) == [(4, FRAME)]
    exact().delete()
    assert list(exact().read()) == []


def test_errors_are_legible() -> None:
    exact(3).insert()
    with pytest.raises(P4RuntimeWriteException) as raised:
        exact(3).insert()
    assert "At index 0: ALREADY_EXISTS" in str(raised.value)
    with pytest.raises(P4RuntimeException, match=r"Read: 1 of 1 failed.*index 99"):
        list(counter(99).read())


def test_delete_all_entries() -> None:
    for number in range(5):
        entry = exact(3)
        entry.match["hdr.ethernet.dst"] = f"00:00:00:00:00:0{number}"
        entry.insert()
    sh.TableEntry("Main.exact_mac").read(lambda entry: entry.delete())
    assert list(sh.TableEntry("Main.exact_mac").read()) == []


def test_lpm() -> None:
    entry = sh.TableEntry("Main.route")(action="Main.count_route")
    entry.match["hdr.payload.word"] = "10.1.0.0/16"
    entry.action["port"] = "2"
    entry.insert()
    default_route = sh.TableEntry("Main.route")(action="Main.drop")
    default_route.insert()
    found = list(sh.TableEntry("Main.route").read())
    assert [len(e.match._mk) for e in found] == [1, 0]
    assert found[0].match["hdr.payload.word"].lpm.prefix_len == 16


def test_ternary_optional_range() -> None:
    entry = sh.TableEntry("Main.acl")(action="Main.police", priority=7)
    entry.match["hdr.ethernet.ethertype"] = "0x0800&&&0xff00"
    entry.match["hdr.ethernet.src"] = "0a:00:00:00:00:01"
    entry.match["hdr.payload.index"] = "3..9"
    entry.match["ingress_port"] = "1"
    entry.metadata = b"hello"
    entry.insert()
    (found,) = sh.TableEntry("Main.acl").read()
    assert found.priority == 7
    assert found.metadata == b"hello"
    assert found.match["hdr.ethernet.ethertype"].ternary.mask == b"\xff\x00"
    assert found.match["hdr.ethernet.src"].optional.value == bytes.fromhex("0a0000000001")
    assert found.match["hdr.payload.index"].range.high == b"\x09"
    found.delete()
    assert list(sh.TableEntry("Main.acl").read()) == []


def test_default_entry(switch: Served) -> None:
    entry = sh.TableEntry("Main.exact_mac")(is_default=True)
    entry.action = forward(2)
    entry.modify()
    assert switch.receive(1, FRAME) == [(2, FRAME)]
    (found,) = sh.TableEntry("Main.exact_mac")(is_default=True).read()
    assert found.action["port"].value == b"\x02"
    reset = sh.TableEntry("Main.exact_mac")(is_default=True)
    reset.modify()
    (found,) = sh.TableEntry("Main.exact_mac")(is_default=True).read()
    assert found.action.action_name == "NoAction"


def test_const_table() -> None:
    entries = list(sh.TableEntry("Main.fixed").read())
    assert len(entries) == 2
    with pytest.raises(P4RuntimeWriteException, match="PERMISSION_DENIED"):
        entries[0].delete()


# -- action profiles -----------------------------------------------------------------------


def test_members_and_groups(switch: Served) -> None:
    for number in (1, 2):
        sh.ActionProfileMember("Main.ecmp_selector")(
            member_id=number, action=forward(number + 1)
        ).insert()
    group = sh.ActionProfileGroup("Main.ecmp_selector")(group_id=1)
    group.add(1, weight=1).add(2, weight=2, watch_port=b"\x03")
    group.insert()
    (found,) = sh.ActionProfileGroup("Main.ecmp_selector")().read()
    assert [(m.member_id, m.weight, m.watch_port) for m in found.members] == [
        (1, 1, b""),
        (2, 2, b"\x03"),
    ]
    entry = sh.TableEntry("Main.ecmp")
    entry.match["hdr.ethernet.ethertype"] = "0x9999"
    entry.group_id = 1
    entry.insert()
    (read,) = sh.TableEntry("Main.ecmp").read()
    assert read.group_id == 1
    assert len(list(sh.ActionProfileMember("Main.ecmp_selector").read())) == 2
    with pytest.raises(P4RuntimeWriteException, match="FAILED_PRECONDITION"):
        group.delete()
    entry.delete()
    group.delete()


def test_action_profile_without_selector() -> None:
    member = sh.ActionProfileMember("Main.shared_actions")(member_id=9, action=forward(2))
    member.insert()
    entry = sh.TableEntry("Main.indirect")
    entry.match["hdr.payload.index"] = "5"
    entry.member_id = 9
    entry.insert()
    (found,) = sh.TableEntry("Main.indirect").read()
    assert found.member_id == 9


def test_one_shot() -> None:
    entry = sh.TableEntry("Main.ecmp")
    entry.match["hdr.ethernet.ethertype"] = "0x9999"
    entry.oneshot.add(forward(2), weight=1).add(forward(3), weight=2, watch_port=b"\x03")
    entry.insert()
    (found,) = sh.TableEntry("Main.ecmp").read()
    assert [(a.weight, a.watch_port) for a in found.oneshot.actions] == [(1, b""), (2, b"\x03")]
    assert [a.action.action_name for a in found.oneshot.actions] == ["Main.forward"] * 2


# -- counters, meters ----------------------------------------------------------------------


def counter(index: int | None = None) -> Any:
    entry = sh.CounterEntry("Main.port_counter")
    if index is not None:
        entry.index = index
    return entry


def test_counters(switch: Served) -> None:
    exact(3).insert()
    for _ in range(3):
        switch.receive(1, FRAME)
    (found,) = counter(1).read()
    assert (found.packet_count, found.byte_count) == (3, 3 * len(FRAME))
    assert len(list(counter().read())) == 16
    changed = counter(1)
    changed.packet_count = 100
    changed.modify()
    switch.receive(1, FRAME)
    (found,) = counter(1).read()
    assert found.packet_count == 101


def known_payload(word: bytes) -> bytes:
    """A frame whose payload header the program parses, once 0x9999 is in its value set."""
    return FRAME[:14] + word + bytes.fromhex("0040") + bytes.fromhex("0000")


def test_direct_counters(switch: Served) -> None:
    known_types = sh.p4runtime_pb2.Update(type=sh.p4runtime_pb2.Update.MODIFY)
    value_set = known_types.entity.value_set_entry
    value_set.value_set_id = BASIC["MainParser.known_types"]
    value_set.members.add().match.add(field_id=1).exact.value = b"\x99\x99"
    sh.client.write_update(known_types)
    entry = sh.TableEntry("Main.route")(action="Main.count_route")
    entry.match["hdr.payload.word"] = "10.0.0.0/8"
    entry.action["port"] = "2"
    entry.insert()
    frame = known_payload(bytes([10, 1, 2, 3]))
    switch.receive(1, frame)
    direct = sh.DirectCounterEntry("Main.route_counter")
    direct.table_entry = entry
    (found,) = direct.read()
    assert (found.packet_count, found.byte_count) == (1, len(frame))
    direct.packet_count = 50
    direct.modify()
    assert [c.packet_count for c in sh.DirectCounterEntry("Main.route_counter").read()] == [50]
    with_counter = sh.TableEntry("Main.route")
    _ = with_counter.counter_data  # asks for it
    (read,) = with_counter.read()
    assert read.counter_data.packet_count == 50


def test_meters() -> None:
    meter = sh.MeterEntry("Main.port_meter")(cir=1, cburst=2, pir=3, pburst=4)
    meter.index = 5
    meter.modify()
    wanted = sh.MeterEntry("Main.port_meter")
    wanted.index = 5
    (found,) = wanted.read()
    assert (found.cir, found.cburst, found.pir, found.pburst) == (1, 2, 3, 4)
    assert len(list(sh.MeterEntry("Main.port_meter").read())) == 8


def test_direct_meters() -> None:
    entry = sh.TableEntry("Main.acl")(action="Main.police", priority=1)
    entry.match["ingress_port"] = "1"
    entry.insert()
    meter = sh.DirectMeterEntry("Main.acl_meter")(cir=1, cburst=2, pir=3, pburst=4)
    meter.table_entry = entry
    meter.modify()
    (found,) = sh.DirectMeterEntry("Main.acl_meter").read()
    assert (found.cir, found.cburst, found.pir, found.pburst) == (1, 2, 3, 4)


# -- replication, packets, digests ---------------------------------------------------------


def test_multicast(switch: Served) -> None:
    group = sh.MulticastGroupEntry(5)
    group.add(2, 1).add(3, 1)
    group.insert()
    (found,) = sh.MulticastGroupEntry().read()
    assert [(r.egress_port, r.instance) for r in found.replicas] == [(2, 1), (3, 1)]
    entry = exact()
    entry.action = sh.Action("Main.broadcast")
    entry.action["group"] = "5"
    entry.insert()
    assert switch.receive(1, FRAME) == [(2, FRAME), (3, FRAME)]
    group.replicas = []
    group.add(4)
    group.modify()
    assert switch.receive(1, FRAME) == [(4, FRAME)]
    group.delete()
    assert list(sh.MulticastGroupEntry().read()) == []


def test_clone_sessions(switch: Served) -> None:
    session = sh.CloneSessionEntry(100)
    session.add(4, 1)
    session.packet_length_bytes = 20
    session.insert()
    (found,) = sh.CloneSessionEntry().read()
    assert (found.session_id, found.packet_length_bytes) == (100, 20)
    assert [(r.egress_port, r.instance) for r in found.replicas] == [(4, 1)]
    entry = exact()
    entry.action = sh.Action("Main.mirror")
    entry.action["port"] = "2"
    entry.insert()
    assert sorted(switch.receive(1, FRAME)) == [(2, FRAME), (4, FRAME[:20])]


def test_packet_in(switch: Served) -> None:
    packet_in = sh.PacketIn()
    entry = exact()
    entry.action = sh.Action("Main.to_cpu")
    entry.insert()
    switch.receive(2, FRAME)
    packet = packet_in.packet_in_queue.get(timeout=PATIENCE_S).packet
    assert packet.payload == FRAME
    assert packet.metadata[0].value == b"\x02"


def test_packet_out(switch: Served) -> None:
    packet_out = sh.PacketOut(FRAME, egress_port="3")
    packet_out.send()
    # The answer to this comes after the packet was handled.
    sh.client.handshake()
    assert switch.sent() == [(3, FRAME)]


def test_digests(switch: Served) -> None:
    digest_list = sh.DigestList()
    entry = sh.DigestEntry("learn_t")
    entry.max_list_size = 1
    entry.ack_timeout_ns = 10**12
    entry.insert()
    (found,) = sh.DigestEntry("learn_t").read()
    assert found.ack_timeout_ns == 10**12
    switch.receive(2, FRAME)
    digest = digest_list.digest_list_queue.get(timeout=PATIENCE_S).digest
    (data,) = digest.data
    assert data.struct.members[0].bitstring == FRAME[6:12]
    # The shell acknowledges; after that the same message is sent again.
    while digest_list.digest_list_queue.empty():
        switch.receive(2, FRAME)
    entry.delete()
    assert list(sh.DigestEntry("learn_t").read()) == []


def test_idle_timeouts(switch: Served) -> None:
    notifications = sh.IdleTimeoutNotification()
    entry = sh.TableEntry("Main.learned")(action="NoAction", idle_timeout_ns=1000)
    entry.match["hdr.ethernet.src"] = "0a:00:00:00:00:01"
    entry.insert()
    switch.clock.now_ns += 300
    request = sh.TableEntry("Main.learned")
    _ = request.time_since_last_hit  # asks for it
    (found,) = request.read()
    assert found.time_since_last_hit.elapsed_ns == 300
    switch.clock.now_ns += 800
    message = notifications.notification_queue.get(timeout=PATIENCE_S)
    (idle,) = message.idle_timeout_notification.table_entry
    assert idle.match[0].exact.value == bytes.fromhex("0a0000000001")


def test_write_requests_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "entries.txt"
    path.write_text(
        f"updates {{ type: INSERT entity {{ table_entry {{ table_id: {BASIC['Main.exact_mac']} "
        r'match { field_id: 1 exact { value: "\x05" } } '
        f"action {{ action {{ action_id: {BASIC['Main.drop']} }} }} }} }} }}"
    )
    sh.Write(str(path))
    assert len(list(sh.TableEntry("Main.exact_mac").read())) == 1
