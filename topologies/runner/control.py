"""The control socket of a fabric that is up: `link` and `switch` ask its runner on it.

The runner alone holds the fabric's processes and namespaces, as process 1 of a PID namespace, so
it is asked to act. A Unix socket in the run's socket folder, mode 0600: one JSON object a
connection, answered by one.

    → {"command": "link", "nodes": ["p0-t0-0", "p0-t1-0"], "action": "down"}
    ← {"ok": true, "lines": ["p0-t0-0--p0-t1-0 is down"]}
    ← {"ok": false, "error": "…", "usage": true}            `usage`: the request itself was wrong

The answer comes when it is done. Requests are carried out one after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunRecord

_SOCKET: Final = "runner.control"
_MAX_LINE_BYTES: Final = 65_536
#: The runner has other things to do than to wait for a client that does not say what it wants
_REQUEST_TIMEOUT_S: Final = 5.0

#: Carries out a request and returns what to tell. Raises RunnerError.
Handler = Callable[[Mapping[str, Any]], Sequence[str]]


class ControlServer:
    """The runner's end."""

    def __init__(self, sockets: Path, handler: Handler) -> None:
        """Listen in the run's socket folder. Raises OSError."""
        self._handler = handler
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            self._socket.bind(str(sockets / _SOCKET))
        except OSError:
            self._socket.close()
            raise
        finally:
            os.umask(mask)
        self._socket.listen()

    def fileno(self) -> int:
        """Readable when somebody wants something."""
        return self._socket.fileno()

    def serve_one(self) -> None:
        """Take one connection, carry out its request and answer it."""
        connection, _ = self._socket.accept()
        with connection:
            try:
                line = _read_line(connection, time.monotonic() + _REQUEST_TIMEOUT_S)
            except OSError:
                return
            connection.settimeout(_REQUEST_TIMEOUT_S)
            answer = json.dumps(self._answer(line)).encode() + b"\n"
            with contextlib.suppress(OSError):  # it did not wait for the answer
                connection.sendall(answer)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("not a JSON object")
            return {"ok": True, "lines": list(self._handler(request))}
        except RunnerError as error:
            return {"ok": False, "error": str(error), "usage": isinstance(error, UsageError)}
        except OSError as error:  # no descriptors are left, say; the fabric goes on
            text = " ".join(str(error).split())
            return {"ok": False, "error": f"could not be done: {text}", "usage": False}
        except (ValueError, RecursionError) as error:
            return {"ok": False, "error": f"not JSON: {error}", "usage": True}

    def close(self) -> None:
        """Stop listening; the socket itself goes with the run's socket folder."""
        self._socket.close()


def ask(run: RunRecord, request: Mapping[str, Any]) -> list[str]:
    """Have the runner of a fabric that is up carry out a request; returns what it tells.

    Raises UsageError or RunnerError with its reason, or where it cannot be asked.
    """
    run_id = run.state.run_id
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(Path(run.state.sockets) / _SOCKET))
        except OSError:
            raise RunnerError(
                f"{run_id} takes no requests: a fabric of `mrc-topology up` or `run` does, "
                "once it is up and before it ends"
            ) from None
        try:
            connection.sendall(json.dumps(dict(request)).encode() + b"\n")
            answer = json.loads(_read_line(connection) or b"null")
        except (OSError, ValueError):
            answer = None
    if answer is None:
        raise RunnerError(f"{run_id} ended before it was done")
    if not answer["ok"]:
        raise (UsageError if answer["usage"] else RunnerError)(answer["error"])
    return list(answer["lines"])


def _read_line(connection: socket.socket, deadline_s: float | None = None) -> bytes:
    """Up to the end of a line, of the limit, or of the stream.

    Raises OSError, TimeoutError among them: the whole line was not there by the deadline
    (`time.monotonic`), however many pieces it came in.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES:
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
        data = connection.recv(_MAX_LINE_BYTES)
        if not data:
            break
        line += data
    return line
