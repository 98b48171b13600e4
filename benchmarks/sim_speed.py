"""How fast virtual time runs: events, delivered packets and memory of three representative loads.

    python -m benchmarks.sim_speed [--quick]

CPU seconds of one process that does nothing else, and the machine's own speed beside them: a
calibration loop of plain Python runs before and after each load in the same process. `loops a
packet` is CPU time in units of that loop, so it compares between machines and between days on a
busy one, where seconds do not.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Final

from sim.simulation import Simulation
from topologies.scenario_loader import parse_scenario

ROUNDS: Final = 3
_CALIBRATION_ROUNDS: Final = 20_000
_CALIBRATIONS: Final = 5

TOPOLOGY: Final = {"base": "eight-plane", "t0_per_plane": 2}


def loads(quick: bool) -> dict[str, dict[str, Any]]:
    """Name → traffic item: one flow, a congested port, and a ring whose buffers are checked."""
    kib = 2048 if quick else 16384
    return {
        "transfer": {"transfer": {"from": "h0", "to": "h4", "size": f"{kib}KiB"}},
        "incast": {
            "incast": {"to": "h0", "from": ["h4", "h5", "h6", "h7"], "size": f"{kib // 4}KiB"}
        },
        "ring all-reduce": {
            "collective": {
                "name": "ring",
                "op": "all-reduce",
                "size": f"{kib // 8}KiB",
                "ranks": 8,
                "order": "spread",
            }
        },
    }


def calibration_s() -> float:
    """CPU seconds of a thousand steps like those of a simulation: tuples, dictionaries, bytes."""
    measured = []
    for _ in range(_CALIBRATIONS):
        seen: dict[int, tuple[int, bytes]] = {}
        frame = bytes(range(64))
        started = time.process_time()
        for number in range(_CALIBRATION_ROUNDS):
            key = number * 7919 & 1023
            before = seen.get(key)
            length = 0 if before is None else before[0]
            seen[key] = (length + len(frame[number & 31 :]), frame)
        measured.append(time.process_time() - started)
    return min(measured) / _CALIBRATION_ROUNDS * 1000


def measure(text: str) -> dict[str, Any]:
    """Run once, in this process."""
    before_s = calibration_s()
    simulation = Simulation(parse_scenario(text, "benchmark"))
    started = time.process_time()
    result = simulation.run()
    cpu_s = time.process_time() - started
    wrong = any(not flow.done or flow.wrong_bytes for flow in result.flows) or any(
        not each.done or each.wrong_elements for each in result.collectives
    )
    if wrong or result.unaccounted:
        raise SystemExit("the run is wrong; its speed means nothing")
    return {
        "cpu_s": cpu_s,
        "loop_s": (before_s + calibration_s()) / 2,
        "packets": result.total["packets"],
        "events": result.events,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measured_apart(text: str) -> dict[str, Any]:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sim_speed", "--child"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Print a line a load."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller runs, rougher figures")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(sys.stdin.read())))
        return
    print("virtual time: speed of a run, median of its runs; a loop is 1000 calibration steps")
    columns = (
        ("load", 16), ("packets", 9), ("events/s", 10), ("packets/s", 10), ("CPU µs/packet", 14),
        ("loop µs", 9), ("loops/packet", 13), ("peak MiB", 9),
    )  # fmt: skip
    print("  " + "".join(f"{name:>{width}}" for name, width in columns))
    for name, item in loads(given.quick).items():
        text = json.dumps({"topology": TOPOLOGY, "traffic": [item]})
        runs = [measured_apart(text) for _ in range(1 if given.quick else ROUNDS)]
        packets, events = runs[0]["packets"], runs[0]["events"]
        cpu_s = statistics.median(run["cpu_s"] for run in runs)
        loop_s = statistics.median(run["loop_s"] for run in runs)
        loops = statistics.median(run["cpu_s"] / run["loop_s"] for run in runs) / packets
        peak = max(run["peak_bytes"] for run in runs) / 2**20
        print(
            f"  {name:>16}{packets:9}{events / cpu_s:10.0f}{packets / cpu_s:10.0f}"
            f"{cpu_s / packets * 1e6:14.1f}{loop_s * 1e6:9.1f}{loops:13.3f}{peak:9.0f}"
        )


if __name__ == "__main__":
    main()
