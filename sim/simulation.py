"""One run of one scenario: what is built, what happens, and what came of it."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from host.config import TIMEOUT_UNIT_NS
from host.endpoint_settings import SettingsError
from host.nic import QpEvEvent
from host.paths.base import EvEvent
from host.qp.stats import sums
from reports.progress import Progress, counted
from reports.rates import look_at_rates, traffic_changes_ns
from reports.result import CollectiveResult, EvTransition, FlowResult, RunResult, jain_index
from sim.capture import Capture
from sim.collective import RunningCollective
from sim.endpoints import ROCE, make_profiles, make_roce, nic_changes
from sim.fabric_meter import FabricMeter
from sim.faults import activate
from sim.host_node import HostNode
from sim.loop import EventLoop
from sim.measure import FaultWatch, RateMeter, Traffic
from sim.network import Network
from sim.routing import Routing
from sim.traffic import RunningFlow
from topologies.scenario import Scenario
from topologies.timing import base_rtt_ns, line_rate_bps, payload_share

#: Events between two looks at the progress
_EVENTS_PER_LOOK: Final = 20_000
#: A run without a duration ends when for so long nothing was delivered and nothing posted; all
#: retries of the longest usual timeouts take less
STUCK_NS: Final = 10 * 10**9
#: EV transitions that are kept one by one; all are counted
MAX_EV_TRANSITIONS: Final = 10_000


class Simulation:
    """A scenario, ready to run once.

    Args:
        scenario: what to run.
        pcap: a folder for captures of all ports, None: no captures.
        along_time: sample counters of the fabric too, as `sim.record` needs them.
        progress: is told how far it is, while it is made and while it runs.

    Raises SettingsError for endpoint settings that cannot be.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        pcap: Path | None = None,
        along_time: bool = False,
        progress: Progress | None = None,
    ) -> None:
        started = time.perf_counter()
        self.scenario = scenario
        self.loop = EventLoop()
        self.capture = None if pcap is None else Capture(pcap)
        self._progress = progress
        changes = nic_changes(scenario)
        self.network = Network(
            scenario.fabric,
            self.loop,
            seed=scenario.seed,
            profiles=make_profiles(scenario),
            roce=make_roce(scenario),
            nic_changes=changes,
            capture=self.capture,
            progress=progress,
        )
        if scenario.convergence_ns is not None:
            routing = Routing(self.network, scenario.convergence_ns)
            self.network.on_change.append(routing.changed)
        try:
            self.flows = [
                RunningFlow(flow, self.network, self.loop.at)
                for flow in counted(scenario.flows, "flows", len(scenario.flows), progress)
            ]
            self.collectives = [
                RunningCollective(item, self.network, self.loop) for item in scenario.collectives
            ]
        except ValueError as error:
            # Queue pairs that cannot be connected so, as with EVs that name no path of the fabric
            raise SettingsError(f"endpoint: {error}") from None
        self.traffic: list[Traffic] = [*self.flows, *self.collectives]
        for each in self.traffic:
            each.on_done = self._traffic_done
        self.meter = RateMeter(
            self.loop,
            self.traffic,
            scenario.interval_ns,
            FabricMeter(self.network) if along_time else None,
        )
        timeout_ns = TIMEOUT_UNIT_NS << changes["qp"].timeout
        self.watches = [
            FaultWatch(activate(fault, self.network), self.network, timeout_ns)
            for fault in scenario.faults
        ]
        for watch in self.watches:
            fault = watch.active.fault
            known = scenario.endpoint.frames_name_paths and watch.scope.is_a_place
            watch.effect.sent_known = known
            self.loop.at(fault.at_ns, _begin, watch)
            if fault.end_ns is not None:
                self.loop.at(fault.end_ns, _end, watch)
        self._left = len(self.traffic)
        self._done_ns: int | None = None
        self.transitions: list[EvTransition] = []
        self.transition_counts: Counter[str] = Counter()
        self.nic_events: Counter[str] = Counter()
        self.build_s = time.perf_counter() - started

    def _traffic_done(self, _: object) -> None:
        self._left -= 1
        if not self._left:
            self._done_ns = self.loop.now_ns
            if self.scenario.stop_with_traffic:
                self.loop.stop()

    def run(self) -> RunResult:
        """Run to the end. Raises StandstillError where time does not pass.

        Captures are whole, up to the same moment, however the run ends.
        """
        cpu = time.process_time()
        wall = time.perf_counter()
        try:
            self._run_to_end()
        except BaseException:
            if self.capture is not None:
                with suppress(OSError):
                    self.capture.close()
            raise
        self._collect_events()
        self.transitions.sort(key=lambda each: each.now_ns)
        for watch in self.watches:
            watch.finish(self.transitions)
        if self.capture is not None:
            self.capture.close()
        result = self._result(time.process_time() - cpu, time.perf_counter() - wall)
        rates = self.meter.rates_bps(self._done_ns is not None)
        changes_ns = traffic_changes_ns([*result.flows, *result.collectives])
        for effect in result.faults:
            look_at_rates(effect, rates, result.interval_ns, changes_ns)
        return result

    def _run_to_end(self) -> None:
        totals = [each.total_bytes() for each in self.traffic]
        total = sum(each for each in totals if each is not None) if None not in totals else None
        moved = (0, 0)
        moved_ns = self.loop.now_ns
        while not self._is_over():
            ended = self.loop.run(self.scenario.duration_ns, _EVENTS_PER_LOOK)
            self._collect_events()
            delivered = sum(each.delivered_bytes() for each in self.traffic)
            if self._progress is not None:
                self._progress.running(delivered, total, self.loop.now_ns)
            if ended:
                break
            now_moved = delivered, sum(each.posted_messages() for each in self.traffic)
            if now_moved != moved:
                moved, moved_ns = now_moved, self.loop.now_ns
            elif self._is_stuck(moved_ns):
                break

    def _is_over(self) -> bool:
        """All traffic is done, and no duration says to go on."""
        return self._done_ns is not None and self.scenario.stop_with_traffic

    def _is_stuck(self, moved_ns: int) -> bool:
        """No duration says when to end, and nothing moves any more."""
        if self.scenario.duration_ns is not None:
            return False
        if self.loop.now_ns - moved_ns > STUCK_NS:
            return True
        return all(self.meter.is_event(event[2]) for event in self.loop.heap)

    # --- events of NICs ---

    def _collect_events(self) -> None:
        for host in self.network.hosts.values():
            while (event := host.nic.next_event()) is not None:
                if isinstance(event, QpEvEvent):
                    self._keep_transition(host, event.qp_num, event.event)
                else:
                    self.nic_events[type(event).__name__] += 1

    def _keep_transition(self, host: HostNode, qp_num: int, event: EvEvent) -> None:
        change = f"{event.old} → {event.new}: {event.cause}"
        self.transition_counts[change] += 1
        if len(self.transitions) >= MAX_EV_TRANSITIONS:
            return
        peer_address = host.nic.qps[qp_num].attributes.peer_address
        assert peer_address is not None
        fabric = self.scenario.fabric
        peer = fabric.host_at(fabric.addresses.host_of_address(peer_address))
        self.transitions.append(
            EvTransition(
                now_ns=event.now_ns,
                host=host.name,
                peer=peer.name,
                qp_num=qp_num,
                ev=event.ev,
                old=event.old,
                new=event.new,
                cause=event.cause,
                replaced_by=event.replaced_by,
            )
        )

    # --- results ---

    def _result(self, cpu_s: float, wall_s: float) -> RunResult:
        scenario, network = self.scenario, self.network
        flows = [
            self._flow_result(flow, samples)
            for flow, samples in zip(self.flows, self.meter.samples, strict=False)
        ]
        of_collectives = self.meter.samples[len(flows) :]
        collectives = [
            _collective_result(each, samples)
            for each, samples in zip(self.collectives, of_collectives, strict=True)
        ]
        plane_bytes = [0] * scenario.fabric.planes
        drops: Counter[str] = Counter()
        for host in network.hosts.values():
            for plane, size in enumerate(host.plane_bytes):
                plane_bytes[plane] += size
            drops.update(host.nic.drops)
        account = network.account()
        fabric = scenario.fabric
        source, destination = _first_pair(scenario)
        return RunResult(
            scenario=scenario.name,
            description=scenario.description,
            seed=scenario.seed,
            now_ns=self.loop.now_ns,
            done_ns=self._done_ns,
            flows=flows,
            collectives=collectives,
            jain={
                group: jain_index([flow.goodput_bps for flow in flows if flow.group == group])
                for group in dict.fromkeys(flow.group for flow in flows)
            },
            plane_bytes=plane_bytes,
            sent=account.sent,
            duplicated=account.duplicated,
            received=account.received,
            in_flight=account.in_flight,
            lost=account.lost,
            unaccounted=account.unaccounted,
            trimmed=account.trimmed,
            marked=account.marked,
            corrupted=account.corrupted,
            nic_drops=dict(sorted(drops.items())),
            transitions=self.transitions,
            transition_counts=dict(sorted(self.transition_counts.items())),
            nic_events=dict(sorted(self.nic_events.items())),
            faults=[watch.effect for watch in self.watches],
            base_rtt_ns=base_rtt_ns(fabric, fabric.host(source), fabric.host(destination)),
            payload_share=payload_share(fabric, roce=scenario.endpoint.transport == ROCE),
            interval_ns=self.meter.interval_ns,
            delivered_bytes=self.meter.delivered(),
            events=self.loop.events,
            build_s=self.build_s,
            cpu_s=cpu_s,
            wall_s=wall_s,
            pauses=network.pauses(),
        )

    def _flow_result(self, running: RunningFlow, samples: array[int]) -> FlowResult:
        flow = running.flow
        requestors = [channel.qp.requestor for channel in running.channels]
        responders = [channel.peer_qp.responder for channel in running.channels]
        totals = sums(each for each in requestors if each is not None)
        receiving = sums(each for each in responders if each is not None)
        fabric = self.scenario.fabric
        end_ns = running.last_completion_ns
        return FlowResult(
            name=flow.name,
            group=flow.group,
            source=flow.source,
            destination=flow.destination,
            start_ns=flow.start_ns,
            total_bytes=flow.total_bytes,
            completed_bytes=running.completed_bytes,
            completed_messages=running.completed_messages,
            delivered_bytes=running.delivered_bytes(),
            done=running.is_done,
            completion_ns=None if end_ns is None else end_ns - flow.start_ns,
            wrong_bytes=running.wrong_bytes + running.outstanding_wrong_bytes(),
            message_ns=running.message_ns,
            errors=dict(running.errors),
            problems=dict(running.problems),
            line_rate_bps=line_rate_bps(fabric, fabric.host(flow.source)),
            packets=totals["packets"],
            retransmissions=totals["retransmissions"],
            timeouts=totals["timeouts"],
            trims=totals["trims"],
            refusals=totals["refusals"],
            probes=totals["probes"],
            ecn_marked=receiving["ecn_marked"],
            duplicates=receiving["duplicates"],
            sacks=receiving["sacks"],
            nacks=receiving["nacks"],
            delivered_samples=[0, *samples],
        )


