"""What a run reads of switches more rarely: program counters, and what switches lost themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.sampling import Sampler


def test_losses_before_the_run_do_not_count_when_the_first_reading_fails() -> None:
    """20 frames were lost on a path check, and the switch does not say so at once."""
    answers: list[Mapping[str, int] | None] = [None, {"port_down": 20}, None, {"port_down": 23}]
    programs = [{("dropped_no_route", 0): count} for count in (5, 5, 6, 8)]
    deployment: Any = SimpleNamespace(
        processes={"p0-t0-0": SimpleNamespace(pid=1)},
        dead_switches=list,
        places={"p0-t0-0": None},
        boxes={},
        target=SimpleNamespace(own_losses=lambda _: answers.pop(0)),
    )
    control: Any = SimpleNamespace(read_counters=lambda skip: {"p0-t0-0": programs.pop(0)})
    sampler = Sampler(deployment, control, RunClock())
    counted = []
    for _ in range(4):
        asyncio.run(sampler.read_slow())
        counted.append(dict(sampler.drops["p0-t0-0"].counted) if sampler.drops else None)
    # Later, what its program dropped is known even where the rest is not
    assert counted == [None, {}, {"no_route": 1}, {"no_route": 3, "port_down": 3}]
