"""Expectations of a scenario against what came of it: one line for each that is not met."""

from __future__ import annotations

from collections.abc import Iterator

from reports.result import FlowResult, RunResult, jain_index
from topologies.model import Fabric
from topologies.scenario import (
    CollectiveExpectation,
    Deny,
    Expectations,
    FaultExpectation,
    FlowExpectation,
    Scenario,
)
from topologies.units import delay_text


def failures(scenario: Scenario, result: RunResult) -> list[str]:
    """What does not hold; memory and the books of frames are always looked at."""
    return [
        *_always(result),
        *_complete(scenario.expect, result),
        *_begun(scenario.expect, result),
        *(line for each in scenario.expect.flows for line in _flows(each, scenario.fabric, result)),
        *(line for each in scenario.expect.collectives for line in _collectives(each, result)),
        *(line for each in scenario.expect.faults for line in _faults(each, result)),
        *_numbers(scenario.expect, result),
    ]


def _always(result: RunResult) -> Iterator[str]:
    for flow in result.flows:
        if flow.wrong_bytes:
            yield f"{flow.name}: {flow.wrong_bytes} bytes of memory are wrong"
        for problem, count in flow.problems.items():
            yield f"{flow.name}: {problem}: {count}"
    for collective in result.collectives:
        if collective.wrong_elements:
            yield f"{collective.name}: {collective.wrong_elements} elements are wrong"
    for table in result.tables:
        if table.before != table.after:
            yield f"{table.switch}: its tables are not what they were before the traffic"
    if result.unaccounted:
        yield f"{result.unaccounted} frames are unaccounted for"


def _complete(expect: Expectations, result: RunResult) -> Iterator[str]:
    errors_wanted = {name for each in expect.flows if each.status == "error" for name in each.flows}
    for flow in result.flows:
        if flow.name in errors_wanted:
            if not flow.errors:
                yield f"{flow.name}: no work request failed, expected one to"
        elif flow.errors:
            what = ", ".join(f"{status}: {count}" for status, count in flow.errors.items())
            yield f"{flow.name}: work requests failed: {what}"
        elif expect.complete and not flow.done:
            total = "" if flow.total_bytes is None else f" of {flow.total_bytes}"
            yield f"{flow.name}: not complete at the end: {flow.completed_bytes}{total} bytes"

    failing = {
        name for each in expect.collectives if each.status == "error" for name in each.collectives
    }
    for collective in result.collectives:
        if collective.name in failing:
            succeeded = [host for host in collective.hosts if host not in collective.failures]
            if succeeded:
                yield f"{collective.name}: no error on {', '.join(succeeded)}, expected one"
        elif collective.failures:
            host, why = next(iter(collective.failures.items()))
            ranks = len(collective.failures)
            yield f"{collective.name}: failed on {ranks} ranks, on {host} because of {why}"
        elif expect.complete and not collective.done:
            yield f"{collective.name}: not complete at the end: {len(collective.round_ns)} rounds"


def _begun(expect: Expectations, result: RunResult) -> Iterator[str]:
    named = {name for each in expect.faults for name in each.faults}
    for fault in result.faults:
        if not fault.begun and (expect.faults_begin or fault.name in named):
            yield f"{fault.name}: never began, the run was over at {delay_text(result.now_ns)}"


def _collectives(expect: CollectiveExpectation, result: RunResult) -> Iterator[str]:
    for each in result.collectives:
        if each.name not in expect.collectives:
            continue
        most_ns = expect.completion_max_ns
        if most_ns is not None and (each.completion_ns is None or each.completion_ns > most_ns):
            took = "never" if each.completion_ns is None else f"in {delay_text(each.completion_ns)}"
            yield f"{each.name}: complete {took}, expected {delay_text(most_ns)}"
        low = expect.bus_bandwidth_min_bps
        if low is not None and each.bus_bps < low:
            yield (
                f"{each.name}: bus bandwidth {each.bus_bps / 1e9:.2f} Gb/s, "
                f"expected {low / 1e9:.2f}"
            )
        if expect.bus_share_min is not None:
            share = each.bus_share(result.payload_share)
            if share is None or share < expect.bus_share_min:
                yield (
                    f"{each.name}: bus bandwidth is {_percent(share)} of the line rate for "
                    f"payload, expected {_percent(expect.bus_share_min)}"
                )


