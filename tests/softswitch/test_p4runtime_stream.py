"""Packet I/O, digests and idle timeouts: real packets in the switch, messages on the stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import ERROR_SPACE, Code
from tests.softswitch.p4runtime_support import (
    BASIC,
    INSERT,
    MODIFY,
    Client,
    RpcFailed,
    Served,
    primary,
    served,
    table_entry,
)

MAC = bytes.fromhex("001122334455")
SOURCE = bytes.fromhex("0a0000000001")
FRAME = MAC + SOURCE + b"\x99\x99" + b"payload"
TO_CPU = (
    r'match { field_id: 1 exact { value: "\x11\x22\x33\x44\x55" } } '
    "action { action { action_id: <to_cpu> } }"
)
LEARN_ID = BASIC["learn_t"]


@pytest.fixture
def switch() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(switch: Served) -> Iterator[Client]:
    with primary(switch.address) as controller:
        yield controller


def request(text: str) -> Any:
    return text_format.Parse(text, p4runtime_pb2.StreamMessageRequest())


def packet_out(port: int, payload: bytes) -> Any:
    message = p4runtime_pb2.StreamMessageRequest()
    message.packet.payload = payload
    message.packet.metadata.add(metadata_id=1, value=bytes([port]))
    message.packet.metadata.add(metadata_id=2, value=b"\x00")
    return message


def settle(client: Client) -> None:
    """Return when everything sent on the stream before has been handled: the stream keeps order."""
    client.arbitrate()


# -- packets -------------------------------------------------------------------------------


def test_packet_in(switch: Served, client: Client) -> None:
    client.write((INSERT, table_entry("exact_mac", TO_CPU)))
    assert switch.receive(2, FRAME) == []
    packet = client.next("packet")
    assert packet.payload == FRAME
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [
        (1, b"\x02"),
        (2, b"\x00"),
        (3, b"\x00"),
    ]


def test_packet_in_goes_to_the_primary_only(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=0) as backup:
        backup.arbitrate()
        client.write((INSERT, table_entry("exact_mac", TO_CPU)))
        switch.receive(2, FRAME)
        assert client.next("packet").payload == FRAME
        # The backup becomes primary: what it hears next is that, and no packet.
        assert backup.arbitrate(election_id=9).status.code == Code.OK
        switch.receive(1, FRAME)
        assert backup.next("packet").metadata[0].value == b"\x01"


def test_packet_in_without_a_controller(switch: Served) -> None:
    with primary(switch.address) as client:
        client.write((INSERT, table_entry("exact_mac", TO_CPU)))
    with Client(switch.address, election_id=0) as backup:
        backup.arbitrate()  # the primary is gone by now or loses its stream meanwhile
        assert switch.receive(2, FRAME) == []


def test_packets_that_no_controller_takes_are_counted(switch: Served, client: Client) -> None:
    learn(client, "max_list_size: 1")
    client.write((INSERT, table_entry("exact_mac", TO_CPU)))
    client.half_close()
    client.next("end")
    switch.receive(2, FRAME)
    assert switch.server.undelivered == {"packet_in": 1, "digest": 1}


def test_packet_out(switch: Served, client: Client) -> None:
    client.send(packet_out(3, FRAME))
    settle(client)
    assert switch.sent() == [(3, FRAME)]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Code.INVALID_ARGUMENT, "packet { payload: 'x' }"),
        (
            Code.INVALID_ARGUMENT,
            r"packet { metadata { metadata_id: 1 value: '\x01' } "
            r"metadata { metadata_id: 7 value: '\x01' } }",
        ),
        (
            Code.OUT_OF_RANGE,
            r"packet { metadata { metadata_id: 1 value: '\xff\xff' } "
            r"metadata { metadata_id: 2 value: '\x00' } }",
        ),
    ],
)
def test_packet_out_that_does_not_fit(
    switch: Served, client: Client, code: Code, text: str
) -> None:
    client.send(request(text))
    error = client.next("error")
    assert error.canonical_code == code
    assert error.message
    assert error.space == ERROR_SPACE
    assert error.packet_out.packet_out == request(text).packet
    # The stream goes on.
    client.send(packet_out(3, FRAME))
    settle(client)
    assert switch.sent() == [(3, FRAME)]


def test_packet_out_of_a_backup(switch: Served, client: Client) -> None:
    with Client(switch.address, election_id=0) as backup:
        for arbitrated in (False, True):
            if arbitrated:
                backup.arbitrate()
            backup.send(packet_out(3, FRAME))
            assert backup.next("error").canonical_code == Code.PERMISSION_DENIED
    assert switch.sent() == []


def test_packet_out_without_pipeline_or_cpu_port() -> None:
    with served(cpu_port=None) as switch, primary(switch.address, with_pipeline=False) as client:
        client.send(packet_out(3, FRAME))
        assert client.next("error").canonical_code == Code.FAILED_PRECONDITION
        client.set_pipeline()
        client.send(packet_out(3, FRAME))
        error = client.next("error")
        assert error.canonical_code == Code.FAILED_PRECONDITION
        assert "CPU port" in error.message


@pytest.mark.parametrize(
    ("code", "text", "details"),
    [
        (Code.INVALID_ARGUMENT, "", "other"),
        (Code.UNIMPLEMENTED, "other { type_url: 'x' }", "other"),
        (Code.INVALID_ARGUMENT, "digest_ack { digest_id: 5 }", "digest_list_ack"),
    ],
)
def test_other_stream_errors(client: Client, code: Code, text: str, details: str) -> None:
    client.send(request(text))
    error = client.next("error")
    assert error.canonical_code == code
    assert error.WhichOneof("details") == details


def test_client_that_has_nothing_more_to_say(switch: Served, client: Client) -> None:
    client.half_close()
    client.next("end")
    with pytest.raises(RpcFailed) as failed:
        client.write((INSERT, table_entry("exact_mac", TO_CPU)))
    assert failed.value.code is Code.PERMISSION_DENIED


# -- replication ---------------------------------------------------------------------------


def test_multicast_and_clone(switch: Served, client: Client) -> None:
    group = p4runtime_pb2.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 5
    group.multicast_group_entry.replicas.add(port=b"\x02", instance=1)
    group.multicast_group_entry.replicas.add(port=b"\x03", instance=1)
    session = p4runtime_pb2.PacketReplicationEngineEntry()
    session.clone_session_entry.session_id = 100
    session.clone_session_entry.replicas.add(egress_port=64, instance=1)
    client.write((INSERT, group), (INSERT, session))
    client.write(
        (
            INSERT,
            table_entry(
                "exact_mac",
                r'match { field_id: 1 exact { value: "\x11\x22\x33\x44\x55" } } action { action {'
                r' action_id: <broadcast> params { param_id: 1 value: "\x05" } } }',
            ),
        )
    )
    assert switch.receive(1, FRAME) == [(2, FRAME), (3, FRAME)]
    client.write(
        (
            MODIFY,
            table_entry(
                "exact_mac",
                r'match { field_id: 1 exact { value: "\x11\x22\x33\x44\x55" } } action { action {'
                r' action_id: <mirror> params { param_id: 1 value: "\x04" } } }',
            ),
        )
    )
    assert switch.receive(1, FRAME) == [(4, FRAME)]
    packet = client.next("packet")
    assert packet.payload == FRAME
    assert packet.metadata[1].value == b"\x01"  # is_clone


# -- digests -------------------------------------------------------------------------------


def learn(client: Client, text: str) -> None:
    client.write((INSERT, p4runtime_pb2.DigestEntry(digest_id=LEARN_ID, config=text_config(text))))


def text_config(text: str) -> Any:
    return text_format.Parse(text, p4runtime_pb2.DigestEntry.Config())


def frame_from(number: int) -> bytes:
    return MAC + number.to_bytes(6, "big") + b"\x99\x99"


def sources(digest: Any) -> list[int]:
    assert digest.digest_id == LEARN_ID
    return [int.from_bytes(d.struct.members[0].bitstring, "big") for d in digest.data]


def digest_ack(list_id: int) -> Any:
    message = p4runtime_pb2.StreamMessageRequest()
    message.digest_ack.digest_id = LEARN_ID
    message.digest_ack.list_id = list_id
    return message


def test_digest(switch: Served, client: Client) -> None:
    learn(client, "max_list_size: 1")
    switch.receive(2, FRAME)
    digest = client.next("digest")
    assert digest.list_id > 0
    assert digest.timestamp > 1_600_000_000_000_000_000  # since the epoch
    (data,) = digest.data
    assert [m.bitstring for m in data.struct.members] == [SOURCE, b"\x02"]


def test_no_digest_until_enabled(switch: Served, client: Client) -> None:
    switch.receive(2, frame_from(1))
    learn(client, "max_list_size: 1")
    switch.receive(2, frame_from(2))
    assert sources(client.next("digest")) == [2]


def test_digest_list_size_and_duplicates(switch: Served, client: Client) -> None:
    learn(client, "max_timeout_ns: 1000000000000 max_list_size: 3")
    for number in (1, 2, 2, 1, 3, 4):
        switch.receive(2, frame_from(number))
    assert sources(client.next("digest")) == [1, 2, 3]


def test_digest_timeout(switch: Served, client: Client) -> None:
    learn(client, "max_timeout_ns: 1000 max_list_size: 100")
    switch.receive(2, frame_from(1))
    switch.clock.now_ns += 2000
    assert sources(client.next("digest")) == [1]


def test_digest_acknowledgement(switch: Served, client: Client) -> None:
    learn(client, "max_list_size: 1 ack_timeout_ns: 1000000000000")
    switch.receive(2, frame_from(1))
    first = client.next("digest")
    switch.receive(2, frame_from(1))  # unacknowledged: not sent again
    switch.receive(2, frame_from(2))
    assert sources(client.next("digest")) == [2]
    client.send(digest_ack(first.list_id))
    client.send(digest_ack(12345))  # acknowledging what is not waiting is no error
    settle(client)
    switch.receive(2, frame_from(2))  # still unacknowledged
    switch.receive(2, frame_from(1))
    assert sources(client.next("digest")) == [1]


def test_digest_while_nobody_is_primary(switch: Served) -> None:
    with primary(switch.address) as client:
        learn(client, "max_list_size: 1 ack_timeout_ns: 1000000000000")
        client.half_close()
        client.next("end")
        switch.receive(2, frame_from(1))
    with Client(switch.address, election_id=2) as second:
        second.arbitrate()
        # It was never delivered, and a new primary is told again.
        switch.receive(2, frame_from(1))
        assert sources(second.next("digest")) == [1]


# -- idle timeouts -------------------------------------------------------------------------

LEARNED = (
    r'match { field_id: 1 exact { value: "\x0a\x00\x00\x00\x00\x01" } } '
    "action { action { action_id: <NoAction> } } idle_timeout_ns: 1000 "
    "metadata: 'm' controller_metadata: 5"
)


def test_idle_timeout(switch: Served, client: Client) -> None:
    client.write((INSERT, table_entry("learned", LEARNED)))
    switch.clock.now_ns += 900
    switch.receive(2, FRAME)  # a hit starts the timeout again
    switch.clock.now_ns += 900
    (entry,) = client.read(table_entry("learned", "time_since_last_hit { }"))
    assert entry.time_since_last_hit.elapsed_ns == 900
    switch.clock.now_ns += 200
    notification = client.next("idle_timeout_notification")
    (idle,) = notification.table_entry
    wanted = table_entry("learned", LEARNED)
    wanted.ClearField("action")
    assert idle == wanted
    assert notification.timestamp > 1_600_000_000_000_000_000
    # And again after another timeout; the entry stays where it is.
    assert len(client.read(table_entry("learned"))) == 1
    switch.clock.now_ns += 1000
    assert client.next("idle_timeout_notification").table_entry[0] == wanted


def test_no_idle_timeout_without_ttl(switch: Served, client: Client) -> None:
    text = LEARNED.replace("idle_timeout_ns: 1000 ", "")
    client.write((INSERT, table_entry("learned", text)))
    other = LEARNED.replace(r"\x00\x01", r"\x00\x02")
    client.write((INSERT, table_entry("learned", other)))
    switch.clock.now_ns += 5000
    notification = client.next("idle_timeout_notification")
    assert [e.match[0].exact.value[-1] for e in notification.table_entry] == [2]
