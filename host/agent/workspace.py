"""What one user of an agent has: regions and queue pairs, which end with the user's connection."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mmap
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from host.agent.errors import AgentError, UsageError
from host.verbs import (
    Context,
    Mr,
    MrcQpAttr,
    MrInfo,
    Pd,
    QpCapacity,
    QpInfo,
    QpInitAttr,
    QueuePair,
    WorkCompletion,
)

if TYPE_CHECKING:
    from host.agent.agent import Agent

#: Of one region
MAX_REGION_BYTES: Final = 1 << 32
#: `random` draws fewer than 256 MiB at a time; blocks of whole 32-bit words are one stream
_PATTERN_BLOCK_BYTES: Final = 1 << 20
#: Completions that are kept for a user who does not take them
_MAX_KEPT: Final = 1 << 16


def pattern(size_bytes: int, seed: int) -> Iterator[bytes]:
    """Bytes that follow from a seed, and differ from seed to seed, block by block."""
    rng = random.Random(seed)
    for start in range(0, size_bytes, _PATTERN_BLOCK_BYTES):
        yield rng.randbytes(min(_PATTERN_BLOCK_BYTES, size_bytes - start))


async def _take(
    queue: deque[WorkCompletion], more: asyncio.Event, count: int, timeout_s: float | None
) -> list[WorkCompletion]:
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    while len(queue) < count:
        more.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await more.wait()
        except TimeoutError:
            break
    return [queue.popleft() for _ in range(min(count, len(queue)))]


class Region:
    """A registered buffer of the user's: memory of the agent, or a file that others see too."""

    def __init__(self, mr: Mr, buffer: bytearray | mmap.mmap) -> None:
        self.mr = mr
        self._buffer = buffer
        #: The same bytes, registered for those who asked for them by name
        self._shares: list[Mr] = []
        #: Immediates that came with their writes, oldest first
        self.arrivals: deque[WorkCompletion] = deque(maxlen=_MAX_KEPT)
        self._more = asyncio.Event()

    @property
    def own_bytes(self) -> int:
        """Memory that is the agent's own."""
        return len(self._buffer) if isinstance(self._buffer, bytearray) else 0

    @property
    def info(self) -> MrInfo:
        """What a peer needs to write there."""
        return self.mr.info

    def digest(self, offset: int, length: int | None) -> str:
        """SHA-256 of a part, in hex."""
        return hashlib.sha256(self.mr.view(offset, length)).hexdigest()

    def fill(self, offset: int, content: bytes) -> None:
        """Put bytes there."""
        self.mr.view(offset, len(content))[:] = content

    def fill_with_pattern(self, offset: int, length: int | None, seed: int) -> int:
        """Put bytes there that follow from a seed. Returns how many."""
        view = self.mr.view(offset, length)
        done = 0
        for block in pattern(len(view), seed):
            view[done : done + len(block)] = block
            done += len(block)
        return done

    def read(self, offset: int, length: int | None) -> bytes:
        """A copy of a part."""
        return bytes(self.mr.view(offset, length))

    def share(self, pd: Pd) -> Mr:
        """Register the same bytes in another protection domain."""
        mr = pd.reg_mr(memoryview(self._buffer))
        self._shares.append(mr)
        return mr

    def unshare(self, mr: Mr) -> None:
        """Undo `share`."""
        if mr in self._shares:
            self._shares.remove(mr)
        mr.force_close()

    def arrived(self, completion: WorkCompletion) -> None:
        """A WRITE with immediate has landed here."""
        self.arrivals.append(completion)
        self._more.set()

    async def wait(self, count: int, timeout_s: float | None) -> list[WorkCompletion]:
        """As `Connection.wait`, for `arrivals`."""
        return await _take(self.arrivals, self._more, count, timeout_s)

    def close(self) -> None:
        """Deregister it everywhere, and let go of the memory."""
        for mr in self._shares:
            mr.force_close()
        self._shares.clear()
        self.mr.force_close()
        if isinstance(self._buffer, mmap.mmap):
            # While a view is alive it stays open, and closes with it
            with contextlib.suppress(BufferError):
                self._buffer.close()