def _flows(expect: FlowExpectation, fabric: Fabric, result: RunResult) -> Iterator[str]:
    flows = [flow for flow in result.flows if flow.name in expect.flows]
    for flow in flows:
        goodput = flow.goodput_bps
        low = expect.goodput_min_bps
        if low is not None and goodput < low:
            yield f"{flow.name}: goodput {goodput / 1e9:.2f} Gb/s, expected {low / 1e9:.2f}"
        share = goodput_share(flow, result.payload_share)
        least, most = expect.goodput_share_min, expect.goodput_share_max
        if least is not None and (share is None or share < least):
            yield (
                f"{flow.name}: goodput is {_percent(share)} of the line rate for payload, "
                f"expected {_percent(least)}"
            )
        if most is not None and (share is None or share > most):
            yield (
                f"{flow.name}: goodput is {_percent(share)} of the line rate for payload, "
                f"expected at most {_percent(most)}"
            )
        most_ns = expect.completion_max_ns
        if most_ns is not None and (flow.completion_ns is None or flow.completion_ns > most_ns):
            took = "never" if flow.completion_ns is None else f"in {delay_text(flow.completion_ns)}"
            yield f"{flow.name}: complete {took}, expected {delay_text(most_ns)}"
    if expect.jain_min is not None:
        jain = jain_index([flow.goodput_bps for flow in flows])
        if jain < expect.jain_min:
            yield f"{expect.pattern}: Jain's index {jain:.4f}, expected {expect.jain_min}"
    if expect.total_share_min is not None:
        share = total_share(flows, result.payload_share)
        if share is None or share < expect.total_share_min:
            yield (
                f"{expect.pattern}: together {_percent(share)} of the line rate for payload, "
                f"expected {_percent(expect.total_share_min)}"
            )


def goodput_share(flow: FlowResult, payload_share: float) -> float | None:
    """Goodput over what payload can have of the sender's line rate; None without a rate."""
    if flow.line_rate_bps is None:
        return None
    return flow.goodput_bps / (flow.line_rate_bps * payload_share)


def total_share(flows: list[FlowResult], payload_share: float) -> float | None:
    """All payload, from the first start to the last completion, over one line rate for payload."""
    if not flows or any(flow.line_rate_bps is None for flow in flows):
        return None
    ends = [flow.start_ns + (flow.completion_ns or 0) for flow in flows]
    span_ns = max(ends) - min(flow.start_ns for flow in flows)
    if not span_ns:
        return 0.0
    rate_bps = sum(flow.completed_bytes for flow in flows) * 8e9 / span_ns
    rates = [flow.line_rate_bps for flow in flows if flow.line_rate_bps is not None]
    return rate_bps / (max(rates) * payload_share)


def _faults(expect: FaultExpectation, result: RunResult) -> Iterator[str]:
    for fault in result.faults:
        if fault.name not in expect.faults:
            continue
        if not fault.begun:
            continue
        if expect.lost_max is not None and fault.lost > expect.lost_max:
            yield f"{fault.name}: cost {fault.lost} frames, expected at most {expect.lost_max}"
        if expect.evs_out_min is not None and fault.evs_out < expect.evs_out_min:
            yield (
                f"{fault.name}: {fault.evs_out} EVs went out of use, "
                f"expected at least {expect.evs_out_min}"
            )
        limits = expect.last_packet_max_ns, expect.last_packet_max_rtts
        if not fault.sent_known and limits != (None, None):
            why = "frames name their paths with SRv6 only"
            if fault.kind == Deny.__name__:
                why = "a denial is no place; expect it of the other faults by their names"
            yield f"{fault.name}: nobody knows how long data was sent into it: {why}"
        last_ns = fault.last_packet_ns or 0
        if expect.last_packet_max_ns is not None and last_ns > expect.last_packet_max_ns:
            yield (
                f"{fault.name}: data was sent into it for {delay_text(last_ns)}, "
                f"expected {delay_text(expect.last_packet_max_ns)}"
            )
        rtts = last_ns / result.base_rtt_ns
        if expect.last_packet_max_rtts is not None and rtts > expect.last_packet_max_rtts:
            yield (
                f"{fault.name}: data was sent into it for {rtts:.1f} base RTTs, "
                f"expected {expect.last_packet_max_rtts:g}"
            )
        most_ns = expect.full_rate_max_ns
        if most_ns is not None and (fault.full_rate_ns is None or fault.full_rate_ns > most_ns):
            took = "never" if fault.full_rate_ns is None else delay_text(fault.full_rate_ns)
            yield f"{fault.name}: full rate again: {took}, expected {delay_text(most_ns)}"


def _numbers(expect: Expectations, result: RunResult) -> Iterator[str]:
    total = result.total
    for what, value, most in (
        ("frames lost", sum(result.lost.values()), expect.lost_max),
        ("local ACK timeouts", total["timeouts"], expect.timeouts_max),
        ("retransmissions", total["retransmissions"], expect.retransmissions_max),
        ("packets trimmed", result.trimmed, expect.trimmed_max),
    ):
        if most is not None and value > most:
            yield f"{what}: {value}, expected at most {most}"
    if expect.trimmed_min is not None and result.trimmed < expect.trimmed_min:
        yield f"packets trimmed: {result.trimmed}, expected at least {expect.trimmed_min}"
    within = expect.plane_share_within
    if within is not None:
        even = sum(result.plane_bytes) / len(result.plane_bytes)
        for plane, size in enumerate(result.plane_bytes):
            if abs(size - even) > within * even:
                yield (
                    f"plane {plane}: carries {size / even:.4f} of an even share, "
                    f"expected within {within:g}"
                )


def _percent(share: float | None) -> str:
    return "nothing that can be compared" if share is None else f"{100 * share:.2f} %"
