"""A record as it would be in the worst case: hostile names, faults of all sorts."""

from __future__ import annotations

from reports.record import (
    EvSpan,
    FabricRecord,
    FaultRecord,
    FlowRecord,
    LinkRecord,
    RunRecord,
    SeriesRecord,
)

HOSTILE = "</script><b onclick='x'>&\"name\""


def flow(name: str, state: str = "done", kind: str = "flow", samples: int = 5) -> FlowRecord:
    return FlowRecord(
        name=name,
        kind=kind,
        hosts=["h0", "h1"],
        state=state,
        start_ns=0,
        completion_ns=20_000 if state == "done" else None,
        size_bytes=4096,
        rate_bps=1.5e9,
        packets=4,
        retransmissions=1,
        timeouts=1,
        trims=0,
        ecn_marked=0,
        delivered_bytes=[1000 * index for index in range(samples)],
    )


def fault(
    name: str, at_ns: int = 5000, end_ns: int | None = 10_000, *, begun: bool = True
) -> FaultRecord:
    return FaultRecord(
        name=name,
        kind="LinkDown",
        at_ns=at_ns,
        end_ns=end_ns,
        begun=begun,
        links=["p1-t0-0--p1-t1-0"],
        switches=[],
        paths=[],
        lost=3,
        packets_sent=2,
        evs_out=1,
        first_out_ns=2000,
        last_out_ns=2000,
        lowest_rate_bps=5e8,
        full_rate_ns=None,
        recovery_ns=3000,
    )


def span(ev: int, state: str = "ASSUMED_BAD", end_ns: int | None = 12_000) -> EvSpan:
    return EvSpan("h0", "h1", 17, ev, "plane 1 via p1-t1-0", state, 7000, end_ns, "timeout")


def record(
    *,
    samples: int = 5,
    flows: list[FlowRecord] | None = None,
    faults: list[FaultRecord] | None = None,
    spans: list[EvSpan] | None = None,
    failures: list[str] | None = None,
    scenario: str = "sample",
    planes: int = 2,
) -> RunRecord:
    links = [
        LinkRecord(
            f"{lower}--p{plane}-{upper}", plane, tier, lower, f"p{plane}-{upper}", 10**9, 1250, 0
        )
        for plane in range(planes)
        for tier, lower, upper in (
            ("host", "h0", "t0-0"),
            ("host", "h1", "t0-1"),
            ("fabric", f"p{plane}-t0-0", "t1-0"),
            ("fabric", f"p{plane}-t0-1", "t1-0"),
        )
    ]
    counter = list(range(samples))
    return RunRecord(
        scenario=scenario,
        description="what it is",
        clock="virtual",
        seed=0,
        end_ns=5000 * samples,
        failures=failures or [],
        fabric=FabricRecord("sample", planes, 2, 1, 1, 5000),
        links=links,
        flows=[flow("only", samples=samples)] if flows is None else flows,
        faults=faults or [],
        interval_ns=5000,
        series=SeriesRecord(
            delivered_bytes=[1000 * value for value in counter],
            plane_bytes=[list(counter) for _ in range(planes)],
            trimmed=list(counter),
            marked=[0] * samples,
            lost=list(counter),
            retransmitted=list(counter),
            queued=[0, *([7] * (samples - 1))] if samples else [],
        ),
        ev_spans=spans or [],
    )
