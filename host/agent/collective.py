"""One rank of a group of agents: joins, connects, and runs collectives whose results are checked.

Who brings the ranks together (`mrc-host collective`, a scenario) carries each one's row of the
table to the others, over their control sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from host.agent.agent import Agent
from host.agent.errors import UsageError
from host.agent.exchange import qp_attributes
from host.agent.jsonlines import MAX_TIME_NS, Fields
from host.agent.sampling import Account, placed_bytes, requestors, responders
from host.agent.workspace import Workspace
from host.collectives import (
    DataType,
    Group,
    GroupError,
    Job,
    JobSpec,
    Member,
    Options,
    RankInfo,
    ReduceOp,
    collective_kind,
)
from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.qp.stats import sums

#: Of one vector
MAX_SIZE_BYTES: Final = 1 << 30
MAX_ROUNDS: Final = 1 << 16
_MAX_RANKS: Final = 1 << 12
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to run, how often, from when, and when to give up (CLOCK_MONOTONIC; None: never)."""

    spec: JobSpec
    rounds: int
    start_ns: int
    deadline_ns: int | None


class Rank:
    """A member of a group, with a workspace of its own; `name` is what samples call it."""

    def __init__(
        self,
        agent: Agent,
        rank: int,
        size: int,
        *,
        peers: Sequence[int] | None,
        lanes: int,
        name: str | None,
    ) -> None:
        self._agent = agent
        self._workspace = Workspace(agent, f"rank {rank} of {size}")
        context = self._workspace.context
        self._channel = context.create_comp_channel(lambda: agent.driver.defer(self._progress))
        try:
            self._member = Member(
                self._workspace.pd,
                rank,
                size,
                peers=peers,
                lanes=lanes,
                mrc_attr=qp_attributes(agent),
                channel=self._channel,
            )
        except BaseException:
            self._workspace.close()
            raise
        self._group: Group | None = None
        self._requestors: list[Requestor] = []
        self._responders: list[Responder] = []
        self._rounds_done = 0
        self._account: Account | None = None
        if name is not None:
            self._account = Account(name, lambda: self._rounds_done, self._delivered_bytes)

    @property
    def info(self) -> Mapping[str, Any]:
        """This rank's row of the table."""
        return self._member.info().to_json()

    async def connect(self, table: Sequence[RankInfo]) -> None:
        """Connect with all peers. Raises AgentError where one answers on no path."""
        rank = self._member.rank
        addresses = {
            int(link.qps[0].gid)
            for row in table
            for link in row.links
            if link.peer == rank and link.qps
        }
        for address in sorted(addresses):
            await self._agent.calibrate(address)
        self._group = self._member.connect(table)
        qps = [qp for lanes in self._member.queue_pairs.values() for qp in lanes]
        # A group that fails resets them; what they did is told all the same
        self._requestors, self._responders = requestors(qps), responders(qps)
        if self._account is not None:
            self._agent.accounts.add(self._account)
        self._member.cq.req_notify_cq()
        # What came before that makes no event
        self._agent.driver.defer(self._progress)

    def _progress(self) -> None:
        if self._group is None or self._channel.closed:
            return
        while self._channel.get_cq_event() is not None:
            self._member.cq.ack_cq_events()
        self._member.cq.req_notify_cq()
        self._group.progress()

    def _delivered_bytes(self) -> int:
        return placed_bytes(self._responders)

    async def run(self, plan: RunPlan) -> dict[str, Any]:
        """Run a collective some times over; each round has contents of its own.

        The answer has when each round began and ended here (the check not included), how many
        elements were wrong, and why it ended early, if it did: `failure` is of the group, and
        without one `done` false means that the deadline has passed. Raises UsageError.
        """
        group = self._group
        if group is None:
            raise UsageError("the rank is not connected")
        try:
            memory_bytes = plan.spec.buffer_bytes(group.size)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._workspace.reserve(memory_bytes)
        try:
            return await self._run(group, plan)
        finally:
            self._workspace.release(memory_bytes)

    async def _run(self, group: Group, plan: RunPlan) -> dict[str, Any]:
        rounds: list[dict[str, int]] = []
        wrong = 0
        failure: str | None = None
        deadline_s = None if plan.deadline_ns is None else plan.deadline_ns / _NS
        try:
            # Buffers and contents of the first round are made before its time comes
            job = Job(group, _of_round(plan.spec, 0))
            await asyncio.sleep((plan.start_ns - time.monotonic_ns()) / _NS)
            async with asyncio.timeout_at(deadline_s):
                for number in range(plan.rounds):
                    if number:
                        del job  # And with it its buffers, before there are others
                        job = Job(group, _of_round(plan.spec, number))
                    await _finished(job, rounds)
                    wrong += job.wrong_elements
                    if job.failure is not None:
                        failure = str(job.failure)
                        break
                    self._rounds_done += 1
        except TimeoutError:
            pass
        except GroupError as error:
            failure = str(error)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return {
            "done": len(rounds) == plan.rounds and failure is None,
            "rounds": rounds,
            "wrong_elements": wrong,
            "failure": failure,
            "delivered_bytes": self._delivered_bytes(),
            "sending": sums(self._requestors),
            "receiving": sums(self._responders),
        }

    def close(self) -> None:
        """Leave the group."""
        if self._account is not None:
            self._agent.accounts.discard(self._account)
        if self._group is not None:
            self._group.close()
        self._workspace.close()


