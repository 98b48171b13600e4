"""Topology files: what they say, and one clear line for everything that is wrong."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from topologies.loader import (
    TopologyFileError,
    find_topology,
    load_topology,
    parse_topology,
    ready_topologies,
)
from topologies.model import (
    EcnSettings,
    Fabric,
    GrpcSettings,
    LinkOverride,
    LinkSettings,
    LoadBalancing,
    PfcSettings,
    QueueSettings,
    TrimSettings,
)
from topologies.schema import TopologyFile, json_schema
from topologies.traffic_class import TrafficClasses

MINIMAL = """\
planes: 2
t0_per_plane: 2
t1_per_plane: 2
hosts_per_t0: 2
"""

EVERYTHING = """\
name: everything
planes: 2
t0_per_plane: 3
t1_per_plane: 4
hosts_per_t0: 5
addressing:
  locator_block: 5f01::/32
  host_prefix: fd00:1::/48
links:
  host: {rate: 25Mbps, delay: 1us}
  fabric: {rate_bps: 50000000, delay_ns: 2000}
  overrides:
    - {between: [p0-t1-1, p0-t0-0], rate: 10Mbps}
    - {between: [h0, p1-t0-0], rate: null, delay: 5ns}
queues:
  host: {data_limit: 64KiB, control_limit_bytes: 1000}
  fabric:
    data_limit_bytes: 2000
    control_limit: 3000B
    ecn: {min: 100B, max_bytes: 200, probability: 0.25}
trimming: {enabled: false, mrc_header: 150B, udp_header_bytes: 110}
load_balancing: packet
dscp: {control: 1, trimmed: 2, trimmed_lasthop: 3, trimmable: 4, trimmable_retx: 5, no_trim: 6}
path_mtu: 1KiB
udp_port: 4792
grpc: {host: 127.0.0.2, base_port: 40000}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(TopologyFileError) as raised:
        parse_topology(text, "x.yaml")
    return list(raised.value.problems)


def test_everything_reaches_the_model() -> None:
    fabric = parse_topology(EVERYTHING, "x.yaml")
    assert fabric.name == "everything"
    assert (fabric.planes, fabric.t0_per_plane, fabric.t1_per_plane, fabric.hosts_per_t0) == (
        2, 3, 4, 5,
    )  # fmt: skip
    assert fabric.addresses.locator_block == IPv6Network("5f01::/32")
    assert fabric.addresses.host_prefix == IPv6Network("fd00:1::/48")
    assert fabric.host_link == LinkSettings(25_000_000, 1000)
    assert fabric.fabric_link == LinkSettings(50_000_000, 2000)
    assert fabric.link_overrides == {
        "p0-t0-0--p0-t1-1": LinkOverride(rate_bps=10_000_000),
        "h0--p1-t0-0": LinkOverride(unlimited=True, delay_ns=5),
    }
    assert fabric.host_queue == QueueSettings(65536, 1000)
    assert fabric.fabric_queue == QueueSettings(2000, 3000, EcnSettings(100, 200, 0.25))
    assert fabric.trim == TrimSettings(enabled=False, mrc_bytes=150, udp_bytes=110)
    assert fabric.load_balancing is LoadBalancing.PACKET
    assert fabric.traffic == TrafficClasses(1, 2, 3, 4, 5, 6)
    assert (fabric.path_mtu_bytes, fabric.udp_port) == (1024, 4792)
    assert fabric.grpc == GrpcSettings("127.0.0.2", 40000)


FLOW_CONTROL = """\
planes: 1
t0_per_plane: 2
t1_per_plane: 3
hosts_per_t0: 4
links:
  host: {rate: 100Gbps, delay: 500ns}
  fabric: {rate: 200Gbps, delay: 1us}
queues:
  host: {data_limit: 2MiB, ecn: {min: 10KiB, max: 20KiB}}
  fabric: {data_limit: 2MiB}
"""


def test_flow_control() -> None:
    def of(pfc: str) -> Fabric:
        return parse_topology(f"{FLOW_CONTROL}  pfc: {pfc}\n", "x.yaml")

    assert of("null").pfc is None
    assert of("{xoff: 100KiB}").pfc == PfcSettings(102_400, 51_200)
    given = of("{xoff_bytes: 1000, xon: 10B, headroom: 20000B}")
    assert given.pfc == PfcSettings(1000, 10, 20_000)
    assert given.pfc_headroom_bytes(10**11, 500) == 20_000
    assert given.host_queue.ecn == EcnSettings(10_240, 20_480)
    # Three frames of 4,269 bytes (4,096 of payload, with an SRH), a pause frame, the link twice
    by_link = of("{xoff: 100KiB}")
    assert by_link.pfc_headroom_bytes(10**11, 500) == 3 * 4269 + 84 + 12_500
    assert by_link.pfc_headroom_bytes(2 * 10**11, 1000) == 3 * 4269 + 84 + 50_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate: 200Gbps", "rate: null", "a link of links.fabric has no rate"),
        ("host: {data_limit: 2MiB", "host: {data_limit: 1MiB", "queues.host.data_limit: 1048576"),
        ("fabric: {data_limit: 2MiB", "fabric: {data_limit: 1000000B", "queues.fabric.data_limit"),
        ("xoff: 100KiB", "xon: 100KiB", "xoff is missing"),
        ("xoff: 100KiB", "xoff: 100KiB, xon: 101KiB", "is above xoff"),
    ],
)
def test_flow_control_that_cannot_be(old: str, new: str, message: str) -> None:
    text = f"{FLOW_CONTROL}  pfc: {{xoff: 100KiB, headroom: 60KiB}}\n"
    assert parse_topology(text, "x.yaml").pfc is not None
    assert any(message in problem for problem in problems(text.replace(old, new)))


