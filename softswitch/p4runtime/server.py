"""`P4RuntimeServer`: the gRPC server around the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.requests import parser
from softswitch.p4runtime.service import MAX_STREAMS, P4RuntimeService

DEFAULT_ADDRESS = "127.0.0.1:9559"
"""IANA's port for P4Runtime, on loopback: the service knows no login."""

MAX_RECEIVE_BYTES = 128 << 20
"""Largest request: compiled programs and large batches exceed gRPC's default of 4 MiB."""

_UNARY_WORKERS = 32
_KEEPALIVE_MS = 30_000
_STOP_GRACE_S = 0.5
_STOP_PATIENCE_S = 5.0


class ServerError(Exception):
    """The server cannot listen; the message names the address."""


class P4RuntimeServer:
    """Serves P4Runtime for one switch until `stop`.

    Args:
        access: the switch.
        device_id: the only device id that is known.
        address: "host:port" to listen on, or "unix:path"; port 0 takes any free one, see `address`.
    """

    def __init__(
        self, access: SwitchAccess, device_id: int = 0, address: str = DEFAULT_ADDRESS
    ) -> None:
        self._service = P4RuntimeService(access, device_id)
        self._pool = ThreadPoolExecutor(
            # Streams hold a thread each for as long as they are open and must not starve requests.
            max_workers=MAX_STREAMS + _UNARY_WORKERS,
            thread_name_prefix="p4runtime",
        )
        self._server = grpc.server(
            self._pool,
            options=(
                ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
                ("grpc.max_send_message_length", -1),
                # A controller that vanished without a word must not stay primary.
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
                ("grpc.http2.max_pings_without_data", 0),
                # Two switches on one port would each get some of the connections.
                ("grpc.so_reuseport", 0),
            ),
        )
        self._server.add_generic_rpc_handlers((_rpc_handlers(self._service),))
        self._requested_address = address
        self._address: str | None = None

    @property
    def address(self) -> str:
        """The address that is listened on, with the port that was taken; known once started."""
        if self._address is None:
            raise ServerError("the P4Runtime server has not been started")
        return self._address

    @property
    def undelivered(self) -> Mapping[str, int]:
        """Packet-ins and digest messages that no controller took, by kind."""
        return self._service.undelivered

    def start(self) -> None:
        """Listen and serve. Raises `ServerError` when the address cannot be had."""
        requested = self._requested_address
        # gRPC's name syntax: a Unix socket works across network namespaces
        is_unix = requested.startswith("unix:") and len(requested) > len("unix:")
        host, separator, port = requested.rpartition(":")
        if not is_unix and not (separator and host and port.isdigit() and int(port) <= 0xFFFF):
            raise ServerError(f"address '{requested}': want HOST:PORT or unix:PATH")
        folder = Path(requested.removeprefix("unix:")).parent
        if is_unix and not folder.is_dir():
            raise ServerError(f"cannot listen on {requested}: there is no folder {folder}")
        try:
            bound = self._server.add_insecure_port(requested)
        except RuntimeError:
            bound = 0
        if bound == 0:
            raise ServerError(f"cannot listen on {requested}: in use or not ours")
        self._address = requested if is_unix else f"{host}:{bound}"
        self._service.start()
        self._server.start()

    def stop(self) -> None:
        """End all streams, let requests in progress finish for a moment, and stop listening."""
        stopped = self._server.stop(_STOP_GRACE_S)
        if self._address is not None:
            self._service.stop()
        # gRPC keeps count of its RPCs; should it ever lose one, stopping must not hang on it.
        stopped.wait(_STOP_GRACE_S + _STOP_PATIENCE_S)
        self._pool.shutdown(wait=False)

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


_RPCS: dict[str, tuple[Callable[..., Any], Any]] = {
    "Write": (grpc.unary_unary_rpc_method_handler, p4runtime_pb2.WriteRequest),
    "Read": (grpc.unary_stream_rpc_method_handler, p4runtime_pb2.ReadRequest),
    "SetForwardingPipelineConfig": (
        grpc.unary_unary_rpc_method_handler,
        p4runtime_pb2.SetForwardingPipelineConfigRequest,
    ),
    "GetForwardingPipelineConfig": (
        grpc.unary_unary_rpc_method_handler,
        p4runtime_pb2.GetForwardingPipelineConfigRequest,
    ),
    "StreamChannel": (
        grpc.stream_stream_rpc_method_handler,
        p4runtime_pb2.StreamMessageRequest,
    ),
    "Capabilities": (grpc.unary_unary_rpc_method_handler, p4runtime_pb2.CapabilitiesRequest),
}


def _serialised(response: Any) -> bytes:
    """A response as bytes, which it may be already."""
    data: bytes = response if isinstance(response, bytes) else response.SerializeToString()
    return data


def _rpc_handlers(service: P4RuntimeService) -> Any:
    """The service's methods for gRPC: the generated registration with parsers of our own."""
    handlers = {
        name: make(
            getattr(service, name),
            request_deserializer=parser(name, request),
            response_serializer=_serialised,
        )
        for name, (make, request) in _RPCS.items()
    }
    return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", handlers)
