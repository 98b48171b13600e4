"""A P4Runtime client for one switch: thin, synchronous, every RPC with a deadline.

Errors are `SwitchError`s of one line each, without the switch's name, which the caller knows.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from controller.codec import decode, encode
from controller.entries import Entity
from controller.p4info import Schema
from controller.text import describe

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_ELECTION_ID = 1

#: Updates per Write: large enough that round trips do not count, small enough for any server
_BATCH = 256
_RETRY_S = 0.1
#: What a switch that is still starting answers
_NOT_YET = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # Errors of every update of a batch come in the trailing metadata
    ("grpc.max_metadata_size", 1024 * 1024),
    ("grpc.absolute_max_metadata_size", 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Also how long one attempt to connect may take: a switch on a busy machine needs its time
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Addresses are loopback, sockets or a management network: never through a proxy
    ("grpc.enable_http_proxy", 0),
    # Two clients of one process are two clients
    ("grpc.use_local_subchannel_pool", 1),
)


class SwitchError(Exception):
    """What went wrong with a switch, in one line."""


class NoPipelineError(SwitchError):
    """The switch has no program yet."""


class WriteError(SwitchError):
    """Updates that a switch refused: one line each in `refused`, and how many it took."""

    def __init__(self, refused: Sequence[str], accepted: int) -> None:
        first = refused[0] if refused else "no reason given"
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        super().__init__(f"refused {len(refused)} of {len(refused) + accepted} updates: "
                         f"{first}{more}")  # fmt: skip
        self.refused = tuple(refused)
        self.accepted = accepted


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled program: P4Info, what the target loads, and a cookie that tells them apart."""

    p4info: Any
    device_config: bytes
    cookie: int


@dataclass(frozen=True, slots=True)
class CounterCell:
    """One cell of a counter."""

    counter: str
    index: int
    packets: int
    bytes: int


INSERT = p4runtime_pb2.Update.INSERT
MODIFY = p4runtime_pb2.Update.MODIFY
DELETE = p4runtime_pb2.Update.DELETE