def test_every_field_of_the_schema_is_in_the_example_above() -> None:
    written = TopologyFile.model_fields.keys()
    assert all(f"{name}:" in EVERYTHING or f"{name}_bytes:" in EVERYTHING
               or name.endswith("_bytes") for name in written)  # fmt: skip


def test_minimal_file_has_defaults_and_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL)
    fabric = load_topology(path)
    assert fabric.name == "mine"
    assert fabric.host_link == LinkSettings(None, 0)
    assert fabric.path_mtu_bytes == 4096
    assert fabric.udp_port == 4791


def test_a_wrong_unit_names_line_field_and_value() -> None:
    text = MINIMAL + "links:\n  host:\n    rate: 100Gpbs\n"
    assert problems(text) == [
        "x.yaml:7: links.host.rate: '100Gpbs' is not a rate; write for example 100Gbps"
    ]


def test_all_problems_at_once_in_the_order_of_lines() -> None:
    text = """\
planes: two
t0_per_plan: 2
t1_per_plane: 4000
hosts_per_t0: 0
links:
  fabric:
    dellay: 1ns
    rate: 5
queues:
  host:
dscp: 3
udp_port: 1.5
trimming: {enabled: maybe}
"""
    assert problems(text) == [
        "x.yaml:1: planes: 'two' is not an integer",
        "x.yaml:1: t0_per_plane: is missing",
        "x.yaml:2: t0_per_plan: unknown field; did you mean t0_per_plane?",
        "x.yaml:3: t1_per_plane: 4000 is too large: it must be at most 2048",
        "x.yaml:4: hosts_per_t0: 0 is too small: it must be at least 1",
        "x.yaml:7: links.fabric.dellay: unknown field; did you mean delay?",
        "x.yaml:8: links.fabric.rate: 5 is not a rate with its unit; write for example 100Gbps",
        "x.yaml:10: queues.host: is empty; leave it out or write its fields under it",
        "x.yaml:11: dscp: 3 is not a section: write its fields under it",
        "x.yaml:12: udp_port: 1.5 is not an integer",
        "x.yaml:13: trimming.enabled: 'maybe' is neither true nor false",
    ]


