"""The drawing of a fabric and the words of a report."""

import io
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.topologies.runner_fakes import FakeFabric, fake_fabric
from topologies.model import Fabric
from topologies.runner import report
from topologies.runner.check.burst import burst_flows, bursts
from topologies.runner.check.counters import LinkLoss, SwitchBooks
from topologies.runner.check.exchange import Exchange
from topologies.runner.check.paths import path_flows
from topologies.runner.fabric_view import draw_fabric
from topologies.runner.session import BurstResult, CheckResult

TWO_PLANE = """\
plane 0              plane 1
 p0-t1-0  p0-t1-1     p1-t1-0  p1-t1-1
    │ ╲    ╱ │           │ ╲    ╱ │
    │   ╳    │           │   ╳    │
    │ ╱    ╲ │           │ ╱    ╲ │
 p0-t0-0  p0-t0-1     p1-t0-0  p1-t0-1
  ┌─┴┐     ┌─┴┐        ┌─┴┐     ┌─┴┐
 h0 h1    h2 h3       h0 h1    h2 h3"""  # noqa: RUF001


def test_the_default_fabric_is_drawn_as_it_is() -> None:
    lines = list(draw_fabric(Fabric("two", 2, 2, 2, 2), 80))
    assert "\n".join(lines[:8]) == TWO_PLANE


@given(
    st.integers(1, 8), st.integers(1, 6), st.integers(1, 6), st.integers(1, 20),
    st.integers(20, 200),
)  # fmt: skip
def test_a_drawing_fits_and_has_every_node(
    planes: int, t0s: int, t1s: int, hosts: int, width: int
) -> None:
    fabric = Fabric("any", planes, t0s, t1s, hosts)
    *drawing, counts, rates = draw_fabric(fabric, width)
    assert f"{fabric.host_count} hosts; {planes} plane" in counts and "links" in rates
    if drawing == ["(too wide to draw)"]:
        return
    assert all(len(line) <= width for line in drawing)
    text = "\n".join(drawing)
    assert all(f"p0-t0-{index}" in text for index in range(t0s))
    assert all(f"p0-t1-{index}" in text for index in range(t1s))
    assert "h0" in text and f"h{fabric.host_count - 1}" in text
    drawn = sum(f"plane {plane}" in text for plane in range(planes))
    assert drawn == planes or f"and {planes - drawn} more like it" in text


FABRIC = Fabric("two", 2, 2, 2, 2)


def checked(fake: FakeFabric, fabric: Fabric = FABRIC) -> CheckResult:
    """A result of packets that went through a fake fabric; the burst is trimmed by hand."""
    result = CheckResult()
    result.paths = path_flows(fabric, fake.ports, 1, 2)
    for path, flow in result.paths:
        fake._flows[flow.write.qp] = flow
        assert path.path.plane < fabric.planes
    exchange = Exchange(list(fake.ports.values()), {}, (), 0.02)
    exchange.run([flow for _, flow in result.paths], 8)
    burst = next(bursts(fabric))
    flows = burst_flows(fabric, burst, fake.ports, 1000, 6)
    for flow in flows:
        flow.sent, flow.whole, flow.trimmed_dscp[burst.trimmed_dscp] = 2, 1, 1
    result.bursts = [BurstResult(burst, flows)]
    result.books = {"p0-t0-0": SwitchBooks(received=10, sent_data=9, sent_control=1, trimmed=1)}
    return result


def shown(result: CheckResult, fabric: Fabric = FABRIC) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), width=120)
    report.print_result(console, fabric, result)
    passed = report.print_verdict(console, result, 1.5)
    file = console.file
    assert isinstance(file, io.StringIO)
    return passed, file.getvalue()


def test_a_good_check_passes_and_says_how_much_arrived() -> None:
    with fake_fabric(FABRIC) as fake:
        passed, text = shown(checked(fake))
    assert passed
    assert "PASS  40 of 40 paths delivered every packet; 80 of 80 packets whole" in text
    assert "6 sent = 3 whole + 3 trimmed + 0 dropped; lost uncounted: 0 (1.5 s)" in text
    assert "trims to TRIMMED_LASTHOP" in text
    # T0-local pairs have one path a plane, the others one over each T1
    (row,) = [line for line in text.splitlines() if "h0 → h1" in line]
    assert row.split()[3:] == ["2/2", "·", "·", "2/2", "·", "·"]
    (row,) = [line for line in text.splitlines() if "h1 → h2" in line]
    assert row.split()[3:] == ["·", "2/2", "2/2", "·", "2/2", "2/2"]


