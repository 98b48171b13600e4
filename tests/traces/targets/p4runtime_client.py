"""The little of a P4Runtime client that traces need: pipeline, entries, counters."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

from p4src import CompiledProgram
from softswitch.tables import ActionCall, GroupRef, MatchValue, MemberRef
from tests.traces.format import Cell, Trace

START_TIMEOUT_S = 30
CALL_TIMEOUT_S = 30


def encode(value: int) -> bytes:
    """The canonical byte string: as short as can be, at least one byte (P4Runtime, 8.4)."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


class P4RuntimeClient:
    """A primary controller of one switch. A context manager."""

    def __init__(self, address: str, device_id: int) -> None:
        self._device_id = device_id
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.max_receive_message_length", 64 << 20)]
        )
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[p4rt.StreamMessageRequest | None] = queue.SimpleQueue()
        self._election_id = p4rt.Uint128(low=1)
        self._p4info = p4info_pb2.P4Info()

    def connect(self) -> None:
        """Wait for the switch and become primary. Raises grpc errors, or PermissionError."""
        grpc.channel_ready_future(self._channel).result(timeout=START_TIMEOUT_S)
        # Kept, because the stream ends when nobody holds it any more
        self._responses = self._stub.StreamChannel(iter(self._requests.get, None))
        hello = p4rt.StreamMessageRequest()
        hello.arbitration.device_id = self._device_id
        hello.arbitration.election_id.CopyFrom(self._election_id)
        self._requests.put(hello)
        answer = next(self._responses)
        if answer.arbitration.status.code != 0:
            raise PermissionError(f"not primary: {answer.arbitration.status}")

    def close(self) -> None:
        """Hang up."""
        self._requests.put(None)
        self._channel.close()

    def __enter__(self) -> P4RuntimeClient:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_pipeline(self, program: CompiledProgram) -> None:
        """Load a program; its tables and counters are fresh."""
        self._p4info = text_format.Parse(program.p4info_text, p4info_pb2.P4Info())
        request = p4rt.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            election_id=self._election_id,
            action=p4rt.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(self._p4info)
        request.config.p4_device_config = program.json_path.read_bytes()
        self._stub.SetForwardingPipelineConfig(request, timeout=CALL_TIMEOUT_S)

    def program(self, trace: Trace) -> None:
        """Write a trace's action profile members and groups, and its table entries."""
        self._insert(self._entities(trace))

    def counters(
        self, indices: Iterable[int], only: str | None = None
    ) -> dict[Cell, tuple[int, int]]:
        """All counter cells of these indices that are not zero; `only` of the counter so named."""
        request = p4rt.ReadRequest(device_id=self._device_id)
        names = {}
        for counter in self._p4info.counters:
            if only not in (None, counter.preamble.name):
                continue
            names[counter.preamble.id] = counter.preamble.name
            for index in indices:
                entry = request.entities.add().counter_entry
                entry.counter_id = counter.preamble.id
                entry.index.index = index
        found = {}
        for response in self._stub.Read(request, timeout=CALL_TIMEOUT_S):
            for entity in response.entities:
                entry = entity.counter_entry
                if entry.data.packet_count or entry.data.byte_count:
                    cell = (names[entry.counter_id], entry.index.index)
                    found[cell] = (entry.data.packet_count, entry.data.byte_count)
        return found

    def registers(self, indices: Iterable[int]) -> dict[Cell, int]:
        """All register cells of these indices that are not zero. BMv2 does not serve this."""
        request = p4rt.ReadRequest(device_id=self._device_id)
        names = {}
        for register in self._p4info.registers:
            names[register.preamble.id] = register.preamble.name
            for index in indices:
                entry = request.entities.add().register_entry
                entry.register_id = register.preamble.id
                entry.index.index = index
        found = {}
        for response in self._stub.Read(request, timeout=CALL_TIMEOUT_S):
            for entity in response.entities:
                entry = entity.register_entry
                value = int.from_bytes(entry.data.bitstring, "big")
                if value:
                    found[(names[entry.register_id], entry.index.index)] = value
        return found

    # ---- messages --------------------------------------------------------------------------------

    def _insert(self, entities: Iterable[p4rt.Entity]) -> None:
        request = p4rt.WriteRequest(device_id=self._device_id, election_id=self._election_id)
        for entity in entities:
            update = request.updates.add(type=p4rt.Update.INSERT)
            update.entity.CopyFrom(entity)
        self._stub.Write(request, timeout=CALL_TIMEOUT_S)

    def _entities(self, trace: Trace) -> Iterator[p4rt.Entity]:
        profiles = {p.preamble.name: p for p in self._p4info.action_profiles}
        for profile, member_id, call in trace.members:
            entity = p4rt.Entity()
            member = entity.action_profile_member
            member.action_profile_id = profiles[profile].preamble.id
            member.member_id = member_id
            self._action(call, member.action)
            yield entity
        for profile, group_id, member_ids in trace.groups:
            entity = p4rt.Entity()
            group = entity.action_profile_group
            group.action_profile_id = profiles[profile].preamble.id
            group.group_id = group_id
            for member_id in member_ids:
                group.members.add(member_id=member_id, weight=1)
            yield entity
        tables = {t.preamble.name: t for t in self._p4info.tables}
        for name, wanted in trace.entries:
            table = tables[name]
            entity = p4rt.Entity()
            entry = entity.table_entry
            entry.table_id = table.preamble.id
            for field, value in zip(table.match_fields, wanted.match, strict=True):
                self._match(entry, field, value)
            if isinstance(wanted.target, ActionCall):
                self._action(wanted.target, entry.action.action)
            elif isinstance(wanted.target, MemberRef):
                entry.action.action_profile_member_id = wanted.target.member_id
            elif isinstance(wanted.target, GroupRef):
                entry.action.action_profile_group_id = wanted.target.group_id
            yield entity

    @staticmethod
    def _match(entry: p4rt.TableEntry, field: p4info_pb2.MatchField, value: MatchValue) -> None:
        if field.match_type == p4info_pb2.MatchField.EXACT:
            assert isinstance(value, int)
            entry.match.add(field_id=field.id).exact.value = encode(value)
        elif field.match_type == p4info_pb2.MatchField.LPM:
            assert isinstance(value, tuple)
            if value[1]:
                lpm = entry.match.add(field_id=field.id).lpm
                lpm.value, lpm.prefix_len = encode(value[0]), value[1]
        else:
            raise NotImplementedError(f"match type of {field.name}")

    def _action(self, call: ActionCall, message: p4rt.Action) -> None:
        action = next(a for a in self._p4info.actions if a.preamble.name == call.action)
        message.action_id = action.preamble.id
        for param, value in zip(action.params, call.args, strict=True):
            message.params.add(param_id=param.id, value=encode(value))
