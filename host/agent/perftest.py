"""Bandwidth and latency of writes, measured as perftest's ib_write_bw and ib_write_lat do."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from host.agent.errors import AgentError
from host.agent.jsonlines import Fields
from host.agent.workspace import MAX_REGION_BYTES, Connection, Region
from host.verbs import (
    MrcError,
    MrInfo,
    SendFlags,
    Sge,
    WcOpcode,
    WcStatus,
    WorkCompletion,
)

MAX_TX_DEPTH: Final = 2048
#: Some thirty years: for ever
MAX_DURATION_S: Final = 1e9
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: `iterations` messages a queue pair, or as many as `duration_s` lets.

    `tx_depth` messages may be posted at a time; one of `cq_mod` makes a completion.
    """

    size_bytes: int
    iterations: int
    duration_s: float | None
    tx_depth: int
    cq_mod: int

    @classmethod
    def take(cls, fields: Fields) -> Load:
        """From the fields of a request. Raises UsageError."""
        size_bytes = fields.integer("size", 1, MAX_REGION_BYTES)
        iterations = fields.integer("iterations", 1, default=1000)
        duration = fields.take("duration_s")
        duration_s = None
        if duration is not None:
            duration_s = Fields({"duration_s": duration}).number(
                "duration_s", 0.001, MAX_DURATION_S
            )
        tx_depth = fields.integer("tx_depth", 1, MAX_TX_DEPTH, default=128)
        cq_mod = fields.integer("cq_mod", 1, MAX_TX_DEPTH, default=16)
        return cls(size_bytes, iterations, duration_s, tx_depth, min(cq_mod, tx_depth))

    def to_json(self) -> dict[str, Any]:
        """The fields that `take` takes."""
        return {
            "size": self.size_bytes,
            "iterations": self.iterations,
            "duration_s": self.duration_s,
            "tx_depth": self.tx_depth,
            "cq_mod": self.cq_mod,
        }


@dataclass(frozen=True, slots=True)
class BandwidthResult:
    """Of all queue pairs together. Peak and average in bytes per second, of payload."""

    size_bytes: int
    iterations: int
    elapsed_ns: int
    peak: float
    average: float

    @property
    def messages_per_s(self) -> float:
        """Message rate."""
        return self.iterations * _NS / self.elapsed_ns

    def to_json(self) -> dict[str, Any]:
        """As an object of numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> BandwidthResult:
        """The inverse of `to_json`. Raises AgentError."""
        try:
            return cls(
                int(document["size_bytes"]),
                int(document["iterations"]),
                int(document["elapsed_ns"]),
                float(document["peak"]),
                float(document["average"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise AgentError(f"not a result of a bandwidth test: {error}") from None

    def plus(self, other: BandwidthResult) -> BandwidthResult:
        """Of both directions together, as perftest's -b."""
        return BandwidthResult(
            self.size_bytes,
            self.iterations + other.iterations,
            max(self.elapsed_ns, other.elapsed_ns),
            self.peak + other.peak,
            self.average + other.average,
        )


class _Sender:
    """One queue pair's part of a bandwidth test."""

    __slots__ = ("completed", "connection", "posted", "target")

    def __init__(self, connection: Connection, target: MrInfo) -> None:
        self.connection = connection
        self.target = target
        self.posted = 0
        self.completed = 0


class Bandwidth:
    """Keeps `tx_depth` writes posted on each queue pair, all to the same place."""

    def __init__(
        self,
        connections: Sequence[Connection],
        source: Region,
        targets: Sequence[MrInfo],
        load: Load,
    ) -> None:
        self._load = load
        self._local = Sge(source.mr, 0, load.size_bytes)
        self._senders = [
            _Sender(connection, target)
            for connection, target in zip(connections, targets, strict=True)
        ]
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._start_ns = self._last_ns = 0
        self._stop_ns: int | None = None
        self._completed = 0
        #: (messages completed so far, when), back to tx_depth messages ago
        self._recent: deque[tuple[int, int]] = deque()
        self._peak = 0.0

    async def run(self) -> BandwidthResult:
        """Until all is done. Raises AgentError when a queue pair fails."""
        load = self._load
        self._start_ns = self._last_ns = time.monotonic_ns()
        self._recent.append((0, self._start_ns))
        if load.duration_s is not None:
            self._stop_ns = self._start_ns + int(load.duration_s * _NS)
        try:
            for sender in self._senders:
                sender.connection.on_completions = self._completed_on(sender)
                self._post(sender)
            await self._finished
        finally:
            for sender in self._senders:
                sender.connection.on_completions = None
        elapsed_ns = max(self._last_ns - self._start_ns, 1)
        average = self._completed * load.size_bytes * _NS / elapsed_ns
        return BandwidthResult(
            load.size_bytes, self._completed, elapsed_ns, max(self._peak, average), average
        )

    def _post(self, sender: _Sender) -> None:
        load, qp, target = self._load, sender.connection.qp, sender.target
        in_duration = self._stop_ns is not None and time.monotonic_ns() < self._stop_ns
        while sender.posted - sender.completed < load.tx_depth:
            number = sender.posted + 1
            if self._stop_ns is None:
                if number > load.iterations:
                    break
                last = number == load.iterations
            else:
                # Ends where a completion tells of all
                if not in_duration and sender.posted % load.cq_mod == 0:
                    break
                last = False
            signaled = last or number % load.cq_mod == 0
            qp.post_write(
                number,
                self._local,
                target.addr,
                target.rkey,
                send_flags=SendFlags.SIGNALED if signaled else SendFlags.NONE,
            )
            sender.posted = number
        if not self._finished.done() and all(
            each.posted == each.completed for each in self._senders
        ):
            self._finished.set_result(None)

    def _completed_on(self, sender: _Sender) -> Any:
        def completed(completions: list[WorkCompletion]) -> None:
            if self._finished.done():
                return
            try:
                check(completions, sender.connection)
                for completion in completions:
                    if completion.opcode is WcOpcode.RDMA_WRITE:
                        self._completed += completion.wr_id - sender.completed
                        sender.completed = completion.wr_id
                self._measure(time.monotonic_ns())
                self._post(sender)
            except (AgentError, MrcError) as error:
                if not self._finished.done():
                    self._finished.set_exception(error)

        return completed

    def _measure(self, now_ns: int) -> None:
        self._last_ns = now_ns
        recent = self._recent
        recent.append((self._completed, now_ns))
        window = self._load.tx_depth * len(self._senders)
        while len(recent) > 2 and recent[1][0] <= self._completed - window:
            recent.popleft()
        messages, since_ns = recent[0]
        if self._completed - messages >= window and now_ns > since_ns:
            size_bytes = (self._completed - messages) * self._load.size_bytes
            self._peak = max(self._peak, size_bytes * _NS / (now_ns - since_ns))


