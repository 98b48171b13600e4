"""The record that reports are made of, from what came of a run and what was counted along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reports.record import (
    EvSpan,
    FabricRecord,
    FaultRecord,
    FlowRecord,
    LinkRecord,
    PausedPortRecord,
    PauseRecord,
    RunRecord,
    SeriesRecord,
    SuspicionRecord,
    TableRecord,
)
from reports.result import (
    CollectiveResult,
    EvTransition,
    FaultEffect,
    FlowResult,
    PauseTotals,
    RunResult,
)
from reports.suspects import suspicions
from topologies import scenario as model
from topologies.addressing import Path, path_of_ev
from topologies.fault_scope import path_of, paths_of, scope_of
from topologies.model import Fabric, Link

#: The state of an EV that is as it should be; `host.paths.EvState` has all of them
_GOOD: Final = "GOOD"


def make_record(
    scenario: model.Scenario,
    result: RunResult,
    links: Sequence[LinkRecord],
    series: SeriesRecord,
) -> RunRecord:
    """The record of a run. `series` has a value for each of `result.delivered_bytes`."""
    fabric = scenario.fabric
    return RunRecord(
        scenario=result.scenario,
        description=result.description,
        clock=result.clock,
        target=result.target,
        seed=result.seed,
        end_ns=result.now_ns,
        failures=list(result.failures),
        notes=list(result.notes),
        fabric=FabricRecord(
            name=fabric.name,
            planes=fabric.planes,
            t0_per_plane=fabric.t0_per_plane,
            t1_per_plane=fabric.t1_per_plane,
            hosts_per_t0=fabric.hosts_per_t0,
            base_rtt_ns=result.base_rtt_ns,
        ),
        links=list(links),
        flows=[*map(_flow, result.flows), *map(_collective, result.collectives)],
        faults=[
            _fault(fault, effect, fabric)
            for fault, effect in zip(scenario.faults, result.faults, strict=True)
        ],
        interval_ns=result.interval_ns,
        series=series,
        ev_spans=_spans(fabric, result.transitions),
        ev_changes=dict(result.transition_counts),
        ev_changes_omitted=sum(result.transition_counts.values()) - len(result.transitions),
        suspicions=[
            SuspicionRecord(each.at_ns, list(each.elements), each.paths_out)
            for each in suspicions(fabric, result)
        ],
        totals={
            "frames sent": result.sent,
            "frames received": result.received,
            "frames lost": sum(result.lost.values()),
            "trimmed": result.trimmed,
            "marked": result.marked,
            "retransmissions": result.total["retransmissions"],
            "timeouts": result.total["timeouts"],
        },
        pauses=None if result.pauses is None else _pauses(result.pauses),
        tables=[TableRecord(each.switch, each.before, each.after) for each in result.tables],
        cpu_s=dict(result.cpu_by_process),
    )


def link_record(link: Link, up_bytes: int, down_bytes: int) -> LinkRecord:
    """A link and what it carried, in whole frames: `up_bytes` from the end nearer the hosts."""
    return LinkRecord(
        name=link.name,
        plane=link.plane,
        tier=link.tier.value,
        lower=link.lower.node,
        upper=link.upper.node,
        rate_bps=link.rate_bps,
        up_bytes=up_bytes,
        down_bytes=down_bytes,
    )


def _pauses(totals: PauseTotals) -> PauseRecord:
    return PauseRecord(
        pauses=totals.pauses,
        frames_sent=totals.frames,
        frames_received=totals.frames_received,
        hosts_paused_ns=totals.hosts_paused_ns,
        switches_paused_ns=totals.switches_paused_ns,
        peak_buffer_bytes=totals.peak_buffer_bytes,
        ports=[PausedPortRecord(each.node, each.port, each.paused_ns) for each in totals.ports],
    )


def _state(done: bool, errors: dict[str, int] | dict[str, str]) -> str:
    return "failed" if errors else "done" if done else "unfinished"


def _flow(flow: FlowResult) -> FlowRecord:
    return FlowRecord(
        name=flow.name,
        kind="flow",
        hosts=[flow.source, flow.destination],
        state=_state(flow.done, flow.errors),
        start_ns=flow.start_ns,
        completion_ns=flow.completion_ns,
        size_bytes=flow.completed_bytes,
        rate_bps=flow.goodput_bps,
        packets=flow.packets,
        retransmissions=flow.retransmissions,
        timeouts=flow.timeouts,
        trims=flow.trims,
        ecn_marked=flow.ecn_marked,
        delivered_bytes=flow.delivered_samples,
    )


def _collective(each: CollectiveResult) -> FlowRecord:
    return FlowRecord(
        name=each.name,
        kind=each.collective,
        hosts=each.hosts,
        state=_state(each.done, each.failures),
        start_ns=each.start_ns,
        completion_ns=each.completion_ns,
        size_bytes=each.size_bytes,
        rate_bps=each.bus_bps,
        packets=each.packets,
        retransmissions=each.retransmissions,
        timeouts=each.timeouts,
        trims=each.trims,
        ecn_marked=each.ecn_marked,
        delivered_bytes=each.delivered_samples,
    )


def _fault(fault: model.Fault, effect: FaultEffect, fabric: Fabric) -> FaultRecord:
    scope = scope_of(fault, fabric)
    return FaultRecord(
        name=effect.name,
        kind=effect.kind,
        at_ns=effect.at_ns,
        end_ns=effect.end_ns,
        begun=effect.begun,
        links=sorted(scope.links),
        switches=sorted(scope.switches),
        paths=[_path_ref_text(path, fabric) for path in paths_of(fault)],
        lost=effect.lost,
        packets_sent=effect.packets_sent if effect.sent_known else None,
        evs_out=effect.evs_out,
        first_out_ns=effect.first_out_ns,
        last_out_ns=effect.last_out_ns,
        lowest_rate_bps=effect.lowest_rate_bps,
        full_rate_ns=effect.full_rate_ns,
        recovery_ns=effect.recovery_ns,
    )


def _path_ref_text(ref: model.PathRef, fabric: Fabric) -> str:
    return f"{ref.source} → {ref.destination}, {_path_text(path_of(fabric, ref))}"


def _path_text(path: Path) -> str:
    if path.uplink is None:
        return f"plane {path.plane}"
    return f"plane {path.plane} via {path.switches[1].name}"


def _ev_text(fabric: Fabric, each: EvTransition) -> str:
    try:
        path = path_of_ev(each.ev, fabric.host(each.host).id, fabric.host(each.peer).id)
    except ValueError:  # no EV of the plan, or a peer that nobody knew any more
        return f"EV {each.ev:#010x}"
    return _path_text(path)


def _spans(fabric: Fabric, transitions: Sequence[EvTransition]) -> list[EvSpan]:
    """Times that EVs were not GOOD, by when they began; `transitions` are in order."""
    spans: list[EvSpan] = []
    since: dict[tuple[str, int, int], EvTransition] = {}

    def close(begin: EvTransition, end_ns: int | None) -> None:
        spans.append(
            EvSpan(
                host=begin.host,
                peer=begin.peer,
                qp_num=begin.qp_num,
                ev=begin.ev,
                path=_ev_text(fabric, begin),
                state=begin.new,
                start_ns=begin.now_ns,
                end_ns=end_ns,
                cause=begin.cause,
            )
        )

    for each in transitions:
        key = each.host, each.qp_num, each.ev
        begin = since.pop(key, None)
        if begin is not None:
            close(begin, each.now_ns)
        if each.new != _GOOD:
            since[key] = each
    for begin in since.values():
        close(begin, None)
    return sorted(spans, key=lambda span: (span.start_ns, span.host, span.qp_num, span.ev))
