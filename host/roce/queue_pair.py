"""The RC queue pair of RoCE: what it adds to `BaseQueuePair`, and what it asks of its NIC."""

from __future__ import annotations

from typing import Protocol

from host.qp.base import BaseOwner, BaseQueuePair
from host.roce.requestor import RoceRequestor
from host.roce.responder import RoceResponder


class RoceOwner(BaseOwner["RoceQueuePair"], Protocol):
    """What a queue pair needs of its NIC."""

    def halves(self, qp: RoceQueuePair) -> tuple[RoceRequestor, RoceResponder]:
        """The queue pair goes to RTR."""
        ...


class RoceQueuePair(BaseQueuePair[RoceOwner, RoceRequestor, RoceResponder]):
    """A queue pair of a `RoceNic`, made by `RoceNic.create_qp`.

    Of its attributes, those that only MRC has (MPR, WriteIMM, trim NACKs, profiles) say nothing.
    """

    __slots__ = ()

    # --- states ---

    def _make_halves(self) -> None:
        self.requestor, self.responder = self.owner.halves(self)

    def _set_up_requestor(self) -> None:
        self.requestor, _ = self.owner.halves(self)

    def _forget_peer(self) -> None:
        if self.requestor is not None:
            self.owner.disconnect(self)
