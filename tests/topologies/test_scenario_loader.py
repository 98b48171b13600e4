"""Scenario files: what they say, and one clear line for everything that is wrong."""

# ruff: noqa: E501 - tables of messages, one a line

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.loader import find_topology
from topologies.model import LoadBalancing
from topologies.scenario import (
    Corruption,
    Delay,
    Deny,
    Flow,
    LinkDown,
    Loss,
    PathRef,
    Scenario,
    SlowLink,
    SwitchDead,
    SwitchReboot,
)
from topologies.scenario_loader import (
    ScenarioFileError,
    find_scenario,
    load_scenario,
    parse_scenario,
    ready_scenarios,
)
from topologies.scenario_schema import ScenarioFile, json_schema

MINIMAL = """\
topology: two-plane
traffic:
  - transfer: {from: h0, to: h2, size: 1MiB}
"""

EVERYTHING = """\
name: everything
description: of each kind one
topology:
  base: eight-plane
  planes: 2
  links:
    fabric: {rate_bps: 50000000000}
seed: 5
traffic:
  - transfer: {name: one, from: h0, to: h4, size: 1MiB, start: 5us, repeat: 3, qps: 2, depth: 1}
  - transfer: {from: h1, to: h5, size: 2kB, until: 1ms, op: write_imm}
  - incast: {to: h0, fan_in: 5, size: 64KiB}
  - incast: {name: chosen, to: h0, from: [h1, h15], size: 64KiB}
  - permutation: {shift: 4, size: 1B, hosts: [h0, h4, h8, h12, h1]}
  - permutation: {name: random, size: 1B}
endpoint:
  timeout: 7
  mpr: 256
  sack_delay: 2us
  forwarding: srv6
  congestion: {controller: fixed-window, cwnd_bytes: 100000}
  evs: {active_evs: 8}
faults:
  - link_down: {link: [p0-t1-1, p0-t0-0], at: 1us, for: 2us, times: 3, every: 5us}
  - link_down: {name: half, link: ["p*-t0-0", "p*-t1-[01]"]}
  - port_down: {host: h4, plane: 1, at: 3us}
  - loss: {tier: host, probability: 0.25, direction: up}
  - loss: {path: {from: h0, to: h4, plane: 1, uplink: 3}, probability: 1.0}
  - corruption: {host: h3, probability: 0.5}
  - delay: {switch: p1-t1-0, extra: 1us, jitter: 2us}
  - slow_link: {link: [h0, p0-t0-0], rate: 10Gbps}
  - switch_dead: {switch: "p0-t1-*", at: 1ms}
  - switch_reboot: {switch: p1-t0-2, at: 1ms, for: 1ms}
  - deny: {from: h0, to: h4, plane: 0, uplinks: [1, 2], for: 10us}
duration: 5ms
stop: duration
measure: {interval: 1us}
expect:
  complete: false
  lost_max: 3
  flows:
    - {flow: "incast-*", jain_min: 0.9, goodput_min: 1Gbps, completion_max: 3ms}
  faults:
    - {fault: "link_down-*", last_packet_max: 3us, last_packet_max_rtts: 2.5}
"""


def load(text: str, *changes: str) -> Scenario:
    return parse_scenario(text, "x.yaml", changes=changes)


def problems(text: str, *changes: str) -> list[str]:
    with pytest.raises(ScenarioFileError) as raised:
        load(text, *changes)
    return list(raised.value.problems)


@pytest.mark.parametrize("forwarding", ["ecmp", "spray"])
@pytest.mark.parametrize(
    "fault",
    [
        "deny: {from: h0, to: h2, plane: 0, uplinks: [0]}",
        "loss: {path: {from: h0, to: h2, plane: 0}, probability: 0.1}",
    ],
)
def test_where_switches_choose_paths_no_fault_names_one(forwarding: str, fault: str) -> None:
    (line,) = problems(f"{MINIMAL}faults:\n  - {fault}\n", f"endpoint.forwarding={forwarding}")
    assert f"with forwarding {forwarding}, name links" in line


