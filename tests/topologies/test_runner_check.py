"""Which paths, which bursts, and whether the books balance."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.p4info import Schema, load_p4info
from controller.program import default_p4info
from tests.topologies.runner_fakes import fake_fabric
from topologies.addressing import Role, SwitchId
from topologies.model import Fabric, LinkSettings, QueueSettings
from topologies.runner.check import counters
from topologies.runner.check.burst import Burst, burst_flows, bursts
from topologies.runner.check.counters import LinkLoss, link_losses, switch_books
from topologies.runner.check.exchange import BACK_TO_BACK_PACKETS, STALL_S
from topologies.runner.check.paths import all_paths, path_flows, safe_window, stall_time_s

small = st.integers(1, 3)


@given(small, small, small, small)
def test_every_pair_has_every_path_once(planes: int, t0s: int, t1s: int, hosts: int) -> None:
    fabric = Fabric("any", planes, t0s, t1s, hosts)
    paths = list(all_paths(fabric))
    local = t0s * hosts * (hosts - 1) * planes
    across = t0s * (t0s - 1) * hosts * hosts * planes * t1s
    assert len(paths) == local + across
    assert len({(path.source, path.destination, path.path) for path in paths}) == len(paths)
    assert all(path.source != path.destination for path in paths)


def test_flows_have_qps_and_ports_of_their_own_plane() -> None:
    fabric = Fabric("two", 2, 2, 1, 1)
    with fake_fabric(fabric) as fake:
        flows = path_flows(fabric, fake.ports, 5, 3)
    assert [flow.write.qp for _, flow in flows] == [5, 6, 7, 8]
    for path, flow in flows:
        assert (flow.source.host, flow.source.plane) == (path.source.name, path.path.plane)
        assert (flow.destination.host, flow.write.packets) == (path.destination.name, 3)
    assert flows[1][0].name == "h0 → p1-t0-0 → p1-t1-0 → p1-t0-1 → h1"


@pytest.mark.parametrize(
    ("limit", "window"), [(1000, 1), (4234, 1), (3 * 4234, 2), (10**9, BACK_TO_BACK_PACKETS)]
)
def test_the_safe_window_never_fills_a_queue(limit: int, window: int) -> None:
    fabric = Fabric("q", 1, 2, 1, 1, host_queue=QueueSettings(limit, limit))
    if limit > 64 * 1024:
        fabric = Fabric("q", 1, 2, 1, 1, host_queue=QueueSettings(limit, limit),
                        fabric_queue=QueueSettings(limit, limit))  # fmt: skip
    assert safe_window(fabric, 4234) == window
    assert window == 1 or window * 4234 <= limit


def test_a_slow_link_is_waited_for() -> None:
    fabric = Fabric("slow", 1, 2, 1, 1)
    assert stall_time_s(fabric, 10) == STALL_S
    assert stall_time_s(fabric, 10, 1_000_000) == pytest.approx(STALL_S + 10 * 4238 * 8 / 1e6)
    slow = Fabric("slow", 1, 2, 1, 1, host_link=LinkSettings(rate_bps=10_000))
    assert stall_time_s(slow, 1, 1_000_000) == pytest.approx(STALL_S + 4238 * 8 / 1e4)


def test_bursts_meet_at_the_last_host_and_at_an_uplink() -> None:
    fabric = Fabric("two", 2, 2, 2, 2)
    incast, uplink = bursts(fabric)
    assert (incast.switch, incast.port, incast.towards) == (SwitchId(0, Role.T0, 1), 1, "h3")
    assert incast.trimmed_dscp == fabric.traffic.trimmed_lasthop
    assert len(incast.paths) == 3
    assert (uplink.switch, uplink.port) == (SwitchId(0, Role.T0, 0), 2)
    assert uplink.towards == "p0-t1-0"
    assert uplink.trimmed_dscp == fabric.traffic.trimmed
    # Every packet of a burst crosses its port
    for burst in (incast, uplink):
        for path in burst.paths:
            assert burst.switch in path.switches
    assert all(path.uplink == 0 for path in uplink.paths)


def test_a_fabric_of_one_t0_has_the_incast_only_and_of_one_host_none() -> None:
    assert len(list(bursts(Fabric("one", 1, 1, 1, 2)))) == 1
    assert list(bursts(Fabric("lonely", 1, 1, 1, 1))) == []


@given(st.integers(5000, 10**6), st.integers(100, 9000), st.integers(1, 32))
def test_a_burst_is_more_than_a_queue_holds(queue_bytes: int, frame_bytes: int, safe: int) -> None:
    burst = Burst(SwitchId(0, Role.T0, 0), 0, "h0", (), queue_bytes, 1000, 16)
    window, packets = burst.sizes(frame_bytes, safe)
    assert window * frame_bytes > queue_bytes
    assert packets <= 2000
    assert packets == 2000 or packets > window


@pytest.mark.parametrize(
    ("link_bps", "slowed_bps"), [(None, 1_000_000), (25_000_000, 1_000_000), (100_000, 25_000)]
)
def test_the_slowed_port_is_slower_than_any_link(link_bps: int | None, slowed_bps: int) -> None:
    links = LinkSettings(rate_bps=link_bps)
    fabric = Fabric("any", 1, 2, 1, 1, host_link=links, fabric_link=links)
    assert [burst.rate_bps for burst in bursts(fabric)] == [slowed_bps, slowed_bps]


def test_a_burst_is_shared_among_its_senders() -> None:
    fabric = Fabric("two", 1, 2, 2, 2)
    incast = next(bursts(fabric))
    with fake_fabric(fabric) as fake:
        flows = burst_flows(fabric, incast, fake.ports, 10, 8)
        assert [flow.write.packets for flow in flows] == [3, 3, 2]
        assert [flow.source.host for flow in flows] == ["h0", "h1", "h2"]
        assert {flow.destination.host for flow in flows} == {"h3"}
        # Fewer packets than senders: nobody sends an empty write
        assert len(burst_flows(fabric, incast, fake.ports, 10, 2)) == 2


# --- the books ---


def test_a_balanced_switch_has_nothing_uncounted() -> None:
    books = switch_books(
        {
            ("received", 0): 10,
            ("received", 1): 5,
            ("sent_data", 1): 7,
            ("sent_control", 0): 4,
            ("trimmed", 1): 2,
            ("dropped_hop_limit", 0): 1,
            ("dropped_data_full", 0): 3,
            ("dropped_no_route", 0): 0,
        }
    )
    assert books.received == 15
    assert books.dropped == Counter({"data_full": 3, "hop_limit": 1})
    assert books.uncounted == 0
    assert switch_books({("received", 0): 3, ("sent_data", 1): 1}).uncounted == 2


def test_every_counter_of_the_program_has_a_place_in_the_books() -> None:
    """A counter that is renamed must not make the balance come out by reading nothing."""
    schema = Schema(load_p4info(default_p4info()))
    names = {counters.short_name(counter.name) for counter in schema.counters}
    known = {"received", "sent_data", "sent_control", "trimmed", "marked_ce"}
    assert known <= names
    assert all(name.startswith("dropped_") for name in names - known)


def test_difference_is_cell_by_cell() -> None:
    assert counters.difference({("received", 0): 9, ("received", 1): 2}, {("received", 0): 4}) == {
        ("received", 0): 5,
        ("received", 1): 2,
    }


def one_host_fabric() -> Fabric:
    return Fabric("one", 1, 1, 1, 1)


def test_links_whose_ends_agree_lose_nothing() -> None:
    cells = {
        "p0-t0-0": {("received", 0): 3, ("sent_data", 1): 2, ("sent_control", 1): 1},
        "p0-t1-0": {("received", 0): 3},
    }
    assert link_losses(one_host_fabric(), cells, {("h0", 0): 3}, {("h0", 0): 0}) == []


def test_a_link_that_lost_packets_is_named() -> None:
    cells = {
        "p0-t0-0": {("received", 0): 2, ("sent_data", 1): 2, ("sent_control", 0): 1},
        "p0-t1-0": {("received", 0): 1},
    }
    losses = link_losses(one_host_fabric(), cells, {("h0", 0): 3}, {("h0", 0): 0})
    assert losses == [
        LinkLoss("h0", "p0-t0-0", 3, 2),
        LinkLoss("p0-t0-0", "h0", 1, 0),
        LinkLoss("p0-t0-0", "p0-t1-0", 2, 1),
    ]


def test_links_of_a_switch_that_was_not_read_are_left_out() -> None:
    cells = {"p0-t0-0": {("received", 0): 3, ("sent_data", 1): 3}}
    assert link_losses(one_host_fabric(), cells, {("h0", 0): 3}, {}) == []
