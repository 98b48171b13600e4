"""The queue pair of MRC: what it adds to `BaseQueuePair`, and what it asks of its NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from host.paths.base import EvSelector
from host.qp.base import BaseOwner, BaseQueuePair, QpMake
from host.qp.requestor import Requestor
from host.qp.responder import Responder

if TYPE_CHECKING:
    from host.qp.peer import Peer, SharedWindow


class QpOwner(BaseOwner["QueuePair"], Protocol):
    """What a queue pair needs of its NIC."""

    def connect(self, qp: QueuePair) -> tuple[Peer, SharedWindow, EvSelector]:
        """The queue pair goes to RTR: its peer, window and EVs."""
        ...

    def connected(self, qp: QueuePair) -> None:
        """The queue pair has its two halves."""
        ...

    def ports_up(self) -> int:
        """Mask of the local ports that are up."""
        ...


class QueuePair(BaseQueuePair[QpOwner, Requestor, Responder]):
    """A queue pair of a `Nic`, made by `Nic.create_qp`."""

    __slots__ = ("evs", "peer")

    def __init__(self, owner: QpOwner, make: QpMake) -> None:
        super().__init__(owner, make)
        self.peer: Peer | None = None
        self.evs: EvSelector | None = None

    # --- states ---

    def _make_halves(self) -> None:
        peer, window, evs = self.owner.connect(self)
        self.peer = peer
        self.evs = evs
        self.responder = Responder(self)
        trimmable = self.attributes.trim_nack_dest
        self.requestor = Requestor(self, evs, peer.routes[trimmable], window)
        self.owner.connected(self)

    def _set_up_requestor(self) -> None:
        assert self.requestor is not None and self.peer is not None
        requestor = self.requestor
        trimmable = self.attributes.trim_nack_dest
        self.requestor = Requestor(
            self, requestor.evs, self.peer.routes[trimmable], requestor.window
        )

    def _forget_peer(self) -> None:
        if self.peer is not None:
            self.owner.disconnect(self)
        self.peer = None
        self.evs = None

    def planes_up(self) -> int:
        """Mask of the planes that are up at both ends."""
        assert self.peer is not None
        return self.owner.ports_up() & self.peer.planes_up