def test_defaults() -> None:
    scenario = load(MINIMAL)
    assert scenario.name == "scenario"
    assert scenario.fabric.name == "two-plane"
    assert scenario.flows == (Flow("transfer-h0-h2", "transfer", "h0", "h2", 1 << 20),)
    assert scenario.faults == ()
    assert scenario.stop_with_traffic and scenario.duration_ns is None
    assert scenario.expect.complete


def test_everything_reaches_the_model() -> None:
    scenario = load(EVERYTHING)
    fabric = scenario.fabric
    assert (scenario.name, scenario.seed) == ("everything", 5)
    assert (fabric.planes, fabric.t0_per_plane) == (2, 4)
    assert fabric.fabric_link.rate_bps == 50_000_000_000
    assert fabric.fabric_link.delay_ns == 500
    assert scenario.flows[0] == Flow(
        "one", "one", "h0", "h4", 1 << 20, start_ns=5000, repeat=3, qps=2, depth=1
    )
    assert scenario.flows[0].total_bytes == 6 << 20
    timed = scenario.flows[1]
    assert (timed.until_ns, timed.immediate, timed.total_bytes) == (1_000_000, True, None)
    assert (scenario.duration_ns, scenario.stop_with_traffic) == (5_000_000, False)
    assert scenario.interval_ns == 1000
    assert scenario.endpoint.qp == {"timeout": 7, "mpr_psns": 256, "sack_delay_ns": 2000}
    assert scenario.endpoint.forwarding == "srv6"
    assert scenario.endpoint.congestion == {"controller": "fixed-window", "cwnd_bytes": 100_000}
    assert scenario.expect.lost_max == 3 and not scenario.expect.complete


def test_an_incast_comes_from_other_racks_spread_evenly() -> None:
    flows = [flow for flow in load(EVERYTHING).flows if flow.group == "incast"]
    assert [flow.source for flow in flows] == ["h4", "h8", "h12", "h5", "h9"]
    assert {flow.destination for flow in flows} == {"h0"}


def test_permutations_send_and_receive_once_and_never_to_oneself() -> None:
    scenario = load(EVERYTHING)
    shifted = [flow for flow in scenario.flows if flow.group == "permutation"]
    assert [(flow.source, flow.destination) for flow in shifted] == [
        ("h0", "h1"), ("h4", "h0"), ("h8", "h4"), ("h12", "h8"), ("h1", "h12"),
    ]  # fmt: skip
    random = [flow for flow in scenario.flows if flow.group == "random"]
    assert len(random) == 16
    assert {flow.source for flow in random} == {flow.destination for flow in random}
    assert all(flow.source != flow.destination for flow in random)
    pairs = [(flow.source, flow.destination) for flow in random]
    assert pairs == [
        (flow.source, flow.destination) for flow in load(EVERYTHING).flows if flow.group == "random"
    ]
    assert pairs != [
        (flow.source, flow.destination)
        for flow in load(EVERYTHING, "seed=6").flows
        if flow.group == "random"
    ]


