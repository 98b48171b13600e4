"""Control of a running switch: a Unix socket that takes one JSON object a line.

Meant for whoever runs a topology: link rates, queue depths, ports up and down, counters. What the
P4 program forwards is P4Runtime's business and not to be had here. The socket has mode 0600.

===================================================================  =============================
request                                                              effect
===================================================================  =============================
{"command": "set_port_rate", "port": 1, "rate": "10Gbps"}             link rate; or bits/s as a
                                                                     number, or "unlimited"
{"command": "set_queue_depth", "port": 1, "queue": 0,                 depths; without queue all
 "packets": 1000, "bytes": 1000000}                                   queues, without port all ports
{"command": "port_up", "port": 1}                                     undo port_down
{"command": "port_down", "port": 1}                                   as if the cable was pulled
{"command": "stats"}                                                  counters and ports
{"command": "quit"}                                                   stop the switch
===================================================================  =============================

Every request is answered by one line: {"ok": true, …} or {"ok": false, "error": "…"}. `stats`
answers with "stats": received, copies, sent, queued, dropped by reason, errors, and "ports"
by number with the same per port, its queues included.

`ControlClient` is the other end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from softswitch.runtime import Runtime
from softswitch.switch import SwitchStats
from softswitch.units import parse_rate

log = logging.getLogger(__name__)

_MAX_LINE_BYTES: Final = 65_536
_MAX_CONNECTIONS: Final = 64
"""Descriptors are the switch's too: a client that opens connections must not use them up."""

_MAX_UNREAD_BYTES: Final = 4 << 20
"""Answers that wait for a client to read them; counters of 511 ports with 8 queues take 1 MB."""


class ControlError(Exception):
    """A request that was refused or a socket that cannot be had; the message says why."""


