"""Time constants for worlds in which a round trip takes milliseconds.

A NIC's defaults are for microseconds. In real time, frames cross Python processes that share a few
cores: a round trip takes a millisecond when all is quiet, and any process may have to wait many
milliseconds for its turn. So:

base RTT         measured with EV probes to each peer before the first connection with it; to that
                 comes what a full frame takes on the links, and an allowance for scheduling
rate             that of the configuration; a port without one is given one here, for without a rate
                 there is no bandwidth-delay product
ACK timeout      many base RTTs, and longer than any process waits for its turn
SACK coalescing  up to what the longest allowed delay lets: each SACK costs as many hops as a packet
probes           at intervals of the timeout, not of the RTT: they cost as much as SACKs
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from host.config import TIMEOUT_UNIT_NS, NicConfig, QpDefaults
from host.congestion import CongestionController
from host.congestion.fan_in import FanIn
from host.endpoint_settings import EndpointSettings, qp_defaults
from host.paths import EvProfile, ReverseEvs, ReverseEvSet
from host.profiles import CcProfile, MrcProfiles, network_towards
from host.timing import timeout_exponent
from host.wire.constants import ICRC_BYTES, TRIM_BYTES
from topologies.timing import WIRE_OVERHEAD_BYTES

#: What scheduling may add to a round trip without anything being congested
JITTER_NS: Final = 2_000_000
#: Nobody who shares the machine waits longer than this for its turn, or so we assume
LONGEST_WAIT_NS: Final = 120_000_000
#: Base RTTs in a local ACK timeout: the path's queues may be full
_TIMEOUT_RTTS: Final = 16
#: Of a round trip through processes that are idle, for want of a measurement
_QUIET_RTT_NS: Final = 1_000_000
#: What all ports without a rate are taken to carry together: about what processes can forward
ASSUMED_RATE_BPS: Final = 500_000_000
#: Links on the way from NIC to NIC, over a T1 and within a T0
_CROSS_T1_LINKS: Final = 4
_LOCAL_LINKS: Final = 2
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """What the user may set; None: derived from rates and base RTT."""

    timeout: int | None = None
    linear_retries: int = 7
    exponential_retries: int = 4
    assumed_rate_bps: int = ASSUMED_RATE_BPS
    sack_packets: int = 16
    sack_delay_ns: int = 500_000


def frame_time_ns(config: NicConfig, links: int) -> int:
    """What a full data frame takes to be serialised on so many links like the NIC's slowest."""
    rates = [port.rate_bps for port in config.ports if port.rate_bps is not None]
    if not rates:
        return 0
    frame_bytes = config.path_mtu_bytes + TRIM_BYTES + ICRC_BYTES + WIRE_OVERHEAD_BYTES
    return links * frame_bytes * 8 * _NS // min(rates)


def links_towards(config: NicConfig, address: int) -> int:
    """Links between the NIC and another."""
    template = config.template(address)
    local = template is not None and template.uplink_shift is None
    return _LOCAL_LINKS if local else _CROSS_T1_LINKS


def real_time_timeout(rtt_ns: int) -> int:
    """The local ACK timeout, as its exponent, for a base RTT."""
    return timeout_exponent(max(_TIMEOUT_RTTS * rtt_ns, LONGEST_WAIT_NS))


def real_time_config(
    host_json: str, options: TimingOptions, settings: EndpointSettings | None = None
) -> NicConfig:
    """The NIC of a host's configuration file, with defaults for real time.

    What `settings` say of queue pairs takes the place of these defaults. Raises ValueError, naming
    what is missing or wrong.
    """
    if settings is None:
        settings = EndpointSettings()
    config = NicConfig.from_host_json(host_json)
    timeout = options.timeout
    if timeout is None:
        timeout = real_time_timeout(_QUIET_RTT_NS + frame_time_ns(config, _CROSS_T1_LINKS))
    defaults = QpDefaults(
        timeout=timeout,
        linear_retries=options.linear_retries,
        exponential_retries=options.exponential_retries,
        sack_packets=options.sack_packets,
        sack_delay_ns=options.sack_delay_ns,
    )
    return replace(config, qp=qp_defaults(settings.qp, defaults), forwarding=settings.forwarding)


class RealTimeProfiles(MrcProfiles):
    """`MrcProfiles` for real time. `measured` are the RTTs of EV probes, by peer address."""

    def __init__(
        self,
        *,
        ev_profile: EvProfile | None = None,
        cc_profile: CcProfile | None = None,
        assumed_rate_bps: int = ASSUMED_RATE_BPS,
    ) -> None:
        super().__init__(ev_profile=ev_profile, cc_profile=cc_profile, base_rtt_ns=self._of_peer)
        self.measured: dict[int, int] = {}
        self._assumed_rate_bps = assumed_rate_bps

    def _of_peer(self, config: NicConfig, peer_address: int) -> int:
        probe_ns = self.measured.get(peer_address, _QUIET_RTT_NS)
        return probe_ns + frame_time_ns(config, links_towards(config, peer_address)) + JITTER_NS

    def learn(self, peer_address: int, rtt_ns: int) -> None:
        """A probe to a peer took so long; the least counts."""
        known = self.measured.get(peer_address)
        if known is None or rtt_ns < known:
            self.measured[peer_address] = rtt_ns

    def reverse_evs(self, config: NicConfig, peer_address: int, rng: random.Random) -> ReverseEvs:
        """As `MrcProfiles`, but probed once a timeout."""
        universe = self.ev_profile.universe(
            planes=len(config.ports),
            uplinks=config.uplinks_towards(peer_address),
            forwarding=config.forwarding,
            rng=rng,
        ).without(self.ev_profile.denied)
        interval_ns = TIMEOUT_UNIT_NS << config.qp.timeout
        return ReverseEvSet(universe, rng=rng, probe_interval_ns=interval_ns)

    def fan_in(self, config: NicConfig) -> FanIn | None:
        """As `MrcProfiles`; nothing for ports without a rate, of which nobody knows the share."""
        limited = all(port.rate_bps is not None for port in config.ports)
        return super().fan_in(config) if limited else None

    def congestion_controller(
        self, config: NicConfig, peer_address: int, profile: int | None
    ) -> CongestionController:
        """As `MrcProfiles`, with a rate for ports that have none."""
        chosen = self.cc_profile if profile is None else self.cc_profiles[profile]
        network = network_towards(config, self.base_rtt_ns(config, peer_address))
        share = self._assumed_rate_bps // len(config.ports)
        rate_bps = sum(port.rate_bps or share for port in config.ports)
        return chosen.controller(replace(network, rate_bps=rate_bps))
