"""The queue pair of MRC: what it adds to `BaseQueuePair`, and what it asks of its NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from host.paths.base import EvSelector
from host.qp.base import BaseQueuePair, QpAttributes
from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.qp.states import SendEvent
from host.qp.syndrome import Syndrome
from host.qp.timers import Timed
from host.qp.work import CompletionQueue, WcStatus

if TYPE_CHECKING:
    from host.qp.peer import Peer, SharedWindow


class QpOwner(Protocol):
    """What a queue pair needs of its NIC."""

    def arm(self, timed: Timed, deadline_ns: int) -> None:
        """Call its `handle_timer` at that time or before."""
        ...

    def want_control(self, qp: QueuePair) -> None:
        """The responder has an answer to send."""
        ...

    def send_event(self, qp: QueuePair, event: SendEvent) -> None:
        """For the table of scheduling states."""
        ...

    def connect(self, qp: QueuePair) -> tuple[Peer, SharedWindow, EvSelector]:
        """The queue pair goes to RTR: its peer, window and EVs."""
        ...

    def connected(self, qp: QueuePair) -> None:
        """The queue pair has its two halves."""
        ...

    def disconnect(self, qp: QueuePair) -> None:
        """The queue pair has no peer any more."""
        ...

    def qp_error(self, qp: QueuePair, status: WcStatus, syndrome: Syndrome | None = None) -> None:
        """The queue pair went to ERROR by itself; `syndrome` is the NAK that it sent, if any."""
        ...

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """As `MemoryTable.remote_write`."""
        ...

    def ports_up(self) -> int:
        """Mask of the local ports that are up."""
        ...

    def own_address(self) -> int:
        """The NIC's address."""
        ...


class QueuePair(BaseQueuePair[Requestor, Responder]):
    """A queue pair of a `Nic`, made by `Nic.create_qp`."""

    __slots__ = ("evs", "owner", "peer")

    def __init__(
        self,
        owner: QpOwner,
        number: int,
        attributes: QpAttributes,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        *,
        max_send_wr: int,
        max_recv_wr: int,
        pd: int,
    ) -> None:
        super().__init__(
            number,
            attributes,
            send_cq,
            recv_cq,
            max_send_wr=max_send_wr,
            max_recv_wr=max_recv_wr,
            pd=pd,
        )
        self.owner = owner
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

    def _own_address(self) -> int:
        return self.owner.own_address()

    def _send_event(self, event: SendEvent) -> None:
        self.owner.send_event(self, event)

    def _went_to_error(self, status: WcStatus, syndrome: Syndrome | None) -> None:
        self.owner.qp_error(self, status, syndrome)

    # --- what the two halves need ---

    def arm(self, half: Timed, deadline_ns: int) -> None:
        """See to it that a half's `handle_timer` is called at that time or before."""
        self.owner.arm(half, deadline_ns)

    def want_control(self) -> None:
        """The responder has an answer to send."""
        self.owner.want_control(self)

    def remote_write(self, rkey: int, va: int, length: int) -> memoryview | None:
        """Memory for a peer's write, or None."""
        return self.owner.remote_write(rkey, va, length, self._pd)

    def planes_up(self) -> int:
        """Mask of the planes that are up at both ends."""
        assert self.peer is not None
        return self.owner.ports_up() & self.peer.planes_up
