"""The six RPCs of the P4Runtime service.

Requests that read or write state are served one at a time (`_requests`), which gives the strict
serializability of section "Batching and Ordering of Updates"; the switch's own lock is taken inside
for short pieces only. Whatever goes wrong in here ends in a status for the client, never in the
process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import grpc
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2

from softswitch.fair_lock import FairLock
from softswitch.p4runtime import batches
from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.arbitration import (
    Arbitration,
    election_id_of,
    format_election_id,
)
from softswitch.p4runtime.errors import (
    ERROR_SPACE,
    Code,
    P4RuntimeError,
    denied,
    error_of,
    invalid,
    not_found,
    unimplemented,
)
from softswitch.p4runtime.notifications import Notifier
from softswitch.p4runtime.pipeline_config import PipelineConfigs
from softswitch.p4runtime.requests import well_formed
from softswitch.p4runtime.stream_channel import Sessions, StreamHandler
from softswitch.p4runtime.streams import Outbox

log = logging.getLogger(__name__)

API_VERSION = "1.4.1"
"""Version of the P4Runtime API that is served (Capabilities)."""

MAX_STREAMS = 64
"""StreamChannels open at a time, arbitrated or not; each keeps threads of the server busy."""

MAX_STATUS_BYTES = 1 << 20
"""Size of a failed batch's status, which travels as gRPC metadata.

