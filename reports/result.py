"""What came of a run, as plain data; `to_json` has all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EvTransition:
    """An EV of a queue pair of a host changed its state; `replaced_by` took its place."""

    now_ns: int
    host: str
    peer: str
    qp_num: int
    ev: int
    old: str
    new: str
    cause: str
    replaced_by: int | None


@dataclass(slots=True)
class FaultEffect:
    """What one fault did.

    `last_packet_ns`: from its beginning to the last data that a host began to send on a path
    through it; None: none was sent. `packets_sent`: how many, retransmissions among them;
    `packets_after`: how many after its end. `sent_known`: whether these are known; frames that do
    not name their path tell nobody what they went into, and a denial is no place to go into.
    `full_rate_ns`: from its beginning until all flows together were at 95 % of the rate before it,
    and stayed there for 16 samples; 0: they never fell below; None: they did not get there while
    the fault held, or nothing was sent before it. `recovery_ns`: the same from its end on. Both
    only as long as the same flows and collectives run. `first_out_ns`,
    `last_out_ns`: from its beginning until the first EV through it was out of the active set, and
    until the last was for the first time; `evs_out`: how many of them were.
    """

    name: str
    kind: str
    at_ns: int
    end_ns: int | None
    begun: bool
    sent_known: bool = True
    lost: int = 0
    packets_sent: int = 0
    packets_after: int = 0
    last_packet_ns: int | None = None
    rate_before_bps: float | None = None
    lowest_rate_bps: float | None = None
    full_rate_ns: int | None = None
    recovery_ns: int | None = None
    evs_out: int = 0
    first_out_ns: int | None = None
    last_out_ns: int | None = None


@dataclass(slots=True)
class FlowResult:
    """One flow. Sizes in bytes of payload, packets of data packets, retransmissions among them.

    `completion_ns`: from its start to its last completion. `message_ns`: when each message
    completed, of the first thousand. `wrong_bytes`: bytes of memory that are not what they should
    be. `delivered_samples`: payload delivered at 0, `RunResult.interval_ns`, twice that, ...
    """

    name: str
    group: str
    source: str
    destination: str
    start_ns: int
    total_bytes: int | None
    completed_bytes: int
    completed_messages: int
    delivered_bytes: int
    done: bool
    completion_ns: int | None
    wrong_bytes: int
    message_ns: list[int]
    errors: dict[str, int]
    problems: dict[str, int]
    line_rate_bps: int | None
    packets: int
    retransmissions: int
    timeouts: int
    trims: int
    refusals: int
    probes: int
    ecn_marked: int
    duplicates: int
    sacks: int
    nacks: int
    delivered_samples: list[int]

    @property
    def goodput_bps(self) -> float:
        """Payload of completed messages over the time from start to the last completion."""
        if not self.completion_ns:
            return 0.0
        return self.completed_bytes * 8 * 1e9 / self.completion_ns


@dataclass(slots=True)
class CollectiveResult:
    """One collective, all of its ranks together; units and counters as of `FlowResult`.

    `completion_ns`: from its start until the last round was over on all ranks; `round_ns`: the
    rounds. `algorithm_bps`, `bus_bps`: bandwidths as nccl-tests have them, of the mean round.
    `line_rate_bps`: of the host that has least. `wrong_elements`: elements of results (and of
    contributions that should have been left alone) that are not what they should be. `failures`:
    why ranks failed, by host.
    """

    name: str
    collective: str
    hosts: list[str]
    size_bytes: int
    data_type: str
    reduce_op: str | None
    start_ns: int
    done: bool
    completion_ns: int | None
    round_ns: list[int]
    algorithm_bps: float
    bus_bps: float
    line_rate_bps: int | None
    wrong_elements: int
    failures: dict[str, str]
    delivered_bytes: int
    packets: int
    retransmissions: int
    timeouts: int
    trims: int
    refusals: int
    probes: int
    ecn_marked: int
    duplicates: int
    sacks: int
    nacks: int
    delivered_samples: list[int]

    def bus_share(self, payload_share: float) -> float | None:
        """Bus bandwidth over what payload can have of the line rate; None without a rate."""
        if self.line_rate_bps is None:
            return None
        return self.bus_bps / (self.line_rate_bps * payload_share)


@dataclass(frozen=True, slots=True)
class PausedPort:
    """A port that was paused by whoever is at the other end of its link, and for how long."""

    node: str
    port: int
    paused_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTotals:
    """Priority-based flow control of a whole run.

    `pauses` counts those that switches asked for; `frames` all pause frames sent, renewals and
    releases among them; `frames_received` those that arrived. Times are of all ports of a kind
    together. `peak_buffer_bytes` is the most that was ever charged to one ingress port. `ports`:
    those that were paused, for the longest time first.
    """

    pauses: int
    frames: int
    frames_received: int
    hosts_paused_ns: int
    switches_paused_ns: int
    peak_buffer_bytes: int
    ports: list[PausedPort]


@dataclass(frozen=True, slots=True)
class TableDigest:
    """Digest of all table entries of a switch at the start and at the end of a run's traffic."""

    switch: str
    before: str
    after: str