class ControlSocket:
    """Serves the socket from the runtime's loop.

    Args:
        path: where the socket is made; one that a dead switch left behind is replaced.

    Raises:
        ControlError: the path is taken or cannot be used.
    """

    def __init__(self, path: Path, runtime: Runtime) -> None:
        self._path = path
        self._runtime = runtime
        self._connections: dict[int, _Connection] = {}
        self._listener = _listen(path)
        runtime.watch(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Close all connections and remove the socket."""
        for connection in self._connections.values():
            connection.socket.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        connection = _Connection(accepted)
        self._connections[accepted.fileno()] = connection
        self._runtime.watch(accepted.fileno(), lambda: self._serve(connection))
        if len(self._connections) > _MAX_CONNECTIONS:
            self._reply(connection, _refusal(f"{_MAX_CONNECTIONS} clients are connected already"))
            self._drop(connection)

    def _serve(self, connection: _Connection) -> None:
        """A client sent something, reads again what it is sent, or hung up."""
        if connection.unsent and not self._flush(connection):
            return
        try:
            data = connection.socket.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.buffer += data
        while b"\n" in connection.buffer:
            line, connection.buffer = connection.buffer.split(b"\n", 1)
            if line.strip() and not self._reply(connection, self.handle(line)):
                return
        if len(connection.buffer) > _MAX_LINE_BYTES:
            self._reply(connection, _refusal(f"line longer than {_MAX_LINE_BYTES} bytes"))
            self._drop(connection)

    def _reply(self, connection: _Connection, answer: Mapping[str, Any]) -> bool:
        """Send an answer; False when the client does not read and was dropped."""
        connection.unsent += json.dumps(answer).encode() + b"\n"
        return self._flush(connection)

    def _flush(self, connection: _Connection) -> bool:
        """Send what the client takes now and keep the rest; False when it was dropped."""
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return False
        connection.unsent = connection.unsent[sent:]
        if len(connection.unsent) > _MAX_UNREAD_BYTES:
            self._drop(connection)
            return False
        self._runtime.watch_writable(connection.socket.fileno(), bool(connection.unsent))
        return True

    def _drop(self, connection: _Connection) -> None:
        descriptor = connection.socket.fileno()
        if self._connections.pop(descriptor, None) is not None:
            self._runtime.unwatch(descriptor)
            connection.socket.close()

    # -- commands --------------------------------------------------------------------------

    def handle(self, line: bytes) -> Mapping[str, Any]:
        """Carry out one request and return its answer."""
        commands: dict[str, Callable[[dict[str, Any]], Mapping[str, Any]]] = {
            "set_port_rate": self._set_port_rate,
            "set_queue_depth": self._set_queue_depth,
            "port_up": lambda request: self._set_port(request, up=True),
            "port_down": lambda request: self._set_port(request, up=False),
            "stats": self._stats,
            "quit": self._quit,
        }
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            return _refusal(f"not JSON: {error}")
        if not isinstance(request, dict):
            return _refusal("not a JSON object")
        name = request.pop("command", None)
        command = commands.get(name) if isinstance(name, str) else None
        if command is None:
            return _refusal(f"command {name!r}: want one of {', '.join(commands)}")
        try:
            with self._runtime.lock:
                answer = command(request)
        except ValueError as error:  # SwitchError and TrafficManagerError among them
            return _refusal(f"{name}: {error}")
        return {"ok": True, **answer}

    def _set_port_rate(self, request: dict[str, Any]) -> Mapping[str, Any]:
        port = _take_int(request, "port")
        rate = request.pop("rate", None)
        if isinstance(rate, bool) or not isinstance(rate, int | str):
            raise ValueError('rate: want bits per second, "10Gbps" or "unlimited"')
        _no_more(request)
        rate_bps = parse_rate(rate) if isinstance(rate, str) else rate
        self._runtime.switch.set_port_rate(port, rate_bps, self._runtime.now_ns())
        return {}

    def _set_queue_depth(self, request: dict[str, Any]) -> Mapping[str, Any]:
        port = _take_optional_int(request, "port")
        queue = _take_optional_int(request, "queue")
        packets = _take_optional_int(request, "packets")
        size_bytes = _take_optional_int(request, "bytes")
        _no_more(request)
        if packets is None and size_bytes is None:
            raise ValueError("want packets, bytes or both")
        self._runtime.switch.set_queue_depth(
            port, queue, depth_packets=packets, depth_bytes=size_bytes
        )
        return {}

    def _set_port(self, request: dict[str, Any], *, up: bool) -> Mapping[str, Any]:
        port = _take_int(request, "port")
        _no_more(request)
        self._runtime.set_port_enabled(port, up)
        return {}

    def _stats(self, request: dict[str, Any]) -> Mapping[str, Any]:
        _no_more(request)
        return {"stats": stats_to_json(self._runtime.stats(), self._runtime.interfaces())}

    def _quit(self, request: dict[str, Any]) -> Mapping[str, Any]:
        _no_more(request)
        self._runtime.stop()
        return {}


class _Connection:
    """One client, what it has sent of its next line, and the answers it has yet to read."""

    __slots__ = ("buffer", "socket", "unsent")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.buffer = b""
        self.unsent = b""


class ControlClient:
    """Sends requests to a running switch.

    Raises:
        ControlError: nobody listens at `path`.
    """

    def __init__(self, path: Path, *, timeout_s: float = 10.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Without a timeout: with one, a full accept queue would be an error and no wait.
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise ControlError(f"control socket {path}: {error.strerror or error}") from None
        self._socket.settimeout(timeout_s)
        self._stream = self._socket.makefile("rb")

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises:
            ControlError: the switch refused it or went away.
        """
        line = json.dumps({"command": command, **arguments}).encode() + b"\n"
        try:
            # What a switch said before it hung up can still be read
            with contextlib.suppress(BrokenPipeError):
                self._socket.sendall(line)
            answer = self._stream.readline()
        except OSError as error:
            raise ControlError(f"{command}: {error}") from None
        if not answer:
            raise ControlError(f"{command}: the switch closed the connection")
        decoded: dict[str, Any] = json.loads(answer)
        if not decoded.pop("ok", False):
            raise ControlError(str(decoded.get("error", "refused")))
        return decoded

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def stats_to_json(stats: SwitchStats, interfaces: Mapping[int, str]) -> dict[str, Any]:
    """Return a snapshot as plain JSON types; ports by number (as a string) with their interface."""
    plain = dataclasses.asdict(stats)
    plain["ports"] = {
        str(number): {"interface": interfaces.get(number), **port}
        for number, port in plain["ports"].items()
    }
    return plain


def _listen(path: Path) -> socket.socket:
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    # The mode must be right from the first moment on, not only after a chmod.
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ControlError(f"control socket {path}: {error.strerror or error}") from None
    finally:
        os.umask(mask)
    listener.listen(64)
    return listener


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on any more."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ControlError(f"control socket {path}: the path exists and is no socket")
    except FileNotFoundError:
        return
    except OSError as error:
        raise ControlError(f"control socket {path}: {error.strerror}") from None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        except OSError:
            pass
        else:
            raise ControlError(f"control socket {path}: another switch listens there")


def _refusal(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _take_int(request: dict[str, Any], key: str) -> int:
    value = _take_optional_int(request, key)
    if value is None:
        raise ValueError(f"{key} is missing")
    return value


def _take_optional_int(request: dict[str, Any], key: str) -> int | None:
    value = request.pop(key, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{key}: {value!r} is not a whole number")
    return value


def _no_more(request: dict[str, Any]) -> None:
    if request:
        raise ValueError(f"unknown field {next(iter(request))!r}")
