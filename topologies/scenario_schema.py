"""What a scenario file may say: the schema of the YAML, section by section.

Times, sizes and rates are text with their unit (`at: 100us`). The loader
(`topologies.scenario_loader`) turns a checked file into a `topologies.scenario.Scenario`.

Traffic and faults are lists of items with one field each, which says what the item is:
`- transfer: {from: h0, to: h4, size: 64MiB}`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from topologies.schema import Delay, Rate, Section, Size

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]
Operation = Literal["write", "write_imm"]
#: The names in `host.collectives`
CollectiveName = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv", "broadcast"
]


class OneOf(Section):
    """A section of which exactly one field says something."""

    #: The fields of which one is to be given; empty: all of them
    choices: ClassVar[tuple[str, ...]] = ()
    at_least_one: ClassVar[bool] = True

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        fields = type(self).model_fields
        names = self.choices or tuple(fields)
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} stand together; give one of them")
        if not given and self.at_least_one:
            raise ValueError(f"says nothing; give one of {', '.join(names)}")
        return self

    def chosen(self) -> tuple[str, Any]:
        """The name and the value of the field that is given."""
        for name in self.choices or tuple(type(self).model_fields):
            value = getattr(self, name)
            if value is not None:
                return name, value
        raise AssertionError("checked on the way in")


# --- traffic -----------------------------------------------------------------------------------


class FlowSection(Section):
    """What all kinds of traffic have in common."""

    name: Name | None = Field(default=None, description="In reports; default: made of the hosts")
    size: Size = Field(description="Bytes of one message")
    start: Delay = Field(default=0, description="When the first message is posted")
    repeat: Count | None = Field(default=None, description="Messages of each queue pair; default 1")
    until: Delay | None = Field(
        default=None, description="In place of repeat: post messages until this time"
    )
    depth: Count = Field(default=2, description="Messages of a queue pair posted at a time")
    qps: Count = Field(default=1, le=4096, description="Queue pairs, each with its own messages")
    stripe: bool | None = Field(
        default=None,
        description="Spread each message over the queue pairs; default: as the transport of the "
        "endpoint is, roce true, mrc false",
    )
    op: Operation = Field(default="write", description="write or write_imm")

    @model_validator(mode="after")
    def _size_and_end(self) -> Self:
        if self.size < 1:
            raise ValueError("size: a message has at least 1B")
        if self.repeat is not None and self.until is not None:
            raise ValueError("repeat and until say the same thing; give one of them")
        if self.until is not None and self.until <= self.start:
            raise ValueError("until: must be later than start")
        return self


class TransferSection(FlowSection):
    """One host writes to another."""

    source: str = Field(alias="from", description="The host that writes")
    to: str = Field(description="The host written to")


class IncastSection(FlowSection):
    """Many hosts write to one, all at once."""

    sources: list[str] | None = Field(
        default=None, alias="from", min_length=1, description="The hosts that write"
    )
    fan_in: Count | None = Field(
        default=None,
        description="In place of from: how many hosts of other T0s, spread evenly over these",
    )
    to: str = Field(description="The host written to")

    @model_validator(mode="after")
    def _sources_one_way(self) -> Self:
        if (self.sources is None) == (self.fan_in is None):
            raise ValueError("give one of from and fan_in")
        return self


class PermutationSection(FlowSection):
    """Every host writes to one other, and one other writes to it."""

    hosts: list[str] | None = Field(default=None, min_length=2, description="Default: all hosts")
    shift: Count | None = Field(
        default=None,
        description="Host number i writes to number i + shift; default: a random permutation",
    )


class CollectiveSection(Section):
    """A collective of hosts, each of which is a rank; its result is checked."""

    name: Name | None = Field(default=None, description="In reports; default: its op")
    op: CollectiveName = Field(description="Which collective")
    size: Size = Field(
        description="Of the whole vector, with a block of each rank where there are blocks"
    )
    hosts: list[str] | None = Field(
        default=None, min_length=1, description="The ranks, in order; default: all hosts"
    )
    ranks: Count | None = Field(
        default=None, description="In place of hosts: so many hosts, the first in `order`"
    )
    order: Literal["racks", "spread"] = Field(
        default="racks",
        description="Of hosts that are not named. racks: T0 by T0; spread: one of each T0 in turn,"
        " so that neighbours of a ring are in different racks",
    )
    start: Delay = Field(default=0, description="When all ranks begin")
    repeat: Count = Field(default=1, description="Rounds, one after the other")
    dtype: Literal["int32", "int64", "float32"] = Field(
        default="float32", description="Of the elements"
    )
    reduce: Literal["sum", "min", "max"] = Field(
        default="sum", description="Of all-reduce and reduce-scatter"
    )
    root: int = Field(default=0, ge=0, description="The rank that broadcasts")
    in_place: bool = Field(default=False, description="Result and contribution in one buffer")
    chunk: Size | None = Field(
        default=None, description="What is sent on at a time; default: after the size"
    )
    depth: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Chunks of a reduction on their way in each step; default: of 1 MiB",
    )
    qps: int = Field(default=1, ge=1, le=256, description="Queue pairs of each two ranks")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.hosts is not None and self.ranks is not None:
            raise ValueError("hosts and ranks say the same thing; give one of them")
        if self.in_place and self.op == "send-recv":
            raise ValueError("in_place: send-recv needs two buffers")
        if self.chunk == 0:
            raise ValueError("chunk: a chunk has at least 1B")
        return self


class TrafficItem(OneOf):
    """One item of the traffic: what it is, and its fields."""

    transfer: TransferSection | None = None
    incast: IncastSection | None = None
    permutation: PermutationSection | None = None
    collective: CollectiveSection | None = None


# --- faults ------------------------------------------------------------------------------------


class FaultSection(Section):
    """What all faults have in common: when."""

    name: Name | None = Field(default=None, description="In reports; default: its kind and number")
    at: Delay = Field(default=0, description="When it begins")
    lasts: Delay | None = Field(
        default=None, alias="for", description="How long; left out: to the end"
    )
    times: Count = Field(default=1, le=10_000, description="How often it happens")
    every: Delay | None = Field(default=None, description="From one time to the next")

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.times > 1:
            if self.every is None or self.lasts is None:
                raise ValueError("times: what happens several times needs every and for")
            if self.lasts >= self.every:
                raise ValueError("every: must be longer than for, or the times run together")
        elif self.every is not None:
            raise ValueError("every: says nothing without times")
        if self.lasts == 0:
            raise ValueError("for: must be above 0")
        return self


class PathSection(Section):
    """A path between two hosts, by the places of its EV; it is impaired where it begins."""

    source: str = Field(alias="from", description="The host that sends")
    to: str = Field(description="The host that receives")
    plane: int = Field(ge=0, description="The EV's plane")
    uplink: int = Field(default=0, ge=0, description="The EV's uplink; 0 within a T0")


class LinkFaultSection(FaultSection, OneOf):
    """A fault of links: of one, or of all that a pattern matches (`*`, `?`, `[01]`)."""

    choices: ClassVar[tuple[str, ...]] = ("link", "host", "switch", "tier")

    link: list[str] | None = Field(
        default=None, min_length=2, max_length=2, description="The two nodes the link joins"
    )
    host: str | None = Field(default=None, description="All links of a host")
    switch: str | None = Field(default=None, description="All links of a switch")
    tier: Literal["host", "fabric"] | None = Field(default=None, description="All of a tier")


class LinkDownSection(LinkFaultSection):
    """Links go down: both ends lose their signal, what is on the wire is lost."""


class PortDownSection(FaultSection):
    """A port of a NIC goes down, and so its link."""

    host: str = Field(description="Whose")
    plane: int = Field(ge=0, description="Which port")


class ImpairmentSection(LinkFaultSection):
    """A fault of links or of one path, on frames in one direction or both."""

    choices: ClassVar[tuple[str, ...]] = ("link", "host", "switch", "tier", "path")

    path: PathSection | None = Field(
        default=None, description="Of data of one path only (SRv6); in place of links"
    )
    direction: Literal["both", "up", "down"] = Field(
        default="both", description="up: away from the hosts"
    )


class LossSection(ImpairmentSection):
    """Frames vanish, each with a probability."""

    probability: Share = Field(description="0..1, for each frame on each link")


class CorruptionSection(ImpairmentSection):
    """One bit of a frame turns over; links do not check (no FCS), so the frame travels on."""

    probability: Share = Field(description="0..1, for each frame on each link")


class DuplicationSection(ImpairmentSection):
    """Frames arrive twice."""

    probability: Share = Field(description="0..1, for each frame on each link")


class DelaySection(ImpairmentSection):
    """Frames take longer, and may overtake each other."""

    extra: Delay = Field(default=0, description="Added to the delay of the link")
    jitter: Delay = Field(default=0, description="Up to so much more, evenly distributed")


class SlowLinkSection(LinkFaultSection):
    """Links run at another rate; both ends know."""

    rate: Rate = Field(description="Instead of the topology's")


class SwitchSection(FaultSection):
    """A fault of switches."""

    switch: str = Field(description="The switch, or a pattern (`p0-t1-*`)")


class SwitchDeadSection(SwitchSection):
    """Switches swallow every frame while their links stay up."""


class SwitchRebootSection(SwitchSection):
    """Switches go down with their links and start again, tables installed, after `for`."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.lasts is None:
            raise ValueError("for: is missing: how long does the reboot take?")
        return self


