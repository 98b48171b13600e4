"""Every trace on every target: what the trace demands is what comes out, byte by byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.traces.format import Trace, read_all
from tests.traces.observation import Target, differences
from tests.traces.targets.in_process import ReferenceTarget, SoftswitchInProcess
from tests.traces.targets.process import ProcessTarget, bmv2_command, softswitch_command

TRACES = read_all()
REAL_TIME_TRACES = [trace for trace in TRACES if not trace.only_in_process]

all_traces = pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
real_time_traces = pytest.mark.parametrize("trace", REAL_TIME_TRACES, ids=lambda trace: trace.name)


def demand(make_target: Callable[[], Target], trace: Trace) -> None:
    found = list(differences(trace, make_target().run(trace)))
    assert not found, "\n".join(found)


@all_traces
def test_reference_interpreter(trace: Trace) -> None:
    demand(ReferenceTarget, trace)


@all_traces
def test_softswitch_in_process(trace: Trace) -> None:
    demand(SoftswitchInProcess, trace)


@pytest.mark.netns
@real_time_traces
def test_softswitch_on_veth(trace: Trace) -> None:
    demand(lambda: ProcessTarget(softswitch_command), trace)


@pytest.mark.bmv2
@pytest.mark.netns
@real_time_traces
def test_bmv2_on_veth(trace: Trace) -> None:
    demand(lambda: ProcessTarget(bmv2_command), trace)


@all_traces
def test_every_packet_is_accounted_for(trace: Trace) -> None:
    """Of a trace itself: each packet is counted as received, and then as sent or as dropped."""
    for step in trace.steps:
        names = [name.rpartition(".")[2] for name, _ in step.counts]
        sent = sum(name.startswith("sent") for name in names)
        dropped = sum(name.startswith("dropped") for name in names)
        assert names.count("received") == 1
        assert sent == len(step.outs), f"line {step.line}"
        assert sent + dropped == 1, f"line {step.line}"
