"""write-bw and write-lat: what is measured, what is compared, and the tables."""

from __future__ import annotations

from typing import Any

import pytest

from host.agent.agent import AgentOptions
from host.agent.cli_perftest import bandwidth_row, latency_row
from host.agent.errors import AgentError
from host.agent.perftest import BandwidthResult, LatencyResult, check
from host.agent.workspace import Connection
from host.verbs import WcOpcode, WcStatus, WorkCompletion
from tests.host.agent.world import QUICK, Client, Side, run, until, world


def load(size: int, **changes: Any) -> dict[str, Any]:
    return {"size": size, "iterations": 20, "tx_depth": 8, "cq_mod": 4, **changes}


async def results(near: Side, far: Side, command: str, **fields: Any) -> list[dict[str, Any]]:
    client = await Client.open(near)
    await client.ask(command, to=far.exchange_address, **fields)
    assert client.events[0]["event"] == "connected"
    assert client.events[0]["peer"] == "h2"
    await client.close()
    for side in (near, far):
        await until(lambda: not side.agent.workspaces)  # noqa: B023
        assert not side.agent.nic.qps
    return [event for event in client.events if event["event"] == "result"]


def test_bandwidth_of_several_sizes_and_queue_pairs() -> None:
    async def test() -> None:
        async with world() as (near, far):
            found = await results(
                near, far, "write_bw", qps=3, loads=[load(1), load(9000), load(100_000)]
            )
            assert [each["size_bytes"] for each in found] == [1, 9000, 100_000]
            for each in found:
                assert each["iterations"] == 60
                average = each["size_bytes"] * 60 * 1e9 / each["elapsed_ns"]
                assert each["average"] == pytest.approx(average)
                assert each["peak"] >= each["average"]

    run(test())


def test_both_directions_add_up() -> None:
    async def test() -> None:
        async with world() as (near, far):
            (found,) = await results(
                near, far, "write_bw", qps=2, bidirectional=True, loads=[load(50_000)]
            )
            assert found["iterations"] == 80

    run(test())


def test_a_duration_ends_with_everything_completed() -> None:
    async def test() -> None:
        async with world() as (near, far):
            (found,) = await results(
                near, far, "write_bw", loads=[load(8192, duration_s=0.05, iterations=1)]
            )
            assert found["iterations"] % 4 == 0
            assert found["elapsed_ns"] >= 50_000_000 or found["iterations"] > 0

    run(test())


def test_latency_counts_every_round_trip() -> None:
    async def test() -> None:
        async with world() as (near, far):
            found = await results(near, far, "write_lat", loads=[load(2), load(5000)])
            assert [each["iterations"] for each in found] == [20, 20]
            for each in found:
                assert 0 < each["minimum"] <= each["typical"] <= each["percentile_99"]
                assert each["percentile_99"] <= each["percentile_999"] <= each["maximum"]

    run(test())


def test_a_test_whose_peer_falls_silent_fails_and_says_so() -> None:
    async def test() -> None:
        async with world(AgentOptions(timing=QUICK, seed=1)) as (near, far):
            await near.agent.calibrate(far.agent.config.address)
            await far.agent.calibrate(near.agent.config.address)
            for port in near.ports.values():
                port.dead = True
            client = await Client.open(near)
            for command in ("write_bw", "write_lat"):
                error = await client.refused(command, to=far.exchange_address, loads=[load(4096)])
                assert "towards h2: retry counter exceeded (RETRY_EXCEEDED_ERROR)" in error

    run(test())


def test_wrong_loads_are_refused() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            to = far.exchange_address
            assert "there is none" in await client.refused("write_bw", to=to, loads=[])
            assert "loads" in await client.refused("write_lat", to=to, loads=[7])
            assert "size: 0" in await client.refused("write_bw", to=to, loads=[load(0)])
            long = load(1, duration_s=0)
            assert "duration_s" in await client.refused("write_bw", to=to, loads=[long])

    run(test())


def test_statistics_of_latencies() -> None:
    found = LatencyResult.of(2, [*range(1, 1001)])
    assert (found.minimum, found.maximum, found.typical) == (1, 1000, 500)
    assert (found.percentile_99, found.percentile_999) == (990, 999)
    assert found.average == pytest.approx(500.5)
    assert found.deviation == pytest.approx(288.675, abs=0.001)
    alone = LatencyResult.of(2, [7])
    assert alone.percentile_999 == alone.minimum == 7


def test_rows_are_those_of_perftest() -> None:
    result = BandwidthResult(65536, 5000, 2_000_000_000, 200.0 * (1 << 20), 163_840_000.0)
    assert bandwidth_row(result.to_json(), False, False).split() == [
        "65536",
        "5000",
        "200.00",
        "156.25",
        "0.002500",
    ]
    assert bandwidth_row(result.to_json(), True, True).split() == [
        "65536",
        "5000",
        "0.00",
        "1.31",
        "0.002500",
    ]
    assert BandwidthResult.from_json(result.to_json()) == result
    both = result.plus(result)
    assert (both.iterations, both.average) == (10_000, 2 * result.average)
    lat = LatencyResult(2, 1000, 1000, 9000, 2000, 2500.0, 300.0, 8000, 8500).to_json()
    assert latency_row(lat, False).split() == (
        ["2", "1000", "1.00", "9.00", "2.00", "2.50", "0.30", "8.00", "8.50"]
    )
    assert latency_row(lat, True).split() == ["2", "1000", "2.50", "200000.00"]


def test_a_failure_is_told_by_its_cause_not_by_what_was_flushed_first() -> None:
    connection = object.__new__(Connection)
    connection.remote = None

    def completions(*statuses: WcStatus) -> list[WorkCompletion]:
        return [
            WorkCompletion(number, status, WcOpcode.RDMA_WRITE, 0x11)
            for number, status in enumerate(statuses)
        ]

    done, flushed = WcStatus.SUCCESS, WcStatus.WR_FLUSH_ERROR
    check(completions(done, done), connection)
    with pytest.raises(AgentError, match="retry counter exceeded"):
        check(completions(done, flushed, WcStatus.RETRY_EXCEEDED_ERROR, flushed), connection)
    with pytest.raises(AgentError, match="work request flushed"):
        check(completions(done, flushed), connection)
