"""What there is of each collective for those who list, size and measure it (command lines, tests).

Sizes and bandwidths are those of nccl-tests (doc/PERFORMANCE.md there): the size of a collective
is that of the whole vector, which for all-gather, reduce-scatter and all-to-all has a block of
each rank; algorithm bandwidth is size over time; bus bandwidth is what each rank's link carried in
one direction, whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from host.collectives.datatypes import DataType
from host.collectives.kinds import Collective


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """One collective.

    Attributes:
        collective, summary: which, and a line about it.
        bus_factor: bus bandwidth over algorithm bandwidth, for so many ranks.
        reduces, rooted: whether it has a reduction, a root.
        blocked: whether the vector has a block of each rank, all of one length.
        full_mesh: whether every rank sends to every other, or only to the next.
    """

    collective: Collective
    summary: str
    bus_factor: Callable[[int], float]
    reduces: bool = False
    rooted: bool = False
    blocked: bool = False
    full_mesh: bool = False

    @property
    def name(self) -> str:
        """As users write it."""
        return self.collective.value

    def peers(self, rank: int, size: int) -> tuple[int, ...]:
        """The ranks that one must be connected with."""
        if self.full_mesh:
            return tuple(other for other in range(size) if other != rank)
        return tuple(sorted({(rank - 1) % size, (rank + 1) % size} - {rank}))

    def count(self, size_bytes: int, size: int, data_type: DataType) -> int:
        """Elements of the whole vector of (at most) a size: whole elements, and whole blocks."""
        count = size_bytes // data_type.size_bytes
        return count - count % size if self.blocked else count

    def counts(self, count: int, size: int) -> tuple[int, int]:
        """Elements that a rank contributes, and that it gets, of a vector of `count`."""
        mine = count // size if self.collective is Collective.ALL_GATHER else count
        result = count // size if self.collective is Collective.REDUCE_SCATTER else count
        return mine, result

    def bandwidths_bps(self, size_bytes: int, size: int, time_ns: float) -> tuple[float, float]:
        """(algorithm bandwidth, bus bandwidth) in bits per second."""
        if time_ns <= 0:
            return 0.0, 0.0
        algorithm_bps = size_bytes * 8e9 / time_ns
        return algorithm_bps, algorithm_bps * self.bus_factor(size)


def _once(size: int) -> float:
    return 1.0


def _others(size: int) -> float:
    return (size - 1) / size


def _others_twice(size: int) -> float:
    return 2 * (size - 1) / size


_KINDS = (
    CollectiveKind(
        Collective.ALL_REDUCE,
        "every rank gets the sum (min, max) of all ranks' vectors; a ring",
        _others_twice,
        reduces=True,
    ),
    CollectiveKind(
        Collective.ALL_GATHER,
        "every rank gets the blocks of all ranks; a ring",
        _others,
        blocked=True,
    ),
    CollectiveKind(
        Collective.REDUCE_SCATTER,
        "every rank gets its block of the sum (min, max) of all ranks' vectors; a ring",
        _others,
        reduces=True,
        blocked=True,
    ),
    CollectiveKind(
        Collective.ALL_TO_ALL,
        "every rank sends a block of its own to every rank",
        _others,
        blocked=True,
        full_mesh=True,
    ),
    CollectiveKind(Collective.SEND_RECV, "every rank sends its vector to the next rank", _once),
    CollectiveKind(
        Collective.BROADCAST,
        "every rank gets the root's vector; a chain from the root on",
        _once,
        rooted=True,
    ),
)

#: By name, in the order of lists
COLLECTIVES: dict[str, CollectiveKind] = {kind.name: kind for kind in _KINDS}


def collective_kind(name: str) -> CollectiveKind:
    """A collective by its name. Raises ValueError, naming those that there are."""
    kind = COLLECTIVES.get(name)
    if kind is None:
        raise ValueError(f"{name}: no such collective; there are {', '.join(COLLECTIVES)}")
    return kind
