"""Every mapping of the addressing plan has an inverse, and says what does not fit."""

from __future__ import annotations

import itertools
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topologies import addressing
from topologies.addressing import (
    AddressingError,
    AddressPlan,
    HostId,
    Path,
    Role,
    SwitchId,
    decode_ev,
    decode_usid,
    encode_ev,
    encode_usid,
    path_of_ev,
    path_of_switches,
)

PLAN = AddressPlan()

planes = st.integers(0, 7)
indexes = st.integers(0, 2047)
roles = st.sampled_from(Role)
switch_ids = st.builds(SwitchId, planes, st.sampled_from([Role.T0, Role.T1]), indexes)
host_ids = st.builds(HostId, indexes, indexes)
blocks = st.integers(1, 0xFBFF_FFFF).map(lambda block: IPv6Network((block << 96, 32)))
plans = st.builds(
    AddressPlan,
    locator_block=blocks,
    host_prefix=st.integers(0xFC00_0000_0000, 0xFDFF_FFFF_FFFF).map(
        lambda prefix: IPv6Network((prefix << 80, 48))
    ),
)


@st.composite
def paths(draw: st.DrawFn) -> Path:
    source, destination = draw(host_ids), draw(host_ids)
    uplink = draw(indexes if source.t0 != destination.t0 else st.none() | indexes)
    return Path(draw(planes), source, destination, uplink)


@given(planes, roles, indexes)
def test_usid_is_reversible_and_never_zero(plane: int, role: Role, index: int) -> None:
    usid = encode_usid(plane, role, index)
    assert 0 < usid < 1 << 16
    assert decode_usid(usid) == (plane, role, index)


@given(st.integers(0, 0xFFFF))
def test_every_16_bit_number_is_a_usid_or_refused(usid: int) -> None:
    if usid >> 11 & 3 == 0:
        with pytest.raises(AddressingError, match="role 0"):
            decode_usid(usid)
    else:
        assert encode_usid(*decode_usid(usid)) == usid


def test_usid_bits_stand_where_the_plan_says() -> None:
    assert encode_usid(0, Role.T0, 0) == 0x0800
    assert encode_usid(7, Role.T0, 511) == 0xE9FF
    assert encode_usid(1, Role.T1, 3) == 0x3003
    assert encode_usid(0, Role.DOWNLINK, 255) == 0x18FF


@pytest.mark.parametrize(
    ("plane", "index", "message"),
    [
        (8, 0, r"plane 8 does not fit: it must be 0\.\.7"),
        (-1, 0, r"plane -1 does not fit: it must be 0\.\.7"),
        (0, 2048, r"T1 index 2048 does not fit: it must be 0\.\.2047"),
    ],
)
def test_usid_says_what_does_not_fit(plane: int, index: int, message: str) -> None:
    with pytest.raises(AddressingError, match=message):
        encode_usid(plane, Role.T1, index)


@given(switch_ids)
def test_switch_names_and_device_ids_are_reversible(switch: SwitchId) -> None:
    assert addressing.parse_switch_name(switch.name) == switch
    assert addressing.switch_id_of_device(switch.device_id) == switch
    assert switch.device_id > 0


def test_names_read_as_documented() -> None:
    assert SwitchId(0, Role.T0, 1).name == "p0-t0-1"
    assert SwitchId(3, Role.T1, 12).name == "p3-t1-12"
    assert addressing.parse_host_name("h3") == 3


@pytest.mark.parametrize("name", ["", "p0", "p0-t2-0", "p0-t0-01", "P0-t0-0", "p0-t0-0 ", "h1"])
def test_other_names_are_no_switch(name: str) -> None:
    with pytest.raises(AddressingError, match="not the name of a switch"):
        addressing.parse_switch_name(name)


@pytest.mark.parametrize("name", ["", "h", "h01", "3", "h-1", "p0-t0-0"])
def test_other_names_are_no_host(name: str) -> None:
    with pytest.raises(AddressingError, match="not the name of a host"):
        addressing.parse_host_name(name)


