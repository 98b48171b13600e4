"""The collectives, as calls. Each returns its `Operation` at once; `Group.progress` brings it on.

`mine` is what this rank contributes and `result` where the outcome goes: contiguous buffers of
elements of `data_type` (bytearray, memoryview, array, numpy), or in place, as each call says. They
are the operation's until it is done. Data is written straight into `result`, or summed there:
nothing is copied that need not be.

All ranks make the same calls in the same order with the same counts, types and options; where
neighbours find that they did not, the group fails with `Reason.MISMATCH`.

Raises ValueError for buffers and ranks that do not fit, GroupError on a group that has failed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from host.collectives.blocks import Blocks, default_chunk_bytes, default_depth
from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.direct import AllToAll, Broadcast, SendReceive
from host.collectives.group import Group
from host.collectives.kinds import Collective, signature
from host.collectives.messages import Signature
from host.collectives.operation import Operation, destination, source
from host.collectives.ring import Ring
from host.collectives.transport import Buffer, bytes_of, overlap

MAX_DEPTH = 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How a collective is cut up.

    A chunk has `chunk_bytes` (None: after the size of a block). Of a reduction, `depth` chunks
    (None: `blocks.DEFAULT_WINDOW_BYTES`) are in staging memory in each step; there is one more for
    each that has been through all steps. Raises ValueError for values out of range.
    """

    chunk_bytes: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        if self.chunk_bytes is not None and self.chunk_bytes < 1:
            raise ValueError(f"chunk_bytes: {self.chunk_bytes} does not fit: it must be at least 1")
        if self.depth is not None and not 1 <= self.depth <= MAX_DEPTH:
            raise ValueError(f"depth: {self.depth} does not fit: it must be 1..{MAX_DEPTH}")


_DEFAULT = Options()


def all_reduce(
    group: Group,
    mine: Buffer,
    result: Buffer,
    data_type: DataType,
    reduce_op: ReduceOp = ReduceOp.SUM,
    options: Options = _DEFAULT,
) -> Operation:
    """All ranks' `mine`, element by element reduced, in `result` of all. In place: one buffer."""
    count = _count(mine, data_type, "mine")
    own = source(mine, count * data_type.size_bytes, "mine")
    whole = destination(result, own.nbytes, "result")
    _check_alias(own, whole, 0)
    blocks, told = _cut(
        group, Collective.ALL_REDUCE, data_type, count, group.size, options, reduce_op
    )
    return group.submit(
        Ring(group, told, data_type, blocks, own, whole, reduce_op=reduce_op, gather=True)
    )


