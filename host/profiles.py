"""Where a NIC has its path selection and congestion control from."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from host.config import TIMEOUT_UNIT_NS, ForwardingMode, NicConfig
from host.congestion import CongestionController, Network, make_controller
from host.congestion.fan_in import FanIn
from host.congestion.fixed_window import FixedWindow
from host.congestion.network import REFERENCE_RATE_BPS
from host.congestion.nscc import ALGORITHM as NSCC
from host.paths import EvProfile, EvSelector, ReverseEvs, ReverseEvSet
from host.paths.round_robin import FixedReverseEvs, RoundRobinEvs
from host.wire.constants import ICRC_BYTES, IPV6_BYTES, TRIM_BYTES
from topologies.addressing import ev_universe

_P = TypeVar("_P")

#: The window where there is no congestion control: more than is ever in flight
_NO_WINDOW_BYTES = 1 << 62


class Profiles(Protocol):
    """Makes the policies of a NIC. Profile ids are those of `QpAttributes`; None: the default."""

    def ev_selector(
        self, config: NicConfig, peer_address: int, profile: int | None, rng: random.Random
    ) -> EvSelector:
        """The EVs of one queue pair. Raises ValueError for an unknown profile."""
        ...

    def reverse_evs(self, config: NicConfig, peer_address: int, rng: random.Random) -> ReverseEvs:
        """The EVs of control packets to a peer."""
        ...

    def congestion_controller(
        self, config: NicConfig, peer_address: int, profile: int | None
    ) -> CongestionController:
        """The controller towards a peer. Raises ValueError for an unknown profile."""
        ...

    def fan_in(self, config: NicConfig) -> FanIn | None:
        """What the NIC asks of those who send to it at once; None: nothing."""
        ...


class PlainProfiles:
    """Every EV of the fabric in turn, and a window that never changes."""

    def __init__(self, cwnd_bytes: int = 1 << 20) -> None:
        self.cwnd_bytes = cwnd_bytes

    def ev_selector(
        self, config: NicConfig, peer_address: int, profile: int | None, rng: random.Random
    ) -> EvSelector:
        """Round robin, in an order that differs from queue pair to queue pair."""
        evs = list(ev_universe(len(config.ports), config.uplinks_towards(peer_address)))
        rng.shuffle(evs)
        return RoundRobinEvs(evs)

    def reverse_evs(self, config: NicConfig, peer_address: int, rng: random.Random) -> ReverseEvs:
        """One EV per plane, for ever."""
        evs = list(ev_universe(len(config.ports), config.uplinks_towards(peer_address)))
        rng.shuffle(evs)
        return FixedReverseEvs(evs)

    def congestion_controller(
        self, config: NicConfig, peer_address: int, profile: int | None
    ) -> CongestionController:
        """A fixed window."""
        return FixedWindow(self.cwnd_bytes)

    def fan_in(self, config: NicConfig) -> FanIn | None:
        """Nothing."""
        return None


@dataclass(frozen=True, slots=True)
class CcProfile:
    """A congestion control profile (`mrc_ctl_cc_profile_attr`).

    `algorithm` as `host.congestion.controller_class` has it, None = no congestion control; `config`
    are the controller's knobs, by name (of NSCC: `host.congestion.nscc.NsccConfig`).
    """

    algorithm: str | None = NSCC
    config: Mapping[str, Any] = field(default_factory=dict)

    def controller(self, network: Network) -> CongestionController:
        """A controller for one destination. Raises ValueError for a wrong name, knob or value."""
        if self.algorithm is None:
            return FixedWindow(_NO_WINDOW_BYTES)
        return make_controller(self.algorithm, network, **self.config)


class MrcProfiles:
    """EV profiles and CC profiles by id, as MRC has them.

    `base_rtt_ns` is the RTT of a full data frame and its SACK through empty queues, the same for
    all destinations or a function of NIC and peer address; 0 = not known: NSCC takes the least RTT
    that it measures. Queue pairs that name no profile have `ev_profile` and `cc_profile`. With
    `fan_in`, a NIC asks those who send to it at once for smaller windows; it counts them in
    intervals of `fan_in_interval_ns`, None: of a quarter of the local ACK timeout.
    """

    def __init__(
        self,
        *,
        ev_profile: EvProfile | None = None,
        cc_profile: CcProfile | None = None,
        ev_profiles: Mapping[int, EvProfile] | None = None,
        cc_profiles: Mapping[int, CcProfile] | None = None,
        base_rtt_ns: int | Callable[[NicConfig, int], int] = 0,
        fan_in: bool = True,
        fan_in_interval_ns: int | None = None,
    ) -> None:
        self.ev_profile = EvProfile() if ev_profile is None else ev_profile
        self.cc_profile = CcProfile() if cc_profile is None else cc_profile
        #: May be changed; queue pairs keep what they were connected with
        self.ev_profiles = dict(ev_profiles or {})
        self.cc_profiles = dict(cc_profiles or {})
        self._base_rtt_ns = base_rtt_ns
        self._fan_in = fan_in
        self._fan_in_interval_ns = fan_in_interval_ns

    def base_rtt_ns(self, config: NicConfig, peer_address: int) -> int:
        """The base RTT to a peer; 0 = not known."""
        given = self._base_rtt_ns
        return given if isinstance(given, int) else given(config, peer_address)

    def ev_selector(
        self, config: NicConfig, peer_address: int, profile: int | None, rng: random.Random
    ) -> EvSelector:
        """An `EvSet`."""
        chosen = self.ev_profile if profile is None else _known(self.ev_profiles, profile, "EV")
        universe = chosen.universe(
            planes=len(config.ports),
            uplinks=config.uplinks_towards(peer_address),
            forwarding=config.forwarding,
            rng=rng,
        )
        return chosen.ev_set(universe, rng=rng, timeout_ns=TIMEOUT_UNIT_NS << config.qp.timeout)

    def reverse_evs(self, config: NicConfig, peer_address: int, rng: random.Random) -> ReverseEvs:
        """A `ReverseEvSet` of the default profile's EVs, without its denylist's."""
        universe = self.ev_profile.universe(
            planes=len(config.ports),
            uplinks=config.uplinks_towards(peer_address),
            forwarding=config.forwarding,
            rng=rng,
        ).without(self.ev_profile.denied)
        interval_ns = self.base_rtt_ns(config, peer_address) or TIMEOUT_UNIT_NS << config.qp.timeout
        return ReverseEvSet(universe, rng=rng, probe_interval_ns=interval_ns)

    def congestion_controller(
        self, config: NicConfig, peer_address: int, profile: int | None
    ) -> CongestionController:
        """A controller for what is known of the way to the peer."""
        chosen = self.cc_profile if profile is None else _known(self.cc_profiles, profile, "CC")
        return chosen.controller(network_towards(config, self.base_rtt_ns(config, peer_address)))

    def fan_in(self, config: NicConfig) -> FanIn | None:
        """A `FanIn` for all ports together, or nothing if there is to be none."""
        if not self._fan_in:
            return None
        interval_ns = self._fan_in_interval_ns
        if interval_ns is None:
            # The timeout is some RTTs; an interval should be little more than one
            interval_ns = max((TIMEOUT_UNIT_NS << config.qp.timeout) // 4, 1)
        return FanIn(network_towards(config, 0).rate_bps, interval_ns)


def network_towards(config: NicConfig, base_rtt_ns: int) -> Network:
    """What a congestion controller is told: all ports together, the largest frame.

    Ports without a rate count as ones of 100 Gb/s.
    """
    outer_bytes = 0 if config.forwarding is ForwardingMode.SRV6 else IPV6_BYTES
    return Network(
        base_rtt_ns=base_rtt_ns,
        rate_bps=sum(port.rate_bps or REFERENCE_RATE_BPS for port in config.ports),
        frame_bytes=config.path_mtu_bytes + TRIM_BYTES + ICRC_BYTES - outer_bytes,
        mss_bytes=config.path_mtu_bytes,
        trimming=config.qp.trim_nack,
    )


def _known(profiles: Mapping[int, _P], number: int, kind: str) -> _P:
    found = profiles.get(number)
    if found is None:
        there = ", ".join(map(str, sorted(profiles))) or "none"
        raise ValueError(f"{kind} profile {number} is not known; there are: {there}")
    return found