class Echo:
    """Answers every WRITE with immediate by one of the same size, for as long as the QP lives."""

    def __init__(self, connection: Connection, source: Region, target: MrInfo) -> None:
        self._connection = connection
        self._source = source
        self._target = target
        connection.on_completions = self._completed

    def _completed(self, completions: list[WorkCompletion]) -> None:
        qp, target = self._connection.qp, self._target
        for completion in completions:
            if (
                completion.opcode is WcOpcode.RECV_RDMA_WITH_IMM
                and completion.status is WcStatus.SUCCESS
                and completion.imm is not None
            ):
                local = Sge(self._source.mr, 0, completion.byte_len)
                qp.post_write_imm(
                    0, local, target.addr, target.rkey, completion.imm, send_flags=SendFlags.NONE
                )
                qp.post_recv(0)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """One way: half of each round trip. All times in ns."""

    size_bytes: int
    iterations: int
    minimum: int
    maximum: int
    typical: int
    average: float
    deviation: float
    percentile_99: int
    percentile_999: int

    def to_json(self) -> dict[str, Any]:
        """As an object of numbers."""
        return asdict(self)

    @classmethod
    def of(cls, size_bytes: int, halves: Sequence[int]) -> LatencyResult:
        """From measured half round trips."""
        ordered = sorted(halves)

        def percentile(part: float) -> int:
            return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]

        return cls(
            size_bytes,
            len(ordered),
            ordered[0],
            ordered[-1],
            int(statistics.median(ordered)),
            statistics.fmean(ordered),
            statistics.pstdev(ordered),
            percentile(0.99),
            percentile(0.999),
        )


class Latency:
    """A write there, the far end's `Echo` back, and again."""

    def __init__(self, connection: Connection, source: Region, target: MrInfo, load: Load) -> None:
        self._connection = connection
        self._local = Sge(source.mr, 0, load.size_bytes)
        self._target = target
        self._load = load
        self._halves: list[int] = []
        self._sent_ns = 0
        self._stop_ns: int | None = None
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> LatencyResult:
        """Until all is done. Raises AgentError when the queue pair fails."""
        load = self._load
        if load.duration_s is not None:
            self._stop_ns = time.monotonic_ns() + int(load.duration_s * _NS)
        self._connection.on_completions = self._completed
        try:
            self._send()
            await self._finished
        finally:
            self._connection.on_completions = None
        return LatencyResult.of(load.size_bytes, self._halves)

    def _send(self) -> None:
        number = len(self._halves)
        self._connection.qp.post_recv(0)
        self._sent_ns = time.monotonic_ns()
        self._connection.qp.post_write_imm(
            number,
            self._local,
            self._target.addr,
            self._target.rkey,
            number & 0xFFFFFFFF,
            send_flags=SendFlags.NONE,
        )

    def _completed(self, completions: list[WorkCompletion]) -> None:
        now_ns = time.monotonic_ns()
        if self._finished.done():
            return
        try:
            check(completions, self._connection)
            for completion in completions:
                if completion.opcode is not WcOpcode.RECV_RDMA_WITH_IMM:
                    continue
                self._halves.append((now_ns - self._sent_ns) // 2)
                if self._stop_ns is None:
                    done = len(self._halves) >= self._load.iterations
                else:
                    done = now_ns >= self._stop_ns
                if done:
                    self._finished.set_result(None)
                    return
                self._send()
        except (AgentError, MrcError) as error:
            self._finished.set_exception(error)


def check(completions: Sequence[WorkCompletion], connection: Connection) -> None:
    """Raises AgentError with why a queue pair failed: not always what its first completion says.

    The request that it failed on may stand behind others, which are flushed.
    """
    failed = [each for each in completions if each.status is not WcStatus.SUCCESS]
    if failed:
        causes = [each for each in failed if each.status is not WcStatus.WR_FLUSH_ERROR]
        status = (causes or failed)[0].status
        peer = "?" if connection.remote is None else connection.peer_name()
        raise AgentError(f"QP {failed[0].qp_num:#x} towards {peer}: {status.value} ({status.name})")
