"""Requests to agents and switches: one answer each, also behind one that nobody waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from topologies.runner.errors import RunnerError
from topologies.runner.scenario.connection import Connection, GoneError

Answer = Callable[[dict[str, Any]], Awaitable[bytes]]


@asynccontextmanager
async def connected(folder: Path, answer: Answer) -> AsyncIterator[Connection]:
    """A connection with somebody who answers each request so; empty: it hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            told = await answer(json.loads(line))
            writer.write(told)
            if not told.endswith(b"\n"):
                break
        writer.close()

    server = await asyncio.start_unix_server(serve, folder / "socket")
    connection = await Connection.open("h0", folder / "socket")
    try:
        yield connection
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next(tmp_path: Path) -> None:
    async def test() -> None:
        asked, go = asyncio.Event(), asyncio.Event()

        async def answer(request: dict[str, Any]) -> bytes:
            asked.set()
            await go.wait()
            return line(event="port") + line(ok=True, number=request["number"])

        async with connected(tmp_path, answer) as connection:
            first = asyncio.create_task(connection.ask("sample", number=1))
            await asked.wait()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            go.set()
            for number in (2, 3):
                assert (await connection.ask("sample", number=number))["number"] == number

    asyncio.run(test())


def test_a_refusal_has_its_reason(tmp_path: Path) -> None:
    async def test() -> None:
        async def answer(_: dict[str, Any]) -> bytes:
            return line(ok=False, error="no such command")

        async with connected(tmp_path, answer) as connection:
            with pytest.raises(RunnerError, match="h0: no such command"):
                await connection.ask("nonsense")

    asyncio.run(test())


@pytest.mark.parametrize("told", [b"", b'{"ok": tru', b"[" * 100_000 + b"\n"])
def test_who_hangs_up_or_talks_nonsense_is_gone(tmp_path: Path, told: bytes) -> None:
    async def test() -> None:
        async def answer(_: dict[str, Any]) -> bytes:
            return told

        async with connected(tmp_path, answer) as connection:
            with pytest.raises(GoneError, match="h0"):
                await connection.ask("sample")

    asyncio.run(test())


def test_nobody_there_is_gone(tmp_path: Path) -> None:
    with pytest.raises(GoneError, match="h0 takes no requests"):
        asyncio.run(Connection.open("h0", tmp_path / "socket"))
