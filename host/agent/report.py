"""What an agent tells of itself: counters, queue pairs, EVs and the links that they cross."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from host.config import ForwardingMode
from host.congestion.nscc import Nscc
from host.paths import EvSet, EvState
from host.paths.naming import elements_of_path
from host.qp.queue_pair import QueuePair
from topologies.addressing import AddressingError, path_of_ev

if TYPE_CHECKING:
    from host.agent.agent import Agent


def hello(agent: Agent) -> dict[str, Any]:
    """Who it is."""
    config = agent.config
    return {
        "host": agent.name,
        "address": str(IPv6Address(config.address)),
        "pid": os.getpid(),
        "planes": len(config.ports),
        "interfaces": [agent.interfaces.get(plane) for plane in range(len(config.ports))],
        "path_mtu_bytes": config.path_mtu_bytes,
        "timeout": config.qp.timeout,
        "linear_retries": config.qp.linear_retries,
        "exponential_retries": config.qp.exponential_retries,
    }


def statistics(agent: Agent) -> dict[str, Any]:
    """Counters, since the start."""
    nic, driver = agent.nic, agent.driver
    ports = []
    for plane in range(len(agent.config.ports)):
        counters = nic.port_statistics(plane)
        ports.append(
            {
                "plane": plane,
                "interface": agent.interfaces.get(plane),
                "rate_bps": nic.port_rate_bps(plane),
                **asdict(counters),
            }
        )
    worked = asdict(driver.statistics)
    driver.statistics.worst_lateness_ns = 0
    return {
        "host": agent.name,
        "time_ns": time.time_ns(),
        "uptime_ns": time.monotonic_ns() - agent.started_ns,
        "cpu_ns": agent.cpu_time_ns(),
        "ports": ports,
        "dropped": dict(nic.drops),
        "lost": driver.losses(),
        "driver": worked,
        "qps": [_queue_pair(agent, qp) for qp in nic.qps.values()],
    }


def _queue_pair(agent: Agent, qp: QueuePair) -> dict[str, Any]:
    peer = qp.attributes.peer_address
    told: dict[str, Any] = {
        "qp": qp.number,
        "state": qp.state.value,
        "peer": None if peer is None else agent.host_name(peer),
        "dest_qp": qp.attributes.dest_qp,
    }
    requestor = qp.requestor
    if requestor is None:
        return told
    controller = requestor.controller
    told |= {
        **asdict(requestor.stats),
        "outstanding": requestor.posted,
        "cwnd_bytes": controller.cwnd_bytes,
        "inflight_bytes": controller.inflight_bytes,
    }
    if isinstance(controller, Nscc):
        told["base_rtt_ns"] = controller.constants.base_rtt_ns
        told["avg_delay_ns"] = int(controller.avg_delay_ns)
    evs = qp.evs
    if isinstance(evs, EvSet):
        told["evs"] = {state.value: len(evs.in_state(state)) for state in EvState}
        told["ev_marks"] = evs.marks
    return told


def ev_states(agent: Agent, peer: int | None = None) -> list[dict[str, Any]]:
    """Of each connected queue pair, or those with a peer: every EV, its state and its path."""
    found = []
    for qp in agent.nic.qps.values():
        address = qp.attributes.peer_address
        if address is None or (peer is not None and peer != address) or qp.evs is None:
            continue
        evs = qp.evs
        if not isinstance(evs, EvSet):
            continue
        active = set(evs.active())
        found.append(
            {
                "qp": qp.number,
                "state": qp.state.value,
                "peer": agent.host_name(address),
                "evs": [
                    {
                        "ev": ev,
                        "plane": evs.plane_of(ev),
                        "state": evs.state(ev).value,
                        "active": ev in active,
                        "port_up": agent.nic.port_statistics(evs.plane_of(ev)).up,
                        "path": path_elements(agent, address, ev),
                    }
                    for ev in evs.universe.evs
                ],
            }
        )
    return found


def path_elements(agent: Agent, address: int, ev: int) -> list[str]:
    """Links and switches that an EV crosses on the way to a host; empty where it names no path."""
    destination = agent.host_id(address)
    if destination is None or agent.config.forwarding is ForwardingMode.ECMP:
        return []
    try:
        path = path_of_ev(ev, agent.config.id, destination)
    except AddressingError:
        return []
    return list(elements_of_path(path, agent.hosts_per_t0))
