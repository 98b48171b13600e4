"""What was counted along a run in virtual time, for the record that reports are made of."""

from __future__ import annotations

from collections.abc import Iterator

from reports import from_result
from reports.record import LinkRecord, RunRecord, SeriesRecord
from reports.result import RunResult
from sim.network import Network
from sim.simulation import Simulation


def make_record(simulation: Simulation, result: RunResult) -> RunRecord:
    """The record of a simulation that was made with `along_time`, and of its result.

    Raises ValueError where it was not.
    """
    network = simulation.network
    samples = simulation.meter.fabric_samples
    if not samples:
        raise ValueError("the simulation was not made with along_time")
    *_, trimmed, marked, lost, retransmitted, queued = ([0, *column] for column in samples)
    series = SeriesRecord(
        delivered_bytes=result.delivered_bytes,
        plane_bytes=[[0, *column] for column in samples[: network.fabric.planes]],
        trimmed=trimmed,
        marked=marked,
        lost=lost,
        retransmitted=retransmitted,
        queued=queued,
    )
    return from_result.make_record(simulation.scenario, result, list(_links(network)), series)


def _links(network: Network) -> Iterator[LinkRecord]:
    stats = {name: switch.switch.stats() for name, switch in network.switches.items()}
    for link in network.links.values():
        port = stats[link.upper.node].ports[link.upper.port]
        yield from_result.link_record(link, port.rx_bytes, port.tx_bytes)
