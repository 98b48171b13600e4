"""`expect`: what must hold at the end, of flows, collectives and faults by name."""

from __future__ import annotations

from collections.abc import Sequence

from topologies import scenario as model
from topologies import scenario_schema as schema
from topologies.scenario_sections.resolver import Resolver


def expectations_in(
    section: schema.ExpectSection,
    resolver: Resolver,
    *,
    flows: Sequence[str],
    collectives: Sequence[str],
    faults: Sequence[str],
) -> model.Expectations:
    """What a file expects of flows, collectives and faults of these names."""

    def meant(what: str, index: int, pattern: str, names: Sequence[str]) -> tuple[str, ...]:
        return resolver.matching(pattern, names, what, ("expect", f"{what}s", index, what))

    return model.Expectations(
        complete=section.complete,
        flows=tuple(
            model.FlowExpectation(
                flows=meant("flow", index, each.flow, flows),
                pattern=each.flow,
                status=each.status,
                goodput_min_bps=each.goodput_min,
                goodput_share_min=each.goodput_share_min,
                goodput_share_max=each.goodput_share_max,
                total_share_min=each.total_share_min,
                completion_max_ns=each.completion_max,
                jain_min=each.jain_min,
            )
            for index, each in enumerate(section.flows)
        ),
        collectives=tuple(
            model.CollectiveExpectation(
                collectives=meant("collective", index, each.collective, collectives),
                pattern=each.collective,
                status=each.status,
                completion_max_ns=each.completion_max,
                bus_bandwidth_min_bps=each.bus_bandwidth_min,
                bus_share_min=each.bus_share_min,
            )
            for index, each in enumerate(section.collectives)
        ),
        faults=tuple(
            model.FaultExpectation(
                faults=meant("fault", index, each.fault, faults),
                pattern=each.fault,
                lost_max=each.lost_max,
                last_packet_max_ns=each.last_packet_max,
                last_packet_max_rtts=each.last_packet_max_rtts,
                full_rate_max_ns=each.full_rate_max,
                evs_out_min=each.evs_out_min,
            )
            for index, each in enumerate(section.faults)
        ),
        faults_begin=section.faults_begin,
        plane_share_within=section.plane_share_within,
        lost_max=section.lost_max,
        timeouts_max=section.timeouts_max,
        retransmissions_max=section.retransmissions_max,
        trimmed_min=section.trimmed_min,
        trimmed_max=section.trimmed_max,
    )
