"""What a topology file may say: the schema of the YAML, section by section.

A quantity is written with its unit (`rate: 100Gbps`), or as a plain integer under the name that
tells the unit (`rate_bps: 100000000000`). The loader turns a checked file into a
`topologies.model.Fabric`.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Network
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from topologies import addressing
from topologies.settings import (
    DEFAULT_GRPC_BASE_PORT,
    DEFAULT_GRPC_HOST,
    DEFAULT_UDP_PORT,
    MAX_PATH_MTU_BYTES,
    MAX_TRIM_BYTES,
    MIN_PATH_MTU_BYTES,
    MIN_TRIM_BYTES,
    EcnSettings,
    LinkOverride,
    LinkSettings,
    PfcSettings,
    QueueSettings,
    TrimSettings,
)
from topologies.traffic_class import DSCP_MAX, TrafficClasses
from topologies.units import parse_delay_ns, parse_rate_bps, parse_size_bytes

_MAX_BIT32 = 2**32 - 1
_DEFAULT_TRIM = TrimSettings()
_DEFAULT_DSCP = TrafficClasses()


def _quantity(parse: Callable[[str], int], what: str, example: str) -> Callable[[object], int]:
    def validate(value: object) -> int:
        if not isinstance(value, str):
            raise ValueError(
                f"{value!r} is not a {what} with its unit; write for example {example}"
            )
        return parse(value)

    return validate


def _text_schema(example: str, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], "description": description})


Rate = Annotated[
    int,
    BeforeValidator(_quantity(parse_rate_bps, "rate", "100Gbps")),
    _text_schema("100Gbps", "Bits per second with unit: bps, kbps, Mbps, Gbps, Tbps"),
]
Delay = Annotated[
    int,
    BeforeValidator(_quantity(parse_delay_ns, "time", "500ns")),
    _text_schema("500ns", "Time with unit: ns, us, ms, s"),
]
Size = Annotated[
    int,
    BeforeValidator(_quantity(parse_size_bytes, "size", "64KiB")),
    Field(le=_MAX_BIT32),
    _text_schema("64KiB", "Bytes with unit: B, kB, MB, GB, KiB, MiB, GiB"),
]
PlainBytes = Annotated[int, Field(ge=0, le=_MAX_BIT32)]


def _prefix(value: object) -> IPv6Network:
    try:
        return IPv6Network(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(
            f"{value!r} is not an IPv6 prefix; write for example 5f00::/32 (no host bits set)"
        ) from None


Prefix = Annotated[
    IPv6Network, BeforeValidator(_prefix), _text_schema("5f00::/32", "An IPv6 prefix")
]


class Section(BaseModel):
    """Base of all sections: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    #: Field with unit → its plain twin
    quantities: ClassVar[dict[str, str]] = {}
    #: Quantities that must be given one way or the other
    required_quantities: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _one_way_each(self) -> Self:
        for name, plain in self.quantities.items():
            given = {name, plain} & self.model_fields_set
            if len(given) == 2:
                raise ValueError(f"{name} and {plain} say the same thing; give one of them")
            if not given and name in self.required_quantities:
                raise ValueError(f"{name} is missing")
        return self

    def quantity(self, name: str) -> int | None:
        """A quantity's value, however it was written; None where it was left out or null."""
        plain = self.quantities[name]
        value: int | None = getattr(self, plain if plain in self.model_fields_set else name)
        return value

    def says(self, name: str) -> bool:
        """Whether the file gives this quantity, null included."""
        return bool({name, self.quantities[name]} & self.model_fields_set)


class AddressingSection(Section):
    """Where the fabric's addresses come from."""

    locator_block: Prefix = Field(
        default=addressing.DEFAULT_LOCATOR_BLOCK, description="The /32 behind which uSIDs stand"
    )
    host_prefix: Prefix = Field(
        default=addressing.DEFAULT_HOST_PREFIX, description="The unique local /48 of host addresses"
    )

    @model_validator(mode="after")
    def _fits_plan(self) -> Self:
        self.plan()
        return self

    def plan(self) -> addressing.AddressPlan:
        """The addressing plan of these prefixes."""
        return addressing.AddressPlan(self.locator_block, self.host_prefix)


class LinkSection(Section):
    """Of every link of a tier."""

    quantities: ClassVar[dict[str, str]] = {"rate": "rate_bps", "delay": "delay_ns"}

    rate: Rate | None = Field(default=None, description="Link rate; null means unlimited")
    rate_bps: int | None = Field(default=None, ge=1, description="The same, in bits per second")
    delay: Delay = Field(default=0, description="Propagation delay, one way")
    delay_ns: int = Field(default=0, ge=0, description="The same, in nanoseconds")

    def settings(self) -> LinkSettings:
        """As the model has it."""
        return LinkSettings(self.quantity("rate"), self.quantity("delay") or 0)


