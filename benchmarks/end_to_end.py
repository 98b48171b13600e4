"""The whole system in real time: delivered packets per second, CPU by process, latency.

    python -m benchmarks.end_to_end [--seconds N]

Writes from h0 to h3 over all paths of the default topology with its links unlimited: two agents,
eight switch processes, every byte checked. Both targets run one after the other, several rounds of
it, and the ratios are of one run. The latency of a write stands beside that of an ICMPv6 echo which
the kernel forwards over as many hops.
"""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.port_to_port import cpu_s, unlimited
from host.agent.address import Address, control_path, exchange_path
from host.agent.client import ControlClient
from topologies.loader import find_topology, load_topology
from topologies.model import Fabric
from topologies.runner import agents, session
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError
from topologies.runner.links import LINK_MTU_BYTES, InterfaceSpec, bring_up, create_links
from topologies.runner.namespaces import NetworkNamespace
from topologies.runner.run_store import RunFolder
from topologies.runner.targets import find_target

ROUNDS = 3
MESSAGE_BYTES = 64 << 10
LATENCY_ROUNDS = 1000
ECHO_TIMEOUT_S = 5.0
SOURCE, DESTINATION = "h0", "h3"
#: Routers between two hosts of different racks: T0, T1, T0
_ROUTERS = 3


@dataclass(frozen=True, slots=True)
class Round:
    """Payload packets per second, and CPU per payload packet of each kind of process, in µs."""

    packets_per_s: float
    cpu_us: dict[str, float]