A client that gets more than it accepts is told nothing at all. gRPC's default is 8 KiB, about 150
updates; controllers that write larger batches raise it, to 1 MiB at most that we know of.
"""

_GRPC_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MAX_LOGGED_KINDS = 256

T = TypeVar("T")


class P4RuntimeService:
    """The service's methods, by their names. `start` and `stop` frame its use."""

    def __init__(self, access: SwitchAccess, device_id: int) -> None:
        self._access = access
        self._device_id = device_id
        self._requests = FairLock()
        self._configs = PipelineConfigs(access)
        self._sessions = Sessions(Arbitration(device_id, max_streams_per_role=MAX_STREAMS))
        self._logged: set[tuple[str, str]] = set()
        self._notifier = Notifier(access, self._configs, self._sessions, self._failed)
        self._streams = StreamHandler(
            self._sessions,
            self._configs,
            access.packet_out,
            self._wait_for_writes,
            self._failed,
            self._notifier.primary_changed,
            self._notifier.acknowledge,
        )
        self._open_streams: set[Outbox] = set()
        self._open_streams_lock = threading.Lock()
        self._stopping = False

    @property
    def undelivered(self) -> Mapping[str, int]:
        """Packet-ins and digest messages that no controller took, by kind."""
        return self._notifier.undelivered

    def start(self) -> None:
        """Connect to the switch."""
        self._notifier.start()

    def stop(self) -> None:
        """End all streams and let go of the switch."""
        self._stopping = True
        with self._open_streams_lock:
            for outbox in self._open_streams:
                outbox.close(discard=True)
        self._notifier.stop()

    # -- RPCs ----------------------------------------------------------------------------

    def Capabilities(self, request: Any, context: Any) -> Any:
        """Capabilities RPC."""
        self._guard("Capabilities", context, lambda: well_formed(request))
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def Write(self, request: Any, context: Any) -> Any:
        """Write RPC."""
        return self._guard("Write", context, lambda: self._write(well_formed(request)))

    def Read(self, request: Any, context: Any) -> Iterator[bytes]:
        """Read RPC; yields serialised ReadResponses."""
        responses, error = self._guard(
            "Read", context, lambda: self._read(well_formed(request), context.is_active)
        )
        yield from responses
        if error is not None:
            self._guard("Read", context, lambda: _raise(error))

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """SetForwardingPipelineConfig RPC."""
        return self._guard(
            "SetForwardingPipelineConfig",
            context,
            lambda: self._set_pipeline_config(well_formed(request)),
        )

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """GetForwardingPipelineConfig RPC."""
        return self._guard(
            "GetForwardingPipelineConfig",
            context,
            lambda: self._get_pipeline_config(well_formed(request)),
        )

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """StreamChannel RPC: one thread reads, this one sends what the outbox holds."""
        stream = object()
        outbox = Outbox()
        failure: list[P4RuntimeError] = []
        with self._open_streams_lock:
            accepted = not self._stopping and len(self._open_streams) < MAX_STREAMS
            if accepted:
                self._open_streams.add(outbox)
        if not accepted:
            error = (
                P4RuntimeError(Code.UNAVAILABLE, "this switch is stopping")
                if self._stopping
                else P4RuntimeError(
                    Code.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open, no more are accepted"
                )
            )
            self._guard("StreamChannel", context, lambda: _raise(error))
        self._sessions.open(stream, outbox)

        def forget() -> None:
            outbox.close(discard=True)
            self._sessions.close(stream)
            with self._open_streams_lock:
                self._open_streams.discard(outbox)

        def read() -> None:
            try:
                for message in requests:
                    self._streams.handle(stream, outbox, well_formed(message))
            except P4RuntimeError as error:
                failure.append(error)
            except grpc.RpcError:
                pass  # the client is gone
            except Exception as exception:
                if context.is_active():
                    failure.append(self._failed("StreamChannel", exception))
            outbox.close()

        if not context.add_callback(forget):
            forget()
            return
        threading.Thread(target=read, name="p4runtime-stream", daemon=True).start()
        try:
            yield from outbox
        finally:
            forget()
        if outbox.overflowed:
            failure.append(
                P4RuntimeError(Code.RESOURCE_EXHAUSTED, "this client does not read its stream")
            )
        if self._stopping:
            failure.append(P4RuntimeError(Code.UNAVAILABLE, "this switch is stopping"))
        if failure:
            self._guard("StreamChannel", context, lambda: _raise(failure[0]))

    # -- what they do --------------------------------------------------------------------

    def _write(self, request: Any) -> Any:
        with self._requests:
            self._check_client(request)
            handlers = self._configs.handlers
            roll_back = False
            if request.atomicity == p4runtime_pb2.WriteRequest.ROLLBACK_ON_ERROR:
                roll_back = True
            elif request.atomicity == p4runtime_pb2.WriteRequest.DATAPLANE_ATOMIC:
                raise unimplemented(
                    "DATAPLANE_ATOMIC: a packet in a queue would see the batch between ingress and "
                    "egress; CONTINUE_ON_ERROR and ROLLBACK_ON_ERROR are supported"
                )
            elif request.atomicity != p4runtime_pb2.WriteRequest.CONTINUE_ON_ERROR:
                raise invalid(f"atomicity {request.atomicity} is unknown")
            try:
                batches.write(
                    request.updates, handlers, self._access, self._failed, roll_back=roll_back
                )
            finally:
                self._notifier.wake()
        return p4runtime_pb2.WriteResponse()

    def _read(
        self, request: Any, is_wanted: Callable[[], bool]
    ) -> tuple[list[bytes], batches.UpdateError | None]:
        self._check_device(request.device_id)
        with self._requests:
            handlers = self._configs.handlers
            responses, errors = batches.read(
                request.entities, handlers, self._access, self._failed, is_wanted=is_wanted
            )
        failed = any(error is not None for error in errors)
        return responses, batches.UpdateError(errors) if failed else None

    def _set_pipeline_config(self, request: Any) -> Any:
        self._check_client(request)
        kinds = p4runtime_pb2.SetForwardingPipelineConfigRequest
        action = request.action
        if action == kinds.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes the saved config, none may be given")
            apply: Callable[[], object] = self._configs.commit_saved
        elif action in (
            kinds.VERIFY,
            kinds.VERIFY_AND_SAVE,
            kinds.VERIFY_AND_COMMIT,
            kinds.RECONCILE_AND_COMMIT,
        ):
            if not request.HasField("config"):
                raise invalid("config is not set")
            # Compiling a program takes a while and touches nothing: other requests go on meanwhile.
            state = self._configs.verify(request.config)
            if action == kinds.VERIFY:
                return p4runtime_pb2.SetForwardingPipelineConfigResponse()
            apply = {
                kinds.VERIFY_AND_SAVE: lambda: self._configs.save(state),
                kinds.VERIFY_AND_COMMIT: lambda: self._configs.commit(state),
                kinds.RECONCILE_AND_COMMIT: lambda: self._configs.reconcile(state),
            }[action]
        else:
            raise invalid(
                f"action {action} is none of VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT, "
                "RECONCILE_AND_COMMIT"
            )
        with self._requests:
            self._check_client(request)
            apply()
        self._notifier.wake()
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def _get_pipeline_config(self, request: Any) -> Any:
        self._check_device(request.device_id)
        with self._requests:
            config = self._configs.get(request.response_type)
        return p4runtime_pb2.GetForwardingPipelineConfigResponse(config=config)

    # -- checks --------------------------------------------------------------------------

    def _check_device(self, device_id: int) -> None:
        if device_id != self._device_id:
            raise not_found(f"device {device_id} is unknown, this is device {self._device_id}")

    def _check_client(self, request: Any) -> None:
        """Device and role exist, the client is primary.

        The first checks of every request that changes something.
        """
        self._check_device(request.device_id)
        if request.role_id:
            raise not_found(
                f"role_id {request.role_id} is unknown (numeric roles are deprecated since 1.4)"
            )
        if not self._sessions.knows_role(request.role):
            raise not_found(f"role '{request.role}' is unknown")
        election_id = None
        if request.HasField("election_id"):
            election_id = election_id_of(request.election_id.high, request.election_id.low)
        if not self._sessions.is_primary(request.role, election_id):
            raise denied(
                f"election id {format_election_id(election_id)} is not that of the primary"
            )

    def _wait_for_writes(self) -> None:
        """Return when the requests that were being served have ended."""
        with self._requests:
            pass

    # -- errors --------------------------------------------------------------------------

    def _guard(self, where: str, context: Any, serve: Callable[[], T]) -> T:
        """Serve, or end the RPC with the status of what was raised."""
        try:
            return serve()
        except batches.UpdateError as batch:
            message, details = _batch_status(where, batch)
            if details is not None:
                context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(grpc.StatusCode.UNKNOWN, message)
        except Exception as exception:
            error = error_of(exception) or self._failed(where, exception)
            context.abort(_GRPC_CODES[error.code], error.message)
        raise AssertionError("abort raises")

    def _failed(self, where: str, exception: Exception) -> P4RuntimeError:
        """Something that nobody foresaw.

        Log it once a kind, tell the client as little as is safe.
        """
        kind = (where, type(exception).__name__)
        if kind not in self._logged and len(self._logged) < _MAX_LOGGED_KINDS:
            self._logged.add(kind)
            log.error("P4Runtime: %s failed (logged once a kind)", where, exc_info=exception)
        return P4RuntimeError(Code.INTERNAL, f"{where} failed: {type(exception).__name__}")


def _batch_status(where: str, batch: batches.UpdateError) -> tuple[str, bytes | None]:
    """A failed batch's message and its google.rpc.Status with one p4.v1.Error an element.

    (Section "Error Reporting Messages".) None instead of a status that is too large to be sent.
    """
    failed = [error for error in batch.errors if error is not None]
    message = f"{where}: {len(failed)} of {len(batch.errors)} failed, first: {failed[0].message}"
    status = status_pb2.Status(code=Code.UNKNOWN, message=message)
    room = MAX_STATUS_BYTES - status.ByteSize()
    for error in batch.errors:
        detail = p4runtime_pb2.Error(canonical_code=Code.OK)
        if error is not None:
            detail = p4runtime_pb2.Error(
                canonical_code=error.code, message=error.message, space=ERROR_SPACE, code=error.code
            )
        packed = status.details.add()
        packed.Pack(detail)
        room -= packed.ByteSize() + 4  # tag and length
        if room < 0:
            return message, None
    return message, status.SerializeToString()


def _raise(error: Exception) -> Any:
    raise error
