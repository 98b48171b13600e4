"""The other end of the control socket: blocking, for commands and for whoever runs a topology."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from host.agent.errors import AgentError, UsageError


class ControlClient:
    """A connection with an agent. What is made over it ends with it.

    Raises AgentError where no agent listens, or when it goes away.
    """

    def __init__(self, path: Path, timeout_s: float | None = None) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise AgentError(f"no agent at {path}: {error.strerror or error}") from None
        self._lines = self._socket.makefile("rb")

    def request(
        self,
        command: str,
        on_event: Callable[[Mapping[str, Any]], None] = lambda event: None,
        **fields: Any,
    ) -> Mapping[str, Any]:
        """Carry out a command and return its answer; events that come before go to `on_event`.

        Raises UsageError for what the agent says cannot be, AgentError for what failed.
        """
        document = {"command": command, **fields}
        try:
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError as error:
            raise AgentError(f"the agent at {self._path} is gone: {error.strerror}") from None
        while True:
            line = self.next_line()
            if "event" in line and "ok" not in line:
                on_event(line)
                continue
            if line.get("ok") is True:
                return line
            kind = UsageError if line.get("usage") else AgentError
            raise kind(str(line.get("error", "no reason given")))

    def next_line(self) -> Mapping[str, Any]:
        """The next line, for those who watch. Raises AgentError at the end."""
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise AgentError(f"the agent at {self._path} does not answer") from None
        except OSError as error:
            raise AgentError(f"the agent at {self._path} is gone: {error.strerror}") from None
        if not line.endswith(b"\n"):
            raise AgentError(f"the agent at {self._path} is gone")
        document = json.loads(line)
        if not isinstance(document, dict):
            raise AgentError(f"{self._path}: this is no agent's socket")
        return document

    def close(self) -> None:
        """End the connection."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
