"""What an agent offers to other agents over an exchange.

======== ===========================================================================================
region   a region that somebody published at this agent, by name
perftest a scratch region, its far end's echo and, for both directions at once, its own writes
flow     memory for a flow's messages, and the check of every byte (`flow_target`)
======== ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from host.agent.errors import UsageError
from host.agent.flow_target import FlowTarget
from host.agent.jsonlines import Fields
from host.agent.perftest import Bandwidth, Echo, Load
from host.agent.service import Service
from host.agent.workspace import Connection, Region, Workspace
from host.verbs import MrInfo, QpInfo, WcOpcode, WcStatus, WorkCompletion

#: Of all queue pairs of one perftest
MAX_SCRATCH_BYTES: Final = 1 << 30


class RegionService(Service):
    """Lets the asking end write to a published region; its immediates go to the publisher."""

    name = "region"

    def __init__(self, workspace: Workspace, arguments: Fields, remotes: Sequence[QpInfo]) -> None:
        super().__init__(workspace, arguments, remotes)
        wanted = arguments.text("name")
        region = workspace.agent.published.get(wanted)
        if region is None:
            there = ", ".join(sorted(workspace.agent.published)) or "none"
            raise UsageError(f"region {wanted!r} is not published; there are: {there}")
        self._region: Region = region
        # Queue pairs reach regions of their own protection domain only
        self._mr = region.share(workspace.pd)
        self.regions = [self._mr.info]

    def connected(self) -> None:
        """See `Service.connected`."""
        super().connected()
        for connection in self.connections:
            connection.on_completions = self._arrived_on(connection)

    def _arrived_on(self, connection: Connection) -> Any:
        def arrived(completions: list[WorkCompletion]) -> None:
            for completion in completions:
                if completion.status is not WcStatus.SUCCESS:
                    continue
                if completion.opcode is WcOpcode.RECV_RDMA_WITH_IMM:
                    connection.qp.post_recv(0)
                    self._region.arrived(completion)

        return arrived

    async def handle(self, request: str, fields: Fields) -> Mapping[str, Any]:
        """`digest`: SHA-256 of a part of the region."""
        if request != "digest":
            return await super().handle(request, fields)
        offset = fields.integer("offset", 0, default=0)
        length = fields.optional_integer("length", 0)
        fields.end()
        return {"sha256": self._region.digest(offset, length)}

    def close(self) -> None:
        """See `Service.close`."""
        self._region.unshare(self._mr)


class PerftestService(Service):
    """The far end of `write-bw` and `write-lat`."""

    name = "perftest"

    def __init__(self, workspace: Workspace, arguments: Fields, remotes: Sequence[QpInfo]) -> None:
        super().__init__(workspace, arguments, remotes)
        size_bytes = arguments.integer("size", 1, MAX_SCRATCH_BYTES // len(remotes))
        self._echo = arguments.flag("echo", False)
        #: One part for each queue pair
        self._size_bytes = size_bytes
        self._target = workspace.register(size_bytes * len(remotes))
        self._source = workspace.register(size_bytes)
        self.regions = [self._target.info]

    def connected(self) -> None:
        """See `Service.connected`."""
        super().connected()
        if self._echo:
            for connection, remote in zip(self.connections, self.remotes, strict=True):
                Echo(connection, self._source, _region_of(remote))

    async def handle(self, request: str, fields: Fields) -> Mapping[str, Any]:
        """`digest` of a part of the target; `run`: write to the asking end, too."""
        if request == "digest":
            offset = fields.integer("offset", 0, default=0)
            length = fields.optional_integer("length", 0)
            fields.end()
            return {"sha256": self._target.digest(offset, length)}
        if request == "run":
            load = Load.take(fields)
            seed = fields.integer("seed", 0)
            fields.end()
            if load.size_bytes > self._size_bytes:
                raise UsageError(
                    f"size: {load.size_bytes} does not fit: the region has {self._size_bytes} bytes"
                )
            sinks = [_region_of(remote) for remote in self.remotes]
            targets = [
                MrInfo(sink.addr + number * self._size_bytes, self._size_bytes, sink.rkey)
                for number, sink in enumerate(sinks)
            ]
            self._source.fill_with_pattern(0, load.size_bytes, seed)
            bandwidth = Bandwidth(self.connections, self._source, targets, load)
            return (await bandwidth.run()).to_json()
        return await super().handle(request, fields)


def _region_of(remote: QpInfo) -> MrInfo:
    """What the asking end lets a queue pair write to. Raises UsageError where it told none."""
    if not remote.regions:
        raise UsageError("qps: each must tell a region to write to")
    return remote.regions[0]


SERVICES: Final[Mapping[str, type[Service]]] = {
    service.name: service for service in (RegionService, PerftestService, FlowTarget)
}