class DenySection(FaultSection):
    """The operator denies EVs to queue pairs from one host to another, and allows them again."""

    source: str = Field(alias="from", description="The host whose queue pairs it is about")
    to: str = Field(description="The host they write to")
    plane: int = Field(ge=0, description="The EVs' plane")
    uplinks: list[int] = Field(min_length=1, description="The EVs' uplinks")


class FaultItem(OneOf):
    """One fault: what it is, and its fields."""

    link_down: LinkDownSection | None = None
    port_down: PortDownSection | None = None
    loss: LossSection | None = None
    corruption: CorruptionSection | None = None
    duplication: DuplicationSection | None = None
    delay: DelaySection | None = None
    slow_link: SlowLinkSection | None = None
    switch_dead: SwitchDeadSection | None = None
    switch_reboot: SwitchRebootSection | None = None
    deny: DenySection | None = None


# --- expectations ------------------------------------------------------------------------------


class FlowExpectation(Section):
    """What flows must have reached; of all flows unless `flow` says which."""

    flow: str = Field(default="*", description="Name of a flow, or a pattern")
    status: Literal["success", "error"] = Field(
        default="success", description="error: at least one work request must fail"
    )
    goodput_min: Rate | None = Field(default=None, description="Payload per time, of each")
    goodput_share_min: Share | None = Field(
        default=None, description="The same, as a share of the sender's line rate for payload"
    )
    goodput_share_max: Share | None = Field(
        default=None, description="... and no more than this, of what must be seen to suffer"
    )
    total_share_min: Share | None = Field(
        default=None,
        description="Of all together, as a share of the receiver's line rate for payload",
    )
    completion_max: Delay | None = Field(default=None, description="From start, of each")
    jain_min: Share | None = Field(default=None, description="Jain's index of their goodputs")


