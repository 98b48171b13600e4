"""What the server needs of the switch around it; `softswitch.runtime.Runtime` has it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from softswitch.pipeline import Pipeline
from softswitch.program import Program
from softswitch.replication import ReplicationEngine

PacketInCallback = Callable[[bytes], bool]
"""Takes a frame that left through the CPU port; False where no controller is there to take it."""

DigestCallback = Callable[[str, tuple[int, ...]], None]
"""Told of a digest message: the digest's name and its values, one integer a field."""


class SwitchAccess(Protocol):
    """One switch, as its control plane sees it."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by the packet loop for a batch, and by the server while it touches state."""
        ...

    @property
    def replication(self) -> ReplicationEngine:
        """Multicast groups and clone sessions; to be used with `lock` held."""
        ...

    def build(self, program: Program) -> Pipeline:
        """Compile a program without running it, `lock` not held. Raises `UnsupportedProgram`."""
        ...

    def install(self, pipeline: Pipeline) -> None:
        """Let a pipeline take over, with `lock` held; empties the replication engine."""
        ...

    def has_port(self, port: int) -> bool:
        """Whether the switch has this port, up or down."""
        ...

    def packet_out(self, frame: bytes) -> None:
        """Take a frame in from the CPU port, `lock` not held.

        Raises ValueError without a CPU port.
        """
        ...

    def now_ns(self) -> int:
        """The switch's clock, which entries' last hits are kept in; with or without `lock`."""
        ...

    def set_callbacks(
        self, packet_in: PacketInCallback | None, digest: DigestCallback | None
    ) -> None:
        """Whom to tell of frames to the CPU port and of digests, None = nobody any more.

        The callables are called with `lock` held, return at once and do not raise.
        """
        ...
