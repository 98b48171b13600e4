"""The story of a run: bring the fabric up, check every path, burst, balance the books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from topologies.model import Fabric
from topologies.runner.check import counters
from topologies.runner.check.burst import Burst, burst_flows, bursts
from topologies.runner.check.counters import Cells, LinkLoss, SwitchBooks
from topologies.runner.check.exchange import Exchange, Flow
from topologies.runner.check.host_port import HostPort
from topologies.runner.check.paths import HostPath, path_flows, safe_window, stall_time_s
from topologies.runner.control_plane import ControlPlane
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError

#: A switch that does not answer has ended, or does so within this time, or has another reason
_DEATH_TIMEOUT_S: Final = 2.0


class Step(Protocol):
    """One step of a run as the user sees it."""

    def advance(self, count: int = 1) -> None:
        """So much more of the step's total is done."""

    def result(self, text: str) -> None:
        """What came of it, in a few words."""


class Narrator(Protocol):
    """Shows the steps of a run while they happen."""

    def step(self, title: str, total: int) -> AbstractContextManager[Step]:
        """A step that begins; the context ends it."""


@dataclass(slots=True)
class BurstResult:
    """A burst and what became of its packets."""

    burst: Burst
    flows: list[Flow]
    #: Counted by the switches meanwhile, by reason
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """Packets."""
        return sum(flow.sent for flow in self.flows)

    @property
    def whole(self) -> int:
        """Packets that arrived as they were sent."""
        return sum(flow.whole for flow in self.flows)

    @property
    def trimmed(self) -> int:
        """Packets that arrived as headers."""
        return sum(flow.trimmed for flow in self.flows)

    @property
    def marked_ce(self) -> int:
        """Packets that arrived with congestion experienced."""
        return sum(flow.marked_ce for flow in self.flows)

    @property
    def uncounted(self) -> int:
        """Neither arrived nor counted as dropped; 0 is right."""
        return self.sent - self.whole - self.trimmed - self.dropped.total()

    def problems(self) -> Iterator[str]:
        """What is not as it must be."""
        where = f"burst into {self.burst.switch.name} port {self.burst.port}"
        if any(flow.cut_off for flow in self.flows):
            yield f"{where}: broken off before all was sent"
        if self.uncounted:
            yield f"{where}: {self.uncounted} packets lost uncounted"
        if not self.whole:
            yield f"{where}: nothing came out whole"
        if not self.trimmed:
            yield f"{where}: nothing was trimmed"
        wrong = Counter[int]()
        for flow in self.flows:
            wrong.update(flow.trimmed_dscp)
        wrong.pop(self.burst.trimmed_dscp, None)
        if wrong:
            right = self.burst.trimmed_dscp
            yield f"{where}: trimmed packets have DSCP {sorted(wrong)} instead of {right}"


@dataclass(slots=True)
class CheckResult:
    """Everything that a check found."""

    paths: list[tuple[HostPath, Flow]] = field(default_factory=list)
    bursts: list[BurstResult] = field(default_factory=list)
    #: Why there was no burst
    no_burst: str | None = None
    books: dict[str, SwitchBooks] = field(default_factory=dict)
    link_losses: list[LinkLoss] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0
    dead_switches: list[str] = field(default_factory=list)
    #: What the check or a switch lost around the P4 program, in words
    lost_outside: list[str] = field(default_factory=list)

    @property
    def bad_paths(self) -> list[tuple[HostPath, Flow]]:
        """Paths on which not every packet arrived whole."""
        return [(path, flow) for path, flow in self.paths if flow.whole != flow.write.packets]

    def problems(self) -> list[str]:
        """Everything that makes the check fail, one line each; empty = it passed."""
        lines = [f"{name}: its process ended during the check" for name in self.dead_switches]
        if not self.paths:
            lines.append("there is nothing to send: the fabric has no two hosts")
        if self.bad_paths:
            missing = sum(flow.missing for _, flow in self.bad_paths)
            lines.append(
                f"{len(self.bad_paths)} of {len(self.paths)} paths did not deliver every packet "
                f"whole ({missing} missing)"
            )
        for burst in self.bursts:
            lines += burst.problems()
        for name, books in self.books.items():
            if books.uncounted:
                lines.append(
                    f"{name}: {books.uncounted} packets neither sent nor counted as dropped"
                )
        lines += [
            f"link {loss.sender} to {loss.receiver}: {loss.sent} sent, {loss.received} received"
            for loss in self.link_losses
        ]
        lines += self.lost_outside
        lines += self.faults
        if self.fault_count > len(self.faults):
            lines.append(f"and {self.fault_count - len(self.faults)} more like it")
        return lines