class CollectiveExpectation(Section):
    """What collectives must have reached; of all of them unless `collective` says which."""

    collective: str = Field(default="*", description="Name of a collective, or a pattern")
    status: Literal["success", "error"] = Field(
        default="success", description="error: it must fail on every rank"
    )
    completion_max: Delay | None = Field(default=None, description="From start, of all rounds")
    bus_bandwidth_min: Rate | None = Field(
        default=None, description="Bus bandwidth as nccl-tests have it, over all rounds"
    )
    bus_share_min: Share | None = Field(
        default=None,
        description="The same, as a share of the least rank's line rate for payload",
    )


class FaultExpectation(Section):
    """What a fault may have done."""

    fault: str = Field(default="*", description="Name of a fault, or a pattern")
    lost_max: int | None = Field(default=None, ge=0, description="Frames lost by it")
    last_packet_max: Delay | None = Field(
        default=None,
        description="From its beginning to the last data sent on a path through it; known with "
        "SRv6 only, whose frames name their paths, and of no deny, which is no place",
    )
    last_packet_max_rtts: float | None = Field(
        default=None, ge=0.0, description="The same, in base RTTs"
    )
    evs_out_min: int | None = Field(
        default=None, ge=0, description="EVs through it that went out of use"
    )
    full_rate_max: Delay | None = Field(
        default=None, description="From its beginning until the rate was what it was before"
    )


class ExpectSection(Section):
    """What must hold at the end, or the run fails. Memory is always checked."""

    complete: bool = Field(
        default=True, description="Every work request completes, with success unless flows say so"
    )
    flows: list[FlowExpectation] = Field(default_factory=list, description="Of flows")
    collectives: list[CollectiveExpectation] = Field(
        default_factory=list, description="Of collectives"
    )
    faults: list[FaultExpectation] = Field(default_factory=list, description="Of faults")
    faults_begin: bool = Field(
        default=True,
        description="Every fault begins before the run is over; false: where it is traffic that "
        "ends it, and faults are for as long as it lasts",
    )
    plane_share_within: Share | None = Field(
        default=None,
        description="Every plane's share of data is the even share, times 1 ± this",
    )
    lost_max: int | None = Field(default=None, ge=0, description="Frames lost, of all causes")
    timeouts_max: int | None = Field(default=None, ge=0, description="Local ACK timeouts")
    retransmissions_max: int | None = Field(default=None, ge=0, description="Data packets resent")
    trimmed_min: int | None = Field(default=None, ge=0, description="Packets trimmed by switches")
    trimmed_max: int | None = Field(default=None, ge=0, description="Packets trimmed by switches")


# --- endpoint ----------------------------------------------------------------------------------

#: Fields that only RoCE has
ROCE_FIELDS: Final = ("window", "rnr_retries", "rnr_timer", "cnp_interval")
#: ... and those that it does not have
MRC_FIELDS: Final = (
    *("exponential_retries", "mpr", "max_wimm", "sack_delay", "trim_nack"),
    *("dynamic_mpr", "evs"),
)


