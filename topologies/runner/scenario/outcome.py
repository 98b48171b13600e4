"""The result of a run in real time: the same that virtual time has, with what only it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reports.from_result import link_record
from reports.rates import look_at_rates, rates_bps, traffic_changes_ns, whole_intervals
from reports.record import LinkRecord, SeriesRecord
from reports.result import EvTransition, RunResult, TableDigest, jain_index
from topologies.model import Fabric
from topologies.runner.deployment import interface_of
from topologies.runner.scenario.books import Books
from topologies.runner.scenario.clock import RunClock
from topologies.runner.scenario.fault_watch import FaultWatch
from topologies.runner.scenario.interfaces import InterfaceCounters, Interfaces
from topologies.runner.scenario.sampling import Sampler
from topologies.runner.scenario.tracks import MAX_SAMPLES, total
from topologies.runner.scenario.traffic import RunningCollective, RunningFlow, Traffic
from topologies.scenario import Scenario
from topologies.timing import base_rtt_ns, payload_share


@dataclass(slots=True)
class Facts:
    """What is known when a run is over, apart from what its parts know themselves."""

    now_ns: int
    done_ns: int | None
    interval_ns: int
    transitions: list[EvTransition]
    transition_counts: Counter[str]
    nic_events: Counter[str]
    tables: list[TableDigest]
    notes: list[str]
    build_s: float
    wall_s: float
    target: str
    #: What went wrong that no expectation speaks of
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, and what reports are made of besides."""

    result: RunResult
    links: list[LinkRecord]
    series: SeriesRecord


def make_outcome(
    scenario: Scenario,
    clock: RunClock,
    traffic: Sequence[Traffic],
    watches: Sequence[FaultWatch],
    sampler: Sampler,
    counters: Interfaces,
    books: Books,
    facts: Facts,
) -> Outcome:
    """Everything put together. `counters` are those of interfaces over the whole run."""
    fabric = scenario.fabric
    interval_ns = facts.interval_ns
    while facts.now_ns // interval_ns >= MAX_SAMPLES:
        interval_ns *= 2
    times = [clock.monotonic_ns(each) for each in range(0, facts.now_ns + 1, interval_ns)]
    samples = {
        each.name: total(
            [track for (name, _), track in sampler.delivered.items() if name == each.name], times
        )
        for each in traffic
    }
    delivered = [sum(values) for values in zip(*samples.values(), strict=True)] or [0]
    flows = [
        each.result(fabric, clock, samples[each.name])
        for each in traffic
        if isinstance(each, RunningFlow)
    ]
    collectives = [
        each.result(fabric, clock, samples[each.name])
        for each in traffic
        if isinstance(each, RunningCollective)
    ]
    rates = rates_bps(delivered, interval_ns)
    if facts.done_ns is not None:
        # The interval in which the last bytes landed was full in part only
        rates = rates[: whole_intervals(delivered, sampler.delivered_bytes())]
    changes_ns = traffic_changes_ns([*flows, *collectives])
    for watch in watches:
        look_at_rates(watch.effect, rates, interval_ns, changes_ns)
    planes = range(fabric.planes)
    of_plane = {
        plane: [track for (number, _), track in sampler.plane_bytes.items() if number == plane]
        for plane in planes
    }
    drops: Counter[str] = Counter()
    for sample in sampler.agents_now.values():
        drops.update(sample["nic_drops"])
        drops.update(sample["port_losses"])
    cpu = sampler.cpu.by_process()
    result = RunResult(
        scenario=scenario.name,
        description=scenario.description,
        seed=scenario.seed,
        now_ns=facts.now_ns,
        done_ns=facts.done_ns,
        flows=flows,
        collectives=collectives,
        jain={
            group: jain_index([flow.goodput_bps for flow in flows if flow.group == group])
            for group in dict.fromkeys(flow.group for flow in flows)
        },
        plane_bytes=[sum(track.last for track in of_plane[plane]) for plane in planes],
        sent=books.sent,
        duplicated=0,
        received=books.received,
        in_flight=books.in_flight,
        lost=dict(sorted(books.lost.items())),
        unaccounted=books.unaccounted,
        trimmed=sum(track.last for track in sampler.trimmed.values()),
        marked=sum(track.last for track in sampler.marked.values()),
        corrupted=books.corrupted,
        nic_drops=dict(sorted((+drops).items())),
        transitions=facts.transitions,
        transition_counts=dict(sorted(facts.transition_counts.items())),
        nic_events=dict(sorted(facts.nic_events.items())),
        faults=[watch.effect for watch in watches],
        base_rtt_ns=_base_rtt_ns(scenario, traffic),
        payload_share=payload_share(fabric),
        interval_ns=interval_ns,
        delivered_bytes=delivered,
        events=0,
        build_s=facts.build_s,
        cpu_s=sum(cpu.values()),
        wall_s=facts.wall_s,
        clock="real",
        failures=list(facts.failures),
        target=facts.target,
        notes=facts.notes,
        tables=facts.tables,
        cpu_by_process=cpu,
    )
    series = SeriesRecord(
        delivered_bytes=delivered,
        plane_bytes=[total(of_plane[plane], times) for plane in planes],
        trimmed=total([*sampler.trimmed.values()], times),
        marked=total([*sampler.marked.values()], times),
        lost=total([*sampler.lost.values()], times),
        retransmitted=total([*sampler.retransmitted.values()], times),
        queued=total([*sampler.queued.values()], times),
    )
    return Outcome(result, list(_links(fabric, counters)), series)


def _base_rtt_ns(scenario: Scenario, traffic: Sequence[Traffic]) -> int:
    """As the agents measured it; where there are only collectives, from the links alone."""
    measured = [each.base_rtt_ns for each in traffic if each.base_rtt_ns is not None]
    if measured:
        return measured[0]
    fabric = scenario.fabric
    hosts = scenario.collectives[0].hosts
    return base_rtt_ns(fabric, fabric.host(hosts[0]), fabric.host(hosts[1 % len(hosts)]))


def _links(fabric: Fabric, counters: Interfaces) -> Iterator[LinkRecord]:
    nothing = InterfaceCounters()
    for link in fabric.links():
        lower = counters.get((link.lower.node, interface_of(link.lower)), nothing)
        yield link_record(link, lower.tx_bytes, lower.rx_bytes)
