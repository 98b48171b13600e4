"""A flow of a scenario in real time: messages to another agent, and every byte checked there.

The near end posts and takes completions in the driver's slices. Which messages are complete goes
to the far end (`flow_target`) over the exchange, all that came meanwhile in one request. There are
more slots than messages in flight, so that writing goes on while others are checked.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from host.agent.address import Address
from host.agent.agent import Agent
from host.agent.errors import AgentError, UsageError
from host.agent.exchange import Exchange
from host.agent.flow_target import MAX_DEPTH, MAX_FLOW_BYTES, MAX_QPS, MAX_SEED
from host.agent.jsonlines import Fields
from host.agent.sampling import Account, requestors
from host.agent.workspace import Connection, Workspace
from host.memory_check import Pattern, slot_offset
from host.qp.stats import sums
from host.striping import message_parts
from host.verbs import MrInfo, WcStatus, WorkCompletion

#: Completions of a flow of which the time is kept
MAX_MESSAGE_TIMES: Final = 1000
#: Bytes and messages of a queue pair that may be complete and not checked yet
_UNCHECKED_BYTES: Final = 4 << 20
_MAX_UNCHECKED: Final = 64
#: Messages of one request to check, so that it fits in a line
_CHECKED_AT_ONCE: Final = 4096
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """What is written: as `topologies.scenario.Flow`; `repeat` None: until a time.

    `parts`: of each message, first byte and end of what each queue pair writes.
    """

    name: str
    to: Address
    size_bytes: int
    depth: int
    parts: tuple[tuple[int, int], ...]
    stripe: bool
    immediate: bool
    repeat: int | None
    seed: int

    @classmethod
    def take(cls, fields: Fields, path_mtu_bytes: int) -> FlowSpec:
        """From the fields of a `flow_open`. Raises UsageError."""
        size_bytes = fields.integer("size", 1, MAX_FLOW_BYTES)
        qps = fields.integer("qps", 1, MAX_QPS, default=1)
        stripe = fields.flag("stripe", False)
        striped = message_parts(size_bytes, qps, path_mtu_bytes)
        spec = cls(
            name=fields.text("name"),
            to=Address.parse(fields.text("to")),
            size_bytes=size_bytes,
            depth=fields.integer("depth", 1, MAX_DEPTH, default=2),
            parts=tuple(striped if stripe else [(0, size_bytes)] * qps),
            stripe=stripe,
            immediate=fields.flag("immediate", False),
            repeat=fields.optional_integer("repeat", 1),
            seed=fields.integer("seed", 0, MAX_SEED, default=0),
        )
        fields.end()
        return spec

    @property
    def slots(self) -> int:
        """Places for messages at the far end, a queue pair."""
        unchecked = max(1, min(_MAX_UNCHECKED, _UNCHECKED_BYTES // self.size_bytes))
        return self.depth + unchecked

    @property
    def apart(self) -> int:
        """Contents of a queue pair's first message follow so many after those of the one before.

        Where time ends a flow, as in virtual time, by one.
        """
        if self.stripe:
            return 0
        return 1 if self.repeat is None else self.repeat


class _Channel:
    """One queue pair of the flow: its messages, one after the other, `depth` at a time.

    Of a striped flow, its part of each message; then all channels go on together.
    """

    def __init__(self, flow: Flow, index: int, connection: Connection, target: MrInfo) -> None:
        self._flow = flow
        self._index = index
        self._connection = connection
        self._target = target
        self._part = slice(*flow.spec.parts[index])
        self.size_bytes = self._part.stop - self._part.start
        self.posted = 0
        self.completed = 0
        self.succeeded = 0
        #: Of those that succeeded, how many the far end has looked at
        self.checked = 0
        self.failed = False

    def start(self) -> None:
        """Begin to post."""
        self._connection.on_completions = self._take_completions
        self.post()

    def post(self) -> None:
        """Post as many messages as may be posted now."""
        flow, spec = self._flow, self._flow.spec
        slots = spec.slots
        while (
            self.posted - min(each.completed for each in self._together) < spec.depth
            and self.posted - self.checked < slots
            and self._may_go_on()
        ):
            number = self.posted
            where = self._target.addr + slot_offset(self.size_bytes, number % slots)
            data = flow.pattern.message(self._index * spec.apart + number)[self._part]
            qp, rkey = self._connection.qp, self._target.rkey
            # Before: what this makes happen must find the message posted
            self.posted += 1
            if spec.immediate:
                qp.post_write_imm(number, data, where, rkey, number & 0xFFFFFFFF)
            else:
                qp.post_write(number, data, where, rkey)

    @property
    def _together(self) -> list[_Channel]:
        """The channels that share the messages."""
        return self._flow.channels if self._flow.spec.stripe else [self]

    def _may_go_on(self) -> bool:
        flow = self._flow
        if flow.stopped or any(each.failed for each in self._together):
            return False
        if flow.until_ns is None:
            return self.posted < (flow.spec.repeat or 0)
        return time.monotonic_ns() < flow.until_ns

    @property
    def done(self) -> bool:
        """Whether nothing is outstanding and nothing more will be posted."""
        if self.completed < self.posted:
            return False
        if not self.failed and self.checked < self.posted and not self._flow.broken:
            return False
        return not self._may_go_on()

    def in_use(self) -> list[int] | None:
        """Slots that a message is under way to, or not checked; None: who knows, it has failed."""
        if self.failed:
            return None
        return [number % self._flow.spec.slots for number in range(self.checked, self.posted)]

    def _take_completions(self, completions: list[WorkCompletion]) -> None:
        flow = self._flow
        now_ns = time.monotonic_ns()
        for completion in completions:
            number = completion.wr_id
            if number != self.completed:
                flow.problems["completions out of order"] += 1
            self.completed += 1
            if completion.status is not WcStatus.SUCCESS:
                flow.errors[completion.status.value] += 1
                self.failed = True
                continue
            self.succeeded += 1
            whole = self.succeeded == min(each.succeeded for each in self._together)
            flow.completed(self, self._index, number, now_ns, whole=whole)
        for each in self._together:
            each.post()
        flow.look()


class Flow:
    """A flow from here to another agent: `open`, `run` once, `close`.

    Attributes:
        errors: failed work requests, by status.
        problems: other things that must not be, by kind.
        stopped: nothing more is posted.
        broken: the far end cannot be asked any more.
    """

    def __init__(
        self, agent: Agent, spec: FlowSpec, workspace: Workspace, exchange: Exchange
    ) -> None:
        self.spec = spec
        self.pattern = Pattern(random.Random(spec.seed), spec.size_bytes)
        self.until_ns: int | None = None
        self.errors: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.stopped = False
        self.broken = False
        self._agent = agent
        self._workspace = workspace
        self._exchange = exchange
        targets = map(MrInfo.from_json, exchange.result["regions"])
        self.channels = [
            _Channel(self, index, connection, target)
            for index, (connection, target) in enumerate(
                zip(exchange.connections, targets, strict=True)
            )
        ]
        self._ran = False
        self._over = asyncio.Event()
        #: Complete and not checked: (channel, index of channel, number)
        self._unchecked: list[tuple[_Channel, int, int]] = []
        self._news = asyncio.Event()
        self._last_completion_ns: int | None = None
        self._message_ns: list[int] = []
        self._wrong_bytes = 0
        self._account = Account(spec.name, posted=self.posted_messages)
        agent.accounts.add(self._account)

    @classmethod
    async def open(cls, agent: Agent, spec: FlowSpec) -> Flow:
        """Queue pairs, connected, and memory at the far end. Raises AgentError."""
        workspace = Workspace(agent, f"flow {spec.name}")
        try:
            # The pattern that messages are cut from
            workspace.reserve(spec.size_bytes)
            connections = [
                workspace.create_connection(max_send_wr=spec.depth, max_recv_wr=1)
                for _ in spec.parts
            ]
            arguments = {
                "name": spec.name,
                "size": spec.size_bytes,
                "slots": spec.slots,
                "seed": spec.seed,
                "apart": spec.apart,
                "parts": spec.parts,
                "immediate": spec.immediate,
            }
            exchange = await Exchange.open(workspace, spec.to, "flow", arguments, connections)
            return cls(agent, spec, workspace, exchange)
        except BaseException:
            workspace.close()
            raise

    def to_json(self) -> dict[str, Any]:
        """What the user is told once it is open."""
        remote = self._exchange.connections[0].remote
        assert remote is not None
        agent = self._agent
        return {
            "peer": self._exchange.host,
            "base_rtt_ns": agent.profiles.base_rtt_ns(agent.config, int(remote.gid)),
            "qps": [connection.qp.qp_num for connection in self._exchange.connections],
        }

    def posted_messages(self) -> int:
        """Messages posted so far."""
        return sum(channel.posted for channel in self.channels)

    async def run(
        self, start_ns: int, until_ns: int | None, deadline_ns: int | None
    ) -> dict[str, Any]:
        """Write from `start_ns` to the end, and tell what came of it. Times are monotonic.

        It ends when all is written and checked: `repeat` messages, or all that were begun before
        `until_ns`, and not before that time. Until then it posts whenever `depth` and the slots let
        it; where slots wait for their check, nothing may be under way for a while, at the end too.
        At `deadline_ns` it ends in any case. What fails is in the result. Raises UsageError.
        """
        if (self.spec.repeat is None) == (until_ns is None):
            raise UsageError("until_ns: a flow has either repeat or until_ns")
        if self._ran:
            raise UsageError(f"the flow {self.spec.name} has run already")
        self._ran = True
        self.until_ns = until_ns
        checker = asyncio.create_task(self._check_all())
        checker.add_done_callback(self._checker_ended)
        done = False
        try:
            async with asyncio.timeout_at(None if deadline_ns is None else deadline_ns / _NS):
                await asyncio.sleep((start_ns - time.monotonic_ns()) / _NS)
                for channel in self.channels:
                    channel.start()
                self.look()
                await self._over.wait()
            done = True
        except TimeoutError:
            pass
        except BaseException:
            checker.cancel()
            raise
        self.stopped = True
        self._news.set()
        await checker
        return await self._result(done)

    # --- while it runs ---

    def _checker_ended(self, checker: asyncio.Task[None]) -> None:
        """Who waits for the end learns what went wrong, and does not wait for ever."""
        if not checker.cancelled() and checker.exception() is not None:
            self._over.set()

    def look(self) -> None:
        """Something has changed: see whether all is over."""
        if not self._over.is_set() and all(channel.done for channel in self.channels):
            self._over.set()

    def completed(
        self, channel: _Channel, index: int, number: int, now_ns: int, *, whole: bool
    ) -> None:
        """A channel's message has its completion, and is `whole`; the far end must look at it."""
        if whole and len(self._message_ns) < MAX_MESSAGE_TIMES:
            self._message_ns.append(now_ns)
        self._last_completion_ns = now_ns
        self._unchecked.append((channel, index, number))
        self._news.set()

    async def _check_all(self) -> None:
        """Let the far end check what is complete, until the flow has ended and all is checked."""
        while not self.broken:
            if not self._unchecked:
                if self.stopped:
                    return
                self._news.clear()
                await self._news.wait()
                continue
            batch = self._unchecked[:_CHECKED_AT_ONCE]
            del self._unchecked[:_CHECKED_AT_ONCE]
            answer = await self._ask("check", messages=[each[1:] for each in batch])
            if answer is None:
                break
            self._wrong_bytes += answer["wrong_bytes"]
            for channel, _, _ in batch:
                channel.checked += 1
            for channel in self.channels:
                channel.post()
            self.look()
        self.look()

    async def _ask(self, request: str, **arguments: Any) -> Mapping[str, Any] | None:
        """A request to the far end; None where it fails, which is a problem of the flow."""
        try:
            return await self._exchange.request(request, **arguments)
        except AgentError as error:
            self.problems[str(error)] += 1
            self.broken = self.stopped = True
            return None

    # --- what it did ---

    async def _result(self, done: bool) -> dict[str, Any]:
        in_use = [channel.in_use() for channel in self.channels]
        told: Mapping[str, Any] | None = None
        if not self.broken:
            told = await self._ask("finish", in_use=in_use)
        checked = [channel.checked for channel in self.channels]
        completed_bytes = sum(channel.checked * channel.size_bytes for channel in self.channels)
        problems = self.problems
        delivered_bytes, receiving = completed_bytes, {}
        if told is not None:
            self._wrong_bytes += told["wrong_bytes"]
            problems.update(told["problems"])
            delivered_bytes, receiving = told["delivered_bytes"], told["receiving"]
            if self.spec.immediate:
                for channel, immediates in zip(self.channels, told["immediates"], strict=True):
                    if not channel.failed and immediates < channel.completed:
                        problems["immediates missing"] += channel.completed - immediates
        halves = requestors(connection.qp for connection in self._exchange.connections)
        return {
            "done": done and not self.broken,
            "completed_bytes": completed_bytes,
            "completed_messages": min(checked) if self.spec.stripe else sum(checked),
            "delivered_bytes": delivered_bytes,
            "last_completion_ns": self._last_completion_ns,
            "message_ns": self._message_ns,
            "wrong_bytes": self._wrong_bytes,
            "errors": dict(self.errors),
            "problems": dict(problems),
            "sending": sums(halves),
            "receiving": receiving,
        }

    def close(self) -> None:
        """Destroy it, at both ends."""
        self.stopped = True
        self._agent.accounts.discard(self._account)
        self._exchange.close()
        self._workspace.close()