def test_faults_are_resolved_to_names_and_times() -> None:
    faults = {fault.name: fault for fault in load(EVERYTHING).faults}
    cut = [faults[f"link_down-{number}"] for number in (1, 2, 3)]
    assert [(fault.at_ns, fault.end_ns) for fault in cut] == [
        (1000, 3000), (6000, 8000), (11000, 13000),
    ]  # fmt: skip
    first, half, port = cut[0], faults["half"], faults["port_down"]
    assert isinstance(first, LinkDown) and first.links == ("p0-t0-0--p0-t1-1",)
    assert isinstance(half, LinkDown) and half.links == (
        "p0-t0-0--p0-t1-0", "p0-t0-0--p0-t1-1", "p1-t0-0--p1-t1-0", "p1-t0-0--p1-t1-1",
    )  # fmt: skip
    assert half.end_ns is None
    assert isinstance(port, LinkDown) and port.links == ("h4--p1-t0-1",)
    loss, on_path = faults["loss"], faults["loss2"]
    assert isinstance(loss, Loss) and loss.up and not loss.down
    assert len(loss.links) == 32 and all(name.startswith("h") for name in loss.links)
    assert isinstance(on_path, Loss) and on_path.path == PathRef("h0", "h4", 1, 3)
    corruption, delay = faults["corruption"], faults["delay"]
    assert isinstance(corruption, Corruption)
    assert corruption.links == ("h3--p0-t0-0", "h3--p1-t0-0")
    assert isinstance(delay, Delay) and len(delay.links) == 4
    assert (delay.extra_ns, delay.jitter_ns) == (1000, 2000)
    slow, dead, reboot = faults["slow_link"], faults["switch_dead"], faults["switch_reboot"]
    assert isinstance(slow, SlowLink) and slow.rate_bps == 10**10
    assert isinstance(dead, SwitchDead) and len(dead.switches) == 4
    assert isinstance(reboot, SwitchReboot) and reboot.switches == ("p1-t0-2",)
    deny = faults["deny"]
    assert isinstance(deny, Deny) and [path.uplink for path in deny.paths] == [1, 2]


def test_what_a_fault_concerns_is_looked_up_once_however_often_it_happens() -> None:
    text = MINIMAL.replace("two-plane", "eight-plane")
    text += "faults:\n  - switch_dead: {switch: '*', for: 1us, every: 2us, times: 10000}\n"
    faults = load(text).faults
    assert [faults[0].name, faults[-1].name] == ["switch_dead-1", "switch_dead-10000"]
    assert [faults[0].at_ns, faults[-1].at_ns] == [0, 19_998_000]
    assert len({id(fault.switches) for fault in faults if isinstance(fault, SwitchDead)}) == 1


