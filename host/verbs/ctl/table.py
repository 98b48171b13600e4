"""The profiles of a device, and how they reach its NIC."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from host.nic import Nic, QpEvEvent
from host.paths import EvSet
from host.paths import EvState as PathsState
from host.profiles import MrcProfiles
from host.qp.queue_pair import QueuePair
from host.qp.states import QpState
from host.verbs.ctl.attributes import Ev, EvEvent
from host.verbs.ctl.cc_profile import CcProfileEntry
from host.verbs.ctl.ev_events import EvEventCq
from host.verbs.ctl.ev_fmt import MODE_OF_FORWARDING, EvFmtProfile
from host.verbs.ctl.ev_profile import EvProfileEntry
from host.verbs.ctl.flags import EvState, ProfileState
from host.verbs.errors import NoMemoryError, NotSupportedError, check_range

MAX_FMT_PROFILES = 64
MAX_EV_PROFILES = 256
MAX_CC_PROFILES = 256
#: EVs of all profiles together
MAX_EVS = 1 << 20

_MAX_ID = (1 << 64) - 1

#: Of the NIC's states to those of mrc_ctl.h
CTL_STATES: dict[PathsState, EvState] = {
    PathsState.GOOD: EvState.GOOD,
    PathsState.SKIP: EvState.GOOD,
    PathsState.ASSUMED_BAD: EvState.ASSUMED_BAD,
    PathsState.DENIED: EvState.DENIED,
}


class ProfileTable:
    """The profiles of a NIC made with `MrcProfiles`; those it has from there are ONLINE.

    Profile 0 is the NIC's default. Raises NotSupportedError for a NIC made with other profiles.
    """

    def __init__(self, nic: Nic, now_ns: Callable[[], int]) -> None:
        profiles = nic.profiles
        if not isinstance(profiles, MrcProfiles):
            raise NotSupportedError(
                f"the profiles of {nic.config.name} are {type(profiles).__name__}; "
                "controllers need a NIC made with MrcProfiles"
            )
        self._nic = nic
        self._profiles = profiles
        self._now_ns = now_ns
        self._fmt: dict[int, EvFmtProfile] = {}
        self._cc: dict[int, CcProfileEntry] = {
            number: CcProfileEntry.of_nic(number, nic.config, profile)
            for number, profile in profiles.cc_profiles.items()
        }
        self._cc[0] = CcProfileEntry.of_nic(0, nic.config, profiles.cc_profile)
        self._ev: dict[int, EvProfileEntry] = {}
        for number, profile in [(0, profiles.ev_profile), *profiles.ev_profiles.items()]:
            self._ev[number] = self._new_ev(number)
            self._ev[number].adopt(profile)
        #: Queues that want EV events
        self.watchers: list[EvEventCq] = []

    def _new_ev(self, number: int) -> EvProfileEntry:
        return EvProfileEntry(
            number,
            self._nic.config,
            live=partial(self._set_live, number),
            observed=partial(self._observed, number),
        )

    # --- finding ---

    def fmt(self, number: int) -> EvFmtProfile:
        """An EV format profile; one that nobody has configured is INIT."""
        check_range("ev_fmt_profile_id", number, 0, _MAX_ID)
        found = self._fmt.get(number)
        return found or EvFmtProfile(number, MODE_OF_FORWARDING[self._nic.config.forwarding])

    def ev(self, number: int) -> EvProfileEntry:
        """An EV profile; one that nobody has configured is INIT."""
        check_range("ev_profile_id", number, 0, _MAX_ID)
        return self._ev.get(number) or self._new_ev(number)

    def cc(self, number: int) -> CcProfileEntry:
        """A CC profile; one that nobody has configured is INIT."""
        check_range("cc_profile_id", number, 0, _MAX_ID)
        return self._cc.get(number) or CcProfileEntry(number, self._nic.config)

    def free_evs(self) -> int:
        """How many more EVs profiles may hold."""
        return MAX_EVS - sum(entry.listed for entry in self._ev.values())

    # --- who uses what ---

    def qps_of_ev_profile(self, number: int) -> list[QueuePair]:
        """Queue pairs that are not in RESET and have an EV profile."""
        return [
            qp
            for qp in self._nic.qps.values()
            if qp.state is not QpState.RESET and (qp.attributes.ev_profile or 0) == number
        ]

    def qps_of_cc_profile(self, number: int) -> list[QueuePair]:
        """Queue pairs that are not in RESET and have a CC profile."""
        return [
            qp
            for qp in self._nic.qps.values()
            if qp.state is not QpState.RESET and (qp.attributes.cc_profile or 0) == number
        ]

    def online_of_fmt(self, number: int) -> int:
        """How many EV profiles of a format are ONLINE."""
        return sum(
            entry.state is ProfileState.ONLINE
            and entry.settings.fmt_fields is not None
            and entry.settings.fmt_id == number
            for entry in self._ev.values()
        )

    # --- after a change ---

    def keep_fmt(self, profile: EvFmtProfile) -> None:
        """An EV format profile has changed."""
        if profile.state is ProfileState.INIT:
            self._fmt.pop(profile.number, None)
        else:
            self._fmt[profile.number] = profile

    def keep_ev(self, entry: EvProfileEntry) -> None:
        """An EV profile has changed: the NIC's next connections have it."""
        number = entry.number
        if entry.state is ProfileState.INIT:
            self._ev.pop(number, None)
        else:
            self._ev[number] = entry
        if number == 0:
            assert entry.online is not None
            self._profiles.ev_profile = entry.online
        elif entry.online is None:
            self._profiles.ev_profiles.pop(number, None)
        else:
            self._profiles.ev_profiles[number] = entry.online

    def keep_cc(self, entry: CcProfileEntry) -> None:
        """A CC profile has changed: the NIC's next connections have it."""
        number = entry.number
        if entry.state is ProfileState.INIT:
            self._cc.pop(number, None)
        else:
            self._cc[number] = entry
        if entry.online is None:
            self._profiles.cc_profiles.pop(number, None)
            self._nic.forget_windows(number)
        else:
            self._profiles.cc_profiles[number] = entry.online

    def check_room(self, kind: str, state: ProfileState) -> None:
        """Raises NoMemoryError where one profile more would be too many."""
        table, most = {
            "EV format": (self._fmt, MAX_FMT_PROFILES),
            "EV": (self._ev, MAX_EV_PROFILES),
            "CC": (self._cc, MAX_CC_PROFILES),
        }[kind]
        if state is ProfileState.INIT and len(table) >= most:  # type: ignore[arg-type]
            raise NoMemoryError(f"the device has {most} {kind} profiles, the most it may")

    # --- EVs of queue pairs ---

    def _set_live(self, number: int, ev: int, state: EvState) -> None:
        now_ns = self._now_ns()
        for qp in self.qps_of_ev_profile(number):
            evs = qp.evs
            if not isinstance(evs, EvSet):
                continue
            if state is EvState.DENIED:
                evs.deny((ev,), now_ns)
            elif state is EvState.GOOD:
                evs.allow((ev,), now_ns)
            else:
                evs.assume_bad((ev,), now_ns)
            self._nic.evs_administered(qp, now_ns)

    def _observed(self, number: int, ev: int) -> EvState:
        for qp in self.qps_of_ev_profile(number):
            evs = qp.evs
            if (
                isinstance(evs, EvSet)
                and ev in evs.universe.plane_of
                and evs.state(ev) is PathsState.ASSUMED_BAD
            ):
                return EvState.ASSUMED_BAD
        return EvState.GOOD

    def on_event(self, happened: QpEvEvent) -> None:
        """An EV of a queue pair changed its state: tell the queues, if its profile says so."""
        if not self.watchers:
            return
        qp = self._nic.qps.get(happened.qp_num)
        if qp is None or qp.evs is None:
            return
        number = qp.attributes.ev_profile or 0
        event = happened.event
        state = CTL_STATES[PathsState(event.new)]
        if not state & self.ev(number).event_mask:
            return
        told = EvEvent(
            profile_id=number,
            ev=Ev(event.ev, qp.evs.plane_of(event.ev) + 1),
            state=state,
            drop_count=0,
            qp_num=happened.qp_num,
            now_ns=event.now_ns,
            cause=event.cause,
        )
        for watcher in self.watchers:
            watcher.push(told)


def ev_states_of(qp: QueuePair) -> dict[int, PathsState]:
    """The states of a queue pair's EVs; empty where it keeps none."""
    evs = qp.evs
    if not isinstance(evs, EvSet):
        return {}
    return {ev: evs.state(ev) for ev in evs.universe.evs}
