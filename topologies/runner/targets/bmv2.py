"""The behavioral model's simple_switch_grpc.

What it does not do as the topology says, measured with simple_switch 1.15:

- A rate is packets per second of one priority queue, not a port's bits per second. The data
  class gets the rate at which the link would carry full frames; the control class gets none,
  since its real queue must never overflow.
- Its receive side loses jumbo frames that come back to back in large numbers, before the
  program sees them.
- When an interface of its own goes down it receives nothing any more, on no port, for good. One
  that loses its carrier, since the far end is down, does not disturb it.
- Rates need its Thrift server, which is a build option.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from topologies.runner.errors import RunnerError
from topologies.runner.targets.base import PRIORITY_QUEUES, SwitchPlace, Target

_BINARY: Final = "simple_switch_grpc"
_CLI: Final = "simple_switch_CLI"
#: Each switch has a loopback of its own, so all take the same port
_THRIFT_PORT: Final = 9090
_THRIFT_TIMEOUT_S: Final = 30
_DATA_PRIORITY: Final = 0
_CONTROL_PRIORITY: Final = 1
#: Preamble, frame check sequence and gap between frames
_WIRE_OVERHEAD_BYTES: Final = 24
_UNLIMITED_PPS: Final = 0


class Bmv2(Target):
    """Runs `binary`; `cli` speaks Thrift to it where it can, else is None."""

    name = "bmv2"
    needs_links_up = True

    def __init__(self, binary: Path, cli: Path | None) -> None:
        self._binary = binary
        self._cli = cli

    @classmethod
    def find(cls) -> Bmv2:
        """In $BMV2 (the program or its folder), else on PATH. Raises RunnerError."""
        chosen = os.environ.get("BMV2")
        if chosen:
            path = Path(chosen)
            binary = path / _BINARY if path.is_dir() else path
            if not os.access(binary, os.X_OK) or binary.is_dir():
                raise RunnerError(f"$BMV2 is {chosen}, but there is no program {binary}")
        else:
            found = shutil.which(_BINARY)
            if found is None:
                raise RunnerError(
                    f"target bmv2 needs {_BINARY}: install BMv2 so that it is on PATH, or set "
                    "$BMV2 to it; or run with --target softswitch"
                )
            binary = Path(found)
        beside = binary.with_name(_CLI)
        cli = str(beside) if os.access(beside, os.X_OK) else shutil.which(_CLI)
        help_text = subprocess.run([binary, "--help"], capture_output=True, text=True).stdout
        # Its CLI may be there and lack Python's thrift module
        thrift = "--thrift-port" in help_text and cli is not None and _runs(cli)
        return cls(binary.resolve(), Path(cli) if thrift and cli else None)

    def not_modelled(self) -> str | None:
        """See `Target.not_modelled`."""
        if self._cli is None:
            return (
                f"this BMv2 has no Thrift, or no {_CLI} that works: link rates and queue depths "
                "are not modelled, and no port can be slowed"
            )
        return (
            "BMv2: a link's rate is packets/s of full data frames; control packets are not limited"
        )

    def can_set_rates(self) -> bool:
        """See `Target.can_set_rates`."""
        return self._cli is not None

    def command(self, place: SwitchPlace) -> Sequence[str]:
        """See `Target.command`. The interfaces must stand before `--`."""
        command = [str(self._binary), "--device-id", str(place.device_id), "--no-p4"]
        for port, interface in place.interfaces.items():
            command += ["-i", f"{port}@{interface}"]
        command += ["--log-console", "-L", "warn"]
        if self._cli is not None:
            command += ["--thrift-port", str(_THRIFT_PORT)]
        command += ["--", "--grpc-server-addr", place.grpc_address]
        return [*command, "--priority-queues", str(PRIORITY_QUEUES)]

    def is_ready(self, place: SwitchPlace) -> bool:
        """See `Target.is_ready`."""
        if not place.grpc_socket.exists():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(place.grpc_socket)) != 0:
                return False
        return self._cli is None or _listens(place)

    def prepare(self, place: SwitchPlace) -> None:
        """Queues deeper than the P4 program's limits, and the links' rates."""
        if self._cli is None:
            return
        commands = []
        for port, limit in place.limits.items():
            for priority in (_DATA_PRIORITY, _CONTROL_PRIORITY):
                commands.append(f"set_queue_depth {limit.deepest_packets} {port} {priority}")
            if limit.rate_bps is not None:
                commands.append(_rate_command(place, port, limit.rate_bps))
        self._thrift(place, commands)

    def set_rate(self, place: SwitchPlace, port: int, rate_bps: int | None) -> None:
        """See `Target.set_rate`."""
        self._thrift(place, [_rate_command(place, port, rate_bps)])

    def _thrift(self, place: SwitchPlace, commands: Iterable[str]) -> None:
        assert self._cli is not None
        try:
            with place.namespace.entered():
                process = subprocess.Popen(
                    [self._cli, "--thrift-port", str(_THRIFT_PORT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            output, _ = process.communicate("\n".join(commands) + "\n", _THRIFT_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunnerError(f"{place.name}: {_CLI}: {error}") from None
        # It exits with 0 whatever happened to a command
        refused = [line for line in output.splitlines() if _is_refusal(line)]
        if process.returncode != 0 or refused:
            problem = refused[0] if refused else output.strip().splitlines()[-1:]
            raise RunnerError(f"{place.name}: {_CLI} failed: {problem}")


def _rate_command(place: SwitchPlace, port: int, rate_bps: int | None) -> str:
    if rate_bps is None:
        return f"set_queue_rate {_UNLIMITED_PPS} {port} {_DATA_PRIORITY}"
    wire_bits = 8 * (place.frame_bytes + _WIRE_OVERHEAD_BYTES)
    return f"set_queue_rate {max(1, rate_bps // wire_bits)} {port} {_DATA_PRIORITY}"


def _is_refusal(line: str) -> bool:
    return any(word in line for word in ("Error", "Invalid", "Unknown", "Could not", "Traceback"))


def _runs(program: str) -> bool:
    return subprocess.run([program, "--help"], capture_output=True, check=False).returncode == 0


def _listens(place: SwitchPlace) -> bool:
    with place.namespace.entered():
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with probe:
        return probe.connect_ex(("127.0.0.1", _THRIFT_PORT)) == 0
