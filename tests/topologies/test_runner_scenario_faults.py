"""Faults that meet on one link: the fabric is as the faults that hold say, whoever is slow."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from topologies.runner.live import LiveFabric
from topologies.runner.scenario.fault_driver import Hands
from topologies.runner.scenario.plan import Act, CutLink, Impair

LINK = "h0--p0-t0-0"
WAIT_S = 60


class Slow:
    """A link and its box; the first request takes until another one came, or long enough."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.state: Any = None
        self._first = True
        self._other = threading.Event()

    def handle(self, request: Mapping[str, Any]) -> list[str]:
        self._take(request["action"])
        return []

    def set(self, way: str, *, loss: float, corruption: float) -> None:
        self._take((way, loss, corruption))

    def _take(self, request: Any) -> None:
        if self._first:
            self._first = False
            self._other.wait(0.2)
        else:
            self._other.set()
        self.requests.append(request)
        self.state = request


def hands_of(live: Any) -> Hands:
    return Hands(live, None)  # type: ignore[arg-type]


async def together(*works: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*works)


def test_two_impairments_that_begin_at_once_both_hold() -> None:
    slow = Slow()
    loss = Impair(LINK, "both", loss=0.5)
    damage = Impair(LINK, "both", corruption=0.25)
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        deployment: Any = SimpleNamespace(
            boxes={LINK: slow}, fabric=None, folder=SimpleNamespace(sockets=Path(folder))
        )
        with LiveFabric(deployment) as live:
            hands = hands_of(live)
            asyncio.run(together(hands.begin(loss), hands.begin(damage)))
            assert slow.state == ("both", 0.5, 0.25)
            asyncio.run(together(hands.end(loss)))
    assert slow.state == ("both", 0.0, 0.25)


@pytest.mark.parametrize("repeat", range(2))
def test_a_cut_that_begins_as_another_ends_holds(repeat: int) -> None:
    slow = Slow()
    hands = hands_of(slow)
    act: Act = CutLink(LINK, ("h0", "p0-t0-0"))

    async def test() -> None:
        await hands.begin(act)
        slow._first = True
        slow._other.clear()
        works = [hands.end(act), hands.begin(act)]
        await together(*(works if repeat else reversed(works)))

    asyncio.run(test())
    assert slow.state == "down"
