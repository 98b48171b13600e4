"""Scenarios in real time, on a small fabric in network namespaces: what comes of them, and how
they end when somebody ends them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from reports.record import RunRecord, from_json
from tests.topologies.live_runner import LiveRunner, live_runner
from tests.topologies.runner_command import read_until

pytestmark = pytest.mark.netns

SMALL = "topology: {base: two-plane, planes: 1, hosts_per_t0: 1}\n"
#: Everything at once, short: a collective, a flow, a cut, loss, a denial, a reboot
BUSY = f"""\
{SMALL}
traffic:
  - collective: {{name: sum, op: all-reduce, size: 64KiB, repeat: 4}}
  - transfer: {{name: flow, from: h0, to: h1, size: 32KiB, until: 3s}}
faults:
  - link_down: {{name: cut, link: [p0-t0-0, p0-t1-1], at: 800ms, for: 600ms}}
  - loss: {{name: lossy, link: [p0-t0-0, p0-t1-0], probability: 0.05, at: 200ms, for: 400ms}}
  - deny: {{name: denied, from: h1, to: h0, plane: 0, uplinks: [1], at: 300ms, for: 300ms}}
  - switch_reboot: {{name: reboot, switch: p0-t1-1, at: 2s, for: 200ms}}
  - link_down: {{name: too-late, link: [p0-t0-0, p0-t1-1], at: 100s}}
"""
#: Longer than anybody waits
LONG = f"""\
{SMALL}
traffic:
  - transfer: {{name: flow, from: h0, to: h1, size: 32KiB, until: 100s}}
faults:
  - switch_dead: {{name: hole, switch: p0-t1-1, at: 200ms}}
"""


@pytest.fixture(name="runner")
def _runner() -> Iterator[LiveRunner]:
    with live_runner() as runner:
        yield runner


def scenario_file(folder: Path, text: str) -> str:
    file = folder / "test.yaml"
    file.write_text(text)
    return str(file)


def record_of(runner: LiveRunner) -> RunRecord:
    (file,) = runner.runs.glob("*/report.json")
    return from_json(json.loads(file.read_text()))


@pytest.mark.parametrize("target", ["softswitch", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def test_a_scenario_with_faults_of_many_kinds(
    target: str, runner: LiveRunner, tmp_path: Path
) -> None:
    file, copy = scenario_file(tmp_path, BUSY), tmp_path / "copy.json"
    code, output = runner.run("run", "-s", file, "--target", target, "--pcap", "--json", str(copy))
    record = record_of(runner)
    # The one thing that cannot hold is told, and nothing else
    assert record.failures == [f"too-late: never began, the run was over at {_end(record)}"], output
    assert code == 1

    assert (record.clock, record.target) == ("real", target)
    assert {flow.name: flow.state for flow in record.flows} == {"flow": "done", "sum": "done"}
    totals = record.totals
    assert totals["frames sent"] == totals["frames received"] + totals["frames lost"]

    tables = {each.switch: each for each in record.tables}
    assert set(tables) == {"p0-t0-0", "p0-t0-1", "p0-t1-0", "p0-t1-1"}
    assert all(each.before == each.after for each in record.tables)
    assert len({each.before for each in record.tables}) == 4

    faults = {fault.name: fault for fault in record.faults}
    begun = {name for name, fault in faults.items() if fault.begun}
    assert begun == {"cut", "lossy", "denied", "reboot"}
    cut = faults["cut"]
    assert cut.end_ns is not None
    assert cut.at_ns >= 800_000_000 and cut.end_ns - cut.at_ns >= 600_000_000
    denied = [span for span in record.ev_spans if span.state == "DENIED"]
    assert {(span.host, span.peer, span.path) for span in denied} == {
        ("h1", "h0", "plane 0 via p0-t1-1")
    }

    # Every series has a value at each interval, and counters never fall
    series = record.series
    lengths = {len(series.delivered_bytes), *map(len, series.plane_bytes), len(series.queued)}
    assert lengths == {record.end_ns // record.interval_ns + 1}
    assert series.delivered_bytes == sorted(series.delivered_bytes)
    assert series.delivered_bytes[0] == 0 < series.delivered_bytes[-1]
    assert sum(link.up_bytes for link in record.links if link.tier == "host") > 0
    assert set(record.cpu_s) >= {"h0", "h1", *tables, "p0-t0-0--p0-t1-0"}

    assert runner.check()["passed"]
    (page,) = runner.runs.glob("*/report.html")
    assert "test" in page.read_text()
    assert from_json(json.loads(copy.read_text())) == record
    captures = {path.name: path for path in runner.runs.glob("*/captures/*.pcap")}
    assert len(captures) == 6
    assert len(rdpcap(str(captures["h0-plane0.pcap"]))) >= record.flows[0].packets
    assert runner.leftovers() == []


def _end(record: RunRecord) -> str:
    from topologies.units import delay_text

    return delay_text(record.end_ns)


def test_a_signal_ends_a_scenario_and_nothing_is_left(runner: LiveRunner, tmp_path: Path) -> None:
    process = runner.start("run", "-s", scenario_file(tmp_path, LONG))
    read_until(process, "hole: SwitchDead p0-t1-1")
    # Meanwhile it is a fabric like any that is up
    assert runner.do("link", "p0-t0-1", "p0-t1-1", "down") == "p0-t0-1--p0-t1-1 is down\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "ended by SIGINT; everything is cleaned up" in output
    assert "Traceback" not in output
    assert runner.leftovers() == []


def test_an_agent_that_dies_fails_the_run_which_goes_on_to_its_report(
    runner: LiveRunner, tmp_path: Path
) -> None:
    process = runner.start("run", "-s", scenario_file(tmp_path, LONG))
    read_until(process, "hole: SwitchDead p0-t1-1")
    (config,) = runner.runs.glob("*/hosts/h1.json")
    os.kill(runner.child("host.agent", str(config)), signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "h1 ended (killed by SIGKILL)" in output
    record = record_of(runner)
    assert record.failures[0] == "h1 ended (killed by SIGKILL)"
    assert record.flows[0].state == "failed"
    assert runner.leftovers() == []
