"""Names, sizes and bandwidths."""

from __future__ import annotations

from typing import get_args

import pytest

from host.collectives import COLLECTIVES, Collective, DataType, JobSpec, collective_kind
from topologies.scenario_schema import CollectiveName


def test_every_collective_is_registered_and_in_the_scenario_schema() -> None:
    assert list(COLLECTIVES) == [each.value for each in Collective]
    assert set(COLLECTIVES) == set(get_args(CollectiveName))


def test_an_unknown_name_is_told_which_there_are() -> None:
    with pytest.raises(ValueError, match="all-reduc: no such collective; there are all-reduce,"):
        collective_kind("all-reduc")


@pytest.mark.parametrize(
    ("name", "factor"),
    [  # doc/PERFORMANCE.md of nccl-tests, for 8 ranks
        ("all-reduce", 2 * 7 / 8),
        ("all-gather", 7 / 8),
        ("reduce-scatter", 7 / 8),
        ("all-to-all", 7 / 8),
        ("send-recv", 1),
        ("broadcast", 1),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(name: str, factor: float) -> None:
    algorithm, bus = collective_kind(name).bandwidths_bps(1_000_000, 8, 1000)
    assert algorithm == 8e12
    assert bus == pytest.approx(factor * 8e12)
    assert collective_kind(name).bandwidths_bps(1, 8, 0) == (0, 0)


@pytest.mark.parametrize(
    ("name", "mine", "result"),
    [
        ("all-reduce", 25, 25),
        ("all-gather", 8, 24),
        ("reduce-scatter", 24, 8),
        ("all-to-all", 24, 24),
        ("send-recv", 25, 25),
        ("broadcast", 25, 25),
    ],
)
def test_sizes_are_of_the_whole_vector(name: str, mine: int, result: int) -> None:
    kind = collective_kind(name)
    count = kind.count(103, 3, DataType.INT32)
    assert kind.counts(count, 3) == (mine, result)
    assert JobSpec(name, 103, DataType.INT32).moved_bytes(3) == count * 4


def test_peers() -> None:
    assert collective_kind("all-reduce").peers(0, 8) == (1, 7)
    assert collective_kind("all-reduce").peers(1, 2) == (0,)
    assert collective_kind("all-reduce").peers(0, 1) == ()
    assert collective_kind("all-to-all").peers(2, 4) == (0, 1, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collective": "reduce"}, "no such collective"),
        ({"rounds": 0}, "rounds: 0 does not fit"),
        ({"root": -1}, "root: -1 does not fit"),
        ({"size_bytes": -1}, "size_bytes: -1 does not fit"),
        ({"collective": "send-recv", "in_place": True}, "in_place: a rank cannot"),
    ],
)
def test_jobs_that_cannot_be(changes: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"collective": "all-reduce", "size_bytes": 4, **changes}
    with pytest.raises(ValueError, match=message):
        JobSpec(**values)  # type: ignore[arg-type]
