"""Collectives over MRC: all-reduce, all-gather, reduce-scatter, all-to-all, send/recv, broadcast.

State machines over the calls of `host.verbs`, without a clock and without waiting: the same in
virtual time, in an event loop and in tests. docs/collectives.md has the whole of it.
"""

from host.collectives.calls import (
    Options,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    recv,
    reduce_scatter,
    send,
    send_recv,
)
from host.collectives.datatypes import DataType, ReduceOp
from host.collectives.exchange import LinkInfo, RankInfo
from host.collectives.group import Group, GroupError
from host.collectives.job import Job, JobSpec
from host.collectives.kinds import Collective
from host.collectives.member import Member
from host.collectives.messages import Failure, Reason
from host.collectives.operation import Operation
from host.collectives.reference import Reference, contents, wrong_elements
from host.collectives.registry import COLLECTIVES, CollectiveKind, collective_kind

__all__ = [
    "COLLECTIVES",
    "Collective",
    "CollectiveKind",
    "DataType",
    "Failure",
    "Group",
    "GroupError",
    "Job",
    "JobSpec",
    "LinkInfo",
    "Member",
    "Operation",
    "Options",
    "RankInfo",
    "Reason",
    "ReduceOp",
    "Reference",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "collective_kind",
    "contents",
    "recv",
    "reduce_scatter",
    "send",
    "send_recv",
    "wrong_elements",
]
