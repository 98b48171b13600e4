"""Names of `p4src/fabric.p4`: tables with their keys, actions with their parameters.

The plan is written in these; a test holds them against the compiled P4Info.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """How a value reads best."""

    NUMBER = auto()
    SID = auto()
    BLOCK = auto()
    PREFIX = auto()
    MAC = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """A key field or an action parameter."""

    name: str
    kind: Kind = Kind.NUMBER


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its full name and its key."""

    name: str
    keys: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """An action, its full name and its parameters."""

    name: str
    params: tuple[Column, ...] = ()


_SID = Column("sid", Kind.SID)
_EGRESS_PORT = Column("egress_port")

MY_SID = Table("FabricIngress.srv6.my_sid", (_SID,))
NEXT_SID = Table("FabricIngress.srv6.next_sid", (_SID,))
LOCATOR_BLOCK = Table("FabricIngress.srv6.locator_block", (Column("block", Kind.BLOCK),))
IPV6_ROUTE = Table("FabricIngress.routing.ipv6_route", (Column("dst_addr", Kind.PREFIX),))
SPRAYING = Table("FabricIngress.routing.spraying", (Column("dscp"),))
TRAFFIC_CLASS = Table("FabricIngress.admission.traffic_class", (Column("dscp"),))
PORT_QUEUE = Table("FabricIngress.admission.port_queue", (_EGRESS_PORT,))
TRIM_SIZE = Table("FabricIngress.admission.trim_size", (Column("payload_protocol"),))
ECN_MARKING = Table("FabricIngress.admission.ecn_marking", (_EGRESS_PORT,))
NEIGHBOR = Table("FabricEgress.neighbors.neighbor", (_EGRESS_PORT,))

TABLES = (
    MY_SID,
    NEXT_SID,
    LOCATOR_BLOCK,
    IPV6_ROUTE,
    SPRAYING,
    TRAFFIC_CLASS,
    PORT_QUEUE,
    TRIM_SIZE,
    ECN_MARKING,
    NEIGHBOR,
)

#: The action selector of IPV6_ROUTE
ECMP = "FabricIngress.routing.ecmp"

UN = Action("FabricIngress.srv6.un")
UA = Action("FabricIngress.srv6.ua", (_EGRESS_PORT,))
SID_TO_PORT = Action("FabricIngress.srv6.to_port", (_EGRESS_PORT,))
IN_BLOCK = Action("FabricIngress.srv6.in_block")
ROUTE_TO_PORT = Action("FabricIngress.routing.to_port", (_EGRESS_PORT,))
SPRAY = Action("FabricIngress.routing.spray")
SET_CONTROL = Action("FabricIngress.admission.set_control")
SET_TRIMMABLE = Action("FabricIngress.admission.set_trimmable")
SET_NO_TRIM = Action("FabricIngress.admission.set_no_trim")
SET_LIMITS = Action(
    "FabricIngress.admission.set_limits",
    (Column("data_limit_bytes"), Column("control_limit_bytes"), Column("trimmed_dscp")),
)
KEEP = Action("FabricIngress.admission.keep", (Column("header_bytes"),))
SET_MARKING = Action(
    "FabricIngress.admission.set_marking",
    (Column("min_bytes"), Column("max_bytes"), Column("max_probability")),
)
SET_ADDRESSES = Action(
    "FabricEgress.neighbors.set_addresses",
    (Column("src_addr", Kind.MAC), Column("dst_addr", Kind.MAC)),
)

ACTIONS = (
    UN,
    UA,
    SID_TO_PORT,
    IN_BLOCK,
    ROUTE_TO_PORT,
    SPRAY,
    SET_CONTROL,
    SET_TRIMMABLE,
    SET_NO_TRIM,
    SET_LIMITS,
    KEEP,
    SET_MARKING,
    SET_ADDRESSES,
)

#: max_probability counts in 1 / 2^16, and has 16 bits
PROBABILITY_ONE = 1 << 16
PROBABILITY_MAX = PROBABILITY_ONE - 1

#: IANA protocol numbers
PROTOCOL_UDP = 17
PROTOCOL_IPV6 = 41
