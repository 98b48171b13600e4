"""A P4Runtime server without a data plane, whose failures a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

Refusal = tuple[int, str]


class FakeSwitch(p4runtime_pb2_grpc.P4RuntimeServicer):  # type: ignore[misc]
    """Holds what is written to it.

    `refuse` says why an update is refused, or None; `forget` which updates are taken and not
    kept; `hang` names an RPC that never answers; `steal_after` is the number of Write requests
    after which somebody else becomes primary.
    """

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.config: Any = None
        self.entities: dict[tuple[Any, ...], Any] = {}
        self.counters: list[Any] = []
        self.refuse: Callable[[Any], Refusal | None] = lambda update: None
        self.forget: Callable[[Any], bool] = lambda update: False
        self.hang: str | None = None
        self.steal_after: int | None = None
        self.rival_election_id: int | None = None
        self.rival_is_gone = False
        self.end_stream = False
        self.pipelines_set = 0
        self.updates_taken = 0
        self.write_requests = 0
        self.arbitrations: list[int] = []
        self._released = threading.Event()

    # --- test side ---

    def release(self) -> None:
        """Lets hanging RPCs go, so that the server can stop."""
        self._released.set()

    def put(self, entity: Any) -> None:
        """Something that was there before."""
        self.entities[_key(entity)] = entity

    def pop(self, matching: Callable[[Any], bool]) -> Any:
        """Takes the first entity that matches away."""
        key = next(key for key, entity in self.entities.items() if matching(entity))
        return self.entities.pop(key)

    def _maybe_hang(self, rpc: str, context: Any) -> None:
        if self.hang == rpc:
            self._released.wait(60)
            context.abort(grpc.StatusCode.CANCELLED, "released")

    # --- P4Runtime ---

    def Capabilities(self, request: Any, context: Any) -> Any:
        self._maybe_hang("Capabilities", context)
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    def StreamChannel(self, requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            if self.hang == "StreamChannel":
                self._maybe_hang("StreamChannel", context)
            if self.end_stream:
                return
            self._check_device(request.arbitration.device_id, context)
            election_id = request.arbitration.election_id.low
            self.arbitrations.append(election_id)
            answer = p4runtime_pb2.StreamMessageResponse()
            answer.arbitration.device_id = self.device_id
            rival = self.rival_election_id
            if rival is not None and rival >= election_id:
                answer.arbitration.election_id.low = rival
                answer.arbitration.status.code = (
                    code_pb2.NOT_FOUND if self.rival_is_gone else code_pb2.ALREADY_EXISTS
                )
            else:
                answer.arbitration.election_id.low = election_id
            yield answer

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self._maybe_hang("SetForwardingPipelineConfig", context)
        self._check_primary(request.election_id.low, context)
        self.config = request.config
        self.entities.clear()
        self.pipelines_set += 1
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self._maybe_hang("GetForwardingPipelineConfig", context)
        self._check_device(request.device_id, context)
        if self.config is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config")
        return p4runtime_pb2.GetForwardingPipelineConfigResponse(config=self.config)

    def Write(self, request: Any, context: Any) -> Any:
        self._maybe_hang("Write", context)
        self._check_primary(request.election_id.low, context)
        if self.steal_after is not None and self.write_requests >= self.steal_after:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")
        self.write_requests += 1
        results = [self._apply(update) for update in request.updates]
        if any(code != code_pb2.OK for code, _ in results):
            _abort_with_details(context, results)
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        self._maybe_hang("Read", context)
        self._check_device(request.device_id, context)
        answer = p4runtime_pb2.ReadResponse()
        for wanted in request.entities:
            if wanted.WhichOneof("entity") == "counter_entry":
                answer.entities.extend(
                    cell
                    for cell in self.counters
                    if cell.counter_entry.counter_id == wanted.counter_entry.counter_id
                )
            answer.entities.extend(e for e in self.entities.values() if _is_of(e, wanted))
        yield answer

    def _apply(self, update: Any) -> Refusal:
        refusal = self.refuse(update)
        if refusal is not None:
            return refusal
        key = _key(update.entity)
        if update.type == p4runtime_pb2.Update.INSERT and key in self.entities:
            return code_pb2.ALREADY_EXISTS, "is there already"
        if update.type != p4runtime_pb2.Update.INSERT and key not in self.entities:
            return code_pb2.NOT_FOUND, "is not there"
        dangling = self._dangling(update)
        if dangling:
            return code_pb2.INVALID_ARGUMENT, dangling
        self.updates_taken += 1
        if self.forget(update):
            return code_pb2.OK, ""
        if update.type == p4runtime_pb2.Update.DELETE:
            del self.entities[key]
        else:
            self.entities[key] = update.entity
        return code_pb2.OK, ""

    def _dangling(self, update: Any) -> str:
        """What a reference would be left without, were the update carried out."""
        entities = dict(self.entities)
        if update.type == p4runtime_pb2.Update.DELETE:
            entities.pop(_key(update.entity), None)
        else:
            entities[_key(update.entity)] = update.entity
        # 0: not a reference
        members, groups = {0}, {0}
        for entity in entities.values():
            members.add(entity.action_profile_member.member_id)
            groups.add(entity.action_profile_group.group_id)
        for entity in entities.values():
            for member in entity.action_profile_group.members:
                if member.member_id not in members:
                    return f"no member {member.member_id}"
            action = entity.table_entry.action
            if action.action_profile_member_id not in members:
                return f"no member {action.action_profile_member_id}"
            if action.action_profile_group_id not in groups:
                return f"no group {action.action_profile_group_id}"
        return ""

    def _check_device(self, device_id: int, context: Any) -> None:
        if device_id != self.device_id:
            context.abort(grpc.StatusCode.NOT_FOUND, f"this is device {self.device_id}")

    def _check_primary(self, election_id: int, context: Any) -> None:
        if not self.arbitrations or election_id != max(self.arbitrations):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")


def _key(entity: Any) -> tuple[Any, ...]:
    kind = entity.WhichOneof("entity")
    if kind == "table_entry":
        entry = entity.table_entry
        matches = sorted(match.SerializeToString() for match in entry.match)
        return (kind, entry.table_id, tuple(matches), entry.priority)
    if kind == "action_profile_member":
        member = entity.action_profile_member
        return (kind, member.action_profile_id, member.member_id)
    group = entity.action_profile_group
    return (kind, group.action_profile_id, group.group_id)


def _is_of(entity: Any, wanted: Any) -> bool:
    kind = wanted.WhichOneof("entity")
    if kind != entity.WhichOneof("entity"):
        return False
    if kind == "table_entry":
        return bool(entity.table_entry.table_id == wanted.table_entry.table_id)
    return bool(getattr(entity, kind).action_profile_id == getattr(wanted, kind).action_profile_id)


def _abort_with_details(context: Any, results: list[Refusal]) -> None:
    status = status_pb2.Status(code=code_pb2.UNKNOWN, message="some updates were refused")
    for code, message in results:
        detail = any_pb2.Any()
        detail.Pack(p4runtime_pb2.Error(canonical_code=code, message=message, space="test"))
        status.details.append(detail)
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(grpc.StatusCode.UNKNOWN, "some updates were refused")


@contextmanager
def serve(switch: FakeSwitch, address: str = "127.0.0.1:0") -> Iterator[str]:
    """Serves a switch; yields where. Port 0 is any free port."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=8),
        # A port that is taken must be refused, not shared
        options=[("grpc.so_reuseport", 0)],
    )
    p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(switch, server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        switch.release()
        server.stop(None).wait()
