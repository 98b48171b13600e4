"""Whether links are of a speed at which switches that are processes mean anything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from topologies.model import Fabric
from topologies.runner.errors import UsageError
from topologies.runner.targets import Target
from topologies.scenario import Scenario
from topologies.timing import WIRE_OVERHEAD_BYTES, full_frame_bytes, line_rate_bps
from topologies.units import rate_text

#: Full packets that all processes of a fabric carry from host to host, for each core that they
#: have: 16,200/s were measured on two that had little else to do, 5,000/s on two busy ones
PACKETS_PER_S_OF_CORE: Final = 5_000
#: What the agent of one host sends or receives, however many cores there are: 18 µs of CPU a packet
PACKETS_PER_S_OF_HOST: Final = 50_000
#: So many times as fast links are still run, since processes then limit rates. Four hosts with two
#: links of 1 Gb/s (23 times what two cores carry) still have queues that fill and are trimmed; with
#: 10 Gb/s nothing waits at any link, and one packet in five times out because it waits for a CPU
MOST_TIMES_AS_FAST: Final = 50


def check_feasible(scenario: Scenario, target: Target) -> None:
    """Raises UsageError, before anything is started, for links that are far too fast.

    Hosts whose links have no rate send as fast as they can, which is feasible.
    """
    wanted = packets_per_s(scenario)
    cores = len(os.sched_getaffinity(0))
    hosts = min(len(_senders(scenario)), len(_receivers(scenario)))
    carried = min(cores * PACKETS_PER_S_OF_CORE, hosts * PACKETS_PER_S_OF_HOST)
    if wanted is None or wanted <= MOST_TIMES_AS_FAST * carried:
        return
    fabric = scenario.fabric
    rates = {link.rate_bps for link in fabric.links() if link.lower.is_host}
    fastest = max(rate for rate in rates if rate is not None)
    raise UsageError(
        f"{fabric.name}: not in real time on {target.name}: with host links of "
        f"{rate_text(fastest)} the traffic is up to {wanted:,} packets/s, and "
        f"{fabric.switch_count} switches that are processes carry about {carried:,}/s together on "
        f"{cores} cores; --target sim runs the scenario in virtual time "
        "(--anyway: in real time all the same)"
    )


def packets_per_s(scenario: Scenario) -> int | None:
    """Full packets that all traffic is at most, by the rates of hosts; None: one has no rate."""
    fabric = scenario.fabric
    sent_bps = _sum_bps(fabric, _senders(scenario))
    received_bps = _sum_bps(fabric, _receivers(scenario))
    if sent_bps is None or received_bps is None:
        return None
    return min(sent_bps, received_bps) // (8 * (full_frame_bytes(fabric) + WIRE_OVERHEAD_BYTES))


def _senders(scenario: Scenario) -> set[str]:
    return {flow.source for flow in scenario.flows} | _ranks(scenario)


def _receivers(scenario: Scenario) -> set[str]:
    return {flow.destination for flow in scenario.flows} | _ranks(scenario)


def _ranks(scenario: Scenario) -> set[str]:
    return {host for each in scenario.collectives for host in each.hosts}


def _sum_bps(fabric: Fabric, hosts: Iterable[str]) -> int | None:
    total_bps = 0
    for name in hosts:
        rate_bps = line_rate_bps(fabric, fabric.host(name))
        if rate_bps is None:
            return None
        total_bps += rate_bps
    return total_bps
