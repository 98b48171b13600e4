"""What is measured while a scenario runs: rates over time, and what faults did to paths."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from reports.evs import look_at_evs
from reports.rates import rates_bps, whole_intervals
from reports.result import EvTransition, FaultEffect
from sim.collective import RunningCollective
from sim.fabric_meter import FabricMeter
from sim.faults import ActiveFault
from sim.host_node import HostNode
from sim.loop import EventLoop
from sim.network import Network
from sim.traffic import RunningFlow
from topologies.addressing import AddressingError, Path
from topologies.fault_scope import scope_of

#: Samples of a run; at so many the interval doubles, so that long runs need no more memory
MAX_SAMPLES: Final = 4096
#: So many local ACK timeouts after a fault is over, EVs may still be found out that met it
_GRACE_TIMEOUTS: Final = 3

#: What delivers payload, and is measured
Traffic: TypeAlias = RunningFlow | RunningCollective


class RateMeter:
    """Delivered payload of all flows and collectives, sampled at equal intervals.

    With `fabric`, counters of the fabric are sampled along with it.
    """

    def __init__(
        self,
        loop: EventLoop,
        flows: Sequence[Traffic],
        interval_ns: int,
        fabric: FabricMeter | None = None,
    ) -> None:
        self.interval_ns = interval_ns
        self._loop = loop
        self._flows = flows
        #: Bytes delivered so far by each flow, at interval, 2 * interval, ...
        self.samples: list[array[int]] = [array("q") for _ in flows]
        #: What `fabric` read at the same moments, one array for each of its columns
        self.fabric_samples: list[array[int]] = []
        self._fabric = fabric
        if fabric is not None:
            self.fabric_samples = [array("q") for _ in range(fabric.columns)]
        loop.at(interval_ns, self._sample)

    def _sample(self, now_ns: int, _a: object, _b: object) -> None:
        for samples, flow in zip(self.samples, self._flows, strict=True):
            samples.append(flow.delivered_bytes())
        if self._fabric is not None:
            for samples, value in zip(self.fabric_samples, self._fabric.read(), strict=True):
                samples.append(value)
        if self.samples and len(self.samples[0]) >= MAX_SAMPLES:
            self.interval_ns *= 2
            for samples in (*self.samples, *self.fabric_samples):
                samples[:] = samples[1::2]
        self._loop.at((now_ns // self.interval_ns + 1) * self.interval_ns, self._sample)

    def is_event(self, call: object) -> bool:
        """Whether an event is only the next sample."""
        return call == self._sample

    def delivered(self) -> list[int]:
        """Bytes delivered by all flows together, from time 0 on, one value an interval."""
        totals = [0]
        totals.extend(sum(values) for values in zip(*self.samples, strict=True))
        return totals

    def rates_bps(self, done: bool) -> list[float]:
        """The rate of all flows together in each interval; of whole ones where all is `done`."""
        delivered = self.delivered()
        rates = rates_bps(delivered, self.interval_ns)
        if not done:
            return rates
        # The last bytes landed before their completion came; the interval in which they did
        # was full in part only
        now = sum(flow.delivered_bytes() for flow in self._flows)
        return rates[: whole_intervals(delivered, now)]


class FaultWatch:
    """Follows one fault through the run. `timeout_ns`: the endpoints' local ACK timeout."""

    def __init__(self, active: ActiveFault, network: Network, timeout_ns: int) -> None:
        self.active = active
        self.network = network
        fault = active.fault
        self.scope = scope_of(fault, network.fabric)
        self.effect = FaultEffect(
            name=fault.name,
            kind=type(fault).__name__,
            at_ns=fault.at_ns,
            end_ns=fault.end_ns,
            begun=False,
        )
        self._grace_ns = _GRACE_TIMEOUTS * timeout_ns
        self._frames_before: dict[tuple[str, bytes], int] = {}

    def begin(self, now_ns: int) -> None:
        """It begins now."""
        self.effect.begun = True
        self._remember()
        self.active.begin(now_ns)

    def _remember(self) -> None:
        for host in self.network.hosts.values():
            for path, tally in host.sent.items():
                self._frames_before[host.name, path] = tally.frames

    def end(self, now_ns: int) -> None:
        """It is over now."""
        self._look()
        self._remember()
        self.active.end(now_ns)

    def finish(self, transitions: Sequence[EvTransition]) -> None:
        """The run is over; `transitions` are all of its EVs', in order."""
        effect = self.effect
        if not self.active.begun:
            return
        if self.active.over:
            effect.packets_after = sum(sent for sent, _ in self._sent_since())
        else:
            self._look()
            self.active.settle()
        effect.lost = self.active.lost
        look_at_evs(
            effect,
            self.scope,
            self.network.fabric,
            transitions,
            grace_ns=self._grace_ns,
            count_earlier=False,
        )

    def _look(self) -> None:
        effect = self.effect
        for sent, last_ns in self._sent_since():
            effect.packets_sent += sent
            since_ns = last_ns - effect.at_ns
            if effect.last_packet_ns is None or since_ns > effect.last_packet_ns:
                effect.last_packet_ns = since_ns

    def _sent_since(self) -> Iterator[tuple[int, int]]:
        """(data packets since `_remember`, when the last) of each path through the fault."""
        for host in self.network.hosts.values():
            for path, tally in host.sent.items():
                sent = tally.frames - self._frames_before.get((host.name, path), 0)
                if not sent:
                    continue
                if tally.path is None:
                    tally.path = _path_of(self.network, host, path)
                if tally.path and self.scope.crosses(self.network.fabric, tally.path):
                    yield sent, tally.last_ns


def _path_of(network: Network, host: HostNode, path: bytes) -> Path | None:
    try:
        return network.fabric.addresses.path_of_carrier(int.from_bytes(path, "big"), host.host.id)
    except AddressingError:
        return None
