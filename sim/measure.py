"""What is measured while a scenario runs: rates over time, and what faults did to paths."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from host.paths import EvState
from sim.collective import RunningCollective
from sim.fabric_meter import FabricMeter
from sim.faults import ActiveFault
from sim.host_node import HostNode
from sim.loop import EventLoop
from sim.network import Network
from sim.traffic import RunningFlow
from topologies.addressing import AddressingError, Path, path_of_ev

#: Samples of a run; at so many the interval doubles, so that long runs need no more memory
MAX_SAMPLES: Final = 4096
#: So long after a fault is over, EVs may still be found out that met it
_GRACE_NS: Final = 100_000
#: A rate counts as full again from this share of what it was before the fault
FULL_RATE_SHARE: Final = 0.95
#: Samples that are averaged, so that one burst of feedback is no dip
SMOOTHING_SAMPLES: Final = 4


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

    def whole_intervals(self) -> int:
        """How many intervals, from time 0 on, passed before all there is now was delivered."""
        now = sum(flow.delivered_bytes() for flow in self._flows)
        return max(bisect_left(self.delivered(), now) - 1, 0)

    def rates_bps(self) -> list[float]:
        """The rate of all flows together in each interval."""
        totals = self.delivered()
        scale = 8 * 10**9 / self.interval_ns
        return [(after - before) * scale for before, after in pairwise(totals)]


@dataclass(frozen=True, slots=True)
class EvTransition:
    """An EV of a queue pair of a host changed its state; `replaced_by` took its place."""

    now_ns: int
    host: str
    peer: str
    qp_num: int
    ev: int
    old: str
    new: str
    cause: str
    replaced_by: int | None


@dataclass(slots=True)
class FaultEffect:
    """What one fault did.

    `last_packet_ns`: from its beginning to the last data that a host began to send on a path
    through it; None: none was sent. `packets_sent`: how many, retransmissions among them;
    `packets_after`: how many after its end.
    `full_rate_ns`: from its beginning until all flows together were at 95 % of the rate before it,
    for good; 0: they never fell below; None: they did not get there while the fault held, or
    nothing was sent before it. `recovery_ns`: the same from its end on. `first_out_ns`,
    `last_out_ns`: from its beginning until the first EV through it was out of the active set, and
    until the last was for the first time; `evs_out`: how many of them were.
    """

    name: str
    kind: str
    at_ns: int
    end_ns: int | None
    begun: bool
    lost: int = 0
    packets_sent: int = 0
    packets_after: int = 0
    last_packet_ns: int | None = None
    rate_before_bps: float | None = None
    lowest_rate_bps: float | None = None
    full_rate_ns: int | None = None
    recovery_ns: int | None = None
    evs_out: int = 0
    first_out_ns: int | None = None
    last_out_ns: int | None = None


class FaultWatch:
    """Follows one fault through the run."""

    def __init__(self, active: ActiveFault, network: Network) -> None:
        self.active = active
        self.network = network
        fault = active.fault
        self.effect = FaultEffect(
            name=fault.name,
            kind=type(fault).__name__,
            at_ns=fault.at_ns,
            end_ns=fault.end_ns,
            begun=False,
        )
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
        out: dict[tuple[str, int, int], int] = {}
        for each in transitions:
            key = each.host, each.qp_num, each.ev
            if each.new == EvState.ASSUMED_BAD.value and key not in out and self._holds(each):
                out[key] = each.now_ns - effect.at_ns
        effect.evs_out = len(out)
        if out:
            effect.first_out_ns, effect.last_out_ns = min(out.values()), max(out.values())

    def _holds(self, transition: EvTransition) -> bool:
        """Whether an EV changed while the fault held, and its path crosses it."""
        effect = self.effect
        if transition.now_ns < effect.at_ns or (
            effect.end_ns is not None and transition.now_ns > effect.end_ns + _GRACE_NS
        ):
            return False
        fabric = self.network.fabric
        source, destination = fabric.host(transition.host), fabric.host(transition.peer)
        try:
            path = path_of_ev(transition.ev, source.id, destination.id)
        except AddressingError:
            return False
        carrier = fabric.addresses.carrier_of_path(path).to_bytes(16, "big")
        return _crosses(self.network, path, carrier, self.active)

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
                if tally.path and _crosses(self.network, tally.path, path, self.active):
                    yield sent, tally.last_ns

    def look_at_rates(self, meter: RateMeter, done_ns: int | None) -> None:
        """Fill in what the rate did; `done_ns` is when all traffic was done."""
        effect = self.effect
        interval_ns = meter.interval_ns
        rates = meter.rates_bps()
        if done_ns is not None:
            # The last bytes landed before their completion came; the interval in which they did
            # was full in part only
            rates = rates[: meter.whole_intervals()]
        first = effect.at_ns // interval_ns
        window = rates[max(first - 4 * SMOOTHING_SAMPLES, min(2, first // 2)) : first]
        if not effect.begun or not window:
            return
        rate = sum(window) / len(window)
        effect.rate_before_bps = rate
        if not rate:
            return
        end_ns = effect.end_ns
        last = len(rates) if end_ns is None else min(len(rates), end_ns // interval_ns)
        while_ns, lowest = _until_full(rates[first:last], rate, interval_ns)
        effect.lowest_rate_bps = lowest
        effect.full_rate_ns = while_ns
        if end_ns is not None:
            effect.recovery_ns, _ = _until_full(rates[last:], rate, interval_ns)


def _until_full(
    rates: list[float], wanted_bps: float, interval_ns: int
) -> tuple[int | None, float | None]:
    """(time until the rate is what is wanted and stays so, lowest rate)."""
    after = _smooth(rates)
    if not after:
        return None, None
    below = [index for index, value in enumerate(after) if value < FULL_RATE_SHARE * wanted_bps]
    if not below:
        return 0, min(after)
    if below[-1] == len(after) - 1:
        return None, min(after)
    return (below[-1] + SMOOTHING_SAMPLES) * interval_ns, min(after)


def _smooth(values: list[float]) -> list[float]:
    size = SMOOTHING_SAMPLES
    return [sum(values[index : index + size]) / size for index in range(len(values) - size + 1)]


def _crosses(network: Network, path: Path, carrier: bytes, active: ActiveFault) -> bool:
    """Whether a path goes through what is at fault."""
    if active.carrier is not None:
        return carrier == active.carrier
    switches = active.switches()
    if switches and any(switch.name in switches for switch in path.switches):
        return True
    links = active.links()
    if not links:
        return False
    return any(link.name in links for link in network.fabric.links_of_path(path))


def _path_of(network: Network, host: HostNode, path: bytes) -> Path | None:
    try:
        return network.fabric.addresses.path_of_carrier(int.from_bytes(path, "big"), host.host.id)
    except AddressingError:
        return None
