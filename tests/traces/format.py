"""Trace files: what a switch is told, what it gets, and what must come out of it.

The grammar, one statement a line; a line goes on on the next one inside brackets, or after a `/` or
a `,` at its end; `#` starts a comment::

    program fabric                                  which compiled program (default fabric)
    use FILE                                        read the lines of FILE here
    ports 1 2 3                                     ports of the switch
    let NAME = FRAME                                a name for (part of) a frame

    table NAME: FIELD=VALUE … -> ACTION(ARG=VALUE …)
    table NAME: FIELD=VALUE … -> member N | group N
    member PROFILE N -> ACTION(…)
    group PROFILE N: MEMBER …
    only in-process                                 needs what real time or P4Runtime cannot give:
    rate PORT BITS_PER_SECOND                         a link rate
    register NAME[INDEX] = VALUE                      a register's value before the first packet
    seed N                                            the seed of random()

    packet PORT [at TIME]: FRAME                    comes in; counts in `received[PORT]`
      out PORT [at TIME] COUNTER …: FRAME           this leaves, and counts in each COUNTER[PORT]
      out PORT COUNTER … ignoring A..B …: FRAME     bytes A to B (included) may be anything
      drop COUNTER[INDEX]                           nothing leaves
      count COUNTER[INDEX]                          counts besides

Names of tables, actions, counters and registers may be cut down to their last parts as long as they
stay unambiguous. Every packet says what becomes of it: `out` or `drop`. A counter cell that is not
mentioned must stay at zero, and registers must end as they began. The frames of a port are due in
the order of their lines, or, where they have times (only in process), of these: then the last bit
of a frame must be out at that very time.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scapy.packet import Packet

from softswitch.tables import ActionCall, Entry, GroupRef, Match, MatchValue, MemberRef
from tests.traces.frames import FrameError, build, describe
from tests.traces.program import Field, ProgramShape, TableShape, UnknownName, resolve, shape

CASES = Path(__file__).parent / "cases"
# Time between packets of which a trace says no time
PACE_NS = 10_000

Cell = tuple[str, int]
"""A counter or register by full name, and an index in it."""


class TraceError(ValueError):
    """A trace file that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Out:
    """A frame that must leave `port`; the bytes in `ignored` (half-open ranges) may be anything.

    `at_ns` is when its last bit must be out, None if that does not matter.
    """

    port: int
    frame: bytes
    ignored: tuple[tuple[int, int], ...]
    line: int
    at_ns: int | None = None

    def matches(self, frame: bytes) -> bool:
        """Whether `frame` is what was wanted, but for the ignored bytes."""
        return self._masked(frame) == self._masked(self.frame)

    def _masked(self, frame: bytes) -> bytes:
        masked = bytearray(frame)
        for start, end in self.ignored:
            masked[start:end] = bytes(len(masked[start:end]))
        return bytes(masked)


@dataclass(frozen=True, slots=True)
class Step:
    """One packet in, and what must become of it. The first of `counts` is that it was received."""

    port: int
    at_ns: int
    frame: bytes
    text: str
    outs: tuple[Out, ...]
    counts: tuple[Cell, ...]
    line: int

    @property
    def received(self) -> Cell:
        """The counter cell of packets received on the port."""
        return self.counts[0]


@dataclass(slots=True)
class Trace:
    """One trace file. Table entries are by full name, values as integers."""

    path: Path
    about: str
    program: ProgramShape
    ports: tuple[int, ...]
    rates: dict[int, int] = field(default_factory=dict)
    entries: list[tuple[str, Entry]] = field(default_factory=list)
    members: list[tuple[str, int, ActionCall]] = field(default_factory=list)
    groups: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    registers: dict[Cell, int] = field(default_factory=dict)
    seed: int = 0
    only_in_process: bool = False
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    def due(self) -> dict[int, list[Out]]:
        """The frames that must leave each port, in order."""
        frames: dict[int, list[tuple[int, Out]]] = {port: [] for port in self.ports}
        for step in self.steps:
            for out in step.outs:
                moment = step.at_ns if out.at_ns is None else out.at_ns
                frames[out.port].append((moment, out))
        return {
            port: [out for _, out in sorted(pairs, key=lambda pair: pair[0])]
            for port, pairs in frames.items()
        }

    def expected_counters(self) -> dict[Cell, tuple[int, int]]:
        """Cell → (packets, bytes), for all cells that do not stay zero."""
        totals: dict[Cell, tuple[int, int]] = {}
        for step in self.steps:
            for cell in step.counts:
                packets, size_bytes = totals.get(cell, (0, 0))
                totals[cell] = packets + 1, size_bytes + len(step.frame)
        return totals


