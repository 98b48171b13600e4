"""Loss and damage on a link: a box of its own spliced into it, running `impair.p4`.

    p0-t0-0 ─ veth ─ port0 [box] port1 ─ veth ─ p0-t1-0

The box is a softswitch process in a network namespace of its own, whatever the fabric's switches
are; probabilities are entries of its one table, written over P4Runtime. It must be there from the
start: a veth pair cannot be cut open while packet sockets are bound to its ends. It costs each
packet the way through one more process, and limits no rate.

Both neighbours must still see each other's interface go down and come up. So each of the box's
interfaces does what the node on the other side does (`follow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import p4src
from controller.client import INSERT, MODIFY, SwitchClient, SwitchError
from controller.entries import ActionCall, TableEntry
from controller.p4info import Schema
from controller.program import load_pipeline
from topologies.model import Link, LinkEnd
from topologies.runner import links
from topologies.runner.check.counters import short_name
from topologies.runner.errors import RunnerError
from topologies.runner.links import InterfaceSpec
from topologies.runner.namespaces import NetworkNamespace
from topologies.runner.processes import ManagedProcess
from topologies.runner.run_store import RunFolder
from topologies.runner.targets import SwitchPlace
from topologies.runner.targets.softswitch import Softswitch, control_path

#: Where a frame comes in, by the way it goes; up is away from the hosts
LOWER_PORT: Final = 0
UPPER_PORT: Final = 1
DIRECTIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "up": (LOWER_PORT,),
    "down": (UPPER_PORT,),
    "both": (LOWER_PORT, UPPER_PORT),
}

#: What `impair.p4` takes for certainty
_ALWAYS: Final = 0xFFFF_FFFF
_TABLE: Final = "ImpairIngress.direction"
_ACTION: Final = "ImpairIngress.impair"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Impairment:
    """What happens to the frames of one direction; probabilities, 0 to 1."""

    loss: float = 0.0
    corruption: float = 0.0


@dataclass(frozen=True, slots=True)
class ImpairmentCounts:
    """Frames of one direction that the box received, lost and damaged."""

    received: int
    lost: int
    corrupted: int


class ImpairmentBox:
    """The box of one link."""

    def __init__(
        self, link: Link, number: int, namespace: NetworkNamespace, folder: RunFolder
    ) -> None:
        """`number` tells the run's boxes apart."""
        self.link = link
        self.namespace = namespace
        #: By the port that frames come in on
        self.impairments = {LOWER_PORT: Impairment(), UPPER_PORT: Impairment()}
        self.process: ManagedProcess | None = None
        self._target = Softswitch()
        self._place = SwitchPlace(
            name=f"impair{number}",
            device_id=1,
            namespace=namespace,
            interfaces={port: _interface(port) for port in (LOWER_PORT, UPPER_PORT)},
            limits={},
            frame_bytes=0,
            sockets=folder.sockets,
            log=folder.logs / f"{link.name}.log",
        )
        program = p4src.compiled("impair")
        self._pipeline = load_pipeline(program.p4info_path, program.json_path)
        self._schema = Schema(self._pipeline.p4info)
        self._elections = 0

    def facing(self, end: LinkEnd) -> InterfaceSpec:
        """The box's interface that is the far end of the veth of one of the link's ends."""
        return InterfaceSpec(self.namespace, _interface(_port(self.link, end)), None)

    def follow(self, end: LinkEnd, *, up: bool) -> None:
        """The interface of one of the link's ends went down or up: let the other end see it.

        Raises RunnerError.
        """
        away = UPPER_PORT if _port(self.link, end) == LOWER_PORT else LOWER_PORT
        links.set_state(self.namespace, _interface(away), up=up)

    # --- its process ---

    def start(self) -> ManagedProcess:
        """Start the process. Raises RunnerError."""
        self.process = ManagedProcess(
            f"the impairment box of {self.link.name}",
            self._target.command(self._place),
            self.namespace,
            self._place.log,
        )
        return self.process

    def is_ready(self) -> bool:
        """Whether it takes P4Runtime calls."""
        return self._target.is_ready(self._place)

    def load(self) -> None:
        """Load the program, which passes every frame. Raises RunnerError."""
        try:
            with self._client() as client:
                client.become_primary()
                client.set_pipeline(self._pipeline)
                client.write(INSERT, map(self._entry, self.impairments), self._schema)
        except SwitchError as error:
            raise RunnerError(f"the impairment box of {self.link.name} {error}") from None

    # --- while it is up ---

    def set(
        self, direction: str, *, loss: float | None = None, corruption: float | None = None
    ) -> None:
        """Change what is given, for frames that go `up`, `down` or `both` ways.

        Raises RunnerError.
        """
        before = dict(self.impairments)
        for port in DIRECTIONS[direction]:
            now = before[port]
            self.impairments[port] = Impairment(
                now.loss if loss is None else loss,
                now.corruption if corruption is None else corruption,
            )
        entries = [self._entry(port) for port in DIRECTIONS[direction]]
        try:
            with self._client() as client:
                client.become_primary()
                client.write(MODIFY, entries, self._schema)
        except SwitchError as error:
            self.impairments = before
            raise RunnerError(f"the impairment box of {self.link.name} {error}") from None

    def counts(self) -> dict[str, ImpairmentCounts]:
        """Frames so far, `up` and `down`. Raises RunnerError."""
        try:
            with self._client() as client:
                cells = {
                    (short_name(cell.counter), cell.index): cell.packets
                    for cell in client.read_counters(self._schema)
                }
        except SwitchError as error:
            raise RunnerError(f"the impairment box of {self.link.name} {error}") from None
        return {
            direction: ImpairmentCounts(
                cells["received", port], cells["dropped", port], cells["corrupted", port]
            )
            for direction, port in (("up", LOWER_PORT), ("down", UPPER_PORT))
        }

    @property
    def control_socket(self) -> Path:
        """The control socket of its softswitch."""
        return control_path(self._place)

    def own_losses(self) -> Mapping[str, int] | None:
        """Frames that the box itself lost around its program, by reason: at a link that is down.

        None: it does not answer now.
        """
        return self._target.own_losses(self._place)

    def _client(self) -> SwitchClient:
        # The newest is primary at once, whether the switch knows already that the last one left
        self._elections += 1
        return SwitchClient(
            self._place.grpc_address,
            self._place.device_id,
            election_id=self._elections,
            timeout_s=_TIMEOUT_S,
        )

    def _entry(self, port: int) -> TableEntry:
        now = self.impairments[port]
        thresholds = (_threshold(now.loss), _threshold(now.corruption))
        return TableEntry(_TABLE, (port,), ActionCall(_ACTION, thresholds))


def _interface(port: int) -> str:
    return f"port{port}"


def _port(link: Link, end: LinkEnd) -> int:
    return LOWER_PORT if end == link.lower else UPPER_PORT


def _threshold(probability: float) -> int:
    return round(probability * _ALWAYS)