def test_a_switch_name_whose_numbers_do_not_fit_is_refused() -> None:
    with pytest.raises(AddressingError, match=r"p9-t0-0: plane 9 does not fit"):
        addressing.parse_switch_name("p9-t0-0")
    with pytest.raises(AddressingError, match=r"p0-t1-2048: index 2048 does not fit"):
        addressing.parse_switch_name("p0-t1-2048")


def test_a_downlink_is_no_device() -> None:
    with pytest.raises(AddressingError, match="host downlink"):
        addressing.switch_id_of_device(encode_usid(0, Role.DOWNLINK, 0))


# --- entropy values and paths ---


@given(planes, indexes)
def test_ev_is_reversible(plane: int, uplink: int) -> None:
    ev = encode_ev(plane, uplink)
    assert 0 <= ev < 1 << 32
    assert decode_ev(ev) == (plane, uplink)


@given(st.integers(0, 2**32 - 1))
def test_every_32_bit_number_is_an_ev_or_refused(ev: int) -> None:
    if ev >> 14:
        with pytest.raises(AddressingError, match="names no path"):
            decode_ev(ev)
    else:
        assert encode_ev(*decode_ev(ev)) == ev


@given(paths())
def test_ev_and_path_name_each_other(path: Path) -> None:
    # A path over a T1 back to the own T0 is a probe's; no data packet's EV means it
    assume(path.uplink is None or path.source.t0 != path.destination.t0)
    assert path_of_ev(path.ev, path.source, path.destination) == path


@given(st.integers(0, 2**14 - 1), host_ids, host_ids)
def test_path_and_ev_name_each_other(ev: int, source: HostId, destination: HostId) -> None:
    if source.t0 == destination.t0 and ev >> 3:
        with pytest.raises(AddressingError, match="one path a plane"):
            path_of_ev(ev, source, destination)
    else:
        assert path_of_ev(ev, source, destination).ev == ev


@given(paths())
def test_path_and_switches_name_each_other(path: Path) -> None:
    assert path_of_switches(path.switches, path.source, path.destination) == path


def test_switches_that_are_no_path_are_refused() -> None:
    source, destination = HostId(0, 0), HostId(1, 0)
    t0, t1, far = SwitchId(0, Role.T0, 0), SwitchId(0, Role.T1, 2), SwitchId(1, Role.T0, 1)
    with pytest.raises(AddressingError, match="p0-t0-0, p0-t1-2, p1-t0-1: not a path"):
        path_of_switches([t0, t1, far], source, destination)
    with pytest.raises(AddressingError, match="needs an uplink"):
        path_of_switches([t0], source, destination)
    with pytest.raises(AddressingError, match="at least one"):
        path_of_switches([], source, destination)


@given(st.integers(1, 8), st.integers(1, 2048))
def test_field_rules_describe_the_universe(plane_count: int, uplinks: int) -> None:
    fields = addressing.ev_fields(plane_count, uplinks)
    assert sum(field.width for field in fields) == 32
    for field, below in itertools.pairwise(fields):
        assert field.shift == below.shift + below.width
    for field in fields:
        assert field.mask < 1 << field.width
        assert field.min <= field.max <= field.mask
        assert field.fixed == (field.name == "spare")

    corners = {
        sum(value << field.shift for field, value in zip(fields, values, strict=True))
        for values in [
            [field.min for field in fields],
            [field.max for field in fields],
        ]
    }
    assert corners == {encode_ev(0, 0), encode_ev(plane_count - 1, uplinks - 1)}


def test_universe_has_each_path_once() -> None:
    universe = list(addressing.ev_universe(2, 3))
    assert universe == [encode_ev(plane, uplink) for plane in (0, 1) for uplink in (0, 1, 2)]
    assert len(set(universe)) == 6


# --- carriers and templates ---


