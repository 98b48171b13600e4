"""One run of a scenario on a fabric that is up, from its first connection to its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from reports.result import TableDigest
from topologies.runner import agents
from topologies.runner.control_plane import ControlPlane
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError
from topologies.runner.live import LiveFabric
from topologies.runner.priority import before_others
from topologies.runner.scenario.books import balance
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.connection import Connection
from topologies.runner.scenario.ev_watch import EvWatch
from topologies.runner.scenario.fault_driver import FaultDriver, Hands
from topologies.runner.scenario.fault_watch import FaultWatch, Tallies
from topologies.runner.scenario.interfaces import Interfaces, read_interfaces, since
from topologies.runner.scenario.live_view import LiveView, Status
from topologies.runner.scenario.outcome import Facts, Outcome, make_outcome
from topologies.runner.scenario.plan import Impair, RunPlan, Swallow
from topologies.runner.scenario.sampling import Sampler
from topologies.runner.scenario.signals import run_interruptibly
from topologies.runner.scenario.traffic import Agents, RunningCollective, RunningFlow, Traffic
from topologies.runner.session import Narrator
from topologies.scenario import Impairment, Scenario

#: Nobody samples more finely than this in real time: it would cost more than what is measured
MIN_INTERVAL_NS: Final = 100_000_000
#: From when everything is connected until time 0
_LEAD_NS: Final = 300_000_000
#: A run without a duration ends when for so long nothing was delivered and nothing posted: queue
#: pairs give up after some 5 s by themselves
STUCK_NS: Final = 20 * 10**9
#: What is read so long before a fault
_LOOKS: Final = ((300_000_000, FaultWatch.read_losses), (30_000_000, FaultWatch.read_sent))
#: What was sent into a fault is read so long before its repair
_LOOK_BEFORE_REPAIR_NS: Final = 30_000_000
#: So long after the end of a run its agents may take to say what they did
_LATE_NS: Final = 10 * 10**9
#: So long a run waits at its end until nothing moves any more
_QUIET_TIMEOUT_S: Final = 5.0
_QUIET_INTERVAL_S: Final = 0.2
_LOOK_INTERVAL_S: Final = 0.2
_RATE_WINDOW_NS: Final = 500_000_000
#: Of P4Runtime counters, of requests from outside, and one more
_OTHER_THREADS: Final = 3


def execute(
    deployment: Deployment,
    live: LiveFabric,
    control: ControlPlane,
    scenario: Scenario,
    plan: RunPlan,
    view: LiveView,
    narrator: Narrator,
) -> Outcome:
    """Run a scenario; the agents are there, and nothing has been sent since `control` last read.

    What fails while it runs is in the result. Raises RunnerError where it cannot begin, and
    Interrupted when a signal ends it.
    """
    run = _Run(deployment, live, control, scenario, plan, view, narrator)
    with before_others():
        return run_interruptibly(run.work())


class _Run:
    def __init__(
        self,
        deployment: Deployment,
        live: LiveFabric,
        control: ControlPlane,
        scenario: Scenario,
        plan: RunPlan,
        view: LiveView,
        narrator: Narrator,
    ) -> None:
        self._deployment = deployment
        self._live = live
        self._control = control
        self._scenario = scenario
        self._plan = plan
        self._view = view
        self._narrator = narrator
        self._agents = Agents(agents.directory(deployment.folder))
        self._failures: list[str] = []
        self._notes = list(plan.notes)
        self._pids = {name: each.pid for name, each in deployment.processes.items()}
        self._clock = RunClock()
        self._sampler = Sampler(deployment, control, self._clock)
        self._ev_watch = EvWatch(self._clock)
        self._tallies = Tallies(deployment.fabric)
        flows = [RunningFlow(flow, self._agents, scenario.seed) for flow in scenario.flows]
        collectives = [
            RunningCollective(item, self._agents, scenario.seed) for item in scenario.collectives
        ]
        self._traffic: list[Traffic] = [*flows, *collectives]
        hands = Hands(live, self._agents)
        lock = asyncio.Lock()
        self._watches = [
            FaultWatch(FaultDriver(each, hands), deployment, self._sampler, self._tallies, lock)
            for each in plan.faults
        ]
        for watch in self._watches:
            known = scenario.endpoint.frames_name_paths and watch.scope.is_a_place
            watch.effect.sent_known = known
        self._interval_ns = max(scenario.interval_ns, MIN_INTERVAL_NS)
        self._acts: list[asyncio.Task[None]] = []
        self._background: list[asyncio.Task[None]] = []
        #: Requests from outside, once there is something to act on
        self._serving: list[asyncio.Task[None]] = []
        self._watching: list[Connection] = []
        self._done_ns: int | None = None

    async def work(self) -> Outcome:
        """The whole run."""
        started = time.monotonic()
        # No fault waits for a thread that starts a switch, which takes seconds
        acts = sum(len(each.acts) for each in self._plan.faults)
        executor = ThreadPoolExecutor(acts + _OTHER_THREADS)
        asyncio.get_running_loop().set_default_executor(executor)
        try:
            digests = await asyncio.to_thread(self._control.digests)
            interfaces = read_interfaces(self._deployment.namespaces)
            await self._sampler.open(self._agents)
            await self._open()
            build_s = time.monotonic() - started
            with self._view.shown():
                now_ns = await self._run()
            with self._narrator.step("books", 1) as step:
                counters, quiet = await self._end(interfaces)
                tables = await self._tables(digests)
                step.result(_tables_text(tables))
        finally:
            await self._close()
        if not quiet:
            self._notes.append("frames still moved at the end; those are counted as on the way")
        for watch in self._watches:
            watch.finish_evs(self._ev_watch.in_order())
            if watch.driver.problem is not None:
                self._failures.append(watch.driver.problem)
        killed, swallowing = self._disturbed()
        books = balance(
            self._deployment,
            self._sampler,
            counters,
            killed=killed,
            swallowing=swallowing,
            cut_by_boxes=self._cut_by_boxes(),
            quiet=quiet,
        )
        self._notes += books.notes
        facts = Facts(
            now_ns=now_ns,
            done_ns=self._done_ns,
            interval_ns=self._interval_ns,
            transitions=self._ev_watch.in_order(),
            transition_counts=self._ev_watch.counts,
            nic_events=self._ev_watch.events,
            tables=tables,
            notes=self._notes,
            build_s=build_s,
            wall_s=now_ns / 1e9,
            target=self._deployment.target.name,
            failures=self._failures,
        )
        return make_outcome(
            self._scenario,
            self._clock,
            self._traffic,
            self._watches,
            self._sampler,
            counters,
            books,
            facts,
        )

    # --- before time 0 ---

    async def _open(self) -> None:
        """Queue pairs of all traffic; whoever watches."""
        with self._narrator.step("queue pairs", len(self._traffic)) as step:
            for each in self._traffic:
                await each.open()
                step.advance()
            flows, collectives = len(self._scenario.flows), len(self._scenario.collectives)
            step.result(f"{flows} flows and {collectives} collectives connected")
        await self._tallies.open(self._agents)
        for host in self._deployment.fabric.hosts():
            connection = await self._agents.connect(host.name)
            self._watching.append(connection)
            self._start(connection.watch(partial(self._ev_watch.take, host.name)))
        self._serving.append(asyncio.create_task(self._serve_requests()))

    async def _serve_requests(self) -> None:
        """`mrc-topology link` and `switch` work on a run as on any fabric that is up."""
        loop, live, wanted = asyncio.get_running_loop(), self._live, asyncio.Event()
        while True:
            wanted.clear()
            loop.add_reader(live.fileno(), wanted.set)
            try:
                await wanted.wait()
            finally:
                loop.remove_reader(live.fileno())
            await self._see_through(asyncio.to_thread(live.serve_one))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(asyncio.create_task(work))

    # --- from time 0 on ---

    async def _run(self) -> int:
        """All traffic and all faults; returns when it was over."""
        # Counters of what was opened last are known before anything moves, however long it takes
        await self._sampler.read_fast()
        self._clock.start_in(_LEAD_NS)
        self._start(self._sampler.run(self._interval_ns))
        faults = [asyncio.create_task(self._fault(watch)) for watch in self._watches]
        # With a duration every flow ends by it, and says what it has done by then
        deadline_ns = self._scenario.duration_ns
        traffic = [
            asyncio.create_task(each.run(self._clock, deadline_ns)) for each in self._traffic
        ]
        try:
            await self._until_over(traffic, faults)
            now_ns = self._clock.now_ns()
        finally:
            # Whoever asks for something now is too late: switches are about to be looked at, and
            # none may be in the middle of a restart
            tasks = [*faults, *traffic, *self._serving]
            for task in tasks:
                task.cancel()
            await _ended([*tasks, *self._acts])
        self._failures += [
            f"{each.name}: its agents did not say what became of it, nor compare its memory"
            for each in self._traffic
            if not each.is_told
        ]
        await self._sampler.read_fast()
        self._show()
        return now_ns

    async def _until_over(
        self, traffic: list[asyncio.Task[None]], faults: list[asyncio.Task[None]]
    ) -> None:
        scenario = self._scenario
        moved, moved_ns = (0, 0), 0
        waiting: set[asyncio.Task[None]] = set(traffic)
        while True:
            if waiting:
                done, waiting = await asyncio.wait(waiting, timeout=_LOOK_INTERVAL_S)
                for task in done:
                    task.result()
                if not waiting and all(each.is_done for each in self._traffic):
                    self._done_ns = self._clock.now_ns()
            else:
                await asyncio.sleep(_LOOK_INTERVAL_S)
            self._look_at_processes()
            for task in (*faults, *self._background, *self._serving):
                if task.done() and not task.cancelled():
                    task.result()  # what went wrong in it is not found out at the end only
            self._show()
            now_ns = self._clock.now_ns()
            duration_ns = scenario.duration_ns
            if duration_ns is not None and now_ns >= duration_ns + _LATE_NS:
                self._notes.append("an agent did not say in time what became of its traffic")
                return
            if duration_ns is not None and now_ns >= duration_ns and not waiting:
                return
            if not waiting and (scenario.stop_with_traffic or duration_ns is None):
                return
            if self._sampler.moved() != moved:
                moved, moved_ns = self._sampler.moved(), now_ns
            elif duration_ns is None and now_ns - max(moved_ns, self._last_start_ns()) > STUCK_NS:
                self._notes.append(f"ended after {STUCK_NS // 10**9} s in which nothing moved")
                return

    def _last_start_ns(self) -> int:
        starts = [flow.start_ns for flow in self._scenario.flows]
        return max(starts + [item.start_ns for item in self._scenario.collectives])

    def _show(self) -> None:
        fresh, self._ev_watch.fresh = self._ev_watch.fresh, []
        self._view.transitions(fresh)
        sampler = self._sampler
        totals = [each.total_bytes for each in self._traffic]
        known = [each for each in totals if each is not None]
        self._view.status(
            Status(
                now_ns=self._clock.now_ns(),
                delivered_bytes=sampler.delivered_bytes(),
                total_bytes=sum(known) if len(known) == len(totals) else None,
                duration_ns=self._planned_end_ns(),
                plane_bps=[
                    8
                    * sum(
                        track.rate(_RATE_WINDOW_NS)
                        for (number, _), track in sampler.plane_bytes.items()
                        if number == plane
                    )
                    for plane in range(self._deployment.fabric.planes)
                ],
                retransmitted=sum(track.last for track in sampler.retransmitted.values()),
            )
        )

    def _planned_end_ns(self) -> int | None:
        """When it will be over, where time ends it."""
        untils = [flow.until_ns for flow in self._scenario.flows if flow.until_ns is not None]
        return self._scenario.duration_ns or max(untils, default=None)

    def _look_at_processes(self) -> None:
        """A switch or agent that ended without a fault's doing fails the run, which goes on."""
        for failure in self._deployment.new_failures():
            self._view.event(self._clock.now_ns(), "problem", failure)
            self._failures.append(failure.partition("; the end of")[0])

    # --- faults ---

    async def _fault(self, watch: FaultWatch) -> None:
        fault = watch.driver.plan.fault
        for early_ns, look in _LOOKS:
            await self._clock.sleep_until(fault.at_ns - early_ns)
            await look(watch)
        await self._clock.sleep_until(fault.at_ns)
        watch.mark_begin()
        where = sorted(watch.scope.switches) or sorted(watch.scope.links)
        place = ", ".join(where[:4]) + (f" and {len(where) - 4} more" if len(where) > 4 else "")
        self._view.event(
            watch.effect.at_ns, "fault", f"{fault.name}: {watch.effect.kind} {place}".rstrip()
        )
        await self._see_through(watch.begin())
        if watch.driver.problem is not None:
            self._view.event(self._clock.now_ns(), "problem", watch.driver.problem)
            return
        if fault.for_ns is None:
            return
        end_ns = watch.effect.at_ns + fault.for_ns
        await self._clock.sleep_until(end_ns - _LOOK_BEFORE_REPAIR_NS)
        await watch.read_sent_into_it()
        await self._clock.sleep_until(end_ns)
        await self._see_through(self._repair(watch))

    async def _repair(self, watch: FaultWatch) -> None:
        await watch.end()
        if watch.driver.problem is None:
            assert watch.effect.end_ns is not None
            self._view.event(watch.effect.end_ns, "repair", f"{watch.effect.name} is over")
        else:
            self._view.event(self._clock.now_ns(), "problem", watch.driver.problem)

    async def _see_through(self, act: Coroutine[Any, Any, None]) -> None:
        """What has begun goes on when the fault's task is cancelled: threads cannot be stopped."""
        task = asyncio.create_task(act)
        self._acts.append(task)
        await asyncio.shield(task)

    def _disturbed(self) -> tuple[set[str], set[str]]:
        """Switches that lost their process, and those that swallowed everything for a time."""
        swallowing = {
            act.switch
            for watch in self._watches
            for act in watch.driver.plan.acts
            if isinstance(act, Swallow)
        }
        killed = set(self._deployment.dead_switches())
        killed |= {
            name
            for name, process in self._deployment.processes.items()
            if process.pid != self._pids[name]
        }
        return killed, swallowing

    def _cut_by_boxes(self) -> set[str]:
        return {
            act.link
            for each in self._plan.faults
            if not isinstance(each.fault, Impairment)
            for act in each.acts
            if isinstance(act, Impair)
        }

    # --- the end ---

    async def _end(self, before: Interfaces) -> tuple[Interfaces, bool]:
        """Last looks while queue pairs are there; then wait until nothing moves."""
        for watch in self._watches:
            await watch.finish()
        await self._sampler.read_fast()
        for each in self._traffic:
            await each.close()
        last = read_interfaces(self._deployment.namespaces)
        deadline = time.monotonic() + _QUIET_TIMEOUT_S
        quiet = False
        while not quiet and time.monotonic() < deadline:
            await asyncio.sleep(_QUIET_INTERVAL_S)
            now = read_interfaces(self._deployment.namespaces)
            quiet, last = now == last, now
        await self._sampler.read_slow()
        return since(last, before), quiet

    async def _tables(self, before: dict[str, str]) -> list[TableDigest]:
        dead = self._deployment.dead_switches()
        for name in dead:
            self._notes.append(f"{name} was not running at the end: its tables were not read again")
        try:
            after = await asyncio.to_thread(lambda: self._control.digests(skip=dead))
        except RunnerError as error:
            self._failures.append(f"tables could not be read at the end: {error}")
            return []
        return [TableDigest(name, before[name], digest) for name, digest in after.items()]

    async def _close(self) -> None:
        background = [*self._background, *self._serving]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        for each in self._traffic:
            await each.close()
        for connection in self._watching:
            await connection.close()
        await self._tallies.close()
        await self._sampler.close()


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for tasks, some of them cancelled; raises what went wrong in one."""
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


def _tables_text(tables: list[TableDigest]) -> str:
    same = sum(each.before == each.after for each in tables)
    return f"{len(tables)} switches read over P4Runtime; tables of {same} as before the traffic"
