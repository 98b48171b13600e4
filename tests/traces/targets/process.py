"""Targets that are processes on veth: softswitch and BMv2, both programmed over P4Runtime."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import grpc

from p4src import compiled
from tests.conftest import find_bmv2
from tests.traces.format import Cell, Trace
from tests.traces.observation import Observation
from tests.traces.targets.bench import Bench, interface_options
from tests.traces.targets.p4runtime_client import P4RuntimeClient

DEVICE_ID = 1
# How long a frame or a counter may take; never waited for when all goes well
DEADLINE_S = 30.0
POLL_S = 0.005
STOP_TIMEOUT_S = 10.0

Command = Callable[[Sequence[int], str], list[str]]
"""(ports, gRPC address) → the command line of a switch."""


def softswitch_command(ports: Sequence[int], address: str) -> list[str]:
    """`softswitch`, installed beside this Python."""
    return [
        str(Path(sys.executable).parent / "softswitch"),
        *_common_options(ports),
        "--",
        *("--grpc-server-addr", address, "--priority-queues", "2"),
    ]


def bmv2_command(ports: Sequence[int], address: str) -> list[str]:
    """`simple_switch_grpc`. It is the only one in its namespace, so its Thrift port is free."""
    program = find_bmv2()
    assert program is not None
    return [
        program,
        *_common_options(ports),
        *("-L", "warn"),
        "--",
        *("--grpc-server-addr", address, "--priority-queues", "2"),
    ]


def _common_options(ports: Sequence[int]) -> list[str]:
    return ["--device-id", str(DEVICE_ID), "--no-p4", *interface_options(ports)]


class SwitchProcess:
    """A switch process on a bench, and a P4Runtime client of it. A context manager."""

    def __init__(self, command: Command, ports: Sequence[int]) -> None:
        self._command = command
        self._ports = tuple(ports)
        self._stack = ExitStack()

    def __enter__(self) -> SwitchProcess:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trace-")))
            self.bench = stack.enter_context(Bench(self._ports))
            self._log = stack.enter_context((folder / "log").open("w+"))
            # A path instead of a TCP port: nothing to collide with, and good in all namespaces
            address = f"unix:{folder}/grpc"
            with self.bench.namespace.entered():
                self.process = subprocess.Popen(
                    self._command(self._ports, address),
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                )
            stack.callback(self._stop)
            client = P4RuntimeClient(address, DEVICE_ID)
            try:
                self.client = stack.enter_context(client)
            except (grpc.FutureTimeoutError, grpc.RpcError) as error:
                raise RuntimeError(f"no P4Runtime: {error!r}\n{self.log()}") from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run_beside(self, argv: Sequence[str], stdin: str) -> str:
        """Run a program in the switch's namespace; its output. Raises CalledProcessError."""
        with self.bench.namespace.entered():
            return subprocess.run(
                argv, input=stdin, capture_output=True, text=True, timeout=DEADLINE_S, check=True
            ).stdout

    def log(self) -> str:
        """What the process has said so far."""
        return Path(self._log.name).read_text(errors="replace")

    def _stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ProcessTarget:
    """Runs traces on a switch process, a packet at a time (see `run_on`)."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def run(self, trace: Trace) -> Observation:
        """See `Target`."""
        assert not trace.only_in_process
        with SwitchProcess(self._command, trace.ports) as switch:
            return run_on(switch, trace)


def run_on(switch: SwitchProcess, trace: Trace) -> Observation:
    """Run a trace on a running switch.

    A packet is sent when all that the one before it causes has come out, or, where nothing does,
    when it has been counted as received: BMv2 loses frames that come faster than it takes them in.
    """
    client, bench = switch.client, switch.bench
    client.set_pipeline(compiled(trace.program.name))
    client.program(trace)
    wanted = trace.expected_counters()
    indices = range(max((*bench.ports, *(index for _, index in wanted))) + 1)
    due = 0
    received: Counter[Cell] = Counter()
    for step in trace.steps:
        bench.send(step.port, step.frame)
        due += len(step.outs)
        received[step.received] += 1
        if step.outs:
            arrived = bench.collect_until(due, DEADLINE_S)
        else:
            arrived = _is_received(switch, step.received, received[step.received])
        if not arrived:
            break  # the comparison will tell
    end = time.monotonic() + DEADLINE_S
    while (counters := client.counters(indices)) != wanted and time.monotonic() < end:
        bench.collect(POLL_S)
    return Observation(bench.take(), counters)


def _is_received(switch: SwitchProcess, cell: Cell, packets: int) -> bool:
    """Wait until a counter cell stands at `packets`. False if it does not in time."""
    end = time.monotonic() + DEADLINE_S
    name, index = cell
    while switch.client.counters([index], only=name).get(cell, (0, 0))[0] < packets:
        if time.monotonic() > end:
            return False
        switch.bench.collect(POLL_S)
    return True
