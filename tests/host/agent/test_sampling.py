"""What is measured while traffic runs, and what an operator does meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from host.agent.agent import AgentOptions
from host.config import ForwardingMode
from host.endpoint_settings import EndpointSettings
from rawsocket.losses import Loss
from tests.host.agent.world import Client, Side, run, world

SIZE = 100_000


async def written(near: Side, far: Side, messages: int, **options: Any) -> Client:
    """A flow that has run."""
    client = await Client.open(near)
    made = {"name": "flow", "to": far.exchange_address, "size": SIZE, "repeat": messages}
    await client.ask("flow_open", **made, **options)
    result = await client.ask("flow_run", start_ns=0)
    assert result["done"]
    return client


def test_a_sample_has_what_was_done_so_far() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            before = await client.ask("sample")
            assert (before["posted"], before["plane_bytes"]) == ({}, [0, 0])
            writer = await written(near, far, 20)
            near.ports[0].losses.append(Loss("send_enobufs", 3))
            after = await client.ask("sample")
            assert after["posted"] == {"flow": 20}
            assert before["now_ns"] < after["now_ns"] < time.monotonic_ns()
            assert before["cpu_ns"] < after["cpu_ns"]
            # 25 packets a message, each with its headers, on both planes
            assert sum(after["plane_bytes"]) > 20 * (SIZE + 25 * 100)
            assert min(after["plane_bytes"]) > 0
            assert after["frames_sent"] - before["frames_sent"] >= 20 * 25
            assert after["port_losses"] == {"send_enobufs": 3}
            for name in ("retransmissions", "timeouts", "trims"):
                assert after[name] == 0
            far_ports = far.agent.nic.port_statistics
            received = far.agent.driver.statistics.frames_in
            assert received == sum(far_ports(plane).rx_frames for plane in range(2))
            # As long as the connection that made it lasts
            await writer.close()
            async with asyncio.timeout(60):
                while (await client.ask("sample"))["posted"]:
                    await asyncio.sleep(0.005)

    run(test())


def test_the_tally_counts_data_frames_by_path() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            assert (await client.ask("tally"))["paths"] == []
            begin_ns = time.monotonic_ns()
            await written(near, far, 20)
            paths = (await client.ask("tally"))["paths"]
            assert sorted(path["ev"] for path in paths) == [0, 1, 8, 9]
            assert sum(path["frames"] for path in paths) == 20 * 25
            template = near.agent.config.template(far.agent.config.address)
            assert template is not None
            for path in paths:
                assert path["peer"] == "h2"
                assert path["carrier"] == f"{template.address(path['ev']):032x}"
                assert begin_ns < path["last_ns"] < time.monotonic_ns()
            # Answers of a responder are no data
            other = await Client.open(far)
            assert (await other.ask("tally"))["paths"] == []
            assert (await other.ask("sample"))["plane_bytes"] == [0, 0]

    run(test())


def test_without_carriers_planes_are_counted_and_no_paths() -> None:
    async def test() -> None:
        endpoint = EndpointSettings(ForwardingMode.ECMP)
        async with world(AgentOptions(endpoint=endpoint, seed=1)) as (near, far):
            client = await written(near, far, 5)
            assert (await client.ask("tally"))["paths"] == []
            assert sum((await client.ask("sample"))["plane_bytes"]) > 5 * SIZE

    run(test())


def test_an_operator_denies_evs_and_allows_them_again() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            await client.ask("watch")
            assert (await client.ask("deny", peer="h2", evs=[0], denied=True))["qps"] == []
            writer = await Client.open(near)
            made = {"name": "flow", "to": far.exchange_address, "size": SIZE, "repeat": 20}
            qps = (await writer.ask("flow_open", **made, qps=2))["qps"]
            for name, evs in (("h3", [0, 8]), ("h2", [0, 8])):
                changed = (await client.ask("deny", peer=name, evs=evs, denied=True))["qps"]
                assert changed == (qps if name == "h2" else [])
            assert (await writer.ask("flow_run", start_ns=0))["done"]
            assert {path["ev"] for path in (await client.ask("tally"))["paths"]} == {1, 9}
            await client.ask("deny", peer="h2", evs=[8], denied=False)
            states = {
                ev["ev"]: ev["state"]
                for qp in (await client.ask("evs", peer="h2"))["qps"]
                for ev in qp["evs"]
            }
            assert states == {0: "DENIED", 1: "GOOD", 8: "GOOD", 9: "GOOD"}
            denials = [event for event in client.events if event["new"] == "DENIED"]
            assert {(event["qp"], event["ev"]) for event in denials} == {
                (qp, ev) for qp in qps for ev in (0, 8)
            }
            assert all(0 < event["now_ns"] < time.monotonic_ns() for event in denials)
            assert "must be a list" in await client.refused("deny", peer="h2", evs=3, denied=True)
            assert "evs: -1" in await client.refused("deny", peer="h2", evs=[-1], denied=True)
            assert "h0..h3" in await client.refused("deny", peer="h9", evs=[], denied=True)

    run(test())
