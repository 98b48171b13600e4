"""Policies that write down what the core tells them."""

from __future__ import annotations

import random

from host.config import NicConfig
from host.congestion.fixed_window import FixedWindow
from host.paths.base import EvSelector
from host.paths.round_robin import RoundRobinEvs
from host.profiles import PlainProfiles
from host.wire.constants import NackReason
from topologies.addressing import ev_universe


class ListeningController(FixedWindow):
    """Notes what it hears."""

    __slots__ = ("heard",)

    def __init__(self, cwnd_bytes: int) -> None:
        super().__init__(cwnd_bytes)
        self.heard: list[tuple[object, ...]] = []

    def on_ack(self, acked_bytes: int, ecn: bool, rtt_ns: int | None, now_ns: int) -> None:
        self.heard.append(("ack", acked_bytes, ecn, rtt_ns))

    def on_trim(self, size_bytes: int, last_hop: bool, now_ns: int) -> None:
        self.heard.append(("trim", size_bytes, last_hop))

    def on_loss(self, size_bytes: int, now_ns: int) -> None:
        self.heard.append(("loss", size_bytes))

    def on_peer_penalty(self, rcv_cwnd_pen: int, restore_cwnd: bool, now_ns: int) -> None:
        self.heard.append(("penalty", rcv_cwnd_pen, restore_cwnd))


class ListeningEvs(RoundRobinEvs):
    """Notes what it hears; `probes` are the EVs it wants probed, at `probe_at_ns`."""

    __slots__ = ("heard", "probe_at_ns", "probes")

    def __init__(self, evs: list[int]) -> None:
        super().__init__(evs)
        self.heard: list[tuple[object, ...]] = []
        self.probes: list[int] = []
        self.probe_at_ns: int | None = None

    def on_sack(self, ev: int, m: int, now_ns: int) -> None:
        self.heard.append(("sack", ev, m))

    def on_nack(self, ev: int, reason: NackReason, now_ns: int) -> None:
        self.heard.append(("nack", ev, reason))

    def on_timeout(self, ev: int, sent_ns: int, now_ns: int) -> None:
        self.heard.append(("timeout", ev))

    def on_probe_answer(self, ev: int, now_ns: int) -> None:
        self.heard.append(("answer", ev))

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        self.heard.append(("no answer", ev))

    def next_probe(self, now_ns: int) -> int | None:
        if self.probe_at_ns is None or now_ns < self.probe_at_ns:
            return None
        probe = self.probes.pop(0)
        if not self.probes:
            self.probe_at_ns = None
        return probe

    def next_timer(self) -> int | None:
        return self.probe_at_ns


class ListenerProfiles(PlainProfiles):
    """Keeps the last selector and controller that it made."""

    evs: ListeningEvs
    controller: ListeningController

    def ev_selector(
        self, config: NicConfig, peer_address: int, profile: int | None, rng: random.Random
    ) -> EvSelector:
        planes, uplinks = len(config.ports), config.uplinks_towards(peer_address)
        self.evs = ListeningEvs(list(ev_universe(planes, uplinks)))
        return self.evs

    def congestion_controller(
        self, config: NicConfig, peer_address: int, profile: int | None
    ) -> ListeningController:
        self.controller = ListeningController(self.cwnd_bytes)
        return self.controller
