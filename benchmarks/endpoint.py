"""What a delivered packet costs the two endpoints together, in microseconds of CPU.

Two NICs back to back: frames go from one's `transmit` to the other's `receive`, and time is moved
by hand. The figure has everything in it that both ends do for a packet: scheduling, path selection,
encoding, ICRC, decoding, placement, its share of SACKs and transport ACKs, timers.

python -m benchmarks.endpoint [--mebibytes 16] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import time

from host.config import NicConfig, PortConfig, QpDefaults
from host.nic import Nic
from host.profiles import PlainProfiles
from host.qp.work import WriteRequest
from topologies.host_config import host_config, host_json
from topologies.model import Fabric

PLANES = 8
RATE_BPS = 100 * 10**9
ONE_WAY_NS = 2000
ROUNDS = 3


def _nic(fabric: Fabric, host: str, qp: QpDefaults) -> Nic:
    text = json.dumps(host_json(host_config(fabric, fabric.host(host))))
    plain = NicConfig.from_host_json(text)
    ports = tuple(PortConfig(port.mac, port.gateway_mac, RATE_BPS) for port in plain.ports)
    config = NicConfig.from_host_json(text, ports=ports, qp=qp)
    return Nic(config, seed=1, profiles=PlainProfiles(cwnd_bytes=600_000))


def transfer(size_bytes: int, sack_packets: int, loss_one_in: int = 0) -> tuple[float, int, int]:
    """(CPU seconds, packets delivered, control frames sent back) of one write."""
    fabric = Fabric("bench", planes=PLANES, t0_per_plane=2, t1_per_plane=8, hosts_per_t0=1)
    qp = QpDefaults(sack_packets=sack_packets)
    a, b = _nic(fabric, "h0", qp), _nic(fabric, "h1", qp)
    near, far = a.create_qp(a.create_cq()), b.create_qp(b.create_cq())
    told = near.endpoint(), far.endpoint()
    near.connect(told[1])
    far.connect(told[0])
    memory = bytearray(size_bytes)
    region = b.register_memory(memory)
    data = bytes(range(256)) * (size_bytes // 256)
    near.post_write(WriteRequest(1, data, region.va, region.rkey))

    now_ns, sent, answers = 0, 0, 0
    # A wire: frames of one direction, in the order of their arrival
    wires: tuple[list[tuple[int, int, bytes]], list[tuple[int, int, bytes]]] = ([], [])
    start = time.process_time()
    while not near.send_cq:
        for port, frame in a.transmit(now_ns):
            sent += 1
            if not loss_one_in or sent % loss_one_in:
                wires[0].append((now_ns + ONE_WAY_NS, port, frame))
        for port, frame in b.transmit(now_ns):
            answers += 1
            wires[1].append((now_ns + ONE_WAY_NS, port, frame))
        times = [wire[0][0] for wire in wires if wire]
        times += [timer for timer in (a.next_timer(), b.next_timer()) if timer is not None]
        now_ns = max(now_ns, min(times))
        for wire, nic in zip(wires, (b, a), strict=True):
            due = 0
            for arrival_ns, port, frame in wire:
                if arrival_ns > now_ns:
                    break
                due += 1
                nic.receive(port, frame, now_ns)
            del wire[:due]
            nic.handle_timer(now_ns)
    seconds = time.process_time() - start
    if memory != data:
        raise AssertionError("memory is not what was written")
    assert far.responder is not None
    return seconds, far.responder.stats.packets, answers


def main(mebibytes: int) -> None:
    """Print one line a case."""
    size_bytes = mebibytes << 20
    print(f"CPU per delivered packet of 4,096 bytes, both ends; {mebibytes} MiB, best of {ROUNDS}")
    for name, sack_packets, loss_one_in in (
        ("SACK every 4 packets", 4, 0),
        ("SACK every packet", 1, 0),
        ("SACK every 4 packets, 1 % lost", 4, 100),
    ):
        rounds = [transfer(size_bytes, sack_packets, loss_one_in) for _ in range(ROUNDS)]
        seconds, packets, answers = min(rounds)
        print(
            f"  {name:<34} {seconds / packets * 1e6:6.1f} µs"
            f"  ({answers / packets:.2f} control frames a packet)"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def profile(mebibytes: int) -> None:
    """Print where the time goes."""
    profiler = cProfile.Profile()
    profiler.runcall(transfer, mebibytes << 20, 4)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=16, help="size of the transfer")
    parser.add_argument("--profile", action="store_true", help="where the time goes, instead")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments.mebibytes)
    else:
        main(arguments.mebibytes)
