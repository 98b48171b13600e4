"""The same runs on a Dask cluster of two real workers, of which some die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from experiments.backend import ChangedCodeError, ClusterError
from experiments.cluster import DaskCluster
from experiments.store import Store
from experiments.sweep import sweep
from tests.experiments import fake_runs
from tests.experiments.fake_runs import Seen, runs, version_of


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    # A run that took two workers with it is given up: those of this test do it on purpose
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        yield cluster.scheduler_address


def test_a_lost_worker_costs_its_run_and_not_the_sweep(scheduler: str, tmp_path: Path) -> None:
    outcome = sweep(
        runs(6, tmp_path),
        Store(tmp_path / "runs", version_of),
        DaskCluster(scheduler, fake_runs.dies_once),
        Seen(),
        version_of=version_of,
    )
    assert (tmp_path / "died").exists()
    assert [piece["twice"] for piece in outcome.pieces] == [0, 2, 4, 6, 8, 10]
    assert not outcome.failed


def test_a_run_that_takes_every_worker_with_it_is_reported(scheduler: str, tmp_path: Path) -> None:
    seen = Seen()
    outcome = sweep(
        runs(3, tmp_path),
        Store(tmp_path / "runs", version_of),
        DaskCluster(scheduler, fake_runs.dies_last),
        seen,
        version_of=version_of,
    )
    assert [piece["twice"] for piece in outcome.pieces] == [0, 4]
    assert [failed.why for failed in outcome.failed] == ["every worker that took it was lost"]
    assert [again for _, _, again in seen.failures] == [True, False]


def test_an_error_on_a_worker_is_one_line(scheduler: str, tmp_path: Path) -> None:
    outcome = sweep(
        runs(3),
        Store(tmp_path / "runs", version_of),
        DaskCluster(scheduler, fake_runs.wrong),
        Seen(),
        version_of=version_of,
    )
    assert [failed.why for failed in outcome.failed] == ["ValueError: number: 1 is odd"]


def test_a_worker_with_other_code_ends_the_sweep(scheduler: str, tmp_path: Path) -> None:
    with pytest.raises(ChangedCodeError, match="fake: this worker's code is 2, not 1"):
        sweep(
            runs(3),
            Store(tmp_path / "runs", version_of),
            DaskCluster(scheduler, fake_runs.other_code),
            Seen(),
            version_of=version_of,
        )


def test_no_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.cluster._CONNECT_S", 0.2)
    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9: no scheduler answers there"):
        list(DaskCluster("tcp://127.0.0.1:9").make([]))
