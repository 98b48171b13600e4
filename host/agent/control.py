"""The control socket: a Unix socket with mode 0600 that takes JSON objects, one a line.

    → {"command": "register", "size": 1048576}
    ← {"ok": true, "region": 305419896, "addr": …, "length": 1048576, "rkey": 305419896}

Requests of a connection are carried out one after another, each answered by one line with `ok`;
lines with `event` may come before it. What a connection makes (regions, queue pairs) ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from host.agent.address import Address, remove_socket
from host.agent.commands import COMMANDS, Session
from host.agent.errors import AgentError, UsageError
from host.agent.jsonlines import Fields, read_object, refusal, shown, write_object
from host.verbs import MrcError

if TYPE_CHECKING:
    from host.agent.agent import Agent

log = logging.getLogger(__name__)

#: Requests of a connection that may wait while one is carried out
_MAX_WAITING: Final = 64


class ControlServer:
    """Serves the control socket of an agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._server: asyncio.Server | None = None
        self._address: Address | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, address: Address) -> None:
        """Begin. Raises AgentError."""
        self._server = await address.listen(self._accepted)
        self._address = address

    async def close(self) -> None:
        """End all connections, and remove the socket."""
        if self._server is None or self._address is None:
            return
        self._server.close()
        if self._address.path is not None:
            remove_socket(self._address.path)
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        session = Session(self._agent, lambda event: write_object(writer, event))
        requests: asyncio.Queue[dict[str, Any] | AgentError] = asyncio.Queue(_MAX_WAITING)
        worker = asyncio.create_task(self._work(session, requests, writer))
        try:
            # Reading goes on while a request is carried out: its end is the user's Ctrl-C
            while True:
                request: dict[str, Any] | AgentError | None
                try:
                    request = await read_object(reader)
                except UsageError as error:
                    request = error
                if request is None:
                    break
                requests.put_nowait(request)
        except asyncio.QueueFull:
            told = f"more than {_MAX_WAITING} requests wait for the one before: good-bye"
            write_object(writer, refusal(told, usage=True))
        except asyncio.CancelledError:
            pass  # the agent ends
        finally:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker
            session.close()
            self._tasks.discard(task)
            writer.close()

    async def _work(
        self,
        session: Session,
        requests: asyncio.Queue[dict[str, Any] | AgentError],
        writer: asyncio.StreamWriter,
    ) -> None:
        while True:
            request = await requests.get()
            if isinstance(request, AgentError):
                write_object(writer, refusal(request, usage=True))
            else:
                write_object(writer, await self._answer(session, request))
            with contextlib.suppress(ConnectionError):
                await writer.drain()

    @staticmethod
    async def _answer(session: Session, request: dict[str, Any]) -> dict[str, Any]:
        fields = Fields(request)
        try:
            name = fields.text("command")
            command = COMMANDS.get(name)
            if command is None:
                raise UsageError(f"command {shown(name)}: there are {', '.join(COMMANDS)}")
            return {"ok": True, **await command(session, fields)}
        except UsageError as error:
            return refusal(error, usage=True)
        except AgentError as error:
            return refusal(error)
        except MrcError as error:
            return refusal(error.strerror)
        except BaseExceptionGroup as group:
            return refusal("; ".join(str(each) for each in group.exceptions))
        except Exception as error:
            log.exception("a request failed")
            return refusal(f"{type(error).__name__}: {error}")
