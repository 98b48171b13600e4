"""Counters of the halves of queue pairs, of all transports, and of many halves added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Protocol


@dataclass(slots=True)
class RequestorStats:
    """What a requestor did, since it was made. What its transport does not have stays 0."""

    packets: int = 0
    payload_bytes: int = 0
    retransmissions: int = 0
    probes: int = 0
    #: Local ACK timeouts
    timeouts: int = 0
    #: NACKs of trimmed packets
    trims: int = 0
    #: NACKs for want of a resource; of RoCE, RNR NAKs
    refusals: int = 0


@dataclass(slots=True)
class ResponderStats:
    """What a responder did, since it was made. What its transport does not have stays 0."""

    packets: int = 0
    payload_bytes: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    trimmed: int = 0
    ecn_marked: int = 0
    #: Answers sent: SACKs, NACKs (of RoCE, NAKs and RNR NAKs), transport ACKs
    sacks: int = 0
    nacks: int = 0
    acks: int = 0


class Counting(Protocol):
    """A requestor or a responder of any transport."""

    @property
    def stats(self) -> RequestorStats | ResponderStats:
        """What it did."""
        ...


def sums(halves: Iterable[Counting]) -> Counter[str]:
    """The counters of halves by their names."""
    totals: Counter[str] = Counter()
    for half in halves:
        for counter in fields(half.stats):
            totals[counter.name] += getattr(half.stats, counter.name)
    return totals
