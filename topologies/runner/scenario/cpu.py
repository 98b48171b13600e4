"""CPU time of the processes of a run.

The run lives in a PID namespace of its own, and /proc is that of the machine: the number that a
process has there stands in what /proc tells about its pidfd.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from topologies.runner.processes import ManagedProcess

#: What this process, which samples and makes faults, is called
OWN_NAME: Final = "runner"

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
#: Of /proc/PID/stat behind the command's name: user and system time (proc(5): fields 14 and 15)
_USER, _SYSTEM = 11, 12


class CpuMeter:
    """Reads CPU seconds; what a process used that has ended is what was last read of it."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = {}
        self._start: dict[tuple[str, int], float] = {}
        self._own_start_s = time.process_time()

    def read(self, processes: dict[str, ManagedProcess], *, first: bool = False) -> None:
        """Read all that run; of what was there at the `first` reading, only the rest counts."""
        for name, process in processes.items():
            seconds = _cpu_s(process.pidfd)
            if seconds is None:
                continue
            key = name, process.pid
            if first:
                self._start[key] = seconds
                self._own_start_s = time.process_time()
            self._seconds[key] = seconds

    def by_process(self) -> dict[str, float]:
        """Seconds by the process's name, those that were started anew together."""
        totals: dict[str, float] = {}
        for (name, pid), seconds in self._seconds.items():
            used = seconds - self._start.get((name, pid), 0.0)
            totals[name] = round(totals.get(name, 0.0) + used, 2)
        totals = dict(sorted(totals.items()))
        totals[OWN_NAME] = round(time.process_time() - self._own_start_s, 2)
        return totals


def _cpu_s(pidfd: int) -> float | None:
    """None where the process has ended."""
    try:
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
        pid = next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, StopIteration):
        return None
    fields = text.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_S
