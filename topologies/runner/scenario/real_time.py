"""A scenario on real switches: fabric up, paths checked, agents, traffic, report, fabric down."""

from __future__ import annotations

import json
import time
from typing import Final

from rich.console import Console

from reports.from_result import make_record
from reports.terminal import print_result
from reports.verdict import failures
from topologies.runner import report, session
from topologies.runner.deployment import Deployment
from topologies.runner.live import LiveFabric
from topologies.runner.run_store import RunFolder
from topologies.runner.scenario.execute import execute
from topologies.runner.scenario.live_view import LiveView
from topologies.runner.scenario.plan import RunPlan
from topologies.runner.scenario.report_files import Wanted, write_report
from topologies.runner.targets import Target
from topologies.scenario import Scenario

_ENDPOINT_FILE: Final = "endpoint.json"
CHECK_FILE: Final = "check.json"
CAPTURES_FOLDER: Final = "captures"


def run_scenario(
    scenario: Scenario,
    plan: RunPlan,
    target: Target,
    folder: RunFolder,
    console: Console,
    wanted: Wanted,
    *,
    packets_per_path: int,
    pcap: bool,
) -> int:
    """Run it within the sandbox and return the exit code. Raises RunnerError, Interrupted."""
    fabric = scenario.fabric
    report.print_fabric(console, fabric)
    narrator = report.ConsoleNarrator(console)
    with Deployment(fabric, target, folder, impaired_links=plan.impaired_links) as deployment:
        control = session.bring_up(deployment, narrator)
        folder.mark_up()
        started = time.monotonic()
        checked = session.check(deployment, control, narrator, packets_per_path)
        (folder.path / CHECK_FILE).write_text(report.result_json(checked) + "\n")
        if checked.problems():
            for failure in deployment.failures():
                console.print(f"\n{failure}", style="red", highlight=False, soft_wrap=True)
            report.print_result(console, fabric, checked)
            report.print_verdict(console, checked, time.monotonic() - started)
            console.print("the scenario was not run: packets do not arrive as they should")
            return 1
        captures = folder.path / CAPTURES_FOLDER
        if pcap:
            with narrator.step("captures", 1) as step:
                captures.mkdir()
                deployment.start_captures(captures)
                step.result(f"{fabric.link_count} links, a file each, at the end nearer the hosts")
        session.start_agents(deployment, narrator, _endpoint_options(scenario, folder))
        with LiveFabric(deployment) as live:
            view = LiveView(console, fabric)
            outcome = execute(deployment, live, control, scenario, plan, view, narrator)
        outcome.result.notes += deployment.stop_captures()
        with narrator.step("clean-up", 1) as step:
            deployment.close()
            step.result("agents and switches stopped, namespaces gone")
    result = outcome.result
    result.failures += failures(scenario, result)
    record = make_record(scenario, result, outcome.links, outcome.series)
    files = [captures] if pcap else []
    try:
        files[:0] = write_report(record, folder.path, wanted)
    finally:  # what came of it is told even if the disk is full
        console.print()
        print_result(console, fabric, result, files)
    return 1 if result.failures else 0


def _endpoint_options(scenario: Scenario, folder: RunFolder) -> list[str]:
    """The endpoint's settings as a file; what it does not name is the agent's own default."""
    endpoint = scenario.endpoint
    path = folder.path / _ENDPOINT_FILE
    document = {
        "forwarding": endpoint.forwarding,
        "qp": dict(endpoint.qp),
        "congestion": dict(endpoint.congestion),
        "evs": dict(endpoint.evs),
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    return ["--endpoint", str(path)]
