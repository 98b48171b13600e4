"""Requests to agents and softswitches over their control sockets, without waiting for the others.

Both speak JSON lines: {"command": …} is answered by {"ok": true, …} or {"ok": false, "error": …};
agents send lines with `event` in between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from host.agent.errors import AgentError
from host.agent.jsonlines import MAX_LINE_BYTES, read_object, write_object
from topologies.runner.errors import RunnerError


class GoneError(RunnerError):
    """Whoever was asked has ended, or hung up."""


class Connection:
    """A connection with one process; what is made over it ends with it."""

    def __init__(
        self, who: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.who = who
        self._reader = reader
        self._writer = writer
        #: Requests whose answers were not read yet
        self._unanswered = 0

    @classmethod
    async def open(cls, who: str, path: Path) -> Connection:
        """Raises GoneError where nobody listens."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise GoneError(f"{who} takes no requests: {error.strerror or error}") from None
        return cls(who, reader, writer)

    async def ask(self, command: str, **fields: Any) -> Mapping[str, Any]:
        """Have a command carried out; one at a time.

        Who is cancelled leaves an answer behind, which is not taken for that of the next request.
        Raises RunnerError with the reason of a refusal, GoneError where no answer comes.
        """
        write_object(self._writer, {"command": command, **fields})
        self._unanswered += 1
        while True:
            line = await self._line()
            if "ok" not in line:
                continue
            self._unanswered -= 1
            if self._unanswered:
                continue
            if line["ok"] is True:
                return line
            raise RunnerError(f"{self.who}: {line.get('error', 'refused without a reason')}")

    async def watch(self, on_event: Callable[[Mapping[str, Any]], None]) -> None:
        """Hand on every event from now on, until the connection ends or this is cancelled."""
        write_object(self._writer, {"command": "watch"})
        while True:
            try:
                line = await self._line()
            except GoneError:
                return
            if "event" in line:
                on_event(line)

    async def _line(self) -> Mapping[str, Any]:
        try:
            line = await read_object(self._reader)
        except (AgentError, OSError) as error:
            raise GoneError(f"{self.who}: {error}") from None
        if line is None:
            raise GoneError(f"{self.who} is gone")
        return line

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
