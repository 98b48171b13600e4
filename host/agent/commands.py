"""What can be asked of an agent over its control socket; docs/mrc-host.md describes each."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from host.agent import report
from host.agent.address import Address
from host.agent.errors import UsageError
from host.agent.exchange import Exchange, qp_attributes
from host.agent.jsonlines import Fields
from host.agent.perftest_commands import write_bw, write_lat
from host.agent.traffic_commands import (
    deny,
    flow_open,
    flow_run,
    group_connect,
    group_join,
    group_run,
    sample,
    tally,
)
from host.agent.workspace import (
    MAX_REGION_BYTES,
    Connection,
    Region,
    Workspace,
)
from host.verbs import QpInfo, SendFlags, Sge, WorkCompletion

if TYPE_CHECKING:
    from host.agent.agent import Agent
    from host.agent.collective import Rank
    from host.agent.flow import Flow

_U32: Final = (1 << 32) - 1
_U64: Final = (1 << 64) - 1
#: Bytes that `read` returns at most
_MAX_READ_BYTES: Final = 1 << 20
_MAX_WR: Final = 1 << 16
#: Some thirty years: for ever
_MAX_TIMEOUT_MS: Final = 10**12


class Session:
    """One control connection: its workspace, and the exchanges that its queue pairs came by."""

    def __init__(self, agent: Agent, emit: Callable[[Mapping[str, Any]], None]) -> None:
        self.agent = agent
        #: Sends a line ahead of the answer
        self.emit = emit
        self.workspace = Workspace(agent, "control")
        self._exchanges: dict[int, Exchange] = {}
        self._published: list[str] = []
        self._next_wr_id = 1
        #: As which this connection is in a group, and the flow that it has
        self.rank: Rank | None = None
        self.flow: Flow | None = None

    def close(self) -> None:
        """Destroy everything that was made over the connection."""
        for name in self._published:
            self.agent.published.pop(name, None)
        self.agent.watchers.discard(self._watch)
        if self.rank is not None:
            self.rank.close()
        if self.flow is not None:
            self.flow.close()
        for exchange in {id(each): each for each in self._exchanges.values()}.values():
            exchange.close()
        self.workspace.close()

    # --- helpers ---

    def _region(self, fields: Fields) -> Region:
        rkey = fields.integer("region", 0, _U32)
        region = self.workspace.regions.get(rkey)
        if region is None:
            raise UsageError(f"region: {rkey} is none that this connection registered")
        return region

    def _connection(self, fields: Fields) -> Connection:
        number = fields.integer("qp", 0, (1 << 24) - 1)
        connection = self.workspace.connections.get(number)
        if connection is None:
            raise UsageError(f"qp: {number} is none that this connection created")
        return connection

    def _peer(self, name: str) -> int:
        return self.agent.address_of(name)

    # --- the agent ---

    async def hello(self, fields: Fields) -> Mapping[str, Any]:
        """Who it is."""
        fields.end()
        return report.hello(self.agent)

    async def stat(self, fields: Fields) -> Mapping[str, Any]:
        """Counters."""
        fields.end()
        return report.statistics(self.agent)

    async def evs(self, fields: Fields) -> Mapping[str, Any]:
        """States of EVs."""
        name = fields.optional_text("peer")
        fields.end()
        peer = None if name is None else self._peer(name)
        return {"qps": report.ev_states(self.agent, peer)}

    async def probe(self, fields: Fields) -> Mapping[str, Any]:
        """EV probes."""
        peer = self._peer(fields.text("peer"))
        ev = fields.optional_integer("ev", 0, _U32)
        timeout_ms = fields.integer("timeout_ms", 1, 60_000, default=1000)
        fields.end()
        agent = self.agent
        evs = agent.evs_towards(peer)
        if ev is not None:
            if ev not in evs:
                raise UsageError(f"ev: {ev} leads to no path to {agent.host_name(peer)}")
            evs = [ev]
        rtts = await agent.probe(peer, evs, timeout_ms * 1_000_000)
        return {
            "peer": agent.host_name(peer),
            "evs": [
                {
                    "ev": each,
                    "plane": each & 7,
                    "rtt_ns": rtt_ns,
                    "path": report.path_elements(agent, peer, each),
                }
                for each, rtt_ns in rtts.items()
            ],
        }

    async def port(self, fields: Fields) -> Mapping[str, Any]:
        """Disable or enable a port."""
        agent = self.agent
        plane = fields.integer("plane", 0, len(agent.config.ports) - 1)
        enabled = fields.flag("enabled")
        fields.end()
        agent.nic.set_port_enabled(plane, enabled, agent.driver.now_ns())
        agent.driver.kick()
        return {}

    def _watch(self, event: Mapping[str, Any]) -> None:
        self.emit(event)

    async def watch(self, fields: Fields) -> Mapping[str, Any]:
        """Send a line for whatever happens, from now on."""
        history = fields.flag("history", False)
        fields.end()
        if history:
            for event in self.agent.history:
                self.emit(event)
        self.agent.watchers.add(self._watch)
        return {}

    async def quit(self, fields: Fields) -> Mapping[str, Any]:
        """End the agent."""
        fields.end()
        self.agent.stopped.set()
        return {"pid": os.getpid()}

    # --- memory ---

    async def register(self, fields: Fields) -> Mapping[str, Any]:
        """A region, perhaps under a name."""
        size = fields.optional_integer("size", 1, MAX_REGION_BYTES)
        file = fields.optional_text("file")
        name = fields.optional_text("publish")
        fields.end()
        if (size is None) == (file is None):
            raise UsageError("register: give either size or file")
        if name is not None and name in self.agent.published:
            raise UsageError(f"publish: {name!r} is taken")
        region = self.workspace.register(size, None if file is None else Path(file))
        if name is not None:
            self.agent.published[name] = region
            self._published.append(name)
        return {"region": region.mr.rkey, **region.info.to_json()}

    async def deregister(self, fields: Fields) -> Mapping[str, Any]:
        """Forget a region."""
        region = self._region(fields)
        fields.end()
        for name, published in [*self.agent.published.items()]:
            if published is region:
                del self.agent.published[name]
                self._published.remove(name)
        self.workspace.deregister(region)
        return {}

    async def fill(self, fields: Fields) -> Mapping[str, Any]:
        """Put bytes that follow from a seed, or given ones, into a region."""
        region = self._region(fields)
        offset = fields.integer("offset", 0, default=0)
        seed = fields.optional_integer("seed", 0)
        text = fields.optional_text("hex")
        length = fields.optional_integer("length", 0)
        fields.end()
        if (seed is None) == (text is None):
            raise UsageError("fill: give either seed or hex")
        if text is not None:
            try:
                content = bytes.fromhex(text)
            except ValueError as error:
                raise UsageError(f"hex: {error}") from None
            region.fill(offset, content)
            filled = len(content)
        else:
            assert seed is not None
            filled = region.fill_with_pattern(offset, length, seed)
        return {"sha256": region.digest(offset, filled)}

    async def digest(self, fields: Fields) -> Mapping[str, Any]:
        """SHA-256 of a part of a region."""
        region = self._region(fields)
        offset = fields.integer("offset", 0, default=0)
        length = fields.optional_integer("length", 0)
        fields.end()
        return {"sha256": region.digest(offset, length)}

    async def read(self, fields: Fields) -> Mapping[str, Any]:
        """A part of a region, in hex."""
        region = self._region(fields)
        offset = fields.integer("offset", 0, default=0)
        length = fields.integer("length", 0, _MAX_READ_BYTES)
        fields.end()
        return {"hex": region.read(offset, length).hex()}

    async def arrivals(self, fields: Fields) -> Mapping[str, Any]:
        """Immediates that came to a published region."""
        region = self._region(fields)
        count = fields.integer("count", 1, _MAX_WR, default=1)
        timeout_ms = fields.optional_integer("timeout_ms", 0, _MAX_TIMEOUT_MS)
        fields.end()
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        return {"completions": [_told(each) for each in await region.wait(count, timeout_s)]}

    # --- queue pairs ---

    async def create_qp(self, fields: Fields) -> Mapping[str, Any]:
        """A queue pair, for `connect_qp` with what the other end tells."""
        max_send_wr = fields.integer("max_send_wr", 1, _MAX_WR, default=1024)
        max_recv_wr = fields.integer("max_recv_wr", 1, _MAX_WR, default=1024)
        rkeys = fields.integers("regions", 0, _U32, default=[])
        regions = [self.workspace.regions.get(rkey) for rkey in rkeys]
        fields.end()
        infos = [region.info for region in regions if region is not None]
        if len(infos) != len(regions):
            raise UsageError("regions: one is none that this connection registered")
        connection = self.workspace.create_connection(
            max_send_wr=max_send_wr, max_recv_wr=max_recv_wr
        )
        return {"qp": connection.qp.qp_num, "info": connection.qp.info(infos).to_json()}

    async def connect_qp(self, fields: Fields) -> Mapping[str, Any]:
        """Connect a queue pair with another, whose `info` somebody carried here."""
        connection = self._connection(fields)
        remote = QpInfo.from_json(fields.take("info"))
        fields.end()
        await self.agent.calibrate(int(remote.gid))
        connection.connect(remote, qp_attributes(self.agent))
        return {}

    async def connect(self, fields: Fields) -> Mapping[str, Any]:
        """Connect a queue pair with a region that another agent has published."""
        address = Address.parse(fields.text("to"))
        name = fields.text("region")
        max_send_wr = fields.integer("max_send_wr", 1, _MAX_WR, default=1024)
        fields.end()
        connection = self.workspace.create_connection(max_send_wr=max_send_wr)
        try:
            exchange = await Exchange.open(
                self.workspace, address, "region", {"name": name}, [connection]
            )
        except BaseException:
            self._forget(connection)
            raise
        number = connection.qp.qp_num
        self._exchanges[number] = exchange
        assert connection.remote is not None
        return {
            "qp": number,
            "peer": exchange.host,
            "remote": connection.remote.regions[0].to_json(),
        }

    def _forget(self, connection: Connection) -> None:
        number = connection.qp.qp_num
        self.workspace.connections.pop(number, None)
        connection.close()
        exchange = self._exchanges.pop(number, None)
        if exchange is not None:
            exchange.close()

    async def remote_digest(self, fields: Fields) -> Mapping[str, Any]:
        """SHA-256 of a part of the region at the other end of `connect`, as that end sees it."""
        connection = self._connection(fields)
        exchange = self._exchanges.get(connection.qp.qp_num)
        if exchange is None:
            raise UsageError("qp: it was not made by connect")
        offset = fields.integer("offset", 0, default=0)
        length = fields.optional_integer("length", 0)
        fields.end()
        return {
            "sha256": (await exchange.request("digest", offset=offset, length=length))["sha256"]
        }

    async def destroy_qp(self, fields: Fields) -> Mapping[str, Any]:
        """Destroy a queue pair, and what the other end made for it."""
        connection = self._connection(fields)
        fields.end()
        self._forget(connection)
        return {}

    async def post_recv(self, fields: Fields) -> Mapping[str, Any]:
        """Receives, for WRITEs with immediate."""
        connection = self._connection(fields)
        count = fields.integer("count", 1, _MAX_WR, default=1)
        fields.end()
        for _ in range(count):
            connection.qp.post_recv(0)
        return {}

    async def post_write(self, fields: Fields) -> Mapping[str, Any]:
        """Post a write; `wait` has its completion."""
        connection = self._connection(fields)
        region = self._region(fields)
        offset = fields.integer("offset", 0, default=0)
        length = fields.optional_integer("length", 1)
        remote = connection.remote
        told = remote.regions[0] if remote is not None and remote.regions else None
        address = fields.integer("addr", 0, _U64, default=None if told is None else told.addr)
        rkey = fields.integer("rkey", 0, _U32, default=None if told is None else told.rkey)
        remote_offset = fields.integer("remote_offset", 0, default=0)
        imm = fields.optional_integer("imm", 0, _U32)
        fields.end()
        wr_id = self._next_wr_id
        self._next_wr_id += 1
        local = Sge(region.mr, offset, length)
        if imm is None:
            connection.qp.post_write(wr_id, local, address + remote_offset, rkey)
        else:
            connection.qp.post_write_imm(
                wr_id, local, address + remote_offset, rkey, imm, send_flags=SendFlags.SIGNALED
            )
        return {"wr_id": wr_id}

    async def wait(self, fields: Fields) -> Mapping[str, Any]:
        """Completions of a queue pair."""
        connection = self._connection(fields)
        count = fields.integer("count", 1, _MAX_WR, default=1)
        timeout_ms = fields.optional_integer("timeout_ms", 0, _MAX_TIMEOUT_MS)
        fields.end()
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        completions = await connection.wait(count, timeout_s)
        return {"completions": [_told(each) for each in completions]}


def _told(completion: WorkCompletion) -> dict[str, Any]:
    return {
        "wr_id": completion.wr_id,
        "status": completion.status.name,
        "opcode": completion.opcode.value,
        "qp": completion.qp_num,
        "byte_len": completion.byte_len,
        "imm": completion.imm,
    }


Command = Callable[[Session, Fields], Awaitable[Mapping[str, Any]]]

COMMANDS: Final[Mapping[str, Command]] = {
    command.__name__: command
    for command in (
        Session.hello,
        Session.stat,
        Session.evs,
        Session.probe,
        Session.port,
        Session.watch,
        Session.quit,
        Session.register,
        Session.deregister,
        Session.fill,
        Session.digest,
        Session.read,
        Session.arrivals,
        Session.create_qp,
        Session.connect_qp,
        Session.connect,
        Session.remote_digest,
        Session.destroy_qp,
        Session.post_recv,
        Session.post_write,
        Session.wait,
        deny,
        flow_open,
        flow_run,
        sample,
        tally,
        group_join,
        group_connect,
        group_run,
        write_bw,
        write_lat,
    )
}
