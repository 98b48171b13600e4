"""Client arbitration: who is primary, who is told what.

Section "Client Arbitration and Controller Replication" of the specification.

A pure state machine: updates and disconnects in, advisories out. It knows no gRPC and takes no
lock. One object stands for one device; roles are arbitrated independently of each other. A named
role is accepted when it brings no `role.config`, which the specification reads as full pipeline
access, the same as the default role.

What a stream is and becomes is the table `TRANSITIONS`; the checks that end a stream are
`_check_first` and `_check_again`, in the specification's order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from softswitch.p4runtime.errors import Code, P4RuntimeError, invalid, not_found

DEFAULT_ROLE = ""
MAX_STREAMS_PER_ROLE = 64
MAX_ROLES = 64
"""A role's highest election id has to be remembered for good, so there cannot be any number."""


class Standing(Enum):
    """What a stream is within its role."""

    NEW = auto()  # has not sent a successful MasterArbitrationUpdate
    BACKUP = auto()
    PRIMARY = auto()


class Rank(Enum):
    """How the election id of an update compares to the highest one ever seen for the role."""

    HIGHEST = auto()  # greater or equal
    LOWER = auto()  # lower, or unset


class Audience(Enum):
    """Who gets an advisory."""

    SELF = auto()
    ALL = auto()


TRANSITIONS: dict[tuple[Standing, Rank], tuple[Standing, Audience]] = {
    # A new primary, or the old one confirmed: everybody hears of it (rule 1).
    (Standing.NEW, Rank.HIGHEST): (Standing.PRIMARY, Audience.ALL),
    (Standing.BACKUP, Rank.HIGHEST): (Standing.PRIMARY, Audience.ALL),
    (Standing.PRIMARY, Rank.HIGHEST): (Standing.PRIMARY, Audience.ALL),
    # A backup is told how things stand (rule 2).
    (Standing.NEW, Rank.LOWER): (Standing.BACKUP, Audience.SELF),
    (Standing.BACKUP, Rank.LOWER): (Standing.BACKUP, Audience.SELF),
    # A primary that downgrades itself leaves the role without one: everybody hears of it (rule 2).
    (Standing.PRIMARY, Rank.LOWER): (Standing.BACKUP, Audience.ALL),
}


@dataclass(frozen=True, slots=True)
class ArbitrationUpdate:
    """What a client asks for.

    `election_id` is the 128-bit number, None when the client left it unset.
    """

    device_id: int
    role: str = DEFAULT_ROLE
    election_id: int | None = None
    has_role_config: bool = False


@dataclass(frozen=True, slots=True)
class Advisory:
    """A MasterArbitrationUpdate to one stream.

    `election_id` is None until the role had a primary.
    """

    stream: Hashable
    role: str
    election_id: int | None
    status: Code


@dataclass(frozen=True, slots=True)
class Outcome:
    """Advisories to send, in order.

    `to_primary` is the one for the stream that just became (or stays) primary; it must wait until
    writes of the previous primary that are in progress have ended. `at_once` need not wait.
    """

    at_once: tuple[Advisory, ...] = ()
    to_primary: Advisory | None = None
    is_new_primary: bool = False  # of `to_primary`: it was not primary before


@dataclass(slots=True)
class _Stream:
    """One live client."""

    key: Hashable
    role: str
    election_id: int | None
    standing: Standing = Standing.NEW


@dataclass(slots=True)
class _Role:
    """One role of the device.

    Its live streams and the highest election id it ever saw from a primary.
    """

    name: str
    streams: dict[Hashable, _Stream] = field(default_factory=dict)
    highest: int | None = None
    primary: _Stream | None = None


