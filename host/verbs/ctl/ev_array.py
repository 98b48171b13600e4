"""The EVs of an EV profile: which there are, and which of them are denied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from host.config import ForwardingMode, NicConfig
from host.paths.universe import plane_of_ev
from host.verbs.ctl.attributes import EV_UNPOPULATED, Ev, EvOpEntry
from host.verbs.ctl.flags import EvOpFlags, EvState
from host.verbs.errors import InvalidArgumentError, NotFoundError, check_range, translated
from topologies.addressing import EV_BITS, decode_ev


class EvArray:
    """EVs in order, all distinct but for those that are unpopulated. `what` is for messages."""

    __slots__ = ("_config", "_place_of", "_what", "denied", "evs")

    def __init__(
        self, what: str, config: NicConfig, evs: Iterable[Ev], denied: Iterable[int] = ()
    ) -> None:
        self._what = what
        self._config = config
        self.evs = [*evs]
        #: By value, for those that are populated
        self._place_of = {ev.val: place for place, ev in enumerate(self.evs) if ev.port}
        #: The denylist, by value
        self.denied = set(denied)

    @classmethod
    def of_values(
        cls,
        what: str,
        config: NicConfig,
        values: Iterable[int | tuple[int, int]],
        denied: Iterable[int] = (),
    ) -> Self:
        """Of EVs, or pairs of EV and plane; one without a plane leaves where its bits say.

        Where the fabric hashes EVs, their bits say nothing, and they take turns on the planes.
        """
        hashed = config.forwarding is ForwardingMode.ECMP
        planes = len(config.ports)

        def placed(number: int, value: int | tuple[int, int]) -> Ev:
            if isinstance(value, tuple):
                return Ev(value[0], value[1] + 1)
            return Ev(value, (number % planes if hashed else plane_of_ev(value)) + 1)

        return cls(what, config, (placed(*entry) for entry in enumerate(values)), denied)

    def __len__(self) -> int:
        return len(self.evs)

    def copy(self) -> EvArray:
        """Another one, to be changed by itself."""
        return EvArray(self._what, self._config, self.evs, self.denied)

    @property
    def unpopulated(self) -> int:
        """How many EVs are still missing."""
        return len(self.evs) - len(self._place_of)

    def place_of(self, ev: Ev) -> int:
        """Where an EV stands. Raises NotFoundError for one that is not there."""
        place = self._place_of.get(ev.val)
        if place is None or self.evs[place] != ev:
            raise NotFoundError(f"{self._what}: EV {ev.val:#010x} at port {ev.port} is not in it")
        return place

    def deny(self, ev: Ev, denied: bool) -> None:
        """Put an EV on the denylist, or take it off. Raises NotFoundError."""
        self.place_of(ev)
        if denied:
            self.denied.add(ev.val)
        else:
            self.denied.discard(ev.val)

    def replace(self, entry: EvOpEntry) -> None:
        """MRC_CTL_EV_OP_REPLACE_EV. Raises as the original, with nothing changed."""
        what, old, new = self._what, entry.ev, entry.ev_new
        if new == EV_UNPOPULATED:
            raise InvalidArgumentError(f"{what}: ev_new: it is missing")
        self._check(new)
        if entry.state not in (EvState.GOOD, EvState.DENIED):
            raise InvalidArgumentError(
                f"{what}: state: {entry.state!r} does not fit: a new EV is GOOD or DENIED"
            )
        place = self._first_unpopulated() if old == EV_UNPOPULATED else self.place_of(old)
        if self._place_of.get(new.val, place) != place:
            raise InvalidArgumentError(
                f"{what}: ev_new: EV {new.val:#010x} is there already; EVs must be distinct"
            )
        copies = EvOpFlags.ALL_COPIES in entry.flags
        if copies and old == EV_UNPOPULATED and self.unpopulated > 1:
            raise InvalidArgumentError(
                f"{what}: ALL_COPIES would put one EV in several places; EVs must be distinct"
            )
        if old != EV_UNPOPULATED:
            del self._place_of[old.val]
            self.denied.discard(old.val)
        self.evs[place] = new
        self._place_of[new.val] = place
        if entry.state is EvState.DENIED:
            self.denied.add(new.val)

    def _first_unpopulated(self) -> int:
        # They are filled in order, so the one behind the populated ones is it
        place = len(self._place_of)
        if place >= len(self.evs):
            raise NotFoundError(f"{self._what}: none of its EVs is unpopulated")
        return place

    def _check(self, ev: Ev) -> None:
        what, config = self._what, self._config
        check_range(f"{what}: ev_new: val", ev.val, 0, (1 << EV_BITS) - 1)
        check_range(f"{what}: ev_new: port", ev.port, 1, len(config.ports))
        if config.forwarding is ForwardingMode.ECMP:
            return
        with translated():
            plane, uplink = decode_ev(ev.val)
        if plane != ev.port - 1:
            raise InvalidArgumentError(
                f"{what}: ev_new: EV {ev.val:#010x} leaves on port {plane + 1}, not {ev.port}"
            )
        check_range(f"{what}: ev_new: uplink", uplink, 0, config.uplinks - 1)

    def pairs(self) -> Sequence[tuple[int, int]]:
        """(EV, plane) of all, as `host.paths.EvProfile` takes them."""
        return [(ev.val, ev.port - 1) for ev in self.evs]
