"""`make bench`: every measurement, one after another; some minutes in all.

python -m benchmarks [--quick]
"""

import argparse
import subprocess
import sys

MODULES = (
    "benchmarks.switch_pipeline",
    "benchmarks.port_to_port",
    "benchmarks.controller_scale",
    "benchmarks.wire_codec",
    "benchmarks.endpoint",
    "benchmarks.end_to_end",
    "benchmarks.sim_cost",
    "benchmarks.sim_speed",
)
FULL = {"benchmarks.sim_cost": ["--million"]}
QUICK = {
    "benchmarks.switch_pipeline": ["--packets", "500"],
    "benchmarks.port_to_port": ["--packets", "2000"],
    "benchmarks.controller_scale": ["--quick"],
    "benchmarks.wire_codec": ["--packets", "2000"],
    "benchmarks.endpoint": ["--mebibytes", "4"],
    "benchmarks.end_to_end": ["--seconds", "2"],
    "benchmarks.sim_cost": ["--quick"],
    "benchmarks.sim_speed": ["--quick"],
}


def main(quick: bool) -> int:
    """Run each in a process of its own, so that none inherits another's memory."""
    failed = []
    for module in MODULES:
        command = [sys.executable, "-m", module, *(QUICK if quick else FULL).get(module, [])]
        if subprocess.run(command).returncode != 0:
            failed.append(module)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller runs, rougher figures")
    sys.exit(main(parser.parse_args().quick))