@dataclass(frozen=True, slots=True)
class _Line:
    path: Path
    number: int
    text: str


def _strip_comment(line: str) -> str:
    """Cut at the first # that stands outside of quotes."""
    quote = ""
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#":
            return line[:index]
    return line


def _lines(path: Path) -> Iterator[_Line]:
    """Statements of a file: comments gone, continued lines joined."""
    pending, start = "", 0
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        text = _strip_comment(raw).strip()
        if not text:
            continue
        start = start if pending else number
        pending = f"{pending} {text}".strip()
        open_brackets = sum(pending.count(c) for c in "([{") - sum(pending.count(c) for c in ")]}")
        if open_brackets > 0 or pending.endswith(("/", ",")):
            continue
        yield _Line(path, start, pending)
        pending = ""
    if pending:
        yield _Line(path, start, pending)


def _about(path: Path) -> str:
    """The comment at the top of the file."""
    lines = []
    for raw in path.read_text().splitlines():
        if not raw.startswith("#"):
            break
        lines.append(raw.lstrip("#").strip())
    return "\n".join(lines)


_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def parse_time_ns(text: str) -> int:
    """`12us` → 12000; raises ValueError."""
    match = re.fullmatch(r"(\d+)(ns|us|ms|s)", text)
    if not match:
        raise ValueError(f"time {text!r}: must be a whole number of ns, us, ms or s, as in 12us")
    return int(match[1]) * _UNITS_NS[match[2]]


def parse_value(text: str, bits: int) -> int:
    """A number, an IPv6 address, a MAC address, or a SID or block in 16-bit groups.

    Raises:
        ValueError: it is none of these, or does not fit in `bits`.
    """
    groups = text.split(":")
    if bits == 128:
        value = int(ipaddress.IPv6Address(text))
    elif bits == 48 and len(groups) == 6:
        value = int("".join(f"{int(g, 16):02x}" for g in groups), 16)
    elif len(groups) > 1 and len(groups) * 16 == bits:
        value = int("".join(f"{int(g, 16):04x}" for g in groups), 16)
    else:
        value = int(text, 0)
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{text} does not fit in {bits} bits")
    return value


def parse_match(text: str, key: Field) -> MatchValue:
    """One key field of an entry: `value`, `value/prefix`, `value&mask`, `low..high`."""
    if key.kind == "lpm":
        value, _, length = text.partition("/")
        prefix = int(length) if length else key.bits
        whole = parse_value(value, key.bits)
        return whole >> (key.bits - prefix) << (key.bits - prefix), prefix
    if key.kind == "ternary":
        value, _, mask = text.partition("&")
        return parse_value(value, key.bits), parse_value(mask, key.bits)
    if key.kind == "range":
        low, _, high = text.partition("..")
        return parse_value(low, key.bits), parse_value(high, key.bits)
    return parse_value(text, key.bits)


def _assignments(text: str) -> dict[str, str]:
    """`a=1, b=2` or `a=1 b=2` → {"a": "1", "b": "2"}."""
    found = {}
    for part in text.replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise ValueError(f"{part!r}: must be NAME=VALUE")
        found[name] = value
    return found


def _in_order(given: dict[str, str], fields: Iterable[Field], what: str) -> list[str]:
    """Values in the order of `fields`; raises ValueError for a missing or surplus one."""
    names = [f.name for f in fields]
    if sorted(given) != sorted(names):
        raise ValueError(f"{what} takes {', '.join(names) or 'nothing'}, not {', '.join(given)}")
    return [given[name] for name in names]


