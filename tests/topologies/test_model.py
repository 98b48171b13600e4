"""The fabric: numbering, links, and what hangs on every port."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import addressing
from topologies.addressing import HostId, Path, Role, SwitchId
from topologies.generate import generate
from topologies.model import (
    EcnSettings,
    Fabric,
    GrpcSettings,
    LinkEnd,
    LinkOverride,
    LinkSettings,
    QueueSettings,
    Tier,
    TopologyError,
)
from topologies.runner.deployment import interface_of

FABRIC = Fabric(
    "test",
    planes=2,
    t0_per_plane=3,
    t1_per_plane=2,
    hosts_per_t0=4,
    host_link=LinkSettings(rate_bps=100, delay_ns=5),
    fabric_link=LinkSettings(rate_bps=200, delay_ns=7),
    host_queue=QueueSettings(10, 20),
    fabric_queue=QueueSettings(30, 40, EcnSettings(1, 2, 0.5)),
)

fabrics = st.builds(
    generate, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4)
)


def test_an_end_of_a_link_is_a_host_s_or_a_switch_s() -> None:
    host, fabric = FABRIC.link("p1-t0-2", "h8"), FABRIC.link("p1-t0-2", "p1-t1-0")
    ends = (host.lower, host.upper, fabric.lower, fabric.upper)
    assert [end.is_host for end in ends] == [True, False, False, False]
    assert [interface_of(end) for end in ends] == ["plane1", "port0", "port4", "port2"]


def test_ports_are_numbered_as_documented() -> None:
    t0 = SwitchId(1, Role.T0, 2)
    assert [port.peer for port in FABRIC.ports(t0)] == [
        LinkEnd("h8", 1),
        LinkEnd("h9", 1),
        LinkEnd("h10", 1),
        LinkEnd("h11", 1),
        LinkEnd("p1-t1-0", 2),
        LinkEnd("p1-t1-1", 2),
    ]
    t1 = SwitchId(1, Role.T1, 1)
    assert [port.peer for port in FABRIC.ports(t1)] == [
        LinkEnd("p1-t0-0", 5),
        LinkEnd("p1-t0-1", 5),
        LinkEnd("p1-t0-2", 5),
    ]


def test_ports_carry_the_settings_of_their_tier() -> None:
    ports = list(FABRIC.ports(SwitchId(0, Role.T0, 0)))
    assert [(p.tier, p.rate_bps, p.delay_ns, p.queue) for p in (ports[0], ports[4])] == [
        (Tier.HOST, 100, 5, FABRIC.host_queue),
        (Tier.FABRIC, 200, 7, FABRIC.fabric_queue),
    ]
    assert ports[0].next_usid == addressing.encode_usid(0, Role.DOWNLINK, 0)
    assert ports[5].next_usid == SwitchId(0, Role.T1, 1).usid


@given(fabrics)
def test_every_link_has_a_port_at_both_ends(fabric: Fabric) -> None:
    links = list(fabric.links())
    assert len(links) == fabric.link_count
    assert len({link.name for link in links}) == fabric.link_count
    ends = Counter(end for link in links for end in (link.lower, link.upper))
    assert set(ends.values()) == {1}

    at = {link.lower: link for link in links} | {link.upper: link for link in links}
    macs = set()
    for switch in fabric.switches():
        ports = list(fabric.ports(switch.id))
        assert [port.number for port in ports] == list(range(fabric.port_count(switch.id)))
        for port in ports:
            link = at[LinkEnd(switch.name, port.number)]
            assert port.peer in (link.lower, link.upper)
            assert (port.rate_bps, port.delay_ns) == (link.rate_bps, link.delay_ns)
            macs.add(port.mac)
            if port.tier is Tier.HOST:
                host = fabric.host(port.peer.node)
                assert addressing.port_of_nic_mac(port.peer_mac) == (port.peer.port, host.id)
            else:
                peer = fabric.switch(port.peer.node).id
                assert addressing.port_of_switch_mac(port.peer_mac) == (peer, port.peer.port)
    assert len(macs) == sum(fabric.port_count(switch.id) for switch in fabric.switches())


@given(fabrics)
def test_nodes_are_found_by_name_and_numbered_in_order(fabric: Fabric) -> None:
    switches = list(fabric.switches())
    assert len(switches) == fabric.switch_count
    assert [switch.ordinal for switch in switches] == list(range(fabric.switch_count))
    assert all(fabric.switch(switch.name) == switch for switch in switches)
    hosts = list(fabric.hosts())
    assert len(hosts) == fabric.host_count
    for host in hosts:
        assert fabric.host(host.name) == fabric.host_at(host.id) == host


@given(fabrics, st.data())
def test_path_and_links_name_each_other(fabric: Fabric, data: st.DataObject) -> None:
    hosts = st.integers(0, fabric.host_count - 1).map(fabric.host_of_number)
    source, destination = data.draw(hosts), data.draw(hosts)
    paths = list(fabric.paths(source, destination))
    assert len({path.ev for path in paths}) == len(paths)
    for path in paths:
        links = fabric.links_of_path(path)
        assert {link.plane for link in links} == {path.plane}
        assert source.name in (links[0].lower.node, links[0].upper.node)
        assert destination.name in (links[-1].lower.node, links[-1].upper.node)
        assert fabric.path_of_links(links, source, destination) == path


def test_links_that_are_no_path_are_refused() -> None:
    source, destination = FABRIC.host("h0"), FABRIC.host("h11")
    links = FABRIC.links_of_path(Path(0, source.id, destination.id, 1))
    for wrong in (links[:-1], links[::-1], (*links[:1], FABRIC.link("p1-t0-0", "p1-t1-0"))):
        with pytest.raises(TopologyError):
            FABRIC.path_of_links(wrong, source, destination)


def test_paths_of_a_t0_and_across() -> None:
    h0, h1, h4 = (FABRIC.host(name) for name in ("h0", "h1", "h4"))
    assert [(path.plane, path.uplink) for path in FABRIC.paths(h0, h1)] == [(0, None), (1, None)]
    assert [(path.plane, path.uplink) for path in FABRIC.paths(h0, h4)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


@pytest.mark.parametrize(
    ("node", "other", "message"),
    [
        ("h0", "p0-t0-1", "no link joins h0 and p0-t0-1"),
        ("h0", "p0-t1-0", "no link joins"),
        ("p0-t0-0", "p1-t1-0", "no link joins"),
        ("p0-t0-0", "p0-t0-1", "no link joins"),
        ("h0", "h1", "no link joins"),
        ("h0", "h99", "h99 is not in test, which has hosts h0..h11"),
        ("p0-t0-3", "h0", "p0-t0-3 is not in test"),
        ("x", "h0", "'x' is not the name of a switch"),
    ],
)
def test_no_link_there(node: str, other: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FABRIC.link(node, other)
    with pytest.raises(TopologyError):
        FABRIC.link(other, node)


def test_link_is_found_in_either_order() -> None:
    assert FABRIC.link("p0-t0-1", "h5") == FABRIC.link("h5", "p0-t0-1")
    assert FABRIC.link("p0-t1-1", "p0-t0-2") == FABRIC.link("p0-t0-2", "p0-t1-1")
    assert FABRIC.link("h5", "p0-t0-1").name == "h5--p0-t0-1"
    assert FABRIC.link("p0-t1-1", "p0-t0-2").name == "p0-t0-2--p0-t1-1"


def test_overrides_touch_one_link_at_both_ends() -> None:
    fabric = replace(
        FABRIC,
        link_overrides={
            "p0-t0-1--p0-t1-1": LinkOverride(rate_bps=50),
            "h0--p1-t0-0": LinkOverride(unlimited=True, delay_ns=9),
        },
    )
    slow = fabric.link("p0-t0-1", "p0-t1-1")
    assert (slow.rate_bps, slow.delay_ns) == (50, 7)
    at_t0 = list(fabric.ports(SwitchId(0, Role.T0, 1)))[fabric.uplink_port(1)]
    at_t1 = list(fabric.ports(SwitchId(0, Role.T1, 1)))[1]
    assert (at_t0.rate_bps, at_t1.rate_bps) == (50, 50)
    free = fabric.link("h0", "p1-t0-0")
    assert (free.rate_bps, free.delay_ns) == (None, 9)
    differing = [
        link.name
        for link, other in zip(fabric.links(), FABRIC.links(), strict=True)
        if link != other
    ]
    assert differing == ["p0-t0-1--p0-t1-1", "h0--p1-t0-0"]


@pytest.mark.parametrize("name", ["p0-t1-1--p0-t0-1", "h0--p0-t0-2", "nonsense"])
def test_overrides_of_no_link_are_refused(name: str) -> None:
    with pytest.raises(TopologyError):
        replace(FABRIC, link_overrides={name: LinkOverride(rate_bps=1)})


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((9, 1, 1, 1), "planes: 9 does not fit: it must be 1..8"),
        ((0, 1, 1, 1), "planes: 0 does not fit"),
        ((1, 2049, 1, 1), "t0_per_plane: 2049 does not fit: it must be 1..2048"),
        ((1, 1, 0, 1), "t1_per_plane: 0 does not fit"),
        ((1, 1, 1, 2049), "hosts_per_t0: 2049 does not fit"),
    ],
)
def test_counts_that_do_not_fit_are_refused(
    counts: tuple[int, int, int, int], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        Fabric("test", *counts)


def test_grpc_addresses_follow_the_order_of_switches() -> None:
    addresses = [FABRIC.grpc_address(switch) for switch in FABRIC.switches()]
    assert addresses == [f"127.0.0.1:{50001 + ordinal}" for ordinal in range(10)]
    over_ipv6 = replace(FABRIC, grpc=replace(FABRIC.grpc, host="::1"))
    assert over_ipv6.grpc_address(next(over_ipv6.switches())) == "[::1]:50001"
    at_the_end = replace(FABRIC, grpc=GrpcSettings(base_port=65535))
    first, second, *_ = at_the_end.switches()
    assert at_the_end.grpc_address(first) == "127.0.0.1:65535"
    with pytest.raises(TopologyError, match="65535 leaves no TCP port for p0-t0-1"):
        at_the_end.grpc_address(second)


def test_target_has_one_port_less_than_nine_bits() -> None:
    replace(FABRIC, hosts_per_t0=509).check_target()
    with pytest.raises(TopologyError, match="a T0 needs 512 ports, the target has 511"):
        replace(FABRIC, hosts_per_t0=510).check_target()
    with pytest.raises(TopologyError, match="a T1 needs 512 ports, the target has 511"):
        replace(FABRIC, t0_per_plane=512).check_target()


def test_trim_sizes_are_the_headers_of_a_write_with_timestamp_and_immediate() -> None:
    assert FABRIC.trim.mrc_bytes == 14 + 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4 == 142
    assert FABRIC.trim.udp_bytes == 142 - 40


def test_interface_takes_a_full_packet_with_srh() -> None:
    assert FABRIC.interface_mtu_bytes >= 4096 + 4 + FABRIC.trim.mrc_bytes - 14 + 24


def test_full_scale_is_listed_lazily() -> None:
    fabric = Fabric("paper", 8, 512, 256, 256)
    assert (fabric.switch_count, fabric.host_count) == (6144, 131_072)
    assert next(fabric.links()).name == "h0--p0-t0-0"
    assert fabric.host("h131071").id == HostId(511, 255)


def test_fabric_travels_between_processes() -> None:
    fabric = replace(FABRIC, link_overrides={"h0--p0-t0-0": LinkOverride(rate_bps=1)})
    assert pickle.loads(pickle.dumps(fabric)) == fabric
    assert hash(fabric) == hash(pickle.loads(pickle.dumps(fabric)))
