"""The collectives by name, and by the numbers that ranks tell each other."""

from __future__ import annotations

from enum import Enum

from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.messages import Signature


class Collective(Enum):
    """What there is, by the names that users write."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    SEND_RECV = "send-recv"
    BROADCAST = "broadcast"


_COLLECTIVES = tuple(Collective)
_DATA_TYPES = tuple(DataType)
_REDUCE_OPS = tuple(ReduceOp)


def signature(
    collective: Collective,
    data_type: DataType,
    *,
    size: int,
    count: int,
    chunk: int,
    depth: int,
    reduce_op: ReduceOp | None = None,
    root: int = 0,
) -> Signature:
    """What ranks compare before they begin."""
    return Signature(
        collective=_COLLECTIVES.index(collective),
        data_type=_DATA_TYPES.index(data_type),
        reduce_op=0 if reduce_op is None else 1 + _REDUCE_OPS.index(reduce_op),
        size=size,
        root=root,
        depth=depth,
        count=count,
        chunk=chunk,
    )


def describe(told: Signature) -> str:
    """A signature for people; it may be a peer's that makes no sense."""
    try:
        collective = _COLLECTIVES[told.collective]
        data_type = _DATA_TYPES[told.data_type]
        reduce_op = _REDUCE_OPS[told.reduce_op - 1].value if told.reduce_op else None
    except IndexError:
        return "something unknown"
    text = f"{collective.value} of {told.count} {data_type.value}"
    if reduce_op is not None:
        text += f" ({reduce_op})"
    if collective is Collective.BROADCAST:
        text += f" from rank {told.root}"
    return f"{text} among {told.size} ranks, {told.depth} chunks of {told.chunk} elements"
