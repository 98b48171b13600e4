"""Ranks on two agents: what they compute, and what goes wrong."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest

from host.agent import collective
from host.agent.agent import AgentOptions
from host.collectives import COLLECTIVES, Group, Job, JobSpec
from tests.host.agent.world import QUICK, Client, Side, run, until, world


async def joined(near: Side, far: Side, **fields: Any) -> list[Client]:
    """Two connected ranks."""
    clients = [await Client.open(near), await Client.open(far)]
    rows = [
        (await client.ask("group_join", rank=rank, size=2, **fields))["info"]
        for rank, client in enumerate(clients)
    ]
    await asyncio.gather(*(client.ask("group_connect", table=rows) for client in clients))
    return clients


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_is_right_round_after_round(name: str) -> None:
    async def test() -> None:
        async with world() as (near, far):
            clients = await joined(near, far, collective=name, lanes=2)
            for data_type in ("int32", "float32"):
                answers = await asyncio.gather(
                    *(
                        client.ask(
                            "group_run",
                            collective=name,
                            size=200_000,
                            data_type=data_type,
                            rounds=3,
                        )
                        for client in clients
                    )
                )
                for answer in answers:
                    assert answer["wrong_elements"] == 0
                    assert answer["done"] and answer["failure"] is None
                    assert len(answer["rounds"]) == 3
                    assert all(each["begin_ns"] < each["end_ns"] for each in answer["rounds"])
                sent, received = (
                    sum(answer[half]["packets"] for answer in answers)
                    for half in ("sending", "receiving")
                )
                assert sent == received > 0
            for client in clients:
                await client.close()
            for side in (near, far):
                await until(lambda: not side.agent.nic.qps)  # noqa: B023
                assert len(side.agent.nic.memory) == 0

    run(test())


def test_a_round_has_let_go_of_its_buffers_before_the_next_makes_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory of one round is reserved, however many there are."""
    alive: list[int] = []
    made: weakref.WeakSet[Job] = weakref.WeakSet()

    def job(group: Group, spec: JobSpec) -> Job:
        alive.append(sum(each.group is group for each in made))
        new = Job(group, spec)
        made.add(new)
        return new

    async def test() -> None:
        async with world() as (near, far):
            clients = await joined(near, far, collective="all-reduce")
            asked = {"collective": "all-reduce", "size": 40_000, "rounds": 3}
            await asyncio.gather(*(client.ask("group_run", **asked) for client in clients))

    monkeypatch.setattr(collective, "Job", job)
    run(test())
    assert alive == [0] * 6


def test_ranks_that_want_different_things_fail_and_say_so() -> None:
    async def test() -> None:
        async with world() as (near, far):
            one, other = await joined(near, far, collective="all-reduce")
            answers = await asyncio.gather(
                one.ask("group_run", collective="all-reduce", size=4096),
                other.ask("group_run", collective="all-reduce", size=8192),
            )
            for answer in answers:
                assert not answer["done"]
                assert "here all-reduce" in answer["failure"]

    run(test())


def test_a_rank_that_falls_silent_ends_the_group() -> None:
    async def test() -> None:
        async with world(AgentOptions(timing=QUICK, seed=1)) as (near, far):
            one, _ = await joined(near, far, collective="all-reduce")
            for port in far.ports.values():
                port.dead = True
            answer = await one.ask("group_run", collective="all-reduce", size=4096)
            assert not answer["done"]
            assert "retry counter exceeded" in answer["failure"]
            assert answer["sending"]["timeouts"] > 0

    run(test())


def test_wrong_requests_are_refused() -> None:
    async def test() -> None:
        async with world() as (near, _):
            client = await Client.open(near)
            assert "is no rank" in await client.refused("group_run", collective="x", size=1)
            assert "is no rank" in await client.refused("group_connect", table=[])
            assert "rank: 2" in await client.refused("group_join", rank=2, size=2)
            error = await client.refused("group_join", rank=0, size=2, collective="x")
            assert "there are all-reduce" in error
            await client.ask("group_join", rank=0, size=2)
            assert "a rank already" in await client.refused("group_join", rank=0, size=2)
            assert "rank 1 is missing" in await client.refused("group_connect", table=[])
            error = await client.refused("group_run", collective="all-reduce", size=4096)
            assert "not connected" in error
            for field, value, reason in (
                ("collective", "x", "there are all-reduce"),
                ("data_type", "int7", "int7"),
                ("reduce_op", "mean", "mean"),
                ("rounds", 0, "rounds: 0"),
                ("chunk_bytes", 0, "chunk_bytes: 0"),
            ):
                good = {"collective": "all-reduce", "size": 4096}
                assert reason in await client.refused("group_run", **{**good, field: value})

    run(test())
