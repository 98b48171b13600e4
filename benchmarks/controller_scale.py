"""How the controller's plan costs grow: time, peak memory, and cost per switch.

Each fabric is planned in a process of its own, so that peak memory is that of this fabric alone.

    python benchmarks/controller_scale.py            up to the paper's full scale
    python benchmarks/controller_scale.py --quick    up to an eighth of its T0s and T1s
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from controller.columns import columns
from controller.plan import plan
from controller.plan_output import fabric_json_lines
from topologies.generate import generate

#: planes, T0 per plane, T1 per plane, hosts per T0. The last is the paper's full scale.
#: First planes grow, and with them nothing but the number of switches; then the switches do too.
SIZES = (
    (1, 64, 32, 256),
    (2, 64, 32, 256),
    (4, 64, 32, 256),
    (8, 64, 32, 256),
    (8, 128, 64, 256),
    (8, 256, 128, 256),
    (8, 512, 256, 256),
)
QUICK_SIZES = SIZES[:4]


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one fabric: what was planned, and what it cost. CPU seconds, since machines are shared."""

    switches: int
    hosts: int
    entries: int
    switches_s: float
    hosts_s: float
    wall_s: float
    peak_mib: float
    json_mib: float


def measure(size: tuple[int, int, int, int], *, as_json: bool) -> Measured:
    """Plans a fabric in this process: every entry is made; as JSON, every line too."""
    fabric = generate(*size)
    wall, cpu = time.perf_counter(), time.process_time()
    switches_done = cpu
    entries = json_bytes = 0
    if as_json:
        for line in fabric_json_lines(fabric, lambda: None):
            json_bytes += len(line) + 1
            if line.startswith('{"switch"'):
                switches_done = time.process_time()
    else:
        for switch_plan in plan(fabric):
            for block in switch_plan.blocks():
                entries += sum(1 for _ in block.rows)
        switches_done = time.process_time()
    return Measured(
        switches=fabric.switch_count,
        hosts=fabric.host_count,
        entries=entries,
        switches_s=switches_done - cpu,
        hosts_s=time.process_time() - switches_done,
        wall_s=time.perf_counter() - wall,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        json_mib=json_bytes / 2**20,
    )


def measure_apart(size: tuple[int, int, int, int], *, as_json: bool) -> Measured:
    """`measure` in a process of its own."""
    arguments = [sys.executable, __file__, "--one", json.dumps([*size, as_json])]
    answer = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    return Measured(**json.loads(answer))


def name(size: tuple[int, int, int, int]) -> str:
    """planes x T0 x T1 x hosts per T0."""
    return "{} x {} x {} x {}".format(*size)


def tables_row(size: tuple[int, int, int, int]) -> list[str]:
    """One fabric's line of the report on tables."""
    found = measure_apart(size, as_json=False)
    return [
        name(size),
        f"{found.switches:,}",
        f"{found.entries:,}",
        f"{found.switches_s:.1f}",
        f"{found.switches_s / found.switches * 1e3:.2f}",
        f"{found.switches_s / found.entries * 1e6:.2f}",
        f"{found.wall_s:.1f}",
        f"{found.peak_mib:.0f}",
    ]


def json_row(size: tuple[int, int, int, int]) -> list[str]:
    """One fabric's line of the report on JSON."""
    found = measure_apart(size, as_json=True)
    return [
        name(size),
        f"{found.switches:,}",
        f"{found.switches_s / found.switches * 1e3:.2f}",
        f"{found.hosts:,}",
        f"{found.hosts_s / found.hosts * 1e3:.2f}",
        f"{found.switches_s + found.hosts_s:.1f}",
        f"{found.wall_s:.1f}",
        f"{found.json_mib:,.0f}",
        f"{found.peak_mib:.0f}",
    ]


_SIZE = "planes x T0 x T1 x hosts per T0"
TABLES_HEADS = (
    _SIZE,
    "switches",
    "entries",
    "CPU s",
    "ms/switch",
    "us/entry",
    "wall s",
    "peak MiB",
)
JSON_HEADS = (
    _SIZE,
    "switches",
    "ms/switch",
    "hosts",
    "ms/host",
    "CPU s",
    "wall s",
    "JSON MiB",
    "peak MiB",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small fabrics only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        *size, as_json = json.loads(arguments.one)
        planes, t0, t1, hosts = size
        print(json.dumps(asdict(measure((planes, t0, t1, hosts), as_json=as_json))))
        return
    sizes = QUICK_SIZES if arguments.quick else SIZES
    print("controller plan: every table entry of every switch, made and counted")
    print("\n".join(columns(TABLES_HEADS, [tables_row(size) for size in sizes], "  ")))
    print()
    print("controller plan --format json: tables of every switch, configuration of every host")
    print("\n".join(columns(JSON_HEADS, [json_row(size) for size in sizes], "  ")))


if __name__ == "__main__":
    main()
