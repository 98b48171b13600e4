"""What a delivered packet costs in virtual time, where that goes, and how a run grows.

    python -m benchmarks.sim_cost [--quick] [--million] [--profile]

A packet is a full 4 KiB write from one rack to another: three switch hops there, its share of SACKs
and transport ACKs back over three more. CPU microseconds of one process, everything in it. Each run
has a process of its own, so that peaks of memory are its own.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from host.nic import Nic
from sim.simulation import Simulation
from softswitch.switch import Switch
from topologies.scenario import Scenario
from topologies.scenario_loader import parse_scenario

ROUNDS = 3
_CALIBRATION_CALLS = 200_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

TRANSFER = """\
topology: {{base: eight-plane, hosts_per_t0: {hosts_per_t0}}}
traffic:
  - {traffic}
"""


def transfer(mebibytes: int, repeat: int = 1) -> str:
    """One QP between two racks."""
    item = f"transfer: {{from: h0, to: h4, size: {mebibytes}MiB, repeat: {repeat}}}"
    return TRANSFER.format(hosts_per_t0=4, traffic=item)


def permutation(hosts_per_t0: int, kibibytes: int) -> str:
    """Every host of the four racks writes to one of the next rack."""
    item = f"permutation: {{shift: {hosts_per_t0}, size: {kibibytes}KiB}}"
    return TRANSFER.format(hosts_per_t0=hosts_per_t0, traffic=item)


def load(text: str) -> Scenario:
    """The scenario of a text."""
    return parse_scenario(text, "benchmark")


def resident_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


class ResidentMemory:
    """What a run is told how far it is reads how much memory it takes then."""

    def __init__(self) -> None:
        self.bytes: list[int] = []

    def building(self, what: str, done: int, total: int) -> None:
        """As `reports.progress.Progress.building`."""

    def running(self, delivered_bytes: int, total_bytes: int | None, now_ns: int) -> None:
        """As `reports.progress.Progress.running`."""
        self.bytes.append(resident_bytes())


def measure(text: str) -> dict[str, Any]:
    """Run once, in this process."""
    resident = ResidentMemory()
    simulation = Simulation(load(text), progress=resident)
    started = time.process_time()
    result = simulation.run()
    cpu_s = time.process_time() - started
    if any(flow.wrong_bytes or not flow.done for flow in result.flows) or result.unaccounted:
        raise SystemExit("the run is wrong; its cost means nothing")
    return {
        "packets": result.total["packets"],
        "cpu_s": cpu_s,
        "build_s": simulation.build_s,
        "events": result.events,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "resident": resident.bytes,
    }


def measured_apart(text: str) -> dict[str, Any]:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sim_cost", "--child"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


class Stopwatch:
    """Time spent in some methods, while it is on."""

    def __init__(self) -> None:
        self.calls = 0
        self.total_ns = 0

    def patch(self, owner: type, *names: str) -> Callable[[], None]:
        """Time these methods of a class; returns what undoes it."""
        originals = {name: getattr(owner, name) for name in names}

        def timed(original: Callable[..., Any]) -> Callable[..., Any]:
            clock = time.perf_counter_ns

            def call(*args: Any) -> Any:
                start = clock()
                value = original(*args)
                self.total_ns += clock() - start
                self.calls += 1
                return value

            return call

        for name, original in originals.items():
            setattr(owner, name, timed(original))

        def undo() -> None:
            for name, original in originals.items():
                setattr(owner, name, original)

        return undo


def _stopwatch_cost() -> tuple[float, float]:
    """(ns inside, ns in all) that timing one call costs."""

    class Nothing:
        def nothing(self, _a: int, _b: int, _c: int) -> None:
            pass

    nothing = Nothing()

    def run() -> float:
        start = time.perf_counter_ns()
        for number in range(_CALIBRATION_CALLS):
            nothing.nothing(number, number, number)
        return (time.perf_counter_ns() - start) / _CALIBRATION_CALLS

    plain = run()
    watch = Stopwatch()
    watch.patch(Nothing, "nothing")
    return max(watch_inside(watch, run) - plain, 0.0), max(run() - plain, 0.0)


def watch_inside(watch: Stopwatch, run: Callable[[], float]) -> float:
    """What a stopwatch reads for a call of nothing."""
    run()
    return watch.total_ns / watch.calls


def split(text: str) -> dict[str, float]:
    """CPU µs per packet of endpoints, switches and all else, from a run with stopwatches."""
    endpoints, switches = Stopwatch(), Stopwatch()
    undo = [
        endpoints.patch(Nic, "receive", "transmit", "handle_timer", "next_timer"),
        switches.patch(Switch, "receive", "transmit", "next_timer"),
    ]
    try:
        simulation = Simulation(load(text))
        started = time.perf_counter_ns()
        result = simulation.run()
        total_ns = time.perf_counter_ns() - started
    finally:
        for each in undo:
            each()
    inside_ns, whole_ns = _stopwatch_cost()
    packets = result.total["packets"]
    endpoint_ns = endpoints.total_ns - endpoints.calls * inside_ns
    switch_ns = switches.total_ns - switches.calls * inside_ns
    total_ns -= round((endpoints.calls + switches.calls) * whole_ns)
    hops = sum(
        port.rx_packets
        for node in simulation.network.switches.values()
        for port in node.switch.stats().ports.values()
    )
    return {
        "endpoints": endpoint_ns / packets / 1000,
        "switches": switch_ns / packets / 1000,
        "rest": (total_ns - endpoint_ns - switch_ns) / packets / 1000,
        "hops": hops / packets,
        "events": result.events / packets,
    }


def print_cost(quick: bool) -> None:
    """The cost of a packet, and where it goes."""
    text = transfer(8 if quick else 32)
    runs = [measured_apart(text) for _ in range(1 if quick else ROUNDS)]
    best = min(run["cpu_s"] / run["packets"] for run in runs) * 1e6
    parts = split(text)
    measured = parts["endpoints"] + parts["switches"] + parts["rest"]
    scale = best / measured
    print("virtual time: CPU µs per delivered 4 KiB packet, rack to rack, with its feedback")
    print(f"  all                                    {best:8.1f}   (aim: 150)")
    print(f"  both endpoints                         {parts['endpoints'] * scale:8.1f}")
    per_hop = parts["switches"] * scale / parts["hops"]
    print(
        f"  switches                               {parts['switches'] * scale:8.1f}   "
        f"({parts['hops']:.2f} hops, feedback's among them: {per_hop:.1f} each)"
    )
    print(
        f"  event loop, links, tallies, memory     {parts['rest'] * scale:8.1f}   "
        f"({parts['events']:.1f} events)"
    )
    print(f"  building 64 switches and 16 hosts      {min(r['build_s'] for r in runs):8.2f} s")


def print_growth(quick: bool) -> None:
    """Cost against hosts and bytes."""
    print("growth: every host writes to one of the next rack (64 switches)")
    columns = ("hosts", 6), ("KiB each", 10), ("packets", 10), ("CPU s", 8), ("µs/packet", 11)
    print("  " + "".join(f"{name:>{width}}" for name, width in (*columns, ("peak MiB", 10))))
    sizes = [(1, 256), (2, 256), (4, 256)] if quick else [
        (1, 1024), (2, 1024), (4, 1024), (8, 1024), (4, 256), (4, 4096),
    ]  # fmt: skip
    for hosts_per_t0, kibibytes in sizes:
        run = measured_apart(permutation(hosts_per_t0, kibibytes))
        each = run["cpu_s"] / run["packets"] * 1e6
        print(
            f"  {4 * hosts_per_t0:6}{kibibytes:10}{run['packets']:10}{run['cpu_s']:8.1f}"
            f"{each:11.1f}{run['peak_bytes'] / 2**20:10.0f}"
        )


def print_million() -> None:
    """Memory along a run of a million packets."""
    run = measured_apart(transfer(16, 256))
    resident = run["resident"]
    marks = [resident[len(resident) * tenth // 10] / 2**20 for tenth in range(1, 10)]
    each = run["cpu_s"] / run["packets"] * 1e6
    print(f"a run of {run['packets']} packets: {run['cpu_s']:.0f} s of CPU, {each:.1f} µs each")
    print("  MiB in memory at each tenth: " + " ".join(f"{mark:.1f}" for mark in marks))


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller runs, rougher figures")
    parser.add_argument("--million", action="store_true", help="also a run of a million packets")
    parser.add_argument("--profile", action="store_true", help="where the time goes, by function")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(sys.stdin.read())))
        return
    if given.profile:
        simulation = Simulation(load(transfer(8 if given.quick else 32)))
        profile = cProfile.Profile()
        profile.runcall(simulation.run)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    print_cost(given.quick)
    print()
    print_growth(given.quick)
    if given.million:
        print()
        print_million()


if __name__ == "__main__":
    main()