class _Quiet:
    """A narrator that says nothing, and its steps."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[session.Step]:
        """As `session.Narrator`."""
        yield self

    def advance(self, count: int = 1) -> None:
        """As `session.Step`."""

    def result(self, text: str) -> None:
        """As `session.Step`."""


class Fleet:
    """A fabric of one target with an agent on every host."""

    def __init__(self, name: str, fabric: Fabric, stack: ExitStack) -> None:
        self.name = name
        self.fabric = fabric
        target = find_target(name)
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mrc-bench-")))
        folder = stack.enter_context(RunFolder.create(base, fabric.name, name))
        self.deployment = stack.enter_context(Deployment(fabric, target, folder))
        session.bring_up(self.deployment, _Quiet())
        session.start_agents(self.deployment, _Quiet())
        directory = agents.directory(folder)
        self.client = ControlClient(control_path(directory, SOURCE))
        self._to = str(Address(exchange_path(directory, DESTINATION)))

    def _measure(self, command: str, **fields: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def on_event(event: Any) -> None:
            if event["event"] == "result":
                found.append(dict(event))

        self.client.request(command, on_event=on_event, to=self._to, **fields)
        return found[0]

    def _cpu_s(self) -> dict[str, float]:
        used: dict[str, float] = defaultdict(float)
        for name, process in self.deployment.processes.items():
            used["T1" if "-t1-" in name else "T0"] += cpu_s(process.pid)
        for name, process in self.deployment.agents.items():
            kind = {SOURCE: "sender", DESTINATION: "receiver"}.get(name, "other hosts")
            used[kind] += cpu_s(process.pid)
        return used

    def write_bandwidth(self, seconds: float) -> Round:
        """Writes for so long; CPU is that of the whole test, payload checks included."""
        before = self._cpu_s()
        load = {"size": MESSAGE_BYTES, "duration_s": seconds, "tx_depth": 32}
        result = self._measure("write_bw", qps=1, loads=[load])
        after = self._cpu_s()
        in_message = -(-MESSAGE_BYTES // self.fabric.path_mtu_bytes)
        packets = result["iterations"] * in_message
        rate = packets * 1e9 / result["elapsed_ns"]
        return Round(rate, {kind: (after[kind] - before[kind]) / packets * 1e6 for kind in after})

    def write_latency_us(self) -> float:
        """Median time of a write one way, of 64 bytes."""
        load = {"size": 64, "iterations": LATENCY_ROUNDS}
        return float(self._measure("write_lat", loads=[load])["typical"]) / 1000


def ping_one_way_us() -> float:
    """Half the median round trip of echoes that the kernel forwards over as many hops."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(NetworkNamespace(f"ping{number}")) for number in range(_ROUTERS + 2)
        ]
        create_links(
            (
                (InterfaceSpec(left, "right", None), InterfaceSpec(right, "left", None))
                for left, right in pairwise(nodes)
            ),
            LINK_MTU_BYTES,
        )
        last = len(nodes) - 1
        for number, node in enumerate(nodes):
            for scope in ("all", "default"):
                _in(node, "sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=0")
            _in(node, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
            bring_up(node)
            if number:
                _in(node, "ip", "-6", "addr", "add", f"fd00:{number}::2/64", "dev", "left", "nodad")
            if number < last:
                address = f"fd00:{number + 1}::1/64"
                _in(node, "ip", "-6", "addr", "add", address, "dev", "right", "nodad")
        for number, node in enumerate(nodes):
            for subnet in range(1, last + 1):
                if subnet > number + 1:
                    _in(node, "ip", "-6", "route", "add", f"fd00:{subnet}::/64", "via",
                        f"fd00:{number + 1}::2")  # fmt: skip
                elif subnet < number:
                    _in(node, "ip", "-6", "route", "add", f"fd00:{subnet}::/64", "via",
                        f"fd00:{number}::1")  # fmt: skip
        with nodes[0].entered():
            raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        with raw:
            raw.settimeout(ECHO_TIMEOUT_S)
            trips = [_echo_ns(raw, f"fd00:{last}::2", number) for number in range(LATENCY_ROUNDS)]
        return statistics.median(trips) / 2000


def _echo_ns(raw: socket.socket, address: str, number: int) -> int:
    """Round trip of one ICMPv6 echo (RFC 4443, section 4); the kernel fills the checksum in."""
    request = struct.pack("!BBHHH", 128, 0, 0, 1, number) + bytes(56)
    started_ns = time.perf_counter_ns()
    raw.sendto(request, (address, 0))
    while True:
        answer = raw.recv(256)
        if answer[0] == 129 and answer[6:8] == request[6:8]:
            return time.perf_counter_ns() - started_ns


def _in(node: NetworkNamespace, *command: str) -> str:
    with node.entered():
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RunnerError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def main(seconds: float) -> None:
    """Print a block for each target, and the ratios."""
    fabric = unlimited(load_topology(find_topology("two-plane")))
    print(
        f"end to end: writes of {MESSAGE_BYTES >> 10} KiB, {SOURCE} to {DESTINATION}, all paths of "
        f"{fabric.name}, links unlimited; {os.cpu_count()} cores, median of {ROUNDS}"
    )
    rates: dict[str, list[float]] = {}
    latencies: dict[str, float] = {}
    for name in ("softswitch", "bmv2"):
        try:
            find_target(name)
        except RunnerError as error:
            print(f"  {name}: not measured: {error}")
            continue
        with ExitStack() as stack:
            fleet = Fleet(name, fabric, stack)
            fleet.write_bandwidth(min(seconds, 1.0))  # warm up
            rounds = [fleet.write_bandwidth(seconds) for _ in range(ROUNDS)]
            latencies[name] = fleet.write_latency_us()
        rates[name] = [each.packets_per_s for each in rounds]
        print(f"  {name:11}{statistics.median(rates[name]):10,.0f} delivered 4 KiB packets/s")
        costs = {
            kind: statistics.median(each.cpu_us[kind] for each in rounds)
            for kind in rounds[0].cpu_us
        }
        listed = ", ".join(f"{kind} {cost:.1f}" for kind, cost in costs.items())
        print(f"    µs of CPU per delivered packet: {listed}; together {sum(costs.values()):.1f}")
    if len(rates) == 2:
        ratio = statistics.median(rates["softswitch"]) / statistics.median(rates["bmv2"])
        print(f"  softswitch / bmv2, delivered packets per second: {ratio:.2f}")
    echo_us = ping_one_way_us()
    print(f"  one way over {_ROUTERS} hops: ICMPv6 echo forwarded by the kernel {echo_us:.0f} µs")
    for name, latency_us in latencies.items():
        ratio = latency_us / echo_us
        print(f"    write-lat over {name}: {latency_us:.0f} µs, {ratio:.0f} times as much")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="per round")
    try:
        main(parser.parse_args().seconds)
    except RunnerError as problem:
        sys.exit(f"end_to_end: {problem}")