def test_expectations_name_flows_and_faults() -> None:
    expect = load(EVERYTHING).expect
    assert len(expect.flows[0].flows) == 5
    assert expect.flows[0].goodput_min_bps == 10**9
    assert expect.faults[0].faults == ("link_down-1", "link_down-2", "link_down-3")
    assert expect.faults[0].last_packet_max_rtts == 2.5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seed: -1", "x.yaml:4: seed: -1 is too small: it must be at least 0"),
        ("sed: 1", "x.yaml:4: sed: unknown field; did you mean seed?"),
        ("duration: 5", "x.yaml:4: duration: 5 is not a time with its unit; write for example 500ns"),
        ("stop: trafic", "x.yaml:4: stop: 'trafic': did you mean traffic?"),
        ("stop: duration", "x.yaml:1: duration: is missing, and stop says that the run lasts so long"),
        ("endpoint: {timeout: 25}", "x.yaml:4: endpoint.timeout: 25 is too large: it must be at most 24"),
        ("faults: [{link_dwn: {}}]", "x.yaml:4: faults[0].link_dwn: unknown field; did you mean link_down?"),
        ("faults: [{}]", "x.yaml:4: faults[0]: says nothing; give one of link_down, port_down, loss, corruption, duplication, delay, slow_link, switch_dead, switch_reboot, deny"),
        ("faults: [{loss: {probability: 0.1}}]", "x.yaml:4: faults[0].loss: says nothing; give one of link, host, switch, tier, path"),
        ("faults: [{loss: {host: h0, tier: host, probability: 0.1}}]", "x.yaml:4: faults[0].loss: host and tier stand together; give one of them"),
        ("faults: [{loss: {host: h0, probability: 2.0}}]", "x.yaml:4: faults[0].loss.probability: 2.0 is too large: it must be at most 1.0"),
        ("faults: [{loss: {host: h0, probability: 0.1, for: 1ns, every: 2ns, times: 1000000000}}]", "x.yaml:4: faults[0].loss.times: 1000000000 is too large: it must be at most 10000"),
        ("faults: [{loss: {host: h9, probability: 0.1}}]", "x.yaml:4: faults[0].loss.host: no link of two-plane joins h9"),
        ("faults: [{link_down: {link: [p0-t0-0, p1-t1-0]}}]", "x.yaml:4: faults[0].link_down.link: no link of two-plane joins p0-t0-0 and p1-t1-0"),
        ("faults: [{link_down: {link: [p0-t0-0]}}]", "x.yaml:4: faults[0].link_down.link: has 1 item; it must have at least 2"),
        ("faults:", "x.yaml:4: faults: is empty; leave it out or write its items under it"),
        ("duration: 1s\nfaults: [{switch_dead: {switch: p0-t1-0, at: 5s}}]", "x.yaml:5: faults[0].switch_dead.at: 5s is after the end: duration is 1s"),
        ("duration: 1s\nfaults: [{switch_dead: {switch: p0-t1-0, for: 1ms, every: 500ms, times: 3}}]", "x.yaml:5: faults[0].switch_dead.times: the last of 3 begins at 1s, which is after the end: duration is 1s"),
        ("faults: [{port_down: {host: h0, plane: 2}}]", "x.yaml:4: faults[0].port_down.plane: 2 does not fit: two-plane has planes 0..1"),
        ("faults: [{switch_dead: {switch: p0-t1-7}}]", "x.yaml:4: faults[0].switch_dead.switch: 'p0-t1-7' matches no switch; did you mean p0-t1-1?"),
        ("faults: [{switch_reboot: {switch: p0-t1-0}}]", "x.yaml:4: faults[0].switch_reboot: for: is missing: how long does the reboot take?"),
        ("faults: [{loss: {path: {from: h0, to: h2, plane: 0, uplink: 2}, probability: 0.1}}]", "x.yaml:4: faults[0].loss.path.uplink: 2 does not fit: from h0 to h2 there are uplinks 0..1"),
        ("faults: [{link_down: {host: h0, times: 2}}]", "x.yaml:4: faults[0].link_down: times: what happens several times needs every and for"),
        ("expect: {flows: [{flow: tranfer}]}", "x.yaml:4: expect.flows[0].flow: 'tranfer' matches no flow; did you mean transfer-h0-h2?"),
        ("expect: {faults: [{fault: cut}]}", "x.yaml:4: expect.faults[0].fault: 'cut' matches no fault"),
    ],
)  # fmt: skip
def test_problems_name_line_field_and_value(line: str, message: str) -> None:
    assert problems(MINIMAL + line + "\n") == [message]


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("switch_dead: {switch: p0-t1-0, for: 9us}", "switch_dead: {switch: 'p0-*', at: 5us}", True),
        ("switch_dead: {switch: p0-t1-0}", "switch_dead: {switch: p0-t1-0, at: 1s, for: 1us}", True),
        ("switch_reboot: {switch: p0-t1-0, at: 5us, for: 9us}", "switch_reboot: {switch: p0-t1-0, for: 6us}", True),
        ("switch_dead: {switch: p0-t1-0, for: 9us}", "switch_reboot: {switch: p0-t1-0, at: 9us, for: 9us}", False),
        ("switch_dead: {switch: p0-t1-0, at: 9us, for: 9us}", "switch_dead: {switch: p0-t1-0, for: 9us}", True),
        ("switch_dead: {switch: p0-t1-0, for: 9us}", "switch_dead: {switch: p0-t1-0, at: 10us}", False),
        ("switch_dead: {switch: p0-t1-0, for: 9us}", "switch_dead: {switch: p0-t1-1, for: 9us}", False),
        ("switch_dead: {switch: p0-t1-0, for: 1us, every: 5us, times: 3}", "switch_dead: {switch: p0-t1-0, at: 3us, for: 1us}", False),
        ("switch_dead: {switch: p0-t1-0, for: 9us}", "link_down: {switch: p0-t1-0, for: 9us}", False),
    ],
)  # fmt: skip
def test_no_two_faults_hold_one_switch_at_one_time(first: str, second: str, clash: bool) -> None:
    names = [
        f"{each.replace('{', '{name: ' + name + ', ', 1)}"
        for name, each in (("a", first), ("b", second))
    ]
    text = f"{MINIMAL}faults:\n  - {names[0]}\n  - {names[1]}\n"
    if not clash:
        assert len(load(text).faults) >= 2
        return
    (problem,) = problems(text)
    assert "hold p0-t1-0 at one time" in problem
    assert "a and b" in problem or "b and a" in problem


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("transfer: {from: h0, to: h0, size: 1B}", "to: h0 cannot write to itself"),
        ("transfer: {from: h0, to: h4, size: 1B}", "to: h4 is not in two-plane, which has hosts h0..h3"),
        ("transfer: {from: h0, to: h2, size: 0B}", None),
        ("transfer: {from: h0, to: h2, size: 1B, repeat: 2, until: 1us}", None),
        ("incast: {to: h0, fan_in: 3, size: 1B}", "fan_in: 3 is too large: other T0s have 2 hosts"),
        ("incast: {to: h0, from: [h0], size: 1B}", "from[0]: h0 is the target"),
        ("incast: {to: h0, from: [h1, h1], size: 1B}", "from[1]: h1 stands there twice"),
        ("permutation: {shift: 4, size: 1B}", "shift: 4 makes hosts write to themselves"),
        ("permutation: {hosts: [h1, h1], size: 1B}", "hosts[1]: h1 stands there twice"),
    ],
)  # fmt: skip
def test_problems_of_traffic(item: str, message: str | None) -> None:
    kind = item.partition(":")[0]
    (problem,) = problems(f"topology: two-plane\ntraffic:\n  - {item}\n")
    assert problem.startswith(f"x.yaml:3: traffic[0].{kind}")
    if message is not None:
        assert problem == f"x.yaml:3: traffic[0].{kind}.{message}"


