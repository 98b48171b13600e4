"""DSCP values of the fabric's traffic classes: the one place where their defaults stand.

The MRC specification names the classes and wants their values distinct and configurable; the
values themselves are this repository's choice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

DSCP_BITS = 6
DSCP_MAX = (1 << DSCP_BITS) - 1


@dataclass(frozen=True, slots=True)
class TrafficClasses:
    """One DSCP (0..63) per class, all distinct.

    Raises ValueError where a value does not fit or two classes share one.
    """

    #: Sent by hosts, high priority: SACK, NACK, transport ACK, endpoint operations
    control: int = 46
    #: Set by a switch that trimmed, high priority
    trimmed: int = 12
    #: The same, on the port that faces the destination NIC
    trimmed_lasthop: int = 16
    #: Data that may be trimmed: first transmissions and probes
    trimmable: int = 4
    #: Data that may be trimmed: retransmissions
    trimmable_retx: int = 8
    #: Data that may not: the responder cannot send trim NACKs
    no_trim: int = 0

    def __post_init__(self) -> None:
        seen: dict[int, str] = {}
        for name, dscp in self.items():
            if not 0 <= dscp <= DSCP_MAX:
                raise ValueError(f"{name}: {dscp} is not a DSCP (0..{DSCP_MAX})")
            if dscp in seen:
                raise ValueError(
                    f"{name}: DSCP {dscp} is already that of {seen[dscp]}; "
                    "the classes need distinct values"
                )
            seen[dscp] = name

    def items(self) -> tuple[tuple[str, int], ...]:
        """Class names and their values, in the order of the fields."""
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))

    @property
    def control_class(self) -> tuple[int, ...]:
        """What switches forward at high priority."""
        return (self.control, self.trimmed, self.trimmed_lasthop)

    @property
    def trimmable_class(self) -> tuple[int, ...]:
        """Data that a switch may trim."""
        return (self.trimmable, self.trimmable_retx)


DEFAULT_TRAFFIC_CLASSES = TrafficClasses()
