"""Packets per second from one veth port to another: the software switch, and BMv2 where installed.

    python -m benchmarks.port_to_port [--packets N]

One switch as p0-t0-0 of the one-plane topology with its ports unlimited, in a network namespace;
packets cross it from a host port to an uplink, a fixed number of them in flight. Both targets get
the same packets in turn, several rounds of it, and the ratios are of one run. What is measured
includes the sender and the receiver (this process), which share the cores with the switch.
"""

import argparse
import select
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.fabric_tables import TOPOLOGY
from benchmarks.switch_pipeline import usid_frame
from controller.fleet import Connection
from controller.install import install
from controller.plan import SwitchPlan
from controller.program import default_device_config, default_p4info, load_pipeline
from controller.targets import Target as Address
from topologies.addressing import Role, encode_usid
from topologies.loader import load_topology
from topologies.model import Fabric
from topologies.runner.errors import RunnerError
from topologies.runner.links import LINK_MTU_BYTES, InterfaceSpec, bring_up, create_links
from topologies.runner.namespaces import NetworkNamespace
from topologies.runner.processes import ManagedProcess, stop_all, wait_until_ready
from topologies.runner.targets import PortLimit, SwitchPlace, Target, find_target

ROUNDS = 5
STALL_S = 2.0
ETH_P_ALL = 3
PACKET_IGNORE_OUTGOING = 23
SOL_PACKET = 263


@dataclass(frozen=True, slots=True)
class Measured:
    """One round: delivered packets, wall time, and the switch's own CPU time."""

    packets: int
    lost: int
    wall_s: float
    switch_cpu_s: float


def cpu_s(pid: int) -> float:
    """CPU time that the threads of a process have used (`schedstat` has ns, `stat` only ticks)."""
    used_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        used_ns += int((thread / "schedstat").read_text().split()[0])
    return used_ns / 1e9


def raw_socket(namespace: NetworkNamespace, interface: str) -> socket.socket:
    """A packet socket on an interface, deep enough for everything in flight."""
    with namespace.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        raw.bind((interface, 0))
        raw.setblocking(False)
    return raw


class Bench:
    """One target's switch between two sockets of ours."""

    def __init__(self, target: Target, topology: Fabric, stack: ExitStack) -> None:
        self.name = target.name
        switch = topology.switch("p0-t0-0")
        ports = list(topology.ports(switch.id))
        inside = stack.enter_context(NetworkNamespace(f"{target.name}-switch"))
        outside = stack.enter_context(NetworkNamespace(f"{target.name}-load"))
        names = {port.number: f"port{port.number}" for port in ports}
        create_links(
            (
                (
                    InterfaceSpec(inside, names[port.number], port.mac),
                    InterfaceSpec(outside, names[port.number], port.peer_mac),
                )
                for port in ports
            ),
            LINK_MTU_BYTES,
        )
        for namespace in (inside, outside):
            bring_up(namespace)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mrc-bench-")))
        place = SwitchPlace(
            name=switch.name,
            device_id=switch.device_id,
            namespace=inside,
            interfaces=names,
            limits={port.number: PortLimit(None, port.queue) for port in ports},
            frame_bytes=topology.path_mtu_bytes + topology.trim.mrc_bytes,
            sockets=folder,
            log=folder / "log",
        )
        self.process = ManagedProcess(target.name, target.command(place), inside, place.log)
        stack.callback(stop_all, [self.process], 5.0)
        wait_until_ready([(self.process, lambda: target.is_ready(place))], 60, lambda _: None)
        target.prepare(place)
        address = Address(switch.name, place.grpc_address, switch.device_id)
        with Connection(wait_s=10).open(address) as client:
            pipeline = load_pipeline(default_p4info(), default_device_config())
            install(client, pipeline, SwitchPlan(topology, switch))
        self.source = raw_socket(outside, names[0])
        self.sink = raw_socket(outside, names[topology.hosts_per_t0])
        stack.callback(self.source.close)
        stack.callback(self.sink.close)

    def run(self, frame: bytes, packets: int, in_flight: int) -> Measured:
        """Send `packets`, never more than `in_flight` of them unanswered."""
        poller = select.poll()
        poller.register(self.sink, select.POLLIN)
        sent = received = 0
        cpu = cpu_s(self.process.pid)
        start = time.perf_counter()
        while received < packets:
            while sent < packets and sent - received < in_flight:
                try:
                    self.source.send(frame)
                except BlockingIOError:
                    break
                sent += 1
            if not poller.poll(STALL_S * 1000):
                break  # what is missing is lost
            try:
                while True:
                    self.sink.recv(LINK_MTU_BYTES + 64)
                    received += 1
            except BlockingIOError:
                pass
        wall = time.perf_counter() - start
        if received < packets:
            wall -= STALL_S
        return Measured(received, sent - received, wall, cpu_s(self.process.pid) - cpu)


