"""What the server needs of the switch around it, and the adapter for `softswitch.switch.Switch`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from softswitch.pipeline import Pipeline
from softswitch.program import Program
from softswitch.replication import ReplicationEngine
from softswitch.switch import Switch

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


class SwitchControl:
    """`SwitchAccess` to a `Switch` without a `softswitch.runtime.Runtime`, which is one itself.

    Args:
        switch: the switch.
        lock: what serialises packets and control on it.
        now_ns: the clock that the packet loop uses.
        wake: called without the lock after the switch may have got something to send.
    """

    def __init__(
        self,
        switch: Switch,
        lock: AbstractContextManager[Any],
        now_ns: Callable[[], int],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._switch = switch
        self._lock = lock
        self._now_ns = now_ns
        self._wake = wake

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock given at construction."""
        return self._lock

    @property
    def replication(self) -> ReplicationEngine:
        """The switch's replication engine."""
        return self._switch.replication

    def build(self, program: Program) -> Pipeline:
        """A pipeline with the switch's seed and drop port."""
        return Pipeline(program, seed=self._switch.seed, drop_port=self._switch.drop_port)

    def install(self, pipeline: Pipeline) -> None:
        """`Switch.install`."""
        self._switch.install(pipeline)

    def has_port(self, port: int) -> bool:
        """Whether it is one of `Switch.ports`."""
        return port in self._switch.ports

    def packet_out(self, frame: bytes) -> None:
        """`Switch.packet_out`, then `wake`."""
        with self._lock:
            self._switch.packet_out(frame, self._now_ns())
        self._wake()

    def now_ns(self) -> int:
        """The clock given at construction."""
        return self._now_ns()

    def set_callbacks(
        self, packet_in: PacketInCallback | None, digest: DigestCallback | None
    ) -> None:
        """Set the switch's callbacks."""
        self._switch.on_packet_in = packet_in
        self._switch.on_digest = digest
