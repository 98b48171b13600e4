"""Targets in this process and in virtual time: the softswitch, and the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from p4src import compiled
from softswitch.program import Program, load_program
from softswitch.switch import Switch
from softswitch.tables import Entry, Group
from tests.softswitch.reference_interpreter import Interpreter
from tests.softswitch.reference_switch import ReferenceSwitch
from tests.traces.format import Cell, Trace
from tests.traces.observation import Observation

PRIORITY_QUEUES = 8


class VirtualTimeSwitch(Protocol):
    """A switch whose clock is an argument."""

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        """Take a frame in."""

    def transmit(self, now_ns: int) -> list[tuple[int, bytes]]:
        """Frames that are out by now."""

    def next_timer(self) -> int | None:
        """When the next one is."""


@dataclass(slots=True)
class Played:
    """What came out, by port: frames, and when their last bits were out."""

    frames: dict[int, list[bytes]]
    times_ns: dict[int, list[int]]


def play(switch: VirtualTimeSwitch, trace: Trace) -> Played:
    """Send a trace's packets at their times and wait until nothing is left."""
    played = Played({port: [] for port in trace.ports}, {port: [] for port in trace.ports})

    def take(now_ns: int) -> None:
        for port, frame in switch.transmit(now_ns):
            played.frames[port].append(frame)
            played.times_ns[port].append(now_ns)

    def let_time_pass(until_ns: int | None) -> None:
        while (timer := switch.next_timer()) is not None and (
            until_ns is None or timer <= until_ns
        ):
            take(timer)

    for step in trace.steps:
        let_time_pass(step.at_ns)
        switch.receive(step.port, step.frame, step.at_ns)
        take(step.at_ns)
    let_time_pass(None)
    return played


def nonzero_counters(
    arrays: Mapping[str, Iterable[tuple[int, int]]],
) -> dict[Cell, tuple[int, int]]:
    """Cells that counted something."""
    return {
        (name, index): (packets, size_bytes)
        for name, cells in arrays.items()
        for index, (packets, size_bytes) in enumerate(cells)
        if packets or size_bytes
    }


def nonzero_registers(arrays: Mapping[str, Iterable[int]]) -> dict[Cell, int]:
    """Cells that are not 0."""
    return {
        (name, index): value
        for name, values in arrays.items()
        for index, value in enumerate(values)
        if value
    }


class ReferenceTarget:
    """The reference interpreter; `last` is the one that ran last, with what it recorded."""

    def __init__(self) -> None:
        self.last: Interpreter | None = None

    def run(self, trace: Trace) -> Observation:
        """See `Target`."""
        interpreter = self.last = Interpreter(compiled(trace.program.name).json_text)
        for profile, member_id, call in trace.members:
            interpreter.members[profile][member_id] = call
        for profile, group_id, member_ids in trace.groups:
            interpreter.groups[profile][group_id] = list(member_ids)
        for table, entry in trace.entries:
            interpreter.entries[table].append(Entry(entry.match, entry.target))
        for (name, index), value in trace.registers.items():
            interpreter.registers[name][index] = value
        switch = ReferenceSwitch(interpreter, {p: trace.rates.get(p) for p in trace.ports})
        played = play(switch, trace)
        return Observation(
            played.frames,
            nonzero_counters(
                {n: [(c[0], c[1]) for c in cells] for n, cells in interpreter.counters.items()}
            ),
            nonzero_registers(interpreter.registers),
            played.times_ns,
        )


@cache
def loaded(program: str) -> Program:
    """The typed form of a compiled program."""
    return load_program(compiled(program).json_text)


def make_switch(trace: Trace) -> Switch:
    """A softswitch with a trace's ports, tables and registers."""
    switch = Switch(seed=trace.seed, priority_queues=PRIORITY_QUEUES)
    for port in trace.ports:
        switch.add_port(port, rate_bps=trace.rates.get(port))
    pipeline = switch.load(loaded(trace.program.name))
    for profile, member_id, call in trace.members:
        pipeline.action_profiles[profile].insert_member(member_id, call)
    for profile, group_id, member_ids in trace.groups:
        pipeline.action_profiles[profile].insert_group(
            group_id, Group(dict.fromkeys(member_ids, (1, -1)))
        )
    for table, entry in trace.entries:
        pipeline.tables[table].insert(Entry(entry.match, entry.target))
    for (name, index), value in trace.registers.items():
        pipeline.registers[name].values[index] = value
    return switch


class SoftswitchInProcess:
    """The softswitch, without interfaces and without a clock."""

    def run(self, trace: Trace) -> Observation:
        """See `Target`."""
        switch = make_switch(trace)
        played = play(switch, trace)
        pipeline = switch.pipeline
        assert pipeline is not None
        return Observation(
            played.frames,
            nonzero_counters(
                {n: [c.read(i) for i in range(c.size)] for n, c in pipeline.counters.items()}
            ),
            nonzero_registers({n: r.values for n, r in pipeline.registers.items()}),
            played.times_ns,
        )