@pytest.mark.parametrize(
    ("section", "first", "second", "message"),
    [
        ("traffic", "transfer: {name: a, from: h0, to: h2, size: 1B}", "transfer: {name: a, from: h1, to: h3, size: 1B}", "transfer.name: 'a'"),
        ("traffic", "collective: {name: a, op: broadcast, size: 4B}", "incast: {name: a, to: h0, fan_in: 1, size: 1B}", "incast.name: 'a'"),
        ("traffic", "transfer: {name: a-h0-h2, from: h0, to: h2, size: 1B}", "incast: {name: a, to: h2, from: [h0], size: 1B}", "incast.name: 'a-h0-h2'"),
        ("faults", "link_down: {name: f, host: h0}", "loss: {name: f, host: h0, probability: 0.5}", "loss.name: 'f'"),
        ("faults", "link_down: {name: f, host: h0, for: 1us, every: 2us, times: 3}", "link_down: {name: f-2, host: h1}", "link_down.name: 'f-2'"),
    ],
)  # fmt: skip
def test_no_two_have_one_name(section: str, first: str, second: str, message: str) -> None:
    text = "topology: two-plane\n" if section == "traffic" else MINIMAL
    at = text.count("\n") + 3
    text += f"{section}:\n  - {first}\n  - {second}\n"
    assert problems(text) == [f"x.yaml:{at}: {section}[1].{message} is a name already taken"]


def test_names_that_are_made_go_around_those_that_are_given() -> None:
    loss = "loss: {{{}host: h0, probability: 0.5}}"
    items = [loss.format("name: loss2, "), loss.format(""), loss.format(""), loss.format("")]
    text = MINIMAL + "faults:\n" + "".join(f"  - {item}\n" for item in items)
    assert [fault.name for fault in load(text).faults] == ["loss2", "loss", "loss3", "loss4"]