def reduce_scatter(
    group: Group,
    mine: Buffer,
    result: Buffer,
    data_type: DataType,
    reduce_op: ReduceOp = ReduceOp.SUM,
    options: Options = _DEFAULT,
) -> Operation:
    """Of all ranks' `mine` reduced, block r in `result` of rank r.

    `mine` has as many blocks as there are ranks, each as long as `result`. In place: `result` is
    this rank's block of `mine`.
    """
    count = _count(result, data_type, "result") * group.size
    own = source(mine, count * data_type.size_bytes, "mine")
    whole = destination(result, own.nbytes // group.size, "result")
    _check_alias(own, whole, group.rank * whole.nbytes)
    blocks, told = _cut(
        group, Collective.REDUCE_SCATTER, data_type, count, group.size, options, reduce_op
    )
    return group.submit(
        Ring(group, told, data_type, blocks, own, whole, reduce_op=reduce_op, gather=False)
    )


def all_gather(
    group: Group,
    mine: Buffer,
    result: Buffer,
    data_type: DataType,
    options: Options = _DEFAULT,
) -> Operation:
    """All ranks' `mine`, one after the other, in `result` of all.

    In place: `mine` is this rank's block of `result`.
    """
    count = _count(mine, data_type, "mine") * group.size
    whole = destination(result, count * data_type.size_bytes, "result")
    own = source(mine, whole.nbytes // group.size, "mine")
    _check_alias(whole, own, group.rank * own.nbytes)
    blocks, told = _cut(group, Collective.ALL_GATHER, data_type, count, group.size, options)
    return group.submit(
        Ring(group, told, data_type, blocks, own, whole, reduce_op=None, gather=True)
    )


def all_to_all(
    group: Group,
    mine: Buffer,
    result: Buffer,
    data_type: DataType,
    options: Options = _DEFAULT,
) -> Operation:
    """Block p of `mine` to rank p, as block number of this rank in its `result`.

    Both have as many blocks of one length as there are ranks. In place: one buffer (what is sent
    is then copied first).
    """
    count = _count(mine, data_type, "mine")
    if count % group.size:
        raise ValueError(f"mine: {count} elements are no whole blocks for {group.size} ranks")
    own = source(mine, count * data_type.size_bytes, "mine")
    whole = destination(result, own.nbytes, "result")
    _check_alias(own, whole, 0)
    blocks, told = _cut(group, Collective.ALL_TO_ALL, data_type, count, group.size, options)
    return group.submit(AllToAll(group, told, data_type, blocks, own, whole))


def broadcast(
    group: Group,
    mine: Buffer | None,
    result: Buffer,
    data_type: DataType,
    root: int = 0,
    options: Options = _DEFAULT,
) -> Operation:
    """`mine` of rank `root` in `result` of all. Others give None. In place: one buffer."""
    _check_rank(group, root, "root")
    count = _count(result, data_type, "result")
    whole = destination(result, count * data_type.size_bytes, "result")
    own = None
    if group.rank == root:
        if mine is None:
            raise ValueError("mine: the root has something to send")
        own = source(mine, whole.nbytes, "mine")
        _check_alias(own, whole, 0)
    blocks, told = _cut(group, Collective.BROADCAST, data_type, count, 1, options, root=root)
    return group.submit(Broadcast(group, told, data_type, blocks, own, whole, root=root))


def send_recv(
    group: Group,
    mine: Buffer,
    to: int,
    result: Buffer,
    source_rank: int,
    data_type: DataType,
    options: Options = _DEFAULT,
) -> Operation:
    """`mine` to rank `to`, and as much from rank `source_rank` in `result`. Not in place."""
    _check_rank(group, to, "to")
    _check_rank(group, source_rank, "source_rank")
    if (to == group.rank) != (source_rank == group.rank):
        raise ValueError(f"to: a rank's send to itself needs its receive, too (rank {group.rank})")
    count = _count(mine, data_type, "mine")
    own = source(mine, count * data_type.size_bytes, "mine")
    whole = destination(result, own.nbytes, "result")
    if overlap(own, whole):
        raise ValueError("result: it overlaps mine")
    blocks, told = _cut(group, Collective.SEND_RECV, data_type, count, 1, options)
    return group.submit(
        SendReceive(group, told, data_type, blocks, own, whole, to=to, source=source_rank)
    )


def send(
    group: Group, mine: Buffer, to: int, data_type: DataType, options: Options = _DEFAULT
) -> Operation:
    """`mine` to rank `to`, which calls `recv`."""
    _check_other(group, to, "to")
    count = _count(mine, data_type, "mine")
    own = source(mine, count * data_type.size_bytes, "mine")
    blocks, told = _cut(group, Collective.SEND_RECV, data_type, count, 1, options)
    return group.submit(SendReceive(group, told, data_type, blocks, own, None, to=to, source=None))


def recv(
    group: Group,
    result: Buffer,
    source_rank: int,
    data_type: DataType,
    options: Options = _DEFAULT,
) -> Operation:
    """What rank `source_rank` sends, in `result`."""
    _check_other(group, source_rank, "source_rank")
    count = _count(result, data_type, "result")
    whole = destination(result, count * data_type.size_bytes, "result")
    blocks, told = _cut(group, Collective.SEND_RECV, data_type, count, 1, options)
    return group.submit(
        SendReceive(group, told, data_type, blocks, None, whole, to=None, source=source_rank)
    )


def _cut(
    group: Group,
    collective: Collective,
    data_type: DataType,
    count: int,
    number: int,
    options: Options,
    reduce_op: ReduceOp | None = None,
    root: int = 0,
) -> tuple[Blocks, Signature]:
    size_bytes = data_type.size_bytes
    chunk_bytes = options.chunk_bytes
    if chunk_bytes is None:
        chunk_bytes = default_chunk_bytes(-(-count // number) * size_bytes)
    chunk = max(1, chunk_bytes // size_bytes)
    depth = options.depth
    if depth is None:
        depth = min(default_depth(chunk * size_bytes), MAX_DEPTH)
    told = signature(
        collective, data_type, size=group.size, count=count, chunk=chunk, depth=depth,
        reduce_op=reduce_op, root=root,
    )  # fmt: skip
    return Blocks(count, number, chunk), told


def _count(buffer: Buffer, data_type: DataType, name: str) -> int:
    size_bytes = bytes_of(buffer).nbytes
    if size_bytes % data_type.size_bytes:
        raise ValueError(f"{name}: {size_bytes} bytes are no whole number of {data_type.value}")
    return size_bytes // data_type.size_bytes


def _check_rank(group: Group, rank: int, name: str) -> None:
    if not 0 <= rank < group.size:
        raise ValueError(f"{name}: {rank} does not fit: it must be 0..{group.size - 1}")


def _check_other(group: Group, rank: int, name: str) -> None:
    _check_rank(group, rank, name)
    if rank == group.rank:
        raise ValueError(f"{name}: {rank} is this rank itself")


def _check_alias(outer: memoryview, inner: memoryview, offset: int) -> None:
    """Two buffers are apart, or the inner one is exactly at its place in the outer one."""
    if overlap(outer, inner) and _address(inner) != _address(outer) + offset:
        raise ValueError("result: it overlaps mine, but is not where it would be in place")


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, "u1").__array_interface__["data"][0]
    return address
