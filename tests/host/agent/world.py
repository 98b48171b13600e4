"""Agents back to back in one asyncio loop: real time and real sockets, but no interfaces."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.agent.address import Address, control_path, exchange_path
from host.agent.agent import Agent, AgentOptions
from host.agent.control import ControlServer
from host.agent.exchange import ExchangeServer
from host.agent.services import SERVICES
from host.agent.timing import TimingOptions, real_time_config
from rawsocket.losses import Loss
from topologies.host_config import host_config, host_json
from topologies.model import Fabric

FABRIC = Fabric("agents", planes=2, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=2)

#: Quick retries, where nothing is lost by accident
QUICK = TimingOptions(timeout=15, linear_retries=1, exponential_retries=1)


class SocketPort:
    """A `PacketPort` over one end of a pair of Unix sockets."""

    def __init__(self, name: str, end: socket.socket) -> None:
        end.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        self.name = name
        self.ifindex = -1
        self.socket = end
        #: Frames are neither sent nor taken in
        self.dead = False
        #: Changes a frame on its way out
        self.tamper: Callable[[bytes], bytes] = lambda frame: frame
        self.losses: list[Loss] = []
        self._waiting: deque[bytes] = deque()

    @property
    def backlog(self) -> int:
        return len(self._waiting)

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self, limit: int) -> list[bytes]:
        frames: list[bytes] = []
        while len(frames) < limit:
            try:
                frames.append(self.socket.recv(65536))
            except BlockingIOError:
                break
        return [] if self.dead else frames

    def send(self, frame: bytes) -> None:
        if not self.dead:
            self._waiting.append(self.tamper(frame))
            self.retry()

    def send_batch(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self.send(frame)

    def retry(self) -> None:
        while self._waiting:
            try:
                self.socket.send(self._waiting[0])
            except BlockingIOError:
                return
            except OSError:
                pass  # the other end is gone
            self._waiting.popleft()

    def link_down(self) -> None:
        self._waiting.clear()

    def reattach(self) -> bool:
        return False

    def take_losses(self, *, poll: bool) -> list[Loss]:
        taken, self.losses = self.losses, []
        return taken

    def close(self) -> None:
        self.socket.close()


def host_document(host: str, fabric: Fabric = FABRIC) -> str:
    return json.dumps(host_json(host_config(fabric, fabric.host(host))))


@dataclass
class Side:
    """An agent and its servers."""

    agent: Agent
    ports: dict[int, SocketPort]
    control: ControlServer
    exchange: ExchangeServer
    folder: Path

    @property
    def control_path(self) -> Path:
        return control_path(self.folder, self.agent.name)

    @property
    def exchange_address(self) -> str:
        return f"unix:{exchange_path(self.folder, self.agent.name)}"

    async def close(self) -> None:
        await self.control.close()
        await self.exchange.close()
        self.agent.close()


@asynccontextmanager
async def world(
    options: AgentOptions | None = None, hosts: tuple[str, str] = ("h0", "h2")
) -> AsyncIterator[tuple[Side, Side]]:
    """Two agents whose planes are joined, with control sockets and exchanges."""
    options = AgentOptions(seed=1) if options is None else options
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(FABRIC.planes)]
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-agent-") as folder:
        sides = []
        try:
            for index, host in enumerate(hosts):
                ports = {
                    plane: SocketPort(f"plane{plane}", pair[index])
                    for plane, pair in enumerate(pairs)
                }
                agent = Agent(
                    real_time_config(host_document(host), options.timing, options.endpoint),
                    ports,
                    options=options,
                )
                side = Side(
                    agent,
                    ports,
                    ControlServer(agent),
                    ExchangeServer(agent, SERVICES),
                    Path(folder),
                )
                sides.append(side)
                await side.exchange.listen(Address.parse(side.exchange_address))
                await side.control.listen(Address(path=side.control_path))
            yield sides[0], sides[1]
        finally:
            for side in sides:
                await side.close()


class Client:
    """The control socket from within the loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.events: list[dict[str, Any]] = []

    @classmethod
    async def open(cls, side: Side) -> Client:
        return cls(*await asyncio.open_unix_connection(str(side.control_path), limit=1 << 22))

    async def line(self, text: bytes) -> dict[str, Any]:
        """Send a line as it is; returns the answer."""
        self._writer.write(text)
        while True:
            line = await self._reader.readline()
            assert line.endswith(b"\n"), "the agent closed the connection"
            document: dict[str, Any] = json.loads(line)
            if "ok" in document:
                return document
            self.events.append(document)

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """A request that must go well."""
        answer = await self.line(json.dumps({"command": command, **fields}).encode() + b"\n")
        assert answer["ok"], answer
        return answer

    async def refused(self, command: str, **fields: Any) -> str:
        """A request that must not; returns the reason."""
        answer = await self.line(json.dumps({"command": command, **fields}).encode() + b"\n")
        assert not answer["ok"], answer
        error: str = answer["error"]
        assert "\n" not in error
        return error

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the other tasks bring about."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test; one that hangs fails."""

    async def limited() -> None:
        async with asyncio.timeout(120):
            await test

    asyncio.run(limited())