@contextmanager
def benches(topology: Fabric) -> Iterator[list[Bench]]:
    """A bench per target that is installed."""
    with ExitStack() as stack:
        found = []
        for name in ("softswitch", "bmv2"):
            try:
                target = find_target(name)
            except RunnerError as error:
                print(f"  {name}: not measured: {error}")
                continue
            found.append(Bench(target, topology, stack))
        yield found


def unlimited(topology: Fabric) -> Fabric:
    """The topology with links that are as fast as the machine."""
    return replace(
        topology,
        host_link=replace(topology.host_link, rate_bps=None),
        fabric_link=replace(topology.fabric_link, rate_bps=None),
    )


def main(packets: int = 20_000) -> None:
    """Print a block per kind of packet and number in flight."""
    topology = unlimited(load_topology(TOPOLOGY.with_name("one-plane.yaml")))
    usids = [
        encode_usid(0, Role.T0, 0),
        encode_usid(0, Role.T1, 0),
        encode_usid(0, Role.T0, 1),
        encode_usid(0, Role.DOWNLINK, 0),
    ]
    classes = topology.traffic
    loads = [
        ("4,242-byte writes, 16 in flight", classes.trimmable, 4242, 16),
        ("4,242-byte writes, 1 in flight", classes.trimmable, 4242, 1),
        ("154-byte SACKs, 16 in flight", classes.control, 154, 16),
    ]
    print(f"port to port on veth: fabric.p4 as p0-t0-0 of {topology.name}, median of {ROUNDS}")
    with benches(topology) as running:
        for title, dscp, size, in_flight in loads:
            frame = usid_frame(topology, usids, dscp, size)
            rounds = max(1, packets // (1 if in_flight > 1 else 5))
            results: dict[str, list[Measured]] = {bench.name: [] for bench in running}
            for bench in running:
                bench.run(frame, min(500, rounds), in_flight)  # warm caches and allocators
            for _ in range(ROUNDS):
                for bench in running:
                    results[bench.name].append(bench.run(frame, rounds, in_flight))
            print(f"  {title}")
            for name, rows in results.items():
                pps = statistics.median(row.packets / row.wall_s for row in rows)
                cpu = statistics.median(row.switch_cpu_s / row.packets * 1e6 for row in rows)
                lost = sum(row.lost for row in rows)
                print(f"    {name:11}{pps:10,.0f} packets/s{cpu:9.1f} µs CPU a packet{lost:7} lost")
            if len(results) == 2:
                ours, theirs = results["softswitch"], results["bmv2"]
                pairs = [
                    (b.wall_s / b.packets) / (a.wall_s / a.packets)
                    for a, b in zip(ours, theirs, strict=True)
                ]
                print(f"    softswitch / bmv2, packets per second: {statistics.median(pairs):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=20_000, help="per round and kind")
    try:
        main(parser.parse_args().packets)
    except RunnerError as problem:
        sys.exit(f"port_to_port: {problem}")