def bring_up(deployment: Deployment, narrator: Narrator) -> ControlPlane:
    """Network, switches, tables. Raises RunnerError with what went wrong and where."""
    fabric = deployment.fabric
    with narrator.step("network", 1) as step:
        deployment.build_network()
        boxes = f", {len(deployment.boxes)} of them impaired" if deployment.boxes else ""
        step.result(f"{len(deployment.namespaces)} namespaces, {fabric.link_count} links{boxes}")
    with narrator.step("switches", fabric.switch_count) as step:
        deployment.start_switches(lambda name: step.advance())
        step.result(f"{fabric.switch_count} {deployment.target.name} processes ready")
    with narrator.step("controller", fabric.switch_count) as step:
        control = ControlPlane(fabric, deployment.places.values())
        try:
            report = control.install(step.advance)
            control.verify()
        except RunnerError as error:
            deployment.wait_for_dead_switches(_DEATH_TIMEOUT_S)
            raise RunnerError("\n".join([str(error), *deployment.failures()])) from None
        step.result(
            f"{report.entries} table entries on {report.switches} switches written and verified"
        )
    return control


def start_agents(deployment: Deployment, narrator: Narrator, options: Sequence[str] = ()) -> None:
    """An agent on every host, with further options of `mrc-host run`.

    Raises RunnerError with what went wrong and where.
    """
    count = deployment.fabric.host_count
    with narrator.step("hosts", count) as step:
        deployment.start_agents(lambda name: step.advance(), options)
        step.result(f"{count} agents ready")


def check(
    deployment: Deployment, control: ControlPlane, narrator: Narrator, packets_per_path: int
) -> CheckResult:
    """Send over every path, burst, and balance the books.

    Whatever the fabric does is in the result; RunnerError is for a check that cannot be made.
    """
    return _Check(deployment, control, narrator).run(packets_per_path)


