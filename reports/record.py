"""The record of a run: plain data, the same from virtual and from real time.

Pages are made of a record and of nothing else. `to_json` and `from_json` are inverse, and a record
says by `version` what it holds; a field that is new with the same version has a default.
Times are integer nanoseconds from the start of the run, sizes bytes, rates bits per second. Series
have one value at 0, `interval_ns`, twice that, ...; counters are totals so far.
"""

from __future__ import annotations

import reprlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from reports.consistency import inconsistencies

#: Of the record's form; another number means that fields went or changed their meaning
VERSION: Final = 1


class RecordError(ValueError):
    """A document is no record, or one of another version."""


@dataclass(frozen=True, slots=True)
class FabricRecord:
    """The fabric; host i is under T0 i // hosts_per_t0 in every plane. Names as everywhere."""

    name: str
    planes: int
    t0_per_plane: int
    t1_per_plane: int
    hosts_per_t0: int
    base_rtt_ns: int

    @property
    def host_count(self) -> int:
        """Hosts under all T0s."""
        return self.t0_per_plane * self.hosts_per_t0


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """A link and what it carried, in whole frames: `up_bytes` from the end nearer the hosts.

    `tier` is host or fabric. `rate_bps` None: as fast as one likes.
    """

    name: str
    plane: int
    tier: str
    lower: str
    upper: str
    rate_bps: int | None
    up_bytes: int
    down_bytes: int


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """A flow, or a collective with all its ranks.

    `kind`: flow, or the collective's name. `hosts`: source and destination, or the ranks.
    `state`: done, failed or unfinished. `rate_bps`: goodput, or bus bandwidth. `delivered_bytes`: a
    series.
    """

    name: str
    kind: str
    hosts: list[str]
    state: str
    start_ns: int
    completion_ns: int | None
    size_bytes: int
    rate_bps: float
    packets: int
    retransmissions: int
    timeouts: int
    trims: int
    ecn_marked: int
    delivered_bytes: list[int]


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """A fault, where it is, and what it did.

    `end_ns` None: it stays. `begun`: it began before the run was over. `links`, `switches`: by
    name; `paths`: in words, where only some paths are concerned. `packets_sent`: data sent into
    it; None: frames do not name their paths, and nobody knows. `full_rate_ns`, `recovery_ns`: from
    its beginning and from its end until the rate of all flows was what it had been before; 0: it
    never fell; None: not again, or nothing to compare with.
    """

    name: str
    kind: str
    at_ns: int
    end_ns: int | None
    begun: bool
    links: list[str]
    switches: list[str]
    paths: list[str]
    lost: int
    packets_sent: int | None
    evs_out: int
    first_out_ns: int | None
    last_out_ns: int | None
    lowest_rate_bps: float | None
    full_rate_ns: int | None
    recovery_ns: int | None


@dataclass(frozen=True, slots=True)
class EvSpan:
    """An EV of a queue pair was in a state other than GOOD. `end_ns` None: to the end.

    `path` in words: its plane, and its T1 if it has one. `cause`: of the change into the state.
    """

    host: str
    peer: str
    qp_num: int
    ev: int
    path: str
    state: str
    start_ns: int
    end_ns: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """What was counted along the run; each list as long as the others.

    `plane_bytes`: data frames sent by hosts, by plane. `trimmed`, `marked`: packets that switches
    trimmed or set CE in. `lost`: frames. `retransmitted`: data packets. `queued`: packets held by
    all switches at that moment.
    """

    delivered_bytes: list[int]
    plane_bytes: list[list[int]]
    trimmed: list[int]
    marked: list[int]
    lost: list[int]
    retransmitted: list[int]
    queued: list[int]


@dataclass(frozen=True, slots=True)
class SuspicionRecord:
    """At `at_ns` so many paths were out of use, and one of `elements` (links and switches by name)
    explains it: no path in use crosses them."""

    at_ns: int
    elements: list[str]
    paths_out: int


@dataclass(frozen=True, slots=True)
class TableRecord:
    """Digest of all table entries of a switch, before and after the traffic. Static means static:
    they are the same."""

    switch: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PausedPortRecord:
    """A port of a host (its number is its plane) or switch that was paused by its neighbour, and
    for how long."""

    node: str
    port: int
    paused_ns: int


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """Priority-based flow control of a whole run.

    `pauses`: how often switches asked for one. `frames_sent`: all pause frames, renewals and
    releases among them. `hosts_paused_ns`, `switches_paused_ns`: of all ports of hosts and of
    switches together. `peak_buffer_bytes`: the most that was charged to one port of a switch.
    `ports`: those that were paused, for the longest time first.
    """

    pauses: int
    frames_sent: int
    frames_received: int
    hosts_paused_ns: int
    switches_paused_ns: int
    peak_buffer_bytes: int
    ports: list[PausedPortRecord]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run.

    `clock`: virtual or real. `failures`: what does not hold, a line each; empty: all as expected.
    `totals`: further numbers of the whole run, by name. `ev_changes`: how many there were, by what
    changed; `ev_changes_omitted`: how many of them `ev_spans` knows nothing about; `suspicions`:
    what they point to, each time that paths were out of use. `pauses`: None without flow control,
    which only virtual time has. Of real time
    only: `target`, the switches (softswitch or bmv2); `notes`, what of the scenario did not happen
    as it says; `tables`; `cpu_s`, seconds of CPU by process.
    """

    scenario: str
    description: str
    clock: str
    seed: int
    end_ns: int
    failures: list[str]
    fabric: FabricRecord
    links: list[LinkRecord]
    flows: list[FlowRecord]
    faults: list[FaultRecord]
    interval_ns: int
    series: SeriesRecord
    ev_spans: list[EvSpan]
    ev_changes: dict[str, int] = field(default_factory=dict)
    ev_changes_omitted: int = 0
    suspicions: list[SuspicionRecord] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    pauses: PauseRecord | None = None
    target: str | None = None
    notes: list[str] = field(default_factory=list)
    tables: list[TableRecord] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """As what `json.dumps` takes."""
        return asdict(self)


_ADAPTER: Final = TypeAdapter(RunRecord)


def from_json(document: object) -> RunRecord:
    """The record that `to_json` made.

    Raises RecordError naming the field that is not right, its value, and what would be.
    """
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise RecordError(f"version: {version!r} is not known: it must be {VERSION}")
    try:
        record = _ADAPTER.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "missing" else f"{reprlib.repr(first['input'])}: "
        raise RecordError(f"{place}: {value}{first['msg']}") from None
    problem = next(inconsistencies(record), None)
    if problem is not None:
        raise RecordError(problem)
    return record
