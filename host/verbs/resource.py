"""What all objects of a context have in common: they belong to it, are used, and end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from host.verbs.errors import BusyError, ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from host.verbs.context import Context


#: What messages call an event that was taken and not acknowledged
UNACKNOWLEDGED = "unacknowledged event"


class Resource(ABC):
    """An object of a `Context`: destroyed by `close`, or at the end of a `with` block.

    Destroying it while others use it raises BusyError; destroying it again does nothing. The
    context destroys what is left when it is closed itself.
    """

    __slots__ = ("_open", "_users", "context")

    #: What messages call it
    kind = "object"

    def __init__(self, context: Context) -> None:
        context.check_open()
        self.context = context
        self._open = True
        self._users: Counter[str] = Counter()
        context.track(self)

    @property
    def closed(self) -> bool:
        """Whether it was destroyed."""
        return not self._open

    def check_open(self) -> None:
        """Raises ClosedError for what was destroyed."""
        if not self._open:
            raise ClosedError(f"the {self.kind} was destroyed")

    def check_usable_in(self, context: Context) -> None:
        """Raises ClosedError for what was destroyed, InvalidArgumentError for another context's."""
        self.check_open()
        if self.context is not context:
            raise InvalidArgumentError(f"the {self.kind} belongs to another context")

    def acquire(self, user: str) -> None:
        """One more object uses this one."""
        self._users[user] += 1

    def release(self, user: str) -> None:
        """One object less uses this one."""
        self._users[user] -= 1

    def users(self) -> dict[str, int]:
        """How many objects of which kind use this one."""
        return {kind: number for kind, number in self._users.items() if number}

    def close(self) -> None:
        """Destroy it. Raises BusyError while something uses it; nothing has changed then."""
        if not self._open:
            return
        if users := self.users():
            told = ", ".join(f"{number} {kind}(s)" for kind, number in users.items())
            raise BusyError(f"the {self.kind} is still used by {told}")
        self.force_close()

    def force_close(self) -> None:
        """Destroy it, whoever uses it (the context does, when it ends)."""
        if self._open:
            self._open = False
            self._destroy()
            self.context.untrack(self)

    @abstractmethod
    def _destroy(self) -> None:
        """Give back what it holds."""

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self.users():
            # The block failed before it destroyed the users: its own error is the one to see,
            # and the context destroys what is left
            return
        self.close()