class LinkOverrideSection(LinkSection):
    """What one link has otherwise than its tier; what is left out is as the tier has it."""

    between: list[str] = Field(
        min_length=2,
        max_length=2,
        description="The two nodes that the link joins, for example [p0-t0-0, p0-t1-1]",
    )

    def override(self) -> LinkOverride:
        """As the model has it."""
        return LinkOverride(
            rate_bps=self.quantity("rate"),
            unlimited=self.says("rate") and self.quantity("rate") is None,
            delay_ns=self.quantity("delay") if self.says("delay") else None,
        )


class LinksSection(Section):
    """Rates and delays."""

    host: LinkSection = Field(default=LinkSection(), description="Links between NICs and T0s")
    fabric: LinkSection = Field(default=LinkSection(), description="Links between T0s and T1s")
    overrides: list[LinkOverrideSection] = Field(
        default_factory=list, description="Single links that differ from their tier"
    )


class EcnSection(Section):
    """ECN marking by the bytes of data that wait at a port."""

    quantities: ClassVar[dict[str, str]] = {"min": "min_bytes", "max": "max_bytes"}
    required_quantities: ClassVar[tuple[str, ...]] = ("min", "max")

    min: Size | None = Field(default=None, description="Nothing is marked below")
    min_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    max: Size | None = Field(default=None, description="Everything is marked from here on")
    max_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    probability: float = Field(
        default=1.0,
        ge=0.0,
        le=1.0,
        description="Share marked just below max; from 0 at min in a line",
    )

    @model_validator(mode="after")
    def _min_below_max(self) -> Self:
        low, high = self.quantity("min"), self.quantity("max")
        if low is not None and high is not None and low > high:
            raise ValueError(f"min ({low} bytes) is above max ({high} bytes)")
        return self

    def settings(self) -> EcnSettings:
        """As the model has it."""
        return EcnSettings(self.quantity("min") or 0, self.quantity("max") or 0, self.probability)


class QueueSection(Section):
    """Queues of switch ports."""

    quantities: ClassVar[dict[str, str]] = {
        "data_limit": "data_limit_bytes",
        "control_limit": "control_limit_bytes",
    }

    data_limit: Size = Field(default=64 * 1024, description="Data over this is trimmed or dropped")
    data_limit_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    control_limit: Size = Field(
        default=64 * 1024, description="Control and trimmed packets over this are dropped"
    )
    control_limit_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    ecn: EcnSection | None = Field(
        default=None, description="ECN marking; null or left out means none"
    )

    def settings(self) -> QueueSettings:
        """As the model has it."""
        return QueueSettings(
            self.quantity("data_limit") or 0,
            self.quantity("control_limit") or 0,
            self.ecn.settings() if self.ecn else None,
        )


