"""Between agents: what is refused, what ends with the connection, and TCP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from host.agent.address import Address
from host.agent.errors import AgentError, UsageError
from host.agent.exchange import Exchange
from host.agent.workspace import Workspace
from tests.host.agent.world import Client, Side, run, until, world


async def raw(side: Side, document: dict[str, Any]) -> dict[str, Any]:
    """One line to an exchange; returns the answer."""
    path = side.exchange_address.removeprefix("unix:")
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps(document).encode() + b"\n")
    answer: dict[str, Any] = json.loads(await reader.readline())
    writer.close()
    return answer


def test_wrong_exchanges_are_refused_and_leave_nothing() -> None:
    async def test() -> None:
        async with world() as (near, far):
            workspace = Workspace(near.agent, "test")
            connection = workspace.create_connection()
            info = connection.qp.info().to_json()
            good = {
                "mrc_exchange": 1,
                "host": "h0",
                "service": "perftest",
                "arguments": {"size": 4096},
                "qps": [info],
            }
            for change, reason in (
                ({"mrc_exchange": 2}, "mrc_exchange: 2 does not fit"),
                ({"service": "fishing"}, "there are flow, perftest, region"),
                ({"qps": []}, "qps: 0 do not fit"),
                ({"qps": [{**info, "mpr": 300}]}, "mpr: 300"),
                ({"qps": [{**info, "gid": "::1"}]}, "h2"),
                ({"arguments": {"size": 4096, "colour": 1}}, "colour"),
                ({"arguments": {"size": 1 << 40}}, "size: "),
                ({"extra": 1}, "extra"),
            ):
                answer = await raw(far, {**good, **change})
                assert answer["ok"] is False, change
                assert reason in answer["error"], answer
            assert (await raw(far, good))["ok"] is True
            await until(lambda: not far.agent.workspaces)
            assert not far.agent.nic.qps
            assert len(far.agent.nic.memory) == 0

    run(test())


def test_the_answering_end_lets_go_when_the_connection_closes() -> None:
    async def test() -> None:
        async with world() as (near, far):
            workspace = Workspace(near.agent, "test")
            exchange = await Exchange.open(
                workspace,
                Address.parse(far.exchange_address),
                "perftest",
                {"size": 4096},
                [workspace.create_connection() for _ in range(3)],
                [workspace.register(4096).info],
            )
            assert exchange.host == "h2"
            assert len(far.agent.nic.qps) == 3
            with pytest.raises(AgentError, match="has none of that name"):
                await exchange.request("nonsense")
            exchange.close()
            await until(lambda: not far.agent.nic.qps)
            # The asking end keeps its own: work that is under way runs out by itself
            assert len(near.agent.nic.qps) == 3
            workspace.close()
            assert not near.agent.nic.qps

    run(test())


def test_agents_meet_over_tcp() -> None:
    async def test() -> None:
        async with world() as (near, far):
            await far.exchange.listen(Address.parse("tcp:127.0.0.1:0"))
            address = far.exchange.addresses[-1]
            assert address.port
            sender, receiver = await Client.open(near), await Client.open(far)
            await receiver.ask("register", size=4096, publish="inbox")
            made = await sender.ask("connect", to=str(address), region="inbox")
            assert made["peer"] == "h2"

    run(test())


def test_a_peer_that_answers_on_no_path_is_named() -> None:
    async def test() -> None:
        async with world() as (near, far):
            for port in far.ports.values():
                port.dead = True
            with pytest.raises(AgentError, match="h2 answers EV probes on none of 4 paths"):
                await near.agent.calibrate(far.agent.config.address)

    run(test())


def test_a_region_that_goes_is_written_to_no_more() -> None:
    async def test() -> None:
        async with world() as (near, far):
            sender, receiver = await Client.open(near), await Client.open(far)
            inbox = await receiver.ask("register", size=4096, publish="inbox")
            source = await sender.ask("register", size=4096)
            made = await sender.ask("connect", to=far.exchange_address, region="inbox")
            await receiver.ask("deregister", region=inbox["region"])
            await sender.ask("post_write", qp=made["qp"], region=source["region"])
            (done,) = (await sender.ask("wait", qp=made["qp"]))["completions"]
            assert done["status"] == "REMOTE_ACCESS_ERROR"

    run(test())


@pytest.mark.parametrize("text", ["", "h2", "unix:", "tcp:7", "tcp:host:", "tcp:host:65536"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="does not fit: write unix:/path or tcp:host:port"):
        Address.parse(text)


def test_addresses_are_what_they_print() -> None:
    for text in ("unix:/run/h0.exchange", "tcp:10.0.0.1:7000", "tcp:[fd00::1]:7000"):
        assert str(Address.parse(text)) == text
    with pytest.raises(UsageError, match="107 bytes"):
        Address.parse("unix:/" + "x" * 107)


async def answers(side: Side, *lines: str) -> list[dict[str, Any]]:
    """Lines to one exchange, and what is answered to each."""
    path = side.exchange_address.removeprefix("unix:")
    reader, writer = await asyncio.open_unix_connection(path)
    found = []
    for line in lines:
        writer.write(line.encode() + b"\n")
        found.append(json.loads(await reader.readline()))
    writer.close()
    return found


def test_what_the_far_end_is_told_to_run_is_checked_first() -> None:
    async def test() -> None:
        async with world() as (near, far):
            workspace = Workspace(near.agent, "test")
            connection = workspace.create_connection()
            opening: dict[str, Any] = {
                "mrc_exchange": 1,
                "host": "h0",
                "service": "perftest",
                "arguments": {"size": 4096},
                "qps": [connection.qp.info().to_json()],
            }
            for fields, reason in (
                (f'"size": {1 << 32}', "size: 4294967296 does not fit"),
                ('"size": 8, "duration_s": NaN', "duration_s: nan"),
                ('"size": 8, "duration_s": 1e400', "duration_s: inf"),
                (f'"size": 8, "duration_s": 1{"0" * 400}', "duration_s: 1000"),
                ('"size": 8', "each must tell a region"),
            ):
                run_it = f'{{"request": "run", "seed": 1, {fields}}}'
                _, answer = await answers(far, json.dumps(opening), run_it)
                assert reason in answer["error"], answer
            opening["arguments"]["echo"] = True
            (answer,) = await answers(far, json.dumps(opening))
            assert "each must tell a region" in answer["error"]

    run(test())


def test_an_exchange_that_fails_gives_the_published_region_back() -> None:
    async def test() -> None:
        async with world() as (near, far):
            workspace = Workspace(near.agent, "test")
            client = await Client.open(far)
            await client.ask("register", size=4096, publish="there")
            opening = {
                "mrc_exchange": 1,
                "host": "h0",
                "service": "region",
                "arguments": {"name": "there", "colour": 1},
                "qps": [workspace.create_connection().qp.info().to_json()],
            }
            assert "colour" in (await raw(far, opening))["error"]
            await until(lambda: not far.agent.nic.qps)
            assert far.agent.published["there"]._shares == []
            await client.close()

    run(test())
