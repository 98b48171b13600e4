"""The controller's part of a run: install and verify all tables, read all counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeVar

from controller.client import SwitchClient, SwitchError
from controller.fleet import Connection, for_each_switch
from controller.install import install, verify
from controller.p4info import Schema
from controller.plan import plan
from controller.program import default_device_config, default_p4info, load_pipeline
from controller.targets import Target as Address
from topologies.model import Fabric
from topologies.runner.check.counters import Cells, short_name
from topologies.runner.errors import RunnerError
from topologies.runner.targets import SwitchPlace

_Result = TypeVar("_Result")

#: A switch that has just started shares the cores with all others
_CONNECTION: Final = Connection(timeout_s=60.0)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class InstallReport:
    """What the controller did to the whole fabric."""

    switches: int
    entries: int
    written: int


class ControlPlane:
    """Drives every switch of a fabric, several at a time."""

    def __init__(self, fabric: Fabric, places: Iterable[SwitchPlace]) -> None:
        self._plans = {each.switch.name: each for each in plan(fabric)}
        self._pipeline = load_pipeline(default_p4info(), default_device_config())
        self._schema = Schema(self._pipeline.p4info)
        places = list(places)
        self._ports = {place.name: tuple(place.interfaces) for place in places}
        self._addresses = [
            Address(place.name, place.grpc_address, place.device_id) for place in places
        ]

    def install(self, progress: Callable[[], None] = _nothing) -> InstallReport:
        """Write every switch's tables, read them back and compare.

        `progress` is called as each switch is done. Raises RunnerError naming all that failed.
        """

        def work(client: SwitchClient, address: Address) -> tuple[int, int]:
            done = install(client, self._pipeline, self._plans[address.name])
            return done.entries, done.written

        done = self._on_each(work, progress)
        return InstallReport(
            switches=len(done),
            entries=sum(entries for entries, _ in done.values()),
            written=sum(written for _, written in done.values()),
        )

    def verify(self) -> None:
        """Compare every switch with its plan. Raises RunnerError naming what differs."""

        def work(client: SwitchClient, address: Address) -> None:
            difference = verify(client, self._pipeline, self._plans[address.name])
            if difference:
                lines = difference.lines(self._schema)
                raise SwitchError(f"differs from its plan in {difference.count}: {lines[0]}")

        self._on_each(work)

    def digests(self, *, skip: Iterable[str] = ()) -> dict[str, str]:
        """SHA-256 of all that every switch but those in `skip` holds in its tables, read back.

        Switches of any kind with the same entries have the same digest. Raises RunnerError.
        """

        def work(client: SwitchClient, address: Address) -> str:
            entities = sorted(map(repr, client.read_entries(self._schema)))
            return sha256("\n".join(entities).encode()).hexdigest()

        return self._on_each(work, skip=frozenset(skip))

    def read_counters(self, *, skip: Iterable[str] = ()) -> dict[str, Cells]:
        """Packets by (counter, port) of every switch but those in `skip`. Raises RunnerError."""

        def work(client: SwitchClient, address: Address) -> Cells:
            return {
                (short_name(cell.counter), cell.index): cell.packets
                for cell in client.read_counters(self._schema, self._ports[address.name])
            }

        return self._on_each(work, skip=frozenset(skip))

    def _on_each(
        self,
        work: Callable[[SwitchClient, Address], _Result],
        progress: Callable[[], None] = _nothing,
        *,
        skip: frozenset[str] = frozenset(),
    ) -> dict[str, _Result]:
        addresses = [address for address in self._addresses if address.name not in skip]
        outcome = for_each_switch(addresses, work, _CONNECTION, progress=progress)
        if outcome.failed:
            raise RunnerError("\n".join(outcome.failed.values()))
        return outcome.done
