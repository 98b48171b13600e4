"""Times that follow from a fabric."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topologies.loader import find_topology, load_topology
from topologies.model import Fabric, LinkOverride
from topologies.settings import EcnSettings, LinkSettings, QueueSettings
from topologies.timing import base_rtt_ns, furthest_pair, queueing_ns, sample_interval_ns

GBPS = LinkSettings(10**9, 100)
SMALL = Fabric(
    "small",
    planes=2,
    t0_per_plane=2,
    t1_per_plane=2,
    hosts_per_t0=2,
    host_link=GBPS,
    fabric_link=GBPS,
    host_queue=QueueSettings(12_500, 1000),
    fabric_queue=QueueSettings(25_000, 1000),
)


def test_queues_at_three_switches_may_be_full() -> None:
    assert queueing_ns(SMALL) == 200_000 + 200_000 + 100_000


def test_a_queue_that_marks_is_kept_where_marking_begins() -> None:
    marking = QueueSettings(25_000, 1000, EcnSettings(5000, 20_000))
    assert queueing_ns(replace(SMALL, fabric_queue=marking)) == 2 * 40_000 + 100_000


def test_the_slowest_link_of_a_tier_counts() -> None:
    slow = replace(SMALL, link_overrides={"p0-t0-1--p0-t1-0": LinkOverride(rate_bps=10**8)})
    assert queueing_ns(slow) == 2_000_000 + 2_000_000 + 100_000


def test_within_one_t0_there_is_one_queue_and_without_rates_none() -> None:
    assert queueing_ns(replace(SMALL, t0_per_plane=1)) == 100_000
    free = replace(SMALL, host_link=LinkSettings(), fabric_link=LinkSettings())
    assert queueing_ns(free) == 0


@pytest.mark.parametrize(
    ("name", "interval_ns"), [("eight-plane", 5000), ("two-plane", 20_000_000)]
)
def test_samples_are_about_a_round_trip_apart(name: str, interval_ns: int) -> None:
    fabric = load_topology(find_topology(name))
    assert sample_interval_ns(fabric) == interval_ns
    assert interval_ns <= 8 * base_rtt_ns(fabric, *furthest_pair(fabric))


def test_a_fabric_without_rates_and_delays_is_sampled_all_the_same() -> None:
    assert sample_interval_ns(replace(SMALL, host_link=LinkSettings(), fabric_link=LinkSettings()))
