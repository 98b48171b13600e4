"""The endpoint settings of a scenario, for all of its NICs."""

from __future__ import annotations

from typing import Any

from host.config import NicConfig
from host.endpoint_settings import cc_profile, ev_profile, forwarding_mode, qp_defaults
from host.profiles import MrcProfiles
from topologies.scenario import Scenario
from topologies.timing import base_rtt_ns


def make_profiles(scenario: Scenario) -> MrcProfiles:
    """EV profile and congestion control of all NICs. Raises SettingsError."""
    fabric = scenario.fabric

    def base_rtt(config: NicConfig, peer_address: int) -> int:
        peer = fabric.host_at(fabric.addresses.host_of_address(peer_address))
        return base_rtt_ns(fabric, fabric.host_at(config.id), peer)

    return MrcProfiles(
        ev_profile=ev_profile(scenario.endpoint.evs),
        cc_profile=cc_profile(scenario.endpoint.congestion),
        base_rtt_ns=base_rtt,
    )


def nic_changes(scenario: Scenario) -> dict[str, Any]:
    """Fields of `NicConfig` that the scenario sets. Raises SettingsError."""
    endpoint = scenario.endpoint
    return {"qp": qp_defaults(endpoint.qp), "forwarding": forwarding_mode(endpoint.forwarding)}
