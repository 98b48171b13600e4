"""The softswitch against the reference interpreter: same tables, same packets, same everything.

Tables, link rates, register contents and packets are random; what is compared are the frames of
every port in order, when the next one is due, all counters and all registers. Where the programs
draw random numbers, the probabilities are 0 or 1, or what was drawn is masked out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from p4src import compiled
from softswitch.program import Program, load_program
from softswitch.switch import Switch
from softswitch.tables import (
    ActionCall,
    Entry,
    Group,
    GroupRef,
    MatchKind,
    MatchValue,
    MemberRef,
    Table,
    Target,
)
from tests.softswitch.reference_interpreter import Interpreter, Unspecified
from tests.softswitch.reference_switch import ReferenceSwitch
from tests.traces.format import Out, Step, Trace
from tests.traces.observation import differences
from tests.traces.program import shape
from tests.traces.targets.process import SwitchProcess, bmv2_command, run_on

PRIORITY_QUEUES = 8
U32 = 0xFFFFFFFF


@cache
def program(name: str) -> Program:
    return load_program(compiled(name).json_text)


@dataclass
class Configuration:
    """What both switches are set up with. Rates in bits per second, None = unlimited."""

    rates: Mapping[int, int | None]
    tables: Mapping[str, Mapping[MatchValue, Target]] = field(default_factory=dict)
    members: Mapping[int, ActionCall] = field(default_factory=dict)
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    registers: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Both:
    """The two switches, and their state in the same words."""

    softswitch: Switch
    reference: ReferenceSwitch

    @classmethod
    def make(cls, name: str, configuration: Configuration) -> Both:
        switch = Switch(priority_queues=PRIORITY_QUEUES)
        for port, rate_bps in configuration.rates.items():
            switch.add_port(port, rate_bps=rate_bps)
        pipeline = switch.load(program(name))
        interpreter = Interpreter(compiled(name).json_text)
        for profile in pipeline.action_profiles.values():
            for member_id, call in configuration.members.items():
                profile.insert_member(member_id, call)
                interpreter.members[profile.name][member_id] = call
            for group_id, member_ids in configuration.groups.items():
                profile.insert_group(group_id, Group(dict.fromkeys(member_ids, (1, -1))))
                interpreter.groups[profile.name][group_id] = list(member_ids)
        for table, entries in configuration.tables.items():
            for match, target in entries.items():
                pipeline.tables[table].insert(Entry((match,), target))
                interpreter.entries[table].append(Entry((match,), target))
        for (register, index), value in configuration.registers.items():
            pipeline.registers[register].values[index] = value
            interpreter.registers[register][index] = value
        return cls(switch, ReferenceSwitch(interpreter, dict(configuration.rates)))

    def receive(self, port: int, frame: bytes, now_ns: int) -> None:
        self.softswitch.receive(port, frame, now_ns)
        self.reference.receive(port, frame, now_ns)

    def transmit(self, now_ns: int) -> tuple[dict[int, list[bytes]], dict[int, list[bytes]]]:
        """Frames by port, of the softswitch and of the reference."""
        return by_port(self.softswitch.transmit(now_ns)), by_port(self.reference.transmit(now_ns))

    def assert_same_state(self) -> None:
        pipeline = self.softswitch.pipeline
        assert pipeline is not None
        interpreter = self.reference.interpreter
        for name, cells in interpreter.counters.items():
            array = pipeline.counters[name]
            seen = [list(array.read(index)) for index in range(array.size)]
            assert seen == cells, name
        for name, values in interpreter.registers.items():
            assert pipeline.registers[name].values == values, name
        assert self.softswitch.next_timer() == self.reference.next_timer()


def by_port(frames: Sequence[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    sorted_out: dict[int, list[bytes]] = {}
    for port, frame in frames:
        sorted_out.setdefault(port, []).append(frame)
    return sorted_out


def run_alike(
    name: str, configuration: Configuration, inputs: Sequence[tuple[int, bytes, int]]
) -> None:
    """Feed (port, frame, gap in ns) to both until all is out, comparing at every step."""
    both = Both.make(name, configuration)
    now_ns = 0
    for port, frame, gap_ns in inputs:
        now_ns += gap_ns
        ours, theirs = both.transmit(now_ns)
        assert ours == theirs
        both.receive(port, frame, now_ns)
        assert both.softswitch.next_timer() == both.reference.next_timer()
    both.assert_same_state()
    while True:
        ours, theirs = both.transmit(now_ns)
        assert ours == theirs
        timer = both.softswitch.next_timer()
        assert timer == both.reference.next_timer()
        if timer is None:
            break
        now_ns = max(now_ns, timer)
    both.assert_same_state()
    stats = both.softswitch.stats()
    assert stats.unaccounted == 0
    assert stats.queued == 0


# ---- fabric: packets -----------------------------------------------------------------------------

USIDS = st.sampled_from([0x0801, 0x0C03, 0x0C04, 0x1001, 0x1002, 0x1801, 0x1802, 0x1805, 0x18FF, 0])


def carrier_bytes(block: int, usids: list[int]) -> bytes:
    return struct.pack(">I6H", block, *(usids + [0] * 6)[:6])


ADDRESSES = st.one_of(
    st.builds(
        carrier_bytes,
        st.sampled_from([0x5F000000] * 4 + [0x5F010000]),
        st.one_of(
            st.lists(USIDS, max_size=6),
            st.lists(USIDS, max_size=5).map(lambda rest: [0x0801, *rest]),
        ),
    ),
    st.sampled_from([bytes.fromhex(f"fd000002{i:024x}") for i in (1, 2, 3)]),
    st.binary(min_size=16, max_size=16),
)


@st.composite
def srhs(draw: st.DrawFn, next_header: int) -> bytes:
    segments = draw(st.lists(ADDRESSES, max_size=9))
    last_entry = draw(st.one_of(st.just(max(0, len(segments) - 1)), st.integers(0, 255)))
    ext_len = draw(st.one_of(st.just(2 * len(segments)), st.integers(0, 255)))
    segments_left = draw(st.one_of(st.integers(0, 9), st.integers(0, 255)))
    kind = draw(st.sampled_from([4, 4, 4, 4, 0]))
    head = struct.pack(
        ">BBBBBBH", next_header, ext_len, kind, segments_left, last_entry, 0, draw(U16)
    )
    return head + b"".join(segments)


U16 = st.integers(0, 0xFFFF)


@st.composite
def ipv6_frames(draw: st.DrawFn) -> bytes:
    payload_protocol = draw(st.sampled_from([41, 41, 17, 17, 6, 59]))
    size = draw(st.sampled_from([0, 7, 8, 60, 88, 89, 200, 900, 4200, 8300]))
    body = draw(st.binary(min_size=min(size, 8), max_size=min(size, 8)))
    body = body.ljust(size, b"\xa5")
    next_header = payload_protocol
    if draw(st.booleans()):
        body = draw(srhs(payload_protocol)) + body
        next_header = 43
    version = draw(st.sampled_from([6] * 9 + [4]))
    dscp = draw(st.sampled_from([0, 4, 4, 8, 12, 16, 46, 63]))
    word = version << 28 | dscp << 22 | draw(st.integers(0, 3)) << 20 | draw(st.integers(0, 3))
    header = struct.pack(
        ">IHBB",
        word,
        len(body) & 0xFFFF,
        next_header,
        draw(st.sampled_from([64, 64, 255, 2, 1, 0])),
    )
    source = bytes.fromhex("fd000001") + draw(st.binary(min_size=12, max_size=12))
    return draw(MACS) + b"\x86\xdd" + header + source + draw(ADDRESSES) + body


MACS = st.binary(min_size=12, max_size=12)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame cut short, with bits flipped, or with bytes behind it."""
    frame = bytearray(draw(ipv6_frames()))
    what = draw(st.sampled_from(["cut", "flip", "flip in headers", "append"]))
    if what == "cut":
        del frame[draw(st.integers(0, min(len(frame), 200))) :]
    elif what == "append":
        frame += draw(st.binary(max_size=20))
    else:
        last = len(frame) if what == "flip" else min(len(frame), 120)
        for _ in range(draw(st.integers(1, 3))):
            frame[draw(st.integers(0, last - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(frame)


FRAMES = st.one_of(ipv6_frames(), ipv6_frames(), ipv6_frames(), damaged(), st.binary(max_size=100))
GAPS_NS = st.sampled_from([0, 0, 0, 1, 999, 5_000, 100_000])


# ---- fabric: tables ------------------------------------------------------------------------------

PORTS = (1, 2, 3, 4)
RATES_BPS = st.sampled_from([None, None, 1_000_000_007, 100_000_000, 3_000_000])
LIMITS = st.sampled_from([0, 141, 142, 1000, 9000, 20_000, 1 << 20, U32])
REGISTERS = ("data_occupancy_bytes", "control_occupancy_bytes")


def action(name: str, *args: int) -> ActionCall:
    return ActionCall(name, args)


def sid(usid: int, block: int = 0x5F000000) -> int:
    return block << 16 | usid


def subset(
    entries: Mapping[MatchValue, Target] | Mapping[MatchValue, ActionCall],
) -> st.SearchStrategy[dict[MatchValue, Target]]:
    """Most of the entries of a table."""
    return st.lists(st.sampled_from(list(entries)), max_size=2).map(
        lambda left_out: {k: v for k, v in entries.items() if k not in left_out}
    )


SRV6 = "FabricIngress.srv6"
ROUTING = "FabricIngress.routing"
ADMISSION = "FabricIngress.admission"

MY_SIDS: dict[MatchValue, Target] = {
    sid(0x0801): action(f"{SRV6}.un"),
    sid(0x0801, 0x5F010000): action(f"{SRV6}.un"),
    sid(0x0C03): action(f"{SRV6}.ua", 3),
    sid(0x0C04): action(f"{SRV6}.ua", 4),
}
NEXT_SIDS: dict[MatchValue, ActionCall] = {
    sid(usid): action(f"{SRV6}.to_port", port)
    # Port 5 has no queue, port 9 a queue but no interface
    for usid, port in ((0x1001, 3), (0x1002, 4), (0x1801, 1), (0x1802, 2), (0x1805, 5), (0x18FF, 9))
}
ROUTES: dict[MatchValue, Target] = {
    (0, 0): MemberRef(1),
    (0xFD00 << 112, 16): GroupRef(1),
    (0xFD000002 << 96, 32): GroupRef(2),
    (0xFD000002 << 96 | 1, 128): MemberRef(2),
    (0xFD000002 << 96 | 2, 127): GroupRef(1),
}
CLASSES: dict[MatchValue, Target] = {
    46: action(f"{ADMISSION}.set_control"),
    12: action(f"{ADMISSION}.set_control"),
    16: action(f"{ADMISSION}.set_control"),
    4: action(f"{ADMISSION}.set_trimmable"),
    8: action(f"{ADMISSION}.set_trimmable"),
    0: action(f"{ADMISSION}.set_no_trim"),
}
NEIGHBORS: dict[MatchValue, Target] = {
    port: action("FabricEgress.neighbors.set_addresses", 0x020000000800 + port, 0x0200000A0000)
    for port in PORTS
}


@st.composite
def fabric_configurations(draw: st.DrawFn) -> Configuration:
    queues: dict[MatchValue, Target] = {
        port: action(
            f"{ADMISSION}.set_limits", draw(LIMITS), draw(LIMITS), draw(st.sampled_from([12, 16]))
        )
        for port in (*PORTS, 9)
    }
    # Marking for sure (at or above max), or with probability 0 (between min and max)
    marking: dict[MatchValue, Target] = {
        port: action(f"{ADMISSION}.set_marking", draw(LIMITS), draw(LIMITS), 0) for port in PORTS
    }
    trim_sizes: dict[MatchValue, Target] = {
        protocol: action(f"{ADMISSION}.keep", draw(st.sampled_from([size, size, 0, 54, 300])))
        for protocol, size in ((41, 142), (17, 102))
    }
    return Configuration(
        rates={port: draw(RATES_BPS) for port in PORTS},
        tables={
            f"{SRV6}.my_sid": draw(subset(MY_SIDS)),
            f"{SRV6}.next_sid": draw(subset(NEXT_SIDS)),
            f"{SRV6}.locator_block": draw(subset({0x5F000000: action(f"{SRV6}.in_block")})),
            f"{ROUTING}.ipv6_route": draw(subset(ROUTES)),
            f"{ADMISSION}.traffic_class": draw(subset(CLASSES)),
            f"{ADMISSION}.port_queue": draw(subset(queues)),
            f"{ADMISSION}.trim_size": draw(subset(trim_sizes)),
            f"{ADMISSION}.ecn_marking": draw(subset(marking)),
            "FabricEgress.neighbors.neighbor": draw(subset(NEIGHBORS)),
        },
        members={i: action(f"{ROUTING}.to_port", port) for i, port in ((1, 3), (2, 4), (5, 1))},
        groups={1: (1, 2, 5), 2: (2, 1)},
        registers={
            (register, port): draw(st.sampled_from([0, 0, 0, 5000, U32 - 100, U32]))
            for register in REGISTERS
            for port in PORTS
        },
    )


INPUTS = st.lists(st.tuples(st.sampled_from(PORTS), FRAMES, GAPS_NS), min_size=1, max_size=12)


@given(fabric_configurations(), INPUTS)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_fabric(configuration: Configuration, inputs: list[tuple[int, bytes, int]]) -> None:
    run_alike("fabric", configuration, inputs)


# ---- BMv2 ----------------------------------------------------------------------------------------


def demanded_trace(configuration: Configuration, inputs: Sequence[tuple[int, bytes]]) -> Trace:
    """What the reference interpreter makes of packets that come in one by one, as a trace."""
    interpreter = Interpreter(compiled("fabric").json_text)
    trace = Trace(Path("random.trace"), "", shape("fabric"), PORTS)
    for profile in interpreter.profiles:
        for member_id, call in configuration.members.items():
            interpreter.members[profile][member_id] = call
            trace.members.append((profile, member_id, call))
        for group_id, member_ids in configuration.groups.items():
            interpreter.groups[profile][group_id] = list(member_ids)
            trace.groups.append((profile, group_id, tuple(member_ids)))
    for table, entries in configuration.tables.items():
        for match, target in entries.items():
            interpreter.entries[table].append(Entry((match,), target))
            trace.entries.append((table, Entry((match,), target)))
    switch = ReferenceSwitch(interpreter, dict.fromkeys(PORTS))
    before = {name: [tuple(c) for c in cells] for name, cells in interpreter.counters.items()}
    for number, (port, frame) in enumerate(inputs):
        switch.receive(port, frame, 0)
        outs = tuple(Out(out_port, out, (), number) for out_port, out in switch.transmit(0))
        after = {name: [tuple(c) for c in cells] for name, cells in interpreter.counters.items()}
        counts = tuple(
            (name, index)
            for name, cells in after.items()
            for index, cell in enumerate(cells)
            if cell != before[name][index]
        )
        before = after
        trace.steps.append(Step(port, 0, frame, "", outs, counts, number))
    return trace


@pytest.fixture(scope="module")
def bmv2() -> Iterator[SwitchProcess]:
    with SwitchProcess(bmv2_command, PORTS) as switch:
        yield switch


SHORTEST_BYTES, LONGEST_BYTES = 14, 9216  # what a Linux interface takes
# Only what a port leads to: interfaces, and the one port without a queue
BMV2_NEXT_SIDS = {sid_: call for sid_, call in NEXT_SIDS.items() if call.args[0] != 9}


@pytest.mark.bmv2
@pytest.mark.netns
@given(
    fabric_configurations(),
    st.lists(
        st.tuples(
            st.sampled_from(PORTS),
            FRAMES.filter(lambda frame: SHORTEST_BYTES <= len(frame) <= LONGEST_BYTES),
        ),
        min_size=1,
        max_size=12,
    ),
)
# No shrinking: the process would be asked for minutes
@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate])
def test_reference_interpreter_is_like_bmv2(
    bmv2: SwitchProcess, configuration: Configuration, inputs: list[tuple[int, bytes]]
) -> None:
    """The oracle against the original: same frames, same counters."""
    tables = dict(configuration.tables)
    tables[f"{SRV6}.next_sid"] = BMV2_NEXT_SIDS
    configuration.tables = tables
    trace = demanded_trace(configuration, inputs)
    found = list(differences(trace, run_on(bmv2, trace)))
    assert not found, "\n".join(found)


# ---- impair --------------------------------------------------------------------------------------

THRESHOLDS = st.sampled_from([0, U32])


@st.composite
def impair_configurations(draw: st.DrawFn) -> Configuration:
    entries: dict[MatchValue, Target] = {
        port: action("ImpairIngress.impair", draw(THRESHOLDS), draw(THRESHOLDS)) for port in (0, 1)
    }
    return Configuration(
        rates={0: draw(RATES_BPS), 1: draw(RATES_BPS)},
        tables={"ImpairIngress.direction": draw(subset(entries))},
    )


@given(
    impair_configurations(),
    st.lists(
        st.tuples(st.sampled_from([0, 1]), st.binary(max_size=60), GAPS_NS), min_size=1, max_size=8
    ),
)
@settings(max_examples=100, deadline=None, derandomize=True)
@example(
    Configuration(
        rates={0: None, 1: None},
        tables={"ImpairIngress.direction": {0: action("ImpairIngress.impair", 0, U32)}},
    ),
    [(0, bytes(15), 0)],
)
def test_impair(configuration: Configuration, inputs: list[tuple[int, bytes, int]]) -> None:
    """What is damaged differs, as it is drawn at random; how much (one bit), when and where not."""
    both = Both.make("impair", configuration)
    now_ns = 0
    damages = {
        port: isinstance(target, ActionCall) and target.args[1] == U32
        for port, target in configuration.tables["ImpairIngress.direction"].items()
    }
    for port, frame, gap_ns in inputs:
        now_ns += gap_ns
        both.receive(port, frame, now_ns)
    ours, theirs = both.transmit(now_ns + 10**9)
    both.assert_same_state()
    assert {p: list(map(len, f)) for p, f in ours.items()} == {
        p: list(map(len, f)) for p, f in theirs.items()
    }
    for port, frames in ours.items():
        whole = [frame for source, frame, _ in inputs if source == port ^ 1]
        if len(frames) == len(whole):  # else they are dropped
            for came_out, went_in in zip(frames, whole, strict=True):
                flips = 1 if damages.get(port ^ 1) and len(went_in) > 14 else 0
                assert differing_bits(came_out, went_in) == flips
                assert came_out[:14] == went_in[:14]


def differing_bits(first: bytes, second: bytes) -> int:
    assert len(first) == len(second)
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_count()


# ---- other programs ------------------------------------------------------------------------------

# Frames of few different bytes, so that keys meet entries; what stands in front chooses what the
# program does.
FEW_BYTES = st.sampled_from([0, 1, 2, 5, 8, 0x10, 0x12, 0x34, 0x81, 0x90, 0xEE, 0xFF])
PARSER_TYPES = st.sampled_from(
    [0x8100, 0x0800, 0x9000, 0x90FF, 0x9100, 0x9102, 0x9200, 0x9300, 0x9400, 0x9500, 0x9600, 0x9700]
)
OTHER_FRAMES: dict[str, st.SearchStrategy[bytes]] = {
    "arithmetic": st.builds(
        lambda op, rest: bytes([op]) + rest,
        st.integers(0, 18),
        st.one_of(st.binary(min_size=20, max_size=30), st.lists(FEW_BYTES, min_size=22).map(bytes)),
    ),
    "matching": st.builds(
        lambda which, rest: bytes([which, *rest]),
        st.integers(0, 12),
        st.lists(FEW_BYTES, min_size=9, max_size=16),
    ),
    "parsing": st.builds(
        lambda kind, rest: bytes(11) + b"\x01" + kind.to_bytes(2, "big") + bytes(rest),
        PARSER_TYPES,
        st.lists(FEW_BYTES, max_size=60),
    ),
}


@st.composite
def few_bytes(draw: st.DrawFn, bits: int) -> int:
    digits = draw(st.lists(FEW_BYTES, min_size=4, max_size=4))
    return int.from_bytes(bytes(digits), "big") & ((1 << bits) - 1)


@st.composite
def entries_for(draw: st.DrawFn, table: Table) -> list[Entry]:
    """Up to four entries of any shape for a table without an action profile."""
    found: dict[object, Entry] = {}
    for priority in range(1, draw(st.integers(0, 4)) + 1):
        match: list[MatchValue] = []
        for key in table.fields:
            value, other = draw(few_bytes(key.bitwidth)), draw(few_bytes(key.bitwidth))
            if key.kind is MatchKind.EXACT:
                match.append(value)
            elif key.kind is MatchKind.LPM:
                length = draw(st.integers(0, key.bitwidth))
                shift = key.bitwidth - length
                match.append((value >> shift << shift, length))
            elif key.kind is MatchKind.TERNARY:
                mask = draw(st.sampled_from([other, 0, (1 << key.bitwidth) - 1]))
                match.append((value & mask, mask))
            else:
                match.append((min(value, other), max(value, other)))
        name = draw(st.sampled_from(table.action_names))
        arguments = tuple(
            draw(st.integers(0, (1 << bits) - 1)) for _, bits in table.actions[name].params
        )
        entry = Entry(
            tuple(match), ActionCall(name, arguments), priority if table.needs_priority else 0
        )
        found.setdefault((entry.match, entry.priority), entry)
    return list(found.values())


@pytest.mark.parametrize("name", sorted(OTHER_FRAMES))
@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_other_programs(name: str, data: st.DataObject) -> None:
    """Programs of the softswitch's own tests: operators, match kinds, parsers."""
    text = (Path(__file__).parent / "programs" / f"{name}.json").read_text()
    switch = Switch()
    switch.add_port(1)
    switch.add_port(2)
    pipeline = switch.load(load_program(text))
    interpreter = Interpreter(text)
    for table_name, table in pipeline.tables.items():
        if not table.fields or table.const_entries or table.profile is not None:
            continue
        for entry in data.draw(entries_for(table), label=table_name):
            table.insert(Entry(entry.match, entry.target, entry.priority))
            interpreter.entries[table_name].append(entry)
    for set_name, values in pipeline.value_sets.items():
        assert not values.members, "the interpreter starts with empty value sets too"
        assert interpreter.value_sets[set_name] == []
    reference = ReferenceSwitch(interpreter, {1: None, 2: None})
    for frame in data.draw(st.lists(OTHER_FRAMES[name], min_size=1, max_size=6), label="frames"):
        try:
            reference.receive(1, frame, 0)
        except Unspecified:
            continue
        switch.receive(1, frame, 0)
        assert switch.transmit(0) == reference.transmit(0), frame.hex(" ")


# ---- the oracle itself ---------------------------------------------------------------------------


def test_a_difference_is_found() -> None:
    """The comparison is not blind: a switch with one entry less does not pass."""
    configuration = Configuration(
        rates=dict.fromkeys(PORTS),
        tables={
            f"{SRV6}.my_sid": {sid(0x0801): action(f"{SRV6}.un")},
            f"{SRV6}.next_sid": {sid(0x1001): action(f"{SRV6}.to_port", 3)},
            f"{ADMISSION}.port_queue": {3: action(f"{ADMISSION}.set_limits", 9000, 9000, 12)},
        },
    )
    both = Both.make("fabric", configuration)
    both.reference.interpreter.entries[f"{SRV6}.next_sid"].clear()
    header = bytes.fromhex("60000000 0000 3b 40") + bytes(16)
    destination = carrier_bytes(0x5F000000, [0x0801, 0x1001])
    both.receive(1, bytes(12) + b"\x86\xdd" + header + destination, 0)
    ours, theirs = both.transmit(0)
    assert list(ours) == [3]
    assert not theirs
    with pytest.raises(AssertionError):
        both.assert_same_state()
