"""States of an entropy value, as a table: every transition stands here and nowhere else.

mrc-protocol.md, section 3 (EV states) and section 1 (M, NACK reasons): an EV is in SKIP until its
turn comes, ASSUMED_BAD needs probes, DENIED is administrative.

=================  =================================================================================
signal             from where
=================  =================================================================================
CONGESTED          SACK with M = SKIP_ONCE; NACK TRIMMED
LOST               a local ACK timeout with neither SACK nor trim of the packet
HELD_BAD           SACK with M = ALWAYS_SKIP; an administrator's ASSUMED_BAD
TURN               its turn in the rotation has come
PROBES_ANSWERED    several probes in a row were answered
NEEDED             it has answered a probe, and an EV that the floor keeps in use is silent
DENY, ALLOW        an administrator's DENIED and GOOD
(none)             SACK with M = NONE; NACK TRIMMED_LASTHOP and all NACKs for want of a resource
=================  =================================================================================

NEEDED is our choice. The specification has a floor (`ev_min_active`), and does not say which EVs
it keeps. Without NEEDED one that is dead could stay, and take all packets until their retries have
run out, while one that works has to answer probe after probe.

Only an EV of the active set has turns and can be in SKIP. One of the backup set is GOOD until it is
DENIED or, when it left the active set lately, something late is heard of it.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto

from host.wire.constants import NackReason, SackM


class EvState(Enum):
    """State of an EV (mrc_ctl.h has all but SKIP, which is the requestor's own)."""

    GOOD = "GOOD"
    #: Marked: passes over its next turn
    SKIP = "SKIP"
    #: Not used; probed
    ASSUMED_BAD = "ASSUMED_BAD"
    #: Not used; not probed
    DENIED = "DENIED"


class Signal(IntEnum):
    """What happens to an EV."""

    CONGESTED = 0
    LOST = 1
    HELD_BAD = 2
    TURN = 3
    PROBES_ANSWERED = 4
    NEEDED = 5
    DENY = 6
    ALLOW = 7


class Action(Enum):
    """What goes with a transition."""

    #: Nothing; the state may still change
    NONE = auto()
    #: The packet takes this EV
    USE = auto()
    #: The packet takes another EV; at most one EV may do so per packet
    PASS_OVER = auto()
    #: Out of the active set, a backup EV of the same plane in; without one, `ev_min_active` may
    #: forbid it, and then the state stays too until another EV is NEEDED. Probing begins.
    DEMOTE = auto()
    #: Out of the active or backup set, whatever the floor, and not probed
    REMOVE = auto()
    #: Into the active set if its plane lacks one there, else into the backup set
    ADMIT = auto()


_GOOD, _SKIP, _BAD, _DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED

#: state → (next state, action) by signal
TRANSITIONS: dict[EvState, dict[Signal, tuple[EvState, Action]]] = {
    _GOOD: {
        Signal.CONGESTED: (_SKIP, Action.NONE),
        Signal.LOST: (_BAD, Action.DEMOTE),
        Signal.HELD_BAD: (_BAD, Action.DEMOTE),
        Signal.TURN: (_GOOD, Action.USE),
        Signal.PROBES_ANSWERED: (_GOOD, Action.NONE),
        Signal.NEEDED: (_GOOD, Action.NONE),
        Signal.DENY: (_DENIED, Action.REMOVE),
        Signal.ALLOW: (_GOOD, Action.NONE),
    },
    _SKIP: {
        Signal.CONGESTED: (_SKIP, Action.NONE),  # one signal or many: one turn
        Signal.LOST: (_BAD, Action.DEMOTE),
        Signal.HELD_BAD: (_BAD, Action.DEMOTE),
        Signal.TURN: (_GOOD, Action.PASS_OVER),
        Signal.PROBES_ANSWERED: (_SKIP, Action.NONE),
        Signal.NEEDED: (_SKIP, Action.NONE),
        Signal.DENY: (_DENIED, Action.REMOVE),
        Signal.ALLOW: (_SKIP, Action.NONE),
    },
    _BAD: {
        Signal.CONGESTED: (_BAD, Action.NONE),
        Signal.LOST: (_BAD, Action.NONE),
        Signal.HELD_BAD: (_BAD, Action.NONE),
        Signal.TURN: (_BAD, Action.NONE),  # never has one
        Signal.PROBES_ANSWERED: (_GOOD, Action.ADMIT),
        Signal.NEEDED: (_GOOD, Action.ADMIT),
        Signal.DENY: (_DENIED, Action.REMOVE),
        Signal.ALLOW: (_GOOD, Action.ADMIT),
    },
    _DENIED: {
        Signal.CONGESTED: (_DENIED, Action.NONE),
        Signal.LOST: (_DENIED, Action.NONE),
        Signal.HELD_BAD: (_DENIED, Action.NONE),
        Signal.TURN: (_DENIED, Action.NONE),  # never has one
        Signal.PROBES_ANSWERED: (_DENIED, Action.NONE),  # answers to probes sent before
        Signal.NEEDED: (_DENIED, Action.NONE),
        Signal.DENY: (_DENIED, Action.NONE),
        Signal.ALLOW: (_GOOD, Action.ADMIT),
    },
}

#: What a SACK says of the EV it reflects; None: nothing
SIGNAL_OF_M: dict[SackM, Signal | None] = {
    SackM.NONE: None,
    SackM.SKIP_ONCE: Signal.CONGESTED,
    SackM.ALWAYS_SKIP: Signal.HELD_BAD,
}

#: What a NACK says of the EV it reflects; None: the last hop or the responder is short of
#: something, and no other path would change that
SIGNAL_OF_NACK: dict[NackReason, Signal | None] = {
    NackReason.TRIMMED: Signal.CONGESTED,
    NackReason.TRIMMED_LASTHOP: None,
    NackReason.NO_BITMAP: None,
    NackReason.NO_PKT_BUFFER: None,
    NackReason.NO_RESOURCE: None,
    NackReason.PSN_OOR_WINDOW: None,
    NackReason.UNEXP_EVENT: None,
}
