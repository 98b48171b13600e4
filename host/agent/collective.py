"""One rank of a group of agents: joins, connects, and runs collectives whose results are checked.

Who brings the ranks together (`mrc-host collective`, a scenario) carries each one's row of the
table to the others, over their control sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from host.agent.agent import Agent
from host.agent.errors import AgentError, UsageError
from host.agent.exchange import qp_attributes
from host.agent.jsonlines import Fields
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

#: Of one vector
MAX_SIZE_BYTES: Final = 1 << 30
MAX_ROUNDS: Final = 1 << 16
_MAX_RANKS: Final = 1 << 12


class Rank:
    """A member of a group, with a workspace of its own."""

    def __init__(
        self, agent: Agent, rank: int, size: int, peers: Sequence[int] | None, lanes: int
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

    async def run(self, spec: JobSpec, rounds: int) -> dict[str, Any]:
        """Run a collective some times over; each round has contents of its own.

        The answer has when each round began and ended here (CLOCK_MONOTONIC, the check not
        included) and how many elements were wrong. Raises AgentError when the group fails.
        """
        group = self._group
        if group is None:
            raise UsageError("the rank is not connected")
        starts: list[int] = []
        ends: list[int] = []
        wrong = 0
        try:
            for number in range(rounds):
                job = Job(
                    group,
                    _of_round(spec, number),
                    on_round=lambda _: ends.append(time.monotonic_ns()),
                )
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                job.on_done = lambda _, done=done: done.done() or done.set_result(None)
                starts.append(time.monotonic_ns())
                job.start()
                await done
                wrong += job.wrong_elements
                if job.failure is not None:
                    raise AgentError(f"{self._agent.name}: {job.failure}")
        except (GroupError, ValueError) as error:
            raise AgentError(f"{self._agent.name}: {error}") from None
        return {"starts_ns": starts, "ends_ns": ends, "wrong_elements": wrong}

    def close(self) -> None:
        """Leave the group."""
        if self._group is not None:
            self._group.close()
        self._workspace.close()


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
    name = fields.optional_text("collective")
    fields.end()
    peers = None if name is None else _kind(name).peers(rank, size)
    return Rank(agent, rank, size, peers, lanes)


def _kind(name: str) -> Any:
    try:
        return collective_kind(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def take_spec(fields: Fields) -> tuple[JobSpec, int]:
    """What to run and how often, from the fields of a `group_run`. Raises UsageError."""
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
    rounds = fields.integer("rounds", 1, MAX_ROUNDS, default=1)
    fields.end()
    return spec, rounds


def take_table(fields: Fields) -> list[RankInfo]:
    """From the fields of a `group_connect`. Raises InvalidArgumentError, UsageError."""
    rows = [RankInfo.from_json(row) for row in fields.items("table")]
    fields.end()
    return rows
