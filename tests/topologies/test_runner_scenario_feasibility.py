"""Links that are far too fast for switches that are processes, told before anything is started."""

from __future__ import annotations

import os

import pytest

from topologies.runner.errors import UsageError
from topologies.runner.scenario.feasibility import check_feasible, packets_per_s
from topologies.runner.targets.softswitch import Softswitch
from topologies.scenario import Scenario
from topologies.scenario_loader import find_scenario, load_scenario, parse_scenario, ready_scenarios

TARGET = Softswitch()
ONE_FLOW = "traffic:\n  - transfer: {name: flow, from: h0, to: h2, size: 1MiB}\n"
#: Bits of a full packet on the wire: 4,096 of payload, 142 of headers and ICRC, 24 of gap and such
PACKET_BITS = 8 * (4096 + 142 + 24)


def scenario(host_link: str, traffic: str = ONE_FLOW) -> Scenario:
    links = f"links: {{host: {host_link}, fabric: {{}}}}"
    return parse_scenario(f"topology: {{base: two-plane, {links}}}\n{traffic}", "test.yaml")


@pytest.fixture(name="cores", params=[2, 256])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    cores: int = request.param
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    return cores


@pytest.mark.usefixtures("cores")
def test_ready_scenarios_are_refused_where_they_are_for_virtual_time() -> None:
    for name, path in ready_scenarios().items():
        each = load_scenario(path)
        if not name.startswith("eight-plane-"):
            check_feasible(each, TARGET)
            continue
        with pytest.raises(UsageError) as refused:
            check_feasible(each, TARGET)
        text = str(refused.value)
        assert text.startswith(
            "eight-plane: not in real time on softswitch: with host links of 100Gbps "
        )
        assert f"{each.fabric.switch_count} switches" in text and "--target sim" in text
        assert "\n" not in text


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("host_link", ["{}", "{rate: null}", "{rate: 25Mbps}", "{rate: 1Gbps}"])
def test_links_without_a_rate_and_those_that_are_only_fast_are_legal(host_link: str) -> None:
    check_feasible(scenario(host_link), TARGET)


@pytest.mark.usefixtures("cores")
def test_one_host_with_a_port_without_a_rate_says_nothing() -> None:
    text = ONE_FLOW.replace("h0", "h1")
    given = scenario("{rate: 400Gbps}", text)
    with pytest.raises(UsageError):
        check_feasible(given, TARGET)
    free = parse_scenario(
        "topology:\n  base: two-plane\n  links:\n    host: {rate: 400Gbps}\n    fabric: {}\n"
        f"    overrides: [{{between: [h1, p1-t0-0], rate: null}}]\n{text}",
        "test.yaml",
    )
    assert packets_per_s(free) is None
    check_feasible(free, TARGET)


def test_more_cores_carry_more(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = "traffic:\n  - permutation: {size: 1MiB}\n"
    given = scenario("{rate: 10Gbps}", everybody)
    for cores, refused in ((2, True), (16, False)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: set(range(n)))
        if refused:
            with pytest.raises(UsageError, match="carry about 10,000/s together on 2 cores"):
                check_feasible(given, TARGET)
        else:
            check_feasible(given, TARGET)


@pytest.mark.parametrize(
    ("traffic", "hosts"),
    [
        (ONE_FLOW, 1),
        ("traffic:\n  - incast: {from: [h1, h2, h3], to: h0, size: 1MiB}\n", 1),
        ("traffic:\n  - permutation: {size: 1MiB}\n", 4),
        ("traffic:\n  - collective: {op: all-reduce, size: 1MiB, ranks: 3}\n", 3),
        (ONE_FLOW + "  - transfer: {from: h0, to: h1, size: 1MiB}\n", 1),
    ],
)
def test_traffic_is_what_senders_and_receivers_can_have(traffic: str, hosts: int) -> None:
    assert packets_per_s(scenario("{rate: 1Gbps}", traffic)) == hosts * 2 * 10**9 // PACKET_BITS


def test_the_line_says_packets_and_switches() -> None:
    with pytest.raises(UsageError, match="up to 23,463,162 packets/s, and 64 switches"):
        check_feasible(load_scenario(find_scenario("eight-plane-quickstart")), TARGET)
