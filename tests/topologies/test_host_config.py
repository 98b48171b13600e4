"""A host's configuration file says all that its endpoint needs, and reads back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import host_config as hc
from topologies.addressing import AddressingError, HostId
from topologies.generate import generate
from topologies.loader import load_topology, ready_topologies
from topologies.model import Fabric

TWO_PLANE = load_topology(ready_topologies()["two-plane"])


@given(
    st.builds(generate, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4)),
    st.data(),
)
def test_every_destination_address_follows_from_the_file(
    fabric: Fabric, data: st.DataObject
) -> None:
    hosts = st.integers(0, fabric.host_count - 1).map(fabric.host_of_number)
    source, destination = data.draw(hosts), data.draw(hosts)
    text = json.dumps(hc.host_json(hc.host_config(fabric, source)))
    config = hc.parse_host_json(text)
    template = config.destination(fabric.addresses.host_address(destination.id))
    for path in fabric.paths(source, destination):
        assert template.address(path.ev) == fabric.addresses.carrier_of_path(path)


def test_file_reads_back_as_it_was() -> None:
    for host in TWO_PLANE.hosts():
        config = hc.host_config(TWO_PLANE, host)
        assert hc.parse_host_json(json.dumps(hc.host_json(config))) == config


def test_file_reads_as_documented() -> None:
    document = hc.host_json(hc.host_config(TWO_PLANE, TWO_PLANE.host("h3")))
    assert document["address"] == "fd4d:5243:0:1::2"
    assert (document["t0"], document["downlink"]) == (1, 1)
    assert document["interfaces"][1] == {
        "plane": 1,
        "name": "plane1",
        "mac": "06:01:00:01:00:01",
        "gateway_mac": "02:00:28:01:00:01",
        "switch": "p1-t0-1",
        "switch_port": 1,
        "rate_bps": 25_000_000,
        "delay_ns": 0,
    }
    assert document["destinations"] == [
        {
            "t0": 0,
            "prefix": "fd4d:5243::/64",
            "hosts": 2,
            "base": "5f00:0:801:1000:800:1800::",
            "plane_shifts": [45, 61, 77, 93],
            "uplink_shift": 64,
            "downlink_shift": 32,
        },
        {
            "t0": 1,
            "prefix": "fd4d:5243:0:1::/64",
            "hosts": 2,
            "base": "5f00:0:801:1800::",
            "plane_shifts": [77, 93],
            "uplink_shift": None,
            "downlink_shift": 64,
        },
    ]
    assert document["ev"]["planes"] == document["ev"]["uplinks"] == 2
    assert document["dscp"]["control"] == 46


def test_gateways_are_the_switch_ports_at_the_far_end() -> None:
    for host in TWO_PLANE.hosts():
        for interface in hc.interfaces(TWO_PLANE, host):
            port = list(TWO_PLANE.ports(TWO_PLANE.switch(interface.switch).id))[
                interface.switch_port
            ]
            assert (port.mac, port.peer_mac) == (interface.gateway_mac, interface.mac)
            assert port.peer.node == host.name


def test_addresses_of_no_host_have_no_template() -> None:
    config = hc.host_config(TWO_PLANE, TWO_PLANE.host("h0"))
    for stranger in (HostId(2, 0), HostId(1, 2)):
        with pytest.raises(AddressingError):
            config.destination(TWO_PLANE.addresses.host_address(stranger))
    with pytest.raises(AddressingError):
        config.destination(TWO_PLANE.addresses.t0_prefix(1)[0])


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"destinations": 3}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        hc.parse_host_json(text)


def test_a_missing_member_is_named() -> None:
    document = hc.host_json(hc.host_config(TWO_PLANE, TWO_PLANE.host("h0")))
    del document["udp_port"]
    with pytest.raises(ValueError, match="udp_port is missing"):
        hc.parse_host_json(json.dumps(document))
