"""Faults of a scenario, begun and ended at their times, each with a look at what it did.

What a switch or link needs is done in a thread: a switch that starts takes seconds, and sampling
and the other faults go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from typing import Any, Final

from topologies.runner.errors import RunnerError
from topologies.runner.live import LiveFabric
from topologies.runner.scenario.plan import (
    Act,
    CutLink,
    DenyEvs,
    FaultPlan,
    Impair,
    Reboot,
    SetRate,
    Swallow,
)
from topologies.runner.scenario.traffic import Agents

_WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "up": ("up",),
    "down": ("down",),
    "both": ("up", "down"),
}


class Hands:
    """Carries out acts on a live fabric. Faults may overlap: a link is up when no fault holds it.

    Acts on one switch or link take turns with each other, and with requests from outside
    (`LiveFabric`). Errors of `begin` and `end` are RunnerErrors.
    """

    def __init__(self, live: LiveFabric, agents: Agents) -> None:
        self._live = live
        self._agents = agents
        self._cut: Counter[str] = Counter()
        self._impairs: dict[str, list[Impair]] = {}
        #: By link: of two cuts at one time, the last to be told has the say
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin(self, act: Act) -> None:
        """It happens."""
        match act:
            case CutLink():
                self._cut[act.link] += 1
                if self._cut[act.link] == 1:
                    await self._set_link(act)
            case Impair():
                self._impairs.setdefault(act.link, []).append(act)
                await self._set_box(act.link)
            case SetRate():
                await self._ask_link(act.nodes, "rate", act.value)
            case Swallow():
                await self._ask_switch(act.switch, "blackhole")
            case Reboot():
                await self._ask_switch(act.switch, "kill")
            case DenyEvs():
                await self._deny(act, True)

    async def end(self, act: Act) -> None:
        """It is repaired."""
        match act:
            case CutLink():
                self._cut[act.link] -= 1
                if not self._cut[act.link]:
                    await self._set_link(act)
            case Impair():
                self._impairs[act.link].remove(act)
                await self._set_box(act.link)
            case SetRate():
                await self._ask_link(act.nodes, "rate", act.value_after)
            case Swallow():
                await self._ask_switch(act.switch, "forward")
            case Reboot():
                await self._ask_switch(act.switch, "restart")
            case DenyEvs():
                await self._deny(act, False)

    async def _set_link(self, act: CutLink) -> None:
        async with self._locks[act.link]:
            await self._ask_link(act.nodes, "down" if self._cut[act.link] else "up")

    async def _ask_link(
        self, nodes: tuple[str, str], action: str, value: str | None = None
    ) -> None:
        request: dict[str, Any] = {"command": "link", "nodes": [*nodes], "action": action}
        if value is not None:
            request["value"] = value
        await asyncio.to_thread(self._live.handle, request)

    async def _ask_switch(self, switch: str, action: str) -> None:
        request = {"command": "switch", "node": switch, "action": action}
        await asyncio.to_thread(self._live.handle, request)

    async def _set_box(self, link: str) -> None:
        await asyncio.to_thread(self._live.set_box, link, partial(self._impairments, link))

    def _impairments(self, link: str) -> Mapping[str, tuple[float, float]]:
        """(loss, corruption) by way, of all acts that hold now."""
        acts = tuple(self._impairs[link])
        now = {}
        for way in ("up", "down"):
            there = [act for act in acts if way in _WAYS[act.way]]
            loss = _any(act.loss for act in there)
            now[way] = loss, _any(act.corruption for act in there)
        return now if now["up"] != now["down"] else {"both": now["up"]}

    async def _deny(self, act: DenyEvs, denied: bool) -> None:
        agent = await self._agents.connect(act.host)
        try:
            await agent.ask("deny", peer=act.peer, evs=list(act.evs), denied=denied)
        finally:
            await agent.close()


def _any(probabilities: Iterable[float]) -> float:
    """That at least one of independent things happens."""
    return 1.0 - prod(1.0 - each for each in probabilities)


class FaultDriver:
    """Begins and ends one fault. `problem` is why it could not be done; None: it could."""

    def __init__(self, plan: FaultPlan, hands: Hands) -> None:
        self.plan = plan
        self.problem: str | None = None
        self._hands = hands

    async def begin(self) -> None:
        """All of its acts, one after the other."""
        await self._do(self._hands.begin)

    async def end(self) -> None:
        """Repair all; switches that reboot start side by side."""
        await self._do(self._hands.end)

    async def _do(self, act: Callable[[Act], Any]) -> None:
        try:
            results = await asyncio.gather(*map(act, self.plan.acts), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except RunnerError as error:
            self.problem = f"fault {self.plan.fault.name} could not be done: {error}"
