"""Overflow on real interfaces: a slow port on veth, on softswitch and on BMv2.

What is demanded is conservation, not timing: every packet that the switch took in came out whole,
came out trimmed, or is counted as dropped, and the occupancy registers are back at 0.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from p4src import compiled
from tests.conftest import find_bmv2
from tests.traces.format import CASES, Trace, read
from tests.traces.targets.process import (
    SwitchProcess,
    bmv2_command,
    softswitch_command,
)
from tests.traces.test_overflow import (
    CONTROL,
    IN,
    NO_TRIM,
    OUT,
    TRIMMABLE,
    QueueSetup,
    form_of,
    write,
)

pytestmark = pytest.mark.netns

# The tables are those of a trace; its packets are not sent here
TABLES = CASES / "tables" / "overflow.trace"
SETUP = QueueSetup(rate_bps=None, data_limit=50_000, control_limit=1_000_000)
# A jumbo write takes so long that the limit is reached whatever else this machine has to do
SOFTSWITCH_RATE = "1Mbps"
BMV2_RATE_PPS = 20
BMV2_DEPTH_PACKETS = 10_000
PACKETS = 300
# Packets in flight towards the switch: BMv2 loses more before it sees them
WINDOW = 10
# Never waited for when all goes well
DRAIN_DEADLINE_S = 60.0


def slow_softswitch(ports: Sequence[int], address: str) -> list[str]:
    return [*softswitch_command(ports, address), "--port-rate", f"{OUT}={SOFTSWITCH_RATE}"]


def thrift_cli() -> str | None:
    """simple_switch_CLI, beside simple_switch_grpc or on the PATH; None if there is none."""
    bmv2 = find_bmv2()
    beside = str(Path(bmv2).parent) if bmv2 else None
    return shutil.which("simple_switch_CLI", path=beside) or shutil.which("simple_switch_CLI")


def ask_thrift(switch: SwitchProcess, commands: Sequence[str]) -> str:
    cli = thrift_cli()
    assert cli is not None
    output = switch.run_beside([cli], "\n".join(commands) + "\n")
    assert "Invalid" not in output, output
    return output


def counted(switch: SwitchProcess) -> dict[str, int]:
    """Packets by counter, over all ports."""
    totals: dict[str, int] = {}
    for (name, _), (packets, _) in switch.client.counters(range(OUT + 1)).items():
        short = name.rpartition(".")[2]
        totals[short] = totals.get(short, 0) + packets
    return totals


def wait_for(switch: SwitchProcess, what: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """Take frames in until the counters say so."""
    end = time.monotonic() + DRAIN_DEADLINE_S
    while not what(counts := counted(switch)):
        assert time.monotonic() < end, f"{counts}\n{switch.log()}"
        switch.bench.collect(0.005)
    return counts


def accounted(counts: dict[str, int]) -> int:
    return sum(n for name, n in counts.items() if name.startswith(("sent_", "dropped_")))


def overflow(switch: SwitchProcess) -> None:
    """Send a mixed burst into the slow port, and check what becomes of it."""
    kinds = [TRIMMABLE, TRIMMABLE, TRIMMABLE, NO_TRIM, CONTROL]
    sizes = {TRIMMABLE: 4096, NO_TRIM: 4096, CONTROL: 64}
    originals = {
        n: write(n, sizes[kind], kind) for n, kind in enumerate(kinds * (PACKETS // len(kinds)))
    }
    for number, frame in originals.items():
        switch.bench.send(IN, frame)
        if (number + 1) % WINDOW == 0:
            sent = number + 1
            wait_for(switch, lambda counts, sent=sent: counts.get("received") == sent)  # type: ignore[misc]
    counts = wait_for(switch, lambda counts: accounted(counts) == PACKETS)
    out = counts["sent_data"] + counts["sent_control"]
    assert switch.bench.collect_until(out, DRAIN_DEADLINE_S)
    frames = switch.bench.take()
    assert {port for port, seen in frames.items() if seen} == {OUT}
    assert len(frames[OUT]) == out
    forms = [form_of(frame, originals, SETUP) for frame in frames[OUT]]
    assert forms.count("data") == counts["sent_data"] > 0
    assert forms.count("trimmed") == counts["trimmed"] > 0
    assert forms.count("control") == PACKETS // len(kinds)
    assert counts["dropped_data_full"] > 0
    assert "dropped_control_full" not in counts


def load(switch: SwitchProcess, trace: Trace) -> None:
    switch.client.set_pipeline(compiled("fabric"))
    switch.client.program(trace)


def test_softswitch() -> None:
    trace = read(TABLES)
    with SwitchProcess(slow_softswitch, trace.ports) as switch:
        load(switch, trace)
        overflow(switch)
        assert switch.client.registers(range(OUT + 1)) == {}


@pytest.mark.bmv2
def test_bmv2() -> None:
    if thrift_cli() is None:
        pytest.skip("simple_switch_CLI is not installed beside simple_switch_grpc or on the PATH")
    trace = read(TABLES)
    with SwitchProcess(bmv2_command, trace.ports) as switch:
        load(switch, trace)
        # Depth first; the rate of the data class only, the control class has its limit in P4
        ask_thrift(
            switch,
            [f"set_queue_depth {BMV2_DEPTH_PACKETS}", f"set_queue_rate {BMV2_RATE_PPS} {OUT} 0"],
        )
        overflow(switch)
        registers = ("data_occupancy_bytes", "control_occupancy_bytes")
        output = ask_thrift(switch, [f"register_read {name} {OUT}" for name in registers])
        for name in registers:
            assert re.search(rf"{name}\[{OUT}\]\s*=\s*0\b", output), output
