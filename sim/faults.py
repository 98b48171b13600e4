"""Faults of a scenario, applied to a running network; each keeps count of what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from host.paths import EvSet
from sim.network import Network
from sim.wire import Impairment, Passage, Wire
from topologies import scenario as model
from topologies.addressing import encode_ev
from topologies.fault_scope import carrier_of
from topologies.model import Link
from topologies.seeds import random_of

LOSS: Final = "random loss"

_CARRIER: Final = slice(38, 54)


class ActiveFault:
    """One fault, before, while and after it holds.

    Attributes:
        fault: what the scenario says.
        lost: frames that it cost so far.
        begun, over: whether it has begun and is over.
    """

    def __init__(self, fault: model.Fault, network: Network) -> None:
        self.fault = fault
        self.network = network
        self.lost = 0
        self.begun = False
        self.over = False

    def begin(self, now_ns: int) -> None:
        """It happens."""
        self.begun = True

    def end(self, now_ns: int) -> None:
        """It is repaired."""
        self.over = True

    def settle(self) -> None:
        """Count what it cost up to now."""


class _LinksDown(ActiveFault):
    """Links that are down, and perhaps switches that are off."""

    def __init__(self, fault: model.Fault, network: Network, links: Iterable[str]) -> None:
        super().__init__(fault, network)
        self._links = tuple(links)
        self._before = 0
        self._settled = 0

    def _drops(self) -> int:
        """Frames that switches lost at the ends of the links so far."""
        network = self.network
        return sum(
            network.switches[end.node].port_down_drops(end.port)
            for name in self._links
            for end in (network.links[name].lower, network.links[name].upper)
            if end.node in network.switches
        )

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        self._before = self._drops()
        for name in self._links:
            self._set_up(self.network.links[name], False, now_ns)

    def end(self, now_ns: int) -> None:
        self.settle()
        super().end(now_ns)
        for name in self._links:
            self._set_up(self.network.links[name], True, now_ns)

    def _set_up(self, link: Link, up: bool, now_ns: int) -> None:
        network = self.network
        for end in (link.lower, link.upper):
            network.node(end.node).set_port_up(end.port, up, now_ns)
        for wire in network.wires[link.name]:
            self.lost += wire.set_up(up)
        network.changed()

    def settle(self) -> None:
        if self.begun and not self.over:
            drops = self._drops() - self._before
            self.lost += drops - self._settled
            self._settled = drops


class _Reboot(_LinksDown):
    """Switches off, with their links, and on again with fresh tables."""

    def __init__(self, fault: model.SwitchReboot, network: Network) -> None:
        self._switches = fault.switches
        names = frozenset(fault.switches)
        links = [
            link.name
            for link in network.links.values()
            if link.lower.node in names or link.upper.node in names
        ]
        super().__init__(fault, network, links)

    def begin(self, now_ns: int) -> None:
        for name in self._switches:
            self.lost += self.network.switches[name].power_off(now_ns)
        super().begin(now_ns)

    def end(self, now_ns: int) -> None:
        for name in self._switches:
            self.network.switches[name].boot(now_ns)
        super().end(now_ns)


class _Dead(ActiveFault):
    """Switches that swallow everything."""

    def __init__(self, fault: model.SwitchDead, network: Network) -> None:
        super().__init__(fault, network)
        self._switches = fault.switches
        self._before = 0

    def _swallowed(self) -> int:
        return sum(
            sum(count for count in self.network.switches[name].lost.values() if count > 0)
            for name in self._switches
        )

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        self._before = self._swallowed()
        for name in self._switches:
            self.network.switches[name].set_alive(False, now_ns)
        self.network.changed()

    def end(self, now_ns: int) -> None:
        self.settle()
        super().end(now_ns)
        for name in self._switches:
            self.network.switches[name].set_alive(True, now_ns)
        self.network.changed()

    def settle(self) -> None:
        if self.begun and not self.over:
            self.lost = self._swallowed() - self._before


class _Slow(ActiveFault):
    """Links with another rate."""

    def __init__(self, fault: model.SlowLink, network: Network) -> None:
        super().__init__(fault, network)
        self._links = fault.links
        self._rate_bps = fault.rate_bps

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        for name in self._links:
            self._set_rate(self.network.links[name], self._rate_bps, now_ns)

    def end(self, now_ns: int) -> None:
        super().end(now_ns)
        for name in self._links:
            link = self.network.links[name]
            self._set_rate(link, link.rate_bps, now_ns)

    def _set_rate(self, link: Link, rate_bps: int | None, now_ns: int) -> None:
        for end in (link.lower, link.upper):
            self.network.node(end.node).set_port_rate(end.port, rate_bps, now_ns)


class _Deny(ActiveFault):
    """EVs that the operator denies."""

    def __init__(self, fault: model.Deny, network: Network) -> None:
        super().__init__(fault, network)
        self._paths = fault.paths

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        for path in self._paths:
            for evs in self._ev_sets(path):
                evs.deny([encode_ev(path.plane, path.uplink)], now_ns)

    def end(self, now_ns: int) -> None:
        super().end(now_ns)
        for path in self._paths:
            for evs in self._ev_sets(path):
                evs.allow([encode_ev(path.plane, path.uplink)], now_ns)

    def _ev_sets(self, path: model.PathRef) -> Iterator[EvSet]:
        source, destination = self.network.hosts[path.source], self.network.hosts[path.destination]
        for qp in source.nic.qps.values():
            if qp.attributes.peer_address == destination.config.address:
                assert isinstance(qp.evs, EvSet)
                yield qp.evs
        source.touch()


# --- impairments -------------------------------------------------------------------------------


class _Impairing(ActiveFault):
    """Something about frames on wires."""

    def __init__(self, fault: model.Impairment, network: Network, impairment: Impairment) -> None:
        super().__init__(fault, network)
        self._fault = fault
        self._impairment = impairment
        if fault.path is not None:
            self._impairment = _OnPath(impairment, carrier_of(network.fabric, fault.path))

    def _wires(self) -> list[Wire]:
        fault, network = self._fault, self.network
        if fault.path is not None:
            source = network.hosts[fault.path.source]
            return [source.wires[fault.path.plane]]
        chosen = []
        for name in fault.links:
            up, down = network.wires[name]
            chosen += [up] * fault.up + [down] * fault.down
        return chosen

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        for wire in self._wires():
            name = f"fault {self.fault.name} on {wire.name}"
            wire.add(self._impairment, random_of(self.network.seed, name))

    def end(self, now_ns: int) -> None:
        super().end(now_ns)
        for wire in self._wires():
            wire.remove(self._impairment)


class _OnPath:
    """An impairment of frames to one carrier only."""

    def __init__(self, inner: Impairment, carrier: bytes) -> None:
        self._inner = inner
        self._carrier = carrier

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """As Impairment."""
        if frame[_CARRIER] != self._carrier:
            return frame
        return self._inner.impair(frame, passage)


class _Lose:
    def __init__(self, probability: float) -> None:
        self._probability = probability
        self.owner: ActiveFault | None = None

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """As Impairment."""
        if passage.random.random() < self._probability:
            passage.lost = LOSS
            if self.owner is not None:
                self.owner.lost += 1
        return frame


class _Corrupt:
    def __init__(self, probability: float) -> None:
        self._probability = probability

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """As Impairment."""
        if passage.random.random() >= self._probability:
            return frame
        bit = passage.random.randrange(8 * len(frame))
        harmed = bytearray(frame)
        harmed[bit >> 3] ^= 0x80 >> (bit & 7)
        passage.corrupted = True
        return bytes(harmed)


class _Duplicate:
    def __init__(self, probability: float) -> None:
        self._probability = probability

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """As Impairment."""
        passage.copies += passage.random.random() < self._probability
        return frame


class _Delay:
    def __init__(self, extra_ns: int, jitter_ns: int) -> None:
        self._extra_ns = extra_ns
        self._jitter_ns = jitter_ns

    def impair(self, frame: bytes, passage: Passage) -> bytes:
        """As Impairment."""
        passage.delay_ns += self._extra_ns
        if self._jitter_ns:
            passage.delay_ns += passage.random.randrange(self._jitter_ns + 1)
        return frame


def activate(fault: model.Fault, network: Network) -> ActiveFault:
    """The fault, ready to begin."""
    match fault:
        case model.LinkDown():
            return _LinksDown(fault, network, fault.links)
        case model.SwitchReboot():
            return _Reboot(fault, network)
        case model.SwitchDead():
            return _Dead(fault, network)
        case model.SlowLink():
            return _Slow(fault, network)
        case model.Deny():
            return _Deny(fault, network)
        case model.Loss():
            lose = _Lose(fault.probability)
            lose.owner = _Impairing(fault, network, lose)
            return lose.owner
        case model.Corruption():
            return _Impairing(fault, network, _Corrupt(fault.probability))
        case model.Duplication():
            return _Impairing(fault, network, _Duplicate(fault.probability))
        case model.Delay():
            return _Impairing(fault, network, _Delay(fault.extra_ns, fault.jitter_ns))
    raise TypeError(f"{type(fault).__name__}: no such fault in virtual time")
