"""StreamChannel: sessions of all clients, and what the switch tells them.

Threads that come here: one a stream, reading what the client sends; the packet loop and the timer
thread with notifications. `Sessions` takes its own lock for moments only and never waits with it
held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.arbitration import (
    Advisory,
    Arbitration,
    ArbitrationUpdate,
    election_id_of,
    format_election_id,
)
from softswitch.p4runtime.digests import DigestListToSend
from softswitch.p4runtime.errors import (
    ERROR_SPACE,
    Code,
    P4RuntimeError,
    denied,
    error_of,
    invalid,
    unimplemented,
)
from softswitch.p4runtime.pipeline_config import PipelineConfigs
from softswitch.p4runtime.state import PipelineState
from softswitch.p4runtime.streams import Outbox

log = logging.getLogger(__name__)

_UINT64_MASK = (1 << 64) - 1


class Sessions:
    """Who is connected, who is primary, and how they are reached."""

    def __init__(self, arbitration: Arbitration) -> None:
        self._lock = threading.Lock()
        self._arbitration = arbitration
        self._outboxes: dict[object, Outbox] = {}

    # -- queries -------------------------------------------------------------------------

    def knows_role(self, role: str) -> bool:
        """See `Arbitration.knows_role`."""
        with self._lock:
            return self._arbitration.knows_role(role)

    def is_primary(self, role: str, election_id: int | None) -> bool:
        """See `Arbitration.is_primary`."""
        with self._lock:
            return self._arbitration.is_primary(role, election_id)

    def is_primary_stream(self, stream: object) -> bool:
        """See `Arbitration.is_primary_stream`."""
        with self._lock:
            return self._arbitration.is_primary_stream(stream)

    # -- events --------------------------------------------------------------------------

    def open(self, stream: object, outbox: Outbox) -> None:
        """A client connected; it is nobody until it arbitrates."""
        with self._lock:
            self._outboxes[stream] = outbox

    def close(self, stream: object) -> None:
        """A client is gone; the others of its role hear of it if it was primary."""
        with self._lock:
            self._outboxes.pop(stream, None)
            was_primary = self._arbitration.is_primary_stream(stream)
            outcome = self._arbitration.disconnect(stream)
            for advisory in outcome.at_once:
                self._advise(advisory)
        if was_primary:
            log.info("P4Runtime: the primary is gone")

    def arbitrate(
        self, stream: object, request: ArbitrationUpdate, wait_for_writes: Callable[[], None]
    ) -> bool:
        """Handle an update; True when this client became primary by it.

        `wait_for_writes` returns when writes in progress have ended: the new primary's own may be
        accepted before it hears so, but not before theirs are done.
        """
        with self._lock:
            if stream not in self._outboxes:
                return False  # closed meanwhile: it must not become primary after it is gone
            outcome = self._arbitration.update(stream, request)
            for advisory in outcome.at_once:
                self._advise(advisory)
        if outcome.to_primary is None:
            return False
        if outcome.is_new_primary:
            log.info(
                "P4Runtime: role '%s' has a new primary, election id %s",
                request.role,
                format_election_id(request.election_id),
            )
        wait_for_writes()
        with self._lock:
            if self._arbitration.is_primary_stream(stream):
                self._advise(outcome.to_primary)
            # Otherwise another client took over meanwhile, and this one has been told so.
        return outcome.is_new_primary

    def notify_primaries(self, build: Callable[[], Any]) -> int:
        """Queue a notification for the primary of every role.

        Returns how many took it. Does not block.
        """
        with self._lock:
            taken = 0
            for stream in self._arbitration.primary_streams():
                outbox = self._outboxes.get(stream)
                if outbox is not None and outbox.offer(build):
                    taken += 1
            return taken

    def _advise(self, advisory: Advisory) -> None:
        outbox = self._outboxes.get(advisory.stream)
        if outbox is not None:
            device_id = self._arbitration.device_id
            outbox.send(lambda: _advisory_message(advisory, device_id))


class StreamHandler:
    """What the clients' stream messages do."""

    def __init__(
        self,
        sessions: Sessions,
        configs: PipelineConfigs,
        packet_out: Callable[[bytes], None],
        wait_for_writes: Callable[[], None],
        failed: Callable[[str, Exception], P4RuntimeError],
        on_new_primary: Callable[[], None],
        acknowledge: Callable[[PipelineState, int, int], None],
    ) -> None:
        self._sessions = sessions
        self._configs = configs
        self._packet_out = packet_out
        self._wait_for_writes = wait_for_writes
        self._failed = failed
        self._on_new_primary = on_new_primary
        self._acknowledge = acknowledge

    def handle(self, stream: object, outbox: Outbox, message: Any) -> None:
        """One StreamMessageRequest.

        Arbitration errors are raised and end the stream; all others are reported as StreamError
        messages, which are the first to go when the client does not keep up (section "Stream Error
        Reporting").
        """
        kind = message.WhichOneof("update")
        if kind == "arbitration":
            request = _arbitration_update(message.arbitration)
            if self._sessions.arbitrate(stream, request, self._wait_for_writes):
                self._on_new_primary()
            return
        try:
            self._handle_other(stream, kind, message)
        except Exception as exception:
            error = error_of(exception) or self._failed("StreamChannel", exception)
            outbox.offer(lambda: _stream_error(error, kind, message))

    def _handle_other(self, stream: object, kind: str | None, message: Any) -> None:
        if kind is None:
            raise invalid("stream message has no field set")
        if not self._sessions.is_primary_stream(stream):
            raise denied("only the primary controller may do this (send a MasterArbitrationUpdate)")
        if kind == "other":
            raise unimplemented("this switch has no architecture-specific stream messages")
        state = self._configs.active
        if state is None:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                "no forwarding pipeline config has been set on this switch",
            )
        if kind == "packet":
            frame = state.packet_out.packet_out(message.packet)
            try:
                self._packet_out(frame)
            except ValueError as error:  # the switch has no CPU port
                raise P4RuntimeError(Code.FAILED_PRECONDITION, f"packet-out: {error}") from None
        else:
            ack = message.digest_ack
            state.schema.digests.get(ack.digest_id)
            self._acknowledge(state, ack.digest_id, ack.list_id)


