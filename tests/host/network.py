"""NICs on an adversarial network, in virtual time.

A frame that a NIC sends may be lost, sent twice, delayed, corrupted, trimmed or marked, each with
the probability that `Faults` says. Everything follows from the seed.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from host.config import NicConfig, PortConfig
from host.nic import Nic
from host.profiles import PlainProfiles, Profiles
from host.wire.constants import ETHERNET_BYTES, IPV6_BYTES, NEXT_HEADER_IPV6
from host.wire.trim import trim
from topologies.host_config import host_config, host_json
from topologies.model import Fabric

FABRIC = Fabric("test", planes=4, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=2)


def inner_destination(frame: bytes) -> bytes:
    """The destination address of the innermost IPv6 header of an honest frame."""
    end = ETHERNET_BYTES + IPV6_BYTES
    if frame[ETHERNET_BYTES + 6] == NEXT_HEADER_IPV6:
        end += IPV6_BYTES
    return frame[end - 16 : end]


def config(host: str, fabric: Fabric = FABRIC, **changes: Any) -> NicConfig:
    """The configuration of a host's NIC; `rate_bps` among the changes sets that of all ports."""
    rate_bps = changes.pop("rate_bps", None)
    text = json.dumps(host_json(host_config(fabric, fabric.host(host))))
    made = NicConfig.from_host_json(text, **changes)
    if rate_bps is None:
        return made
    ports = tuple(PortConfig(port.mac, port.gateway_mac, rate_bps) for port in made.ports)
    return NicConfig.from_host_json(text, **{**changes, "ports": ports})


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities, and the longest time a frame takes beyond `delay_ns`."""

    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    trim: float = 0.0
    mark: float = 0.0
    delay_ns: int = 1000
    jitter_ns: int = 0


class Network:
    """Joins NICs by their addresses."""

    def __init__(self, nics: list[Nic], *, seed: int = 0, faults: Faults | None = None) -> None:
        self.nics = nics
        self.faults = Faults() if faults is None else faults
        self.rng = random.Random(seed)
        self.now_ns = 0
        self._by_address = {nic.config.address.to_bytes(16, "big"): nic for nic in nics}
        self._flying: list[tuple[int, int, Nic, int, bytes]] = []
        self._actions: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        #: Called with every frame that is sent: (NIC, port, frame)
        self.watch: Callable[[Nic, int, bytes], None] | None = None
        #: Whether a frame gets through at all
        self.passes: Callable[[Nic, int, bytes], bool] | None = None
        self.sent = 0

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._sequence += 1
        heapq.heappush(self._actions, (time_ns, self._sequence, action))

    def flap(self, nic: Nic, port: int, at_ns: int, for_ns: int) -> None:
        """Take a port of a NIC down for a while."""
        self.at(at_ns, lambda: nic.set_port_up(port, False, self.now_ns))
        self.at(at_ns + for_ns, lambda: nic.set_port_up(port, True, self.now_ns))

    def inject(self, nic: Nic, port: int, frame: bytes, delay_ns: int = 0) -> None:
        """Let a frame come to a NIC."""
        self._sequence += 1
        heapq.heappush(self._flying, (self.now_ns + delay_ns, self._sequence, nic, port, frame))

    def send(self, sender: Nic, port: int, frame: bytes) -> None:
        """A frame leaves a NIC."""
        self.sent += 1
        if self.watch is not None:
            self.watch(sender, port, frame)
        receiver = self._by_address[inner_destination(frame)]
        if self.passes is not None and not self.passes(sender, port, frame):
            return
        faults, rng = self.faults, self.rng
        copies = 1 + (rng.random() < faults.duplicate) - (rng.random() < faults.loss)
        for _ in range(copies):
            self.inject(receiver, port, self._harmed(sender, frame), self._delay(faults, rng))

    @staticmethod
    def _delay(faults: Faults, rng: random.Random) -> int:
        return faults.delay_ns + (rng.randrange(faults.jitter_ns) if faults.jitter_ns else 0)

    def _harmed(self, sender: Nic, frame: bytes) -> bytes:
        faults, rng = self.faults, self.rng
        traffic = sender.config.traffic
        first = int.from_bytes(frame[ETHERNET_BYTES : ETHERNET_BYTES + 2], "big")
        dscp = first >> 6 & 0x3F
        if dscp in traffic.trimmable_class and rng.random() < faults.trim:
            frame = trim(frame, rng.choice((traffic.trimmed, traffic.trimmed_lasthop)))
        elif dscp != traffic.control and rng.random() < faults.mark:
            marked = (first | 3 << 4).to_bytes(2, "big")
            frame = frame[:ETHERNET_BYTES] + marked + frame[ETHERNET_BYTES + 2 :]
        if rng.random() < faults.corrupt:
            harmed = bytearray(frame)
            for _ in range(rng.randint(1, 4)):
                harmed[rng.randrange(len(harmed))] ^= 1 << rng.randrange(8)
            frame = bytes(harmed)
        return frame

    def flush(self) -> None:
        """Let the NICs send what they may now."""
        for nic in self.nics:
            for port, frame in nic.transmit(self.now_ns):
                self.send(nic, port, frame)

    def next_time(self) -> int | None:
        """When something happens next."""
        times = [nic.next_timer() for nic in self.nics]
        times.append(self._flying[0][0] if self._flying else None)
        times.append(self._actions[0][0] if self._actions else None)
        return min((time for time in times if time is not None), default=None)

    def step(self) -> bool:
        """Let the next thing happen. False: nothing ever will."""
        self.flush()
        time_ns = self.next_time()
        if time_ns is None:
            return False
        self.now_ns = max(time_ns, self.now_ns)
        while self._actions and self._actions[0][0] <= self.now_ns:
            heapq.heappop(self._actions)[2]()
        while self._flying and self._flying[0][0] <= self.now_ns:
            _, _, nic, port, frame = heapq.heappop(self._flying)
            nic.receive(port, frame, self.now_ns)
        for nic in self.nics:
            timer = nic.next_timer()
            if timer is not None and timer <= self.now_ns:
                nic.handle_timer(self.now_ns)
        return True

    def run(self, until: Callable[[], bool] | None = None, limit_ns: int = 10**12) -> None:
        """Run until `until` says so, nothing happens any more, or the time is over."""
        while (until is None or not until()) and self.now_ns <= limit_ns:
            if not self.step():
                return
        self.flush()


def pair(
    *,
    seed: int = 0,
    faults: Faults | None = None,
    profiles: Profiles | None = None,
    hosts: tuple[str, str] = ("h0", "h2"),
    **changes: Any,
) -> Network:
    """Two NICs, h0 and h2 unless said otherwise."""
    profiles = PlainProfiles() if profiles is None else profiles
    nics = [
        Nic(config(host, **changes), seed=seed + number, profiles=profiles)
        for number, host in enumerate(hosts)
    ]
    return Network(nics, seed=seed, faults=faults)
