"""The endpoint settings of a scenario, for all of its NICs."""

from __future__ import annotations

from typing import Any

from host.config import ForwardingMode, NicConfig
from host.endpoint_settings import cc_profile, ev_profile, forwarding_mode, qp_defaults
from host.profiles import MrcProfiles
from host.roce import RoceConfig
from host.roce.config import ROCE_QP_DEFAULTS
from host.roce.settings import roce_config
from host.timing import qp_defaults_of
from topologies.scenario import Scenario
from topologies.timing import base_rtt_ns, furthest_pair, queueing_ns

ROCE = "roce"


def make_profiles(scenario: Scenario) -> MrcProfiles | None:
    """EV profile and congestion control of all NICs, if they are MRC's. Raises SettingsError."""
    if scenario.endpoint.transport == ROCE:
        return None
    fabric = scenario.fabric

    def base_rtt(config: NicConfig, peer_address: int) -> int:
        peer = fabric.host_at(fabric.addresses.host_of_address(peer_address))
        return base_rtt_ns(fabric, fabric.host_at(config.id), peer)

    return MrcProfiles(
        ev_profile=ev_profile(scenario.endpoint.evs),
        cc_profile=cc_profile(scenario.endpoint.congestion),
        base_rtt_ns=base_rtt,
        # Little more than a round trip, of those who are furthest away
        fan_in_interval_ns=3 * base_rtt_ns(fabric, *furthest_pair(fabric)) // 2 or None,
    )


def make_roce(scenario: Scenario) -> RoceConfig | None:
    """Settings of all NICs, if they are RoCE's. Raises SettingsError."""
    endpoint = scenario.endpoint
    return roce_config(endpoint.roce, endpoint.congestion) if endpoint.transport == ROCE else None


def nic_changes(scenario: Scenario) -> dict[str, Any]:
    """Fields of `NicConfig` that the scenario sets, and times that its fabric asks for.

    Raises SettingsError.
    """
    endpoint, fabric = scenario.endpoint, scenario.fabric
    if endpoint.transport == ROCE:
        return {
            "qp": qp_defaults(endpoint.qp, ROCE_QP_DEFAULTS),
            "forwarding": ForwardingMode.ECMP,
        }
    base = qp_defaults_of(
        base_rtt_ns(fabric, *furthest_pair(fabric)),
        queueing_ns(fabric),
        # Retries follow from the timeout; what kind of value it is, is looked at below
        timeout if isinstance(timeout := endpoint.qp.get("timeout"), int) else None,
    )
    return {
        "qp": qp_defaults(endpoint.qp, base),
        "forwarding": forwarding_mode(endpoint.forwarding),
    }