def test_a_path_that_lost_packets_fails_the_check_and_is_listed() -> None:
    with fake_fabric(FABRIC) as fake:
        fake.behaviour = lambda arrival: [] if arrival[107:110] == b"\0\0\x02" else [arrival]
        result = checked(fake)
    passed, text = shown(result)
    assert not passed
    assert "FAIL  39 of 40 paths" in text
    assert "1 of 40 paths did not deliver every packet whole (2 missing)" in text
    assert result.bad_paths[0][0].name in text
    document = json.loads(report.result_json(result))
    assert document["passed"] is False
    assert [path["missing"] for path in document["paths"]].count(2) == 1


def lose_uncounted(result: CheckResult) -> None:
    result.bursts[0].flows[0].trimmed_dscp.clear()


def trim_nothing(result: CheckResult) -> None:
    for flow in result.bursts[0].flows:
        flow.trimmed_dscp.clear()


def trim_everything(result: CheckResult) -> None:
    for flow in result.bursts[0].flows:
        flow.whole = 0


def trim_to_another_dscp(result: CheckResult) -> None:
    result.bursts[0].flows[0].trimmed_dscp[FABRIC.traffic.trimmed] = 1


def cut_a_burst_off(result: CheckResult) -> None:
    result.bursts[0].flows[0].cut_off = True


def unbalance_a_switch(result: CheckResult) -> None:
    result.books["p0-t0-0"].received = 12


def lose_on_a_link(result: CheckResult) -> None:
    result.link_losses.append(LinkLoss("h0", "p0-t0-0", 5, 3))


def lose_a_switch(result: CheckResult) -> None:
    result.dead_switches.append("p0-t1-0")


def see_a_stray(result: CheckResult) -> None:
    result.faults.append("h0, plane 0: a stray frame")


def overflow_a_socket(result: CheckResult) -> None:
    result.lost_outside.append("p0-t0-0 lost 3 packets itself: socket_overflow")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lose_uncounted, "packets lost uncounted"),
        (trim_nothing, "nothing was trimmed"),
        (trim_everything, "nothing came out whole"),
        (trim_to_another_dscp, "have DSCP [12] instead of 16"),
        (cut_a_burst_off, "broken off before all was sent"),
        (unbalance_a_switch, "p0-t0-0: 2 packets neither sent nor counted as dropped"),
        (lose_on_a_link, "link h0 to p0-t0-0: 5 sent, 3 received"),
        (lose_a_switch, "p0-t1-0: its process ended"),
        (see_a_stray, "a stray frame"),
        (overflow_a_socket, "socket_overflow"),
    ],
)
def test_anything_wrong_fails_the_check(spoil: Callable[[CheckResult], None], problem: str) -> None:
    with fake_fabric(FABRIC) as fake:
        result = checked(fake)
    spoil(result)
    passed, text = shown(result)
    assert not passed
    assert problem in text


def test_a_fabric_without_two_hosts_has_nothing_to_check() -> None:
    passed, text = shown(CheckResult())
    assert not passed
    assert "there is nothing to send" in text


def test_why_there_was_no_burst_is_said() -> None:
    with fake_fabric(FABRIC) as fake:
        result = checked(fake)
    result.bursts = []
    result.no_burst = "no burst was sent: trimming is off"
    passed, text = shown(result)
    assert passed
    assert "no burst was sent: trimming is off" in text


def test_a_large_fabric_is_summed_up() -> None:
    fabric = Fabric("large", 2, 4, 2, 2)
    with fake_fabric(fabric) as fake:
        passed, text = shown(checked(fake, fabric), fabric)
    assert passed
    assert "summed over host pairs" in text
    (row,) = [line for line in text.splitlines() if "plane 1, over t1-1" in line]
    assert row.split()[-4:] == ["48", "48", "96/96", "0"]