@given(plans, st.lists(st.integers(1, 0xFFFF), min_size=1, max_size=6))
def test_carrier_is_reversible(plan: AddressPlan, usids: list[int]) -> None:
    carrier = plan.carrier(usids)
    assert carrier >> 128 == 0
    assert plan.usids_of_carrier(carrier) == tuple(usids)


def test_carrier_refuses_what_does_not_fit() -> None:
    with pytest.raises(AddressingError, match=r"7 uSIDs do not fit: a carrier holds 1\.\.6"):
        PLAN.carrier([1] * 7)
    with pytest.raises(AddressingError, match="0 uSIDs"):
        PLAN.carrier([])
    with pytest.raises(AddressingError, match=r"uSID 0 does not fit"):
        PLAN.carrier([1, 0, 1])
    with pytest.raises(AddressingError, match=r"uSID 65536 does not fit"):
        PLAN.carrier([65536])


@pytest.mark.parametrize(
    "address", ["5f00::", "5f00:0:0:800::", "5f00:0:800:0:1800::", "5f01:0:800::", "::"]
)
def test_other_addresses_are_no_carrier(address: str) -> None:
    with pytest.raises(AddressingError):
        PLAN.usids_of_carrier(int(IPv6Address(address)))


@given(plans, paths())
def test_carrier_and_path_name_each_other(plan: AddressPlan, path: Path) -> None:
    assert plan.path_of_carrier(plan.carrier_of_path(path), path.source) == path


def test_carriers_read_as_designed() -> None:
    across = Path(2, HostId(0, 1), HostId(1, 3), 5)
    assert addressing.ipv6_text(PLAN.carrier_of_path(across)) == "5f00:0:4800:5005:4801:5803::"
    within = Path(0, HostId(1, 0), HostId(1, 1), None)
    assert addressing.ipv6_text(PLAN.carrier_of_path(within)) == "5f00:0:801:1801::"
    host = HostId(1, 2)
    assert addressing.ipv6_text(PLAN.t0_probe(0, host)) == "5f00:0:801:1802::"
    assert addressing.ipv6_text(PLAN.t1_probe(0, host, 3)) == "5f00:0:801:1003:801:1802::"


@pytest.mark.parametrize(
    "usids",
    [
        [encode_usid(0, Role.T0, 0)],
        [encode_usid(0, Role.T1, 0), encode_usid(0, Role.DOWNLINK, 0)],
        # another T0 first
        [encode_usid(0, Role.T0, 1), encode_usid(0, Role.DOWNLINK, 0)],
        # two planes
        [encode_usid(0, Role.T0, 0), encode_usid(1, Role.DOWNLINK, 0)],
    ],
)
def test_carriers_that_are_no_path_of_the_source_are_refused(usids: list[int]) -> None:
    with pytest.raises(AddressingError, match="is not a path"):
        PLAN.path_of_carrier(PLAN.carrier(usids), HostId(0, 0))


@given(plans, paths())
def test_template_makes_the_carrier_of_every_path(plan: AddressPlan, path: Path) -> None:
    assume(path.uplink is None or path.source.t0 != path.destination.t0)
    template = plan.template(path.source, path.destination)
    address = template.address(path.ev)
    assert address == plan.carrier_of_path(path)
    assert template.ev(address) == path.ev


def test_template_refuses_what_is_not_its_own() -> None:
    within = PLAN.template(HostId(0, 0), HostId(0, 1))
    with pytest.raises(AddressingError, match="has an uplink"):
        within.address(encode_ev(0, 1))
    across = PLAN.template(HostId(0, 0), HostId(1, 1))
    other = PLAN.template(HostId(0, 0), HostId(2, 1)).address(encode_ev(1, 1))
    with pytest.raises(AddressingError, match="does not come from the template"):
        across.ev(other)


# --- host addresses and MACs ---


