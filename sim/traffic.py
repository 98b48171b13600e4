"""Flows of a scenario: queue pairs, buffers, posts and completions, and every byte checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from host.memory import MemoryRegion
from host.memory_check import Pattern, Slots
from host.qp.base import AnyQueuePair
from host.qp.work import CompletionQueue, WcStatus, WriteRequest
from host.striping import message_parts
from sim.host_node import HostNode
from sim.network import Network
from topologies.scenario import Flow
from topologies.seeds import random_of

_RECEIVES = 1 << 10
#: Completions of a flow of which the time is kept
MAX_MESSAGE_TIMES = 1000


class _Channel:
    """One queue pair of a flow: its messages, one after the other, `depth` at a time.

    Of a striped flow, bytes `start` to `end` of each message; then all channels count as one.
    """

    def __init__(self, running: RunningFlow, index: int, start: int, end: int) -> None:
        self.running = running
        flow = running.flow
        source, destination = running.source, running.destination
        self._start, self._end = start, end
        self.size_bytes = end - start
        self.slots = Slots(self.size_bytes, flow.depth)
        self.cq = source.nic.create_cq()
        self.recv_cq = destination.nic.create_cq()
        self.qp: AnyQueuePair = source.nic.create_qp(self.cq)
        self.peer_qp: AnyQueuePair = destination.nic.create_qp(
            destination.nic.create_cq(), self.recv_cq, max_recv_wr=_RECEIVES
        )
        self.qp.connect(self.peer_qp.endpoint())
        self.peer_qp.connect(self.qp.endpoint())
        self.region: MemoryRegion = destination.nic.register_memory(self.slots.buffer)
        self.posted = 0
        self.completed = 0
        self.succeeded = 0
        self.immediates = 0
        self.failed = False
        self._first_number = 0 if flow.stripe else index * flow.repeat
        if flow.immediate:
            for number in range(min(_RECEIVES, flow.depth * 2)):
                self.peer_qp.post_recv(number)
            running.watch(destination, self.recv_cq, self._received)

    def _contents(self, number: int) -> memoryview:
        return self.running.pattern.message(self._first_number + number)[self._start : self._end]

    @property
    def _together(self) -> list[_Channel]:
        """The channels that share the messages."""
        return self.running.channels if self.running.flow.stripe else [self]

    @property
    def _stopped(self) -> bool:
        return any(channel.failed for channel in self._together)

    def post(self, now_ns: int) -> None:
        """Post as many messages as may be posted now."""
        flow = self.running.flow
        completed = min(channel.completed for channel in self._together)
        while self.posted - completed < flow.depth and not self._stopped:
            if flow.until_ns is None:
                if self.posted >= flow.repeat:
                    return
            elif now_ns >= flow.until_ns:
                return
            slot = self.posted % flow.depth
            self.qp.post_write(
                WriteRequest(
                    wr_id=self.posted,
                    data=self._contents(self.posted),
                    remote_va=self.region.va + self.slots.offset(slot),
                    rkey=self.region.rkey,
                    imm=self.posted & 0xFFFFFFFF if flow.immediate else None,
                )
            )
            self.posted += 1

    def done(self, now_ns: int) -> bool:
        """Whether nothing is outstanding and nothing more will be posted."""
        flow = self.running.flow
        if self.completed < self.posted:
            return False
        if self._stopped:
            return True
        if flow.until_ns is not None:
            return now_ns >= flow.until_ns
        return self.posted >= flow.repeat

    def take_completions(self, now_ns: int) -> None:
        """Check the memory of what is done and post more."""
        running, flow = self.running, self.running.flow
        for completion in self.cq.poll():
            number = completion.wr_id
            if number != self.completed:
                running.problems["completions out of order"] += 1
            self.completed += 1
            if completion.status is not WcStatus.SUCCESS:
                running.errors[completion.status.value] += 1
                self.failed = True
                continue
            slot = number % flow.depth
            running.wrong_bytes += self.slots.wrong_bytes(slot, self._contents(number))
            self.slots.clear(slot)
            self.succeeded += 1
            running.completed_bytes += self.size_bytes
            running.last_completion_ns = now_ns
            if not flow.stripe or self.succeeded == min(
                channel.succeeded for channel in running.channels
            ):
                running.message_completed(now_ns)
        for channel in self._together:
            channel.post(now_ns)

    def _received(self, now_ns: int) -> None:
        """WriteIMM at the destination: in order of posting, each once."""
        running = self.running
        for completion in self.recv_cq.poll():
            if completion.status is not WcStatus.SUCCESS:
                continue
            if completion.imm != self.immediates & 0xFFFFFFFF:
                running.problems["immediates out of order"] += 1
            if completion.byte_len != self.size_bytes:
                running.problems["immediates with a wrong length"] += 1
            self.immediates += 1
            self.peer_qp.post_recv(completion.wr_id)


class RunningFlow:
    """A flow while it runs.

    Attributes:
        completed_bytes, completed_messages: with success, memory checked.
        last_completion_ns: when the latest was.
        message_ns: when the first ones were.
        wrong_bytes: bytes of memory that were not what they should be.
        errors: failed work requests, by status.
        problems: other things that must not be, by kind.
    """

    def __init__(self, flow: Flow, network: Network, loop_at: Callable[..., None]) -> None:
        self.flow = flow
        self.source: HostNode = network.hosts[flow.source]
        self.destination: HostNode = network.hosts[flow.destination]
        self.network = network
        self.pattern = Pattern(random_of(network.seed, f"flow {flow.name}"), flow.size_bytes)
        self.completed_bytes = 0
        self.completed_messages = 0
        self.last_completion_ns: int | None = None
        self.message_ns: list[int] = []
        self.wrong_bytes = 0
        self.errors: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.on_done: Callable[[RunningFlow], None] | None = None
        self.is_done = False
        self.channels = [
            _Channel(self, index, *part)
            for index, part in enumerate(_parts(flow, self.source.config.path_mtu_bytes))
        ]
        for channel in self.channels:
            self.watch(self.source, channel.cq, channel.take_completions)
        loop_at(flow.start_ns, self._start)
        if flow.until_ns is not None:
            loop_at(flow.until_ns, self._check_end)

    def message_completed(self, now_ns: int) -> None:
        """A message has landed, all of it."""
        self.completed_messages += 1
        if len(self.message_ns) < MAX_MESSAGE_TIMES:
            self.message_ns.append(now_ns)

    def watch(self, host: HostNode, cq: CompletionQueue, act: Callable[[int], None]) -> None:
        """Call `act` when a completion queue gets something, at the end of that time."""

        def notified(queue: CompletionQueue) -> None:
            host.notice(run)

        def run(now_ns: int) -> None:
            act(now_ns)
            cq.request_notify(notified)
            self._check_done(now_ns)

        cq.request_notify(notified)

    def _start(self, now_ns: int, _a: object, _b: object) -> None:
        for channel in self.channels:
            channel.post(now_ns)
        self.source.touch()

    def _check_end(self, now_ns: int, _a: object, _b: object) -> None:
        self._check_done(now_ns)

    def _check_done(self, now_ns: int) -> None:
        if not self.is_done and all(channel.done(now_ns) for channel in self.channels):
            self.is_done = True
            if self.on_done is not None:
                self.on_done(self)

    # --- what it did ---

    def delivered_bytes(self) -> int:
        """Payload placed in memory so far, each byte once."""
        total = 0
        for channel in self.channels:
            responder = channel.peer_qp.responder
            if responder is not None:
                total += responder.stats.payload_bytes
        return total

    def posted_messages(self) -> int:
        """Messages posted so far."""
        return sum(channel.posted for channel in self.channels)

    def total_bytes(self) -> int | None:
        """What it will have written at its end; None where time ends it."""
        return self.flow.total_bytes

    def outstanding_wrong_bytes(self) -> int:
        """At the end: guard bytes and unused slots that were written to all the same."""
        wrong = 0
        for channel in self.channels:
            for slot in range(channel.slots.count):
                in_use = any(
                    number % channel.slots.count == slot
                    for number in range(channel.completed, channel.posted)
                )
                if not in_use and not channel.failed:
                    wrong += channel.slots.written_bytes(slot)
        return wrong


def _parts(flow: Flow, path_mtu_bytes: int) -> list[tuple[int, int]]:
    """For each queue pair, the part of a message that it writes."""
    if not flow.stripe:
        return [(0, flow.size_bytes)] * flow.qps
    return message_parts(flow.size_bytes, flow.qps, path_mtu_bytes)
