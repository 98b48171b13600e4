"""The EVs of a queue pair's requestor: active set, backup set, states, probing.

mrc-protocol.md, section 3. The transitions are those of `states`, the order of use that of
`rotation`; here both are put together. An EV of the universe is in one of four places:

active       in the ring of its plane; GOOD or SKIP
backup       GOOD, waits to take the place of an active EV of its plane
probed       ASSUMED_BAD
denied       DENIED

An active EV that loses packets stays where the floor (`ev_min_active`) keeps it. If it goes on to
lose them and nothing is heard of it, one that has answered a probe meanwhile takes its place.

Feedback on EVs that are not of the universe is passed over: a peer may write anything into a SACK.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Collection, Iterable

from host.paths.base import EvEvent
from host.paths.probing import ProbeSchedule, ProbeTiming
from host.paths.rotation import Rotation
from host.paths.states import (
    SIGNAL_OF_M,
    SIGNAL_OF_NACK,
    TRANSITIONS,
    Action,
    EvState,
    Signal,
)
from host.paths.universe import EvUniverse
from host.wire.constants import NackReason, SackM

#: Events that wait to be drained; beyond, the oldest are lost and counted
MAX_EVENTS = 1 << 12

#: The specification has 128 to 256
DEFAULT_ACTIVE_EVS = 128

#: Transitions to these states are reported, unless a profile has others
REPORTED_STATES = frozenset({EvState.GOOD, EvState.ASSUMED_BAD, EvState.DENIED})

_SKIP_ONCE = int(SackM.SKIP_ONCE)
_SIGNAL_OF_M: tuple[Signal | None, ...] = tuple(SIGNAL_OF_M[m] for m in SackM)

_CAUSES = {
    Signal.LOST: "timeout",
    Signal.HELD_BAD: "held bad by the responder",
    Signal.PROBES_ANSWERED: "probes answered",
    Signal.NEEDED: "probe answered, one in use is silent",
    Signal.DENY: "administrative",
    Signal.ALLOW: "administrative",
}


def active_evs_per_plane(universe: EvUniverse, active_evs: int) -> int:
    """How many of `active_evs` each plane has, where the universe has EVs on it."""
    planes = [len(evs) for evs in universe.by_plane if evs]
    return min(max(active_evs // len(planes), 1), *planes)


class EvSet:
    """An `EvSelector` with everything.

    `active_evs` is the size of the active set, shared out equally among the planes; a plane has
    fewer where the universe does. `ev_min_active` (mrc_ctl.h; default: a quarter of the active set)
    is the number of active EVs below which none is demoted without a replacement; neither is the
    last one on planes that are up. One that loses packets again and again gives way to one that
    answers probes all the same. `denied` are the EVs of a denylist. `backup_evs` limits the
    backup set, likewise shared out; None: all that the universe has. Transitions to the states of
    `event_mask` become events.

    Raises ValueError for numbers that do not fit.
    """

    __slots__ = (
        "_backup",
        "_congested",
        "_event_mask",
        "_kept",
        "_min_active",
        "_out",
        "_per_plane",
        "_plane_of",
        "_probes",
        "_rotation",
        "_up",
        "_up_since_ns",
        "counters",
        "events",
        "events_dropped",
        "select",
        "universe",
    )

    def __init__(
        self,
        universe: EvUniverse,
        *,
        rng: random.Random,
        active_evs: int = DEFAULT_ACTIVE_EVS,
        ev_min_active: int | None = None,
        backup_evs: int | None = None,
        timing: ProbeTiming,
        denied: Collection[int] = (),
        event_mask: Collection[EvState] = REPORTED_STATES,
    ) -> None:
        if active_evs < 1:
            raise ValueError(f"active_evs: {active_evs} does not fit: it must be above 0")
        self.universe = universe
        self._plane_of = universe.plane_of
        planes = [evs for evs in universe.by_plane if evs]
        #: Active EVs a plane should have: the same for all
        self._per_plane = active_evs_per_plane(universe, active_evs)
        backups = None if backup_evs is None else backup_evs // len(planes)
        #: DENIED and ASSUMED_BAD EVs, in the order in which they became so
        self._out: dict[int, EvState] = {}
        #: Active EVs that the floor keeps in spite of a timeout, and of which nothing was heard
        #: since: when that was
        self._kept: dict[int, int] = {}
        denied = frozenset(denied)
        active: list[list[int]] = []
        self._backup: list[deque[int]] = []
        for evs in universe.by_plane:
            drawn = rng.sample(evs, len(evs))
            allowed = [ev for ev in drawn if ev not in denied]
            self._out.update((ev, EvState.DENIED) for ev in drawn if ev in denied)
            active.append(allowed[: self._per_plane])
            end = None if backups is None else self._per_plane + backups
            self._backup.append(deque(allowed[self._per_plane : end]))
        if backups is not None:
            # What is in neither set is not the queue pair's
            members = {ev for evs in (*active, *self._backup, self._out) for ev in evs}
            self._plane_of = {ev: universe.plane_of[ev] for ev in members}
        count = self._per_plane * len(planes)
        if ev_min_active is not None and not 0 <= ev_min_active <= count:
            raise ValueError(
                f"ev_min_active: {ev_min_active} does not fit: it must be 0..{count}, "
                "the number of active EVs"
            )
        self._min_active = count // 4 if ev_min_active is None else ev_min_active
        self._rotation = Rotation(active, rng)
        self._up = (1 << len(universe.by_plane)) - 1
        self._up_since_ns = [-1] * len(universe.by_plane)
        self._probes = ProbeSchedule(timing, self._up)
        for plane in range(len(universe.by_plane)):
            self._rotation.changed(plane, True)
        #: Not drained yet, oldest first
        self.events: list[EvEvent] = []
        self.events_dropped = 0
        self._event_mask = frozenset(event_mask)
        #: Transitions made, by the signal that made them
        self.counters: Counter[str] = Counter()
        self._congested = 0
        #: EvSelector.select: the rotation's own, as it is called for every packet
        self.select = self._rotation.select

    # --- what there is ---

    def plane_of(self, ev: int) -> int:
        """The plane of an EV of the universe. Raises KeyError for another one."""
        return self._plane_of[ev]

    def usable_planes(self) -> int:
        """Mask of the planes that are up and have an active EV."""
        return self._rotation.usable

    def state(self, ev: int) -> EvState:
        """The state of an EV of the universe. Raises KeyError for another one."""
        out = self._out.get(ev)
        if out is not None:
            return out
        ring = self._rotation.rings[self._plane_of[ev]]
        slot = ring.slot_of.get(ev)
        return EvState.SKIP if slot is not None and ring.skip >> slot & 1 else EvState.GOOD

    def active(self, plane: int | None = None) -> list[int]:
        """The EVs of the active set, or of one plane of it, in no particular order."""
        rings = self._rotation.rings
        return [ev for ring in (rings if plane is None else (rings[plane],)) for ev in ring.order]

    def backup(self, plane: int | None = None) -> list[int]:
        """The EVs of the backup set, or of one plane of it, next first."""
        sets = self._backup if plane is None else (self._backup[plane],)
        return [ev for evs in sets for ev in evs]

    def in_state(self, state: EvState) -> list[int]:
        """The EVs of the active set or out of use in a state. GOOD is without the backup set."""
        if state is EvState.SKIP:
            return [ev for ring in self._rotation.rings for ev in ring.skipped()]
        if state is EvState.GOOD:
            return [ev for ev in self.active() if self.state(ev) is EvState.GOOD]
        return [ev for ev, out in self._out.items() if out is state]

    @property
    def marks(self) -> int:
        """Congestion signals that EVs of the active set were given, ever."""
        return self._congested

    @property
    def turns_passed_over(self) -> int:
        """Turns that EVs in SKIP passed over."""
        return self._rotation.passed_over

    # --- feedback ---

    def on_sack(self, ev: int, m: int, now_ns: int) -> None:
        """A SACK reflected `ev` with M = `m` (SackM; 3 is no value and means nothing)."""
        if self._kept:
            self._kept.pop(ev, None)
        if not m:
            return
        if m == _SKIP_ONCE:
            # As the table has it, for speed: CONGESTED moves EVs of the rotation to SKIP, no other
            plane = self._plane_of.get(ev)
            if plane is not None and self._rotation.mark(plane, ev):
                self._congested += 1
            return
        signal = _SIGNAL_OF_M[m] if m < len(_SIGNAL_OF_M) else None
        if signal is not None:
            self._signal(ev, signal, now_ns)

    def on_nack(self, ev: int, reason: NackReason, now_ns: int) -> None:
        """A NACK reflected `ev`."""
        self._kept.pop(ev, None)
        signal = SIGNAL_OF_NACK[reason]
        if signal is not None:
            self._signal(ev, signal, now_ns)

    def on_timeout(self, ev: int, sent_ns: int, now_ns: int) -> None:
        """A packet sent on `ev` at `sent_ns` met its local ACK timeout without an answer.

        It says nothing new of a plane that has been down since, or an EV that has come back since.
        """
        plane = self._plane_of.get(ev)
        if (
            plane is not None
            and self._up >> plane & 1
            and sent_ns >= self._up_since_ns[plane]
            and sent_ns >= self._probes.good_since_ns(ev)
        ):
            self._signal(ev, Signal.LOST, now_ns)
            if ev in self._kept:
                self._kept_in_spite(ev, plane, sent_ns, now_ns)

    def on_probe_answer(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was answered."""
        if self._probes.answered(ev, now_ns):
            self._signal(ev, Signal.PROBES_ANSWERED, now_ns)

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        """The probe that `next_probe` asked for was not answered in time."""
        self._probes.timed_out(ev, now_ns)

    def next_probe(self, now_ns: int) -> int | None:
        """An EV to be probed now; it counts as probed. None: nothing to probe yet."""
        return self._probes.next_probe(now_ns) if self._probes else None

    def next_timer(self) -> int | None:
        """Absolute ns at which `next_probe` has something to say; None = never."""
        return self._probes.next_timer() if self._probes else None

    def set_plane_up(self, plane: int, up: bool, now_ns: int) -> None:
        """The plane came up or went down, here (port) or there (port status update).

        Its EVs keep their states; one that was bad is probed at once when the plane is up again.
        """
        if not 0 <= plane < len(self._backup):
            return
        bit = 1 << plane
        if bool(self._up & bit) == up:
            return
        self._up ^= bit
        if up:
            self._up_since_ns[plane] = now_ns
        else:
            for ev in [ev for ev in self._kept if self._plane_of[ev] == plane]:
                del self._kept[ev]
        self._probes.set_planes_up(self._up, now_ns)
        self._rotation.changed(plane, up)

    # --- administration ---

    def deny(self, evs: Iterable[int], now_ns: int) -> None:
        """Set EVs to DENIED; those not of the universe are passed over."""
        for ev in evs:
            self._signal(ev, Signal.DENY, now_ns)

    def allow(self, evs: Iterable[int], now_ns: int) -> None:
        """Set EVs that are DENIED or ASSUMED_BAD to GOOD; others stay as they are."""
        for ev in evs:
            self._signal(ev, Signal.ALLOW, now_ns)

    def assume_bad(self, evs: Iterable[int], now_ns: int) -> None:
        """Set EVs to ASSUMED_BAD, as far as `ev_min_active` lets."""
        for ev in evs:
            self._signal(ev, Signal.HELD_BAD, now_ns, "administrative")

    # --- transitions ---

    def _signal(self, ev: int, signal: Signal, now_ns: int, cause: str | None = None) -> None:
        """One step of the table."""
        plane = self._plane_of.get(ev)
        if plane is None:
            return
        old = self.state(ev)
        new, action = TRANSITIONS[old][signal]
        if new is old:
            return
        ring = self._rotation.rings[plane]
        if new is EvState.SKIP:
            if self._rotation.mark(plane, ev):
                self._congested += 1
            return
        replacement: int | None = None
        if action is Action.ADMIT:
            del self._out[ev]
            self._probes.returned(ev, now_ns)
            if len(ring) < self._per_plane:
                ring.add(ev)
            else:
                self._backup[plane].append(ev)
        elif old is EvState.ASSUMED_BAD:
            self._probes.remove(ev)
            self._out[ev] = new
        else:
            backup = self._backup[plane]
            if ev not in ring:
                backup.remove(ev)
            elif backup:
                replacement = backup.popleft()
                ring.replace(ev, replacement)
            elif action is Action.REMOVE or self._may_lose_one(plane):
                ring.remove(ev)
            else:
                self.counters["kept by ev_min_active"] += 1
                if signal is Signal.LOST:
                    self._kept.setdefault(ev, now_ns)
                return
            self._kept.pop(ev, None)
            self._out[ev] = new
            if new is EvState.ASSUMED_BAD:
                self._probes.add(ev, plane, now_ns)
        self._rotation.changed(plane, bool(self._up >> plane & 1))
        self.counters[signal.name] += 1
        if new not in self._event_mask:
            return
        if len(self.events) >= MAX_EVENTS:
            del self.events[0]
            self.events_dropped += 1
        self.events.append(
            EvEvent(
                now_ns,
                ev,
                old.value,
                new.value,
                _CAUSES[signal] if cause is None else cause,
                replacement,
            )
        )

    def _kept_in_spite(self, ev: int, plane: int, sent_ns: int, now_ns: int) -> None:
        """The floor keeps an active EV, and a packet sent on it at `sent_ns` was lost."""
        since_ns = self._kept[ev]
        if sent_ns < since_ns:
            return  # It was on its way when the first one was given up
        # On a plane that lacks none, another one would be a backup: for this plane only
        planes = 1 << plane
        for other, ring in enumerate(self._rotation.rings):
            if len(ring) < self._per_plane:
                planes |= 1 << other
        better = self._probes.answered_since(since_ns, planes & self._up)
        if better is not None:
            del self._kept[ev]
            self._signal(better, Signal.NEEDED, now_ns)
            # There is one more now than the floor wants
            self._signal(ev, Signal.LOST, now_ns)
        else:
            self._probes.hurry(now_ns)

    def _may_lose_one(self, plane: int) -> bool:
        """Whether the active set may shrink by an EV of this plane."""
        rings = self._rotation.rings
        sizes = [len(ring) for ring in rings]
        usable = sum(size for other, size in enumerate(sizes) if self._up >> other & 1)
        last = bool(self._up >> plane & 1) and usable == 1
        return sum(sizes) > self._min_active and not last