@given(plans, host_ids)
def test_host_address_is_reversible_and_under_its_t0(plan: AddressPlan, host: HostId) -> None:
    address = plan.host_address(host)
    assert plan.host_of_address(address) == host
    assert IPv6Address(address) in IPv6Network(plan.t0_prefix(host.t0))
    assert IPv6Address(address) in plan.host_prefix
    assert address != plan.t0_prefix(host.t0)[0]


@given(host_ids, host_ids)
def test_t0_prefixes_do_not_meet(host: HostId, other: HostId) -> None:
    prefix = IPv6Network(PLAN.t0_prefix(other.t0))
    assert (IPv6Address(PLAN.host_address(host)) in prefix) == (host.t0 == other.t0)


@pytest.mark.parametrize(
    "address",
    ["fd4d:5243::", "fd4d:5243:0:0:1::", "fd4d:5243:0:800::1", "fd4d:5242::1", "5f00::1"],
)
def test_other_addresses_are_no_host(address: str) -> None:
    with pytest.raises(AddressingError, match="is not a host's address"):
        PLAN.host_of_address(int(IPv6Address(address)))


@pytest.mark.parametrize(
    ("locator", "hosts", "message"),
    [
        ("5f00::/33", "fd4d:5243::/48", "locator block 5f00::/33 must be a /32"),
        ("5f00::/32", "fd4d:5243::/47", "must be a unique local /48"),
        ("5f00::/32", "2001:db8::/48", "must be a unique local /48"),
        ("fd4d:5243::/32", "fd4d:5243::/48", "overlap"),
    ],
)
def test_plan_refuses_prefixes_that_do_not_suit(locator: str, hosts: str, message: str) -> None:
    with pytest.raises(AddressingError, match=message):
        AddressPlan(IPv6Network(locator), IPv6Network(hosts))


@given(plans, planes, roles, indexes)
def test_sid_is_reversible(plan: AddressPlan, plane: int, role: Role, index: int) -> None:
    usid = encode_usid(plane, role, index)
    assert plan.usid_of_sid(plan.sid(usid)) == usid
    assert plan.sid(usid) == plan.carrier([usid]) >> 80


def test_sid_of_another_block_is_refused() -> None:
    with pytest.raises(AddressingError, match="not of the locator block"):
        PLAN.usid_of_sid(0x5F01_0000_0800)


@given(switch_ids, st.integers(0, 2**16 - 1), planes, host_ids)
def test_macs_are_reversible_unicast_and_local(
    switch: SwitchId, port: int, plane: int, host: HostId
) -> None:
    of_switch = addressing.switch_mac(switch, port)
    of_nic = addressing.nic_mac(plane, host)
    assert addressing.port_of_switch_mac(of_switch) == (switch, port)
    assert addressing.port_of_nic_mac(of_nic) == (plane, host)
    for mac in (of_switch, of_nic):
        assert mac >> 40 & 0b11 == 0b10
    with pytest.raises(AddressingError, match="not the address of a NIC"):
        addressing.port_of_nic_mac(of_switch)
    with pytest.raises(AddressingError, match="not the address of a switch port"):
        addressing.port_of_switch_mac(of_nic)


def test_macs_read_as_documented() -> None:
    assert addressing.mac_text(addressing.switch_mac(SwitchId(1, Role.T1, 2), 3)) == (
        "02:00:30:02:00:03"
    )
    assert addressing.mac_text(addressing.nic_mac(1, HostId(2, 3))) == "06:01:00:02:00:03"


def test_the_paper_s_scale_fits() -> None:
    far = HostId(511, 255)
    for plane in range(8):
        path = Path(plane, HostId(0, 0), far, 255)
        assert PLAN.path_of_carrier(PLAN.carrier_of_path(path), path.source) == path
    assert PLAN.host_of_address(PLAN.host_address(far)) == far
    # mrc_ctl.h 1.0 gives a generated field's bounds 8 bits each
    assert max(field.max for field in addressing.ev_fields(8, 256)) <= 255
