"""Flows from agent to agent: what they tell of themselves, and that what is wrong is found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from host.agent.address import Address
from host.agent.agent import AgentOptions
from host.agent.errors import AgentError, UsageError
from host.agent.exchange import Exchange
from host.agent.flow import FlowSpec
from host.agent.flow_target import FlowTarget
from host.agent.jsonlines import Fields
from host.agent.workspace import Workspace
from host.config import ForwardingMode
from host.endpoint_settings import EndpointSettings
from host.memory_check import GUARD_BYTES
from tests.host.agent.world import QUICK, Client, Side, run, until, world

SIZE = 50_000
FAST = AgentOptions(timing=QUICK, seed=1)


async def opened(near: Side, far: Side, **fields: Any) -> Client:
    client = await Client.open(near)
    given = {"name": "flow", "to": far.exchange_address, "size": SIZE, "seed": 5, **fields}
    await client.ask("flow_open", **given)
    return client


async def told(client: Client, **fields: Any) -> dict[str, Any]:
    """What a flow that begins at once has to tell."""
    return await client.ask("flow_run", start_ns=0, **fields)


def in_ns(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("forwarding", [ForwardingMode.SRV6, ForwardingMode.ECMP])
def test_every_message_is_written_and_checked(immediate: bool, forwarding: ForwardingMode) -> None:
    async def test() -> None:
        options = AgentOptions(endpoint=EndpointSettings(forwarding), seed=1)
        async with world(options) as (near, far):
            client = await Client.open(near)
            made = await client.ask(
                "flow_open",
                name="flow",
                to=far.exchange_address,
                size=SIZE,
                depth=3,
                qps=2,
                immediate=immediate,
                repeat=100,
                seed=5,
            )
            assert made["peer"] == "h2"
            assert made["base_rtt_ns"] > 0
            assert sorted(made["qps"]) == sorted(near.agent.nic.qps)
            start_ns = in_ns(0.02)
            result = await client.ask("flow_run", start_ns=start_ns)
            end_ns = time.monotonic_ns()
            assert result["done"]
            assert result["completed_messages"] == 200
            assert result["completed_bytes"] == result["delivered_bytes"] == 200 * SIZE
            assert (result["wrong_bytes"], result["errors"], result["problems"]) == (0, {}, {})
            times_ns = result["message_ns"]
            assert len(times_ns) == 200
            assert times_ns == sorted(times_ns)
            assert start_ns < times_ns[0] <= times_ns[-1] == result["last_completion_ns"] < end_ns
            assert result["sending"]["packets"] == 200 * 13 + result["sending"]["retransmissions"]
            assert result["receiving"]["payload_bytes"] == 200 * SIZE
            other = await Client.open(far)
            sampled = await client.ask("sample")
            assert (sampled["posted"], sampled["delivered"]) == ({"flow": 200}, {})
            sampled = await other.ask("sample")
            assert (sampled["posted"], sampled["delivered"]) == ({}, {"flow": 200 * SIZE})
            await client.close()
            for side in (near, far):
                await until(lambda: not side.agent.nic.qps)  # noqa: B023
                assert len(side.agent.nic.memory) == 0
                assert not side.agent.accounts

    run(test())


@pytest.mark.parametrize("size", [3, 5_000_000])
def test_a_flow_until_a_time_ends_after_what_was_begun_before(size: int) -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far, size=size, depth=2)
            until_ns = in_ns(0.2)
            result = await told(client, until_ns=until_ns)
            # Not before its time. Its last message may well be: posting waits for slots
            assert time.monotonic_ns() >= until_ns
            assert result["done"]
            assert (await client.ask("sample"))["posted"] == {"flow": result["completed_messages"]}
            assert 0 < result["completed_bytes"] == result["completed_messages"] * size
            assert result["delivered_bytes"] == result["completed_bytes"]
            assert (result["wrong_bytes"], result["errors"], result["problems"]) == (0, {}, {})
            assert len(result["message_ns"]) == min(result["completed_messages"], 1000)

    run(test())


def test_nothing_is_begun_after_the_time_even_if_posting_had_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 5_000_000
    slots = FlowSpec.take(Fields({"name": "x", "to": "unix:/x", "size": size}), 4096).slots
    check = FlowTarget._check

    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far, size=size)
            until_ns = in_ns(0.2)

            async def late_check(*args: Any) -> int:
                while time.monotonic_ns() < until_ns:
                    await asyncio.sleep(0.005)
                return await check(*args)

            monkeypatch.setattr(FlowTarget, "_check", late_check)
            result = await told(client, until_ns=until_ns)
            assert time.monotonic_ns() >= until_ns
            assert result["done"]
            # Not one slot was free twice
            assert 0 < result["completed_messages"] <= slots
            assert (await client.ask("sample"))["posted"] == {"flow": result["completed_messages"]}
            assert (result["wrong_bytes"], result["errors"], result["problems"]) == (0, {}, {})

    run(test())


@pytest.mark.parametrize(("size", "qps"), [(SIZE, 3), (5000, 2)])
def test_queue_pairs_write_the_parts_of_a_striped_message(size: int, qps: int) -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(
                near, far, size=size, qps=3, stripe=True, repeat=20, depth=2, immediate=True
            )
            assert len(near.agent.nic.qps) == qps
            result = await told(client)
            assert result["done"]
            assert result["completed_messages"] == len(result["message_ns"]) == 20
            assert result["completed_bytes"] == result["delivered_bytes"] == 20 * size
            assert (result["wrong_bytes"], result["errors"], result["problems"]) == (0, {}, {})
            for qp in near.agent.nic.qps.values():
                assert qp.requestor is not None
                assert qp.requestor.stats.packets >= 20 * (size // 4096 // qps)

    run(test())


def far_memory(far: Side) -> memoryview:
    """The region that the flow writes to."""
    (region,) = far.agent.nic.memory
    return region.view


def scribble(far: Side, offset: int) -> None:
    far_memory(far)[offset] ^= 0xFF


@pytest.mark.parametrize(
    ("offset", "when"),
    [
        # The guard in front of the first slot: seen with the check of each message in it
        (GUARD_BYTES - 1, "before"),
        # Within a slot that nothing is written to any more: seen at the end
        (GUARD_BYTES + 17, "after"),
        # Within one that never was
        (GUARD_BYTES + 3 * (SIZE + GUARD_BYTES) + 5, "before"),
    ],
)
def test_bytes_that_nobody_should_have_written_are_found(offset: int, when: str) -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far, repeat=2, depth=1)
            if when == "before":
                scribble(far, offset)
            else:
                on_check(far, lambda: scribble(far, offset))
            result = await told(client)
            assert result["done"]
            assert result["completed_messages"] == 2
            assert result["wrong_bytes"] == 1

    run(test())


def on_check(far: Side, act: Callable[[], None]) -> None:
    """Act once, after the far end has checked and cleared slot 0."""
    (account,) = far.agent.accounts
    fresh = bytes([0x5A]) * SIZE

    def look() -> None:
        cleared = bytes(far_memory(far)[GUARD_BYTES : GUARD_BYTES + SIZE]) == fresh
        if cleared and account.delivered_bytes is not None and account.delivered_bytes() >= SIZE:
            act()
        else:
            far.agent.driver.defer(look)

    far.agent.driver.defer(look)


def test_a_message_with_other_contents_is_found() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far, repeat=4, depth=1)
            responder = next(iter(far.agent.nic.qps.values())).responder
            assert responder is not None

            def spoil() -> None:
                if responder.stats.payload_bytes < SIZE:
                    far.agent.driver.defer(spoil)
                    return
                # Message 0 is whole, and not checked yet: that takes another turn of the loop
                scribble(far, GUARD_BYTES + 100)

            far.agent.driver.defer(spoil)
            assert (await told(client))["wrong_bytes"] == 1

    run(test())


def test_a_far_end_that_falls_silent_fails_the_flow_and_is_told_of() -> None:
    async def test() -> None:
        async with world(FAST) as (near, far):
            client = await opened(near, far, depth=3)
            for port in far.ports.values():
                port.dead = True
            result = await told(client, until_ns=in_ns(3600))
            # As in virtual time: nothing is under way any more, and the errors say why
            assert result["done"]
            assert result["errors"] == {
                "retry counter exceeded": 1,
                "work request flushed": 2,
            }
            assert (result["completed_bytes"], result["problems"]) == (0, {})
            assert result["sending"]["timeouts"] > 0

    run(test())


def test_a_far_end_that_goes_away_is_a_problem_and_ends_the_flow() -> None:
    async def test() -> None:
        async with world(FAST) as (near, far):
            client = await opened(near, far)
            await far.exchange.close()
            result = await told(client, until_ns=in_ns(3600))
            assert not result["done"]
            assert result["problems"] == {"h2 closed the connection": 1}

    run(test())


def test_a_far_end_that_talks_nonsense_ends_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nonsense(*_: object, **__: object) -> dict[str, Any]:
        return {}

    async def test() -> None:
        async with world(FAST) as (near, far):
            client = await opened(near, far, repeat=10)
            monkeypatch.setattr(Exchange, "request", nonsense)
            async with asyncio.timeout(60):
                assert "KeyError: 'wrong_bytes'" in await client.refused("flow_run", start_ns=0)

    run(test())


def test_a_deadline_ends_a_flow_that_gets_nowhere() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far, repeat=10)
            for port in far.ports.values():
                port.dead = True
            result = await told(client, deadline_ns=in_ns(0.05))
            assert not result["done"]
            assert (result["completed_messages"], result["wrong_bytes"]) == (0, 0)
            assert (result["errors"], result["problems"]) == ({}, {})
            assert result["sending"]["packets"] > 0

    run(test())


def test_a_flow_stops_when_its_connection_is_closed() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await opened(near, far)
            task = asyncio.create_task(told(client, until_ns=in_ns(3600)))
            (account,) = near.agent.accounts
            await until(lambda: account.posted is not None and account.posted() > 10)
            task.cancel()
            await client.close()
            for side in (near, far):
                await until(lambda: not side.agent.nic.qps)  # noqa: B023
                assert not side.agent.accounts

    run(test())


def test_the_far_end_refuses_what_makes_no_sense() -> None:
    async def test() -> None:
        async with world() as (near, far):
            workspace = Workspace(near.agent, "test")
            arguments = {
                "name": "x", "size": 10, "slots": 2, "seed": 0, "apart": 1, "immediate": False
            }  # fmt: skip

            async def asked(parts: list[Any]) -> Exchange:
                return await Exchange.open(
                    workspace,
                    Address.parse(far.exchange_address),
                    "flow",
                    {**arguments, "parts": parts},
                    [workspace.create_connection()],
                )

            for parts in ([], [[0, 10], [0, 10]], [[0, 11]], [[3, 3]], [5]):
                with pytest.raises(AgentError, match="parts: "):
                    await asked(parts)
            exchange = await asked([[0, 10]])
            for request, fields, reason in (
                ("check", {"messages": [[1, 0]]}, r"messages: \[1, 0\] does not fit"),
                ("check", {"messages": [0]}, "messages: 0 does not fit"),
                ("check", {"messages": [[0, -1]]}, "does not fit"),
                ("finish", {"in_use": [[[]]]}, "in_use"),
                ("nonsense", {}, "service flow has none of that name"),
            ):
                with pytest.raises(AgentError, match=reason):
                    await exchange.request(request, **fields)
            answer = await exchange.request("finish", in_use=[[]])
            assert (answer["wrong_bytes"], answer["delivered_bytes"]) == (0, 0)
            exchange.close()
            workspace.close()

    run(test())


def test_wrong_requests_are_refused() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            good = {"name": "x", "to": far.exchange_address, "size": 100}
            assert "no flow" in await client.refused("flow_run", start_ns=0)
            for field, value, reason in (
                ("size", 0, "size: 0 does not fit"),
                ("depth", 0, "depth: 0 does not fit"),
                ("qps", 0, "qps: 0 does not fit"),
                ("repeat", 0, "repeat: 0 does not fit"),
                ("seed", 1 << 64, "seed: 18446744073709551616 does not fit"),
                ("to", "h2", "unix:/path"),
                ("nonsense", 1, "nonsense: there is no such field"),
            ):
                assert reason in await client.refused("flow_open", **{**good, field: value})
            huge = {**good, "size": 1 << 29, "qps": 4}
            assert "at most 1073741824 bytes" in await client.refused("flow_open", **huge)
            assert not near.agent.nic.qps
            await client.ask("flow_open", **good, repeat=1)
            assert "has a flow already" in await client.refused("flow_open", **good)
            error = await client.refused("flow_run", start_ns=0, until_ns=5)
            assert "either repeat or until_ns" in error
            await told(client)
            assert "has run already" in await client.refused("flow_run", start_ns=0)
            client = await opened(near, far)
            error = await client.refused("flow_run", start_ns=0)
            assert "either repeat or until_ns" in error

    run(test())


def test_small_messages_may_wait_for_their_check_many_at_a_time_and_large_ones_alone() -> None:
    def slots(size: int) -> int:
        fields = {"name": "x", "to": "unix:/x", "size": size, "depth": 2}
        return FlowSpec.take(Fields(fields), 4096).slots

    assert [slots(size) for size in (1, 1 << 16, 1 << 20, 1 << 28)] == [66, 66, 6, 3]
    with pytest.raises(UsageError, match="name: is missing"):
        FlowSpec.take(Fields({"to": "unix:/x", "size": 1}), 4096)
