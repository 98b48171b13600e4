"""Time constants follow rates and measured round trips."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from host.agent.agent import interfaces_of
from host.agent.errors import UsageError
from host.agent.timing import (
    JITTER_NS,
    LONGEST_WAIT_NS,
    RealTimeProfiles,
    TimingOptions,
    frame_time_ns,
    links_towards,
    real_time_config,
    real_time_timeout,
)
from host.config import TIMEOUT_UNIT_NS, ForwardingMode, PortConfig
from host.congestion.nscc import Nscc
from host.endpoint_settings import EndpointSettings
from host.profiles import CcProfile
from tests.host.agent.world import host_document
from topologies.model import Fabric

MBPS_25 = replace(
    real_time_config(host_document("h0"), TimingOptions()),
    ports=(PortConfig(1, 2, 25_000_000), PortConfig(3, 4, 50_000_000)),
)
FREE = real_time_config(host_document("h0"), TimingOptions())
LOCAL, CROSS = (
    real_time_config(host_document(host), TimingOptions()).address for host in ("h1", "h2")
)


def test_timeouts_outlast_what_a_process_may_have_to_wait() -> None:
    assert TIMEOUT_UNIT_NS << real_time_timeout(0) >= LONGEST_WAIT_NS
    assert TIMEOUT_UNIT_NS << real_time_timeout(0) < 2 * LONGEST_WAIT_NS
    assert TIMEOUT_UNIT_NS << real_time_timeout(100_000_000) >= 16 * 100_000_000
    assert real_time_timeout(10**15) == 24


def test_a_slow_link_makes_for_a_long_timeout() -> None:
    slow = Fabric("slow", planes=1, t0_per_plane=1, t1_per_plane=1, hosts_per_t0=2)
    text = host_document("h0", slow).replace('"rate_bps": null', '"rate_bps": 1000000')
    slow_config = real_time_config(text, TimingOptions())
    assert slow_config.qp.timeout > FREE.qp.timeout
    assert real_time_config(text, TimingOptions(timeout=9)).qp.timeout == 9


def test_a_frame_takes_its_bits_on_every_link() -> None:
    frame_bits = (4096 + 142 + 4 + 24) * 8
    assert frame_time_ns(MBPS_25, 1) == frame_bits * 40
    assert frame_time_ns(FREE, 4) == 0
    assert links_towards(FREE, CROSS) == 4
    assert links_towards(FREE, LOCAL) == 2


def test_the_base_rtt_is_the_least_probe_and_what_a_full_frame_adds() -> None:
    profiles = RealTimeProfiles()
    profiles.learn(CROSS, 700_000)
    profiles.learn(CROSS, 500_000)
    profiles.learn(CROSS, 900_000)
    assert profiles.base_rtt_ns(FREE, CROSS) == 500_000 + JITTER_NS
    expected_ns = 500_000 + frame_time_ns(MBPS_25, 4) + JITTER_NS
    assert profiles.base_rtt_ns(MBPS_25, CROSS) == expected_ns
    # Not measured: not 0, which would be taken for "measure it yourself"
    assert profiles.base_rtt_ns(FREE, LOCAL) > JITTER_NS


def test_ports_without_a_rate_get_one_for_congestion_control() -> None:
    profiles = RealTimeProfiles(assumed_rate_bps=400_000_000)
    controller = profiles.congestion_controller(FREE, CROSS, None)
    assert isinstance(controller, Nscc)
    assert controller.network.rate_bps == 400_000_000
    limited = profiles.congestion_controller(MBPS_25, CROSS, None)
    assert isinstance(limited, Nscc)
    assert limited.network.rate_bps == 75_000_000
    half = replace(FREE, ports=(FREE.ports[0], PortConfig(3, 4, 50_000_000)))
    mixed = profiles.congestion_controller(half, CROSS, None)
    assert isinstance(mixed, Nscc)
    assert mixed.network.rate_bps == 250_000_000
    none = RealTimeProfiles(cc_profile=CcProfile(algorithm=None))
    assert none.congestion_controller(FREE, CROSS, None).cwnd_bytes > 1 << 40


def test_only_ports_with_rates_ask_for_smaller_windows() -> None:
    profiles = RealTimeProfiles()
    assert profiles.fan_in(MBPS_25) is not None
    assert profiles.fan_in(FREE) is None
    assert profiles.fan_in(replace(FREE, ports=(FREE.ports[0], MBPS_25.ports[0]))) is None


def test_reverse_evs_are_probed_once_a_timeout() -> None:
    evs = RealTimeProfiles().reverse_evs(FREE, CROSS, random.Random(1))
    timeout_ns = TIMEOUT_UNIT_NS << FREE.qp.timeout
    probes = 0
    # A control packet and its answer every ms, for 20 timeouts
    for now_ns in range(0, 20 * timeout_ns, 1_000_000):
        ev = evs.select(0b11)
        assert ev is not None
        evs.answers_on(evs.plane_of(ev))
        while (probed := evs.next_probe(now_ns)) is not None:
            probes += 1
            evs.refresh(probed, now_ns)
    assert 5 <= probes <= 21


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not a host configuration"),
        ("{}", "interface_mtu_bytes is missing"),
        ('{"interface_mtu_bytes": 9000, "interfaces": [{"name": "x"}]}', "plane is missing"),
        ('{"interface_mtu_bytes": "x", "interfaces": []}', "not a host configuration"),
    ],
)
def test_what_is_no_host_configuration(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        interfaces_of(text)


def test_interfaces_are_those_of_the_planes_in_order() -> None:
    assert [name for name, _ in interfaces_of(host_document("h0"))] == ["plane0", "plane1"]


def test_settings_of_an_endpoint_take_the_place_of_defaults() -> None:
    settings = EndpointSettings(ForwardingMode.ECMP, {"sack_packets": 3, "trim_nack": False})
    config = real_time_config(host_document("h0"), TimingOptions(), settings)
    assert config.forwarding is ForwardingMode.ECMP
    assert config.qp == replace(FREE.qp, sack_packets=3, trim_nack=False)
