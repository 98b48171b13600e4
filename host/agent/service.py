"""The answering end of an exchange, whatever it offers; `services` has those that there are."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from host.agent.errors import UsageError
from host.agent.jsonlines import Fields
from host.agent.workspace import Connection, Workspace
from host.verbs import MrInfo, QpInfo


class Service(ABC):
    """The answering end of one exchange: makes one queue pair for each of the asking end's.

    `arguments` are the service's own. Raises UsageError for wrong ones.
    """

    name: ClassVar[str]
    #: Receives that wait for WRITEs with immediate, on each queue pair
    receives: ClassVar[int] = 128

    def __init__(self, workspace: Workspace, arguments: Fields, remotes: Sequence[QpInfo]) -> None:
        self.workspace = workspace
        self.remotes = list(remotes)
        #: What the asking end may write to
        self.regions: list[MrInfo] = []
        #: What the asking end is told at the start
        self.result: dict[str, Any] = {}
        self.connections: list[Connection] = [
            workspace.create_connection(max_send_wr=4096, max_recv_wr=self.receives)
            for _ in remotes
        ]

    def connected(self) -> None:
        """All queue pairs are in RTS."""
        for connection in self.connections:
            for _ in range(self.receives):
                connection.qp.post_recv(0)

    async def handle(self, request: str, fields: Fields) -> Mapping[str, Any]:
        """A request of the asking end. Raises AgentError."""
        raise UsageError(f"request {request!r}: service {self.name} has none of that name")

    def close(self) -> None:  # noqa: B027
        """The connection has ended; the workspace closes next."""