async def _finished(job: Job, rounds: list[dict[str, int]]) -> None:
    """Run one round; `rounds` gets its times when it is over here."""
    begin_ns = time.monotonic_ns()

    def over(_: int) -> None:
        rounds.append({"begin_ns": begin_ns, "end_ns": time.monotonic_ns()})

    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    job.on_round = over
    job.on_done = lambda _: None if done.done() else done.set_result(None)
    job.start()
    await done


def _of_round(spec: JobSpec, number: int) -> JobSpec:
    return JobSpec(
        spec.collective,
        spec.size_bytes,
        data_type=spec.data_type,
        reduce_op=spec.reduce_op,
        root=spec.root,
        in_place=spec.in_place,
        options=spec.options,
        seed=spec.seed + number,
        check=spec.check,
    )


def join(agent: Agent, fields: Fields) -> Rank:
    """From the fields of a `group_join`. Raises UsageError."""
    size = fields.integer("size", 1, _MAX_RANKS)
    rank = fields.integer("rank", 0, size - 1)
    lanes = fields.integer("lanes", 1, 256, default=1)
    collective = fields.optional_text("collective")
    name = fields.optional_text("name")
    fields.end()
    peers = None if collective is None else _kind(collective).peers(rank, size)
    return Rank(agent, rank, size, peers=peers, lanes=lanes, name=name)


def _kind(name: str) -> Any:
    try:
        return collective_kind(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def take_plan(fields: Fields) -> RunPlan:
    """From the fields of a `group_run`. Raises UsageError."""
    try:
        spec = JobSpec(
            fields.text("collective"),
            fields.integer("size", 0, MAX_SIZE_BYTES),
            data_type=DataType(fields.text("data_type", DataType.FLOAT32.value)),
            reduce_op=ReduceOp(fields.text("reduce_op", ReduceOp.SUM.value)),
            root=fields.integer("root", 0, default=0),
            in_place=fields.flag("in_place", False),
            options=Options(
                fields.optional_integer("chunk_bytes", 1), fields.optional_integer("depth", 1)
            ),
            seed=fields.integer("seed", 0, default=0),
            check=fields.flag("check", True),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    plan = RunPlan(
        spec,
        rounds=fields.integer("rounds", 1, MAX_ROUNDS, default=1),
        start_ns=fields.integer("start_ns", 0, MAX_TIME_NS, default=0),
        deadline_ns=fields.optional_integer("deadline_ns", 0, MAX_TIME_NS),
    )
    fields.end()
    return plan


def take_table(fields: Fields) -> list[RankInfo]:
    """From the fields of a `group_connect`. Raises InvalidArgumentError, UsageError."""
    rows = [RankInfo.from_json(row) for row in fields.items("table")]
    fields.end()
    return rows
