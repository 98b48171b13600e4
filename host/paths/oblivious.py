"""Oblivious spraying: the EVs of a queue pair in turn, whatever is heard of them.

What is left of mrc-protocol.md, section 3, without its reactions: the rotation. For comparisons.
"""

from __future__ import annotations

from host.paths.ev_set import EvSet
from host.wire.constants import NackReason


class ObliviousEvSet(EvSet):
    """An `EvSet` that no feedback moves.

    Planes still go down and come up with their ports, and an administrator may still deny EVs.
    """

    __slots__ = ()

    def on_sack(self, ev: int, m: int, now_ns: int) -> None:
        """Passed over."""

    def on_nack(self, ev: int, reason: NackReason, now_ns: int) -> None:
        """Passed over."""

    def on_timeout(self, ev: int, sent_ns: int, now_ns: int) -> None:
        """Passed over."""
