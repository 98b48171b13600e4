"""What the runtime needs of a port's driver."""

from __future__ import annotations

from typing import Protocol

from rawsocket.losses import Loss, PortError

__all__ = ["Loss", "PortDriver", "PortError"]


class PortDriver(Protocol):
    """One attached port: frames in, frames out, without blocking.

    Losses are collected by the driver and taken by the runtime with `take_losses`, so that no path
    of a frame out of the switch goes uncounted.
    """

    @property
    def name(self) -> str:
        """The interface's name, for captures and messages."""

    @property
    def backlog(self) -> int:
        """Frames taken by `send` that are waiting for the interface to accept them."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when `receive` has something to return."""

    def receive(self, limit: int) -> list[bytes]:
        """Return up to `limit` frames that wait, oldest first; [] when there are none."""

    def send(self, frame: bytes) -> None:
        """Send a frame or keep it in the backlog; what fails is a loss."""

    def retry(self) -> None:
        """Try to send the backlog."""

    def link_down(self) -> None:
        """Give up the backlog: the port is down."""

    def take_losses(self, *, poll: bool) -> list[Loss]:
        """Return the losses since the last call; `poll` asks the kernel for its counters too."""

    def close(self) -> None:
        """Let go of everything."""