def test_all_problems_are_reported_at_once_in_order() -> None:
    text = MINIMAL.replace("1MiB", "1") + "seed: x\nfoo: 1\n"
    assert [problem.split(": ")[0] for problem in problems(text)] == [
        "x.yaml:3", "x.yaml:4", "x.yaml:5",
    ]  # fmt: skip
    names = "faults:\n  - port_down: {host: h7, plane: 9}\n  - switch_dead: {switch: x}\n"
    assert len(problems(MINIMAL + names)) == 3


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("two-plan", "x.yaml:1: topology: two-plan: no such file or ready topology; did you mean two-plane? `mrc-topology list` names all"),
        ("{base: two-plane, plains: 1}", "x.yaml:1: topology.plains: unknown field; did you mean planes?"),
        ("{base: two-plane, planes: 9}", "x.yaml:1: topology.planes: 9 is too large: it must be at most 8"),
        ("{base: 3}", "x.yaml:1: topology.base: 3 is not a name or path"),
        ("3", "x.yaml:1: topology: is neither the name of a topology nor a section"),
    ],
)  # fmt: skip
def test_problems_of_the_topology(topology: str, message: str) -> None:
    assert problems(MINIMAL.replace("two-plane", topology)) == [message]


def test_a_scenario_without_a_topology_says_so() -> None:
    text = MINIMAL.replace("topology: two-plane\n", "")
    assert text != MINIMAL
    assert problems(text) == ["x.yaml:1: topology: is missing"]


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="is a directory"):
        find_scenario(str(tmp_path))
    with pytest.raises(ScenarioFileError, match=r"^'': is a directory"):
        find_scenario("")


def test_a_topology_stands_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "planes: 1\nt0_per_plane: 2\nt1_per_plane: 1\nhosts_per_t0: 2\n"
    )
    path = tmp_path / "scenario.yaml"
    path.write_text(MINIMAL.replace("two-plane", "mine.yaml"))
    assert load_scenario(path).fabric.planes == 1


def test_a_mistake_in_a_base_file_is_named_there(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("planes: 1\nt0_per_plane: 0\n")
    path = tmp_path / "scenario.yaml"
    path.write_text(MINIMAL.replace("two-plane", "{base: mine.yaml, t1_per_plane: 1}"))
    with pytest.raises(ScenarioFileError) as raised:
        load_scenario(path)
    assert any("mine.yaml:2: t0_per_plane" in problem for problem in raised.value.problems)


def test_a_quantity_changed_in_its_other_spelling_replaces_the_first() -> None:
    text = MINIMAL.replace("two-plane", "{base: eight-plane, links: {host: {rate_bps: 1000}}}")
    assert load(text).fabric.host_link.rate_bps == 1000
    assert load(text).fabric.host_link.delay_ns == 500


# --- changes -----------------------------------------------------------------------------------


def test_changes_reach_the_model() -> None:
    scenario = load(
        MINIMAL,
        "traffic[0].transfer.size=2MiB",
        "topology.planes=1",
        "endpoint.timeout=3",
        "faults=[{port_down: {host: h0, plane: 0}}]",
        "faults[0].port_down.host=h1",
    )
    assert scenario.flows[0].size_bytes == 2 << 20
    assert scenario.fabric.planes == 1
    assert scenario.endpoint.qp == {"timeout": 3}
    (fault,) = scenario.faults
    assert isinstance(fault, LinkDown) and fault.links == ("h1--p0-t0-0",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seed", "--set seed: write key=value"),
        ("sed=1", "--set sed: unknown field sed; did you mean seed?"),
        ("traffic[1].transfer.size=1B", "--set traffic[1].transfer.size: traffic has 1 items, numbered from 0"),
        ("traffic[0].transfer.sise=1B", "--set traffic[0].transfer.sise: unknown field sise; did you mean size?"),
        ("traffic[0].transfer.size=1", "--set traffic[0].transfer.size: 1 is not a size with its unit; write for example 64KiB"),
        ("seed.x=1", "--set seed.x: seed has no fields"),
        ("seed=2026-13-45", "--set seed: '2026-13-45' is not YAML: month must be in 1..12"),
        ("seed=" + "[" * 3000, "--set seed: is nested too deep"),
        ("topology.planes=9", "--set topology.planes: 9 is too large: it must be at most 8"),
        ("traffic[x].y=1", "--set traffic[x].y: 'traffic[x]' is no field; write for example traffic[0].repeat=2"),
        ("faults=[{link_down: {host: h9}}]", "--set faults: [0].link_down.host: no link of two-plane joins h9"),
    ],
)  # fmt: skip
def test_problems_of_changes_name_the_change(change: str, message: str) -> None:
    assert problems(MINIMAL + "seed: 0\n", change) == [message]