class Arbitration:
    """Arbitration state of one device."""

    def __init__(self, device_id: int, *, max_streams_per_role: int = MAX_STREAMS_PER_ROLE) -> None:
        self.device_id = device_id
        self.max_streams_per_role = max_streams_per_role
        self._roles: dict[str, _Role] = {DEFAULT_ROLE: _Role(DEFAULT_ROLE)}
        self._streams: dict[Hashable, _Stream] = {}

    # -- queries -------------------------------------------------------------------------

    def knows_role(self, role: str) -> bool:
        """Whether anybody ever arbitrated for this role; the default role is always known."""
        return role in self._roles

    def is_primary(self, role: str, election_id: int | None) -> bool:
        """Whether a request with this role and election id comes from the role's primary."""
        known = self._roles.get(role)
        return (
            known is not None
            and known.primary is not None
            and election_id is not None
            and known.primary.election_id == election_id
        )

    def is_primary_stream(self, stream: Hashable) -> bool:
        """Whether this stream is the primary of its role."""
        known = self._streams.get(stream)
        return known is not None and known.standing is Standing.PRIMARY

    def primary_streams(self) -> Iterator[Hashable]:
        """The primaries of all roles."""
        for role in self._roles.values():
            if role.primary is not None:
                yield role.primary.key

    # -- events --------------------------------------------------------------------------

    def update(self, stream: Hashable, request: ArbitrationUpdate) -> Outcome:
        """Handle a MasterArbitrationUpdate of one stream.

        Raises `P4RuntimeError` with the status the stream must be terminated with; the caller then
        reports the end of the stream with `disconnect`.
        """
        known = self._streams.get(stream)
        if known is None:
            role = self._check_first(request)
            known = _Stream(stream, request.role, request.election_id)
            self._streams[stream] = role.streams[stream] = known
        else:
            role = self._check_again(known, request)
            known.election_id = request.election_id
        return self._elect(role, known)

    def disconnect(self, stream: Hashable) -> Outcome:
        """The stream ended.

        Without its primary, a role has none until the next successful update.
        """
        known = self._streams.pop(stream, None)
        if known is None:
            return Outcome()
        role = self._roles[known.role]
        del role.streams[stream]
        if role.primary is not known:
            return Outcome()
        role.primary = None
        return Outcome(
            at_once=tuple(self._advisory(role, other) for other in role.streams.values())
        )

    # -- rules ---------------------------------------------------------------------------

    def _check_first(self, request: ArbitrationUpdate) -> _Role:
        """Rules 1.1 to 1.4, for the first update on a stream."""
        if request.device_id != self.device_id:
            raise not_found(
                f"device {request.device_id} is unknown, this is device {self.device_id}"
            )
        role = self._roles.get(request.role)
        if role is None:
            role = _Role(request.role)
            if len(self._roles) >= MAX_ROLES:
                raise P4RuntimeError(
                    Code.RESOURCE_EXHAUSTED,
                    f"role '{request.role}': {MAX_ROLES} roles are known, no more are accepted",
                )
        self._check_election_id(role, None, request)
        _check_role_config(request)
        if len(role.streams) >= self.max_streams_per_role:
            raise P4RuntimeError(
                Code.RESOURCE_EXHAUSTED,
                f"role '{request.role}' has {len(role.streams)} open streams, no more are accepted",
            )
        self._roles[request.role] = role
        return role

    def _check_again(self, known: _Stream, request: ArbitrationUpdate) -> _Role:
        """Rules 2.1 to 2.4, for later updates on a stream."""
        if request.device_id != self.device_id:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"this stream is for device {self.device_id}, "
                f"open another for device {request.device_id}",
            )
        if request.role != known.role:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"this stream has role '{known.role}', open another for role '{request.role}'",
            )
        _check_role_config(request)
        role = self._roles[known.role]
        self._check_election_id(role, known, request)
        return role

    def _check_election_id(
        self, role: _Role, known: _Stream | None, request: ArbitrationUpdate
    ) -> None:
        """No two live streams of a role have the same election id (rules 1.2 and 2.4)."""
        if request.election_id is None:
            return
        for other in role.streams.values():
            if other is not known and other.election_id == request.election_id:
                raise invalid(
                    f"election id {format_election_id(request.election_id)} is in use by another "
                    f"controller of role '{role.name}'"
                )

    def _elect(self, role: _Role, stream: _Stream) -> Outcome:
        """Apply `TRANSITIONS` to a stream whose update was accepted."""
        rank = Rank.LOWER
        if stream.election_id is not None and (
            role.highest is None or stream.election_id >= role.highest
        ):
            rank = Rank.HIGHEST
        stream.standing, audience = TRANSITIONS[stream.standing, rank]
        is_new_primary = False
        if stream.standing is Standing.PRIMARY:
            is_new_primary = role.primary is not stream
            if role.primary is not None and is_new_primary:
                role.primary.standing = Standing.BACKUP
            role.primary = stream
            role.highest = stream.election_id
        elif role.primary is stream:
            role.primary = None
        own = self._advisory(role, stream)
        others: tuple[Advisory, ...] = ()
        if audience is Audience.ALL:
            others = tuple(
                self._advisory(role, o) for o in role.streams.values() if o is not stream
            )
        if role.primary is stream:
            return Outcome(at_once=others, to_primary=own, is_new_primary=is_new_primary)
        return Outcome(at_once=(*others, own))

    def _advisory(self, role: _Role, stream: _Stream) -> Advisory:
        """How things stand, as told to one stream (section "Client Arbitration Notifications")."""
        if role.primary is None:
            status = Code.NOT_FOUND
        elif role.primary is stream:
            status = Code.OK
        else:
            status = Code.ALREADY_EXISTS
        return Advisory(stream.key, role.name, role.highest, status)


def _check_role_config(request: ArbitrationUpdate) -> None:
    """Rules 1.3 and 2.3: no scheme for role configurations is agreed upon with this switch."""
    if request.has_role_config:
        raise invalid(
            f"role '{request.role}': role.config is not supported, "
            "leave it unset for full pipeline access"
        )


def election_id_of(high: int, low: int) -> int:
    """The 128-bit election id of a Uint128 message's two halves."""
    return high << 64 | low


def format_election_id(election_id: int | None) -> str:
    """As p4runtime-shell writes it: (high, low)."""
    if election_id is None:
        return "unset"
    return f"({election_id >> 64}, {election_id & (1 << 64) - 1})"