class SwitchClient:
    """A connection to one switch. A context manager; `become_primary` before writing."""

    def __init__(
        self,
        address: str,
        device_id: int,
        *,
        election_id: int = DEFAULT_ELECTION_ID,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.address = address
        self.device_id = device_id
        self.timeout_s = timeout_s
        self._election_id = p4runtime_pb2.Uint128(
            high=election_id >> 64, low=election_id & (1 << 64) - 1
        )
        self._channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; the switch may elect another primary."""
        self._requests.put(None)
        if self._stream is not None:
            self._stream.cancel()
        self._channel.close()

    # --- session ---

    def wait_until_up(self, wait_s: float) -> None:
        """Returns once the switch answers; raises SwitchError when it does not within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=self.timeout_s)
                return
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                if error.code() not in _NOT_YET or time.monotonic() > deadline:
                    raise self._error(error) from None
            time.sleep(_RETRY_S)

    def become_primary(self) -> None:
        """Opens the stream and is elected. Raises SwitchError where another client is primary."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=_drain, args=(self._stream, answers), daemon=True).start()
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.CopyFrom(self._election_id)
        self._requests.put(request)
        try:
            answer = answers.get(timeout=self.timeout_s)
        except queue.Empty:
            raise SwitchError(f"did not answer within {self.timeout_s:g} s (arbitration)") from None
        if isinstance(answer, grpc.RpcError):
            raise self._error(answer) from None
        if answer is None or not answer.HasField("arbitration"):
            raise SwitchError("ended the session instead of answering")
        if answer.arbitration.status.code != code_pb2.OK:
            theirs, ours = _number(answer.arbitration.election_id), _number(self._election_id)
            if answer.arbitration.status.code == code_pb2.NOT_FOUND:
                raise SwitchError(
                    f"an earlier primary had election id {theirs}, ours is {ours}: "
                    "give at least that as --election-id"
                )
            raise SwitchError(
                f"another controller is primary with election id {theirs}, ours is {ours}: "
                "wait for it, or give a higher --election-id"
            )

    # --- pipeline ---

    def cookie(self) -> int:
        """The cookie of the program that runs. Raises NoPipelineError where none does."""
        return int(self._get_pipeline("COOKIE_ONLY").cookie.cookie)

    def schema(self) -> Schema:
        """What the switch says of the program that runs. Raises NoPipelineError where none does."""
        return Schema(self._get_pipeline("P4INFO_AND_COOKIE").p4info)

    def _get_pipeline(self, what: str) -> Any:
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            response_type=p4runtime_pb2.GetForwardingPipelineConfigRequest.ResponseType.Value(what),
        )
        try:
            answer = self._stub.GetForwardingPipelineConfig(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise NoPipelineError("has no program") from None
            raise self._error(error) from None
        if not answer.HasField("config"):
            raise NoPipelineError("has no program")
        return answer.config

    def set_pipeline(self, pipeline: Pipeline) -> None:
        """Loads a program; all entries of the one before are gone."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=self._election_id,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(pipeline.p4info)
        request.config.p4_device_config = pipeline.device_config
        request.config.cookie.cookie = pipeline.cookie
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            raise self._error(error) from None

    # --- entries ---

    def write(self, kind: int, entities: Iterable[Entity], schema: Schema) -> int:
        """Inserts, modifies or deletes (`kind`) entries, in batches; how many were taken.

        Every batch is tried; raises WriteError where any update was refused, and SwitchError at
        once where the switch fails or another client has become primary.
        """
        batch: list[Entity] = []
        written, refused = 0, list[str]()
        for entity in entities:
            batch.append(entity)
            if len(batch) == _BATCH:
                problems = self._write_batch(kind, batch, schema)
                written, refused = written + len(batch) - len(problems), refused + problems
                batch = []
        if batch:
            problems = self._write_batch(kind, batch, schema)
            written, refused = written + len(batch) - len(problems), refused + problems
        if refused:
            raise WriteError(refused, written)
        return written

    def _write_batch(self, kind: int, batch: Sequence[Entity], schema: Schema) -> list[str]:
        request = p4runtime_pb2.WriteRequest(
            device_id=self.device_id, election_id=self._election_id
        )
        for entity in batch:
            request.updates.add(type=kind, entity=encode(entity, schema))
        try:
            self._stub.Write(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            reasons = _reasons(error, len(batch))
            if reasons is None:
                raise self._error(error) from None
            verb = p4runtime_pb2.Update.Type.Name(kind).lower()
            return [
                f"{verb} {describe(entity, schema)}: {reason}"
                for entity, reason in zip(batch, reasons, strict=True)
                if reason is not None
            ]
        return []

    def read_entries(self, schema: Schema) -> Iterator[Entity]:
        """Every member, group and entry that somebody wrote: no const entries, no defaults."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id)
        for profile in schema.profiles:
            request.entities.add().action_profile_member.action_profile_id = profile.id
            if profile.is_selector:
                request.entities.add().action_profile_group.action_profile_id = profile.id
        for table in schema.tables:
            request.entities.add().table_entry.table_id = table.id
        for entity in self._read(request):
            entry = entity.table_entry
            if not (entity.HasField("table_entry") and (entry.is_const or entry.is_default_action)):
                yield decode(entity, schema)

    def read_counters(
        self, schema: Schema, indices: Sequence[int] | None = None
    ) -> Iterator[CounterCell]:
        """Every cell of every counter, or only those at `indices` (much less to read)."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id)
        for counter in schema.counters:
            for index in (None,) if indices is None else indices:
                entry = request.entities.add().counter_entry
                entry.counter_id = counter.id
                if index is not None:
                    entry.index.index = index
        for entity in self._read(request):
            cell = entity.counter_entry
            name = schema.counters.id(cell.counter_id).name
            yield CounterCell(name, cell.index.index, cell.data.packet_count, cell.data.byte_count)

    def _read(self, request: Any) -> Iterator[Any]:
        try:
            for answer in self._stub.Read(request, timeout=self.timeout_s):
                yield from answer.entities
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> SwitchError:
        code, details = error.code(), " ".join((error.details() or "").split())
        match code:
            case grpc.StatusCode.UNAVAILABLE:
                return SwitchError(f"does not answer: {_short(details)}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return SwitchError(f"did not answer within {self.timeout_s:g} s")
            case grpc.StatusCode.PERMISSION_DENIED:
                return SwitchError("is no longer ours: another controller has become primary")
            case grpc.StatusCode.NOT_FOUND:
                return SwitchError(f"is not device {self.device_id}: {details}")
            case _:
                return SwitchError(f"{code.name}: {details}" if details else code.name)


def _drain(stream: Any, answers: queue.SimpleQueue[Any]) -> None:
    """Reads a stream to its end, so that the switch is never held up by an unread message."""
    try:
        for answer in stream:
            answers.put(answer)
    except grpc.RpcError as error:
        answers.put(error)
    answers.put(None)


def _number(id: Any) -> int:
    return int(id.high) << 64 | int(id.low)


def _short(details: str) -> str:
    """The system's reason out of gRPC's account of it."""
    match = re.search(r"(?:remote host|error): (?:.*: )?([^:()]+?)(?: \(\d+\))?$", details)
    return match[1] if match else details or "no connection"


def _reasons(error: Any, updates: int) -> list[str | None] | None:
    """Why each update of a batch was refused, None for those that were not.

    None instead of a list where the error is not about single updates (P4Runtime 1.4, 12.3).
    """
    if error.code() is not grpc.StatusCode.UNKNOWN:
        return None
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            if len(status.details) != updates:
                return None
            return [_reason(detail) for detail in status.details]
    return None


def _reason(detail: Any) -> str | None:
    error = p4runtime_pb2.Error()
    if not detail.Unpack(error):
        return "an error of unknown form"
    if error.canonical_code == code_pb2.OK:
        return None
    name: str = code_pb2.Code.Name(error.canonical_code)
    return f"{name}: {error.message}" if error.message else name
