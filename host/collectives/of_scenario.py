"""A collective of a scenario as what each of its ranks runs."""

from __future__ import annotations

from host.collectives.calls import Options
from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.job import JobSpec
from topologies.scenario import Collective


def job_spec(item: Collective, seed: int) -> JobSpec:
    """What each rank runs. Raises ValueError, naming the field, for what cannot be."""
    return JobSpec(
        collective=item.collective,
        size_bytes=item.size_bytes,
        data_type=DataType(item.data_type),
        reduce_op=ReduceOp(item.reduce_op),
        root=item.root,
        rounds=item.repeat,
        in_place=item.in_place,
        options=Options(item.chunk_bytes, item.depth),
        seed=seed,
    )
