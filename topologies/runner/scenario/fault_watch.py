"""What one fault did: data sent into it, frames that it cost, EVs that went out of use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from reports.evs import look_at_evs
from reports.result import EvTransition, FaultEffect
from topologies.addressing import AddressingError, Path
from topologies.fault_scope import scope_of
from topologies.model import Fabric
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.connection import Connection
from topologies.runner.scenario.fault_driver import FaultDriver
from topologies.runner.scenario.interfaces import Interfaces, kept_in, read_interfaces, since
from topologies.runner.scenario.plan import CutLink, Impair, Reboot, Swallow
from topologies.runner.scenario.sampling import Sampler
from topologies.runner.scenario.traffic import Agents

#: So long after a fault is over, EVs may still be found out that met it: a local ACK timeout
_GRACE_NS: Final = 300_000_000


@dataclass(slots=True)
class _Counts:
    """Counters before a fault, or after it."""

    interfaces: Interfaces = field(default_factory=dict)
    boxes: dict[str, int] = field(default_factory=dict)
    port_losses: dict[tuple[str, int], int] = field(default_factory=dict)


class Tallies:
    """Data frames of every host by path, asked of the agents; a connection with each."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._agents: dict[str, Connection] = {}
        self._paths: dict[tuple[str, str], Path | None] = {}

    async def open(self, agents: Agents) -> None:
        """Connect with all agents. Raises RunnerError."""
        for host in self._fabric.hosts():
            self._agents[host.name] = await agents.connect(host.name)

    async def close(self) -> None:
        """Hang up."""
        for connection in self._agents.values():
            await connection.close()

    async def read(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(frames, when the last was sent in CLOCK_MONOTONIC) by host and carrier."""
        tallies: dict[tuple[str, str], tuple[int, int]] = {}

        async def one(host: str, connection: Connection) -> None:
            with contextlib.suppress(RunnerError):  # of one that has ended, nothing is known
                for each in (await connection.ask("tally"))["paths"]:
                    tallies[host, each["carrier"]] = each["frames"], each["last_ns"]

        await asyncio.gather(*(one(*each) for each in self._agents.items()))
        return tallies

    def path(self, host: str, carrier: str) -> Path | None:
        """The path that a carrier names; None: it names none."""
        key = host, carrier
        if key not in self._paths:
            source = self._fabric.host(host).id
            try:
                path = self._fabric.addresses.path_of_carrier(int(carrier, 16), source)
            except AddressingError:
                path = None
            self._paths[key] = path
        return self._paths[key]


class FaultWatch:
    """Does one fault at its time, and follows it."""

    def __init__(
        self,
        driver: FaultDriver,
        deployment: Deployment,
        sampler: Sampler,
        tallies: Tallies,
        lock: asyncio.Lock,
    ) -> None:
        fault = driver.plan.fault
        self.driver = driver
        self.scope = scope_of(fault, deployment.fabric)
        self.effect = FaultEffect(
            name=fault.name,
            kind=type(fault).__name__,
            at_ns=fault.at_ns,
            end_ns=fault.end_ns,
            begun=False,
        )
        self.over = False
        self._deployment = deployment
        self._sampler = sampler
        self._tallies = tallies
        #: One connection with each agent serves all faults
        self._lock = lock
        self._clock: RunClock = sampler.clock
        self._frames_before: Mapping[tuple[str, str], tuple[int, int]] = {}
        self._counts = _Counts()

    async def read_losses(self) -> None:
        """Some time before it begins: what was lost up to then."""
        self._counts = await self._read_counts()

    async def read_sent(self) -> None:
        """Right before it begins: what was sent up to then."""
        self._frames_before = await self._read_tallies()

    def mark_begin(self) -> None:
        """It begins now: `effect.at_ns` becomes the time at which it really does."""
        effect = self.effect
        effect.begun = True
        planned_ns, effect.at_ns = effect.at_ns, self._clock.now_ns()
        if effect.end_ns is not None:
            effect.end_ns += effect.at_ns - planned_ns

    async def begin(self) -> None:
        """After `mark_begin`: have it done. What a box does begins when it has been told."""
        await self.driver.begin()
        if all(isinstance(act, Impair) for act in self.driver.plan.acts):
            self.mark_begin()
            await self.read_sent()

    async def end(self) -> None:
        """It is repaired now; `effect.end_ns` becomes the time at which the repair is done."""
        await self.driver.end()
        self.over = True
        self.effect.end_ns = self._clock.now_ns()
        self.effect.lost = await self._lost()

    async def read_sent_into_it(self) -> None:
        """Right before its repair, after which hosts may send there again at once."""
        tallies = await self._read_tallies()
        self._look(tallies)
        self._frames_before = tallies

    async def finish(self) -> None:
        """The traffic is over, its agents still there."""
        if not self.effect.begun:
            return
        if self.over:
            sent = [frames for frames, _ in self._sent_since(await self._read_tallies())]
            self.effect.packets_after = sum(sent)
        else:
            self._look(await self._read_tallies())
            self.effect.lost = await self._lost()

    async def _read_tallies(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        async with self._lock:
            return await self._tallies.read()

    # --- data sent into it ---

    def _look(self, tallies: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        effect = self.effect
        for frames, last_ns in self._sent_since(tallies):
            effect.packets_sent += frames
            since_ns = self._clock.run_ns(last_ns) - effect.at_ns
            if effect.last_packet_ns is None or since_ns > effect.last_packet_ns:
                effect.last_packet_ns = since_ns

    def _sent_since(
        self, tallies: Mapping[tuple[str, str], tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        for (host, carrier), (frames, last_ns) in tallies.items():
            sent = frames - self._frames_before.get((host, carrier), (0, 0))[0]
            # What was sent between the reading and the beginning met no fault
            if not sent or self._clock.run_ns(last_ns) < self.effect.at_ns:
                continue
            path = self._tallies.path(host, carrier)
            if path is not None and self.scope.crosses(self._deployment.fabric, path):
                yield sent, last_ns

    # --- what it cost ---

    async def _read_counts(self) -> _Counts:
        sampler = self._sampler
        await sampler.read_fast()
        links = [act.link for act in self.driver.plan.acts if isinstance(act, Impair)]
        return _Counts(
            read_interfaces(self._deployment.namespaces),
            {link: sampler.lost[link].last for link in links},
            dict(sampler.port_losses),
        )

    async def _lost(self) -> int:
        """Frames since the beginning that were lost because of it, as far as somebody counts."""
        before, after = self._counts, await self._read_counts()
        counters = since(after.interfaces, before.interfaces)
        fabric = self._deployment.fabric
        lost = 0
        boxed: set[str] = set()
        for act in self.driver.plan.acts:
            match act:
                case Impair() if act.link not in boxed:
                    boxed.add(act.link)
                    lost += after.boxes.get(act.link, 0) - before.boxes.get(act.link, 0)
                case Swallow():
                    lost += kept_in(act.switch, counters)
                case Reboot():
                    lost += kept_in(act.switch, counters)
                    for port in fabric.ports(fabric.switch(act.switch).id):
                        lost += self._port_lost(port.peer.node, port.peer.port)
                case CutLink():
                    link = fabric.link(*act.nodes)
                    for end in (link.lower, link.upper):
                        lost += self._port_lost(end.node, end.port)
        return max(lost, 0)

    def _port_lost(self, node: str, port: int) -> int:
        key = node, port
        return self._sampler.port_losses.get(key, 0) - self._counts.port_losses.get(key, 0)

    # --- EVs ---

    def finish_evs(self, transitions: list[EvTransition]) -> None:
        """Count EVs that were out of use; `transitions` are all, in order."""
        if self.effect.begun:
            look_at_evs(
                self.effect,
                self.scope,
                self._deployment.fabric,
                transitions,
                grace_ns=_GRACE_NS,
                count_earlier=True,
            )
