"""Between agents, out of band: queue pairs are made at both ends and told to each other.

A connection (Unix or TCP, JSON lines) lives as long as what was made over it: when it closes, the
answering end destroys its queue pairs and regions. The asking end keeps its own until its user
lets go of them, so that a peer that dies is noticed the way a network shows it: retries run out.

    → {"mrc_exchange": 1, "host": "h0", "service": "region", "arguments": {…}, "qps": [QP, …]}
    ← {"ok": true, "host": "h1", "qps": [QP, …], "result": {…}}   its ends are in RTS
    → {"request": "digest", …}                                     what the service offers
    ← {"ok": true, …} or {"ok": false, "error": "…"}

QP is what `host.verbs.QpInfo.to_json` makes. Services are in `host.agent.services`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from host.agent.address import Address
from host.agent.errors import AgentError, UsageError
from host.agent.jsonlines import Fields, read_object, refusal, result_of, write_object
from host.agent.workspace import Connection, Workspace
from host.verbs import MrcError, MrcQpAttr, MrInfo, QpInfo

if TYPE_CHECKING:
    from host.agent.agent import Agent
    from host.agent.service import Service

log = logging.getLogger(__name__)

EXCHANGE_VERSION: Final = 1
#: Queue pairs of one exchange
MAX_QPS: Final = 4096
_CONNECT_TIMEOUT_S: Final = 10.0
_ANSWER_TIMEOUT_S: Final = 30.0


def qp_attributes(agent: Agent) -> MrcQpAttr:
    """Timeout and retries of every queue pair that agents make."""
    qp = agent.config.qp
    return MrcQpAttr(
        timeout=qp.timeout, linear_cnt=qp.linear_retries, exp_cnt=qp.exponential_retries
    )


class Exchange:
    """The asking end."""

    def __init__(
        self,
        address: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connections: Sequence[Connection],
        result: Mapping[str, Any],
        host: str,
    ) -> None:
        self.address = address
        #: This end's queue pairs, in RTS
        self.connections = list(connections)
        #: What the service said at the start
        self.result = result
        #: The other end's name
        self.host = host
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(
        cls,
        workspace: Workspace,
        address: Address,
        service: str,
        arguments: Mapping[str, Any],
        connections: Sequence[Connection],
        regions: Sequence[MrInfo] = (),
    ) -> Exchange:
        """Connect queue pairs with new ones of a service at another agent.

        `regions` are what that end may write to. Raises AgentError.
        """
        agent = workspace.agent
        reader, writer = await address.connect(_CONNECT_TIMEOUT_S)
        try:
            asked = {
                "mrc_exchange": EXCHANGE_VERSION,
                "host": agent.name,
                "service": service,
                "arguments": dict(arguments),
                "qps": [each.qp.info(regions).to_json() for each in connections],
            }
            write_object(writer, asked)
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                answer = result_of(await read_object(reader), str(address))
            remotes = [QpInfo.from_json(each) for each in answer.get("qps", ())]
            if len(remotes) != len(connections):
                raise AgentError(
                    f"{address} made {len(remotes)} queue pairs for {len(connections)}"
                )
            for remote in {int(each.gid): each for each in remotes}.values():
                await agent.calibrate(int(remote.gid))
            attributes = qp_attributes(agent)
            for connection, remote in zip(connections, remotes, strict=True):
                connection.connect(remote, attributes)
            host = str(answer.get("host", address))
            return cls(address, reader, writer, connections, answer.get("result", {}), host)
        except TimeoutError:
            writer.close()
            raise AgentError(f"{address} did not answer within {_ANSWER_TIMEOUT_S:g} s") from None
        except MrcError as error:
            writer.close()
            raise AgentError(f"{address}: {error.strerror}") from None
        except BaseException:
            writer.close()
            raise

    async def request(
        self, name: str, timeout_s: float | None = _ANSWER_TIMEOUT_S, **arguments: Any
    ) -> Mapping[str, Any]:
        """Ask the service for something. Raises AgentError."""
        write_object(self._writer, {"request": name, **arguments})
        try:
            async with asyncio.timeout(timeout_s):
                return result_of(await read_object(self._reader), self.host)
        except TimeoutError:
            raise AgentError(f"{self.host} did not answer within {timeout_s:g} s") from None

    def close(self) -> None:
        """End it; the other end destroys what it made."""
        self._writer.close()


class ExchangeServer:
    """The answering end, for everybody who connects."""

    def __init__(self, agent: Agent, services: Mapping[str, type[Service]]) -> None:
        self._agent = agent
        self._services = services
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        #: Where it listens
        self.addresses: list[Address] = []

    async def listen(self, address: Address) -> None:
        """Serve an address, too. Raises AgentError."""
        server = await address.listen(self._accepted)
        self._servers.append(server)
        if address.path is None and address.port == 0:
            address = Address(host=address.host, port=server.sockets[0].getsockname()[1])
        self.addresses.append(address)

    async def close(self) -> None:
        """End all connections, and remove the sockets."""
        for server in self._servers:
            server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the agent ends
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        workspace = Workspace(self._agent, "exchange")
        service: Service | None = None
        try:
            while True:
                try:
                    request = await read_object(reader)
                    if request is None:
                        return
                    answer: Mapping[str, Any]
                    if service is None:
                        service, answer = await self._begin(workspace, Fields(request))
                    else:
                        fields = Fields(request)
                        answer = await service.handle(fields.text("request"), fields)
                except (AgentError, MrcError) as error:
                    text = error.strerror if isinstance(error, MrcError) else str(error)
                    write_object(writer, refusal(f"{self._agent.name}: {text}"))
                    if service is None:
                        return
                except Exception as error:
                    log.exception("a request failed")
                    told = f"{self._agent.name}: {type(error).__name__}: {error}"
                    write_object(writer, refusal(told))
                    await writer.drain()
                    return
                else:
                    write_object(writer, {"ok": True, **answer})
                await writer.drain()
        except ConnectionError:
            return
        finally:
            if service is not None:
                service.close()
            workspace.close()

    async def _begin(self, workspace: Workspace, request: Fields) -> tuple[Service, dict[str, Any]]:
        agent = self._agent
        version = request.take("mrc_exchange")
        if version != EXCHANGE_VERSION:
            raise UsageError(
                f"mrc_exchange: {version!r} does not fit: it must be {EXCHANGE_VERSION}"
            )
        workspace.owner = f"exchange with {request.text('host')}"
        name = request.text("service")
        made = self._services.get(name)
        if made is None:
            raise UsageError(f"service {name!r}: there are {', '.join(sorted(self._services))}")
        remotes = [QpInfo.from_json(each) for each in request.items("qps")]
        arguments = request.fields("arguments")
        request.end()
        if not 1 <= len(remotes) <= MAX_QPS:
            raise UsageError(f"qps: {len(remotes)} do not fit: there must be 1..{MAX_QPS}")
        service = made(workspace, arguments, remotes)
        try:
            arguments.end()
            for address in {int(each.gid) for each in remotes}:
                await agent.calibrate(address)
            attributes = qp_attributes(agent)
            for connection, remote in zip(service.connections, remotes, strict=True):
                connection.connect(remote, attributes)
            service.connected()
        except BaseException:
            # A region that it shares outlives the workspace
            service.close()
            raise
        infos = [each.qp.info(service.regions) for each in service.connections]
        return service, {
            "host": agent.name,
            "qps": [info.to_json() for info in infos],
            "result": service.result,
        }