class PfcSection(Section):
    """Priority-based flow control (802.1Qbb): data is paused, not lost. For virtual time."""

    quantities: ClassVar[dict[str, str]] = {
        "xoff": "xoff_bytes",
        "xon": "xon_bytes",
        "headroom": "headroom_bytes",
    }
    required_quantities: ClassVar[tuple[str, ...]] = ("xoff",)

    xoff: Size | None = Field(
        default=None,
        description="Whoever sends to a port is paused when more than this came in there and waits",
    )
    xoff_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    xon: Size | None = Field(
        default=None, description="... and goes on when so little is left; default: half of xoff"
    )
    xon_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    headroom: Size | None = Field(
        default=None,
        description="Room beyond xoff for what arrives meanwhile, after which data is lost; "
        "default: what rate and delay of the link need",
    )
    headroom_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")

    @model_validator(mode="after")
    def _xon_below_xoff(self) -> Self:
        xoff, xon = self.quantity("xoff"), self.quantity("xon")
        if xoff is not None and xon is not None and xon > xoff:
            raise ValueError(f"xon ({xon} bytes) is above xoff ({xoff} bytes)")
        return self

    def settings(self) -> PfcSettings:
        """As the model has it."""
        xoff, xon = self.quantity("xoff") or 0, self.quantity("xon")
        return PfcSettings(xoff, xoff // 2 if xon is None else xon, self.quantity("headroom"))


class QueuesSection(Section):
    """Queue limits and ECN marking."""

    host: QueueSection = Field(
        default=QueueSection(),
        description="T0 ports that face hosts; MRC wants no ECN marking there, DCQCN (RoCE) does",
    )
    fabric: QueueSection = Field(default=QueueSection(), description="Every other switch port")
    pfc: PfcSection | None = Field(
        default=None,
        description="Flow control of data at all switch ports; null or left out means none",
    )


class TrimmingSection(Section):
    """What trimming keeps of a frame, counted from the Ethernet header and without an SRH."""

    quantities: ClassVar[dict[str, str]] = {
        "mrc_header": "mrc_header_bytes",
        "udp_header": "udp_header_bytes",
    }

    enabled: bool = Field(
        default=True, description="false: data over the limit is dropped, never trimmed"
    )
    mrc_header: Size = Field(
        default=_DEFAULT_TRIM.mrc_bytes, description="Of MRC packets (IPv6 in IPv6): up to ImmDt"
    )
    mrc_header_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    udp_header: Size = Field(default=_DEFAULT_TRIM.udp_bytes, description="Of plain IPv6 with UDP")
    udp_header_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")

    @model_validator(mode="after")
    def _keeps_ip_header(self) -> Self:
        for name in self.quantities:
            kept = self.quantity(name) or 0
            if not MIN_TRIM_BYTES <= kept <= MAX_TRIM_BYTES:
                raise ValueError(
                    f"{name}: {kept} bytes does not fit: trimming must keep "
                    f"{MIN_TRIM_BYTES}..{MAX_TRIM_BYTES} bytes"
                )
        return self

    def settings(self) -> TrimSettings:
        """As the model has it."""
        return TrimSettings(
            self.enabled, self.quantity("mrc_header") or 0, self.quantity("udp_header") or 0
        )


Dscp = Annotated[int, Field(ge=0, le=DSCP_MAX)]


class DscpSection(Section):
    """DSCP value of each traffic class; all distinct."""

    control: Dscp = Field(
        default=_DEFAULT_DSCP.control, description="SACK, NACK, ACK, endpoint operations"
    )
    trimmed: Dscp = Field(default=_DEFAULT_DSCP.trimmed, description="Set on what a switch trimmed")
    trimmed_lasthop: Dscp = Field(
        default=_DEFAULT_DSCP.trimmed_lasthop, description="The same, on ports that face hosts"
    )
    trimmable: Dscp = Field(default=_DEFAULT_DSCP.trimmable, description="First transmissions")
    trimmable_retx: Dscp = Field(
        default=_DEFAULT_DSCP.trimmable_retx, description="Retransmissions"
    )
    no_trim: Dscp = Field(
        default=_DEFAULT_DSCP.no_trim, description="Data that must not be trimmed"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        self.classes()
        return self

    def classes(self) -> TrafficClasses:
        """As the model has it."""
        return TrafficClasses(**self.model_dump())


class GrpcSection(Section):
    """Where switches listen for P4Runtime, unless the commands are told otherwise."""

    host: str = Field(
        default=DEFAULT_GRPC_HOST, min_length=1, description="Address of all switches"
    )
    base_port: int = Field(
        default=DEFAULT_GRPC_BASE_PORT,
        ge=1,
        le=65535,
        description="TCP port of the first switch; the next have the ports behind it",
    )


Count = Annotated[int, Field(ge=1, le=addressing.MAX_INDEX)]


class TopologyFile(Section):
    """A fabric: planes of T0 and T1 switches, every T0 linked once to every T1 of its plane."""

    quantities: ClassVar[dict[str, str]] = {"path_mtu": "path_mtu_bytes"}

    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="Default: the file's name",
    )
    planes: int = Field(ge=1, le=addressing.MAX_PLANES, description="Planes: ports of each NIC")
    t0_per_plane: Count = Field(description="T0 switches per plane")
    t1_per_plane: Count = Field(description="T1 switches per plane: uplinks of each T0")
    hosts_per_t0: Count = Field(description="Hosts under each T0; each has a port on every plane")
    addressing: AddressingSection = AddressingSection()
    links: LinksSection = LinksSection()
    queues: QueuesSection = QueuesSection()
    trimming: TrimmingSection = TrimmingSection()
    load_balancing: Literal["flow", "packet"] = Field(
        default="flow",
        description="Of plain IPv6, over paths of the same length. flow: by a hash of what "
        "identifies a flow; packet: each packet for itself, at random (packet spraying)",
    )
    dscp: DscpSection = DscpSection()
    path_mtu: Size = Field(default=4096, description="Payload bytes of a full packet")
    path_mtu_bytes: PlainBytes | None = Field(default=None, description="The same, in bytes")
    udp_port: int = Field(
        default=DEFAULT_UDP_PORT, ge=1, le=65535, description="UDP destination port (RoCEv2)"
    )
    grpc: GrpcSection = GrpcSection()

    @model_validator(mode="after")
    def _path_mtu_fits(self) -> Self:
        mtu = self.quantity("path_mtu") or 0
        if not MIN_PATH_MTU_BYTES <= mtu <= MAX_PATH_MTU_BYTES or mtu % 4:
            raise ValueError(
                f"path_mtu: {mtu} bytes does not fit: it must be a multiple of 4 within "
                f"{MIN_PATH_MTU_BYTES}..{MAX_PATH_MTU_BYTES}"
            )
        return self


def json_schema() -> dict[str, Any]:
    """JSON schema of a topology file, for editors."""
    schema = TopologyFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
