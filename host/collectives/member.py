"""Set-up of a group over `host.verbs`: queue pairs and mailboxes, an exchanged table, links.

    member = Member(pd, rank, size)
    table = exchange(member.info())      # by whatever means: JSON over TCP, a file, the runner
    group = member.connect(table)

Collectives may begin when all ranks are connected; what comes too early is sent again by MRC.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from host.collectives.exchange import LinkInfo, RankInfo
from host.collectives.group import Group
from host.collectives.link import MAX_WR, Link
from host.collectives.messages import MAILBOX_BYTES, Landing
from host.verbs import (
    CompChannel,
    Cq,
    InvalidArgumentError,
    MrcQpAttr,
    MrInfo,
    Pd,
    QpCapacity,
    QpInitAttr,
    QueuePair,
)

MAX_LANES = 256


class Member:
    """One rank's end of a group, before and after it is connected.

    Args:
        pd: protection domain of the group's queue pairs, and of memory that peers write to.
        rank, size: which rank this is, of how many.
        peers: ranks to be connected with (None: all others); see `CollectiveKind.peers`.
        lanes: queue pairs to each peer; chunks take turns on them.
        mrc_attr: of the queue pairs, as in `QueuePair.connect`.
        channel: to be told of completions through.

    Attributes:
        cq: the completion queue of all its queue pairs. When something is in it, call
            `Group.progress`.

    Raises InvalidArgumentError for ranks and numbers that do not fit, and as `Context.create_qp`.
    """

    def __init__(
        self,
        pd: Pd,
        rank: int,
        size: int,
        *,
        peers: Iterable[int] | None = None,
        lanes: int = 1,
        mrc_attr: MrcQpAttr | None = None,
        channel: CompChannel | None = None,
    ) -> None:
        if size < 1 or not 0 <= rank < size:
            raise InvalidArgumentError(f"rank: {rank} does not fit: it must be 0..{size - 1}")
        if not 1 <= lanes <= MAX_LANES:
            raise InvalidArgumentError(f"lanes: {lanes} does not fit: it must be 1..{MAX_LANES}")
        others = sorted({*(range(size) if peers is None else peers)} - {rank})
        if others and not 0 <= others[0] <= others[-1] < size:
            raise InvalidArgumentError(f"peers: {others} do not fit: there are 0..{size - 1}")
        self.rank = rank
        self.size = size
        self.group: Group | None = None
        self._pd = pd
        self._mrc_attr = mrc_attr
        context = pd.context
        places = 2 * MAX_WR * lanes * max(1, len(others))
        self.cq: Cq = context.create_cq(places, channel=channel)
        capacity = QpCapacity(max_send_wr=MAX_WR, max_recv_wr=MAX_WR)
        init_attr = QpInitAttr(pd, self.cq, cap=capacity)
        self._qps: dict[int, list[QueuePair]] = {
            peer: [context.create_qp(init_attr) for _ in range(lanes)] for peer in others
        }
        self._mailboxes = memoryview(bytearray(MAILBOX_BYTES * max(1, len(others))))
        self._mr = pd.reg_mr(self._mailboxes)

    @property
    def queue_pairs(self) -> dict[int, list[QueuePair]]:
        """By peer."""
        return self._qps

    def info(self) -> RankInfo:
        """This rank's row of the table."""
        return RankInfo(
            self.rank,
            self.size,
            tuple(
                LinkInfo(
                    peer,
                    MrInfo(self._mr.addr + place * MAILBOX_BYTES, MAILBOX_BYTES, self._mr.rkey),
                    tuple(qp.info() for qp in qps),
                )
                for place, (peer, qps) in enumerate(self._qps.items())
            ),
        )

    def connect(self, table: Iterable[RankInfo]) -> Group:
        """Connect with all peers; `table` has at least their rows.

        Raises InvalidArgumentError for a table that has not, or in which something does not match.
        """
        if self.group is not None:
            raise InvalidArgumentError("the group is connected already")
        rows = {row.rank: row for row in table}
        ends = {peer: self._end_of(peer, rows.get(peer)) for peer in self._qps}
        group = Group(self.rank, self.size, self._pd, self.cq)
        for place, (peer, qps) in enumerate(self._qps.items()):
            end = ends[peer]
            for qp, remote in zip(qps, end.qps, strict=True):
                qp.connect(remote, self._mrc_attr)
            mailbox = self._mailboxes[place * MAILBOX_BYTES :][:MAILBOX_BYTES]
            there = Landing(end.mailbox.addr, end.mailbox.rkey)
            group.add_link(Link(group, peer, qps, mailbox, there))
        self.group = group
        return group

    def _end_of(self, peer: int, row: RankInfo | None) -> LinkInfo:
        if row is None:
            raise InvalidArgumentError(f"table: rank {peer} is missing")
        if row.size != self.size:
            raise InvalidArgumentError(
                f"table: rank {peer}: size: {row.size} does not fit: here it is {self.size}"
            )
        end = row.link(self.rank)
        if end is None:
            raise InvalidArgumentError(f"table: rank {peer} has no link with rank {self.rank}")
        lanes = len(self._qps[peer])
        if len(end.qps) != lanes:
            raise InvalidArgumentError(
                f"table: rank {peer}: it has {len(end.qps)} QPs for a link, here there are {lanes}"
            )
        if end.mailbox.length < MAILBOX_BYTES:
            raise InvalidArgumentError(
                f"table: rank {peer}: mailbox: {end.mailbox.length} bytes are too few: "
                f"it must have {MAILBOX_BYTES}"
            )
        return end

    def close(self) -> None:
        """Destroy everything. Ranks do so when all of them are done, or peers see it as an error.

        A second time does nothing.
        """
        if self.group is not None:
            self.group.close()
        for qps in self._qps.values():
            for qp in qps:
                qp.close()
        self._mr.close()
        self.cq.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
