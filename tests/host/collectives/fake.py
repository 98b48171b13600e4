"""Ranks without a network: every message's landing, delivery and acknowledgement is an event.

The order of events is the test's choice, within what MRC promises: contents may land at any time
after they were posted and in any order, immediates are delivered in the order of posting on each
queue pair, and so are acknowledgements. What is posted must not change until it is acknowledged.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial

from host.collectives.group import Group
from host.collectives.link import MAX_WR, Link
from host.collectives.messages import MAILBOX_BYTES, Landing
from host.qp.work import WcOpcode, WcStatus, WorkCompletion

#: Far apart, so that a wrong sum of addresses is in no region
_REGION_STEP = 1 << 32


class FakeRegion:
    def __init__(self, memory: FakeMemory, rkey: int, view: memoryview) -> None:
        self.memory = memory
        self.rkey = rkey
        self.addr = rkey * _REGION_STEP
        self.view = view.cast("B")

    def close(self) -> None:
        del self.memory.regions[self.rkey]


class FakeMemory:
    """A rank's registered memory."""

    def __init__(self) -> None:
        self.regions: dict[int, FakeRegion] = {}
        self._next = 1

    def reg_mr(self, buffer: bytearray | memoryview) -> FakeRegion:
        region = FakeRegion(self, self._next, memoryview(buffer))
        self.regions[self._next] = region
        self._next += 1
        return region

    def at(self, addr: int, rkey: int, length: int) -> memoryview:
        region = self.regions[rkey]
        begin = addr - region.addr
        assert begin >= 0 and begin + length <= region.view.nbytes, "a write outside of its region"
        return region.view[begin : begin + length]


class FakeCq:
    def __init__(self) -> None:
        self.entries: list[WorkCompletion] = []

    def poll_cq(self) -> list[WorkCompletion]:
        entries, self.entries = self.entries, []
        return entries


class Message:
    def __init__(
        self, wr_id: int, local: bytes | memoryview, addr: int, rkey: int, imm: int
    ) -> None:
        self.wr_id = wr_id
        self.local = memoryview(local)
        self.snapshot = bytes(local)
        self.addr = addr
        self.rkey = rkey
        self.imm = imm
        self.landed = False


class FakeQp:
    """One direction out, of a pair of queue pairs."""

    def __init__(self, number: int, cq: FakeCq, memory: FakeMemory, max_wimm: int) -> None:
        self.qp_num = number
        self.cq = cq
        self.memory = memory
        self.max_wimm = max_wimm
        self.peer: FakeQp = self
        self.receives = 0
        #: Posted, not delivered; and delivered, not acknowledged
        self.posted: deque[Message] = deque()
        self.delivered: deque[Message] = deque()
        self.broken = False

    def post_write_imm(
        self, wr_id: int, local: bytes | memoryview, remote_addr: int, rkey: int, imm_data: int
    ) -> None:
        assert len(local) > 0
        message = Message(wr_id, local, remote_addr, rkey, imm_data)
        if self.broken:
            self._complete(message, WcStatus.WR_FLUSH_ERROR)
            return
        self.posted.append(message)
        assert len(self.posted) + len(self.delivered) <= MAX_WR, "the send queue is full"

    def post_recv(self, wrs: int) -> None:
        if self.broken:
            self._flush_receive()
            return
        self.receives += 1
        assert self.receives <= MAX_WR, "the receive queue is full"

    def _complete(self, message: Message, status: WcStatus) -> None:
        self.cq.entries.append(
            WorkCompletion(message.wr_id, status, WcOpcode.RDMA_WRITE, self.qp_num)
        )

    def _flush_receive(self) -> None:
        self.cq.entries.append(
            WorkCompletion(0, WcStatus.WR_FLUSH_ERROR, WcOpcode.RECV_RDMA_WITH_IMM, self.qp_num)
        )

    # --- events ---

    def in_flight(self) -> list[Message]:
        room = self.max_wimm - len(self.delivered)
        return [*self.posted][: max(room, 0)]

    def can_land(self) -> list[Message]:
        return [message for message in self.in_flight() if not message.landed]

    def can_deliver(self) -> bool:
        flying = self.in_flight()
        return bool(flying) and flying[0].landed and self.peer.receives > 0

    def land(self, message: Message) -> None:
        assert message.local == message.snapshot, "memory changed while it was being sent"
        target = self.peer.memory.at(message.addr, message.rkey, len(message.snapshot))
        target[:] = message.snapshot
        message.landed = True

    def deliver(self) -> None:
        message = self.posted.popleft()
        self.delivered.append(message)
        self.peer.receives -= 1
        self.peer.cq.entries.append(
            WorkCompletion(
                0, WcStatus.SUCCESS, WcOpcode.RECV_RDMA_WITH_IMM, self.peer.qp_num,
                len(message.snapshot), message.imm,
            )
        )  # fmt: skip

    def acknowledge(self) -> None:
        message = self.delivered.popleft()
        assert message.local == message.snapshot, "memory changed while it was being sent"
        self._complete(message, WcStatus.SUCCESS)

    def fail(self, status: WcStatus) -> None:
        """This end goes to ERROR, as when retries are used up."""
        self.broken = True
        outstanding = [*self.delivered, *self.posted]
        self.posted.clear()
        self.delivered.clear()
        for position, message in enumerate(outstanding):
            # The request that failed need not be the first that is flushed
            last = position == len(outstanding) - 1
            self._complete(message, status if last else WcStatus.WR_FLUSH_ERROR)
        for _ in range(self.receives):
            self._flush_receive()
        self.receives = 0


