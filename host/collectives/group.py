"""A group of ranks as one of them has it: its links, and the collectives that it runs.

Nothing here waits or knows the time. `progress` takes what completed and goes on from there; call
it when the completion queue has got something, in virtual time or in an event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from host.collectives.kinds import describe
from host.collectives.link import Link, Outgoing
from host.collectives.messages import (
    ABORT_OFFSET,
    Failure,
    Immediate,
    Kind,
    Reason,
    Signature,
)
from host.collectives.operation import Operation
from host.collectives.transport import Completions, Memory
from host.qp.work import WcOpcode, WcStatus, WorkCompletion


class GroupError(RuntimeError):
    """A collective was called on a group that has failed or is closed."""


class Group:
    """Rank `rank` of `size`, linked with some or all others.

    Collectives of a group run one after the other, in the order of the calls, which must be the
    same on all ranks that take part.

    Attributes:
        failure: why the group can do nothing any more; None: it can.
        on_failure: called once with that.
    """

    def __init__(self, rank: int, size: int, memory: Memory, cq: Completions) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank: {rank} does not fit: it must be 0..{size - 1}")
        self.rank = rank
        self.size = size
        self.memory = memory
        self.failure: Failure | None = None
        self.on_failure: Callable[[Failure], None] | None = None
        self._cq = cq
        self._links: dict[int, Link] = {}
        self._link_of_qp: dict[int, tuple[Link, int]] = {}
        self._queue: deque[Operation] = deque()
        self._current: Operation | None = None
        self._starting = False
        self._failed_operations: list[Operation] = []
        #: 0 is that of all receives
        self._next_wr = 1
        #: Of each outstanding write, the stream that it belongs to (None: no data) and its index
        self._posted: dict[int, tuple[Outgoing | None, int]] = {}
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "failed" if self.failure else "open"
        return f"Group(rank {self.rank} of {self.size}, {state})"

    # --- links ---

    def add_link(self, link: Link) -> None:
        """One more peer (set-up does)."""
        self._links[link.peer] = link
        for number, qp in enumerate(link.lanes):
            self._link_of_qp[qp.qp_num] = link, number

    @property
    def links(self) -> Mapping[int, Link]:
        """By rank."""
        return self._links

    def link(self, peer: int) -> Link:
        """The link with a rank. Raises ValueError where there is none."""
        link = self._links.get(peer)
        if link is None:
            raise ValueError(f"rank {self.rank} is not connected with rank {peer}")
        return link

    # --- collectives ---

    def submit(self, operation: Operation) -> Operation:
        """Run an operation when all before it are over. Raises GroupError."""
        if self._closed:
            raise GroupError("the group is closed")
        if self.failure is not None:
            raise GroupError(str(self.failure))
        self._queue.append(operation)
        self._start_next()
        return operation

    def _start_next(self) -> None:
        # An operation may be over when it starts, and its end may bring new ones
        if self._starting:
            return
        self._starting = True
        try:
            while self._current is None and self._queue and self.failure is None:
                self._current = self._queue.popleft()
                self._current.start()
        finally:
            self._starting = False

    def ended(self, operation: Operation) -> None:
        """An operation is over (it tells so itself)."""
        if self._current is not operation:
            return
        self._current = None
        for link in self._links.values():
            link.outgoing = link.incoming = None

    @property
    def idle(self) -> bool:
        """No collective runs or waits, and all writes are acknowledged."""
        return self._current is None and not self._queue and not self._posted

    # --- completions ---

    def posted(self, outgoing: Outgoing | None, index: int) -> int:
        """A `wr_id` for a write; its completion goes to the stream."""
        wr_id = self._next_wr
        self._next_wr += 1
        self._posted[wr_id] = outgoing, index
        return wr_id

    def progress(self) -> bool:
        """Take completions and act on them, until there are none. Returns whether there were."""
        any_at_all = False
        while completions := self._cq.poll_cq():
            any_at_all = True
            for position, completion in enumerate(completions):
                if completion.status is not WcStatus.SUCCESS:
                    self._posted.pop(completion.wr_id, None)
                    self._qp_ended(completion, completions[position:])
                elif completion.opcode is WcOpcode.RECV_RDMA_WITH_IMM:
                    self._received(completion)
                else:
                    self._written(completion.wr_id)
            self._start_next()
        return any_at_all

    def _written(self, wr_id: int) -> None:
        outgoing, index = self._posted.pop(wr_id)
        if outgoing is not None and self.failure is None:
            outgoing.completed(index)
            self._check_done()

    def _received(self, completion: WorkCompletion) -> None:
        link, lane = self._link_of_qp[completion.qp_num]
        if self._closed:
            return
        link.lanes[lane].post_recv(0)
        assert completion.imm is not None
        imm = Immediate.decode(completion.imm)
        if imm.kind is Kind.ABORT:
            self._fail(Failure.decode(link.mailbox), told_by=link)
        elif self.failure is None:
            problem = link.received(imm)
            if problem is not None:
                self._fail(Failure(Reason.PROTOCOL, self.rank, link.peer, detail=problem))
            else:
                self._check_done()

    def _check_done(self) -> None:
        if self._current is not None:
            self._current.check_done()

    # --- failing ---

    def abort(self) -> None:
        """Give up: this group's collectives end, here and on all ranks that can be told."""
        self._fail(Failure(Reason.ABORTED, self.rank, self.rank))

    def mismatch(self, peer: int, ours: Signature, theirs: Signature) -> None:
        """A peer is ready for something else."""
        detail = f"here {describe(ours)}, there {describe(theirs)}"
        self._fail(Failure(Reason.MISMATCH, self.rank, peer, detail=detail))

    def _qp_ended(self, completion: WorkCompletion, following: Sequence[WorkCompletion]) -> None:
        """A queue pair is in ERROR. The request that it failed on need not be the first flushed."""
        if self.failure is not None:
            return
        link, _ = self._link_of_qp[completion.qp_num]
        told = [each.status for each in following if each.qp_num == completion.qp_num]
        causes = [
            status for status in told if status not in (WcStatus.SUCCESS, WcStatus.WR_FLUSH_ERROR)
        ]
        status = causes[0] if causes else WcStatus.WR_FLUSH_ERROR
        self._fail(Failure(Reason.QP_ERROR, self.rank, link.peer, status))

    def _fail(self, failure: Failure, told_by: Link | None = None) -> None:
        """Tell all peers but the one that told this rank, and end what runs and waits."""
        if self.failure is not None:
            return
        self.failure = failure
        told = replace(failure, detail="").encode()
        for link in self._links.values():
            # A queue pair in ERROR flushes it
            if link is not told_by:
                link.control(Immediate(Kind.ABORT, 0, 0), told, ABORT_OFFSET)
        ending = [] if self._current is None else [self._current]
        ending.extend(self._queue)
        self._queue.clear()
        self._failed_operations.extend(ending)
        for operation in ending:
            operation.fail(failure)
        if self.on_failure is not None:
            self.on_failure(failure)

    def close(self) -> None:
        """End: operations that run fail, memory is deregistered. Queue pairs are their owner's."""
        if self._closed:
            return
        if self._current is not None or self._queue:
            self.abort()
        self._closed = True
        for operation in self._failed_operations:
            operation.release()
        self._failed_operations.clear()
