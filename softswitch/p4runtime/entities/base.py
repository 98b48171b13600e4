"""What all kinds of P4 entities have in common: insert, modify, delete, read.

One handler a kind, all working on one `PipelineState`. They are called with the switch's lock held.
A write either raises `P4RuntimeError` (or an error of the state classes, see `errors.error_of`) and
changes nothing, or returns the function that takes it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from softswitch.p4runtime.errors import invalid, out_of_range

Undo = Callable[[], None]

INT64_MAX = (1 << 63) - 1


class EntityHandler(ABC):
    """One kind of entity. `kind` is its field in the `Entity` message."""

    kind: str

    def insert(self, message: Any) -> Undo:
        """Update.INSERT; kinds that always exist refuse it."""
        raise invalid(f"{self.kind} can only be modified, not inserted")

    @abstractmethod
    def modify(self, message: Any) -> Undo:
        """Update.MODIFY."""

    def delete(self, message: Any) -> Undo:
        """Update.DELETE; kinds that always exist refuse it."""
        raise invalid(f"{self.kind} can only be modified, not deleted")

    @abstractmethod
    def read(self, message: Any) -> Iterator[Any]:
        """Messages of this kind that the one in the request selects.

        The lock is released between items, so an implementation takes its own copy of what it
        iterates over; writes of other clients are kept out for the whole request.
        """


def cell_indices(message: Any, size: int, what: str) -> range:
    """Cells of an array that a message with an optional `index` names: one, or all.

    INVALID_ARGUMENT for a negative index, OUT_OF_RANGE for one beyond the array.
    """
    if not message.HasField("index"):
        return range(size)
    index: int = message.index.index
    if index < 0:
        raise invalid(f"{what}: index {index} is negative")
    if index >= size:
        raise out_of_range(f"{what}: index {index}, want 0 to {size - 1}")
    return range(index, index + 1)


def count(value: int, what: str) -> int:
    """A counter value or similar from the wire, refused when negative."""
    if value < 0:
        raise invalid(f"{what}: {value} is negative")
    return value


def nothing() -> None:
    """Undo of a write that changed nothing."""
