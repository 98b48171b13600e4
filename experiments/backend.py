"""Who makes runs: what all ways of doing it have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from experiments.model import Piece, Run


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be made, by the code of this hash."""

    run: Run
    code: str


@dataclass(frozen=True, slots=True)
class Started:
    """A run is being made now."""

    task: Task


@dataclass(frozen=True, slots=True)
class Finished:
    """A run was made."""

    task: Task
    piece: Piece


@dataclass(frozen=True, slots=True)
class Failed:
    """A run came to nothing. `lost`: its worker is gone, so it may do better on another."""

    task: Task
    why: str
    lost: bool


class ClusterError(RuntimeError):
    """There is no cluster to work with; the message is one line."""


class ChangedCodeError(RuntimeError):
    """Runs would be made by other code than was asked for; the message is one line."""


class Backend(Protocol):
    """Makes runs, some at a time."""

    def make(self, tasks: Sequence[Task]) -> Iterator[Started | Finished | Failed]:
        """Make all of them, in any order. Raises ChangedCodeError.

        To close the iterator early ends what is being made.
        """
        ...
