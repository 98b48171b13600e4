"""The control socket's commands of `perftest`: writes to another agent, measured and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from host.agent.address import Address
from host.agent.errors import AgentError, UsageError
from host.agent.exchange import Exchange
from host.agent.jsonlines import Fields
from host.agent.perftest import Bandwidth, BandwidthResult, Latency, Load
from host.agent.workspace import Workspace
from host.verbs import MrInfo

if TYPE_CHECKING:
    from host.agent.commands import Session


async def write_bw(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Bandwidth of writes to another agent; one `result` line for each size."""
    address = Address.parse(fields.text("to"))
    qps = fields.integer("qps", 1, 256, default=1)
    both = fields.flag("bidirectional", False)
    forever = fields.flag("forever", False)
    loads, size_bytes = _take_loads(fields)
    workspace = Workspace(session.agent, "write_bw")
    exchange: Exchange | None = None
    try:
        source = workspace.register(size_bytes)
        sink = workspace.register(size_bytes * qps)
        depth = max(load.tx_depth for load in loads)
        connections = [
            workspace.create_connection(max_send_wr=depth, max_recv_wr=1) for _ in range(qps)
        ]
        exchange = await Exchange.open(
            workspace, address, "perftest", {"size": size_bytes}, connections, [sink.info]
        )
        session.emit({"event": "connected", **_ends(exchange)})
        targets = []
        for number, connection in enumerate(connections):
            assert connection.remote is not None
            whole = connection.remote.regions[0]
            targets.append(MrInfo(whole.addr + number * size_bytes, size_bytes, whole.rkey))
        for number, load in enumerate(cycle(loads) if forever else loads):
            source.fill_with_pattern(0, load.size_bytes, 2 * number)
            wanted = source.digest(0, load.size_bytes)
            result = await _bandwidth(
                exchange, Bandwidth(connections, source, targets, load), load, number, both
            )
            for part in range(qps):
                await _compare(exchange, part * size_bytes, load.size_bytes, wanted)
            if both:
                source.fill_with_pattern(0, load.size_bytes, 2 * number + 1)
                wanted = source.digest(0, load.size_bytes)
                for part in range(qps):
                    if sink.digest(part * size_bytes, load.size_bytes) != wanted:
                        raise AgentError("the bytes that arrived here are not those sent")
            session.emit({"event": "result", **result.to_json()})
        return {}
    finally:
        if exchange is not None:
            exchange.close()
        workspace.close()


def _take_loads(fields: Fields) -> tuple[list[Load], int]:
    """The last field of a request: what is to be written, and the largest size of it."""
    loads = [Load.take(Fields(_object(each))) for each in fields.items("loads")]
    fields.end()
    size_bytes = max((load.size_bytes for load in loads), default=0)
    if not size_bytes:
        raise UsageError("loads: there is none")
    return loads, size_bytes


async def _bandwidth(
    exchange: Exchange, bandwidth: Bandwidth, load: Load, number: int, both: bool
) -> BandwidthResult:
    if not both:
        return await bandwidth.run()
    async with asyncio.TaskGroup() as group:
        own = group.create_task(bandwidth.run())
        theirs = group.create_task(
            exchange.request("run", None, seed=2 * number + 1, **load.to_json())
        )
    return own.result().plus(BandwidthResult.from_json(theirs.result()))


async def write_lat(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Latency of writes to another agent; one `result` line for each size."""
    address = Address.parse(fields.text("to"))
    loads, size_bytes = _take_loads(fields)
    workspace = Workspace(session.agent, "write_lat")
    exchange: Exchange | None = None
    try:
        source = workspace.register(size_bytes)
        sink = workspace.register(size_bytes)
        connection = workspace.create_connection(max_send_wr=256, max_recv_wr=16)
        exchange = await Exchange.open(
            workspace,
            address,
            "perftest",
            {"size": size_bytes, "echo": True},
            [connection],
            [sink.info],
        )
        session.emit({"event": "connected", **_ends(exchange)})
        assert connection.remote is not None
        target = connection.remote.regions[0]
        for number, load in enumerate(loads):
            source.fill_with_pattern(0, load.size_bytes, number)
            wanted = source.digest(0, load.size_bytes)
            result = await Latency(connection, source, target, load).run()
            await _compare(exchange, 0, load.size_bytes, wanted)
            session.emit({"event": "result", **result.to_json()})
        return {}
    finally:
        if exchange is not None:
            exchange.close()
        workspace.close()


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"loads: {value!r} does not fit: it must be an object")
    return value


async def _compare(exchange: Exchange, offset: int, length: int, wanted: str) -> None:
    """Raises AgentError when the far end has other bytes than were sent."""
    answer = await exchange.request("digest", offset=offset, length=length)
    if answer["sha256"] != wanted:
        raise AgentError(f"the bytes that arrived at {exchange.host} are not those sent")


def _ends(exchange: Exchange) -> dict[str, Any]:
    """Both ends of each queue pair, as perftest prints them."""
    ends = []
    for connection in exchange.connections:
        remote = connection.remote
        assert remote is not None
        local = connection.qp.info()
        region = remote.regions[0]
        ends.append(
            {
                "local": {"qp": local.qp_num, "psn": local.psn, "gid": str(local.gid)},
                "remote": {
                    "qp": remote.qp_num,
                    "psn": remote.psn,
                    "gid": str(remote.gid),
                    "rkey": region.rkey,
                    "addr": region.addr,
                },
                "path_mtu": min(local.path_mtu, remote.path_mtu),
            }
        )
    return {"peer": exchange.host, "ends": ends}