# --- ready files -------------------------------------------------------------------------------


def test_every_ready_scenario_loads_and_says_what_it_is() -> None:
    ready = ready_scenarios()
    assert {
        "quickstart", "link-flaps", "t1-reboot", "t1-blackhole", "t0-failure", "nic-port-down",
        "lossy-path", "incast", "slow-link", "eight-plane-link-cut", "eight-plane-incast-no-trim",
    } <= set(ready)  # fmt: skip
    for name, path in ready.items():
        scenario = load_scenario(path)
        assert scenario.name == name
        assert scenario.description
        assert scenario.flows or scenario.collectives
        # Both worlds run those of small fabrics; the others are for virtual time
        assert (scenario.fabric.name == "eight-plane") is name.startswith("eight-plane-")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qickstart", "did you mean quickstart? "),
        ("incats", "did you mean incast? "),
        ("blackhole", "did you mean t1-blackhole or eight-plane-t1-blackhole? "),
        # Of many the shortest, which have the least that was not said
        ("link", "did you mean slow-link or link-flaps or eight-plane-link-cut? "),
        ("xyz", ""),
        ("t1", ""),
    ],
)
def test_an_unknown_scenario_is_answered_with_those_like_it(name: str, hint: str) -> None:
    with pytest.raises(ScenarioFileError) as raised:
        find_scenario(name)
    expected = f"{name}: no such file or ready scenario; {hint}`mrc-topology list` names all"
    assert raised.value.problems == (expected,)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")


def test_json_schema_knows_every_section() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(ScenarioFile.model_fields)
    assert "from" in schema["$defs"]["TransferSection"]["properties"]


def test_spraying_is_asked_of_the_switches() -> None:
    text = "topology: one-plane\ntraffic:\n  - transfer: {from: h0, to: h2, size: 1KiB}\n"
    for forwarding, endpoint, balancing in (
        ("spray", "ecmp", LoadBalancing.PACKET),
        ("ecmp", "ecmp", LoadBalancing.FLOW),
        ("srv6", "srv6", LoadBalancing.FLOW),
    ):
        scenario = parse_scenario(text, "x.yaml", changes=[f"endpoint.forwarding={forwarding}"])
        assert scenario.endpoint.forwarding == endpoint
        assert scenario.fabric.load_balancing is balancing


def test_routes_are_static_unless_a_convergence_time_is_given() -> None:
    text = "topology: one-plane\ntraffic:\n  - transfer: {from: h0, to: h2, size: 1KiB}\n"
    assert parse_scenario(text, "x.yaml").convergence_ns is None
    changed = parse_scenario(text, "x.yaml", changes=["routing.convergence=10ms"])
    assert changed.convergence_ns == 10_000_000


def test_another_topology_keeps_what_the_scenario_changes_in_it(tmp_path: Path) -> None:
    four = find_topology("four-plane")
    path = tmp_path / "x.yaml"
    queues = "queues: {host: {data_limit: 20KiB, control_limit: 64KiB}}"
    path.write_text(
        MINIMAL.replace("topology: two-plane", f"topology: {{base: two-plane, {queues}}}")
    )
    fabric = load_scenario(path, topology=four).fabric
    assert (fabric.planes, fabric.host_queue.data_limit_bytes) == (4, 20 << 10)
    path.write_text(MINIMAL.replace("topology: two-plane", "topology: {planes: 2}"))
    assert load_scenario(path, topology=four).fabric.planes == 4


def test_aliases_that_stand_for_more_than_fits_in_memory_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    with pytest.raises(ScenarioFileError, match=r"file: with its aliases it has .* values"):
        parse_scenario("\n".join(lines), "file")


def test_aliases_of_aliases_are_nested_too_deep() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 600)]
    with pytest.raises(ScenarioFileError, match="file: is nested too deep"):
        parse_scenario("\n".join(lines), "file")