def digest_list_message(state: PipelineState, to_send: DigestListToSend, timestamp_ns: int) -> Any:
    """The DigestList stream message; `timestamp_ns` since the epoch."""
    response = p4runtime_pb2.StreamMessageResponse()
    digest = response.digest
    digest.digest_id = to_send.digest_id
    digest.list_id = to_send.list_id
    digest.timestamp = timestamp_ns
    data_type = state.schema.digests.by_id[to_send.digest_id].data_type
    digest.data.extend(data_type.encode(iter(message)) for message in to_send.messages)
    return response


def packet_in_message(state: PipelineState, frame: bytes) -> Any | None:
    """The PacketIn stream message of a frame.

    None when it is too short for the program's header.
    """
    packet = state.packet_in.packet_in(frame)
    if packet is None:
        return None
    return p4runtime_pb2.StreamMessageResponse(packet=packet)


def idle_timeout_message(entries: list[Any], timestamp_ns: int) -> Any:
    """The IdleTimeoutNotification of some TableEntry messages; `timestamp_ns` since the epoch."""
    response = p4runtime_pb2.StreamMessageResponse()
    notification = response.idle_timeout_notification
    notification.timestamp = timestamp_ns
    notification.table_entry.extend(entries)
    return response


def _arbitration_update(message: Any) -> ArbitrationUpdate:
    """The client's request in the state machine's terms."""
    if message.role.id:
        raise unimplemented(
            f"role.id {message.role.id}: numeric roles are deprecated since 1.4, use role.name"
        )
    election_id = None
    if message.HasField("election_id"):
        election_id = election_id_of(message.election_id.high, message.election_id.low)
    return ArbitrationUpdate(
        device_id=message.device_id,
        role=message.role.name,
        election_id=election_id,
        has_role_config=message.role.HasField("config"),
    )


_STANDINGS = {
    Code.OK: "this controller is primary",
    Code.ALREADY_EXISTS: "another controller is primary",
    Code.NOT_FOUND: "there is no primary controller",
}


def _advisory_message(advisory: Advisory, device_id: int) -> Any:
    response = p4runtime_pb2.StreamMessageResponse()
    arbitration = response.arbitration
    arbitration.device_id = device_id
    if advisory.role:
        arbitration.role.name = advisory.role
    text = _STANDINGS[advisory.status]
    if advisory.election_id is not None:
        arbitration.election_id.high = advisory.election_id >> 64
        arbitration.election_id.low = advisory.election_id & _UINT64_MASK
        arbitration.election_id.SetInParent()
        text += f", highest election id {format_election_id(advisory.election_id)}"
    arbitration.status.CopyFrom(status_pb2.Status(code=advisory.status, message=text))
    return response


def _stream_error(error: P4RuntimeError, kind: str | None, message: Any) -> Any:
    """A StreamError that names the message which caused it."""
    response = p4runtime_pb2.StreamMessageResponse()
    stream_error = response.error
    stream_error.canonical_code = error.code
    stream_error.message = error.message
    stream_error.space = ERROR_SPACE
    if kind == "packet":
        stream_error.packet_out.packet_out.CopyFrom(message.packet)
    elif kind == "digest_ack":
        stream_error.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
    else:
        stream_error.other.SetInParent()
        if kind == "other":
            stream_error.other.other.CopyFrom(message.other)
    return response
