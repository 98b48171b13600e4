"""A collective, run some times over and its result checked: what commands and scenarios run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from host.collectives.calls import (
    Options,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    reduce_scatter,
    send_recv,
)
from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.group import Group
from host.collectives.kinds import Collective
from host.collectives.messages import Failure
from host.collectives.operation import Operation
from host.collectives.reference import Reference, wrong_elements
from host.collectives.registry import CollectiveKind, collective_kind

_FRESH = 0x5A


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What to run: the same on all ranks.

    `size_bytes` as nccl-tests count it (see `registry`); `rounds` one after the other, each with
    contents of its own. Raises ValueError for a name that is unknown and what cannot be.
    """

    collective: str
    size_bytes: int
    data_type: DataType = DataType.FLOAT32
    reduce_op: ReduceOp = ReduceOp.SUM
    root: int = 0
    rounds: int = 1
    in_place: bool = False
    options: Options = field(default_factory=Options)
    seed: int = 0
    #: Without, only time is measured
    check: bool = True

    def __post_init__(self) -> None:
        kind = self.kind
        if self.in_place and kind.collective is Collective.SEND_RECV:
            raise ValueError("in_place: a rank cannot send and receive in one buffer")
        for name, value, low in (
            ("size_bytes", self.size_bytes, 0),
            ("rounds", self.rounds, 1),
            ("root", self.root, 0),
        ):
            if value < low:
                raise ValueError(f"{name}: {value} does not fit: it must be at least {low}")

    @property
    def kind(self) -> CollectiveKind:
        """The collective."""
        return collective_kind(self.collective)

    def count(self, size: int) -> int:
        """Elements of the whole vector, for so many ranks."""
        return self.kind.count(self.size_bytes, size, self.data_type)

    def moved_bytes(self, size: int) -> int:
        """The size after rounding to whole elements and blocks."""
        return self.count(size) * self.data_type.size_bytes

    def buffer_bytes(self, size: int) -> int:
        """What a rank contributes and what it gets, for so many ranks."""
        return sum(self.kind.counts(self.count(size), size)) * self.data_type.size_bytes

    def reference(self, size: int) -> Reference:
        """Contents and results, for so many ranks."""
        return Reference(
            self.kind.collective,
            self.data_type,
            size=size,
            count=self.count(size),
            reduce_op=self.reduce_op,
            root=self.root,
            seed=self.seed,
        )


class Job:
    """One rank's part of a `JobSpec`.

    Args:
        group: the rank.
        spec: what to run.
        reference: of the spec; ranks in one process may share one.
        on_round: called with the number of a round when it is over here, before it is checked.

    Attributes:
        rounds_done: how many were successful.
        wrong_elements: in results, and in contributions that should not have changed.
        failure: why it ended early.
    """

    def __init__(
        self,
        group: Group,
        spec: JobSpec,
        *,
        reference: Reference | None = None,
        on_round: Callable[[int], None] | None = None,
    ) -> None:
        if spec.root >= group.size:
            raise ValueError(f"root: {spec.root} does not fit: it must be 0..{group.size - 1}")
        self.group = group
        self.spec = spec
        self.reference = spec.reference(group.size) if reference is None else reference
        self.on_round = on_round
        self.rounds_done = 0
        self.wrong_elements = 0
        self.failure: Failure | None = None
        self.on_done: Callable[[Job], None] | None = None
        element_bytes = spec.data_type.size_bytes
        mine, result = (
            count * element_bytes for count in spec.kind.counts(spec.count(group.size), group.size)
        )
        self._mine: memoryview | None
        if spec.in_place:
            whole = memoryview(bytearray(max(mine, result)))
            own = group.rank * min(mine, result)
            self._mine = whole[own : own + mine] if mine < result else whole
            self._result = whole[own : own + result] if result < mine else whole
        else:
            self._mine = memoryview(bytearray(mine))
            self._result = memoryview(bytearray(result))
        if spec.kind.rooted and group.rank != spec.root:
            self._mine = None
        self._started = False

    @property
    def done(self) -> bool:
        """All rounds are over, or it failed."""
        return self.rounds_done == self.spec.rounds or self.failure is not None

    def start(self) -> None:
        """Begin the first round."""
        if not self._started:
            self._started = True
            self._go_on()

    def _go_on(self) -> None:
        """Rounds, for as long as they are over at once."""
        while not self.done:
            self._fill()
            operation = self._call()
            if not operation.done:
                operation.on_done = self._over
                return
            self._take(operation)
        if self.on_done is not None:
            self.on_done(self)

    def _over(self, operation: Operation) -> None:
        self._take(operation)
        self._go_on()

    def _take(self, operation: Operation) -> None:
        self.failure = operation.failure
        if self.failure is not None:
            return
        if self.on_round is not None:
            self.on_round(self.rounds_done)
        if self.spec.check:
            self._check()
        self.rounds_done += 1

    def _fill(self) -> None:
        if not self.spec.check and self.rounds_done:
            return
        if self._result.nbytes:
            self.spec.data_type.vector(self._result).view("u1").fill(_FRESH)
        if self._mine is not None and self._mine.nbytes:
            contents = self.reference.mine(self.group.rank, self.rounds_done)
            self.spec.data_type.vector(self._mine)[:] = contents

    def _check(self) -> None:
        rank, number = self.group.rank, self.rounds_done
        vector = self.spec.data_type.vector
        if self._result.nbytes:
            expected = self.reference.result(rank, number)
            self.wrong_elements += wrong_elements(vector(self._result), expected)
        if not self.spec.in_place and self._mine is not None and self._mine.nbytes:
            kept = self.reference.mine(rank, number)
            self.wrong_elements += wrong_elements(vector(self._mine), kept)

    def _call(self) -> Operation:
        spec, group, mine, result = self.spec, self.group, self._mine, self._result
        collective = spec.kind.collective
        if collective is Collective.BROADCAST:
            return broadcast(group, mine, result, spec.data_type, spec.root, spec.options)
        assert mine is not None
        match collective:
            case Collective.ALL_REDUCE:
                return all_reduce(group, mine, result, spec.data_type, spec.reduce_op, spec.options)
            case Collective.REDUCE_SCATTER:
                return reduce_scatter(
                    group, mine, result, spec.data_type, spec.reduce_op, spec.options
                )
            case Collective.ALL_GATHER:
                return all_gather(group, mine, result, spec.data_type, spec.options)
            case Collective.ALL_TO_ALL:
                return all_to_all(group, mine, result, spec.data_type, spec.options)
        to, source = (group.rank + 1) % group.size, (group.rank - 1) % group.size
        return send_recv(group, mine, to, result, source, spec.data_type, spec.options)
