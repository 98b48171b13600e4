"""A pipeline whose program is two Python functions: what the switch around it is tested with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from softswitch.pipeline import Again, EgressResult, IngressResult, Pipeline, State

Ingress = Callable[[bytes, int, int, Again | None], IngressResult]
Egress = Callable[[State, "Leaving"], EgressResult]


class Leaving:
    """What egress is told about a packet."""

    def __init__(self, *told: int) -> None:
        (
            self.port,
            self.now_ns,
            self.rid,
            self.enqueued_ns,
            self.enq_qdepth,
            self.deq_qdepth,
            self.qid,
        ) = told

    def __repr__(self) -> str:
        return repr(vars(self))


def send_to(port: int, frame: bytes, priority: int = 0) -> IngressResult:
    """Unicast of a frame as it is."""
    return port, priority, 0, len(frame), (frame,), None


def as_it_is(state: State, _leaving: Leaving) -> EgressResult:
    """An egress that changes nothing."""
    frame: bytes = state[0]
    return frame


def scripted(ingress: Ingress, egress: Egress = as_it_is) -> Pipeline:
    """Return an object with the calling convention of `softswitch.pipeline`."""
    script = _Script(ingress, egress)
    return cast(Pipeline, script)


class _Script:
    def __init__(self, ingress: Ingress, egress: Egress) -> None:
        self._ingress = ingress
        self._egress = egress
        self.ports_down: set[int] = set()
        self.left: list[Leaving] = []

    def ingress(
        self, frame: bytes, port: int, now_ns: int, again: Again | None = None
    ) -> IngressResult:
        return self._ingress(frame, port, now_ns, again)

    def egress(self, state: State, *told: Any) -> EgressResult:
        leaving = Leaving(*told)
        self.left.append(leaving)
        return self._egress(state, leaving)

    def set_port_up(self, port: int, up: bool) -> None:
        (self.ports_down.discard if up else self.ports_down.add)(port)
