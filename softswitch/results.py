"""What the compiled functions hand to the switch besides frames; see `softswitch.pipeline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

# Values of standard_metadata.instance_type (behavioral-model, docs/simple_switch.md).
INSTANCE_NORMAL = 0
INSTANCE_INGRESS_CLONE = 1
INSTANCE_EGRESS_CLONE = 2
INSTANCE_RECIRCULATED = 4
INSTANCE_REPLICATION = 5
INSTANCE_RESUBMITTED = 6

State = tuple[Any, ...]


class Clone(NamedTuple):
    """A copy for a clone session: to be queued at the session's ports with this state."""

    session_id: int
    priority: int
    length: int
    state: State


class Digest(NamedTuple):
    """A digest message: the name of the digest and its values, one integer a field."""

    name: str
    values: tuple[int, ...]


class Again(NamedTuple):
    """A packet that goes through ingress once more, with the metadata it keeps.

    `port` is what `standard_metadata.ingress_port` reads there unless the program preserves it.
    """

    frame: bytes
    port: int
    instance_type: int
    preserved: tuple[int, ...]


@dataclass(slots=True)
class IngressRequests:
    """What ingress asked for besides forwarding."""

    clone: Clone | None = None
    digest: Digest | None = None
    resubmit: Again | None = None


@dataclass(slots=True)
class EgressRequests:
    """What egress asked for besides sending; `frame` is None if the packet itself is not sent."""

    frame: bytes | None = None
    clone: Clone | None = None
    recirculate: Again | None = None