def _first_pair(scenario: Scenario) -> tuple[str, str]:
    """Hosts of which the first writes to the second: those of the first flow, if there is one."""
    if scenario.flows:
        return scenario.flows[0].source, scenario.flows[0].destination
    hosts = scenario.collectives[0].hosts
    return hosts[0], hosts[1 % len(hosts)]


def _collective_result(running: RunningCollective, samples: array[int]) -> CollectiveResult:
    item = running.item
    fabric = running.network.fabric
    rates = [line_rate_bps(fabric, fabric.host(name)) for name in item.hosts]
    sending, receiving = running.totals()
    algorithm_bps, bus_bps = running.bandwidths_bps()
    rounds = running.round_ns
    return CollectiveResult(
        name=item.name,
        collective=item.collective,
        hosts=list(item.hosts),
        size_bytes=running.moved_bytes,
        data_type=item.data_type,
        reduce_op=item.reduce_op if running.spec.kind.reduces else None,
        start_ns=item.start_ns,
        done=running.is_done,
        completion_ns=sum(rounds) if running.is_done and rounds else None,
        round_ns=rounds,
        algorithm_bps=algorithm_bps,
        bus_bps=bus_bps,
        line_rate_bps=min((rate for rate in rates if rate is not None), default=None),
        wrong_elements=running.wrong_elements,
        failures=running.failures,
        delivered_bytes=running.delivered_bytes(),
        packets=sending["packets"],
        retransmissions=sending["retransmissions"],
        timeouts=sending["timeouts"],
        trims=sending["trims"],
        refusals=sending["refusals"],
        probes=sending["probes"],
        ecn_marked=receiving["ecn_marked"],
        duplicates=receiving["duplicates"],
        sacks=receiving["sacks"],
        nacks=receiving["nacks"],
        delivered_samples=[0, *samples],
    )


def _begin(now_ns: int, watch: FaultWatch, _b: Any) -> None:
    watch.begin(now_ns)


def _end(now_ns: int, watch: FaultWatch, _b: Any) -> None:
    watch.end(now_ns)
