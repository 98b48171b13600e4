"""Groups over `host.verbs` and whole NICs, on a network that loses and reorders."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from host.collectives import COLLECTIVES, DataType, Failure, Job, JobSpec, Member, Options, RankInfo
from host.collectives.messages import Reason
from host.nic import Nic
from host.profiles import MrcProfiles
from host.qp.work import WcStatus
from host.verbs import Context, Device, InvalidArgumentError, MrcQpAttr
from tests.host.network import Faults, Network, config
from tests.host.verbs.world import VirtualDriver

HOSTS = ("h0", "h2", "h1", "h3")
SPEC = JobSpec("all-reduce", 60_000, DataType.INT32, options=Options(chunk_bytes=5000, depth=3))


@dataclass
class Ranks:
    network: Network
    contexts: list[Context]
    members: list[Member]
    jobs: list[Job]

    def run(self, for_ns: int = 10**9) -> None:
        """Until all jobs are done, or for so long."""
        groups = [job.group for job in self.jobs]

        def over() -> bool:
            for group in groups:
                group.progress()
            return all(job.done for job in self.jobs)

        self.network.run(over, self.network.now_ns + for_ns)
        over()


def contexts_of(network: Network) -> list[Context]:
    return [Device(nic, VirtualDriver(network)).open_context() for nic in network.nics]


def ranks(
    spec: JobSpec = SPEC,
    size: int = 4,
    *,
    faults: Faults | None = None,
    seed: int = 0,
    lanes: int = 1,
    mrc_attr: MrcQpAttr | None = None,
    **changes: Any,
) -> Ranks:
    nics = [
        Nic(config(host, **changes), seed=seed + number, profiles=MrcProfiles())
        for number, host in enumerate(HOSTS[:size])
    ]
    network = Network(nics, seed=seed, faults=faults)
    contexts = contexts_of(network)
    members = [
        Member(
            context.alloc_pd(), rank, size, peers=spec.kind.peers(rank, size), lanes=lanes,
            mrc_attr=mrc_attr,
        )
        for rank, context in enumerate(contexts)
    ]  # fmt: skip
    table = [RankInfo.from_json(json.loads(json.dumps(each.info().to_json()))) for each in members]
    jobs = [Job(member.connect(table), spec) for member in members]
    for job in jobs:
        job.start()
    return Ranks(network, contexts, members, jobs)


def check(world: Ranks) -> None:
    for job in world.jobs:
        assert job.done and job.failure is None and job.wrong_elements == 0


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("size", [2, 4])
def test_every_collective_on_a_network_that_loses_and_reorders(name: str, size: int) -> None:
    faults = Faults(loss=0.01, duplicate=0.01, corrupt=0.005, trim=0.01, mark=0.02, jitter_ns=5000)
    spec = replace(SPEC, collective=name, rounds=2)
    world = ranks(spec, size, faults=faults, seed=size, rate_bps=100 * 10**9)
    world.run()
    check(world)
    for member in world.members:
        member.close()
    for context in world.contexts:
        context.close()
        # Closing took everything with it
        assert not context.device.nic.qps and not len(context.device.nic.memory)


@pytest.mark.parametrize("lanes", [1, 3])
def test_one_write_with_immediate_in_flight_is_enough(lanes: int) -> None:
    nic = config("h0")
    world = ranks(lanes=lanes, qp=replace(nic.qp, max_wimm=1), rate_bps=10**11)
    world.run()
    check(world)
    sent = [
        qp.core.requestor.stats.packets
        for qps in world.members[0].queue_pairs.values()
        for qp in qps
        if qp.core.requestor is not None
    ]
    assert len(sent) == 2 * lanes and sum(count > 3 for count in sent) >= lanes


def test_a_network_that_ends_ends_the_group_on_all_ranks() -> None:
    attr = MrcQpAttr(timeout=2, linear_cnt=1, exp_cnt=1)
    world = ranks(mrc_attr=attr, rate_bps=10**11)
    cut = {world.network.nics[rank].config.address for rank in (1, 2)}

    def passes(nic: Nic, _: int, frame: bytes) -> bool:
        """Nothing between ranks 1 and 2 any more."""
        ends = {nic.config.address, int.from_bytes(frame[14 + 64 : 14 + 80], "big")}
        return ends != cut

    world.network.at(3000, lambda: setattr(world.network, "passes", passes))
    world.run()
    told = [job.failure for job in world.jobs]
    assert all(failure is not None and failure.reason is Reason.QP_ERROR for failure in told)
    seen = {(each.rank, each.peer, each.status) for each in told if each is not None}
    retries = WcStatus.RETRY_EXCEEDED_ERROR
    assert seen <= {(1, 2, retries), (2, 1, retries)}
    # Ranks 0 and 3 have no queue pair that broke: they were told
    assert isinstance(told[0], Failure) and told[0].rank in (1, 2)


def test_closing_members_while_they_work() -> None:
    world = ranks(rate_bps=10**11)
    for _ in range(50):
        world.network.step()
    for member in world.members:
        member.close()
        member.close()
    assert all(job.done and job.failure is not None for job in world.jobs)
    for context in world.contexts:
        context.close()


# --- set-up ---


def members(size: int = 2, lanes: int = 1) -> list[Member]:
    nics = [Nic(config(host), seed=number) for number, host in enumerate(HOSTS[:size])]
    return [
        Member(context.alloc_pd(), rank, size, lanes=lanes)
        for rank, context in enumerate(contexts_of(Network(nics)))
    ]


def test_a_table_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    near, far = members()
    row = far.info()
    cases = [
        ([], "table: rank 1 is missing"),
        ([replace(row, size=3)], "rank 1: size: 3 does not fit: here it is 2"),
        ([replace(row, links=())], "rank 1 has no link with rank 0"),
        ([replace(row, links=(replace(row.links[0], qps=()),))], "it has 0 QPs for a link"),
        (
            [
                replace(
                    row,
                    links=(replace(row.links[0], mailbox=replace(row.links[0].mailbox, length=8)),),
                )
            ],
            "mailbox: 8 bytes are too few",
        ),
    ]
    for table, message in cases:
        with pytest.raises(InvalidArgumentError, match=message):
            near.connect(table)
    near.connect([row])
    with pytest.raises(InvalidArgumentError, match="connected already"):
        near.connect([row])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 9}, "version: 9 does not fit"),
        ({"rank": "0"}, "rank: rank: '0' does not fit"),
        ({"links": {}}, "rank: links: {} does not fit: it must be a list"),
        ({"links": [{"peer": 1}]}, "link: mailbox is missing"),
        ({"extra": 1}, "there is no extra"),
    ],
)
def test_rows_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    document = {**members()[0].info().to_json(), **change}
    with pytest.raises(InvalidArgumentError, match=message):
        RankInfo.from_json(document)
    with pytest.raises(InvalidArgumentError, match="must be an object"):
        RankInfo.from_json([])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rank": 2}, "rank: 2 does not fit: it must be 0..1"),
        ({"lanes": 0}, "lanes: 0 does not fit"),
        ({"peers": [7]}, r"peers: \[7\] do not fit"),
    ],
)
def test_members_that_cannot_be(values: dict[str, Any], message: str) -> None:
    context = contexts_of(Network([Nic(config("h0"), seed=0)]))[0]
    with pytest.raises(InvalidArgumentError, match=message):
        Member(context.alloc_pd(), **{"rank": 0, "size": 2, **values})
