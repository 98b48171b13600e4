"""What the runner needs of a switch implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topologies.model import QueueSettings
from topologies.runner.errors import RunnerError
from topologies.runner.namespaces import NetworkNamespace

#: Queues per port: data and control
PRIORITY_QUEUES: Final = 2
#: The shortest frame there is; so many bytes make a queue as deep in packets as in bytes
SHORTEST_FRAME_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class PortLimit:
    """A port's link rate (None = unlimited), and the limits the P4 program keeps its queues to."""

    rate_bps: int | None
    queue: QueueSettings

    @property
    def deepest_packets(self) -> int:
        """More packets than either class can ever have waiting here."""
        limit = max(self.queue.data_limit_bytes, self.queue.control_limit_bytes)
        return 2 * limit // SHORTEST_FRAME_BYTES


@dataclass(frozen=True, slots=True)
class SwitchPlace:
    """Where one switch runs and what it is made with."""

    name: str
    device_id: int
    namespace: NetworkNamespace
    #: Interface of each port number
    interfaces: Mapping[int, str]
    limits: Mapping[int, PortLimit]
    #: Size of a full data frame, for targets that count packets
    frame_bytes: int
    #: For Unix sockets; paths there are short
    sockets: Path
    log: Path

    @property
    def grpc_socket(self) -> Path:
        """Reachable from every network namespace, as a TCP port would not be."""
        return self.sockets / f"{self.name}.grpc"

    @property
    def grpc_address(self) -> str:
        """Of the P4Runtime server."""
        return f"unix:{self.grpc_socket}"


class Target(ABC):
    """Knows how to start a kind of switch and how to slow its ports."""

    name: str
    #: Whether a switch neither starts on interfaces that are down nor survives one that goes down
    needs_links_up: bool = False
    #: Whether `make_black_hole` and `end_black_hole` work
    can_be_black_hole: bool = False

    @abstractmethod
    def command(self, place: SwitchPlace) -> Sequence[str]:
        """The command line; it stays in the foreground and logs to its output."""

    @abstractmethod
    def is_ready(self, place: SwitchPlace) -> bool:
        """Whether a started switch takes P4Runtime calls."""

    @abstractmethod
    def prepare(self, place: SwitchPlace) -> None:
        """Give a ready switch the rates and depths that its command line could not."""

    @abstractmethod
    def set_rate(self, place: SwitchPlace, port: int, rate_bps: int | None) -> None:
        """Change a port's link rate while packets flow; None = unlimited. Raises RunnerError."""

    def clear(self, place: SwitchPlace) -> None:
        """Remove what an ended switch left, so that the next is not taken for ready at once."""
        place.grpc_socket.unlink(missing_ok=True)

    def make_black_hole(self, place: SwitchPlace) -> None:
        """Have it lose every packet while its links stay up. Raises RunnerError."""
        raise RunnerError(f"{place.name}: a {self.name} switch cannot be made a black hole")

    def end_black_hole(self, place: SwitchPlace) -> None:
        """Undo `make_black_hole`; tables and counters are as before. Raises RunnerError."""
        raise RunnerError(f"{place.name}: a {self.name} switch cannot be made a black hole")

    def not_modelled(self) -> str | None:
        """One line on what this target leaves out of the topology's settings; None = nothing."""
        return None

    def can_set_rates(self) -> bool:
        """Whether `set_rate` works."""
        return True

    def own_losses(self, place: SwitchPlace) -> Mapping[str, int] | None:
        """Packets that the switch itself lost around the P4 program, by reason.

        Its program's counters do not show them. Empty where the target cannot tell; None: this
        switch does not answer now.
        """
        return {}
