"""Traffic of a run: what is known of it, and when nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from topologies.runner.errors import RunnerError
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.traffic import RunningCollective, RunningFlow, Traffic
from topologies.scenario import Scenario
from topologies.scenario_loader import parse_scenario

SCENARIO: Scenario = parse_scenario(
    """\
topology: two-plane
traffic:
  - transfer: {name: flow, from: h0, to: h2, size: 4KiB}
  - collective: {name: sum, op: all-reduce, size: 4KiB, hosts: [h0, h2]}
""",
    "x.yaml",
)


class FakeAgents:
    """Connections whose `flow_run` and `group_run` end as `run` does."""

    def __init__(self, run: Callable[[str], Any]) -> None:
        self._run = run

    async def connect(self, host: str) -> FakeAgent:
        return FakeAgent(host, self._run)

    def exchange(self, host: str) -> str:
        return host


class FakeAgent:
    def __init__(self, host: str, run: Callable[[str], Any]) -> None:
        self._host = host
        self._run = run

    async def ask(self, command: str, **_: Any) -> Mapping[str, Any]:
        if command.endswith("_run"):
            return dict(await self._run(self._host))
        return {"base_rtt_ns": 1, "info": {}}


async def never(_: str) -> Mapping[str, Any]:
    await asyncio.Event().wait()
    return {}


async def gone(_: str) -> Mapping[str, Any]:
    raise RunnerError("the agent is gone")


async def done(_: str) -> Mapping[str, Any]:
    return {"done": True, "failure": None, "errors": {}}


async def half(host: str) -> Mapping[str, Any]:
    return await (done if host == "h0" else never)(host)


@pytest.mark.parametrize("kind", [RunningFlow, RunningCollective])
@pytest.mark.parametrize(
    ("run", "told"), [(done, True), (gone, True), (never, False), (half, None)]
)
def test_what_became_of_traffic_is_known_or_not(kind: type, run: Any, told: bool | None) -> None:
    async def test() -> None:
        agents: Any = FakeAgents(run)
        each: Traffic
        if kind is RunningFlow:
            each = RunningFlow(SCENARIO.flows[0], agents, 0)
        else:
            each = RunningCollective(SCENARIO.collectives[0], agents, 0)
        await each.open()
        assert not each.is_told
        task = asyncio.create_task(each.run(RunClock(), None))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # The flow's end is at h0, the collective has one rank there
        assert each.is_told == (kind is RunningFlow if told is None else told)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("answer", "is_done"),
    [
        ({"done": True, "errors": {}, "last_completion_ns": 5}, True),
        ({"done": True, "errors": {"retry exceeded": 1}, "last_completion_ns": None}, True),
        ({"done": False, "errors": {}, "last_completion_ns": 5}, False),
        # Its time was over before its agent got to it
        ({"done": True, "errors": {}, "last_completion_ns": None}, False),
    ],
)
def test_a_flow_that_wrote_nothing_is_not_done(answer: Mapping[str, Any], is_done: bool) -> None:
    async def told(_: str) -> Mapping[str, Any]:
        return answer

    async def test() -> None:
        agents: Any = FakeAgents(told)
        flow = RunningFlow(SCENARIO.flows[0], agents, 0)
        await flow.open()
        await flow.run(RunClock(), None)
        assert flow.is_done == is_done

    asyncio.run(test())
