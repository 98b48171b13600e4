"""Traffic of a scenario, driven over the agents' control sockets: one connection a flow or rank."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from host.collectives.of_scenario import job_spec
from reports.result import CollectiveResult, FlowResult
from topologies.model import Fabric
from topologies.runner.errors import RunnerError
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.connection import Connection
from topologies.scenario import Collective, Flow
from topologies.seeds import seed_of
from topologies.timing import line_rate_bps

#: Counters of a requestor and of a responder that results have
_SENDING: Final = ("packets", "retransmissions", "timeouts", "trims", "refusals", "probes")
_RECEIVING: Final = ("ecn_marked", "duplicates", "sacks", "nacks")


class Agents:
    """Where the agents of a run have their sockets."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def connect(self, host: str) -> Connection:
        """A connection with a host's agent. Raises GoneError."""
        return await Connection.open(f"agent of {host}", self._directory / f"{host}.control")

    def exchange(self, host: str) -> str:
        """The address where other agents meet it."""
        return f"unix:{self._directory / f'{host}.exchange'}"


def _counters(names: Iterable[str], answers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for answer in answers:
        totals.update({name: answer.get(name, 0) for name in names})
    return {name: totals[name] for name in names}


class RunningFlow:
    """A flow: opened before time 0, then run.

    Attributes:
        base_rtt_ns: as its agent measured it.
        is_done: all is written and checked, something at least, or has failed.
        failure: why the agent could not be asked any more; None: it could.
    """

    def __init__(self, flow: Flow, agents: Agents, seed: int) -> None:
        self.flow = flow
        self.name = flow.name
        self.base_rtt_ns: int | None = None
        self.is_done = False
        self.failure: str | None = None
        self._agents = agents
        self._seed = seed_of(seed, f"flow {flow.name}")
        self._connection: Connection | None = None
        self._answer: Mapping[str, Any] | None = None

    @property
    def is_told(self) -> bool:
        """Whether it is known what became of it, its memory compared, or why it is not."""
        return self._answer is not None or self.failure is not None

    @property
    def total_bytes(self) -> int | None:
        """What it will have written at its end; None where time ends it."""
        return self.flow.total_bytes

    async def open(self) -> None:
        """Queue pairs and memory. Raises RunnerError."""
        flow = self.flow
        self._connection = await self._agents.connect(flow.source)
        answer = await self._connection.ask(
            "flow_open",
            name=flow.name,
            to=self._agents.exchange(flow.destination),
            size=flow.size_bytes,
            depth=flow.depth,
            qps=flow.qps,
            immediate=flow.immediate,
            repeat=None if flow.until_ns is not None else flow.repeat,
            seed=self._seed,
        )
        self.base_rtt_ns = answer["base_rtt_ns"]

    async def run(self, clock: RunClock, deadline_ns: int | None) -> None:
        """Write from its start to its end; what fails is in the result."""
        assert self._connection is not None
        until_ns = self.flow.until_ns
        try:
            self._answer = await self._connection.ask(
                "flow_run",
                start_ns=clock.monotonic_ns(self.flow.start_ns),
                until_ns=None if until_ns is None else clock.monotonic_ns(until_ns),
                deadline_ns=None if deadline_ns is None else clock.monotonic_ns(deadline_ns),
            )
            # One whose time was over before it could write anything has done nothing
            moved = self._answer.get("last_completion_ns") is not None
            self.is_done = bool(self._answer["done"]) and (moved or bool(self._answer["errors"]))
        except RunnerError as error:
            self.failure = str(error)

    async def close(self) -> None:
        """Its queue pairs end, at both ends."""
        if self._connection is not None:
            await self._connection.close()

    def result(self, fabric: Fabric, clock: RunClock, samples: list[int]) -> FlowResult:
        """What came of it; `samples` are bytes delivered at equal intervals from time 0 on."""
        flow, answer = self.flow, self._answer or {}
        errors = dict(answer.get("errors", {}))
        if self.failure is not None:
            errors[self.failure] = 1
        last_ns = answer.get("last_completion_ns")
        return FlowResult(
            name=flow.name,
            group=flow.group,
            source=flow.source,
            destination=flow.destination,
            start_ns=flow.start_ns,
            total_bytes=flow.total_bytes,
            completed_bytes=answer.get("completed_bytes", 0),
            completed_messages=answer.get("completed_messages", 0),
            delivered_bytes=answer.get("delivered_bytes", samples[-1]),
            done=self.is_done,
            completion_ns=None if last_ns is None else clock.run_ns(last_ns) - flow.start_ns,
            wrong_bytes=answer.get("wrong_bytes", 0),
            message_ns=[clock.run_ns(each) for each in answer.get("message_ns", [])],
            errors=errors,
            problems=dict(answer.get("problems", {})),
            line_rate_bps=line_rate_bps(fabric, fabric.host(flow.source)),
            delivered_samples=samples,
            **_counters(_SENDING, [answer.get("sending", {})]),
            **_counters(_RECEIVING, [answer.get("receiving", {})]),
        )


class RunningCollective:
    """A collective: its ranks joined before time 0, then run. Attributes as of `RunningFlow`."""

    def __init__(self, item: Collective, agents: Agents, seed: int) -> None:
        self.item = item
        self.name = item.name
        self.base_rtt_ns: int | None = None
        self.is_done = False
        self.failure: str | None = None
        self._agents = agents
        self._spec = job_spec(item, seed_of(seed, f"collective {item.name}"))
        self._ranks: list[Connection] = []
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._failures: dict[str, str] = {}

    @property
    def is_told(self) -> bool:
        """As of `RunningFlow`."""
        return {*self.item.hosts} <= self._answers.keys() | self._failures.keys()

    @property
    def total_bytes(self) -> int | None:
        """About what will have been delivered at the end, without what ranks tell each other."""
        size = len(self.item.hosts)
        if size < 2:
            return 0
        kind = self._spec.kind
        senders = size - 1 if kind.rooted else size
        per_rank = self._spec.moved_bytes(size) * kind.bus_factor(size)
        return round(per_rank * senders) * self.item.repeat

    async def open(self) -> None:
        """Every rank joins and is connected with its peers. Raises RunnerError."""
        item = self.item
        for host in item.hosts:
            self._ranks.append(await self._agents.connect(host))
        table = [
            (
                await rank.ask(
                    "group_join",
                    rank=number,
                    size=len(item.hosts),
                    collective=item.collective,
                    lanes=item.qps,
                    name=item.name,
                )
            )["info"]
            for number, rank in enumerate(self._ranks)
        ]
        await asyncio.gather(*(rank.ask("group_connect", table=table) for rank in self._ranks))

    async def run(self, clock: RunClock, deadline_ns: int | None) -> None:
        """All ranks, from the start to the end; what fails is in the result."""
        spec, item = self._spec, self.item
        fields: dict[str, Any] = {
            "collective": item.collective,
            "size": spec.size_bytes,
            "rounds": item.repeat,
            "data_type": item.data_type,
            "reduce_op": item.reduce_op,
            "root": item.root,
            "in_place": item.in_place,
            "seed": spec.seed,
            "chunk_bytes": item.chunk_bytes,
            "depth": item.depth,
            "start_ns": clock.monotonic_ns(item.start_ns),
            "deadline_ns": None if deadline_ns is None else clock.monotonic_ns(deadline_ns),
        }

        async def run_rank(host: str, rank: Connection) -> None:
            try:
                answer = self._answers[host] = await rank.ask("group_run", **fields)
                if answer["failure"] is not None:
                    self._failures[host] = answer["failure"]
            except RunnerError as error:
                self._failures[host] = str(error)

        await asyncio.gather(*map(run_rank, item.hosts, self._ranks))
        self.is_done = len(self._answers) == len(self._ranks) and all(
            answer["done"] for answer in self._answers.values()
        )

    async def close(self) -> None:
        """All ranks leave."""
        for rank in self._ranks:
            await rank.close()

    def _rounds(self) -> list[tuple[int, int]]:
        """Of each round that is over on all ranks: when the last rank began, when it ended."""
        if len(self._answers) < len(self._ranks):
            return []
        of_ranks = [answer["rounds"] for answer in self._answers.values()]
        return [
            (max(each["begin_ns"] for each in rounds), max(each["end_ns"] for each in rounds))
            for rounds in zip(*of_ranks, strict=False)
        ]

    def result(self, fabric: Fabric, clock: RunClock, samples: list[int]) -> CollectiveResult:
        """What came of it; `samples` are bytes delivered at equal intervals from time 0 on.

        A round's time is from when its last rank began, so that checks of the round before, which
        ranks do in between, are no part of it.
        """
        item, spec, size = self.item, self._spec, len(self.item.hosts)
        rounds = self._rounds()
        round_ns = [end - begin for begin, end in rounds]
        bandwidths = (0.0, 0.0)
        if round_ns:
            mean_ns = sum(round_ns) / len(round_ns)
            bandwidths = spec.kind.bandwidths_bps(spec.moved_bytes(size), size, mean_ns)
        rates = [line_rate_bps(fabric, fabric.host(name)) for name in item.hosts]
        completion_ns = None
        if self.is_done and rounds:
            completion_ns = clock.run_ns(rounds[-1][1]) - item.start_ns
        answers = self._answers.values()
        return CollectiveResult(
            name=item.name,
            collective=item.collective,
            hosts=list(item.hosts),
            size_bytes=spec.moved_bytes(size),
            data_type=item.data_type,
            reduce_op=item.reduce_op if spec.kind.reduces else None,
            start_ns=item.start_ns,
            done=self.is_done,
            completion_ns=completion_ns,
            round_ns=round_ns,
            algorithm_bps=bandwidths[0],
            bus_bps=bandwidths[1],
            line_rate_bps=min((rate for rate in rates if rate is not None), default=None),
            wrong_elements=sum(answer["wrong_elements"] for answer in answers),
            failures=dict(self._failures),
            delivered_bytes=sum(answer["delivered_bytes"] for answer in answers) or samples[-1],
            delivered_samples=samples,
            **_counters(_SENDING, [answer["sending"] for answer in answers]),
            **_counters(_RECEIVING, [answer["receiving"] for answer in answers]),
        )


Traffic: TypeAlias = RunningFlow | RunningCollective