@dataclass(slots=True)
class RunResult:
    """A whole run. Frames are counted at NICs: sent + duplicated = received + lost + in flight.

    `pauses` is None without flow control; with it, pause frames are among those sent and received.

    `clock`: virtual or real. Of real time only: `target`, the switches; `tables`, digests of what
    they held; `cpu_by_process`, seconds of CPU; `notes`, what of the scenario did not happen as
    the file says, one line each. `events` are those of virtual time.
    """

    scenario: str
    description: str
    seed: int
    now_ns: int
    done_ns: int | None
    flows: list[FlowResult]
    collectives: list[CollectiveResult]
    jain: dict[str, float]
    plane_bytes: list[int]
    sent: int
    duplicated: int
    received: int
    in_flight: int
    lost: dict[str, int]
    unaccounted: int
    trimmed: int
    marked: int
    corrupted: int
    nic_drops: dict[str, int]
    transitions: list[EvTransition]
    transition_counts: dict[str, int]
    nic_events: dict[str, int]
    faults: list[FaultEffect]
    base_rtt_ns: int
    payload_share: float
    interval_ns: int
    delivered_bytes: list[int]
    events: int
    build_s: float
    cpu_s: float
    wall_s: float
    failures: list[str] = field(default_factory=list)
    clock: str = "virtual"
    target: str | None = None
    notes: list[str] = field(default_factory=list)
    tables: list[TableDigest] = field(default_factory=list)
    cpu_by_process: dict[str, float] = field(default_factory=dict)
    pauses: PauseTotals | None = None

    @property
    def total(self) -> dict[str, int]:
        """Sums over flows and collectives."""
        names = ("packets", "retransmissions", "timeouts", "trims", "refusals", "probes")
        everything = [*self.flows, *self.collectives]
        return {name: sum(getattr(each, name) for each in everything) for name in names}

    def flow(self, name: str) -> FlowResult:
        """A flow by its name. Raises KeyError."""
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise KeyError(name)

    def collective(self, name: str) -> CollectiveResult:
        """A collective by its name. Raises KeyError."""
        for collective in self.collectives:
            if collective.name == name:
                return collective
        raise KeyError(name)

    def fault(self, name: str) -> FaultEffect:
        """A fault by its name. Raises KeyError."""
        for fault in self.faults:
            if fault.name == name:
                return fault
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Everything but the machine's own times, which differ from run to run."""
        document = asdict(self)
        for flow, result in zip(document["flows"], self.flows, strict=True):
            flow["goodput_bps"] = round(result.goodput_bps)
        for machine in ("build_s", "cpu_s", "wall_s"):
            del document[machine]
        document["total"] = self.total
        return document


def jain_index(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return 1.0 if not squares else sum(values) ** 2 / (len(values) * squares)
