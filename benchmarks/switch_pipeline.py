"""The compiled fabric program against a hand-written Python function that does the same job.

    python benchmarks/switch_pipeline.py [--packets N]

Pipeline alone (ingress and egress, no ports), CPU time per packet, both in turn in one process so
that the ratio holds when the machine's speed drifts. Before anything is timed, both must give the
same bytes for every packet.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.fabric_tables import compiled_switch, fabric, handwritten_switch
from topologies.addressing import Role, encode_usid
from topologies.model import Fabric

SWITCH = "p0-t0-0"
ROUNDS = 15

Step = Callable[[bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of packet."""

    name: str
    frame: bytes
    ingress_port: int


def usid_frame(topology: Fabric, usids: list[int], dscp: int, size_bytes: int) -> bytes:
    """An ECN-capable IPv6-in-IPv6 frame of `size_bytes` whose carrier holds `usids`."""
    carrier = topology.addresses.block << 96
    for place, usid in enumerate(usids):
        carrier |= usid << (80 - 16 * place)
    first_word = 6 << 28 | dscp << 22 | 2 << 20 | 0x12345
    header = (
        first_word.to_bytes(4, "big")
        + (size_bytes - 54).to_bytes(2, "big")
        + bytes((41, 64))
        + bytes(16)
        + carrier.to_bytes(16, "big")
    )
    payload = bytes(range(256)) * (size_bytes // 256 + 1)
    return (bytes(12) + b"\x86\xdd" + header + payload)[:size_bytes]


def workloads(topology: Fabric) -> list[Workload]:
    """Full data packets up and down, and a control packet."""
    t0 = encode_usid(0, Role.T0, 0)
    t1 = encode_usid(0, Role.T1, 0)
    far_t0 = encode_usid(0, Role.T0, 1)
    downlink = encode_usid(0, Role.DOWNLINK, 1)
    uplink_port = topology.hosts_per_t0
    classes = topology.traffic
    return [
        Workload(
            "4 KiB write, host to T1",
            usid_frame(topology, [t0, t1, far_t0, downlink], classes.trimmable, 4242),
            0,
        ),
        Workload(
            "4 KiB write, T1 to host",
            usid_frame(topology, [t0, downlink], classes.trimmable, 4242),
            uplink_port,
        ),
        Workload(
            "SACK, T1 to host",
            usid_frame(topology, [t0, downlink], classes.control, 154),
            uplink_port,
        ),
    ]


def cpu_us(step: Step, frame: bytes, packets: int) -> float:
    """CPU microseconds per call."""
    start = time.process_time_ns()
    for _ in range(packets):
        step(frame)
    return (time.process_time_ns() - start) / packets / 1000


def main(packets: int = 3000) -> None:
    """Print a row per workload."""
    topology = fabric()
    pipeline = compiled_switch(topology, SWITCH)
    yardstick = handwritten_switch(topology, SWITCH)
    print(f"pipeline alone: fabric.p4 as {SWITCH} of {topology.name}, CPU µs per packet")
    print(f"  {'':26}{'compiled':>10}{'by hand':>10}{'ratio':>8}   (median of {ROUNDS} rounds)")
    for load in workloads(topology):

        def run_compiled(frame: bytes, port: int = load.ingress_port) -> bytes | None:
            result = pipeline.ingress(frame, port, 0)
            if result is None:
                return None
            out = pipeline.egress(result[4], result[0], 0)
            assert out is None or isinstance(out, bytes)
            return out

        def run_by_hand(frame: bytes, port: int = load.ingress_port) -> bytes | None:
            result = yardstick.ingress(frame, port)
            return None if result is None else yardstick.egress(result[2], result[0])

        ours, theirs = run_compiled(load.frame), run_by_hand(load.frame)
        if ours is None or ours != theirs:
            raise SystemExit(f"{load.name}: the two do not agree; nothing to compare")
        pairs = [
            (cpu_us(run_compiled, load.frame, packets), cpu_us(run_by_hand, load.frame, packets))
            for _ in range(ROUNDS)
        ]
        compiled_us = statistics.median(pair[0] for pair in pairs)
        by_hand_us = statistics.median(pair[1] for pair in pairs)
        ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
        print(f"  {load.name:26}{compiled_us:10.2f}{by_hand_us:10.2f}{ratio:8.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=3000, help="per round and kind")
    main(parser.parse_args().packets)
