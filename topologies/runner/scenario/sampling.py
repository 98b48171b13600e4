"""What is read along a run: agents and softswitches often, P4Runtime counters and CPU more rarely.

Every value is kept with the time at which it was read, and what it was at equal intervals is worked
out at the end: on a busy machine nobody is asked exactly when it was planned.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from softswitch.switch import EGRESS_DROP, INGRESS_DROP
from topologies.runner.check.counters import switch_books
from topologies.runner.control_plane import ControlPlane
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.connection import Connection
from topologies.runner.scenario.cpu import CpuMeter
from topologies.runner.scenario.tracks import CounterTrack, Totals, Track
from topologies.runner.scenario.traffic import Agents
from topologies.runner.targets.softswitch import Softswitch, control_path

#: Reading every switch over P4Runtime costs some 100 ms of CPU
_SLOW_INTERVAL_S: Final = 1.0
#: Drops of the P4 program, which counts them itself, by better reasons
_BY_PROGRAM: Final = frozenset({INGRESS_DROP, EGRESS_DROP})


class Sampler:
    """Reads everything, from before time 0 to after the end. Tracks have CLOCK_MONOTONIC.

    Attributes:
        delivered: payload by flow or collective and host.
        posted: messages by flow or collective and host.
        plane_bytes: data frames by plane and host.
        retransmitted, timeouts: packets and timeouts by host.
        queued, lost: packets waiting in softswitches now, and lost there so far; boxes are among
            them, by link.
        trimmed, marked: packets by switch.
        drops: by switch what its program dropped and what it lost itself, by reason.
        agents_now: the latest sample of each agent.
        port_losses: by switch and port, frames lost for other reasons than the program's.
    """

    def __init__(self, deployment: Deployment, control: ControlPlane, clock: RunClock) -> None:
        self.clock = clock
        self.delivered: dict[tuple[str, str], CounterTrack] = defaultdict(CounterTrack)
        self.posted: dict[tuple[str, str], CounterTrack] = defaultdict(CounterTrack)
        self.plane_bytes: dict[tuple[int, str], CounterTrack] = defaultdict(CounterTrack)
        self.retransmitted: dict[str, CounterTrack] = defaultdict(CounterTrack)
        self.timeouts: dict[str, CounterTrack] = defaultdict(CounterTrack)
        self.queued: dict[str, Track] = defaultdict(Track)
        self.lost: dict[str, CounterTrack] = defaultdict(CounterTrack)
        self.trimmed: dict[str, CounterTrack] = defaultdict(CounterTrack)
        self.marked: dict[str, CounterTrack] = defaultdict(CounterTrack)
        self.drops: dict[str, Totals] = defaultdict(Totals)
        self.boxes: dict[str, Totals] = defaultdict(Totals)
        self.agents_now: dict[str, Mapping[str, Any]] = {}
        self.port_losses: dict[tuple[str, int], int] = {}
        self.cpu = CpuMeter()
        self._deployment = deployment
        self._control = control
        self._is_softswitch = isinstance(deployment.target, Softswitch)
        self._agents: dict[str, Connection] = {}
        self._switches: dict[str, Connection] = {}
        #: A connection takes one request at a time
        self._fast = asyncio.Lock()
        self._slow = asyncio.Lock()

    async def open(self, agents: Agents) -> None:
        """Connect with all agents, and read everything for the first time. Raises RunnerError."""
        for host in self._deployment.fabric.hosts():
            self._agents[host.name] = await agents.connect(host.name)
        self.cpu.read(self._processes(), first=True)
        await self.read_fast()
        await self.read_slow()

    async def close(self) -> None:
        """Hang up."""
        for connection in (*self._agents.values(), *self._switches.values()):
            await connection.close()

    async def run(self, interval_ns: int) -> None:
        """Read from time 0 on, until cancelled. Up to then nothing happens that is measured."""
        await self.read_fast()
        for track in self._tracks():
            track.add(self.clock.zero_ns, track.last)
        await self.clock.sleep_until(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_fast(interval_ns))
            group.create_task(self._run_slow())

    async def _run_fast(self, interval_ns: int) -> None:
        while True:
            await self.read_fast()
            now_ns = self.clock.now_ns()
            await self.clock.sleep_until((now_ns // interval_ns + 1) * interval_ns)

    async def _run_slow(self) -> None:
        while True:
            await asyncio.sleep(_SLOW_INTERVAL_S)
            self.cpu.read(self._processes())
            await self.read_slow()

    def _tracks(self) -> Iterator[Track]:
        yield from self.delivered.values()
        yield from self.posted.values()
        yield from self.plane_bytes.values()
        for by_node in (self.retransmitted, self.timeouts, self.lost, self.trimmed, self.marked):
            yield from by_node.values()
        yield from self.queued.values()

    def _processes(self) -> dict[str, Any]:
        deployment = self._deployment
        boxes = {name: box.process for name, box in deployment.boxes.items()}
        return {
            **deployment.processes,
            **deployment.agents,
            **{name: process for name, process in boxes.items() if process is not None},
        }

    # --- agents and control sockets of softswitches ---

    async def read_fast(self) -> None:
        """One reading; who does not answer is left out."""
        deployment = self._deployment
        jobs = [partial(self._read_agent, name, each) for name, each in self._agents.items()]
        if self._is_softswitch:
            for name, place in deployment.places.items():
                life = deployment.processes[name].pid
                jobs.append(partial(self._read_switch, name, control_path(place), life))
        for link, box in deployment.boxes.items():
            jobs.append(partial(self._read_switch, link, box.control_socket, 0))
        async with self._fast:
            await asyncio.gather(*(job() for job in jobs))

    async def _read_agent(self, host: str, connection: Connection) -> None:
        try:
            answer = await connection.ask("sample")
        except RunnerError:
            return  # it has ended, which is told elsewhere
        self.agents_now[host] = answer
        now_ns = answer["now_ns"]
        for name, value in answer["delivered"].items():
            self.delivered[name, host].count(now_ns, value)
        for name, value in answer["posted"].items():
            self.posted[name, host].count(now_ns, value)
        for plane, value in enumerate(answer["plane_bytes"]):
            self.plane_bytes[plane, host].count(now_ns, value)
        self.retransmitted[host].count(now_ns, answer["retransmissions"])
        self.timeouts[host].count(now_ns, answer["timeouts"])

    async def _read_switch(self, name: str, path: Path, life: int) -> None:
        """A softswitch, or the box of the link of that name."""
        connection = self._switches.get(name)
        try:
            if connection is None:
                connection = self._switches[name] = await Connection.open(name, path)
            stats = (await connection.ask("stats"))["stats"]
        except RunnerError:  # it has ended, or takes no more connections
            gone = self._switches.pop(name, None)
            if gone is not None:
                await gone.close()
            return
        now_ns = time.monotonic_ns()
        self.queued[name].add(now_ns, stats["queued"])
        self.lost[name].count(now_ns, sum(stats["dropped"].values()), life)
        for port, counted in stats["ports"].items():
            self.port_losses[name, int(port)] = sum(
                count for reason, count in counted["dropped"].items() if reason not in _BY_PROGRAM
            )

    # --- P4Runtime ---

    async def read_slow(self) -> None:
        """Program counters of every switch that lives, and of the boxes."""
        async with self._slow:
            await asyncio.to_thread(self._read_programs)

    def _read_programs(self) -> None:
        deployment = self._deployment
        lives = {name: each.pid for name, each in deployment.processes.items()}
        try:
            cells = self._control.read_counters(skip=deployment.dead_switches())
        except RunnerError:
            cells = {}  # one is just ending or starting; the next reading has them
        for name, of_switch in cells.items():
            books, life = switch_books(of_switch), lives[name]
            now_ns = time.monotonic_ns()
            self.trimmed[name].count(now_ns, books.trimmed, life)
            self.marked[name].count(now_ns, books.marked_ce, life)
            own = deployment.target.own_losses(deployment.places[name])
            if own is None and name not in self.drops:
                continue  # what it lost before the run would count, once it can be read
            drops = Counter(books.dropped)
            drops.update(own or {})
            self.drops[name].count(drops, life)
            if not self._is_softswitch:
                self.lost[name].count(now_ns, drops.total(), life)
        for link, box in deployment.boxes.items():
            with contextlib.suppress(RunnerError):
                counts = box.counts()
                lost = sum(each.lost for each in counts.values())
                corrupted = sum(each.corrupted for each in counts.values())
                of_box = box.own_losses()
                if of_box is None and link not in self.boxes:
                    continue
                own_by_name = {f"own {reason}": each for reason, each in (of_box or {}).items()}
                self.boxes[link].count({"lost": lost, "corrupted": corrupted, **own_by_name}, 0)

    # --- sums ---

    def delivered_bytes(self) -> int:
        """Payload of all traffic delivered so far."""
        return sum(track.last for track in self.delivered.values())

    def moved(self) -> tuple[int, int]:
        """Changes as long as anything is under way."""
        return self.delivered_bytes(), sum(track.last for track in self.posted.values())