class EndpointSection(Section):
    """How the endpoints of all hosts are set; what is left out is the endpoint's own default.

    Names are those of the endpoint's configuration and of `mrc.h`.
    """

    transport: Literal["mrc", "roce"] = Field(
        default="mrc", description="roce: RoCEv2 RC, the baseline (docs/baselines.md)"
    )
    forwarding: Literal["srv6", "ecmp", "spray"] | None = Field(
        default=None,
        description="How the fabric finds a packet's way; default srv6, and of RoCE ecmp. spray: "
        "as ecmp, in a topology with `load_balancing: packet`",
    )
    timeout: int | None = Field(
        default=None, ge=0, le=24, description="Local ACK timeout: 1.024 us times 2^timeout"
    )
    linear_retries: int | None = Field(
        default=None, ge=0, le=7, description="Before they double; of RoCE all there are"
    )
    exponential_retries: int | None = Field(
        default=None, ge=0, le=25, description="Of doubling timeouts; 25: for ever"
    )
    mpr: Count | None = Field(
        default=None, description="Packets a responder tracks; a multiple of 128"
    )
    max_wimm: Count | None = Field(default=None, description="WriteIMM in flight")
    sack_packets: Count | None = Field(
        default=None, description="A SACK, of RoCE an ACK, every so many packets"
    )
    sack_delay: Delay | None = Field(default=None, description="... and so long after one")
    trim_nack: bool | None = Field(
        default=None, description="false: responders cannot answer trimmed packets"
    )
    dynamic_mpr: bool | None = Field(default=None, description="Responders may change the MPR")
    congestion: dict[str, Any] | None = Field(
        default=None, description="Congestion control: `controller` and its knobs by name"
    )
    evs: dict[str, Any] | None = Field(
        default=None, description="EV profile: the fields of the endpoint's EV profile by name"
    )
    window: Count | None = Field(
        default=None, description="RoCE: packets unacknowledged at most; default 2^23"
    )
    rnr_retries: int | None = Field(
        default=None, ge=0, le=7, description="RoCE: after RNR NAKs; 7, the default: for ever"
    )
    rnr_timer: int | None = Field(
        default=None, ge=0, le=31, description="RoCE: code of the wait that RNR NAKs ask for"
    )
    cnp_interval: Delay | None = Field(
        default=None, description="RoCE: least time between CNPs of a queue pair; default 50us"
    )

    @property
    def is_roce(self) -> bool:
        """Whether the transport is the baseline's."""
        return self.transport == "roce"

    @property
    def effective_forwarding(self) -> str:
        """How the fabric finds a packet's way: what the file says, or what fits the transport."""
        return self.forwarding or ("ecmp" if self.is_roce else "srv6")

    @model_validator(mode="after")
    def _fits_transport(self) -> Self:
        if self.is_roce and self.forwarding == "srv6":
            raise ValueError("forwarding: srv6 does not fit: RoCE has ecmp and spray")
        for name in MRC_FIELDS if self.is_roce else ROCE_FIELDS:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: transport {self.transport} has no such thing")
        return self


class RoutingSection(Section):
    """Routing of plain IPv6 (`forwarding: ecmp`); SRv6 paths are static whatever it says."""

    convergence: Delay | None = Field(
        default=None,
        description="From a link or switch that goes down or comes up until all routes follow; "
        "left out: they never do",
    )


class MeasureSection(Section):
    """How rates over time are taken."""

    interval: Delay | None = Field(
        default=None,
        ge=1,
        description="Between samples; doubles in runs of many. Default: about a base RTT, and "
        "dozens of packets of a host",
    )


class ScenarioFile(Section):
    """A fabric, what its hosts send, what goes wrong, and what must come of it."""

    name: Name | None = Field(default=None, description="Default: the file's name")
    description: str = Field(default="", description="One line for lists and reports")
    topology: str | dict[str, Any] = Field(
        description="Name of a ready topology or path of a file; or a section with `base` and "
        "fields of a topology file that differ"
    )
    seed: int = Field(default=0, ge=0, description="Of everything random")
    traffic: list[TrafficItem] = Field(min_length=1, description="What hosts send")
    endpoint: EndpointSection = EndpointSection()
    faults: list[FaultItem] = Field(default_factory=list, description="What goes wrong")
    duration: Delay | None = Field(
        default=None,
        ge=1,
        description="The run ends here at the latest; default: when all traffic is done",
    )
    stop: Literal["traffic", "duration"] = Field(
        default="traffic", description="duration: go on when all traffic is done"
    )
    routing: RoutingSection = RoutingSection()
    measure: MeasureSection = MeasureSection()
    expect: ExpectSection = ExpectSection()

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.stop == "duration" and self.duration is None:
            raise ValueError("duration: is missing, and stop says that the run lasts so long")
        return self


def json_schema() -> dict[str, Any]:
    """JSON schema of a scenario file, for editors."""
    schema = ScenarioFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
