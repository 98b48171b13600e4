"""Runs on the workers of a Dask cluster.

A worker that is lost costs the runs it was making; the scheduler gives them to others. A run that
takes several workers with it is given up and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from distributed import Client, as_completed
from distributed.scheduler import KilledWorker

from experiments.backend import (
    ChangedCodeError,
    ClusterError,
    Failed,
    Finished,
    Started,
    Task,
)
from experiments.local import Make
from experiments.model import Piece
from experiments.worker import OtherCodeError, make_piece

_CONNECT_S: Final = 10


class DaskCluster:
    """The workers of the scheduler at an address, as tcp://10.0.0.1:8786."""

    def __init__(self, address: str, make: Make = make_piece) -> None:
        self.address = address
        self._make = make

    def make(self, tasks: Sequence[Task]) -> Iterator[Started | Finished | Failed]:
        """Make all runs. Closing the iterator cancels what is left.

        Raises ClusterError and ChangedCodeError.
        """
        try:
            client = Client(self.address, timeout=_CONNECT_S)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise ClusterError(f"{self.address}: no scheduler answers there: {error}") from None
        with client:
            yield from self._make_with(client, tasks)

    def _make_with(
        self, client: Any, tasks: Sequence[Task]
    ) -> Iterator[Started | Finished | Failed]:
        futures = {
            client.submit(self._make, task.run, task.code, pure=False): task for task in tasks
        }
        done = as_completed(  # type: ignore[no-untyped-call]
            futures, with_results=True, raise_errors=False
        )
        try:
            for future, answer in done:
                task = futures.pop(future)
                if isinstance(answer, Piece):
                    yield Finished(task, answer)
                else:
                    yield _failed(task, answer)
        finally:
            client.cancel(list(futures), force=True)


def _failed(task: Task, answer: Any) -> Failed:
    error = answer[1] if isinstance(answer, tuple) else answer
    if isinstance(error, OtherCodeError):
        raise ChangedCodeError(str(error))
    if isinstance(error, KilledWorker):
        return Failed(task, "every worker that took it was lost", lost=True)
    text = " ".join(str(error).split())
    return Failed(task, f"{type(error).__name__}: {text}", lost=False)