class FakeWorld:
    """Groups of `size` ranks, all connected with all."""

    def __init__(self, size: int, *, lanes: int = 1, max_wimm: int = 128) -> None:
        self.memories = [FakeMemory() for _ in range(size)]
        self.cqs = [FakeCq() for _ in range(size)]
        self.groups = [
            Group(rank, size, self.memories[rank], self.cqs[rank]) for rank in range(size)
        ]
        self.qps: list[FakeQp] = []
        for left in range(size):
            for right in range(left + 1, size):
                self._connect(left, right, lanes, max_wimm)

    def _connect(self, left: int, right: int, lanes: int, max_wimm: int) -> None:
        ends: dict[int, list[FakeQp]] = {left: [], right: []}
        for _ in range(lanes):
            for rank in (left, right):
                number = len(self.qps) + 1
                qp = FakeQp(number, self.cqs[rank], self.memories[rank], max_wimm)
                self.qps.append(qp)
                ends[rank].append(qp)
            one, other = ends[left][-1], ends[right][-1]
            one.peer, other.peer = other, one
        mailboxes = {rank: memoryview(bytearray(MAILBOX_BYTES)) for rank in ends}
        regions = {rank: self.memories[rank].reg_mr(mailbox) for rank, mailbox in mailboxes.items()}
        for rank, peer in ((left, right), (right, left)):
            there = Landing(regions[peer].addr, regions[peer].rkey)
            group = self.groups[rank]
            group.add_link(Link(group, peer, ends[rank], mailboxes[rank], there))

    def qp(self, rank: int, peer: int) -> FakeQp:
        lane = self.groups[rank].link(peer).lanes[0]
        assert isinstance(lane, FakeQp)
        return lane

    def events(self) -> list[Callable[[], object]]:
        """What may happen next, in an order that repeats."""
        events: list[Callable[[], object]] = []
        for qp in self.qps:
            if not qp.peer.broken:
                events.extend(partial(qp.land, message) for message in qp.can_land())
                if qp.can_deliver():
                    events.append(qp.deliver)
            elif qp.posted:
                # A queue pair in ERROR answers requests: NACK UNEXP_EVENT
                events.append(partial(qp.fail, WcStatus.REMOTE_OPERATION_ERROR))
            if qp.delivered:
                events.append(qp.acknowledge)
        events.extend(
            group.progress for group, cq in zip(self.groups, self.cqs, strict=True) if cq.entries
        )
        return events

    def run(self, rng: random.Random, until: Callable[[], bool] | None = None) -> None:
        """Events at random until nothing can happen any more (or `until`)."""
        while (until is None or not until()) and (events := self.events()):
            rng.choice(events)()
