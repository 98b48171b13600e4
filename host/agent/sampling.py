"""What an agent is asked again and again while traffic runs: counters, and data sent by path."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.verbs import QueuePair
from topologies.addressing import AddressingError

if TYPE_CHECKING:
    from host.agent.agent import Agent

#: Offsets in a frame with an outer header: next header, outer and inner destination, BTH opcode
_NEXT_HEADER: Final = 20
_IN_IPV6: Final = 41
_CARRIER: Final = slice(38, 54)
_INNER_DESTINATION: Final = slice(78, 94)
_OPCODE: Final = 102
#: ... and without one: BTH opcode
_PLAIN_OPCODE: Final = 62
_FIRST_WRITE, _LAST_WRITE = 0xC6, 0xCB


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What a flow or collective does at this agent, so far.

    `posted`: messages posted, of a collective rounds done; `delivered_bytes`: payload placed in
    memory here, each byte once. None: the other end has it.
    """

    name: str
    posted: Callable[[], int] | None = None
    delivered_bytes: Callable[[], int] | None = None


class _Path:
    """Data frames sent to one outer destination address."""

    __slots__ = ("frames", "last_ns", "peer_address")

    def __init__(self, peer_address: int) -> None:
        self.peer_address = peer_address
        self.frames = 0
        self.last_ns = 0


class DataTally:
    """Data frames sent, by plane and by outer destination address. A few 100 ns a frame."""

    def __init__(self, planes: int) -> None:
        self.plane_bytes = [0] * planes
        self.paths: dict[bytes, _Path] = {}

    def add(self, frames: Iterable[tuple[int, bytes]], now_ns: int) -> None:
        """Frames that the NIC sends at `now_ns`, with their ports."""
        plane_bytes, paths = self.plane_bytes, self.paths
        for port, frame in frames:
            if frame[_NEXT_HEADER] == _IN_IPV6:
                if not _FIRST_WRITE <= frame[_OPCODE] <= _LAST_WRITE:
                    continue
                path = paths.get(frame[_CARRIER])
                if path is None:
                    address = int.from_bytes(frame[_INNER_DESTINATION], "big")
                    path = paths[frame[_CARRIER]] = _Path(address)
                path.frames += 1
                path.last_ns = now_ns
            elif not _FIRST_WRITE <= frame[_PLAIN_OPCODE] <= _LAST_WRITE:
                continue
            plane_bytes[port] += len(frame)


def requestors(qps: Iterable[QueuePair]) -> list[Requestor]:
    """The sending halves of those that are connected."""
    return [qp.core.requestor for qp in qps if qp.core.requestor is not None]


def responders(qps: Iterable[QueuePair]) -> list[Responder]:
    """The receiving halves of those that are connected."""
    return [qp.core.responder for qp in qps if qp.core.responder is not None]


def placed_bytes(halves: Sequence[Responder]) -> int:
    """Payload placed in memory, each byte once."""
    return sum(half.stats.payload_bytes for half in halves)


def sample(agent: Agent) -> dict[str, Any]:
    """Counters at one moment. Those of queue pairs are of the ones that there are."""
    posted: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    for account in agent.accounts:
        if account.posted is not None:
            posted[account.name] += account.posted()
        if account.delivered_bytes is not None:
            delivered[account.name] += account.delivered_bytes()
    stats = [qp.requestor.stats for qp in agent.nic.qps.values() if qp.requestor is not None]
    worked = agent.driver.statistics
    return {
        "now_ns": time.monotonic_ns(),
        "delivered": dict(delivered),
        "posted": dict(posted),
        "retransmissions": sum(each.retransmissions for each in stats),
        "timeouts": sum(each.timeouts for each in stats),
        "trims": sum(each.trims for each in stats),
        "frames_sent": worked.frames_out,
        "frames_received": worked.frames_in,
        "plane_bytes": list(agent.tally.plane_bytes),
        "nic_drops": dict(agent.nic.drops),
        "port_losses": agent.driver.losses(),
        "cpu_ns": agent.cpu_time_ns(),
    }


def data_paths(agent: Agent) -> list[dict[str, Any]]:
    """Data frames sent by outer destination address, and when the last; none without SRv6."""
    told = []
    for carrier, path in agent.tally.paths.items():
        template = agent.config.template(path.peer_address)
        ev: int | None = None
        if template is not None:
            try:
                ev = template.ev(int.from_bytes(carrier, "big"))
            except AddressingError:
                ev = None
        told.append(
            {
                "peer": agent.host_name(path.peer_address),
                "ev": ev,
                "carrier": carrier.hex(),
                "frames": path.frames,
                "last_ns": path.last_ns,
            }
        )
    return told