class _Check:
    def __init__(self, deployment: Deployment, control: ControlPlane, narrator: Narrator) -> None:
        self._deployment = deployment
        self._fabric: Fabric = deployment.fabric
        self._control = control
        self._narrator = narrator
        self._result = CheckResult()
        self._next_qp = 1
        #: The last reading of the switches' counters
        self._cells: dict[str, Cells] = {}
        self._ports: dict[tuple[str, int], HostPort] = {
            (host.name, plane): deployment.open_host_port(host, plane)
            for host in self._fabric.hosts()
            for plane in range(self._fabric.planes)
        }

    def run(self, packets_per_path: int) -> CheckResult:
        try:
            return self._run(packets_per_path)
        finally:
            # Whoever sends after the check must not be heard here
            for port in self._ports.values():
                port.close()

    def _run(self, packets_per_path: int) -> CheckResult:
        result = self._result
        before = self._cells = self._read()
        self._send_paths(packets_per_path)
        if not result.dead_switches:
            self._cells = self._read()
            self._send_bursts()
        with self._narrator.step("counters", 1) as step:
            self._balance(before)
            text = f"{len(result.books)} switches read over P4Runtime"
            if not result.dead_switches:
                self._control.verify()
                text += "; tables still as written"
            step.result(text)
        return result

    def _read(self) -> dict[str, Cells]:
        """Counters of every switch that lives."""
        while True:
            dead = self._result.dead_switches
            try:
                return self._control.read_counters(skip=dead)
            except RunnerError:
                now_dead = self._deployment.wait_for_dead_switches(_DEATH_TIMEOUT_S)
                if set(now_dead) <= set(dead):
                    raise
                self._result.dead_switches = now_dead

    def _take_qps(self, count: int) -> int:
        first = self._next_qp
        self._next_qp += count
        return first

    def _exchange(
        self,
        flows: Sequence[Flow],
        on_progress: Callable[[int], None],
        *,
        safe: int,
        window: int | None = None,
        slowed_bps: int | None = None,
    ) -> None:
        """Send flows with `window` packets in flight, else with the `safe` number."""
        deployment, result = self._deployment, self._result
        window = safe if window is None else window
        exchange = Exchange(
            list(self._ports.values()),
            deployment.watched(),
            deployment.dead_switches(),
            stall_time_s(self._fabric, window, slowed_bps),
        )
        exchange.run(flows, window, on_progress, back_to_back=safe)
        result.faults += exchange.faults
        result.fault_count += exchange.fault_count
        result.dead_switches = exchange.dead_switches

    def _send_paths(self, packets: int) -> None:
        result = self._result
        result.paths = path_flows(self._fabric, self._ports, self._next_qp, packets)
        self._take_qps(len(result.paths))
        flows = [flow for _, flow in result.paths]
        total = sum(flow.write.packets for flow in flows)
        with self._narrator.step("paths", total) as step:
            safe = safe_window(self._fabric, flows[0].write.frame_bytes) if flows else 1
            self._exchange(flows, step.advance, safe=safe)
            good = len(flows) - len(result.bad_paths)
            whole = sum(flow.whole for flow in flows)
            step.result(f"{good} of {len(flows)} paths, {whole} of {total} packets whole")

    def _send_bursts(self) -> None:
        if not self._deployment.target.can_set_rates():
            self._result.no_burst = "no burst was sent: this target's port rates cannot be set"
            return
        if not self._fabric.trim.enabled:
            self._result.no_burst = "no burst was sent: trimming is off in this topology"
            return
        for burst in bursts(self._fabric):
            with self._slowed(burst):
                self._send_burst(burst)
            if self._result.dead_switches:
                return

    @contextmanager
    def _slowed(self, burst: Burst) -> Iterator[None]:
        target, place = self._deployment.target, self._deployment.places[burst.switch.name]
        target.set_rate(place, burst.port, burst.rate_bps)
        try:
            yield
        finally:
            if burst.switch.name not in self._result.dead_switches:
                target.set_rate(place, burst.port, place.limits[burst.port].rate_bps)

    def _send_burst(self, burst: Burst) -> None:
        frame_bytes = self._deployment.places[burst.switch.name].frame_bytes
        safe = safe_window(self._fabric, frame_bytes)
        window, packets = burst.sizes(frame_bytes, safe)
        flows = burst_flows(self._fabric, burst, self._ports, self._next_qp, packets)
        self._take_qps(len(flows))
        title = f"burst into {burst.switch.name} towards {burst.towards}"
        with self._narrator.step(title, packets) as step:
            before = counters.total_dropped(self._books(self._cells).values())
            self._exchange(flows, step.advance, safe=safe, window=window, slowed_bps=burst.rate_bps)
            result = BurstResult(burst, flows)
            self._result.bursts.append(result)
            self._cells = self._read()
            after = counters.total_dropped(self._books(self._cells).values())
            result.dropped = after - before
            step.result(
                f"{result.sent} sent = {result.whole} whole + {result.trimmed} trimmed "
                f"+ {result.dropped.total()} dropped and counted"
            )

    @staticmethod
    def _books(cells: dict[str, Cells]) -> dict[str, SwitchBooks]:
        return {name: counters.switch_books(of_switch) for name, of_switch in cells.items()}

    def _balance(self, before: dict[str, Cells]) -> None:
        """Hold what each switch counted against itself and its neighbours."""
        result = self._result
        self._exchange([], lambda packets: None, safe=1)  # strays that have come since
        cells: dict[str, Cells] = {
            name: counters.difference(after, before.get(name, {}))
            for name, after in self._read().items()
        }
        result.books = self._books(cells)
        result.link_losses = counters.link_losses(
            self._fabric,
            cells,
            {key: port.sent for key, port in self._ports.items()},
            {key: port.received for key, port in self._ports.items()},
        )
        result.lost_outside = [
            f"{host}, plane {plane}: the check itself missed {port.overflowed()} packets "
            "(socket buffer full)"
            for (host, plane), port in self._ports.items()
            if port.overflowed()
        ]
        for name in result.books:
            place = self._deployment.places[name]
            for reason, packets in (self._deployment.target.own_losses(place) or {}).items():
                if packets:
                    result.lost_outside.append(f"{name} lost {packets} packets itself: {reason}")
