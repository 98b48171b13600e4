"""The plain computation that collectives are compared with, compared with a plainer one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from host.collectives import Collective, DataType, ReduceOp, Reference, contents, wrong_elements

SIZE = 3


def vectors(data_type: DataType, count: int) -> list[list[float]]:
    return [
        contents(data_type, count, seed=5, round_number=1, rank=rank).tolist()
        for rank in range(SIZE)
    ]


@pytest.mark.parametrize("data_type", DataType)
def test_contents_differ_everywhere_and_any_part_is_the_same(data_type: DataType) -> None:
    whole = contents(data_type, 1000, seed=1, round_number=2, rank=3)
    assert len(set(whole.tolist())) > 990
    part = contents(data_type, 10, seed=1, round_number=2, rank=3, start=500)
    assert part.tolist() == whole[500:510].tolist()
    for other in ({"seed": 2}, {"round_number": 3}, {"rank": 4}):
        where = {"seed": 1, "round_number": 2, "rank": 3, **other}
        assert wrong_elements(contents(data_type, 1000, **where), whole) > 990


def test_floats_are_within_one() -> None:
    values = contents(DataType.FLOAT32, 10_000, seed=0, round_number=0, rank=0)
    assert -1 <= values.min() < -0.99 and 0.99 < values.max() < 1


@pytest.mark.parametrize(("op", "plain"), [(ReduceOp.MIN, min), (ReduceOp.MAX, max)])
@pytest.mark.parametrize("data_type", DataType)
def test_extremes(op: ReduceOp, plain: type, data_type: DataType) -> None:
    reference = Reference(
        Collective.ALL_REDUCE, data_type, size=SIZE, count=7, reduce_op=op, seed=5
    )
    columns = zip(*vectors(data_type, 7), strict=True)
    assert reference.result(0, 1).tolist() == [plain(column) for column in columns]


@pytest.mark.parametrize("data_type", [DataType.INT32, DataType.INT64])
def test_integer_sums_wrap(data_type: DataType) -> None:
    reference = Reference(Collective.ALL_REDUCE, data_type, size=SIZE, count=50, seed=5)
    span = 1 << 8 * data_type.size_bytes
    totals = [int(sum(column)) for column in zip(*vectors(data_type, 50), strict=True)]
    expected = [(total + span // 2) % span - span // 2 for total in totals]
    assert reference.result(1, 1).tolist() == expected
    assert expected != totals


def test_float_sums_are_within_rounding_of_the_exact_sum() -> None:
    reference = Reference(Collective.ALL_REDUCE, DataType.FLOAT32, size=SIZE, count=50, seed=5)
    exact = [math.fsum(column) for column in zip(*vectors(DataType.FLOAT32, 50), strict=True)]
    assert reference.result(2, 1).tolist() == pytest.approx(exact, abs=1e-6)


def test_scatter_gather_exchange_neighbour_and_root() -> None:
    def of(collective: Collective) -> Reference:
        return Reference(collective, DataType.INT32, size=SIZE, count=6, root=2, seed=5)

    plain = vectors(DataType.INT32, 6)
    whole = of(Collective.ALL_REDUCE).result(0, 1).tolist()
    assert of(Collective.REDUCE_SCATTER).result(1, 1).tolist() == whole[2:4]
    gather = of(Collective.ALL_GATHER)
    pieces = [value for rank in range(SIZE) for value in gather.mine(rank, 1).tolist()]
    assert gather.result(0, 1).tolist() == pieces
    assert of(Collective.ALL_TO_ALL).result(1, 1).tolist() == [
        value for vector in plain for value in vector[2:4]
    ]
    assert of(Collective.SEND_RECV).result(0, 1).tolist() == plain[2]
    assert of(Collective.BROADCAST).result(0, 1).tolist() == plain[2]


def test_wrong_elements_sees_every_bit() -> None:
    values = np.zeros(4, dtype=np.float32)
    negative = values.copy()
    negative[2] = -0.0
    assert wrong_elements(values, negative) == 1