class _Reader:
    """Reads the statements of one trace into a `Trace`."""

    def __init__(self, path: Path) -> None:
        self.trace = Trace(path, _about(path), shape("fabric"), ())
        self.names: dict[str, Packet] = {}
        self.step: Step | None = None

    def read_file(self, path: Path) -> None:
        try:
            lines = list(_lines(path))
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror}") from error
        for line in lines:
            try:
                self._statement(line)
            except (ValueError, FrameError, UnknownName) as error:
                if isinstance(error, TraceError):
                    raise
                raise TraceError(f"{line.path}:{line.number}: {error}") from error

    def finish(self) -> Trace:
        self._end_step()
        return self.trace

    def _statement(self, line: _Line) -> None:
        word, _, rest = line.text.partition(" ")
        rest = rest.strip()
        if word not in ("out", "drop", "count"):
            self._end_step()
        match word:
            case "program":
                self.trace.program = shape(rest)
            case "use":
                self.read_file(line.path.parent / rest)
            case "ports":
                self.trace.ports = tuple(int(port) for port in rest.split())
            case "let":
                name, _, text = rest.partition("=")
                self.names[name.strip()] = describe(text.strip(), self.names)
            case "table":
                self._table(rest)
            case "member":
                self._member(rest)
            case "group":
                head, _, members = rest.partition(":")
                profile, group_id = head.split()
                full = resolve(profile, self.trace.program.profiles, "action profile")
                self.trace.groups.append(
                    (full, int(group_id), tuple(int(m) for m in members.split()))
                )
            case "only":
                if rest != "in-process":
                    raise ValueError(f"only {rest!r}: must be in-process")
                self.trace.only_in_process = True
            case "rate" | "register" | "seed" if not self.trace.only_in_process:
                raise ValueError(f"{word}: must stand below 'only in-process'")
            case "rate":
                port, rate_bps = rest.split()
                self.trace.rates[int(port)] = int(rate_bps.replace("_", ""))
            case "register":
                cell, _, value = rest.partition("=")
                self.trace.registers[self._cell(cell.strip(), "register")] = int(value, 0)
            case "seed":
                self.trace.seed = int(rest)
            case "packet":
                self._packet(line, rest)
            case "out":
                self._out(line, rest)
            case "drop" | "count":
                self._count(word, rest)
            case _:
                raise ValueError(f"no statement {word!r}")

    # ---- tables ----------------------------------------------------------------------------------

    def _table(self, rest: str) -> None:
        head, arrow, action = rest.partition("->")
        name, colon, matches = head.partition(":")
        if not arrow or not colon:
            raise ValueError("must be: table NAME: FIELD=VALUE … -> ACTION(ARG=VALUE …)")
        table = self.trace.program.tables[resolve(name.strip(), self.trace.program.tables, "table")]
        texts = _in_order(_assignments(matches), table.key, f"table {table.name}")
        match: Match = tuple(parse_match(t, k) for t, k in zip(texts, table.key, strict=True))
        word, _, number = action.strip().partition(" ")
        target: ActionCall | MemberRef | GroupRef
        if word == "member":
            target = MemberRef(int(number))
        elif word == "group":
            target = GroupRef(int(number))
        else:
            target = self._action(action.strip(), table)
        self.trace.entries.append((table.name, Entry(match, target)))

    def _member(self, rest: str) -> None:
        head, _, action = rest.partition("->")
        profile, member_id = head.split()
        full = resolve(profile, self.trace.program.profiles, "action profile")
        call = self._action(action.strip(), self.trace.program.profiles[full])
        self.trace.members.append((full, int(member_id), call))

    @staticmethod
    def _action(text: str, table: TableShape) -> ActionCall:
        found = re.fullmatch(r"([\w.]+)(?:\((.*)\))?", text)
        if not found:
            raise ValueError(f"{text!r}: must be ACTION or ACTION(ARG=VALUE …)")
        name = resolve(found[1], table.actions, f"table {table.name}: action")
        fields = table.actions[name]
        texts = _in_order(_assignments(found[2] or ""), fields, f"action {name}")
        return ActionCall(
            name, tuple(parse_value(t, f.bits) for t, f in zip(texts, fields, strict=True))
        )

    # ---- packets ---------------------------------------------------------------------------------

    def _port(self, text: str) -> int:
        port = int(text)
        if port not in self.trace.ports:
            raise ValueError(f"port {port} is none of: {', '.join(map(str, self.trace.ports))}")
        return port

    def _cell(self, text: str, kind: str = "counter") -> Cell:
        found = re.fullmatch(r"([\w.]+)\[(\d+)\]", text)
        if not found:
            raise ValueError(f"{text!r}: must be {kind.upper()}[INDEX]")
        program = self.trace.program
        names = program.counters if kind == "counter" else program.registers
        return resolve(found[1], names, kind), int(found[2])

    def _packet(self, line: _Line, rest: str) -> None:
        head, colon, text = rest.partition(":")
        found = re.fullmatch(r"(\d+)(?:\s+at\s+(\w+))?", head.strip())
        if not colon or not found:
            raise ValueError("must be: packet PORT [at TIME]: FRAME")
        steps = self.trace.steps
        at_ns = steps[-1].at_ns + PACE_NS if steps else 0
        if found[2]:
            at_ns = parse_time_ns(found[2])
            if steps and at_ns < steps[-1].at_ns:
                raise ValueError(f"time {found[2]} is before that of the packet above")
        port = self._port(found[1])
        frame = build(text.strip(), self.names)
        received = self._cell(f"received[{port}]")
        self.step = Step(port, at_ns, frame, text.strip(), (), (received,), line.number)

    def _out(self, line: _Line, rest: str) -> None:
        step = self._open_step()
        head, colon, text = rest.partition(":")
        words, _, ranges = head.partition("ignoring")
        port_text, *counters = words.replace(",", " ").split() or [""]
        at_ns = None
        if counters[:1] == ["at"] and len(counters) > 1:
            if not self.trace.only_in_process:
                raise ValueError("out … at TIME: must stand below 'only in-process'")
            at_ns = parse_time_ns(counters[1])
            counters = counters[2:]
        if not colon or not port_text:
            raise ValueError("must be: out PORT [at TIME] COUNTER … [ignoring A..B …]: FRAME")
        port = self._port(port_text)
        ignored = []
        for part in ranges.replace(",", " ").split():
            start, _, end = part.partition("..")
            ignored.append((int(start), int(end) + 1))
        frame = build(text.strip(), self.names)
        out = Out(port, frame, tuple(ignored), line.number, at_ns)
        cells = tuple(self._cell(f"{counter}[{port}]") for counter in counters)
        self._replace_step(step, (*step.outs, out), (*step.counts, *cells))

    def _count(self, word: str, rest: str) -> None:
        step = self._open_step()
        if word == "drop" and step.outs:
            raise ValueError("the packet has an out already")
        self._replace_step(step, step.outs, (*step.counts, self._cell(rest)))

    def _replace_step(self, step: Step, outs: tuple[Out, ...], counts: tuple[Cell, ...]) -> None:
        self.step = Step(step.port, step.at_ns, step.frame, step.text, outs, counts, step.line)

    def _open_step(self) -> Step:
        if self.step is None:
            raise ValueError("stands before any packet")
        return self.step

    def _end_step(self) -> None:
        if self.step is None:
            return
        step, self.step = self.step, None
        if len(step.counts) == 1 and not step.outs:
            raise ValueError(f"the packet in line {step.line} says nothing of what becomes of it")
        self.trace.steps.append(step)


def read(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        TraceError: with file, line and what is wrong.
    """
    try:
        reader = _Reader(path)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    reader.read_file(path)
    try:
        return reader.finish()
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from error


def read_all(folder: Path = CASES) -> list[Trace]:
    """All traces of a folder, by name."""
    return [read(path) for path in sorted(folder.glob("*.trace"))]
