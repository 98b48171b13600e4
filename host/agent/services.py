"""What an agent offers to other agents over an exchange.

======== ===========================================================================================
region   a region that somebody published at this agent, by name
perftest a scratch region, its far end's echo and, for both directions at once, its own writes
======== ===========================================================================================
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from host.agent.errors import UsageError
from host.agent.jsonlines import Fields
from host.agent.perftest import Bandwidth, Echo, Load
from host.agent.workspace import Connection, Region, Workspace, pattern
from host.verbs import MrInfo, QpInfo, WcOpcode, WcStatus, WorkCompletion

#: Of all queue pairs of one perftest
MAX_SCRATCH_BYTES: Final = 1 << 30
#: Receives that wait for WRITEs with immediate, on each queue pair
_RECEIVES: Final = 128


class Service(ABC):
    """The answering end of one exchange: makes one queue pair for each of the asking end's.

    `arguments` are the service's own. Raises UsageError for wrong ones.
    """

    name: ClassVar[str]

    def __init__(self, workspace: Workspace, arguments: Fields, remotes: Sequence[QpInfo]) -> None:
        self.workspace = workspace
        self.remotes = list(remotes)
        #: What the asking end may write to
        self.regions: list[MrInfo] = []
        #: What the asking end is told at the start
        self.result: dict[str, Any] = {}
        self.connections: list[Connection] = [
            workspace.create_connection(max_send_wr=4096, max_recv_wr=_RECEIVES) for _ in remotes
        ]

    def connected(self) -> None:
        """All queue pairs are in RTS."""
        for connection in self.connections:
            for _ in range(_RECEIVES):
                connection.qp.post_recv(0)

    async def handle(self, request: str, fields: Fields) -> Mapping[str, Any]:
        """A request of the asking end. Raises AgentError."""
        raise UsageError(f"request {request!r}: service {self.name} has none of that name")

    def close(self) -> None:  # noqa: B027
        """The connection has ended; the workspace closes next."""


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
                Echo(connection, self._source, remote.regions[0])

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
            self._source.fill(0, pattern(load.size_bytes, seed))
            targets = [
                MrInfo(
                    remote.regions[0].addr + number * self._size_bytes,
                    self._size_bytes,
                    remote.regions[0].rkey,
                )
                for number, remote in enumerate(self.remotes)
            ]
            bandwidth = Bandwidth(self.connections, self._source, targets, load)
            return (await bandwidth.run()).to_json()
        return await super().handle(request, fields)


SERVICES: Final[Mapping[str, type[Service]]] = {
    service.name: service for service in (RegionService, PerftestService)
}