@pytest.mark.parametrize(
    ("added", "line", "message"),
    [
        ("zzz: 1", 5, "zzz: unknown field; the fields here are name, planes, t0_per_plane"),
        ("links: {host: {rate: 1Gbps, rate_bps: 1}}", 5,
         "links.host: rate and rate_bps say the same thing; give one of them"),
        ("links: {host: {rate_bps: 0}}", 5, "links.host.rate_bps: 0 is too small"),
        ("links: {host: {delay: 3}}", 5,
         "links.host.delay: 3 is not a time with its unit; write for example 500ns"),
        ("queues: {fabric: {ecn: {min: 1B}}}", 5, "queues.fabric.ecn: max is missing"),
        ("queues: {fabric: {ecn: {min: 2B, max: 1B}}}", 5,
         "queues.fabric.ecn: min (2 bytes) is above max (1 bytes)"),
        ("queues: {fabric: {ecn: {min: 1B, max: 2B, probability: 1.5}}}", 5,
         "queues.fabric.ecn.probability: 1.5 is too large: it must be at most 1.0"),
        ("queues: {host: {red: {min: 1B, max: 2B}}}", 5, "queues.host.red: unknown field"),
        ("queues: {host: {data_limit: 5GiB}}", 5, "queues.host.data_limit: "),
        ("dscp: {trimmed: 46}", 5, "dscp: trimmed: DSCP 46 is already that of control"),
        ("dscp: {trimmed: 64}", 5, "dscp.trimmed: 64 is too large: it must be at most 63"),
        ("addressing: {locator_block: 5f00::1/32}", 5,
         "addressing.locator_block: '5f00::1/32' is not an IPv6 prefix"),
        ("addressing: {locator_block: 5f00::/16}", 5,
         "addressing: locator block 5f00::/16 must be a /32"),
        ("addressing: {host_prefix: 10.0.0.0/8}", 5,
         "addressing.host_prefix: '10.0.0.0/8' is not an IPv6 prefix"),
        ("trimming: {mrc_header: 20B}", 5,
         "trimming: mrc_header: 20 bytes does not fit: trimming must keep 54..1518 bytes"),
        ("path_mtu: 3B", 1, "path_mtu: 3 bytes does not fit: it must be a multiple of 4"),
        ("path_mtu: 4098B", 1, "path_mtu: 4098 bytes does not fit"),
        ("grpc: {base_port: 70000}", 5, "grpc.base_port: 70000 is too large"),
        ("grpc: 1", 5, "grpc: 1 is not a section: write its fields under it"),
        ("name: a b", 5, "name: 'a b' may have letters, digits, '.', '_' and '-' only"),
        ("name: 5", 5, "name: 5 is not text"),
        ("links: {overrides: 3}", 5, "links.overrides: 3 is not a list"),
        ("links:\n  overrides:\n    - {between: [h0]}", 7,
         "links.overrides[0].between: has 1 item; it must have at least 2"),
        ("links:\n  overrides:\n    - {rate: 1Gbps}", 7,
         "links.overrides[0].between: is missing"),
        ("links:\n  overrides:\n    - {between: [h0, p0-t0-1]}", 7,
         "links.overrides[0].between: no link joins h0 and p0-t0-1"),
        ("links:\n  overrides:\n    - {between: [h0, p0-t0-0]}\n    - {between: [p0-t0-0, h0]}", 8,
         "links.overrides[1].between: h0--p0-t0-0 is overridden twice"),
        ("links:\n  overrides:\n    - {between: [h9, p0-t0-0]}", 7,
         "links.overrides[0].between: h9 is not in fabric, which has hosts h0..h3"),
    ],
)  # fmt: skip
def test_one_problem_one_line(added: str, line: int, message: str) -> None:
    (problem,) = problems(MINIMAL + added + "\n")
    assert problem.startswith(f"x.yaml:{line}: {message}")
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("planes: 2\n  t0: [\n", "x.yaml:2: "),
        ("planes: [1\n", "x.yaml:"),
        ("planes: 2\nplanes: 3\n", 'x.yaml:2: found duplicate key "planes"'),
        ("- 1\n", "x.yaml:1: a topology is a list of fields"),
        ("", "x.yaml:1: a topology is a list of fields"),
        ("planes: \x00", "x.yaml: "),
        ("a: *b\n", "x.yaml:1: "),
        ("planes: " + "[" * 5000, "x.yaml: is nested too deep"),
        ("planes: " + "9" * 5000, "x.yaml: "),
        ("planes: 2024-13-45", "x.yaml: month must be in 1..12"),
        ("planes: !!int many", "x.yaml: "),
        ("planes: 1\nlinks: &a\n  host: *a\n", "x.yaml:"),
        ("planes: !!python/object/apply:os.system [true]\n", "x.yaml:1: "),
    ],
)
def test_what_is_not_a_topology_at_all(text: str, start: str) -> None:
    first = problems(text)[0]
    assert first.startswith(start)
    assert "\n" not in first


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TopologyFileError, match="cannot be read: No such file"):
        load_topology(tmp_path / "none.yaml")
    with pytest.raises(TopologyFileError, match="cannot be read: Is a directory"):
        load_topology(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: \xe4\n")
    with pytest.raises(TopologyFileError, match="is not UTF-8 text: byte 6"):
        load_topology(latin)


def test_ready_files_are_what_their_names_say() -> None:
    sizes = {
        name: (f.planes, f.t0_per_plane, f.t1_per_plane, f.hosts_per_t0)
        for name, f in ((name, load_topology(path)) for name, path in ready_topologies().items())
    }
    assert sizes == {
        "one-plane": (1, 2, 2, 2),
        "two-plane": (2, 2, 2, 2),
        "four-plane": (4, 2, 2, 2),
        "eight-plane": (8, 4, 4, 4),
        "paper-scale": (8, 512, 256, 256),
    }
    for name, path in ready_topologies().items():
        fabric = load_topology(path)
        assert fabric.name == name
        assert fabric.fabric_queue.ecn is not None
        if name != "paper-scale":
            fabric.check_target()


def test_a_topology_is_found_by_name_or_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_topology("two-plane") == ready_topologies()["two-plane"]
    mine = tmp_path / "two-plane"
    mine.write_text(MINIMAL)
    assert find_topology("two-plane") == Path("two-plane")
    with pytest.raises(TopologyFileError) as caught:
        find_topology("tow-plane")
    assert caught.value.problems == (
        "tow-plane: no such file or ready topology; did you mean two-plane? "
        "`mrc-topology list` names all",
    )


def test_json_schema_knows_every_section() -> None:
    schema = json_schema()
    assert schema["required"] == ["planes", "t0_per_plane", "t1_per_plane", "hosts_per_t0"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["LinkSection"]["properties"]["rate"]["anyOf"][0]["type"] == "string"


def test_name_may_come_from_elsewhere() -> None:
    fabric = parse_topology(MINIMAL, "x.yaml", default_name="other")
    assert fabric == replace(parse_topology(MINIMAL, "y.yaml"), name="other")