class Connection:
    """A queue pair with a completion queue of its own."""

    def __init__(self, workspace: Workspace, *, max_send_wr: int, max_recv_wr: int) -> None:
        context = workspace.context
        self._agent = workspace.agent
        self._driver = workspace.agent.driver
        self._channel = context.create_comp_channel(self._notified)
        self._cq = context.create_cq(max_send_wr + max_recv_wr, channel=self._channel)
        self.qp: QueuePair = context.create_qp(
            QpInitAttr(
                pd=workspace.pd,
                send_cq=self._cq,
                cap=QpCapacity(max_send_wr=max_send_wr, max_recv_wr=max_recv_wr),
            )
        )
        self.remote: QpInfo | None = None
        #: Takes completions in place of `wait`; called while the NIC is not at work
        self.on_completions: Callable[[list[WorkCompletion]], None] | None = None
        self._kept: deque[WorkCompletion] = deque(maxlen=_MAX_KEPT)
        self._more = asyncio.Event()
        self._cq.req_notify_cq()

    def connect(self, remote: QpInfo, attributes: MrcQpAttr | None = None) -> None:
        """To RTS, with what the other end told. Raises InvalidArgumentError."""
        self.qp.connect(remote, attributes)
        self.remote = remote

    def _notified(self) -> None:
        self._driver.defer(self._poll)

    def _poll(self) -> None:
        if self._cq.closed:
            return
        while self._channel.get_cq_event() is not None:
            self._cq.ack_cq_events()
        self._cq.req_notify_cq()
        completions = self._cq.poll_cq()
        if not completions:
            return
        if self.on_completions is not None:
            self.on_completions(completions)
            return
        self._kept.extend(completions)
        self._more.set()

    async def wait(self, count: int, timeout_s: float | None) -> list[WorkCompletion]:
        """Up to `count` completions, as soon as there are as many or the time is over."""
        return await _take(self._kept, self._more, count, timeout_s)

    def peer_name(self) -> str:
        """The name of the host at the other end."""
        return "?" if self.remote is None else self._agent.host_name(int(self.remote.gid))

    def close(self) -> None:
        """Destroy it; outstanding work leaves no completions."""
        self.qp.force_close()
        self._cq.force_close()
        self._channel.force_close()


class Workspace:
    """Everything that one user makes. `close` destroys it."""

    def __init__(self, agent: Agent, owner: str) -> None:
        self.agent = agent
        self.owner = owner
        self.context: Context = agent.device.open_context()
        self.pd = self.context.alloc_pd()
        self.regions: dict[int, Region] = {}
        self.connections: dict[int, Connection] = {}
        #: Of the agent's budget
        self._memory_bytes = 0
        agent.workspaces.add(self)

    def reserve(self, size_bytes: int) -> None:
        """Count memory that is about to be made, until `release` or `close`. Raises AgentError."""
        self.agent.memory.take(size_bytes)
        self._memory_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """What was reserved is free again."""
        self._memory_bytes -= size_bytes
        self.agent.memory.give_back(size_bytes)

    def register(self, size_bytes: int | None = None, file: Path | None = None) -> Region:
        """A region of so many bytes, or a file's. Raises AgentError."""
        buffer: bytearray | mmap.mmap
        if file is not None:
            try:
                descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
                try:
                    buffer = mmap.mmap(descriptor, 0)
                finally:
                    os.close(descriptor)
            except (OSError, ValueError) as error:
                raise UsageError(f"file: {file}: {error}") from None
        else:
            if size_bytes is None or not 1 <= size_bytes <= MAX_REGION_BYTES:
                raise UsageError(
                    f"size: {size_bytes} does not fit: it must be 1..{MAX_REGION_BYTES}"
                )
            self.reserve(size_bytes)
            try:
                buffer = bytearray(size_bytes)
            except MemoryError:
                self.release(size_bytes)
                raise AgentError(f"memory: the machine has no {size_bytes} bytes left") from None
        region = Region(self.pd.reg_mr(memoryview(buffer)), buffer)
        self.regions[region.mr.rkey] = region
        return region

    def deregister(self, region: Region) -> None:
        """Forget a region of this workspace, and let go of its memory."""
        del self.regions[region.mr.rkey]
        region.close()
        self.release(region.own_bytes)

    def create_connection(self, *, max_send_wr: int = 1024, max_recv_wr: int = 1024) -> Connection:
        """A queue pair that is not connected yet."""
        connection = Connection(self, max_send_wr=max_send_wr, max_recv_wr=max_recv_wr)
        self.connections[connection.qp.qp_num] = connection
        return connection

    def close(self) -> None:
        """Destroy everything; a second time does nothing."""
        self.agent.workspaces.discard(self)
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
        for region in self.regions.values():
            region.close()
        self.regions.clear()
        self.release(self._memory_bytes)
        self.context.close()
