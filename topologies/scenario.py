"""A scenario: a fabric, what its hosts send, what goes wrong and when, what must come of it.

Everything is resolved: hosts, links and switches exist in the fabric, patterns are lists of names,
a fault that happens five times is five faults. The same scenario can run in virtual and in real
time; nothing here belongs to one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topologies.model import Fabric

#: The field that a problem with endpoint settings begins with
_ENDPOINT_FIELD = re.compile(r"endpoint((?:\.\w+)*(?:: \w+)*):")


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages of `size_bytes` from one host to another, on `qps` queue pairs of their own.

    Each queue pair posts `repeat` messages, or posts until `until_ns`; `depth` at a time. With
    `stripe` they do so together: each message is spread over all of them. `group` is the item of
    the traffic that it comes from.
    """

    name: str
    group: str
    source: str
    destination: str
    size_bytes: int
    start_ns: int = 0
    repeat: int = 1
    until_ns: int | None = None
    depth: int = 2
    qps: int = 1
    immediate: bool = False
    stripe: bool = False

    @property
    def total_bytes(self) -> int | None:
        """Payload of all messages; None where time ends them."""
        if self.until_ns is not None:
            return None
        return self.size_bytes * self.repeat * (1 if self.stripe else self.qps)


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective (by its name in `host.collectives`) whose rank i is host i of `hosts`.

    `size_bytes` is that of the whole vector, as nccl-tests count it. `qps` queue pairs join each
    two ranks that write to each other; `repeat` rounds, one after the other. `chunk_bytes` None:
    and `depth` None: after the size.
    """

    name: str
    collective: str
    hosts: tuple[str, ...]
    size_bytes: int
    start_ns: int = 0
    repeat: int = 1
    data_type: str = "float32"
    reduce_op: str = "sum"
    root: int = 0
    in_place: bool = False
    chunk_bytes: int | None = None
    depth: int | None = None
    qps: int = 1


@dataclass(frozen=True, slots=True)
class PathRef:
    """A path between two hosts by its EV's places."""

    source: str
    destination: str
    plane: int
    uplink: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong from `at_ns`, for `for_ns` (None: to the end)."""

    name: str
    at_ns: int
    for_ns: int | None = None

    @property
    def end_ns(self) -> int | None:
        """When it is over."""
        return None if self.for_ns is None else self.at_ns + self.for_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDown(Fault):
    """Links (by name) are down."""

    links: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impairment(Fault):
    """Something about frames on links, or of the data of one path. `up`, `down`: directions."""

    links: tuple[str, ...] = ()
    path: PathRef | None = None
    up: bool = True
    down: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Impairment):
    """Frames vanish."""

    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption(Impairment):
    """One bit of a frame turns over."""

    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplication(Impairment):
    """Frames arrive twice."""

    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(Impairment):
    """Frames take `extra_ns` longer, and up to `jitter_ns` more."""

    extra_ns: int
    jitter_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink(Fault):
    """Links have another rate."""

    links: tuple[str, ...]
    rate_bps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDead(Fault):
    """Switches swallow every frame, links up."""

    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReboot(Fault):
    """Switches are down with their links, then start afresh."""

    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny(Fault):
    """EVs (by their paths) are denied to queue pairs from one host to another."""

    paths: tuple[PathRef, ...]


@dataclass(frozen=True, slots=True)
class FlowExpectation:
    """What flows (by name) must have reached; None: no matter."""

    flows: tuple[str, ...]
    pattern: str = "*"
    status: str = "success"
    goodput_min_bps: int | None = None
    goodput_share_min: float | None = None
    goodput_share_max: float | None = None
    total_share_min: float | None = None
    completion_max_ns: int | None = None
    jain_min: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveExpectation:
    """What collectives (by name) must have reached; None: no matter."""

    collectives: tuple[str, ...]
    pattern: str = "*"
    status: str = "success"
    completion_max_ns: int | None = None
    bus_bandwidth_min_bps: int | None = None
    bus_share_min: float | None = None


@dataclass(frozen=True, slots=True)
class FaultExpectation:
    """What faults (by name) may have done; None: no matter."""

    faults: tuple[str, ...]
    pattern: str = "*"
    lost_max: int | None = None
    last_packet_max_ns: int | None = None
    last_packet_max_rtts: float | None = None
    full_rate_max_ns: int | None = None
    evs_out_min: int | None = None


@dataclass(frozen=True, slots=True)
class Expectations:
    """What must hold at the end."""

    complete: bool = True
    flows: tuple[FlowExpectation, ...] = ()
    collectives: tuple[CollectiveExpectation, ...] = ()
    faults: tuple[FaultExpectation, ...] = ()
    faults_begin: bool = True
    plane_share_within: float | None = None
    lost_max: int | None = None
    timeouts_max: int | None = None
    retransmissions_max: int | None = None
    trimmed_min: int | None = None
    trimmed_max: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Settings of all endpoints, by the names of the endpoint's own configuration."""

    #: mrc or roce
    transport: str = "mrc"
    forwarding: str = "srv6"
    #: Of queue pairs
    qp: Mapping[str, Any] = field(default_factory=dict)
    #: Of congestion control, `controller` among them
    congestion: Mapping[str, Any] = field(default_factory=dict)
    #: Of the EV profile
    evs: Mapping[str, Any] = field(default_factory=dict)
    #: What only RoCE has
    roce: Mapping[str, Any] = field(default_factory=dict)
    #: Where the file says so: by the field's dotted name within the section, file and line
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def frames_name_paths(self) -> bool:
        """Whether data frames bear their path in an address, so that it can be told what went
        where."""
        return self.forwarding == "srv6"

    def located(self, problem: str) -> str:
        """A problem with these settings, with the place in front of it that it is about.

        It names the field as the endpoint does: `endpoint.evs.mode: …` or `endpoint.evs: mode: …`.
        Unchanged where no file says anything of the endpoint.
        """
        named = _ENDPOINT_FIELD.match(problem)
        steps = [step for step in re.split(r"[.: ]+", named[1]) if step] if named else []
        for length in range(len(steps), -1, -1):
            place = self.places.get(".".join(steps[:length]))
            if place is not None:
                return f"{place}: {problem}"
        return problem


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario."""

    name: str
    fabric: Fabric
    flows: tuple[Flow, ...]
    description: str = ""
    seed: int = 0
    collectives: tuple[Collective, ...] = ()
    faults: tuple[Fault, ...] = ()
    endpoint: Endpoint = field(default_factory=Endpoint)
    duration_ns: int | None = None
    stop_with_traffic: bool = True
    interval_ns: int = 5000
    #: From a change of links or switches until routes of plain IPv6 follow; None: they never do
    convergence_ns: int | None = None
    expect: Expectations = field(default_factory=Expectations)
