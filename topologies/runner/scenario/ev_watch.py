"""What agents tell while it happens: states of EVs, ports, queue pairs that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from reports.result import EvTransition
from topologies.runner.scenario.clock import RunClock

#: EV transitions that are kept one by one; all are counted
MAX_EV_TRANSITIONS: Final = 10_000
#: Events of agents by the names that virtual time has for them
_KINDS: Final = {"port": "PortChanged", "peer_ports": "PeerPortsChanged", "qp_error": "QpError"}


class EvWatch:
    """Collects events; those from before time 0 belong to nobody.

    `fresh` are transitions that nobody has shown yet.
    """

    def __init__(self, clock: RunClock) -> None:
        self.transitions: list[EvTransition] = []
        self.counts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.fresh: list[EvTransition] = []
        self._clock = clock

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """An event of a host's agent."""
        now_ns = self._clock.run_ns(event["now_ns"])
        if now_ns < 0:
            return
        kind = event["event"]
        if kind != "ev_state":
            self.events[_KINDS.get(kind, kind)] += 1
            return
        transition = EvTransition(
            now_ns=now_ns,
            host=host,
            peer=event["peer"] or "?",
            qp_num=event["qp"],
            ev=event["ev"],
            old=event["old"],
            new=event["new"],
            cause=event["cause"],
            replaced_by=event["replaced_by"],
        )
        self.counts[f"{transition.old} → {transition.new}: {transition.cause}"] += 1
        if len(self.transitions) < MAX_EV_TRANSITIONS:
            self.transitions.append(transition)
            self.fresh.append(transition)

    def in_order(self) -> list[EvTransition]:
        """All that were kept, by time."""
        return sorted(self.transitions, key=lambda each: each.now_ns)
