"""The books of the fabric: what went in must have come out, or be counted where it was dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from topologies.model import Fabric, LinkEnd

_RECEIVED: Final = "received"
_SENT_DATA: Final = "sent_data"
_SENT_CONTROL: Final = "sent_control"
_DROPPED: Final = "dropped_"

#: (counter, without the controls it stands in; port) → packets
Cells = Mapping[tuple[str, int], int]


def short_name(counter: str) -> str:
    """'FabricIngress.admission.trimmed' → 'trimmed'."""
    return counter.rsplit(".", 1)[-1]


@dataclass(slots=True)
class SwitchBooks:
    """Packets of one switch, over all ports, between two readings."""

    received: int = 0
    sent_data: int = 0
    sent_control: int = 0
    trimmed: int = 0
    marked_ce: int = 0
    #: By reason
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def uncounted(self) -> int:
        """Came in and neither went out nor was counted as dropped; 0 is right."""
        return self.received - self.sent_data - self.sent_control - self.dropped.total()


def difference(after: Cells, before: Cells) -> dict[tuple[str, int], int]:
    """What was counted between two readings."""
    return {cell: packets - before.get(cell, 0) for cell, packets in after.items()}


def switch_books(cells: Cells) -> SwitchBooks:
    """Sums over the ports of a switch."""
    books = SwitchBooks()
    for (name, _), packets in cells.items():
        match name:
            case "received" | "sent_data" | "sent_control" | "trimmed" | "marked_ce":
                setattr(books, name, getattr(books, name) + packets)
            case _ if name.startswith(_DROPPED) and packets:
                books.dropped[name.removeprefix(_DROPPED)] += packets
    return books


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """Packets that one end of a link sent and the other did not see."""

    sender: str
    receiver: str
    sent: int
    received: int


def link_losses(
    fabric: Fabric,
    cells: Mapping[str, Cells],
    host_sent: Mapping[tuple[str, int], int],
    host_received: Mapping[tuple[str, int], int],
) -> list[LinkLoss]:
    """Every direction of every link whose two ends do not agree.

    `cells` by switch; host counts by (host, plane). Switches that were not read are left out.
    """

    def sent(end: LinkEnd) -> int | None:
        if end.is_host:
            return host_sent.get((end.node, end.port), 0)
        if end.node not in cells:
            return None
        of_switch = cells[end.node]
        return sum(of_switch.get((name, end.port), 0) for name in (_SENT_DATA, _SENT_CONTROL))

    def received(end: LinkEnd) -> int | None:
        if end.is_host:
            return host_received.get((end.node, end.port), 0)
        return cells[end.node].get((_RECEIVED, end.port), 0) if end.node in cells else None

    losses = []
    for link in fabric.links():
        for one, other in ((link.lower, link.upper), (link.upper, link.lower)):
            out, into = sent(one), received(other)
            if out is not None and into is not None and out != into:
                losses.append(LinkLoss(one.node, other.node, out, into))
    return losses


def total_dropped(books: Iterable[SwitchBooks]) -> Counter[str]:
    """Counted drops of all switches by reason."""
    total: Counter[str] = Counter()
    for each in books:
        total.update(each.dropped)
    return total
