"""Collectives of a scenario: a group of ranks on hosts, over the same API that users have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from host.collectives import Job, Member
from host.collectives.of_scenario import job_spec
from host.qp.stats import sums
from host.verbs import Context, Device
from sim.host_node import HostNode
from sim.loop import EventLoop
from sim.network import Network
from topologies.scenario import Collective
from topologies.seeds import seed_of


class _Driver:
    """What lets a NIC work: the event loop."""

    def __init__(self, host: HostNode, loop: EventLoop) -> None:
        self._host = host
        self._loop = loop

    def now_ns(self) -> int:
        return self._loop.now_ns

    def kick(self) -> None:
        self._host.touch()


@dataclass(slots=True)
class Rank:
    """A rank of a collective and its host."""

    host: HostNode
    member: Member
    job: Job


class RunningCollective:
    """A collective while it runs.

    Attributes:
        ranks: in order.
        round_ends_ns: when each round was over on all ranks.
        started_ns: when it began; None: it has not.
    """

    def __init__(self, item: Collective, network: Network, loop: EventLoop) -> None:
        self.item = item
        self.network = network
        self.on_done: Callable[[RunningCollective], None] | None = None
        self.is_done = False
        self.started_ns: int | None = None
        self.round_ends_ns: list[int] = []
        self._round_counts = [0] * item.repeat
        self._loop = loop
        spec = self.spec = job_spec(item, seed_of(network.seed, f"collective {item.name}"))
        size = len(item.hosts)
        reference = spec.reference(size)
        hosts = [network.hosts[name] for name in item.hosts]
        members = [self._member(host, rank) for rank, host in enumerate(hosts)]
        table = [member.info() for member in members]
        self.ranks = [
            Rank(
                host,
                member,
                Job(member.connect(table), spec, reference=reference, on_round=self._round_over),
            )
            for host, member in zip(hosts, members, strict=True)
        ]
        cores = [qp.core for member in members for qps in member.queue_pairs.values() for qp in qps]
        self._requestors = [core.requestor for core in cores if core.requestor is not None]
        self._responders = [core.responder for core in cores if core.responder is not None]
        for rank in self.ranks:
            rank.job.on_done = self._rank_done
            self._watch(rank)
        self._left = size
        loop.at(item.start_ns, self._start)

    def _member(self, host: HostNode, rank: int) -> Member:
        context: Context = Device(host.nic, _Driver(host, self._loop)).open_context()
        size = len(self.item.hosts)
        peers = self.spec.kind.peers(rank, size)
        return Member(context.alloc_pd(), rank, size, peers=peers, lanes=self.item.qps)

    def _watch(self, rank: Rank) -> None:
        """Let a rank go on when something completes, at the end of that time."""
        host, queue, group = rank.host, rank.member.cq.core, rank.job.group

        def notified(_: object) -> None:
            host.notice(run)

        def run(_: int) -> None:
            group.progress()
            queue.request_notify(notified)

        queue.request_notify(notified)

    def _start(self, now_ns: int, _a: object, _b: object) -> None:
        self.started_ns = now_ns
        for rank in self.ranks:
            rank.job.start()

    def _round_over(self, number: int) -> None:
        self._round_counts[number] += 1
        if self._round_counts[number] == len(self.ranks):
            self.round_ends_ns.append(self._loop.now_ns)

    def _rank_done(self, _: Job) -> None:
        self._left -= 1
        if not self._left:
            self.is_done = True
            if self.on_done is not None:
                self.on_done(self)

    # --- what it did ---

    @property
    def moved_bytes(self) -> int:
        """The size of one round, after rounding to whole elements and blocks."""
        return self.spec.moved_bytes(len(self.ranks))

    @property
    def round_ns(self) -> list[int]:
        """How long each round took that is over on all ranks, from the end of the one before."""
        last_ns = self.started_ns or 0
        times = []
        for end_ns in self.round_ends_ns:
            times.append(end_ns - last_ns)
            last_ns = end_ns
        return times

    def bandwidths_bps(self) -> tuple[float, float]:
        """(algorithm, bus) bandwidth over all rounds that are over, as nccl-tests has them."""
        times = self.round_ns
        if not times:
            return 0.0, 0.0
        mean_ns = sum(times) / len(times)
        return self.spec.kind.bandwidths_bps(self.moved_bytes, len(self.ranks), mean_ns)

    def delivered_bytes(self) -> int:
        """Payload placed in memory so far, each byte once; what ranks tell each other counts."""
        return sum(responder.stats.payload_bytes for responder in self._responders)

    def posted_messages(self) -> int:
        """Rounds that ranks have done so far: with what was delivered, whether anything moves."""
        return sum(rank.job.rounds_done for rank in self.ranks)

    def total_bytes(self) -> int:
        """About what will have been delivered at the end, without what ranks tell each other."""
        size = len(self.ranks)
        per_rank = self.moved_bytes * self.spec.kind.bus_factor(size)
        senders = size - 1 if self.spec.kind.rooted else size
        return round(per_rank * senders) * self.item.repeat if size > 1 else 0

    def totals(self) -> tuple[Counter[str], Counter[str]]:
        """Counters of all of its requestors, and of all of its responders, by their names."""
        return sums(self._requestors), sums(self._responders)

    @property
    def wrong_elements(self) -> int:
        """Elements that are not what they should be."""
        return sum(rank.job.wrong_elements for rank in self.ranks)

    @property
    def failures(self) -> dict[str, str]:
        """Of ranks that failed, by host: why."""
        return {
            rank.host.name: str(rank.job.failure)
            for rank in self.ranks
            if rank.job.failure is not None
        }
