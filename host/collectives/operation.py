"""What all collectives have in common: streams to and from other ranks, memory, an end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from host.collectives.datatypes import DataType
from host.collectives.link import Incoming, Outgoing
from host.collectives.messages import MAX_INDEX, Failure, Landing, Signature
from host.collectives.transport import Buffer, Region, bytes_of

if TYPE_CHECKING:
    from host.collectives.group import Group


class Operation(ABC):
    """One collective of one rank, from the call to its end.

    Attributes:
        done: it is over; the buffers are the application's again.
        failure: why it did not succeed. Then buffers are free only after `Group.close`.
        on_done: called once, when it is over.
    """

    def __init__(self, group: Group, signature: Signature, data_type: DataType) -> None:
        self.group = group
        self.signature = signature
        self.data_type = data_type
        self.done = False
        self.failure: Failure | None = None
        self.on_done: Callable[[Operation], None] | None = None
        self._outgoing: list[Outgoing] = []
        self._incoming: list[Incoming] = []
        self._regions: list[Region] = []
        self._started = False

    @property
    def succeeded(self) -> bool:
        """It is over, and all is where it belongs."""
        return self.done and self.failure is None

    # --- what the group calls ---

    def start(self) -> None:
        """It is this operation's turn."""
        self._begin()
        self._started = True
        self.check_done()

    def check_done(self) -> None:
        """Something happened: this may have been the last that was missing."""
        if (
            self._started
            and not self.done
            and not any(incoming.left for incoming in self._incoming)
            and all(outgoing.idle for outgoing in self._outgoing)
        ):
            self.release()
            self._finish(None)

    def fail(self, failure: Failure) -> None:
        """The group has failed."""
        if not self.done:
            self._finish(failure)

    def release(self) -> None:
        """Deregister memory, after which late writes of peers are refused."""
        regions, self._regions = self._regions, []
        for region in regions:
            region.close()

    def _finish(self, failure: Failure | None) -> None:
        self.done = True
        self.failure = failure
        self.group.ended(self)
        on_done, self.on_done = self.on_done, None
        # They know it as it knows them: whoever lets go of it lets go of its buffers, at once
        for outgoing in self._outgoing:
            outgoing.close()
        for incoming in self._incoming:
            incoming.close()
        if on_done is not None:
            on_done(self)

    # --- what collectives do and use ---

    @abstractmethod
    def _begin(self) -> None:
        """Open streams, tell peers where to write, and send what is there."""

    def _register(self, view: memoryview) -> Landing:
        """Memory that peers write to."""
        region = self.group.memory.reg_mr(view)
        self._regions.append(region)
        return Landing(region.addr, region.rkey)

    def _send_to(self, rank: int, sent: Callable[[int], None]) -> Outgoing:
        outgoing = Outgoing(self.group, self.group.link(rank), self.signature, sent)
        self._outgoing.append(outgoing)
        return outgoing

    def _receive_from(
        self, rank: int, expected: int, arrived: Callable[[int], None], *landings: Landing
    ) -> Incoming:
        incoming = Incoming(self.group.link(rank), expected, arrived)
        self._incoming.append(incoming)
        incoming.announce(self.signature, landings)
        return incoming


def source(buffer: Buffer, needed_bytes: int, name: str) -> memoryview:
    """The bytes that are to be sent. Raises ValueError for a buffer of another size."""
    view = bytes_of(buffer)
    if view.nbytes != needed_bytes:
        raise ValueError(f"{name}: it has {view.nbytes} bytes, but must have {needed_bytes}")
    return view


def destination(buffer: Buffer, needed_bytes: int, name: str) -> memoryview:
    """The same, of bytes that are to be written."""
    view = source(buffer, needed_bytes, name)
    if view.nbytes and view.readonly:
        raise ValueError(f"{name}: it is read-only")
    return view


def check_indices(indices: int) -> None:
    """Raises ValueError for more chunks than can be numbered."""
    if indices >= MAX_INDEX:
        raise ValueError(f"chunk_bytes: too small: {indices} chunks, at most {MAX_INDEX - 1}")
